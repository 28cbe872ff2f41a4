// Package cluster takes a call to the primary that serves its key, and runs it
// there at most once, together with others as they come.
//
// What callers ask of one primary while pipelines are under way goes out as the
// next one. A caller waits for its own answer alone, and until its own deadline.
//
// A client for Redis sends a command again when its reply is lost, although it
// may have run. A call that charges must not be sent again then, so every
// command of this package tells the client not to. What a server refused did
// not run, and is sent again until the caller's context ends:
//
//   - MOVED and ASK: at once, to the node that they name
//   - NOSCRIPT: at once, with the script's text
//   - another window: at once, with the index that the shard's clock gives
//   - TRYAGAIN, CLUSTERDOWN, LOADING, MASTERDOWN, READONLY, BUSY, too many
//     clients, no connection: after a pause of a few milliseconds
//
// OOM, MISCONF and NOREPLICAS don't pass within a decision's time: the call
// never ran, and isn't sent again.
//
// # Permissions
//
// A user needs the keys' prefix and these commands: EVALSHA and EVAL; in a
// cluster CLUSTER SLOTS and ASKING; and what the scripts call: TIME, GET, SET,
// DEL, PEXPIRE, ZADD, ZCARD, ZCOUNT, ZRANGE, ZRANGEBYSCORE, ZREM and
// ZREMRANGEBYRANK. As an ACL, with the prefix "rl":
//
//	ACL SETUSER limiter on >secret ~rl:* +evalsha +eval +cluster|slots +asking
//	  +time +get +set +del +pexpire
//	  +zadd +zcard +zcount +zrange +zrangebyscore +zrem +zremrangebyrank
//
// The client also names itself with CLIENT SETINFO, and goes without where that
// is denied.
package cluster
