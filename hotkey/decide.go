package hotkey

// grace is how long an empty lease that denied goes on while the next is asked
// for. Demand is above the rate then: whatever is there comes with the lease.
const grace = LeaseTime / 20

// spend takes cost units of a lease that has not ended, if it has as many.
func (t *Tier) spend(a *Answer, e *entry, l *Lease, cost int64, now moment) bool {
	left, seq, ok := l.spend(cost)
	if !ok {
		return false
	}
	if l.ending(left, now) {
		t.renew(e, l, now)
	}
	a.Allowed, a.Source, a.Limit = true, FromLease, int(l.limit)
	a.Remaining, a.ResetAfter = l.remaining+left, now.untilOr0(l.reset)
	a.Spend = Spend{lease: l, what: uint64(seq)<<32 | uint64(cost)}
	return true
}

// starve denies if the lease is empty and it is not yet time for the next. Once
// it is, the first to come asks for that; a little longer the others are denied.
func (t *Tier) starve(a *Answer, e *entry, l *Lease, cost int64, now moment) bool {
	pause := moment(l.pause.Load())
	if pause == 0 || !l.empty() {
		return false
	}
	if now >= pause {
		longer := min(now.add(grace), moment(l.denies.Load()))
		if now >= longer || !t.renew(e, l, now) || !l.pause.CompareAndSwap(int64(pause), int64(longer)) {
			return false
		}
		pause = longer
	}
	e.deny(cost)
	a.Source, a.Limit = FromDenial, int(l.limit)
	a.RetryAfter, a.ResetAfter = now.untilOr0(pause), now.untilOr0(l.reset)
	return true
}

// renew has the next lease asked for in the background, if it is time for that.
// It reports whether it did.
func (t *Tier) renew(e *entry, l *Lease, now moment) bool {
	if int64(now) < l.pause.Load() || int64(now) < e.askAfter.Load() {
		return false
	}
	return t.want(e)
}

// acquire has a lease asked for if the entry has none that lives. k is what was
// asked for: once the leases of another version have ended, its turn has come.
func (t *Tier) acquire(e *entry, k Key, now moment) {
	if k.Spec.NoLease != Leasable || int64(now) < e.askAfter.Load() || e.live(now) {
		return
	}
	if l := e.lease.Load(); l != nil && int64(now) < l.pause.Load() && l.version == k.Spec.Version {
		return
	}
	e.adopt(k.Spec)
	t.want(e)
}

// want has a lease asked for, unless an ask is under way. It reports whether it
// did.
func (t *Tier) want(e *entry) bool {
	if e.asking.Load() {
		return false
	}
	e.wanted.Store(true)
	return t.trigger(e)
}

// trigger queues the entry for an ask, unless it is queued or asked for.
func (t *Tier) trigger(e *entry) bool {
	if !e.asking.CompareAndSwap(false, true) {
		return false
	}
	t.asks.push(e, t)
	return true
}
