package hotkey

// grace is how long an empty lease that denied goes on while the next is asked
// for. Demand is above the rate then: whatever is there comes with the lease.
const grace = LeaseTime / 20

// decide answers from what a hot key's entry knows.
func (t *Tier) decide(e *entry, k Key, cost int64, now moment) (Answer, bool) {
	version := k.Spec.Version
	if l := e.lease.Load(); l != nil && l.version == version {
		if a, ok := t.spend(e, l, cost, now); ok {
			return a, true
		}
	}
	d := e.denial.Load()
	switch {
	case d == nil:
		return Answer{}, false
	case d.is(version, cost, now):
		e.deny(cost)
		return d.answer(int(d.limit), d.retry, now), true
	}
	a, ok := d.decideMore(version, cost, now)
	if ok {
		e.deny(cost)
	}
	return a, ok
}

// spend takes cost units of the lease, or denies while it is empty and paused.
func (t *Tier) spend(e *entry, l *Lease, cost int64, now moment) (Answer, bool) {
	if now >= l.until {
		return t.starve(e, l, cost, now)
	}
	left, seq, ok := l.spend(cost)
	if !ok {
		return t.starve(e, l, cost, now)
	}
	if l.ending(left, now) {
		t.renew(e, l, now)
	}
	return Answer{
		Allowed: true, Source: FromLease, Limit: int(l.limit),
		Remaining: l.remaining + left, ResetAfter: now.untilOr0(l.reset),
		Spend: Spend{lease: l, what: uint64(seq)<<32 | uint64(cost)},
	}, true
}

// starve denies if the lease is empty and it is not yet time for the next. Once
// it is, the first to come asks for that; a little longer the others are denied.
func (t *Tier) starve(e *entry, l *Lease, cost int64, now moment) (Answer, bool) {
	pause := moment(l.pause.Load())
	if pause == 0 || !l.empty() {
		return Answer{}, false
	}
	if now >= pause {
		if now >= pause.add(LeaseTime) || !t.renew(e, l, now) {
			return Answer{}, false
		}
		if !l.pause.CompareAndSwap(int64(pause), int64(now.add(grace))) {
			return Answer{}, false
		}
		pause = now.add(grace)
	}
	e.deny(cost)
	return Answer{
		Source: FromDenial, Limit: int(l.limit),
		RetryAfter: now.untilOr0(pause), ResetAfter: now.untilOr0(l.reset),
	}, true
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
