package shardlimit_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

// gate holds back what Redis has answered, until it is told to let it through.
type gate struct {
	asked  chan passing
	let    chan struct{}
	opened chan struct{} // closed: everything goes through

	mu    sync.Mutex
	calls []*scripts.Call
}

// passing is a call that Redis has answered.
type passing struct {
	*scripts.Call
	alone bool // it was sent under its caller's context, which is a lone one's
}

// loner marks a caller's context: nothing but a call of its own is sent under it.
type loner struct{}

func (g *gate) run(ctx context.Context, call *scripts.Call, next func() (scripts.Reply, error)) (scripts.Reply, error) {
	r, err := next()
	g.mu.Lock()
	g.calls = append(g.calls, call)
	g.mu.Unlock()
	select {
	case <-g.opened:
		return r, err
	case g.asked <- passing{call, ctx.Value(loner{}) != nil}:
	}
	select {
	case <-g.opened:
	case <-g.let:
	}
	return r, err
}

// made returns how many calls were made of which that is true.
func (g *gate) made(which func(*scripts.Call) bool) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		if which(c) {
			n++
		}
	}
	return n
}

// gated returns two Limiters on a real cluster that share their keys, and the gate
// of the first.
func gated(t *testing.T) (here, elsewhere *shardlimit.Limiter, g *gate) {
	t.Helper()
	here, elsewhere = twoLimiters(t)
	g = &gate{asked: make(chan passing), let: make(chan struct{}), opened: make(chan struct{})}
	here.Through(g.run)
	return here, elsewhere, g
}

// reply is what a caller was told.
type reply struct {
	shardlimit.Result
	err error
}

// start starts a caller, who most likely has asked when start returns.
func start(ctx context.Context, l *shardlimit.Limiter, p *shardlimit.Policy, cost int64) <-chan reply {
	out := make(chan reply, 1)
	go func() {
		r, err := l.AllowN(context.WithValue(ctx, loner{}, true), p, "s", cost)
		out <- reply{r, err}
	}()
	for range 100 {
		runtime.Gosched()
	}
	return out
}

// granted waits for callers, and returns how many units they have together.
func granted(t *testing.T, callers ...<-chan reply) (units int64) {
	t.Helper()
	for _, c := range callers {
		r := <-c
		if r.err != nil || r.Failure != nil {
			t.Errorf("%+v, want a decision", r)
		}
		units += r.Granted
	}
	return units
}

// until tries until callers came in time to wait for a call: that shows only
// afterwards, and what is right does not depend on it.
func until(t *testing.T, waited func() bool) {
	t.Helper()
	for range 1000 {
		if waited() || t.Failed() {
			return
		}
	}
	t.Error("nobody ever came in time to wait")
}

// remains fails the test unless so many units remain.
func remains(t *testing.T, l *shardlimit.Limiter, p *shardlimit.Policy, want int64) {
	t.Helper()
	if r := result(t)(l.Peek(t.Context(), p, "s")); r.Remaining != want {
		t.Errorf("%d remain, want %d", r.Remaining, want)
	}
}

// In Redis: waiters of cost 5, 1, 1 and 3 units free: 5 refused, by a call beside
// theirs, two of 1 admitted, exactly 2 charged.
func TestWaitersOfSeveralCostsInRedis(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := policy(t, shardlimit.Per(5, long).WithAlgorithm(a))
			until(t, func() bool { return waitersOfSeveralCosts(t, p) })
		})
	}
}

// waitersOfSeveralCosts reports whether the two of 1 waited, and went together.
func waitersOfSeveralCosts(t *testing.T, p *shardlimit.Policy) bool {
	t.Helper()
	l, elsewhere, g := gated(t)
	result(t)(elsewhere.Allow(t.Context(), p, "s"))
	under := start(t.Context(), l, p, 1)
	<-g.asked
	five := start(t.Context(), l, p, 5)
	if c := <-g.asked; c.Cost != 5 || c.Count != 1 {
		t.Errorf("a call for %d of %d units, want one of 5", c.Count, c.Cost)
	}
	one, other := start(t.Context(), l, p, 1), start(t.Context(), l, p, 1)
	close(g.opened)
	if n := granted(t, under); n != 1 {
		t.Errorf("%d granted to the first, want 1", n)
	}
	if n := granted(t, five); n != 0 {
		t.Errorf("%d granted of 5, want none", n)
	}
	if n := granted(t, one, other); n != 2 {
		t.Errorf("%d granted to two of 1, want 2", n)
	}
	remains(t, elsewhere, p, 1)
	return g.made(func(c *scripts.Call) bool { return c.Cost == 1 && c.Count == 2 }) == 1
}

// In Redis: a waiter's ctx ends after its flight was sent: its unit serves the next
// who waits, or is back.
func TestUnitsOfAWaiterWhoHasGoneInRedis(t *testing.T) {
	for _, a := range algorithms {
		p := policy(t, shardlimit.Per(3, long).WithAlgorithm(a))
		t.Run(a.String()+"/serve the next", func(t *testing.T) {
			until(t, func() bool {
				waited, g := waiterGoes(t, p, 1)
				return waited && g.made(func(c *scripts.Call) bool { return c.Op == scripts.Take }) == 2
			})
		})
		t.Run(a.String()+"/come back", func(t *testing.T) {
			until(t, func() bool {
				waited, g := waiterGoes(t, p, 0)
				back := g.made(func(c *scripts.Call) bool { return c.Op == scripts.Give && c.Receipt.Granted == 1 })
				if waited && back != 1 {
					t.Errorf("%d times a unit was given back, want once", back)
				}
				return waited
			})
		})
	}
}

// waiterGoes has a waiter go whose flight was sent, while others come. It reports
// false if the waiter was none, as it came too late.
func waiterGoes(t *testing.T, p *shardlimit.Policy, others int64) (waited bool, g *gate) {
	t.Helper()
	l, elsewhere, g := gated(t)
	first := start(t.Context(), l, p, 1)
	<-g.asked
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	waiter := start(ctx, l, p, 1)
	g.let <- struct{}{}
	units := granted(t, first)
	if flight := <-g.asked; flight.alone {
		close(g.opened)
		granted(t, waiter)
		return false, g
	}
	leave()
	if r := <-waiter; !errors.Is(r.err, context.Canceled) {
		t.Errorf("%+v, want the waiter's own error", r)
	}
	var next []<-chan reply
	for range others {
		next = append(next, start(t.Context(), l, p, 1))
	}
	close(g.opened)
	if units += granted(t, next...); units != 1+others {
		t.Errorf("%d granted, want %d", units, 1+others)
	}
	if err := l.Close(); err != nil { // what is given back is back then
		t.Error(err)
	}
	remains(t, elsewhere, p, p.Limits()[0].Rate-units)
	return true, g
}

// held is a backend whose replies are held back, one call after the other.
type held struct {
	store *memory.Store
	asked chan *scripts.Call
	reply chan struct{}
}

func (h *held) run(_ context.Context, call *scripts.Call) (scripts.Reply, error) {
	r, err := h.store.Do(context.Background(), call)
	h.asked <- call
	<-h.reply
	return r, err
}

// flying is a Limiter on a held backend, with which a call is under way.
func flying(t *testing.T) (*shardlimit.Limiter, *held) {
	h := &held{store: memory.New(), asked: make(chan *scripts.Call), reply: make(chan struct{})}
	l, err := shardlimit.NewFlying(shardlimit.Backend{Run: h.run, Stop: stops(h.store.Close)}, shardlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return l, h
}

// Waiters of cost 5, 1, 1 and 3 units free: 5 refused, by a call beside theirs,
// two of 1 admitted, exactly 2 charged.
func TestWaitersOfSeveralCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := flying(t)
		p := policy(t, shardlimit.Per(5, long))
		results := make(chan shardlimit.Result, 4)
		ask := func(cost int64) {
			go func() { results <- result(t)(l.AllowN(t.Context(), p, "s", cost)) }()
			synctest.Wait()
		}
		ask(1)
		<-h.asked
		h.reply <- struct{}{}
		if r := <-results; r.Granted != 1 {
			t.Fatalf("%+v, want it granted", r)
		}
		ask(1)
		<-h.asked
		for _, cost := range []int64{5, 1, 1} {
			ask(cost)
		}
		if five := <-h.asked; five.Cost != 5 || five.Count != 1 {
			t.Errorf("a call for %d of %d units, want one of 5", five.Count, five.Cost)
		}
		for range 2 {
			h.reply <- struct{}{}
		}
		if ones := <-h.asked; ones.Cost != 1 || ones.Count != 2 {
			t.Errorf("a call for %d of %d units, want two of 1", ones.Count, ones.Cost)
		}
		h.reply <- struct{}{}
		var granted int64
		for range 4 {
			granted += (<-results).Granted
		}
		if granted != 1+0+1+1 {
			t.Errorf("%d granted, want 3", granted)
		}
		go func() { <-h.asked; h.reply <- struct{}{} }()
		if r := result(t)(l.Peek(t.Context(), p, "s")); r.Remaining != 1 {
			t.Errorf("%d of 5 remain, want 1", r.Remaining)
		}
		closeInBubble(t, l)
	})
}

// A waiter's ctx ends after its flight was sent: its unit is given back.
func TestUnitsOfAWaiterWhoHasGoneComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := flying(t)
		p := policy(t, shardlimit.Per(2, long))
		go allow(t, l, p, "s")
		<-h.asked
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := l.Allow(ctx, p, "s")
			left <- err
		}()
		synctest.Wait()
		h.reply <- struct{}{}
		<-h.asked // with the waiter's request
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("Allow: %v", err)
		}
		h.reply <- struct{}{}
		if give := <-h.asked; give.Op != scripts.Give || give.Receipt.Granted != 1 {
			t.Errorf("%+v, want one unit given back", give)
		}
		h.reply <- struct{}{}
		go func() { <-h.asked; h.reply <- struct{}{} }()
		if r := result(t)(l.Peek(t.Context(), p, "s")); r.Remaining != 1 {
			t.Errorf("%d of 2 remain, want 1", r.Remaining)
		}
		closeInBubble(t, l)
	})
}
