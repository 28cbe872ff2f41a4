package redistest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestSharedIsOneCluster(t *testing.T) {
	c := redistest.Shared(t)
	if again := redistest.Shared(t); again != c {
		t.Error("Shared started another cluster")
	}
	if err := redistest.Client(t, c, nil).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestPrefixIsUniqueAndFitForANamePart(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"{a} b/c", strings.Repeat("long", 50), "same", "same"} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				p := redistest.Prefix(t)
				if seen[p] || len(p) > 48 || strings.ContainsAny(p, "{} /:%") {
					t.Errorf("Prefix = %q", p)
				}
				seen[p] = true
			}
		})
	}
}

func TestErrorsCountsWhatWasAdded(t *testing.T) {
	c := redistest.Shared(t)
	n := c.Nodes()[0]
	before := redistest.Errors(t, c)
	for range 3 {
		if err := n.Client().EvalSha(t.Context(), strings.Repeat("0", 40), nil).Err(); err == nil {
			t.Fatal("an unknown script ran")
		}
	}
	if got := redistest.Errors(t, c).Since(before); len(got) != 1 || got["NOSCRIPT"] != 3 {
		t.Errorf("Since = %v, want NOSCRIPT 3", got)
	}
}

func TestClusterWithTLSAndALeastUser(t *testing.T) {
	t.Parallel()
	opts := redistest.TLS(t, redistest.Options{
		Replicas: 1,
		Args:     []string{"--user", "app", "on", ">secret", "~app:*", "+@connection", "+cluster|slots", "+cluster|shards", "+set", "+get"},
	})
	c := redistest.Start(t, opts)
	for _, protocol := range []int{2, 3} {
		rdb := redistest.Client(t, c, func(o *redis.ClusterOptions) {
			o.Username, o.Password, o.Protocol = "app", "secret", protocol
		})
		for _, key := range []string{"app:1", "app:2", "app:3"} { // the three are at different nodes
			if err := rdb.Set(t.Context(), key, "v", 0).Err(); err != nil {
				t.Errorf("RESP%d: SET %s: %v", protocol, key, err)
			}
		}
		if err := rdb.Set(t.Context(), "other", "v", 0).Err(); !redis.HasErrorPrefix(err, "NOPERM") {
			t.Errorf("RESP%d: SET of another's key: %v, want NOPERM", protocol, err)
		}
	}
	plain := redistest.Client(t, c, func(o *redis.ClusterOptions) { o.TLSConfig, o.MaxRedirects = nil, -1 })
	if err := plain.Ping(t.Context()).Err(); err == nil {
		t.Error("the cluster answers without TLS")
	}
	moveASlot(t, c)
}

// moveASlot shows that the nodes reach each other too.
func moveASlot(t *testing.T, c *rediscluster.Cluster) {
	t.Helper()
	primaries, err := c.Primaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redistest.Client(t, c, nil)
	if err := rdb.Set(t.Context(), "key", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	slot, err := rdb.ClusterKeySlot(t.Context(), "key").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range primaries {
		if err := c.MoveSlot(t.Context(), int(slot), to, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := rdb.Get(t.Context(), "key").Result(); err != nil || got != "v" {
		t.Errorf("GET = %q, %v", got, err)
	}
}

func TestWithoutAServerTestsAreSkippedOrFail(t *testing.T) {
	run := func(must string) (string, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^(TestSharedIsOneCluster|TestErrorsCountsWhatWasAdded)$", "-test.v")
		cmd.Env = append(os.Environ(), "PATH=", "REDISTEST_LAUNCHER=processes", "REDISTEST_SERVER=", "REDISTEST="+must)
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}

	out, err := run("")
	lines := strings.Split(out, "\n")
	last := lines[len(lines)-1]
	if err != nil || strings.Count(out, "--- SKIP") != 2 {
		t.Errorf("want two tests skipped: %v\n%s", err, out)
	}
	if !strings.Contains(last, "apt install redis-server") || strings.Count(out, "tests were skipped") != 1 {
		t.Errorf("want one last line that says what to install:\n%s", out)
	}
	if out, err := run("must"); err == nil || strings.Count(out, "--- FAIL") != 2 {
		t.Errorf("REDISTEST=must: want two failures: %v\n%s", err, out)
	}
}
