package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rules"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/limitertest"
)

func TestTheDaemonOnTheEmbeddedStoreKeepsThePromises(t *testing.T) {
	limitertest.Run(t, func(t *testing.T) (limitertest.Limiter, func(time.Time)) {
		l, err := shardlimit.NewLocal(shardlimit.Config{})
		return newRemote(t, closing.Opened(t, l, err)), nil
	})
}

func TestTheDaemonOnAClusterKeepsThePromises(t *testing.T) {
	cluster := redistest.Shared(t)
	limitertest.Run(t, func(t *testing.T) (limitertest.Limiter, func(time.Time)) {
		l, err := shardlimit.Open(cluster.ClientOptions(), shardlimit.Config{Prefix: redistest.Prefix(t), Timeout: 10 * time.Second})
		return newRemote(t, closing.Opened(t, l, err)), nil
	})
}

// remote is a limiter behind HTTP: what the daemon's clients have. Policies that
// it is given become the daemon's, as if its configuration were read anew.
type remote struct {
	*server

	mu       sync.Mutex
	config   *config.Config
	policies map[string]*shardlimit.Policy
	receipts []string // of the results, by the nanoseconds of their ResetAfter
}

func newRemote(t *testing.T, l Limiter) *remote {
	t.Helper()
	r := &remote{server: serve(t, l, newContract(t)), config: config.Default(), policies: map[string]*shardlimit.Policy{}}
	r.api.Receipts, r.api.receipts = 1000, newReceipts(1000)
	r.api.Config = func() *config.Config {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.config
	}
	return r
}

// install makes p the daemon's policy of its name.
func (r *remote) install(p *shardlimit.Policy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.policies[p.Name()] == p {
		return
	}
	r.policies[p.Name()] = p
	all := make([]*shardlimit.Policy, 0, len(r.policies))
	for _, known := range r.policies {
		all = append(all, known)
	}
	r.config = config.Default()
	r.config.Rules = rules.New(all, nil)
}

func (r *remote) Allow(ctx context.Context, p *shardlimit.Policy, subject string) (shardlimit.Result, error) {
	return r.AllowN(ctx, p, subject, 1)
}

func (r *remote) AllowN(ctx context.Context, p *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error) {
	return r.decide(ctx, p, subject, cost, "allow")
}

func (r *remote) AllowAtMost(ctx context.Context, p *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error) {
	return r.decide(ctx, p, subject, cost, "at_most")
}

func (r *remote) Charge(ctx context.Context, p *shardlimit.Policy, subject string, cost int64) (shardlimit.Result, error) {
	return r.decide(ctx, p, subject, cost, "charge")
}

func (r *remote) Peek(_ context.Context, p *shardlimit.Policy, subject string) (shardlimit.Result, error) {
	r.install(p)
	target := "/v1/inspect?" + url.Values{"policy": {p.Name()}, "subject": {subject}}.Encode()
	a := r.ask(http.MethodGet, target, "")
	if a.status != http.StatusOK {
		return shardlimit.Result{}, r.fault(a, p)
	}
	var in inspected
	if err := json.Unmarshal(a.body, &in); err != nil {
		return shardlimit.Result{}, err
	}
	return r.result(in.Subject.Peek)
}

func (r *remote) Refund(_ context.Context, result shardlimit.Result) error {
	nth := result.ResetAfter % time.Microsecond
	if nth == 0 {
		return nil // no receipt came with it
	}
	r.mu.Lock()
	receipt := r.receipts[nth-1]
	r.mu.Unlock()
	return r.done(r.ask(http.MethodPost, "/v1/refund", fmt.Sprintf(`{"receipt":%q}`, receipt)), nil)
}

func (r *remote) Reset(_ context.Context, p *shardlimit.Policy, subject string) error {
	r.install(p)
	return r.done(r.ask(http.MethodPost, "/v1/reset", fmt.Sprintf(`{"policy":%q,"subject":%q}`, p.Name(), subject)), p)
}

func (r *remote) done(a response, p *shardlimit.Policy) error {
	if a.status == http.StatusNoContent {
		return nil
	}
	return r.fault(a, p)
}

func (r *remote) AllowEach(_ context.Context, reqs ...shardlimit.Request) []shardlimit.Outcome {
	outcomes := make([]shardlimit.Outcome, len(reqs))
	if len(reqs) == 0 {
		return outcomes
	}
	a := r.many(reqs, false)
	var all decisions
	if err := json.Unmarshal(a.body, &all); err != nil || len(all.Decisions) != len(reqs) {
		r.t.Errorf("%d %s", a.status, a.body)
		return outcomes
	}
	for i, d := range all.Decisions {
		if d.Problem != nil {
			outcomes[i].Err = r.wrong(d.Problem.Errors[0], reqs[i].Policy)
		} else {
			outcomes[i].Result, outcomes[i].Err = r.result(*d.Decision)
		}
	}
	return outcomes
}

func (r *remote) AllowAll(_ context.Context, reqs ...shardlimit.Request) ([]shardlimit.Result, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	a := r.many(reqs, true)
	if a.status != http.StatusOK {
		var faults []error
		for _, e := range a.problem(r.t).Errors {
			var f shardlimit.RequestError
			if _, err := fmt.Sscanf(e.Field, "requests[%d].%s", &f.Index, &e.Field); err != nil {
				return nil, fmt.Errorf("%d %s", a.status, a.body)
			}
			f.Err = r.wrong(e, reqs[f.Index].Policy)
			faults = append(faults, &f)
		}
		return nil, errors.Join(faults...)
	}
	var all decisions
	if err := json.Unmarshal(a.body, &all); err != nil {
		return nil, err
	}
	var results []shardlimit.Result
	for _, d := range all.Decisions {
		result, err := r.result(*d.Decision)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// many checks several requests.
func (r *remote) many(reqs []shardlimit.Request, together bool) response {
	var all []map[string]any
	for _, q := range reqs {
		one := map[string]any{"policy": r.name(q.Policy), "subject_base64": []byte(q.Subject)}
		if q.Cost != 0 {
			one["cost"] = q.Cost
		}
		all = append(all, one)
	}
	body, err := json.Marshal(map[string]any{"requests": all, "all_or_none": together, "receipt": true})
	if err != nil {
		r.t.Error(err)
	}
	return r.ask(http.MethodPost, "/v1/check", string(body))
}

// name returns the name of p, which is the daemon's from now on.
func (r *remote) name(p *shardlimit.Policy) string {
	if p == nil || p.Name() == "" {
		return ""
	}
	r.install(p)
	return p.Name()
}

// decide checks one request.
func (r *remote) decide(ctx context.Context, p *shardlimit.Policy, subject string, cost int64, mode string) (shardlimit.Result, error) {
	if err := ctx.Err(); err != nil {
		return shardlimit.Result{}, err
	}
	body, err := json.Marshal(map[string]any{
		"policy": r.name(p), "subject_base64": []byte(subject), "cost": cost, "mode": mode, "receipt": true,
	})
	if err != nil {
		return shardlimit.Result{}, err
	}
	a := r.ask(http.MethodPost, "/v1/check", string(body))
	if a.status != http.StatusOK {
		return shardlimit.Result{}, r.fault(a, p)
	}
	var d Decision
	if err := json.Unmarshal(a.body, &d); err != nil {
		return shardlimit.Result{}, err
	}
	return r.result(d)
}

// result returns a decision as the library has it. Nanoseconds in ResetAfter,
// which no answer has, tell those with receipts apart.
func (r *remote) result(d Decision) (shardlimit.Result, error) {
	limit, err := shardlimit.ParseLimit(d.Limit)
	if err != nil {
		return shardlimit.Result{}, err
	}
	result := shardlimit.Result{
		Allowed: d.Allowed, Granted: d.Granted, Limit: limit, Remaining: d.Remaining,
		RetryAfter: time.Duration(d.RetryAfterUS) * time.Microsecond,
		ResetAfter: time.Duration(d.ResetAfterUS) * time.Microsecond,
	}
	for _, s := range []shardlimit.Source{shardlimit.FromRedis, shardlimit.FromMemory, shardlimit.FromFallback, shardlimit.FromLease, shardlimit.FromDenial} {
		if s.String() == d.Source {
			result.Source = s
		}
	}
	if d.Failure != "" {
		result.Failure = errors.New(d.Failure)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.Receipt != "" && len(r.receipts) < int(time.Microsecond)-1 {
		r.receipts = append(r.receipts, d.Receipt)
		result.ResetAfter += time.Duration(len(r.receipts))
	}
	return result, nil
}

// fault returns the error that the problem stands for.
func (r *remote) fault(a response, p *shardlimit.Policy) error {
	var problem Problem
	if err := json.Unmarshal(a.body, &problem); err != nil || len(problem.Errors) == 0 {
		return fmt.Errorf("%d %s", a.status, a.body)
	}
	return r.wrong(problem.Errors[0], p)
}

// wrong returns the error that a field's fault stands for.
func (r *remote) wrong(e FieldError, p *shardlimit.Policy) error {
	switch e.Field[strings.LastIndex(e.Field, ".")+1:] {
	case "policy":
		return shardlimit.ErrNoPolicy
	case "subject":
		return shardlimit.ErrNoSubject
	case "cost":
		cost, _ := e.Value.(float64)
		c := &shardlimit.CostError{Cost: int64(cost)}
		for _, l := range p.Limits() {
			if c.Limit = l; e.Reason == costReason(c) {
				break
			}
		}
		return c
	default:
		gcra := func(l shardlimit.Limit) bool { return l.Algorithm == shardlimit.GCRA }
		return &shardlimit.ConfigError{
			Field: fmt.Sprintf("Limits[%d].Algorithm", slices.IndexFunc(p.Limits(), gcra)), Reason: e.Reason,
		}
	}
}
