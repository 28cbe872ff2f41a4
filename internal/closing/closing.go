// Package closing closes what a test opened, once the test ends. Whatever can't
// be closed fails the test.
package closing

import (
	"io"
	"testing"
)

// AtEnd returns c, and closes it when the test ends.
func AtEnd[C io.Closer](t testing.TB, c C) C {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Opened is AtEnd of what a constructor returned. An error of it ends the test.
func Opened[C io.Closer](t testing.TB, c C, err error) C {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return AtEnd(t, c)
}
