package shardlimit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/relay"
	"github.com/shardlimit/shardlimit/scripts"
)

// fate is what becomes of a call that settles leases.
type fate int

const (
	runs       fate = iota
	turnedAway      // by Redis: it never runs
	lostBefore      // it never comes to Redis, and nobody can tell
	lostAfter       // it runs, and nobody can tell
)

func (f fate) String() string {
	return [...]string{"runs", "refused", "lost before Redis", "lost after Redis"}[f]
}

// fates are all there are, of one call and of two.
func fates() (one, two [][]fate) {
	for first := range lostAfter + 1 {
		one = append(one, []fate{first})
		for second := range lostAfter + 1 {
			two = append(two, []fate{first, second})
		}
	}
	return one, two
}

// Two leases are settled as their Limiter closes, in one call, or in a call each
// where windows have keys of their own; or as they end. Calls run, never run, or
// nobody can tell whether they ran: what is charged in the end is what passed and
// what is counted as forgotten, but for what came back and nobody knows of.
func TestForgottenIsEachUnitThatIsNotGivenBack(t *testing.T) {
	h := newHidden(t)
	one, two := fates()
	for _, a := range leasable {
		closing := one
		if a == shardlimit.FixedWindow {
			closing = two
		}
		for _, tt := range []struct {
			when   string
			fates  [][]fate
			closes bool
		}{{"at Close", closing, true}, {"in time", one, false}} {
			for _, f := range tt.fates {
				t.Run(fmt.Sprintf("%v/%s/%v", a, tt.when, f), func(t *testing.T) {
					for tries := 1; !h.settle(t, lent(t, a), f, tt.closes); tries++ {
						if tries == mostTries {
							t.Fatal("it never came to what was planned")
						}
					}
				})
			}
		}
	}
}

// mostTries is how often something else may happen, as the machine stands still.
const mostTries = 50

// settle reports false if nothing is wrong, but the machine stood still and something
// else happened.
func (h *hidden) settle(t *testing.T, p *shardlimit.Policy, f []fate, closes bool) bool {
	t.Helper()
	cfg := shardlimit.Config{Prefix: redistest.Prefix(t), Timeout: patient, Breaker: shardlimit.BreakerConfig{Disabled: true}}
	elsewhere := newOn(t, h.server.Client(), cfg)
	s := &settling{
		t: t, hidden: h, policy: p, here: newOn(t, h.rdb, cfg), elsewhere: elsewhere,
		fates: f, calm: make(chan struct{}), last: map[int64]fate{},
	}
	s.here.Through(s.run)
	m := newMeter(t, elsewhere, p, "s")
	passed := s.spend()
	for !closes && !allSettled(s.here) {
		<-time.After(10 * time.Millisecond)
	}
	if err := s.here.Close(); err != nil {
		t.Error(err)
	}
	c := s.here.Inspect().HotKeys.Counts
	if !allSettled(s.here) {
		t.Errorf("%+v, want all that was lent spent, given back or forgotten", c)
	}
	if got, want := m.units(t, elsewhere), passed+c.Forgotten-s.returned; got != want && !s.unsure {
		t.Errorf("%d charged, want the %d that passed and the %d forgotten, less %d that came back: %d; %v, %+v",
			got, passed, c.Forgotten, s.returned, want, s.last, c)
	}
	return t.Failed() || s.asPlanned(closes)
}

// allSettled reports whether all that was lent to l was spent, given back or
// forgotten.
func allSettled(l *shardlimit.Limiter) bool {
	c := l.Inspect().HotKeys.Counts
	return c.Lent == c.Leased+c.GivenBack+c.Forgotten
}

// settling is a Limiter whose calls that settle meet their fates one by one, once
// all is calm. Those that are left then run.
type settling struct {
	*hidden
	t               *testing.T
	policy          *shardlimit.Policy
	here, elsewhere *shardlimit.Limiter
	calm            chan struct{} // closed once nobody asks here any more

	mu       sync.Mutex
	loans    int
	fates    []fate
	settled  [][]scripts.Settlement // by calls that met one, each
	last     map[int64]fate         // of each lease, by when it was lent
	returned int64                  // units that came back though nobody can tell
	unsure   bool                   // of how many those are, or whether others were lent besides
}

// spend spends a lease until the next is had, so that there are two to settle. It
// returns how many units passed.
func (s *settling) spend() (passed int64) {
	defer close(s.calm)
	held := func() int64 { return s.here.Inspect().HotKeys.Held }
	_, passed = untilLeased(s.t, s.here, s.policy)
	for most := held(); held() > most/5; passed++ {
		if r := allow(s.t, s.here, s.policy, "s"); !r.Allowed || r.Failure != nil {
			s.t.Errorf("%+v, want it allowed", r)
		}
	}
	for begun := time.Now(); s.loaned() < 2 && time.Since(begun) < hotkey.LeaseTime; {
		<-time.After(time.Millisecond)
	}
	return passed
}

func (s *settling) loaned() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loans
}

// run makes a call, and lets one that settles meet its fate.
func (s *settling) run(_ context.Context, c *scripts.Call, next func() (scripts.Reply, error)) (scripts.Reply, error) {
	settle := c.Lease.Settle
	if len(settle) > 0 {
		<-s.calm
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(settle) == 0 {
		reply, err := next()
		if c.Op == scripts.Lease && reply.Granted > 0 {
			s.loans++
		}
		return reply, err
	}
	f := runs
	if len(s.fates) > 0 {
		f, s.fates = s.fates[0], s.fates[1:]
		s.settled = append(s.settled, slices.Clone(settle))
	}
	reply, err := s.meet(f, next)
	for _, of := range settle {
		s.last[of.At] = f
		if f == lostAfter {
			s.returned += of.Unspent
			s.unsure = s.unsure || c.Lease.Want > 0 || s.tooLate(of.At)
		}
	}
	return reply, err
}

// meet makes a call meet its fate.
func (s *settling) meet(f fate, next func() (scripts.Reply, error)) (scripts.Reply, error) {
	switch f {
	case turnedAway: // as it is out of memory
		s.memory("1")
		defer s.memory("0")
	case lostBefore:
		s.proxy.DropCommands(1, relay.ThenClose, relay.Commands("evalsha"))
	case lostAfter:
		s.lose(1)
	case runs:
	}
	reply, err := next()
	if (err == nil) != (f == runs) {
		s.t.Errorf("a call that was to be %v: %v", f, err)
	}
	return reply, err
}

func (s *settling) memory(most string) {
	if err := s.server.Client().ConfigSet(s.t.Context(), "maxmemory", most).Err(); err != nil {
		s.t.Error(err)
	}
}

// tooLate reports whether Redis may have forgotten by now what it lent then.
func (s *settling) tooLate(at int64) bool {
	_, now, err := s.elsewhere.Stored(s.t.Context(), s.policy, "s")
	if err != nil {
		s.t.Error(err)
	}
	epoch := hotkey.LeaseTime.Microseconds()
	return s.policy.Limits()[0].Algorithm == shardlimit.TokenBucket && now/epoch > at/epoch+1
}

// asPlanned reports whether each fate was met by leases with units left: at Close by
// two. In time, what never ran was sent again.
func (s *settling) asPlanned(closes bool) bool {
	var of []scripts.Settlement
	for _, settle := range s.settled {
		of = append(of, settle...)
	}
	unspent := !slices.ContainsFunc(of, func(s scripts.Settlement) bool { return s.Unspent == 0 })
	if !closes {
		again := true
		for _, f := range s.last {
			again = again && f != turnedAway
		}
		return len(s.fates) == 0 && unspent && again && !s.unsure
	}
	return len(s.fates) == 0 && len(of) == 2 && unspent && !s.unsure
}
