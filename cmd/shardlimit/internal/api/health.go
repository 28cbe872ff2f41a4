package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/shardlimit/shardlimit"
)

// healthz says that the daemon runs.
func (a *API) healthz(w http.ResponseWriter, _ *http.Request) { reply(w, health{Status: "ok"}) }

// health is how the daemon is.
type health struct {
	Status string `json:"status"`
}

// readyz says whether the daemon can decide: Redis answers for at least one
// shard. Where others are away, the policies' failure modes answer for them,
// and would at every other daemon.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	if a.draining.Load() {
		problem(http.StatusServiceUnavailable, "stopping", "The daemon is ending.", "").write(w)
		return
	}
	if err := a.answers(r.Context()); err != nil {
		problem(http.StatusServiceUnavailable, "not-ready", "No shard answers.", err.Error()).write(w)
		return
	}
	reply(w, health{Status: "ready"})
}

// Ready reports whether the daemon can decide, as /readyz does.
func (a *API) Ready(ctx context.Context) bool {
	return !a.draining.Load() && a.answers(ctx) == nil
}

// probe is the policy that readyz looks at, and never charges.
var probe = shardlimit.MustPolicy(shardlimit.PolicyConfig{
	Name: "shardlimit.readyz", Limits: []shardlimit.Limit{shardlimit.PerSecond(1)},
})

// probes is how many subjects readyz looks at before it gives up: they spread
// over the shards as all subjects do.
const probes = 16

// answers returns nil if a shard answers within a second, or why the last one
// didn't.
func (a *API) answers(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for i := range probes {
		var result shardlimit.Result
		result, err = a.Limiter.Peek(ctx, probe, strconv.Itoa(i))
		if err == nil {
			err = result.Failure
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}
