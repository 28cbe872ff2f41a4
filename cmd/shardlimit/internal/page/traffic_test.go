package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

func decide(tr *traffic, n int, policy string, r shardlimit.Result) {
	for range n {
		tr.decided(&shardlimit.Decision{Policy: policy, Result: r})
	}
}

func TestRatesAreOfTheLatestTicksAndTheTimeTheyTook(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	tr := newTraffic(start)
	decide(tr, 30, "api", shardlimit.Result{Source: shardlimit.FromRedis, Allowed: true})
	tr.tick(start.Add(time.Second))
	decide(tr, 10, "api", shardlimit.Result{Source: shardlimit.FromRedis})
	decide(tr, 20, "try", shardlimit.Result{Source: shardlimit.FromLease, Allowed: true, Shadowed: true})
	decide(tr, 5, "api", shardlimit.Result{}) // an error
	tr.sent("a:1", 8)
	tr.sent("a:1", 2)
	tr.tick(start.Add(5 * time.Second)) // a tick that came late
	tr.read(func(p *past) {
		for what, tt := range map[string]struct{ got, want rates }{
			"redis": {p.sources[shardlimit.FromRedis].now(), rates{allowed: 6, denied: 2}},
			"lease": {p.sources[shardlimit.FromLease].now(), rates{shadowed: 4}},
			"none":  {p.sources[0].now(), rates{denied: 1}},
			"api":   {p.policies["api"].now(), rates{allowed: 6, denied: 3}},
			"try":   {p.policies["try"].now(), rates{shadowed: 5}}, // since it was met
			"a:1":   {p.shards["a:1"].now(), rates{allowed: 2.5}},
		} {
			if tt.got != tt.want {
				t.Errorf("%s: %+v a second, want %+v", what, tt.got, tt.want)
			}
		}
	})
	for i := range recent {
		tr.tick(start.Add(time.Duration(6+i) * time.Second))
	}
	tr.read(func(p *past) {
		if got := p.sources[shardlimit.FromRedis].now(); got != (rates{}) {
			t.Errorf("after %d ticks without decisions: %+v a second", recent, got)
		}
	})
}

func TestShardsThatAreGoneAreForgotten(t *testing.T) {
	r := NewRecord()
	told := r.Observer()
	for i := range 1000 { // nodes come and go
		shard := fmt.Sprintf("10.0.0.%d:6379", i)
		told.Sending(shard, 1)
		r.traffic.tick(time.Now())
		told.TopologyChanged([]string{shard})
	}
	r.traffic.read(func(p *past) {
		if len(p.shards) != 1 || p.shards["10.0.0.999:6379"] == nil {
			t.Errorf("%d shards are known, want the last", len(p.shards))
		}
	})
}

func TestChartsHaveAStepForEachTick(t *testing.T) {
	var s series
	if c := newChart(&s, 10); c.Allowed != "" || c.Denied != "" || c.Peak != 0 {
		t.Errorf("of nothing: %+v", c)
	}
	s.tick(outcomes{allowed: 5}, time.Second)
	s.tick(outcomes{allowed: 10, denied: 5}, time.Second)
	c := newChart(&s, 10)
	if want := "V5.0H119V5.0H120"; c.Peak != 10 || !strings.Contains(c.Allowed, want) {
		t.Errorf("peak %v, allowed %s; want 10, and to end by %s", c.Peak, c.Allowed, want)
	}
	if want := "V5.0H119V0.0H120V5.0H119V5.0H118"; !strings.Contains(c.Denied, want) { // there and back
		t.Errorf("denied %s; want %s upon what is allowed", c.Denied, want)
	}
	for range window {
		s.tick(outcomes{allowed: 10, denied: 5}, time.Second)
	}
	if c := newChart(&s, 10); c.Peak != 0 {
		t.Errorf("peak %v after a window without any", c.Peak)
	}
}
