package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/failover"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/scripts"
)

func TestDoChargesWhatItGrants(t *testing.T) {
	c := newTestClient(t, redistest.Shared(t), nil)
	eachKind(t, func(t *testing.T, plan *scripts.Plan) {
		key := tagged(t)
		if got := allow(t, c, plan, key, 12); got != 10 {
			t.Errorf("12 calls on 10 units: %d granted, want 10", got)
		}
		if got := used(t, c, plan, key); got != 10 {
			t.Errorf("%d units used, want 10", got)
		}
	})
}

func TestDoMakesEveryOperation(t *testing.T) {
	c := newTestClient(t, redistest.Shared(t), nil)
	eachKind(t, func(t *testing.T, plan *scripts.Plan) {
		key := tagged(t)
		charge := take(plan, key)
		charge.Cost = 3
		reply := do(t, c, charge)
		if got := used(t, c, plan, key); got != 3 {
			t.Errorf("after a charge of 3: %d used", got)
		}
		do(t, c, refund(charge, reply))
		if got := used(t, c, plan, key); got != 0 {
			t.Errorf("after its refund: %d used", got)
		}
		allow(t, c, plan, key, 2)
		do(t, c, &scripts.Call{Plan: plan, Op: scripts.Reset, Key: key})
		if got := used(t, c, plan, key); got != 0 {
			t.Errorf("after a reset: %d used", got)
		}
	})
}

// refund returns the call that takes back what charge took.
func refund(charge *scripts.Call, reply scripts.Reply) *scripts.Call {
	receipt := scripts.Receipt{Now: reply.Now, Granted: charge.Cost, Nonce: charge.Nonce}
	for i := range charge.Plan.Limits() {
		receipt.At = append(receipt.At, reply.State(i).At)
	}
	give := &scripts.Call{Plan: charge.Plan, Op: scripts.Give, Key: charge.Key, Receipt: receipt}
	if charge.Plan.Windowed() {
		give.Window = int64(receipt.At[0])
	}
	return give
}

func TestDoLeavesTheCallAlone(t *testing.T) {
	c := newTestClient(t, redistest.Shared(t), nil)
	call := take(scripts.NewPlan(limits["fixed_window"]...), tagged(t))
	before := *call
	do(t, c, call)
	if call.Window != before.Window || call.Key != before.Key {
		t.Errorf("Do changed its call from %+v to %+v", before, *call)
	}
}

func TestDoSpeaksBothProtocols(t *testing.T) {
	for name, protocol := range map[string]int{"RESP2": 2, "RESP3": 3} {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, redistest.Shared(t), func(o *redis.ClusterOptions) { o.Protocol = protocol })
			eachKind(t, func(t *testing.T, plan *scripts.Plan) {
				if got := allow(t, c, plan, tagged(t), 12); got != 10 {
					t.Errorf("12 calls on 10 units: %d granted, want 10", got)
				}
			})
		})
	}
}

func TestDoAsksASingleServer(t *testing.T) {
	server := redistest.StartSingle(t, redistest.Options{})
	noLeaks(t)
	rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true}))
	c := wrap(t, rdb)
	eachKind(t, func(t *testing.T, plan *scripts.Plan) {
		if got := allow(t, c, plan, tagged(t), 12); got != 10 {
			t.Errorf("12 calls on 10 units: %d granted, want 10", got)
		}
	})
}

func TestDoSpeaksTLS(t *testing.T) {
	servers := redistest.Start(t, redistest.TLS(t, redistest.Options{Shards: 2}))
	noLeaks(t)
	c := Open(servers.ClientOptions(), Options{Timeout: patient})
	closing.AtEnd(t, c)
	for i := range 20 { // both shards
		do(t, c, take(scripts.NewPlan(limits["token_bucket"]...), redistest.Prefix(t)+string(rune('a'+i))))
	}
}

func TestCloseClosesWhatItOwns(t *testing.T) {
	servers := redistest.Shared(t)
	noLeaks(t)
	call := take(scripts.NewPlan(limits["token_bucket"]...), tagged(t))

	owned := Open(servers.ClientOptions(), Options{})
	if err := owned.Close(); err != nil {
		t.Error(err)
	}
	if f := wantError(t.Context(), t, owned, call, failover.NeverRan); !errors.Is(f, redis.ErrClosed) {
		t.Errorf("Do of a closed Client: %v, want %v", f, redis.ErrClosed)
	}

	rdb := redistest.Client(t, servers, nil)
	if err := wrap(t, rdb).Close(); err != nil {
		t.Error(err)
	}
	do(t, wrap(t, rdb), call)
}

func TestNewRefusesClientsThatFollowNoSlots(t *testing.T) {
	ring := closing.AtEnd(t, redis.NewRing(&redis.RingOptions{}))
	tests := map[string]redis.UniversalClient{
		"*redis.Ring": ring, "<nil>": nil,
		"nil *redis.ClusterClient": (*redis.ClusterClient)(nil), "nil *redis.Client": (*redis.Client)(nil),
	}
	for want, rdb := range tests {
		_, err := New(rdb, Options{})
		if e, ok := errors.AsType[*ClientError](err); !ok || e.Client != want {
			t.Errorf("New(%s) = %v, want a *ClientError that names it", want, err)
		}
	}
}

func TestDoWithAContextThatHasEndedSendsNothing(t *testing.T) {
	c := newTestClient(t, redistest.Shared(t), nil)
	sent := count(c.rdb)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call := take(scripts.NewPlan(limits["token_bucket"]...), tagged(t))
	if f := wantError(ctx, t, c, call, failover.NeverRan); !errors.Is(f, context.Canceled) {
		t.Errorf("Do = %v, want %v", f, context.Canceled)
	}
	if n := sent.evalsha.Load(); n != 0 {
		t.Errorf("sent %d commands, want none", n)
	}
}

// aclUser may do what the package's documentation says and nothing else.
var aclUser = []any{
	"on", ">secret", "~rl:*", "+evalsha", "+eval", "+cluster|slots", "+asking",
	"+time", "+get", "+set", "+del", "+pexpire",
	"+zadd", "+zcard", "+zcount", "+zrange", "+zrangebyscore", "+zrem", "+zremrangebyrank",
}

// asLimiter makes that user at all nodes, and returns how a client becomes it.
func asLimiter(t *testing.T, servers *rediscluster.Cluster) func(*redis.ClusterOptions) {
	t.Helper()
	for _, n := range servers.Nodes() {
		run(t, n, append([]any{"ACL", "SETUSER", "limiter"}, aclUser...)...)
		run(t, n, "ACL", "LOG", "RESET")
	}
	return func(o *redis.ClusterOptions) { o.Username, o.Password = "limiter", "secret" }
}

func TestDoNeedsFewPermissions(t *testing.T) {
	servers := redistest.Shared(t)
	c := newTestClient(t, servers, asLimiter(t, servers))
	eachKind(t, func(t *testing.T, plan *scripts.Plan) {
		key := "rl:" + tagged(t)
		charge := take(plan, key)
		do(t, c, refund(charge, do(t, c, charge)))
		if got := allow(t, c, plan, key, 12); got != 10 {
			t.Errorf("12 calls on 10 units: %d granted, want 10", got)
		}
		used(t, c, plan, key)
		do(t, c, &scripts.Call{Plan: plan, Op: scripts.Reset, Key: key})
	})
	for _, n := range servers.Nodes() {
		log, err := n.Client().ACLLog(t.Context(), 10).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range log {
			if entry.Object != "client|setinfo" { // goes without, from Redis 7.2 on
				t.Errorf("%s was refused: %s", n.Addr(), entry.Object)
			}
		}
	}
}
