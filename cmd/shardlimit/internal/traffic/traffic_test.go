package traffic_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/tally"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/traffic"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// until is a limiter that ends the traffic after some calls, and whose answers
// may be bent.
type until struct {
	traffic.Limiter
	stop context.CancelFunc
	bend func(*shardlimit.Result)

	mu    sync.Mutex
	calls int
}

func (u *until) Allow(ctx context.Context, p *shardlimit.Policy, subject string) (shardlimit.Result, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls--; u.calls == 0 {
		u.stop()
	}
	r, err := u.Limiter.Allow(ctx, p, subject)
	u.bend(&r)
	return r, err
}

// play lets a few workers make some thousand calls and returns what the ledger
// makes of them: calls of the first few subjects, or of 50 where that is 0.
func play(t *testing.T, few int, bend func(*shardlimit.Result)) ledger.Ledger {
	t.Helper()
	local, err := shardlimit.NewLocal(shardlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = local.Close() }()
	policy := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "trial", Limits: []shardlimit.Limit{shardlimit.PerDay(20)},
	})
	tr := traffic.Traffic{Workers: 4, Seed: 1, Policies: []*shardlimit.Policy{policy}, Weights: []int{1}, Few: []int{few}}.WithSubjects(50)
	terms := ledger.Terms{Limits: policy.Limits(), Leases: shardlimit.LeaseOff}
	counts := tally.New(tr.Workers, 0, 50, []ledger.Terms{terms})

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	limiter := &until{Limiter: local, stop: stop, bend: bend, calls: 5000}
	tr.Run(ctx, limiter, time.Now(), func(uint16) int { return -1 }, counts)

	var l ledger.Ledger
	l.Enter(policy.Name(), terms, counts.Accounts(0))
	if got := counts.Take(); got.Decisions() != l.Lines[0].Asked || got.Allowed != l.Lines[0].Admitted {
		t.Errorf("Take() = %d decisions, %d allowed; the accounts hold %d and %d",
			got.Decisions(), got.Allowed, l.Lines[0].Asked, l.Lines[0].Admitted)
	}
	return l
}

func TestLedgerOfAnHonestLimiterIsClean(t *testing.T) {
	l := play(t, 0, func(*shardlimit.Result) {})
	if !l.Kept() || l.Lines[0].Exact != l.Lines[0].Subjects {
		t.Errorf("ledger = %+v, want nothing over or under, and each subject exact", l)
	}
}

func TestFewAskAlone(t *testing.T) {
	l := play(t, 3, func(*shardlimit.Result) {})
	if got := l.Lines[0]; got.Subjects != 3 || got.Admitted != 3*20 {
		t.Errorf("%+v, want three subjects who were admitted 20 times each", got)
	}
}

func TestLedgerCatchesALaxLimiter(t *testing.T) {
	denials := 0
	l := play(t, 0, func(r *shardlimit.Result) {
		if !r.Allowed {
			denials++
			r.Allowed = denials == 1
		}
	})
	if l.Over != 1 || l.Under != 0 {
		t.Errorf("over %d, under %d; want 1 and 0", l.Over, l.Under)
	}
}

func TestLedgerCatchesAMiserlyLimiter(t *testing.T) {
	passed := 0
	l := play(t, 0, func(r *shardlimit.Result) {
		if r.Allowed {
			passed++
			r.Allowed = passed != 1
		}
	})
	if l.Over != 0 || l.Under != 1 {
		t.Errorf("over %d, under %d; want 0 and 1", l.Over, l.Under)
	}
}
