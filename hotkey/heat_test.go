package hotkey

import (
	"hash/maphash"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// 300,000 observations of Zipf's 100,000 keys, spread over two seconds: the
// hottest are found, and what is said of any key is what was counted, and a
// little more where others share its counters.
func TestHeatKnowsTheHottestAndHowHotTheyAre(t *testing.T) {
	const keys, observations = 100_000, 300_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	zipf := rand.NewZipf(random, 1.1, 1, keys-1)
	hashes := maphash.MakeSeed()
	h := newHeat()
	exact := make([]float64, keys)
	now := moment(0)
	for i := range observations {
		if i == observations/2 {
			now = now.add(heatTime) // all counts are halved
			for n := range exact {
				exact[n] /= 2
			}
		}
		n := zipf.Uint64()
		exact[n]++
		k := Key{Spec: keyA.Spec, Subject: strconv.FormatUint(n, 10)}
		h.observe(k, k.hash(hashes), 1, now)
	}
	checkTop(t, h, exact)
	over := 0
	for n, want := range exact {
		k := Key{Spec: keyA.Spec, Subject: strconv.Itoa(n)}
		got := float64(h.add(k.hash(hashes), 0))
		if got < math.Floor(want)-1 { // each halving rounds down
			t.Fatalf("key %d: %v, counted %v: too few", n, got, want)
		}
		// e/width of all there is, for all but one in e^4.
		if got > want+math.E/heatWidth*observations {
			over++
		}
	}
	if limit := keys / 40; over > limit {
		t.Errorf("%d of %d keys are over the bound, want at most %d", over, keys, limit)
	}
}

// checkTop compares the heap with what was counted.
func checkTop(t *testing.T, h *heat, exact []float64) {
	t.Helper()
	list := h.top.list()
	if len(list) != topKeys {
		t.Fatalf("%d hottest, want %d", len(list), topKeys)
	}
	found := map[string]bool{}
	for i, c := range list {
		found[c.key.Subject] = true
		n, _ := strconv.Atoi(c.key.Subject)
		if got, want := float64(c.count), exact[n]; math.Abs(got-want) > want*0.05+20 {
			t.Errorf("hottest %d, key %d: count %v, want %v", i, n, got, want)
		}
		if i > 0 && c.count > list[i-1].count {
			t.Errorf("hottest %d is hotter than the one before", i)
		}
	}
	for n := range topKeys / 2 { // Zipf's first are the hottest
		if !found[strconv.Itoa(n)] {
			t.Errorf("key %d is not among the hottest", n)
		}
	}
}

func TestHeatIsTheRateOfWhatIsSteady(t *testing.T) {
	h := newHeat()
	var got float64
	for i := range 500 { // 50 a second for ten seconds
		got = h.observe(keyA, 42, 1, moment(i)*moment(20*time.Millisecond))
	}
	if got < 45 || got > 55 {
		t.Errorf("%v a second, want 50", got)
	}
}

func TestHeatCoolsWithTime(t *testing.T) {
	h := newHeat()
	h.observe(keyA, 42, 1000, 0)
	now := moment(0).add(3 * heatTime)
	h.cool(now)
	if got := h.rate(h.add(42, 0), now); got != 125 {
		t.Errorf("after three halvings: %v a second, want 1000/8", got)
	}
	if list := h.top.list(); len(list) != 1 || list[0].count != 125 {
		t.Errorf("the hottest are %+v, want one of 125", list)
	}
	h.cool(now.add(time.Hour))
	if list := h.top.list(); len(list) != 0 || len(h.top.index) != 0 {
		t.Errorf("an hour later: the hottest are %+v, want none", list)
	}
}

// Keys that share the low or the high bits of their hashes share no more
// counters than others do.
func TestRowsOfTheSketchAreIndependent(t *testing.T) {
	const others = 10_000
	for name, hash := range map[string]func(uint64) uint64{
		"low bits":  func(i uint64) uint64 { return i<<20 | 0xabcde },
		"high bits": func(i uint64) uint64 { return 0xabcde<<44 | i },
	} {
		h := newHeat()
		for i := range uint64(others) {
			h.add(hash(i+1), 1)
		}
		if got := h.add(hash(0), 0); got > 5 {
			t.Errorf("%s in common: a key nobody asked for counts %d", name, got)
		}
	}
}

func BenchmarkHeat(b *testing.B) {
	h := newHeat()
	keys := zipfKeys(10_000)
	seed := maphash.MakeSeed()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		k := keys[i&(len(keys)-1)]
		h.observe(k, k.hash(seed), 1, 0)
		i++
	}
}
