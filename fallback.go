package shardlimit

import (
	"context"

	"github.com/shardlimit/shardlimit/scripts"
)

// shareEntries bounds what is kept of the shares of policies that fail local.
const shareEntries = 1 << 16

// fallback returns what the policy's failure mode answers to r's call, as the
// shard can't because of failure.
func (l *Limiter) fallback(r *receipt, failure error) Result {
	result := Result{Limit: r.policy.config.Limits[0]}
	switch r.policy.config.OnFailure.kind {
	case failClosed:
		result.RetryAfter = l.timeout(r.policy)
	case failLocal:
		result = l.takeShare(r)
	default:
		result.Allowed, result.Granted = true, r.call.Cost*r.call.Count
	}
	result.Source, result.Failure = FromFallback, failure
	return result
}

// takeShare decides about r's call by this process's share of the limits.
func (l *Limiter) takeShare(r *receipt) Result {
	own := &receipt{limiter: l, policy: r.policy, key: r.key, call: r.call, nonce: r.nonce, share: true}
	own.call.Plan = r.policy.share
	never := own.call.Op == scripts.Take && own.call.Cost > own.call.Plan.Capacity()
	if never {
		own.call.Op, own.call.Cost, own.call.Count = scripts.Peek, 1, 0
	}
	reply, err := l.share.Do(context.Background(), own.named())
	if err != nil { // it is full
		return Result{Limit: r.policy.config.Limits[0], RetryAfter: l.timeout(r.policy)}
	}
	result := own.take(reply, FromFallback)
	if never {
		result.Allowed, result.RetryAfter = false, l.timeout(r.policy)
	}
	return result
}

// giveShare gives back what c charged to this process's share.
func (l *Limiter) giveShare(c *receipt) {
	_, _ = l.share.Do(context.Background(), c.give()) // fails for no lack of room
}

// resetShare forgets what the key of a reset has used of this process's share.
func (l *Limiter) resetShare(p *Policy, reset scripts.Call) {
	if p.share == nil {
		return
	}
	reset.Plan = p.share
	_, _ = l.share.Do(context.Background(), &reset) // as in giveShare
}
