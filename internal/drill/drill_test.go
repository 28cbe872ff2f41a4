package drill_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/drill"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Every fault in its short form: little load and long timeouts, for what must
// be exact on any machine.
func TestEveryFaultKeepsThePromises(t *testing.T) {
	c := redistest.Start(t, drill.Servers(""))
	o := drill.Options{Rate: 400, Subjects: 40, Limiters: 2, Timeout: 250 * time.Millisecond, Calm: 300 * time.Millisecond}
	for _, s := range append([]drill.Scenario{drill.Control()}, drill.Scenarios()...) {
		t.Run(s.Name, func(t *testing.T) {
			r, err := drill.Run(t.Context(), c, s, o)
			redistest.Cut(t, err)
			t.Logf("%+v", r.Account)
			if broken := append(r.Broken, r.Missed...); len(broken) > 0 {
				t.Errorf("%s, %s: %s", s.Does, s.Promise, strings.Join(broken, "; "))
			}
		})
	}
}
