package rules

import "strings"

// Pattern is a set of subjects, as text: a * stands for any characters, none
// included, and every other character for itself. So a text without a * is one
// subject.
type Pattern string

// Exact reports whether the pattern is one subject.
func (p Pattern) Exact() bool { return !strings.Contains(string(p), "*") }

// Match reports whether the subject is in the set.
func (p Pattern) Match(subject string) bool {
	pieces := strings.Split(string(p), "*")
	first, last := pieces[0], pieces[len(pieces)-1]
	if len(pieces) == 1 {
		return subject == first
	}
	rest, begins := strings.CutPrefix(subject, first)
	if !begins {
		return false
	}
	for _, piece := range pieces[1 : len(pieces)-1] {
		_, after, found := strings.Cut(rest, piece)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, last)
}
