package shardlimit_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// victim is a policy and a subject that everything is done to.
type victim struct {
	policy, other *shardlimit.Policy // two versions
	subject       string
	refunds       bool         // what is refunded is known to the unit
	net           atomic.Int64 // units granted and not refunded
	meter         *meter

	mu    sync.Mutex
	later []kept // to be refunded once their leases are over, maybe
}

// kept is a result, by the Limiter that gave it.
type kept struct {
	by     *shardlimit.Limiter
	result shardlimit.Result
}

// Callers allow, charge, peek, refund and reset, under two versions of a policy,
// on Limiters that are closed meanwhile: in the end each unit is where it must be.
func TestEveryVerbBesideEveryOther(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rdb, prefix := client(t), redistest.Prefix(t)
	var victims []*victim
	l := newOn(t, rdb, shardlimit.Config{Prefix: prefix, Timeout: patient})
	for _, a := range leasable {
		p, isBucket := lent(t, a), a == shardlimit.TokenBucket
		less := shardlimit.Per(plenty-1, spacious).WithAlgorithm(a)
		if isBucket {
			less = deep.WithBurst(plenty - 1)
		}
		other, err := p.WithLimits(less)
		if err != nil {
			t.Fatal(err)
		}
		victims = append(victims, &victim{
			policy: p, other: other, subject: a.String(),
			refunds: !isBucket, meter: newMeter(t, l, p, a.String()),
		})
	}
	const limiters, callers, rounds = 4, 8, 400
	var forgotten atomic.Int64
	var all sync.WaitGroup
	for i := range uint64(limiters) {
		all.Go(func() {
			l, err := shardlimit.New(rdb, shardlimit.Config{Prefix: prefix, Timeout: patient, HotKeys: shardlimit.HotKeysConfig{Entries: 1 + int(i)}})
			if err != nil {
				t.Error(err)
				return
			}
			closing := make(chan struct{})
			var calling sync.WaitGroup
			for c := range uint64(callers) {
				calling.Go(func() {
					random := rand.New(rand.NewPCG(seed, i<<8+c))
					for n := range rounds {
						if c == 0 && n == rounds*3/4 {
							close(closing)
						}
						victims[random.IntN(len(victims))].suffer(t, l, random)
					}
				})
			}
			<-closing
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			calling.Wait()
			forgotten.Add(l.Inspect().HotKeys.Counts.Forgotten)
		})
	}
	all.Wait()

	left := -forgotten.Load()
	for _, v := range victims {
		got, net := v.meter.units(t, l), v.net.Load()
		t.Logf("%s: %d used, %d passed", v.subject, got, net)
		if got < net {
			t.Errorf("%s: %d used, but %d passed", v.subject, got, net)
		}
		left += got - net
	}
	if left != 0 {
		t.Errorf("%d units are used that nobody has, nor forgot", left)
	}
}

// suffer does something to the victim, and books what came of it.
func (v *victim) suffer(t *testing.T, l *shardlimit.Limiter, random *rand.Rand) {
	p, cost, ctx := v.policy, 1+random.Int64N(3), t.Context()
	if random.IntN(8) == 0 {
		p = v.other
	}
	var r shardlimit.Result
	var err error
	switch random.IntN(16) {
	case 0:
		_, err = l.Peek(ctx, p, v.subject)
	case 1:
		r, err = l.Charge(ctx, p, v.subject, cost)
	case 2:
		r, err = l.AllowAtMost(ctx, p, v.subject, cost)
	case 3:
		err = l.Reset(ctx, p, v.subject+" of another")
	case 4:
		_, err = l.Allow(ctx, p, v.subject+" of another")
	default:
		r, err = l.AllowN(ctx, p, v.subject, cost)
	}
	v.net.Add(r.Granted)
	if v.refunds && r.Granted > 0 && random.IntN(4) == 0 {
		if g := v.swap(kept{l, r}, random); g.by != nil {
			r, err = g.result, g.by.Refund(ctx, g.result)
			if err == nil {
				v.net.Add(-r.Granted)
				err = g.by.Refund(ctx, r)
			}
		}
	}
	if r.Failure != nil || err != nil && !errors.Is(err, shardlimit.ErrClosed) {
		t.Errorf("%+v, %v", r, err)
	}
}

// swap keeps g for later, and returns what was kept before it, or g itself.
func (v *victim) swap(g kept, random *rand.Rand) kept {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.later) < 200 {
		v.later = append(v.later, g)
		return kept{}
	}
	if random.IntN(2) == 0 {
		i := random.IntN(len(v.later))
		g, v.later[i] = v.later[i], g
	}
	return g
}
