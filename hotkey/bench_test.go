package hotkey

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
	"golang.org/x/time/rate"

	"github.com/shardlimit/shardlimit/internal/sidebyside"
)

// generous lends whatever is asked for, or what it is told to.
type generous struct{ units int64 }

func (g generous) Lease(_ context.Context, _ Key, ask Ask) (Grant, error) {
	return Grant{Units: max(g.units, ask.Want)}, nil
}

// BenchmarkDecide measures decisions made here, beside rate.Limiter.Allow of the
// same kind in the same run: x-rate is the ratio. The Limiters are at hand; found
// are those that are looked up by the subject, as who has many has to.
func BenchmarkDecide(b *testing.B) {
	hot := []Key{{Spec: &Spec{Policy: 1, Version: 1}, Subject: "user:42"}}
	zipf := zipfKeys(10_000)
	for _, c := range []struct {
		name string
		keys []Key
		know func(*testing.B, *Tier, []Key)
	}{
		{"lease/hot", hot, lend},
		{"lease/zipf", zipf, lend},
		{"denied/hot", hot, deny},
		{"denied/zipf", zipf, deny},
	} {
		tier := newBenchTier(b)
		c.know(b, tier, c.keys)
		limiters := xsync.NewMap[string, *rate.Limiter]()
		list := make([]*rate.Limiter, len(c.keys))
		for i, k := range c.keys {
			list[i], _ = limiters.LoadOrCompute(k.Subject, func() (*rate.Limiter, bool) {
				return rate.NewLimiter(1e9, 1e9), false
			})
		}
		mask := len(c.keys) - 1
		ours := func(i int) {
			var a Answer
			if !tier.Decide(&a, c.keys[i&mask], 1) {
				b.Error("went to Redis")
			}
		}
		theirs := func(i int) { list[i&mask].Allow() }
		found := func(i int) {
			l, _ := limiters.Load(c.keys[i&mask].Subject)
			l.Allow()
		}
		b.Run(c.name+"/serial", func(b *testing.B) { sidebyside.Compare(b, 1, ours, theirs) })
		b.Run(c.name+"/parallel", func(b *testing.B) { sidebyside.Compare(b, 8, ours, theirs) })
		b.Run(c.name+"/found", func(b *testing.B) { sidebyside.Compare(b, 1, ours, found) })
	}
}

// zipfKeys returns 65,536 keys, of n distinct subjects, as often as Zipf says.
func zipfKeys(n uint64) []Key {
	spec := &Spec{Policy: 1, Version: 1}
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 1, n-1)
	keys := make([]Key, 1<<16)
	for i := range keys {
		// A string of its own: a caller has just made or read it.
		keys[i] = Key{Spec: spec, Subject: "user:" + strconv.FormatUint(zipf.Uint64(), 10)}
	}
	return keys
}

func newBenchTier(b *testing.B) *Tier {
	tier, err := NewTier(generous{}, Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = tier.Close(context.Background()) })
	return tier
}

// lend gives each key a lease that outlasts the benchmark.
func lend(_ *testing.B, tier *Tier, keys []Key) {
	for _, k := range keys {
		hash := k.hash(tier.seed)
		e := tier.table.add(newEntry(k, hash, 1e6, 1e6, tier.now()))
		l := newLease(k, Grant{Units: maxUnits, Remaining: 1}, tier.now())
		l.now, l.until = tier.now, moment(time.Hour)
		e.lease.Store(l)
	}
}

// deny has each key denied for longer than the benchmark.
func deny(_ *testing.B, tier *Tier, keys []Key) {
	for _, k := range keys {
		hash := k.hash(tier.seed)
		e := tier.table.add(newEntry(k, hash, 1e6, 1e6, tier.now()))
		d := newDenial(Denial{Cost: 1, RetryAfter: time.Second}, k.Spec.Version, tier.Stamp(k), tier.now())
		d.until = moment(time.Hour)
		e.denial.Store(d)
	}
}
