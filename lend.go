package shardlimit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// Both sides of the protocol have one lease time.
const (
	_ = uint(hotkey.LeaseTime - rule.LeaseTime)
	_ = uint(rule.LeaseTime - hotkey.LeaseTime)
)

// lender asks Redis for the local tier's leases.
type lender struct{ limiter *Limiter }

// Lease settles earlier leases on the key, and asks for units of it.
//
// A call settles few leases, and those of one window where each window has a key
// of its own. So what is to be settled may take calls of its own, which go first.
// Where one of those fails after another, the rest counts as sent too: units that
// are not given back are free once Redis forgets the lease.
func (d lender) Lease(ctx context.Context, key hotkey.Key, ask hotkey.Ask) (hotkey.Grant, error) {
	p := key.Spec.Owner.(*Policy)
	first, last := p.settling(&ask)
	sent, late := false, int64(0)
	for _, settle := range first {
		reply, err := d.send(ctx, p, key, scripts.Ask{Settle: settle})
		if err != nil {
			return hotkey.Grant{}, neverRan(err, sent)
		}
		late += p.late(&reply, settle)
		sent = true
	}
	if ask.Want == 0 && len(last) == 0 {
		return hotkey.Grant{Late: late}, nil
	}
	reply, err := d.send(ctx, p, key, scripts.Ask{
		Want: ask.Want, Offered: ask.Offered, Settle: last,
		Within: min(d.limiter.timeout(p), hotkey.LeaseTime),
	})
	if err != nil {
		return hotkey.Grant{}, neverRan(err, sent)
	}
	g := p.grant(&reply, ask.Want)
	g.Late = late + p.late(&reply, last)
	return g, nil
}

// late returns the units that settlements did not give back, as they came after
// what had been lent was forgotten. Of a window with a key of its own that never
// is: it ends with the window.
func (p *Policy) late(reply *scripts.Reply, settled []scripts.Settlement) (units int64) {
	l := p.plan.Limits()[0]
	for _, s := range settled {
		if !p.plan.Windowed() && !l.Credits(reply.State(0), reply.Now, s.At) {
			units += s.Unspent
		}
	}
	return units
}

// send runs one lease call.
func (d lender) send(ctx context.Context, p *Policy, key hotkey.Key, ask scripts.Ask) (scripts.Reply, error) {
	call := d.limiter.call(p, scripts.Lease, d.limiter.key(p, key.Subject))
	call.Lease = ask
	return d.limiter.send(ctx, d.limiter.timeout(p), &call)
}

// neverRan returns err, and marks it if nothing of an ask was done: neither the
// call that failed nor one that was sent before.
func neverRan(err error, sent bool) error {
	if f, ok := errors.AsType[*failover.Error](err); ok && f.Class == failover.NeverRan && !sent {
		return errors.Join(hotkey.ErrNeverRan, err)
	}
	return err
}

// settling returns the settlements of ask by the calls that are to take them:
// some for calls of their own, and those that the ask itself takes.
func (p *Policy) settling(ask *hotkey.Ask) (first [][]scripts.Settlement, last []scripts.Settlement) {
	all := make([]scripts.Settlement, len(ask.Settle))
	for i, s := range ask.Settle {
		all[i] = scripts.Settlement{At: s.Token.At, Size: s.Units, Unspent: s.Unspent}
	}
	if !p.plan.Windowed() {
		first = slices.Collect(slices.Chunk(all, scripts.MaxSettlements))
		if n := len(first); n > 0 {
			first, last = first[:n-1], first[n-1]
		}
		return first, last
	}
	for i := range all {
		first = append(first, all[i:i+1])
	}
	return first, nil
}

// grant returns what reply grants to who wanted so many units.
func (p *Policy) grant(reply *scripts.Reply, want int64) hotkey.Grant {
	left := p.state(p.plan, reply, 0)
	g := hotkey.Grant{
		Units: reply.Granted,
		Token: hotkey.Token{At: reply.Now, Mark: reply.State(0).At},
		Until: p.plan.LentFor(reply.Now),
		Next:  time.Duration(reply.Next) * time.Microsecond,

		Remaining: left.Remaining, ResetAfter: left.ResetAfter,
	}
	if left.Remaining*pacedPart > p.config.Limits[0].capacity() {
		g.Next = 0
	}
	if g.Units == 0 && want > 0 && g.Next == 0 {
		g.NoLease = p.refusal(left.Remaining, want)
	}
	return g
}

// refusal returns why nothing was lent to who wanted so many units, while
// remaining were left.
func (p *Policy) refusal(remaining, want int64) hotkey.Reason {
	l := p.plan.Limits()[0]
	switch {
	case want < leastLease:
		return hotkey.SmallShare
	case remaining*windowReserve < l.Capacity() && l.Algorithm != rule.TokenBucket:
		return hotkey.WindowSpent
	case remaining < leastLease:
		return hotkey.NothingLeft
	default:
		return hotkey.SmallShare
	}
}

// What the scripts lend by: leases of at least leastLease units, and none of the
// last part of a window.
const (
	leastLease    = 4
	windowReserve = 10
)

// pacedPart is the part of a bucket, one in so many, that processes are kept
// waiting for the rate within. While more is left they take of that, as others
// do: the burst is there for whoever comes. What is asked for more than its rate
// is soon below it, and stays at about a thirteenth.
const pacedPart = 5
