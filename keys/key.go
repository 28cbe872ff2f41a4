package keys

// For returns the key of subject under a policy of this name and shape. The
// subject alone is the hash tag. Prefix, policy and shape hold no brace, policy
// and shape no colon; then keys of different arguments differ.
//
// A subject may hold any bytes, but the empty one has no tag of its own and is
// the caller's to refuse.
func For(prefix, subject, policy, shape string) string {
	return prefix + ":{" + encode(subject) + "}:" + policy + ":" + shape
}
