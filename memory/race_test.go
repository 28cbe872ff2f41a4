//go:build race

package memory

// raced says that the race detector is on.
const raced = true
