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
	first, pieces, many := strings.Cut(string(p), "*")
	if !many {
		return subject == first
	}
	rest, fits := strings.CutPrefix(subject, first)
	for fits {
		piece, after, more := strings.Cut(pieces, "*")
		if !more {
			return strings.HasSuffix(rest, piece)
		}
		_, rest, fits = strings.Cut(rest, piece)
		pieces = after
	}
	return false
}
