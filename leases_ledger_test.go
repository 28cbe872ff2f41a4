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
	n := max(1, *crowdProcesses/8)
	calmOnes := g.startSome(n, true)
	others := g.startSome(n, false)
	m := &mishaps{g: g, c: c, random: rand.New(rand.NewPCG(g.order.Seed, 1))}
	m.run(t, max(2, *crowdProcesses-4*n))

	forgotten, lost := calmOnes.sum().Counts.Forgotten, int64(0)
	for i, a := range g.accounts() {
		t.Logf("%s %s: %d asked, %d passed, %d of them of leases, %d given back",
			a.Key.Policy, a.Key.Limit, a.Asked(), a.Passed(), a.ByOutcome[crowd.Leased], a.ByOutcome[crowd.GivenBack])
		if over := a.Over(); over != 0 {
			t.Errorf("%s %s: over by %d", a.Key.Policy, a.Key.Limit, over)
		}
		if a.ByOutcome[crowd.Leased] == 0 {
			t.Errorf("%s %s: nothing came of leases", a.Key.Policy, a.Key.Limit)
		}
		if !plentiful(a.Key) {
			if a.Asked() == a.Passed() {
				t.Errorf("%s %s: nothing was refused", a.Key.Policy, a.Key.Limit)
			}
			continue
		}
		left := meters[i].units(t, l) - a.Kept()
		if left < 0 {
			t.Errorf("%s %s: %d units passed that were not charged", a.Key.Policy, a.Key.Limit, -left)
		}
		if a.Key.Policy == calm {
			forgotten -= left
		} else {
			lost += left
		}
		if refunds := a.Key.Policy == calm && a.Key.Limit.Algorithm != shardlimit.TokenBucket; refunds != (a.ByOutcome[crowd.GivenBack] > 0) {
			t.Errorf("%s %s: %d refunded", a.Key.Policy, a.Key.Limit, a.ByOutcome[crowd.GivenBack])
		}
	}
	if forgotten != 0 {
		t.Errorf("%d units forgotten that are not charged", forgotten)
	}
	sum, leased := others.sum(), others.leased()
	if c := sum.Counts; c.Lent != leased+c.GivenBack+c.Forgotten {
		t.Errorf("%d spent of %+v, want all that was lent spent, given back or forgotten", leased, c)
	}
	if lost == 0 {
		t.Error("no unit was lost with the killed")
	}
	calmOnes.wantMishaps(false)
	others.wantMishaps(true)
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

// startSome starts n instances whose keys cool, and n that close their Limiters
// while all keys are hot, too many for its places unless all of them are calm.
func (g *gathering) startSome(n int, forCalm bool) *some {
	g.t.Helper()
	s := &some{g: g}
	for i := range 2 * n {
		s.running = append(s.running, g.start(func(o *crowd.Order) {
			asking(o, forCalm)
			if o.Entries = places; i < n {
				o.Pause = true
			} else {
				o.Reopen = time.Second
			}
		}))
		s.files = append(s.files, g.files[len(g.files)-1])
	}
	return s
}

// places are fewer than the 6 keys that are not calm.
const places = 5

// sum returns the sum of what they reported, once they have ended.
func (s *some) sum() (sum crowd.Report) {
	s.g.t.Helper()
	for _, p := range s.running {
		s.reports = append(s.reports, s.g.report(p))
	}
	s.running = nil
	for _, r := range s.reports {
		sum.Counts.Lent += r.Counts.Lent
		sum.Counts.GivenBack += r.Counts.GivenBack
		sum.Counts.Forgotten += r.Counts.Forgotten
		sum.NoPlace += r.NoPlace
		sum.Cooled += r.Cooled
		sum.Held += r.Held
	}
	return sum
}

// wantMishaps wants what they were to meet to have happened.
func (s *some) wantMishaps(crowded bool) {
	s.g.t.Helper()
	sum := s.sum()
	s.g.t.Logf("%d entries went, %d times a key had no place, %d units were held at Close", sum.Cooled, sum.NoPlace, sum.Held)
	if sum.Cooled == 0 || sum.Held == 0 || (sum.NoPlace > 0) != crowded {
		s.g.t.Errorf("%+v, want entries gone as they cooled, leases at Close, and keys without a place: %t", sum, crowded)
	}
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
	doomed []doomed

	killed, moved, replaced int
}

// doomed is an instance that is killed.
type doomed struct {
	*crowd.Process
	file string
}

// run has n more instances ask, and lets one thing happen after the other, all of
// them again and again in any order. At the end it kills those instances too.
func (m *mishaps) run(t *testing.T, n int) {
	t.Helper()
	for range n {
		m.doomed = append(m.doomed, m.start())
	}
	ctx, cancel := context.WithDeadline(t.Context(), m.g.order.Start.Add(m.g.order.For))
	defer cancel()
	things := []func(context.Context) error{m.kill, m.move, m.replace}
	for ctx.Err() == nil {
		m.random.Shuffle(len(things), func(i, j int) { things[i], things[j] = things[j], things[i] })
		for _, happens := range things {
			if !m.rest(ctx, time.Duration(m.random.Int64N(int64(200*time.Millisecond)))) {
				break
			}
			if err := happens(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("killed %d instances, moved %d slots, replaced %d primaries", m.killed, m.moved, m.replaced)
	if m.killed == 0 || m.moved == 0 || m.replaced == 0 {
		t.Error("want some of each")
	}
	for _, d := range m.doomed {
		if err := d.Kill(); err != nil {
			t.Error(err)
		}
	}
	if err := m.c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (m *mishaps) start() doomed {
	p := m.g.start(func(o *crowd.Order) {
		asking(o, false)
		o.Entries, o.Durable = places, true
	})
	return doomed{Process: p, file: m.g.files[len(m.g.files)-1]}
}

// rest waits. It reports false once ctx has ended.
func (m *mishaps) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// kill kills an instance that has leases of keys with plenty, and starts another.
func (m *mishaps) kill(ctx context.Context) error {
	d := &m.doomed[m.random.IntN(len(m.doomed))]
	leases := func(a crowd.Account) bool { return plentiful(a.Key) && a.ByOutcome[crowd.Leased] > 0 }
	for !slices.ContainsFunc(m.g.of(d.file), leases) {
		if !m.rest(ctx, 10*time.Millisecond) {
			return nil
		}
	}
	err := d.Kill()
	m.killed++
	*d = m.start()
	return err
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
			m.moved++
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
	m.replaced++
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
		over, leased, unanswered := a.Over(), a.ByOutcome[crowd.Leased], a.ByOutcome[crowd.Unknown]+a.ByOutcome[crowd.NeverRan]
		t.Logf("%s: %d asked, %d passed, %d of them of leases, %d without an answer; over %d, at most %d",
			a.Key.Limit, a.Asked(), a.Passed(), leased, unanswered, over, most)
		if leased == 0 || theirs[a.Key.Subject] && unanswered == 0 {
			t.Errorf("%s: want leases, and none to answer once the primary was killed", a.Key.Limit)
		}
		if over > most {
			t.Errorf("%s: over by %d, want at most %d", a.Key.Limit, over, most)
		}
	}
}
