package hotkey

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// asks are the entries that wait for an ask, oldest first, each once. As many
// workers as may take them, and end when none waits.
type asks struct {
	mu      sync.Mutex
	waiting []*entry
	workers int
	most    int
}

// push queues e, and sees to a worker.
func (a *asks) push(e *entry, t *Tier) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, e)
	if a.workers < a.most && t.crew.start(t.work) {
		a.workers++
	}
}

// pop takes the oldest. It returns nil where none waits, and the worker ends.
func (a *asks) pop() *entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		a.waiting = nil // what it grew to under a flood
		a.workers--
		return nil
	}
	e := a.waiting[0]
	a.waiting[0] = nil
	a.waiting = a.waiting[1:]
	return e
}

// work asks for entry after entry.
func (t *Tier) work() {
	for e := t.asks.pop(); e != nil; e = t.asks.pop() {
		for t.ask(e) {
		}
	}
}

// errand is an ask under way.
type errand struct {
	Ask
	key  Key
	owed []owed // what it settles
	turn uint32
	sent moment
	then bool // it only settles, and units are to be asked for next
	last bool // the tier is closed
}

// ask asks Redis for what the entry needs. It reports whether to ask again at
// once: for what this ask had to leave to the next, or what came in meanwhile to
// a tier that is closed.
func (t *Tier) ask(e *entry) (again bool) {
	r, ok := t.prepare(e)
	if !ok {
		return false
	}
	t.count.asks.Add(1)
	g, err := t.asker.Lease(t.life, r.key, r.Ask)
	return t.finish(e, r, g, err)
}

// prepare returns what to ask for. It reports false, and the entry waits for no
// ask any more, if that is nothing.
func (t *Tier) prepare(e *entry) (*errand, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, last := t.now(), t.closed.Load()
	if !e.live(now) || last {
		e.retireLocked()
	}
	t.tallyLocked(e, now)
	t.forgetLocked(e, now)
	r := &errand{key: Key{Spec: e.spec, Subject: e.key.Subject}, turn: t.turns.of(e.hash).Load(), sent: now, last: last}
	if e.wanted.Swap(false) && !last {
		r.Want = e.wantLocked(now)
	}
	if e.dead || r.Want == 0 && !t.dueLocked(e, now) {
		e.asking.Store(false)
		return nil, false
	}
	e.loadLocked(r)
	return r, true
}

// loadLocked gives r what it is to settle and to tell. Of a lease that is settled
// alone it is all that r does.
func (e *entry) loadLocked(r *errand) {
	n := min(len(e.owed), MaxSettle)
	if e.spec.SettleAlone && n > 0 {
		n, r.then, r.Want = 1, r.Want > 0, 0
	} else {
		r.Offered, e.offered = e.offered, 0
	}
	r.owed, e.owed = slices.Clone(e.owed[:n]), slices.Delete(e.owed, 0, n)
	for _, o := range r.owed {
		r.Settle = append(r.Settle, o.Settlement)
	}
}

// finish takes in what an ask brought.
func (t *Tier) finish(e *entry, r *errand, g Grant, err error) (again bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := t.now()
	switch {
	case err == nil:
		t.settled(r, g.Late)
		t.grantLocked(e, r, g, now)
	case errors.Is(err, ErrNeverRan) && !r.last:
		e.putBackLocked(r, now)
	default:
		t.passLocked(e) // maybe units were lent
		t.forgotten(r.owed)
	}
	if err != nil && (r.Want > 0 || r.then) {
		e.reason = AskFailed
		e.askAfter.Store(int64(now.add(LeaseTime)))
	}
	if t.closed.Load() {
		e.retireLocked()
		if len(e.owed) > 0 {
			return true // once: an ask that begins now puts nothing back
		}
	}
	if err == nil && (r.then || e.spec.SettleAlone && len(e.owed) > 0) {
		e.wanted.CompareAndSwap(false, r.then)
		return true
	}
	e.asking.Store(false)
	return false
}

// putBackLocked keeps what an ask that never ran was to say, for a later one.
func (e *entry) putBackLocked(r *errand, now moment) {
	e.offered += r.Offered
	for i := range r.owed {
		r.owed[i].due = now
	}
	e.owed = append(r.owed, e.owed...)
}

// grantLocked takes in what was granted to an ask that wanted units.
func (t *Tier) grantLocked(e *entry, r *errand, g Grant, now moment) {
	if r.Want == 0 {
		return
	}
	g.Units = min(max(g.Units, 0), r.Want)
	t.count.lent.Add(g.Units)
	if g.Units > 0 {
		t.passLocked(e)
	}
	e.reason = g.reason()
	e.askAfter.Store(int64(now.add(e.restLocked(&g))))
	l := e.lease.Load()
	if g.Units > 0 || !e.live(now) {
		e.retireLocked() // before the next, so that one is spent at a time
		l = newLease(r.key, g, r.sent)
		l.now, l.home = t.now, t
		e.lease.Store(l)
	}
	if g.Next > 0 && r.turn == t.turns.of(e.hash).Load() {
		l.rest(now.add(jitter(g.Next)), r.sent)
	}
}

// reason returns why there is no lease.
func (g *Grant) reason() Reason {
	if g.Units == 0 && g.NoLease == Leasable {
		return NothingLeft
	}
	return g.NoLease
}

// restLocked returns how long not to ask again, Next apart. What is not lent now
// may be in a moment, as in the next window; or not for long, as where shares are
// small: so it grows from a quarter of a lease time to a second.
func (e *entry) restLocked(g *Grant) time.Duration {
	if g.Units > 0 || g.Next > 0 {
		e.barren = 0
		return 0
	}
	rest := min(LeaseTime/4<<e.barren, time.Second)
	e.barren = min(e.barren+1, 5)
	if g.Until > 0 {
		rest = min(rest, g.Until)
	}
	return rest
}

// jitter returns d, up to a fifth longer or shorter: those who were told the
// same do not ask together.
func jitter(d time.Duration) time.Duration {
	return d - d/5 + rand.N(d/5*2+1)
}
