package scripts_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

// calls is a call of each kind of reply.
func calls() []*scripts.Call {
	bucket := rule.Limit{Algorithm: rule.TokenBucket, Rate: 10, Period: 1e6, Burst: 10}
	gcra := rule.Limit{Algorithm: rule.GCRA, Rate: 10, Period: 1e6, Burst: 10}
	sliding := rule.Limit{Algorithm: rule.SlidingWindow, Rate: 10, Period: 1e6}
	log := rule.Limit{Algorithm: rule.SlidingLog, Rate: 10, Period: 1e6}
	fixed := rule.Limit{Algorithm: rule.FixedWindow, Rate: 10, Period: 1e6}
	short := rule.Limit{Algorithm: rule.FixedWindow, Rate: 10, Period: 1e3}
	var cs []*scripts.Call
	for _, limits := range [][]rule.Limit{{bucket}, {gcra}, {sliding}, {log}, {fixed}, {short}, {bucket, gcra, sliding, fixed}} {
		for _, op := range []scripts.Op{scripts.Take, scripts.Charge, scripts.Peek, scripts.Give, scripts.Reset} {
			cs = append(cs, &scripts.Call{Plan: scripts.NewPlan(limits...), Op: op, Cost: 1, Count: 3, Window: 7})
		}
		if p := scripts.NewPlan(limits...); p.Leasable() {
			cs = append(cs, &scripts.Call{Plan: p, Op: scripts.Lease, Cost: 1, Count: 3, Window: 7, Lease: scripts.Ask{Want: 3}})
		}
	}
	return cs
}

// FuzzDecode feeds replies of any bytes to every decoder: none panics, and
// what is taken for a reply keeps to its bounds.
func FuzzDecode(f *testing.F) {
	f.Add("")
	f.Add(doubles(5, 1e6, 1))
	f.Add(doubles(5, 1e6, 3, 1e6, 2))
	f.Add(doubles(math.NaN(), math.Inf(1), -1))
	f.Add(doubles(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
	f.Add("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c")
	f.Fuzz(func(t *testing.T, reply string) {
		for _, c := range calls() {
			r, err := c.Decode(reply)
			if err != nil {
				if _, ok := errors.AsType[*scripts.ReplyError](err); !ok {
					t.Fatalf("%s: error %T, want *ReplyError", c.Script().Name, err)
				}
				continue
			}
			if r.Now < 0 || r.Now >= 1<<53 || r.Granted < scripts.OtherWindow || r.Granted > 3 {
				t.Errorf("%s: %q decodes to now %d, granted %d", c.Script().Name, reply, r.Now, r.Granted)
			}
			for i := range c.Plan.Limits() {
				if s := r.State(i); (c.Op < scripts.Give || c.Op == scripts.Lease) && (math.IsNaN(s.Used+s.At+s.Prev+s.Leave) || math.IsInf(s.Used+s.At+s.Prev+s.Leave, 0)) {
					t.Errorf("%s: %q decodes to %+v", c.Script().Name, reply, s)
				}
				if c.Op == scripts.Give || c.Op == scripts.Reset {
					break // they carry no states
				}
			}
		}
	})
}

func doubles(ds ...float64) string {
	var b []byte
	for _, d := range ds {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(d))
	}
	return string(b)
}

func TestDecode(t *testing.T) {
	bucket := rule.Limit{Algorithm: rule.TokenBucket, Rate: 10, Period: 1e6, Burst: 10}
	sliding := rule.Limit{Algorithm: rule.SlidingWindow, Rate: 10, Period: 1e6}
	const at = 1_780_000_000_123_456
	compact := func(low48, high48 uint64) string {
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], low48)
		binary.LittleEndian.PutUint64(b[6:], high48)
		return string(b[:12])
	}
	for _, tt := range []struct {
		name    string
		limit   rule.Limit
		op      scripts.Op
		reply   string
		now, n  int64
		state   rule.State
		refused bool
	}{
		{name: "compact bucket alone: all granted", limit: bucket, reply: compact(at&(1<<48-1), 5e6<<4|at>>48), now: at, n: 3, state: rule.State{Used: 5e6, At: at}},
		{name: "wide bucket alone: all granted", limit: bucket, reply: doubles(2e13, at), now: at, n: 3, state: rule.State{Used: 2e13, At: at}},
		{name: "bucket with a tail", limit: bucket, reply: doubles(2e13, at, at+5, 0), now: at + 5, state: rule.State{Used: 2e13, At: at}},
		{name: "bucket after a reset", limit: bucket, reply: doubles(0, at, at, at+9, at+5, 2), now: at + 5, n: 2, state: rule.State{At: at}},
		{name: "peek of no bucket", limit: bucket, op: scripts.Peek, reply: doubles(at, 0), now: at},
		{name: "more granted than asked", limit: bucket, reply: doubles(2e13, at, at+5, 4), refused: true},
		{name: "half a grant", limit: bucket, reply: doubles(2e13, at, at+5, 0.5), refused: true},
		{name: "compact window", limit: sliding, reply: "\x07\x00\x00\x00\x00\x00\x01\x02\x00\x03\x00\x00" + doubles(at, 1), now: at, n: 1, state: rule.State{At: 7, Prev: 0x201, Used: 3}},
		{name: "an integer's text", limit: sliding, reply: "12", refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &scripts.Call{Plan: scripts.NewPlan(tt.limit), Op: tt.op, Cost: 1, Count: 3}
			r, err := c.Decode(tt.reply)
			if (err != nil) != tt.refused {
				t.Fatalf("Decode: error %v, want one: %v", err, tt.refused)
			}
			if r.Now != tt.now || r.Granted != tt.n || r.State(0) != tt.state {
				t.Errorf("Decode = now %d, granted %d, %+v; want %d, %d, %+v", r.Now, r.Granted, r.State(0), tt.now, tt.n, tt.state)
			}
		})
	}
}
