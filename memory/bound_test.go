package memory

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/shardlimit/shardlimit/scripts"
)

// bounded returns a store of about bound entries.
func bounded(bound int) *clocked {
	s := &clocked{Store: NewBounded(bound)}
	s.clock = s.now.Load
	s.now.Store(t0)
	return s
}

func TestFullStoreKeepsWhatCountsAndTakesNoMore(t *testing.T) {
	const bound = 640
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			s := bounded(bound)
			full := 0
			for i := range 10_000 {
				call := &scripts.Call{Plan: plan, Key: fmt.Sprint(i), Cost: 5, Count: 1, Nonce: nonces.Add(1)}
				switch reply, err := s.Do(context.Background(), call); {
				case errors.Is(err, ErrFull):
					full++
				case err != nil || reply.Granted != 1:
					t.Fatalf("Do = %+v, %v", reply, err)
				}
			}
			if held := s.Len(); held > bound || held+full != 10_000 {
				t.Errorf("%d entries held and %d refused, want at most %d held, and 10,000 in all", held, full, bound)
			}
			for key := range s.all() { // all of those is used, and stays so
				if reply := s.do(t, scripts.Peek, plan, key, 1); plan.Limits()[0].Remaining(reply.State(0), reply.Now) != 0 {
					t.Fatalf("%s has units left", key)
				}
			}
			s.now.Add(30 * second) // all has ended: there is room again
			for i := range 100 {
				s.do(t, scripts.Take, plan, fmt.Sprint("new", i), 1)
			}
		})
	}
}

// all returns the keys that are held.
func (s *clocked) all() map[string]bool {
	held := map[string]bool{}
	for i := range s.shards {
		for key := range s.shards[i].entries {
			held[key.name] = true
		}
	}
	return held
}

// A log counts by its members: one that is charged again and again fills a store.
func TestStoreIsFullOfLongLogs(t *testing.T) {
	s := bounded(1)
	plan := plans["sliding_log"]
	s.do(t, scripts.Take, plan, "a", 1)
	_, err := s.Do(t.Context(), &scripts.Call{Plan: plan, Key: "a", Cost: 1, Count: 1, Nonce: nonces.Add(1)})
	if !errors.Is(err, ErrFull) {
		t.Errorf("Do of a log in a full store: error %v, want ErrFull", err)
	}
	if reply := s.do(t, scripts.Peek, plan, "a", 1); reply.State(0).Used != 1 {
		t.Errorf("%v used, want 1", reply.State(0).Used)
	}
	s.do(t, scripts.Reset, plan, "a", 1)
	s.do(t, scripts.Take, plan, "a", 5)
}

// Size is kept right through all that adds to entries and drops them.
func TestSizeIsThatOfTheEntries(t *testing.T) {
	s := bounded(1 << 16)
	for round := range 200 {
		for name, plan := range plans {
			key := fmt.Sprint(name, round%17)
			s.do(t, scripts.Take, plan, key, 1+int64(round)%5)
			if round%5 == 0 {
				s.do(t, scripts.Reset, plan, key, 1)
			}
		}
		s.now.Add(second)
	}
	for i := range s.shards {
		sh, size := &s.shards[i], 0
		for _, e := range sh.entries {
			size += e.size()
		}
		if sh.size != size {
			t.Errorf("shard %d: size %d, its entries' is %d", i, sh.size, size)
		}
	}
}
