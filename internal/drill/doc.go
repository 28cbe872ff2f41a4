// Package drill rehearses what breaks: limiters under a steady load, a fault
// done to their cluster, and an exact account of what became of each call.
//
// A [Scenario] says what is done and what is promised meanwhile. [Run] returns a
// [Report] of it, whose Broken must be empty wherever it ran: nothing charged
// twice, nothing admitted beyond what the fault may have lost, each failure of its
// class, and all shards back in the end. What took how long is in there too, for
// whoever has a machine at rest.
package drill
