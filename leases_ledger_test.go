package shardlimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/crowd"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/keys"
)

// The policies of keys that are never used up, whose units can all be found again:
// of calm ones none is lent to an instance that is killed.
const calm, shared = "calm", "shared"

// plentiful reports whether the key's units can all be found again.
func plentiful(k crowd.Key) bool { return k.Policy == calm || k.Policy == shared }

// ledgerKeys are what the ledger's instances ask for: some that show that no limit
// is exceeded, and those.
func ledgerKeys() []crowd.Key {
	all := hotKeys(0, shardlimit.LeaseAuto, each(1000, time.Second, leasable)...)
	ample := append(each(plenty, spacious, leasable[1:]), deep)
	for _, policy := range []string{calm, shared} {
		for _, k := range hotKeys(0, shardlimit.LeaseAuto, ample...) {
			k.Policy = policy
			all = append(all, k)
		}
	}
	return all
}

// asking has an instance ask for the calm keys, of which it refunds some, or for all
// others. What Redis takes back of a bucket is less by what it has refilled, so
// there refunds would hide a unit.
func asking(o *crowd.Order, forCalm bool) {
	for i := range o.Keys {
		k := &o.Keys[i]
		switch {
		case (k.Policy == calm) != forCalm:
		case plentiful(*k):
			k.Rate = 300
		default:
			k.Rate = 1000
		}
		if forCalm && k.Limit.Algorithm != shardlimit.TokenBucket {
			k.Refund = 10
		}
	}
}

// Instances share hot keys while some are killed and others close, keys cool and
// compete for places, slots move and replicas take over: each unit that was lent
// was spent, given back or forgotten, and none passes beyond a limit.
func TestEveryLeasedUnitIsAccountedFor(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Replicas: 1})
	g := gather(t, c, 2**crowdFor, ledgerKeys()...)
	l := newOn(t, redistest.Client(t, c, nil), shardlimit.Config{Prefix: g.order.Prefix, Timeout: patient})
	meters := g.meters(l)
	n := max(1, *crowdProcesses/4)
	calmOnes := g.startSome(n, func(o *crowd.Order) {
		asking(o, true)
		o.Pause, o.Reopen = true, time.Second
	})
	others := g.startSome(n, func(o *crowd.Order) {
		asking(o, false)
		o.Pause, o.Entries, o.Reopen = true, 5, time.Second // 5 places for 6 keys
	})
	m := &mishaps{g: g, c: c, random: rand.New(rand.NewPCG(g.order.Seed, 1))}
	m.run(t, max(2, *crowdProcesses-2*n))

	forgotten := calmOnes.counts().Forgotten
	for i, a := range g.accounts() {
		t.Logf("%s %s: %d asked, %d passed, %d of them of leases, %d given back",
			a.Key.Policy, a.Key.Limit, a.Asked(), a.Passed(), a.ByOutcome[crowd.Leased], a.ByOutcome[crowd.GivenBack])
		if over := a.Over(); over != 0 {
			t.Errorf("%s %s: over by %d", a.Key.Policy, a.Key.Limit, over)
		}
		if !plentiful(a.Key) {
			continue
		}
		left := meters[i].units(t, l) - a.Kept()
		if left < 0 {
			t.Errorf("%s %s: %d units passed that were not charged", a.Key.Policy, a.Key.Limit, -left)
		}
		if a.Key.Policy == calm {
			forgotten -= left
		} else {
			t.Logf("%d units were lost with the %d killed, or forgotten", left, m.killed)
		}
	}
	if forgotten != 0 {
		t.Errorf("%d units forgotten that are not charged", forgotten)
	}
	if calmOnes.leased() == 0 {
		t.Error("nothing came of leases")
	}
	if counts, leased := others.counts(), others.leased(); leased == 0 || counts.Lent != leased+counts.GivenBack+counts.Forgotten {
		t.Errorf("%d spent of %+v, want all that was lent spent, given back or forgotten", leased, counts)
	}
}

// meters returns a meter of each key that has plenty, by its index.
func (g *gathering) meters(l *shardlimit.Limiter) map[int]*meter {
	g.t.Helper()
	meters := map[int]*meter{}
	for i, k := range g.order.Keys {
		if plentiful(k) {
			meters[i] = newMeter(g.t, l, policyOfKey(k), k.Subject)
		}
	}
	return meters
}

// some are instances of a gathering that are not killed.
type some struct {
	g       *gathering
	running []*crowd.Process
	files   []string
	reports []crowd.Report
}

func (g *gathering) startSome(n int, adapt func(*crowd.Order)) *some {
	g.t.Helper()
	s := &some{g: g}
	for range n {
		s.running = append(s.running, g.start(adapt))
		s.files = append(s.files, g.files[len(g.files)-1])
	}
	return s
}

// counts returns the sum of what they counted, once they have ended.
func (s *some) counts() (sum crowd.Counts) {
	s.g.t.Helper()
	for _, p := range s.running {
		s.reports = append(s.reports, s.g.report(p))
	}
	s.running = nil
	for _, r := range s.reports {
		sum.Lent += r.Counts.Lent
		sum.GivenBack += r.Counts.GivenBack
		sum.Forgotten += r.Counts.Forgotten
	}
	return sum
}

// leased returns how many units they had of leases.
func (s *some) leased() (units int64) {
	for _, a := range s.g.of(s.files...) {
		units += a.ByOutcome[crowd.Leased]
	}
	return units
}

// mishaps are what happens meanwhile.
type mishaps struct {
	g      *gathering
	c      *rediscluster.Cluster
	random *rand.Rand
	doomed []*crowd.Process

	killed, moved, replaced int
}

// run has n more instances ask, and lets one thing happen after the other. At the
// end it kills those instances too.
func (m *mishaps) run(t *testing.T, n int) {
	t.Helper()
	for range n {
		m.doomed = append(m.doomed, m.start())
	}
	ctx, cancel := context.WithDeadline(t.Context(), m.g.order.Start.Add(m.g.order.For))
	defer cancel()
	for ctx.Err() == nil {
		if err := m.one(ctx); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
	}
	for _, p := range m.doomed {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		m.killed++
	}
	t.Logf("killed %d instances, moved %d slots, replaced %d primaries", m.killed, m.moved, m.replaced)
	if err := m.c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (m *mishaps) start() *crowd.Process {
	return m.g.start(func(o *crowd.Order) {
		asking(o, false)
		o.Entries, o.Durable = 5, true
	})
}

// one lets one thing happen.
func (m *mishaps) one(ctx context.Context) error {
	timer := time.NewTimer(time.Duration(m.random.Int64N(int64(200 * time.Millisecond))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil
	}
	switch m.random.IntN(3) {
	case 0:
		i := m.random.IntN(len(m.doomed))
		err := m.doomed[i].Kill()
		m.killed++
		m.doomed[i] = m.start()
		return err
	case 1:
		m.moved++
		return m.move(ctx)
	default:
		m.replaced++
		return m.replace(ctx)
	}
}

// move moves the slot of a key. One that has begun comes to its end, where a busy
// node is late by another call.
func (m *mishaps) move(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	k := m.g.order.Keys[m.random.IntN(len(m.g.order.Keys))]
	slot := int(keys.Slot(k.Subject))
	to, err := otherPrimary(ctx, m.c, slot)
	if err != nil {
		return err
	}
	for range 5 {
		if err = m.c.MoveSlot(ctx, slot, to, 100*time.Millisecond); err == nil {
			break
		}
	}
	return err
}

// replace has a replica take its primary's place, once it has all of its writes.
func (m *mishaps) replace(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	primaries, err := m.c.Primaries(ctx)
	if err != nil {
		return err
	}
	replicas := slices.DeleteFunc(m.c.Nodes(), func(n *rediscluster.Node) bool { return slices.Contains(primaries, n) })
	n := replicas[m.random.IntN(len(replicas))]
	if err := n.Client().ClusterFailover(ctx).Err(); err != nil {
		return errors.Join(err, m.c.Wait(ctx))
	}
	for !slices.Contains(primaries, n) {
		if primaries, err = m.c.Primaries(ctx); err != nil {
			return err
		}
	}
	return m.c.Wait(ctx)
}

// A primary killed whose units are lent, its replica promoted: over at most what
// the replica had not yet received, plus what was lent; other shards' keys as ever.
func TestLeasesWhenAPrimaryIsKilled(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Replicas: 1, Args: []string{"--cluster-require-full-coverage", "no"}})
	g := gather(t, c, 2**crowdFor, hotKeys(750, shardlimit.LeaseAuto, each(1000, time.Second, leasable)...)...)
	g.startAll(*crowdProcesses, func(o *crowd.Order) { o.Timeout, o.Faults = 100*time.Millisecond, true })
	<-time.After(*crowdFor / 2)
	node, err := c.Owner(t.Context(), int(keys.Slot(g.order.Keys[0].Subject)))
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]bool{}
	for _, k := range g.order.Keys {
		owner, err := c.Owner(t.Context(), int(keys.Slot(k.Subject)))
		if err != nil {
			t.Fatal(err)
		}
		theirs[k.Subject] = owner == node
	}
	before := time.Now()
	if err := node.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.wait()
	for _, a := range g.accounts() {
		var most int64
		if theirs[a.Key.Subject] { // the replica was less than a second behind
			most = a.AtRisk(before.Add(-time.Second), killed) + a.Key.Limit.Rate/4
		}
		over := a.Over()
		t.Logf("%s: %d asked, %d passed, %d of them of leases, %d without an answer; over %d, at most %d",
			a.Key.Limit, a.Asked(), a.Passed(), a.ByOutcome[crowd.Leased], a.ByOutcome[crowd.Unknown]+a.ByOutcome[crowd.NeverRan], over, most)
		if over > most {
			t.Errorf("%s: over by %d, want at most %d", a.Key.Limit, over, most)
		}
	}
}
