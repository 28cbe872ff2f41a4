package shardlimit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// receipt is a charging call and the reply to it: all that giving back takes.
type receipt struct {
	limiter *Limiter
	policy  *Policy
	key     hotkey.Key
	call    scripts.Call
	left    time.Duration // that the call may take; 0: the policy's Timeout
	reply   scripts.Reply
	granted int64       // units
	nonce   uint64      // of a log: that they were charged under
	offset  int64       // of a log: units before them under that nonce
	share   bool        // charged to this process's share, not to the backend
	spent   atomic.Bool // given back, or on its way
}

// Refund gives back what r charged, as for a request that came to nothing, less
// what has decayed since: a bucket has refilled a part of it meanwhile, and a
// window that has ended takes nothing back. It works once for each result and
// its copies; a second call, and one for a result that charged nothing, does
// nothing and returns nil.
//
// The error is an *UnavailableError if the shard does not answer. Whatever the
// error, where nothing was given back Refund may be called again; where it may
// have been all the same, it is not sent again. A result of another Limiter is
// an error, ErrOtherLimiter.
//
// A Reset forgets what was charged, so a result from before it gives nothing
// back: except under a single limit of GCRA, which can't tell and may then free
// what was charged since.
func (l *Limiter) Refund(ctx context.Context, r Result) error {
	c := r.receipt
	switch {
	case c == nil && r.spend.Lease() == nil:
		return nil
	case c == nil:
		return l.refundSpend(ctx, r.spend)
	case c.limiter != l:
		return ErrOtherLimiter
	}
	if err := l.ready(ctx); err != nil {
		return err
	}
	if !c.spent.CompareAndSwap(false, true) {
		return nil
	}
	if c.share {
		l.giveShare(c)
		return nil
	}
	err := l.giveBack(ctx, c)
	if err == nil {
		return nil
	}
	if !mayHaveRun(err) {
		c.spent.Store(false)
	}
	return l.explain(ctx, err)
}

// giveBack gives back what c charged. Its errors are the backend's.
func (l *Limiter) giveBack(ctx context.Context, c *receipt) error {
	_, err := l.send(ctx, l.timeout(c.policy), c.give())
	l.forget(c.key)
	return err
}

// refundSpend gives back units that were spent of a lease: to the lease, or, once
// that is over, in Redis, where they were charged when it was lent.
func (l *Limiter) refundSpend(ctx context.Context, s hotkey.Spend) error {
	if !s.Lease().Of(l.tier) {
		return ErrOtherLimiter
	}
	if err := l.ready(ctx); err != nil {
		return err
	}
	switch s.Refund() {
	case hotkey.RefundedHere:
		l.forget(s.Lease().Key())
		return nil
	case hotkey.RefundedBefore:
		return nil
	case hotkey.RefundOver:
	}
	err := l.giveBack(ctx, l.spent(s))
	if err == nil {
		return nil
	}
	if !mayHaveRun(err) {
		s.Unrefund()
	}
	return l.explain(ctx, err)
}

// spent returns a receipt for units that were spent of a lease.
func (l *Limiter) spent(s hotkey.Spend) *receipt {
	key, token := s.Lease().Key(), s.Lease().Token()
	p := key.Spec.Owner.(*Policy)
	r := l.receipt(p, key.Subject, scripts.Take, s.Cost(), 1)
	r.reply, r.granted = scripts.NewReply(token.At, 1, rule.State{At: token.Mark}), s.Cost()
	return r
}

// take returns what reply says of the call, with c as the receipt of what that
// charged.
func (c *receipt) take(reply scripts.Reply, source Source) Result {
	c.reply = reply
	r := c.policy.result(&c.call, &c.reply)
	r.Source = source
	if r.Granted > 0 {
		c.granted, r.receipt = r.Granted, c
	}
	return r
}

// mayHaveRun reports whether a call that failed so may have changed something,
// or may yet: its reply was lost, or was none that a script of ours sends.
func mayHaveRun(err error) bool {
	if f, ok := errors.AsType[*failover.Error](err); ok && f.Class == failover.Unknown {
		return true
	}
	_, ok := errors.AsType[*scripts.ReplyError](err)
	return ok
}

// named returns the call, with its key.
func (c *receipt) named() *scripts.Call {
	c.call.Key = c.limiter.key(c.policy, c.key.Subject)
	return &c.call
}

// give returns the call that gives the charge back.
func (c *receipt) give() *scripts.Call {
	call := c.limiter.call(c.policy, scripts.Give, c.limiter.key(c.policy, c.key.Subject))
	call.Plan = c.call.Plan
	call.Receipt = scripts.Receipt{Now: c.reply.Now, Granted: c.granted, Nonce: c.nonce, Offset: c.offset}
	for i, l := range call.Plan.Limits() {
		charge := l.Charged(c.reply.State(i), c.reply.Now, c.granted)
		call.Receipt.At = append(call.Receipt.At, charge.At)
	}
	call.Window = int64(call.Receipt.At[0]) // read of a windowed plan alone
	return &call
}
