package api

import (
	"context"
	"fmt"
	"sync"

	"github.com/shardlimit/shardlimit"
)

// outcome is what became of one of many requests.
type outcome struct {
	result  shardlimit.Result
	problem *Problem // instead of a result
}

// allowEach decides requests that have nothing to do with each other, side by
// side.
func (a *API) allowEach(ctx context.Context, requests []request) []outcome {
	outcomes := make([]outcome, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		all.Go(func() {
			result, err := a.Limiter.AllowN(ctx, r.policy, r.subject, r.cost)
			outcomes[i].result = result
			if err != nil {
				outcomes[i].problem = explain(err, fmt.Sprintf("requests[%d].", i))
			}
		})
	}
	all.Wait()
	return outcomes
}

// allowAll decides requests of which all pass or none does: what some of them
// took is given back where another is refused.
func (a *API) allowAll(ctx context.Context, requests []request) ([]outcome, *Problem) {
	outcomes := a.allowEach(ctx, requests)
	var refused *Problem
	allowed := true
	for _, o := range outcomes {
		if o.problem != nil && refused == nil {
			refused = o.problem
		}
		allowed = allowed && o.result.Allowed
	}
	if refused == nil && allowed {
		return outcomes, nil
	}
	for i := range outcomes {
		_ = a.Limiter.Refund(context.WithoutCancel(ctx), outcomes[i].result)
		outcomes[i].result.Granted = 0
	}
	return outcomes, refused
}
