package tally

import (
	"cmp"
	"slices"
)

// Subject is what one subject was answered so far, under all policies.
type Subject struct {
	Subject  int // by index
	Admitted int64
	Denied   int64
	Unknown  int64 // answered by a failure mode or an error
}

func (s Subject) asked() int64 { return s.Admitted + s.Denied + s.Unknown }

// Hottest returns the n subjects that asked the most, of those whose every call
// is logged: the others ask less.
func (t *Tally) Hottest(n int) []Subject {
	var subjects []Subject
	for i := range min(watched, t.subjects) {
		s := Subject{Subject: i}
		for j := range t.books {
			t.books[j].addTo(&s)
		}
		subjects = append(subjects, s)
	}
	slices.SortStableFunc(subjects, func(a, b Subject) int { return cmp.Compare(b.asked(), a.asked()) })
	return subjects[:min(n, len(subjects))]
}

func (b *book) addTo(s *Subject) {
	mu := &b.mu[s.Subject%len(b.mu)]
	mu.Lock()
	defer mu.Unlock()
	a := &b.accounts[s.Subject]
	s.Admitted += a.Admitted
	s.Denied += a.Asked - a.Admitted
	s.Unknown += a.Unknown
}
