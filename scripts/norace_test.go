//go:build !race

package scripts_test

// raced says that the race detector is on.
const raced = false
