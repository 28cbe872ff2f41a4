//go:build !race

package shardlimit_test

// raced says that the race detector is on.
const raced = false
