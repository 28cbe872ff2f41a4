package doctor_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// document returns a document of the repository.
func document(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rightsIn returns the rights that a document lists.
func rightsIn(t *testing.T, path string) string {
	t.Helper()
	rights := regexp.MustCompile(`(?m)^~rl:\* .*$`).FindString(document(t, path))
	if rights == "" {
		t.Fatalf("%s names no rights", path)
	}
	return rights
}
