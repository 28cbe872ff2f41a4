package shardlimit_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A client of RESP2, of RESP3; a user with the minimal ACL of the docs; TLS.
func TestClients(t *testing.T) {
	const limit = 5
	check := func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		load(t, clustered(t, rdb), exactPolicies(limit), subjects(30), limit,
			func(context.Context) error { return nil })
	}
	t.Run("RESP2", func(t *testing.T) {
		check(t, redistest.Client(t, redistest.Shared(t), func(o *redis.ClusterOptions) { o.Protocol = 2 }))
	})
	t.Run("RESP3", func(t *testing.T) {
		check(t, redistest.Client(t, redistest.Shared(t), func(o *redis.ClusterOptions) { o.Protocol = 3 }))
	})
	t.Run("minimal ACL", func(t *testing.T) {
		c := redistest.Start(t, redistest.Options{Args: append([]string{"--user", "limiter", "on", ">secret"}, strings.Fields(minimalACL(t))...)})
		check(t, redistest.Client(t, c, func(o *redis.ClusterOptions) { o.Username, o.Password = "limiter", "secret" }))
	})
	t.Run("TLS", func(t *testing.T) {
		check(t, redistest.Client(t, redistest.Start(t, redistest.TLS(t, redistest.Options{})), nil))
	})
	t.Run("one server", func(t *testing.T) {
		s := redistest.StartSingle(t, redistest.Options{})
		rdb := closing.AtEnd(t, redis.NewClient(&redis.Options{Addr: s.Addr()}))
		check(t, rdb)
	})
}

// minimalACL is the rule that the README gives a limiter's user, for any prefix.
func minimalACL(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(readme)) {
		if rest, ok := strings.CutPrefix(line, "~rl:*"); ok {
			return "~*" + rest
		}
	}
	t.Fatal("README.md gives no ACL rule")
	return ""
}

// Options that a client of the user's own may have change nothing.
func TestClientsOfEveryMind(t *testing.T) {
	const limit = 5
	for name, mutate := range map[string]func(*redis.ClusterOptions){
		"retries":               func(o *redis.ClusterOptions) { o.MaxRetries = 3 },
		"reads from replicas":   func(o *redis.ClusterOptions) { o.ReadOnly = true },
		"routes at random":      func(o *redis.ClusterOptions) { o.RouteRandomly = true },
		"routes by latency":     func(o *redis.ClusterOptions) { o.RouteByLatency = true },
		"one connection a node": func(o *redis.ClusterOptions) { o.PoolSize = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			load(t, clustered(t, redistest.Client(t, redistest.Shared(t), mutate)), exactPolicies(limit), subjects(30), limit,
				func(context.Context) error { return nil })
		})
	}
}
