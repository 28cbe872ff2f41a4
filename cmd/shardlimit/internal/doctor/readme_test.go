package doctor_test

import (
	"os"
	"regexp"
	"testing"
)

// readmeRights returns the rights that the README says a limiter needs.
func readmeRights(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rights := regexp.MustCompile(`(?m)^~rl:\* .*$`).Find(text)
	if rights == nil {
		t.Fatal("the README names no rights")
	}
	return string(rights)
}
