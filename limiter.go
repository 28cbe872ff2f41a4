// Package shardlimit limits rates across many processes with a Redis Cluster:
// per user, per address, per anything that has a name.
//
// A [Policy] holds the limits, made once; a subject is whom they hold for. A
// [Limiter] decides:
//
//	api := shardlimit.MustPolicy(shardlimit.PolicyConfig{
//		Name:   "api",
//		Limits: []shardlimit.Limit{shardlimit.PerSecond(100).WithBurst(200)},
//	})
//	result, err := limiter.Allow(ctx, api, "user:42")
//
// A denial is a Result. An error means that there is no decision: the call was
// wrong, its context has ended, or Redis is set up wrongly. That Redis is slow
// or away is no error: the policy's [FailureMode] decides then, and
// [Result.Failure] says why.
package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/cluster"
	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

// Limiter decides whether requests may go ahead. It is safe for concurrent use.
// New, Open and NewLocal make one; the zero Limiter is useless.
type Limiter struct {
	config  Config // filled
	backend backend
	source  Source // of what backend decides

	breakers *failover.Breakers // nil where there are no shards
	tier     *hotkey.Tier       // likewise: there is nothing to spare
	flights  *hotkey.Flights[*receipt, flown]
	share    *memory.Store // of policies that fail local, while a shard can't answer
	counters counters
	shadows  sync.Map // names of policies whose first shadowed result was logged

	seed   maphash.Seed // of the parts that are the process's own
	closed atomic.Bool
	ended  chan struct{} // closed by Close, for those who wait
	tasks  tasks
	close  func() error // closes backend once

	clock func() testclock.Time // tests only; nil: the backend's own clock
}

// backend runs calls. It has returned from each by the deadline.
type backend interface {
	DoUntil(ctx context.Context, deadline time.Time, call *scripts.Call) (scripts.Reply, error)
	// DoEach runs each job as DoUntil would, side by side.
	DoEach(ctx context.Context, jobs []cluster.Job)
	// CloseBy ends what is under way, at the deadline at the latest.
	CloseBy(deadline time.Time) error
}

// local is the backend of this process, which never waits.
type local struct{ *memory.Store }

// DoUntil runs the call.
func (l local) DoUntil(ctx context.Context, _ time.Time, call *scripts.Call) (scripts.Reply, error) {
	return l.Do(ctx, call)
}

// DoEach runs the jobs, one after the other.
func (l local) DoEach(ctx context.Context, jobs []cluster.Job) {
	for i := range jobs {
		j := &jobs[i]
		j.Reply, j.Err = l.Do(ctx, j.Call)
	}
}

// CloseBy forgets all.
func (l local) CloseBy(time.Time) error { return l.Close() }

// New returns a Limiter that decides in Redis through rdb: a
// *redis.ClusterClient, or a *redis.Client of a single server. rdb stays the
// caller's to close. New asks nothing of Redis, so it works while Redis is down.
//
// A caller waits no longer than the Timeout, whatever the options of rdb are. One
// that calls alone is a little faster where they set ContextTimeoutEnabled, as
// Open does. Calls go to the nodes of a *redis.ClusterClient in pipelines: hooks
// that are to see them belong to the nodes, by its OnNewNode.
//
// The error joins a *ConfigError for each fault of rdb and cfg.
func New(rdb redis.UniversalClient, cfg Config) (*Limiter, error) {
	cfg, fault := cfg.filled()
	breakers := cfg.breakers()
	client, err := cluster.New(rdb, cfg.cluster(breakers))
	if c, ok := errors.AsType[*cluster.ClientError](err); ok {
		err = &ConfigError{
			Field: "rdb", Value: c.Client,
			Reason: "must be a *redis.ClusterClient or a *redis.Client that isn't nil",
		}
	}
	if err := errors.Join(err, fault); err != nil {
		return nil, err
	}
	return newWatched(cfg, client, breakers)
}

// Open returns a Limiter with a client of its own for the cluster that opts
// describe. What opts leave open is set for decisions that take a few
// milliseconds, and deadlines always bind. Like New it asks nothing of Redis.
//
// The error joins a *ConfigError for each fault of opts and cfg.
func Open(opts *redis.ClusterOptions, cfg Config) (*Limiter, error) {
	cfg, fault := cfg.filled()
	if opts == nil || len(opts.Addrs) == 0 && opts.ClusterSlots == nil {
		fault = errors.Join(&ConfigError{Field: "Addrs", Value: 0, Reason: "must name a node of the cluster"}, fault)
	}
	if fault != nil {
		return nil, fault
	}
	breakers := cfg.breakers()
	return newWatched(cfg, cluster.Open(opts, cfg.cluster(breakers)), breakers)
}

// NewLocal returns a Limiter of this process alone, without Redis. It decides
// by the same rules, and forgets all at Close. The error joins a *ConfigError
// for each fault of cfg.
func NewLocal(cfg Config) (*Limiter, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	return newLimiter(cfg, local{memory.New()}, FromMemory), nil
}

// cluster returns the options of a client whose gate the breakers are.
func (c *Config) cluster(breakers *failover.Breakers) cluster.Options {
	return cluster.Options{
		Timeout: c.Timeout, Batch: cluster.Batch(c.Batch), Gate: breakers,
		Hooks: cluster.Hooks{Sending: c.Observer.Sending, Reloading: c.Observer.Reloading},
	}
}

// newWatched returns a Limiter on client, whose shards breakers watch.
func newWatched(cfg Config, client *cluster.Client, breakers *failover.Breakers) (*Limiter, error) {
	breakers.Watch(client)
	l := newLimiter(cfg, client, FromRedis)
	l.breakers, l.flights = breakers, l.newFlights()
	tier, err := hotkey.NewTier(lender{l}, hotkey.Config(cfg.HotKeys))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shardlimit: HotKeys: %w", err), l.Close())
	}
	l.tier = tier
	return l, nil
}

func newLimiter(cfg Config, b backend, source Source) *Limiter {
	l := &Limiter{
		config: cfg, backend: b, source: source,
		share: memory.NewBounded(shareEntries), seed: maphash.MakeSeed(), ended: make(chan struct{}),
	}
	l.close = sync.OnceValue(l.end)
	return l
}

// Allow is AllowN with a cost of 1.
func (l *Limiter) Allow(ctx context.Context, p *Policy, subject string) (result Result, err error) {
	err = l.allow(ctx, p, subject, 1, &result)
	return result, err
}

// AllowN decides about a request of cost units. It charges all of them to each
// limit, or none to any.
//
// The error is a *CostError if the cost is below 1 or above what a limit can
// ever hold.
func (l *Limiter) AllowN(ctx context.Context, p *Policy, subject string, cost int64) (result Result, err error) {
	err = l.allow(ctx, p, subject, cost, &result)
	return result, err
}

// allow decides about a request of cost units, and writes the decision to a zero
// result.
func (l *Limiter) allow(ctx context.Context, p *Policy, subject string, cost int64, result *Result) (err error) {
	if err := l.check(ctx, p, subject); err != nil {
		return err
	}
	if err := p.checkCost(cost); err != nil {
		return err
	}
	began := l.begin()
	switch known := p.parts == nil && l.known(p, subject, cost, result); {
	case !known:
		*result, err = l.ask(ctx, p, subject, scripts.Take, cost, 1)
	case began.IsZero() && !result.Shadowed:
		return nil // the tier counts it, and there is nobody to tell
	}
	l.tell(ctx, began, p, cost, result, err)
	return err
}

// AllowAtMost charges as many of cost units as fit into every limit. It allows
// if at least one does; Granted says how many. The cost may be above what the
// limits can hold.
//
// The error is a *CostError if the cost is below 1.
func (l *Limiter) AllowAtMost(ctx context.Context, p *Policy, subject string, cost int64) (Result, error) {
	if err := l.check(ctx, p, subject); err != nil {
		return Result{}, err
	}
	cost = min(cost, p.most)
	if err := p.checkCost(cost); err != nil {
		return Result{}, err
	}
	return l.decide(ctx, p, subject, scripts.Take, 1, cost)
}

// Charge charges cost units whatever is left, as for what a request turned out
// to cost after it was served. It allows, unless Redis can't answer and the
// policy's failure mode denies. Where less was left, the limit goes into debt: nothing
// passes until that is paid off, or, under a FixedWindow, until the window ends.
// A SlidingLog holds no more than Rate units.
//
// The error is a *CostError if the cost is below 1 or more than passes in ten
// years, and a *ConfigError if a limit is of GCRA, which can't go into debt. In
// a result with a Failure nothing may have been charged.
func (l *Limiter) Charge(ctx context.Context, p *Policy, subject string, cost int64) (Result, error) {
	if err := l.check(ctx, p, subject); err != nil {
		return Result{}, err
	}
	if err := p.checkDebt(cost); err != nil {
		return Result{}, err
	}
	return l.decide(ctx, p, subject, scripts.Charge, cost, 1)
}

// Peek returns what Allow would say, and charges nothing: Granted is 0. It asks
// Redis, and adds what a lease of this process has left; other processes' leases
// count as used.
func (l *Limiter) Peek(ctx context.Context, p *Policy, subject string) (Result, error) {
	if err := l.check(ctx, p, subject); err != nil {
		return Result{}, err
	}
	r, err := l.decide(ctx, p, subject, scripts.Peek, 1, 0)
	if held := l.held(p, subject); held > 0 && r.Source == FromRedis {
		r.Allowed, r.Shadowed, r.RetryAfter = true, false, 0
		r.Remaining += held
	}
	return r, err
}

// Reset forgets what the subject has used under the policy. The error is an
// *UnavailableError if the shard does not answer; what was used of this
// process's share, where the policy fails local, is forgotten all the same.
func (l *Limiter) Reset(ctx context.Context, p *Policy, subject string) error {
	if err := l.check(ctx, p, subject); err != nil {
		return err
	}
	call := l.call(p, scripts.Reset, l.key(p, subject))
	l.resetShare(p, call)
	if p.parts != nil {
		return l.resetParts(ctx, p, subject)
	}
	_, err := l.do(ctx, l.timeout(p), &call)
	l.forget(hotkey.Key{Spec: p.spec, Subject: subject})
	return err
}

// Close ends the Limiter: calls return ErrClosed from now on. It gives back what
// leases hold unspent, and waits for that and for whatever else
// the Limiter has started, at most 1 s, and closes the client that Open made,
// but not one that was given to New. Further calls wait too, and return the
// same.
func (l *Limiter) Close() error {
	l.closed.Store(true)
	return l.close()
}

// end ends what the Limiter has started. What hangs is left to end with the
// client.
func (l *Limiter) end() error {
	close(l.ended)
	deadline := time.Now().Add(time.Second)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	late := l.tasks.end(ctx)
	if l.tier != nil {
		late = errors.Join(late, l.flights.Close(ctx), l.tier.Close(ctx))
	}
	if l.breakers != nil {
		late = errors.Join(late, l.breakers.Close(ctx))
	}
	return errors.Join(late, l.backend.CloseBy(deadline))
}

// check returns why a call can't be made, if so.
func (l *Limiter) check(ctx context.Context, p *Policy, subject string) error {
	switch {
	case !p.valid():
		return ErrNoPolicy
	case subject == "":
		return ErrNoSubject
	default:
		return l.ready(ctx)
	}
}

// ready returns why nothing can be asked, if so.
func (l *Limiter) ready(ctx context.Context) error {
	if l.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}
