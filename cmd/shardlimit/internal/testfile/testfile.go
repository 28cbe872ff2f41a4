// Package testfile writes the files that tests read: configurations, limits,
// secrets.
package testfile

import (
	"os"
	"path/filepath"
	"testing"
)

// New returns the path of a file of this name and text, in a folder of its own
// that goes with the test.
func New(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Write(t, path, text)
	return path
}

// Write makes text all that the file at path holds.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
