package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/tally"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// JSON shows a demo as one JSON object a line. Its "type" is scene, event, tick
// or ledger; the ledger comes last.
type JSON struct{ to *json.Encoder }

// NewJSON returns a JSON that writes to w.
func NewJSON(w io.Writer) *JSON { return &JSON{to: json.NewEncoder(w)} }

// Opening says nothing.
func (j *JSON) Opening(string) {}

// Scene says what the demo plays with.
func (j *JSON) Scene(s demo.Scene) {
	j.line(struct {
		Type string `json:"type"`
		demo.Scene
		OpenedIn float64 `json:"opened_in_s"`
		Duration float64 `json:"duration_s"`
	}{"scene", s, s.OpenedIn.Seconds(), s.Duration.Seconds()})
}

// Event tells of something that was done to the cluster.
func (j *JSON) Event(at time.Duration, text string) {
	j.line(struct {
		Type string  `json:"type"`
		At   float64 `json:"at_s"`
		Text string  `json:"text"`
	}{"event", at.Seconds(), text})
}

// Tick shows what was counted in one tick.
func (j *JSON) Tick(k demo.Tick) {
	j.line(struct {
		Type      string        `json:"type"`
		At        float64       `json:"at_s"`
		PerSecond int64         `json:"decisions_per_s"`
		Decisions int64         `json:"decisions"`
		Allowed   int64         `json:"allowed"`
		Denied    int64         `json:"denied"`
		Fallback  int64         `json:"fallback"`
		Errors    int64         `json:"errors"`
		Shards    []int64       `json:"shards"`
		Sources   tally.Sources `json:"sources"`
		Calls     int64         `json:"redis_calls"`
		Hottest   []hottest     `json:"hottest"`
		P50       float64       `json:"p50_ms"`
		P99       float64       `json:"p99_ms"`
		Max       float64       `json:"max_ms"`
	}{
		"tick", k.At.Seconds(), PerSecond(k.Decisions(), k.Length), k.Decisions(), k.Allowed, k.Denied, k.Fallback, k.Errors,
		k.Shards, k.Sources(), k.Calls, hot(k.Hottest), ms(k.Latency(50)), ms(k.Latency(99)), ms(k.Latency(100)),
	})
}

// hottest is one of the subjects that ask the most.
type hottest struct {
	Subject  string `json:"subject"`
	Shard    int    `json:"shard"` // from 1; 0 without Redis
	Admitted int64  `json:"admitted"`
	Denied   int64  `json:"denied"`
	Fallback int64  `json:"fallback"`
	Lease    int64  `json:"lease"` // units that this process holds, as they were lent
	Left     int64  `json:"left"`  // of them
}

func hot(subjects []demo.Subject) []hottest {
	list := make([]hottest, 0, len(subjects))
	for _, s := range subjects {
		list = append(list, hottest{s.Name, s.Shard + 1, s.Admitted, s.Denied, s.Unknown, s.Lease.Units, s.Lease.Left})
	}
	return list
}

// End shows the ledger, and who decided: all of it, and by policy.
func (j *JSON) End(e demo.End) {
	sources := map[string]tally.Sources{}
	for i, s := range e.Sources {
		sources[e.Ledger.Lines[i].Policy] = s
	}
	line := struct {
		Type    string  `json:"type"`
		Elapsed float64 `json:"elapsed_s"`
		Kept    bool    `json:"kept"`
		ledger.Ledger
		FirstError string                   `json:"first_error,omitempty"`
		Sources    map[string]tally.Sources `json:"sources"` // by policy
		Calls      int64                    `json:"redis_calls"`
		Tier       *hotkey.Counts           `json:"local_tier,omitempty"`
		stage.Done
		Replies map[string]int64 `json:"error_replies,omitempty"`
	}{
		Type: "ledger", Elapsed: e.Elapsed.Seconds(), Kept: e.Ledger.Kept(), Ledger: e.Ledger,
		Sources: sources, Calls: e.Calls, Tier: e.Tier, Done: e.Done, Replies: e.Replies,
	}
	if e.FirstError != nil {
		line.FirstError = e.FirstError.Error()
	}
	j.line(line)
}

func (j *JSON) line(v any) {
	_ = j.to.Encode(v) // who reads it is gone: there's nobody to tell
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
