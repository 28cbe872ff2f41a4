package shardlimit

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/scripts"
)

// flown is the reply to a call that several callers may share.
type flown struct {
	reply scripts.Reply
	nonce uint64 // that a log's entries were made under
}

// newFlights returns what sends calls for one key together.
func (l *Limiter) newFlights() *hotkey.Flights[*receipt, flown] {
	return hotkey.NewFlights(hotkey.FlightConfig[*receipt, flown]{
		Send: l.sendFlight, Alone: l.sendAlone, GiveBack: l.giveSurplus,
	})
}

// fly has r's request decided, together with those that come for its key while
// a call for that is under way. Its errors are the caller's.
func (l *Limiter) fly(ctx context.Context, r *receipt) (scripts.Reply, error) {
	got, err := l.flights.Do(ctx, l.within(r), r.key, r.call.Cost, r)
	if err != nil {
		return scripts.Reply{}, l.explain(ctx, l.waited(err))
	}
	r.nonce, r.offset = got.Reply.nonce, got.Index*r.call.Cost
	reply := got.Reply.reply
	reply.Granted = 0
	if got.Allowed() {
		reply.Granted = 1
	}
	return reply, nil
}

// sendFlight asks for count requests like r's, whose owner may have its answer
// already, and nothing but the call in common with the others.
func (l *Limiter) sendFlight(ctx context.Context, deadline time.Time, r *receipt, _, count int64) (flown, int64, error) {
	call := r.call
	call.Key, call.Count, call.Callers = l.key(r.policy, r.key.Subject), count, count
	reply, err := l.backend.DoUntil(ctx, deadline, &call)
	return flown{reply: reply, nonce: call.Nonce}, reply.Granted, err
}

// sendAlone makes r's own call.
func (l *Limiter) sendAlone(ctx context.Context, deadline time.Time, r *receipt, _ int64) (flown, int64, error) {
	reply, err := l.backend.DoUntil(ctx, deadline, r.named())
	return flown{reply: reply, nonce: r.call.Nonce}, reply.Granted, err
}

// giveSurplus gives back count requests like r's, the last of those that were
// granted: nobody waits for them any more.
func (l *Limiter) giveSurplus(r *receipt, f flown, cost, count int64) {
	surplus := &receipt{
		limiter: l, policy: r.policy, key: r.key, call: r.call, reply: f.reply,
		granted: cost * count, nonce: f.nonce, offset: cost * (f.reply.Granted - count),
	}
	ctx, cancel := context.WithTimeout(context.Background(), givingBack)
	defer cancel()
	if _, err := l.backend.DoUntil(ctx, time.Now().Add(givingBack), surplus.give()); err != nil {
		l.counters.stranded.Add(surplus.granted)
	}
	l.tier.Forget(r.key)
}

// waited returns what an error of a flight means, in the backend's terms. Those
// who waited for a call that had no answer in time waited for its shard.
func (l *Limiter) waited(err error) error {
	w, left := errors.AsType[*hotkey.WaitError](err)
	if !left {
		return err
	}
	f := &failover.Error{Class: failover.NeverRan, Err: w.Err}
	if w.Sent {
		f.Class = failover.Unknown
	}
	others, late := errors.AsType[*failover.Error](w.Err)
	switch {
	case !late:
		return f
	case !others.Class.Unavailable():
		return others
	default:
		f.Shard, f.Err = others.Shard, others.Err
		l.breakers.Report(f.Shard, 1, f)
		return f
	}
}
