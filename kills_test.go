package shardlimit_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// account is what is known of one subject under one policy.
type account struct {
	policy            *shardlimit.Policy
	subject           string
	limit             int64
	admitted, unknown atomic.Int64 // units
}

// note books a result of AllowAll.
func (a *account) note(r shardlimit.Result) {
	a.admitted.Add(r.Granted)
	if down, ok := errors.AsType[*shardlimit.UnavailableError](r.Failure); ok && down.Unknown {
		a.unknown.Add(1)
	}
}

// AllowAll while primaries are killed and come back with all that they had
// answered: nothing passes too often, and nothing is charged beyond what passed
// but the outcomes that are unknown and the units that are known to be stranded.
func TestAllowAllWhilePrimariesAreKilled(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{Args: []string{
		"--cluster-require-full-coverage", "no", "--appendonly", "yes", "--appendfsync", "always",
	}})
	const users, addresses = 12, 30
	prefix := redistest.Prefix(t)
	l := newOn(t, clientOf(t, c), shardlimit.Config{Prefix: prefix, Timeout: 200 * time.Millisecond})
	const perUser, perAddress = 2000, 1000
	user := closed("user", shardlimit.Per(perUser, long).WithAlgorithm(shardlimit.SlidingLog))
	address := closed("address", shardlimit.Per(perAddress, long).WithAlgorithm(shardlimit.FixedWindow))
	var accounts []*account
	for i, s := range subjects(users + addresses) {
		if i < users {
			accounts = append(accounts, &account{policy: user, subject: s, limit: perUser})
		} else {
			accounts = append(accounts, &account{policy: address, subject: s, limit: perAddress})
		}
	}
	var next atomic.Int64
	one := func() {
		n := next.Add(1)
		u, a := accounts[n%users], accounts[users+n%addresses]
		r, err := l.AllowAll(t.Context(), ask(u.policy, u.subject), ask(a.policy, a.subject))
		if err != nil {
			t.Errorf("AllowAll: %v", err)
			return
		}
		if r[0].Allowed != r[1].Allowed || r[0].Granted != r[1].Granted {
			t.Errorf("AllowAll = %+v, which is neither all nor none", r)
		}
		u.note(r[0])
		a.note(r[1])
	}

	var over atomic.Bool
	var others sync.WaitGroup
	for range 63 {
		others.Go(func() {
			for !over.Load() {
				one()
			}
		})
	}
	for _, node := range c.Nodes() {
		for range 20 {
			one()
		}
		if err := node.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		for range 20 {
			one()
		}
		if err := errors.Join(node.Restart(t.Context()), c.Wait(t.Context())); err != nil {
			t.Error(err)
		}
	}
	over.Store(true)
	others.Wait()
	if err := l.Close(); err != nil { // waits for what is given back
		t.Error(err)
	}
	fresh := newOn(t, clientOf(t, c), shardlimit.Config{Prefix: prefix, Timeout: patient})
	judge(t, fresh, accounts, l.Inspect().Counters)
}

// judge compares the accounts with what is charged.
func judge(t *testing.T, l *shardlimit.Limiter, accounts []*account, counters shardlimit.Counters) {
	t.Helper()
	var admitted, unknown, excess int64
	for _, a := range accounts {
		used := a.limit - result(t)(l.Peek(t.Context(), a.policy, a.subject)).Remaining
		passed := a.admitted.Load()
		if passed > a.limit || passed > used {
			t.Errorf("%s, %s: %d admitted and %d charged of %d", a.policy.Name(), a.subject, passed, used, a.limit)
		}
		admitted, unknown, excess = admitted+passed, unknown+a.unknown.Load(), excess+used-passed
	}
	t.Logf("%d decisions, %d units admitted, %d outcomes unknown, %d units stranded, %d charged beyond",
		counters.Allowed+counters.Denied+counters.FallbackDenied, admitted, unknown, counters.Stranded, excess)
	if excess > unknown+counters.Stranded {
		t.Errorf("%d units charged that nobody was granted, want at most %d unknown and %d stranded", excess, unknown, counters.Stranded)
	}
	if admitted == 0 || counters.FallbackDenied == 0 {
		t.Error("nothing was admitted, or no kill was noticed")
	}
}

// closed returns a policy that fails closed.
func closed(name string, limit shardlimit.Limit) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: name, Limits: []shardlimit.Limit{limit}, OnFailure: shardlimit.FailClosed(),
	})
}
