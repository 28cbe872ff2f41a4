// Package traffic asks a limiter as the users of a service would: some subjects
// all the time, most of them now and then.
package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/tally"
	"github.com/shardlimit/shardlimit/keys"
)

// zipf is the exponent of Zipf's law: the k-th subject asks k^-1.1 times as
// often as the first.
const zipf = 1.1

// Limiter decides.
type Limiter interface {
	Allow(ctx context.Context, p *shardlimit.Policy, subject string) (shardlimit.Result, error)
}

// Traffic is who asks, under which policies.
type Traffic struct {
	Workers  int // goroutines, each of which asks again once it is answered
	Seed     uint64
	Policies []*shardlimit.Policy
	Weights  []int // how often each policy is asked under
	Few      []int // of the first of which subjects alone, each as often; 0: of all, by Zipf's law

	names []string // of subjects
	slots []uint16
}

// WithSubjects returns t with n subjects.
func (t Traffic) WithSubjects(n int) Traffic {
	t.names, t.slots = make([]string, n), make([]uint16, n)
	for i := range n {
		t.names[i] = fmt.Sprintf("user-%d", i+1)
		t.slots[i] = keys.Slot(keys.For("demo", t.names[i], "any", "any"))
	}
	return t
}

// HottestSlot returns the slot of the subject that asks the most.
func (t *Traffic) HottestSlot() int { return int(t.slots[0]) }

// Name returns the name of a subject, and its slot.
func (t *Traffic) Name(subject int) (name string, slot uint16) {
	return t.names[subject], t.slots[subject]
}

// Run asks until ctx ends, and returns once the last answer is there: calls
// under way are not cut off. Times are counted from start; shard says which
// shard serves a slot now, or -1.
func (t *Traffic) Run(ctx context.Context, l Limiter, start time.Time, shard func(slot uint16) int, to *tally.Tally) {
	var workers sync.WaitGroup
	for i := range t.Workers {
		workers.Go(func() {
			p := newPicker(t, uint64(i))
			w := to.Writer(i)
			for ctx.Err() == nil {
				c := t.ask(context.WithoutCancel(ctx), l, start, p)
				c.Shard = shard(t.slots[c.Subject])
				w.Record(&c)
			}
		})
	}
	workers.Wait()
}

// ask makes one call.
func (t *Traffic) ask(ctx context.Context, l Limiter, start time.Time, p *picker) tally.Call {
	policy := p.policy()
	c := tally.Call{Policy: policy, Subject: p.subject(t.Few[policy])}
	c.At.Sent = time.Since(start)
	c.Result, c.Err = l.Allow(ctx, t.Policies[c.Policy], t.names[c.Subject])
	c.At.Replied = time.Since(start)
	return c
}

// picker chooses who asks next, and under which policy.
type picker struct {
	random   *rand.Rand
	subjects *rand.Zipf
	upTo     []int // sums of the weights
}

func newPicker(t *Traffic, worker uint64) *picker {
	p := &picker{random: rand.New(rand.NewPCG(t.Seed, worker))}
	p.subjects = rand.NewZipf(p.random, zipf, 1, uint64(len(t.names)-1))
	sum := 0
	for _, w := range t.Weights {
		sum += w
		p.upTo = append(p.upTo, sum)
	}
	return p
}

func (p *picker) subject(few int) int {
	if few > 0 {
		return p.random.IntN(few)
	}
	return int(p.subjects.Uint64())
}

func (p *picker) policy() int {
	n := p.random.IntN(p.upTo[len(p.upTo)-1])
	i := 0
	for n >= p.upTo[i] {
		i++
	}
	return i
}
