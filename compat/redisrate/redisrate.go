// Package redisrate has the API of github.com/go-redis/redis_rate/v10 and
// decides by shardlimit. One import moves a service over:
//
//	import redis_rate "github.com/shardlimit/shardlimit/compat/redisrate"
//
// As there, a limit is a bucket of Burst events that refills steadily at Rate
// per Period; a denied event costs nothing; AllowN with n = 0 looks; RetryAfter
// is -1 unless events were denied. This differs:
//
//	                        redis_rate v10                  here
//	keys                    rate:<key>                      rate:{<key>}:redis_rate:<shape>; what
//	                                                        redis_rate has counted isn't read
//	braces in a key         choose its slot                 are a part of it: the whole key does
//	a key under several     one count                       one count for those of the same Period and
//	limits                                                  algorithm; the others count apart
//	algorithm               GCRA                            GCRA; TokenBucket where events are less than
//	                                                        62.5 µs apart. Both admit the same
//	a reply that is lost    sent again by the client, up    never sent again
//	                        to 4 charges
//	Redis is away           an error, once the client's     an error, a *shardlimit.UnavailableError, after
//	                        retries and timeouts are over   Config.Timeout (50 ms), and at once while a
//	                                                        breaker is open
//	Remaining               may be 1 less, by rounding      exact
//	RetryAfter, ResetAfter  fractions of a microsecond      whole microseconds, rounded up; of events
//	                                                        that are denied without what other instances
//	                                                        took in the last 250 ms
//	AllowAtMost             takes the fraction of an        takes whole events
//	                        event that is left, too
//	n < 0                   gives events back               an error
//	AllowN(0) after the     RetryAfter until the debt       RetryAfter -1
//	limit was lowered       is paid off
//	Rate or Period < 1      an error of the script, or NaN  a *shardlimit.ConfigError
//	Period                  any                             rounded up to whole microseconds
//	the largest limit       none                            1e9 events per 366 days, a Burst of 1e9 that
//	                                                        refills in 10 years; else a *ConfigError
//	key ""                  is a key                        shardlimit.ErrNoSubject
//	Reset                   one DEL                         for each period: see Limiter.Reset
//	clients                 ClusterClient, Client, Ring     ClusterClient, Client; for a Ring each call
//	                                                        returns a *ConfigError
//	servers                 any with EVAL                   Redis 7.0 or newer, Valkey
//	Close                   none                            Limiter.Close ends what watches breakers
package redisrate

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
)

// Limiter says how many events of a key may happen. Copies are the same Limiter.
// It is safe for concurrent use; NewLimiter or From makes one.
type Limiter struct{ *limiter }

type limiter struct {
	decides  *shardlimit.Limiter
	owned    bool  // Close closes decides
	fault    error // of the client: no call can be made
	policies policies
}

// NewLimiter returns a new Limiter on rdb, a *redis.ClusterClient or a
// *redis.Client. It asks nothing of Redis. Where rdb can't be used, each call
// returns why.
func NewLimiter(rdb redis.UniversalClient) *Limiter {
	decides, err := shardlimit.New(rdb, shardlimit.Config{Prefix: "rate"})
	return &Limiter{&limiter{decides: decides, owned: true, fault: err}}
}

// From returns a Limiter that decides by one that the caller has and closes: so
// with a Timeout, a Prefix, an Observer of its own.
func From(decides *shardlimit.Limiter) *Limiter {
	return &Limiter{&limiter{decides: decides}}
}

// Close ends what NewLimiter has started in the background, and leaves the
// client open. redis_rate has no such method: a Limiter that lives as long as
// the program needs none.
func (l *Limiter) Close() error {
	if l.owned && l.fault == nil {
		return l.decides.Close()
	}
	return nil
}

// Allow is AllowN of one event.
func (l Limiter) Allow(ctx context.Context, key string, limit Limit) (*Result, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN reports whether n events may happen now: all of them, or none. Where n
// is 0 it looks, and charges nothing.
//
// The error is a *shardlimit.UnavailableError if Redis does not answer: there
// is no result then.
func (l Limiter) AllowN(ctx context.Context, key string, limit Limit, n int) (*Result, error) {
	return l.ask(limit, func(p *shardlimit.Policy) (shardlimit.Result, error) {
		switch {
		case n == 0:
			r, err := l.decides.Peek(ctx, p, key)
			r.Allowed = true // no events are denied
			return r, err
		case n > limit.Burst:
			return l.never(ctx, p, key, limit, n)
		default:
			return l.decides.AllowN(ctx, p, key, int64(n))
		}
	})
}

// AllowAtMost reports how many of n events may happen now, and charges those.
// Where n is 0 it looks, and charges nothing; RetryAfter is then the wait for
// one event. Its errors are those of AllowN.
func (l Limiter) AllowAtMost(ctx context.Context, key string, limit Limit, n int) (*Result, error) {
	return l.ask(limit, func(p *shardlimit.Policy) (shardlimit.Result, error) {
		switch {
		case limit.Burst == 0 && n >= 0:
			return l.never(ctx, p, key, limit, 1)
		case n == 0:
			return l.decides.Peek(ctx, p, key)
		default:
			return l.decides.AllowAtMost(ctx, p, key, int64(n))
		}
	})
}

// Reset forgets what was used of a key. Events are counted apart for each
// period, so it takes a call for each that it knows: the second, the minute, the
// hour, and those of the last 1,024 limits that this Limiter was asked about.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if l.fault != nil {
		return l.fault
	}
	var faults []error
	for _, p := range l.policies.shapes() {
		faults = append(faults, l.decides.Reset(ctx, p, key))
	}
	return errors.Join(faults...)
}

// ask returns what a decision says.
func (l Limiter) ask(limit Limit, decide func(*shardlimit.Policy) (shardlimit.Result, error)) (*Result, error) {
	if l.fault != nil {
		return nil, l.fault
	}
	p, err := l.policies.of(limit)
	if err != nil {
		return nil, err
	}
	r, err := decide(p)
	if err != nil {
		return nil, err
	}
	if r.Failure != nil {
		return nil, r.Failure
	}
	return limit.result(&r), nil
}

// never denies n events, which are more than the burst: the wait for them is
// as if the burst were no matter.
func (l Limiter) never(ctx context.Context, p *shardlimit.Policy, key string, limit Limit, n int) (shardlimit.Result, error) {
	r, err := l.decides.Peek(ctx, p, key)
	r.Allowed = false
	r.RetryAfter = r.ResetAfter + limit.takes(n-limit.Burst)
	return r, err
}
