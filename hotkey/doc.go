// Package hotkey decides in the process what need not go to Redis, and sends
// together what has to.
//
// [Flights] let at most one call for a key and cost be under way from this
// process: those who come meanwhile go together in the next. They are exact, and
// for every key.
//
// A [Tier] answers by itself, without any I/O, what it knows the answer to: while
// a lease on the key has units left, which were charged in Redis before, and
// while a denial that Redis gave still holds. A key that is asked for often gets
// a lease in the background.
//
// What was paid for is kept in a table of entries, bounded and authoritative: a
// unit is spent once, or given back once. What may be lost, the denials of keys
// that are not hot, is in a ristretto cache, which drops most of what it is given
// under a flood of new keys, and forgets what it likes: leases kept there were
// granted twice for one key, and lost for good. So heat and the cache say who
// deserves an entry; entries own what was lent.
//
// The package speaks of keys, units and policies by number. Who asks Redis is
// handed in: a Send for flights, an [Asker] for leases.
package hotkey
