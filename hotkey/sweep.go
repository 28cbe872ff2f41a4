package hotkey

import "time"

// forgetTime is how long after a lease was asked for it can be settled: later
// Redis may take it for another.
const forgetTime = 2 * LeaseTime

// cold is the rate of requests below which a key is not hot any more: far below
// what made it hot, so that it doesn't come and go.
func (t *Tier) cold() float64 { return t.config.HotRate / 4 }

// keepSweeping sees to a sweeper.
func (t *Tier) keepSweeping() {
	if !t.sweeping.Load() && t.sweeping.CompareAndSwap(false, true) {
		if !t.crew.start(t.sweepAll) {
			t.sweeping.Store(false)
		}
	}
}

// sweepAll sweeps every quarter of a lease time, while there are entries.
func (t *Tier) sweepAll() {
	tick := time.NewTicker(LeaseTime / 4)
	defer tick.Stop()
	var list []*entry
	for {
		select {
		case <-t.closing:
			return
		case <-tick.C:
		}
		list = t.table.appendAll(list)
		for _, e := range list {
			t.sweep(e)
		}
		clear(list)
		list = list[:0]
		if t.table.size.Load() == 0 {
			t.sweeping.Store(false)
			if t.table.size.Load() == 0 || !t.sweeping.CompareAndSwap(false, true) {
				return
			}
		}
	}
}

// sweep closes the entry's lease if that has ended, has it settled if that is
// due, and drops the entry once it is cold and owes nothing.
func (t *Tier) sweep(e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := t.now()
	if e.dead || e.asking.Load() {
		return
	}
	if now.since(e.demand.at) >= LeaseTime {
		t.tallyLocked(e, now)
	}
	if e.demand.requests() < t.cold() || !e.live(now) {
		e.retireLocked()
	}
	t.forgetLocked(e, now)
	switch {
	case t.dueLocked(e, now):
		t.trigger(e)
	case e.demand.requests() < t.cold() && len(e.owed) == 0:
		t.dropLocked(e, now)
	}
}

// dropLocked takes the entry out. That and the death of it are one step for
// whoever waits for its mutex. What it counted is counted.
func (t *Tier) dropLocked(e *entry, now moment) {
	t.tallyLocked(e, now)
	e.dead = true
	t.table.unlink(e)
}

// tallyLocked takes in what was asked of the entry since the last time.
func (t *Tier) tallyLocked(e *entry, now moment) {
	spends, missed, denied := e.tallyLocked(now)
	t.count.leased.Add(spends)
	t.count.denied.Add(denied)
	t.count.missed.Add(missed)
	if n := spends + missed + denied; n > 0 {
		t.heat.observe(e.key, e.hash, n, now)
	}
}

// dueLocked reports whether a settlement has waited long enough for an ask that
// takes it along.
func (t *Tier) dueLocked(e *entry, now moment) bool {
	cold := t.closed.Load() || e.demand.requests() < t.cold()
	for _, o := range e.owed {
		if cold || now >= o.due {
			return true
		}
	}
	return false
}

// forgetLocked gives up settlements that are too old.
func (t *Tier) forgetLocked(e *entry, now moment) {
	for len(e.owed) > 0 && now.since(e.owed[0].sent) > forgetTime {
		t.forgotten(e.owed[:1])
		e.owed = e.owed[1:]
	}
}
