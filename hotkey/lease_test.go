package hotkey

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// leaseOf returns a lease of units, sent at 0, and its clock.
func leaseOf(units int64) (*Lease, *moment) {
	clock := new(moment)
	l := newLease(keyA, Grant{Units: units}, 0)
	l.now = func() moment { return *clock }
	return l, clock
}

func TestALeaseIsSpentToTheUnit(t *testing.T) {
	l, _ := leaseOf(10)
	for _, step := range []struct {
		cost, left int64
		ok         bool
	}{{4, 6, true}, {7, 6, false}, {6, 0, true}, {1, 0, false}} {
		left, _, ok := l.spend(step.cost)
		if left != step.left || ok != step.ok {
			t.Errorf("spend(%d) = %d, %t; want %d, %t", step.cost, left, ok, step.left, step.ok)
		}
	}
	if spends, units := l.spent(); spends != 2 || units != 10 || !l.empty() {
		t.Errorf("%d spends of %d units, want 2 of 10", spends, units)
	}
}

func TestTheLargestLeaseKeepsItsNumbersApart(t *testing.T) {
	l, _ := leaseOf(maxUnits)
	if left, _, ok := l.spend(maxUnits - 1); left != 1 || !ok {
		t.Errorf("left %d, %t; want 1", left, ok)
	}
	if left, seq, ok := l.spend(1); left != 0 || seq != 1 || !ok {
		t.Errorf("left %d, number %d, %t; want 0, 1", left, seq, ok)
	}
}

func TestWhatIsGivenBackWasNotSpent(t *testing.T) {
	const units = 100_000
	l, _ := leaseOf(units)
	var spent atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range units / 16 {
				if _, _, ok := l.spend(1); ok {
					spent.Add(1)
				}
			}
		})
	}
	unspent, ok := l.close()
	group.Wait()
	if !ok || unspent+spent.Load() != units {
		t.Errorf("spent %d and gave back %d of %d", spent.Load(), unspent, units)
	}
	if again, ok := l.close(); ok || again != 0 {
		t.Errorf("closed again: %d, %t; want 0, false", again, ok)
	}
}

func TestARefundGoesIntoTheLeaseOnce(t *testing.T) {
	l, _ := leaseOf(10)
	_, seq, _ := l.spend(7)
	s := Spend{lease: l, what: uint64(seq)<<32 | 7}
	if got := s.Refund(); got != RefundedHere || l.Left() != 10 {
		t.Errorf("got %v and %d left, want RefundedHere and 10", got, l.Left())
	}
	if got := s.Refund(); got != RefundedBefore || l.Left() != 10 {
		t.Errorf("again: got %v and %d left, want RefundedBefore and 10", got, l.Left())
	}
	if got := (Spend{}).Refund(); got != RefundedBefore {
		t.Errorf("of nothing: got %v, want RefundedBefore", got)
	}
}

func TestARefundAfterTheLeaseIsForRedis(t *testing.T) {
	for name, end := range map[string]func(*Lease, *moment){
		"closed": func(l *Lease, _ *moment) { l.close() },
		"ended":  func(_ *Lease, now *moment) { *now = moment(LeaseTime) },
	} {
		t.Run(name, func(t *testing.T) {
			l, now := leaseOf(10)
			_, seq, _ := l.spend(1)
			s := Spend{lease: l, what: uint64(seq)<<32 | 1}
			end(l, now)
			if got := s.Refund(); got != RefundOver {
				t.Errorf("got %v, want RefundOver", got)
			}
			if got := s.Refund(); got != RefundedBefore {
				t.Errorf("again: got %v, want RefundedBefore", got)
			}
			s.Unrefund()
			if got := s.Refund(); got != RefundOver {
				t.Errorf("after it never ran: got %v, want RefundOver", got)
			}
			if _, units := l.spent(); units != 1 {
				t.Errorf("%d spent, want 1: nothing came back here", units)
			}
		})
	}
}

func TestNothingIsLeftOfALeaseThatIsOver(t *testing.T) {
	ended, now := leaseOf(10)
	*now = moment(LeaseTime) - 1
	if got := ended.Left(); got != 10 {
		t.Errorf("%d left just before the end, want 10", got)
	}
	*now++
	closed, _ := leaseOf(10)
	closed.close()
	if ended.Left() != 0 || closed.Left() != 0 {
		t.Errorf("%d left at the end, %d once it is closed; want 0", ended.Left(), closed.Left())
	}
}

func TestALeaseEndsALeaseTimeAfterItWasAskedFor(t *testing.T) {
	for _, c := range []struct {
		window time.Duration
		want   time.Duration
	}{{0, LeaseTime}, {time.Hour, LeaseTime}, {30 * time.Millisecond, 30 * time.Millisecond}} {
		l := newLease(keyA, Grant{Units: 1, Until: c.window}, 1000)
		if got := l.until.since(1000); got != c.want {
			t.Errorf("window ends in %v: lease ends after %v, want %v", c.window, got, c.want)
		}
	}
}

func TestEachSpendIsMarkedOnce(t *testing.T) {
	var m marks
	numbers := []uint32{0, 63, 64, 1 << 31}
	for _, n := range numbers {
		if !m.add(n) || m.add(n) {
			t.Errorf("%d: want true, then false", n)
		}
		m.remove(n)
		if !m.add(n) {
			t.Errorf("%d removed: want true", n)
		}
	}
	for _, n := range numbers {
		if m.add(n) {
			t.Errorf("%d: want it known beside the others", n)
		}
	}
}
