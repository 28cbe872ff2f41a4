package page

import (
	"cmp"
	"slices"

	"github.com/shardlimit/shardlimit/hotkey"
)

// hot is what this process decides by itself, as the page shows it.
type hot struct {
	Keys    []hotKey
	Known   int // hot keys, of which Keys are the hottest
	Entries int
	Cap     int
	Memory  string
	Counts  hotkey.Counts
}

// hotKey is one of the hottest subjects.
type hotKey struct {
	hotkey.HotKey
	Subject subject
	Rate    string
	Why     string // it has no lease
}

const (
	hotShown = 20   // of the hottest
	coldRate = 0.05 // requests a second, below which a subject isn't shown
)

func newHot(s *hotkey.Snapshot) hot {
	if s == nil {
		return hot{}
	}
	h := hot{Entries: s.Entries, Cap: s.Cap, Memory: bytes(s.Bytes), Counts: s.Counts}
	byRate := slices.SortedStableFunc(slices.Values(s.Hot), func(a, b hotkey.HotKey) int { return cmp.Compare(b.Rate, a.Rate) })
	for _, k := range byRate {
		if k.Rate < coldRate {
			continue
		}
		h.Known++
		if h.Known <= hotShown {
			h.Keys = append(h.Keys, hotKey{k, newSubject(k.Subject), rate(k.Rate), why(k)})
		}
	}
	return h
}

// why returns why the key has no lease, "" if it has one.
func why(k hotkey.HotKey) string {
	if k.Lease == nil && k.NoLease == hotkey.Leasable {
		return "asked for"
	}
	return k.NoLease.String()
}
