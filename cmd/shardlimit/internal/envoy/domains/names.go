package domains

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
)

// subject returns the entries as one text, "key=value,key=value". No two lists
// of entries have the same. path is what they match, or nil.
func subject(entries []Entry, path []*node) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte(',')
		}
		if path != nil && path[i].share {
			e.Value = path[i].Value
		}
		_, _ = escaped.WriteString(&b, e.Key) // into memory
		b.WriteByte('=')
		_, _ = escaped.WriteString(&b, e.Value)
	}
	return b.String()
}

// escaped escapes what separates entries.
var escaped = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `=`, `\=`)

// metric returns the descriptor as metrics name it: the domain, and keys with
// the values that the configuration has, and those that it asks for. path is
// what the entries match; nil stands for a limit that only the request knows.
func metric(domain string, entries []Entry, path []*node) string {
	if path == nil {
		return domain
	}
	all := path[len(path)-1].allInMetric
	var b strings.Builder
	b.WriteString(domain)
	for i, n := range path {
		b.WriteByte('.')
		own := n.Value == "" || n.isWildcard() // the value is the request's own
		if own && !n.share && (all || n.valueInMetric) {
			b.WriteString(term(entries[i]))
		} else {
			b.WriteString(term(n.Entry))
		}
	}
	return b.String()
}

// term returns key_value, or the key where there is no value.
func term(e Entry) string {
	if e.Value == "" {
		return e.Key
	}
	return e.Key + "_" + e.Value
}

// namePrefix keeps the policies' names apart from those that the daemon's own
// configuration gives.
const namePrefix = "envoy."

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`) // as the library checks it

// policyName returns the name of the policy of the rule at path in the domain,
// "" for limits that only requests know: "envoy." and both, or where a policy
// can't have such a name, something like it and a digest of it. Two rules may
// have the same name; nobody is counted for both, since the subject has all
// entries.
func policyName(domain, path string) string {
	name := namePrefix + strings.Trim(domain+"."+path, ".")
	if nameForm.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	digest := "." + base64.RawURLEncoding.EncodeToString(sum[:])[:10]
	like := unfit.ReplaceAllString(name, "_")
	return like[:min(len(like), 64-len(digest))] + digest
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_.-]`)
