package drill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
)

// Options says how much is asked. All fields but Leases must be set.
type Options struct {
	Rate     int           // calls a second, all limiters together
	Subjects int           // each is a key
	Limiters int           // of one process
	Timeout  time.Duration // of a decision
	Calm     time.Duration // before the fault, and after it
	// Leases lends units of subjects that are asked for often: 20 times a second
	// and limiter. Then charges can't be told from each other any more: see
	// [Account].
	Leases bool
}

func (o Options) mode() shardlimit.LeaseMode {
	if o.Leases {
		return shardlimit.LeaseAuto
	}
	return shardlimit.LeaseOff
}

// Run does the scenario to the cluster, one of [Servers] that is well, and says
// what came of it. It leaves the cluster well. The error is why the scenario
// couldn't be played, never what it showed.
func Run(ctx context.Context, c *rediscluster.Cluster, s Scenario, o Options) (*Report, error) {
	g, err := survey(ctx, c, s.proxied)
	if err != nil {
		return nil, err
	}
	p := &play{scenario: s, options: o, ground: g}
	r, err := p.run(ctx)
	if err = errors.Join(err, p.close()); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return r, nil
}

// play is a scenario that is played.
type play struct {
	scenario Scenario
	options  Options
	ground   *ground
	fault    *fault
	demand   *demand
	limiters []*shardlimit.Limiter

	began, ended, back time.Duration // of the fault; when all shards answered again
	stuck              bool          // they didn't
}

func (p *play) run(ctx context.Context) (*Report, error) {
	if len(p.ground.shards) != 3 {
		return nil, errNoShard
	}
	owners, err := p.ground.owners(ctx)
	if err != nil {
		return nil, err
	}
	p.demand = newDemand(p.options.Subjects, owners, p.options.mode())
	p.fault = &fault{ground: p.ground, prefix: fmt.Sprintf("drill-%08x", rand.Uint32())}
	for range p.options.Limiters {
		if err := p.open(p.options.Timeout); err != nil {
			return nil, err
		}
	}
	if err := p.warm(ctx); err != nil {
		return nil, err
	}
	if err := p.play(ctx); err != nil {
		return nil, err
	}
	return p.report(ctx)
}

// open opens one more limiter.
func (p *play) open(timeout time.Duration) error {
	opts := p.ground.cluster.ClientOptions()
	opts.ReadTimeout, opts.WriteTimeout, opts.DialTimeout = 0, 0, 0 // as the limiter has them
	if p.ground.proxies != nil {
		opts.Dialer = p.ground.proxies.Dial
	}
	l, err := shardlimit.Open(opts, shardlimit.Config{
		Prefix: p.fault.prefix, Timeout: timeout, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		p.limiters = append(p.limiters, l)
	}
	return err
}

// warm has each limiter look at each subject until Redis answers, so that
// nothing but the fault is met for the first time.
func (p *play) warm(ctx context.Context) error {
	for _, l := range p.limiters {
		for i := range p.demand.subjects {
			if _, err := p.peek(ctx, l, &p.demand.subjects[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// peek looks at a subject until Redis answers.
func (p *play) peek(ctx context.Context, l *shardlimit.Limiter, s *subject) (r shardlimit.Result, err error) {
	wait := await(ctx, func() (bool, error) {
		r, err = l.Peek(ctx, s.policy, s.name)
		return r.Failure == nil, err
	})
	if wait != nil {
		return r, fmt.Errorf("peek at %s: %w", s.name, errors.Join(wait, r.Failure))
	}
	return r, nil
}

// play puts the load on and the fault in the middle of it.
func (p *play) play(ctx context.Context) error {
	f := p.fault
	f.load = newLoad(p.options.Rate, p.limiters, p.demand.subjects, len(p.ground.shards))
	asking, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		f.load.run(asking)
	}()
	err := rediscluster.Pause(ctx, p.options.Calm)
	if err == nil {
		p.began = f.load.now()
		err = p.scenario.act(ctx, f)
		p.ended = f.load.now()
	}
	if err == nil {
		p.recover(ctx)
		err = rediscluster.Pause(ctx, p.options.Calm)
	}
	stop()
	<-over
	return err
}

// recover waits until all shards answer all limiters again.
func (p *play) recover(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.stuck = p.fault.load.recovered(ctx, p.ended) != nil
	p.back = p.fault.load.now()
}

func (p *play) close() error {
	errs := []error{}
	for _, l := range p.limiters {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, p.ground.close())...)
}
