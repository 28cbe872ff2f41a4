package shardlimit_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

var floodSubjects = flag.Int("flood.subjects", 300_000, "how many subjects a flood is of; the race detector sees a tenth")

// memoryGrows is how much more memory a process may have, in bytes, after as many
// subjects again: a kept one takes more than 200 bytes, and 10 million at least a
// byte each.
const memoryGrows = 4 << 20

// A flood of distinct subjects that are all refused: memory stays as it was once
// it is warm, and no lease is lost.
func TestAFloodOfSubjectsLosesNoLease(t *testing.T) {
	subjects := *floodSubjects
	if raced {
		subjects /= 10
	}
	l, err := shardlimit.NewFlying(floodedBackend(), shardlimit.Config{
		HotKeys: shardlimit.HotKeysConfig{DenialBytes: 4 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &flood{limiter: l, hot: policy(t, shardlimit.PerSecond(plenty)), cold: shardlimit.MustPolicy(
		shardlimit.PolicyConfig{Name: "cold", Limits: []shardlimit.Limit{refused}},
	)}
	before := usage()
	f.ask(t, 0, subjects/2)
	warm := usage()
	f.ask(t, subjects/2, subjects)
	after := usage()
	t.Logf("at first %v; after half of %d subjects %v; after all %v", before, subjects, warm, after)
	if after.heap > warm.heap+memoryGrows || after.resident > warm.resident+memoryGrows && !raced {
		t.Errorf("memory grows from %v to %v", warm, after)
	}
	if got := l.Inspect().HotKeys; got.Entries != 1 || got.Bytes > 8<<20 {
		t.Errorf("%d entries, %d bytes; want 1, and at most 8 MiB", got.Entries, got.Bytes)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	c := l.Inspect().HotKeys.Counts
	t.Logf("%+v", c)
	if c.Lent != f.spent.Load()+c.GivenBack+c.Forgotten || f.spent.Load() == 0 {
		t.Errorf("%d spent of %+v, want all that was lent spent, given back or forgotten", f.spent.Load(), c)
	}
}

// refused is the limit of all subjects but one.
var refused = shardlimit.PerHour(1)

// floodedBackend decides about the hot subject, and refuses all others.
func floodedBackend() shardlimit.Backend {
	store := memory.New()
	run := func(_ context.Context, c *scripts.Call) (scripts.Reply, error) {
		if strings.Contains(c.Key, "{hot}") {
			return store.Do(context.Background(), c)
		}
		now := time.Now().UnixMicro()
		return scripts.NewReply(now, 0, rule.State{Used: float64(refused.Period.Microseconds()), At: float64(now)}), nil
	}
	return shardlimit.Backend{Run: run, Stop: stops(store.Close)}
}

// flood is callers who each ask for a subject that nobody has asked for, and then
// for the hot one.
type flood struct {
	limiter   *shardlimit.Limiter
	hot, cold *shardlimit.Policy
	spent     atomic.Int64 // of leases
}

// ask asks for the subjects of those numbers.
func (f *flood) ask(t *testing.T, from, to int) {
	t.Helper()
	const callers = 4
	var calling sync.WaitGroup
	for c := range callers {
		calling.Go(func() {
			for i := from + c; i < to; i += callers {
				if r, err := f.limiter.Allow(t.Context(), f.cold, "client:"+strconv.Itoa(i)); err != nil || r.Allowed {
					t.Errorf("%+v, %v", r, err)
					return
				}
				r, err := f.limiter.Allow(t.Context(), f.hot, "hot")
				if err != nil || !r.Allowed {
					t.Errorf("%+v, %v", r, err)
					return
				}
				if r.Source == shardlimit.FromLease {
					f.spent.Add(1)
				}
			}
		})
	}
	calling.Wait()
}

// usedMemory is in bytes: of live objects, and of the whole process as the
// system has it, 0 where that does not say.
type usedMemory struct{ heap, resident uint64 }

func (u usedMemory) String() string {
	return fmt.Sprintf("%d KiB (%d KiB resident)", u.heap>>10, u.resident>>10)
}

// usage returns what this process uses, once all that it does not is given back.
func usage() (u usedMemory) {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.heap = m.HeapAlloc
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseUint(fields[1], 10, 64)
			u.resident = pages * uint64(os.Getpagesize())
		}
	}
	return u
}
