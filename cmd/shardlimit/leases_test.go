package main

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestStoppedDaemonGivesItsLeasesBack(t *testing.T) {
	const quota = 1_000_000_000
	flags := []string{
		"--redis=" + strings.Join(redistest.Shared(t).Addrs(), ","), "--prefix=" + redistest.Prefix(t), patient,
		"--policy=api=1000000000/7d fixed_window",
	}
	one, two := startDaemon(t, nil, flags...), startDaemon(t, nil, flags...)
	var admitted, leased atomic.Int64
	enough := make(chan struct{})
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for {
				status, text, err := one.try("POST", one.public+"/v1/check", `{"policy":"api","subject":"a"}`)
				if err != nil {
					return // it has ended
				}
				if status == 200 && strings.Contains(text, `"allowed":true`) {
					admitted.Add(1)
				}
				if strings.Contains(text, `"source":"lease"`) && leased.Add(1) == 200 {
					close(enough)
				}
			}
		})
	}
	<-enough
	if code := one.stop(syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d, want %d:\n%s", code, exitOK, one.output())
	}
	asking.Wait()

	text := two.wants(200, "GET", two.admin+"/v1/inspect?policy=api&subject=a", "")
	if used := quota - remaining(t, text); used != admitted.Load() {
		t.Errorf("%d units are used once the daemon has ended, and %d were admitted", used, admitted.Load())
	}
}

// remaining returns what an inspection says is left to the subject.
func remaining(t *testing.T, inspection string) int64 {
	t.Helper()
	var i struct {
		Subject struct{ Peek struct{ Remaining int64 } }
	}
	if err := json.Unmarshal([]byte(inspection), &i); err != nil {
		t.Fatal(err)
	}
	return i.Subject.Peek.Remaining
}
