// Package keys names the Redis keys that the limiter uses: which key, hash tag
// and slot a subject has, which window a time falls in, and how the parts of a
// hot subject are spread over the slots.
//
// A key reads
//
//	<prefix>:{<subject>}:<policy>:<shape>[:<window index>]
//
// so all that one subject uses shares one slot, and subjects spread over all of
// them. Everything here is a pure function, safe for concurrent use.
package keys
