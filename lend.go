package shardlimit

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// Both sides of the protocol have one lease time, and a call settles what an ask
// does.
const (
	_ = uint(hotkey.LeaseTime - rule.LeaseTime)
	_ = uint(rule.LeaseTime - hotkey.LeaseTime)
	_ = uint(scripts.MaxSettlements - hotkey.MaxSettle)
)

// lender asks Redis for the local tier's leases.
type lender struct{ limiter *Limiter }

// Lease settles earlier leases on the key, and asks for units of it.
func (d lender) Lease(ctx context.Context, key hotkey.Key, ask hotkey.Ask) (hotkey.Grant, error) {
	p := key.Spec.Owner.(*Policy)
	call := d.limiter.call(p, scripts.Lease, d.limiter.key(p, key.Subject))
	call.Lease = scripts.Ask{
		Want: ask.Want, Offered: ask.Offered, Settle: settlements(ask.Settle),
		Within: min(d.limiter.timeout(p), hotkey.LeaseTime),
	}
	reply, err := d.limiter.send(ctx, d.limiter.timeout(p), &call)
	if err != nil {
		return hotkey.Grant{}, neverRan(err)
	}
	g := p.grant(&reply, ask.Want)
	g.Late = p.late(&reply, call.Lease.Settle)
	return g, nil
}

func settlements(of []hotkey.Settlement) (list []scripts.Settlement) {
	for _, s := range of {
		list = append(list, scripts.Settlement{At: s.Token.At, Size: s.Units, Unspent: s.Unspent})
	}
	return list
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

// neverRan returns err, and marks it if the call was not run.
func neverRan(err error) error {
	if f, ok := errors.AsType[*failover.Error](err); ok && f.Class == failover.NeverRan {
		return errors.Join(hotkey.ErrNeverRan, err)
	}
	return err
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
