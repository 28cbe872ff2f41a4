package shardlimit_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// 64 goroutines x 4 processes, one key, limit 1,000: exactly 1,000.
func TestExactAcrossProcesses(t *testing.T) {
	c := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			const processes, limit = 4, 1000
			counts := make(chan int64, processes)
			for range processes {
				go func() { counts <- runProcess(t, c.Addrs(), prefix, a) }()
			}
			var admitted int64
			for range processes {
				admitted += <-counts
			}
			if admitted != limit {
				t.Errorf("%d admitted, want exactly %d", admitted, limit)
			}
		})
	}
}

// runProcess runs this test's binary again as one more instance of a service,
// and returns how many units it was admitted.
func runProcess(t *testing.T, addrs []string, prefix string, a shardlimit.Algorithm) int64 {
	limit := shardlimit.Per(1000, long).WithAlgorithm(a)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInstance$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), "SHARDLIMIT_INSTANCE="+strings.Join([]string{strings.Join(addrs, ","), prefix, limit.String()}, "|"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("instance: %v\n%s", err, out)
		return 0
	}
	_, rest, _ := strings.Cut(string(out), "admitted=")
	text, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Errorf("instance: no count in\n%s", out)
	}
	return n
}

// TestInstance is one instance of the service that TestExactAcrossProcesses
// runs four of; by itself it has nothing to do.
func TestInstance(t *testing.T) {
	env := os.Getenv("SHARDLIMIT_INSTANCE")
	if env == "" {
		return
	}
	fields := strings.Split(env, "|")
	limit, err := shardlimit.ParseLimit(fields[2])
	if err != nil {
		t.Fatal(err)
	}
	rdb := closing.AtEnd(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(fields[0], ",")}))
	p := &pair{
		policy:  shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "shared", Limits: []shardlimit.Limit{limit}}),
		subject: limit.Algorithm.String(),
	}
	l := newOn(t, rdb, shardlimit.Config{Prefix: fields[1], Timeout: patient})
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for range 8 {
				p.ask(t, l)
			}
		})
	}
	workers.Wait()
	fmt.Printf("\nadmitted=%d\n", p.admitted.Load())
}
