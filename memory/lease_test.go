package memory

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/shardlimit/shardlimit/internal/leasetest"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

var lendable = []rule.Algorithm{rule.TokenBucket, rule.SlidingWindow, rule.FixedWindow}

// TestLeasesNeverExceedTheLimit plays histories of leases against a model that
// knows every unit.
func TestLeasesNeverExceedTheLimit(t *testing.T) {
	histories := 34_000 // 100,000 of the three together
	if raced {
		histories = 1000 // ten times as slow, and one goroutine an algorithm
	}
	for _, a := range lendable {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			if i, err := play(rng, a, histories, leasetest.Break{}, nil); err != nil {
				t.Errorf("history %d: %v", i, err)
			}
		})
	}
}

// play plays histories until one admits too much, and returns which. Before each
// call spoil, unless it is nil, may spoil what the store holds.
func play(rng *rand.Rand, a rule.Algorithm, histories int, broke leasetest.Break, spoil func(*clocked, *scripts.Call)) (int, error) {
	s := newClocked()
	for i := range histories {
		_ = s.Close() // the one before
		h := leasetest.New(rng, a, "k", broke)
		for range 60 {
			if err := playOn(s, h, spoil); err != nil {
				return i, err
			}
		}
	}
	return histories, nil
}

// playOn makes a history's next call.
func playOn(s *clocked, h *leasetest.History, spoil func(*clocked, *scripts.Call)) error {
	c, err := h.Next()
	if err != nil {
		return err
	}
	s.now.Store(h.Now())
	if spoil != nil {
		spoil(s, c)
	}
	reply, err := s.Do(context.Background(), c)
	if err != nil {
		return err
	}
	return h.Record(reply)
}

// TestTheModelCatchesBrokenLeases breaks the protocol, one rule at a time, and
// sees that some history then admits too much.
func TestTheModelCatchesBrokenLeases(t *testing.T) {
	all := lendable
	bucket := []rule.Algorithm{rule.TokenBucket}
	for _, tt := range []struct {
		name       string
		algorithms []rule.Algorithm
		broke      leasetest.Break
		spoil      func(*clocked, *scripts.Call)
	}{
		{"a settlement sent twice", all, leasetest.Break{Twice: true}, nil},
		{"leases spent for two lease times", all, leasetest.Break{Longer: true}, nil},
		{"units handed back without what is lent holding up what is used", bucket, leasetest.Break{}, handBack},
		{"what is lent holds up what is used once a call", bucket, leasetest.Break{}, floorOnce},
		{"an entry that ends when nothing would be used", bucket, leasetest.Break{}, endEarly},
		{"a reset that deletes", all, leasetest.Break{}, deleteAtReset},
		{"units of a window that has ended given to the next", all[1:], leasetest.Break{}, creditNow},
	} {
		for _, a := range tt.algorithms {
			t.Run(tt.name+"/"+a.String(), func(t *testing.T) {
				seed := rand.Uint64()
				tt.broke.Late = true
				i, err := play(rand.New(rand.NewPCG(seed, 0)), a, 20_000, tt.broke, tt.spoil)
				if err == nil {
					t.Fatalf("seed %d: %d histories, and none admits too much", seed, i)
				}
				t.Logf("history %d: %.80v", i, err)
			})
		}
	}
}

// held is the entry that the call would meet, or nil.
func held(s *clocked, c *scripts.Call) *entry {
	for i := range s.shards {
		for key, e := range s.shards[i].entries {
			if !c.Plan.Windowed() || key.window == c.Window {
				return e
			}
		}
	}
	return nil
}

func handBack(s *clocked, c *scripts.Call) {
	e := held(s, c)
	if e == nil {
		return
	}
	limit := c.Plan.Limits()[0]
	e.states[0].Lent, e.states[0].Before = 0, 0
	cur, _ := limit.Current(e.states[0], s.now.Load())
	for _, lease := range c.Lease.Settle {
		cur.Used = max(0, cur.Used-float64(lease.Unspent*limit.Period))
	}
	e.states[0], c.Lease.Settle = cur, nil
}

func floorOnce(s *clocked, c *scripts.Call) {
	e := held(s, c)
	if e == nil {
		return
	}
	limit, now := c.Plan.Limits()[0], float64(s.now.Load())
	cur, _ := limit.Current(e.states[0], s.now.Load())
	if st := e.states[0]; now > st.At {
		cur.Used = max((cur.Lent+cur.Before)*float64(limit.Period), st.Used-(now-st.At)*float64(limit.Rate))
	}
	e.states[0] = cur
}

func endEarly(s *clocked, c *scripts.Call) {
	if e := held(s, c); e != nil {
		st := e.states[0]
		st.Lent, st.Before, st.Demand = 0, 0, 0
		e.expires = c.Plan.Limits()[0].Ends(st, s.now.Load())
	}
}

func deleteAtReset(s *clocked, c *scripts.Call) {
	if c.Op == scripts.Reset {
		_ = s.Close()
	}
}

func creditNow(s *clocked, c *scripts.Call) {
	period := c.Plan.Limits()[0].Period
	for i := range c.Lease.Settle {
		if at := &c.Lease.Settle[i].At; *at/period < s.now.Load()/period {
			*at = s.now.Load()
		}
	}
}
