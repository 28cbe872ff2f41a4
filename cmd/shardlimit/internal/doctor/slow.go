package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// slow is what a command takes that decisions notice: they wait 50 ms at most.
const slow = 5 * time.Millisecond

// slowest is the slowest command of some kind, and how many are slow.
type slowest struct {
	count int
	took  time.Duration
	name  string
	addr  string
}

// nothingIsSlow reads the primaries' slow logs: while a command runs, all
// decisions there wait.
func nothingIsSlow(ctx context.Context, p *patient) Finding {
	var ours, others slowest
	for _, n := range p.primaries() {
		log, err := n.client.SlowLogGet(ctx, 128).Result()
		if err != nil {
			return unread(fmt.Errorf("SLOWLOG at %s: %w", n.addr, err))
		}
		for _, entry := range log {
			if entry.Duration < slow || len(entry.Args) == 0 {
				continue
			}
			if isOurs(entry.Args, p.opts.Prefix) {
				ours.add(n.addr, entry.Args[0], entry.Duration)
			} else {
				others.add(n.addr, entry.Args[0], entry.Duration)
			}
		}
	}
	if ours.count+others.count == 0 {
		return fine("none took %v or more, by the slow logs", slow)
	}
	return Finding{
		Verdict: Warning, Read: fmt.Sprintf("%v or more took: %v of the limiter, %v of others", slow, ours, others),
		Advice: "see SLOWLOG GET there: all decisions of that shard wait meanwhile; SLOWLOG RESET begins anew",
	}
}

func (s *slowest) add(addr, name string, took time.Duration) {
	s.count++
	if took > s.took {
		s.took, s.name, s.addr = took, strings.ToUpper(name), addr
	}
}

// String returns how many, and the slowest.
func (s slowest) String() string {
	if s.count == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s %v at %s)", s.count, s.name, s.took.Round(time.Microsecond), s.addr)
}

// isOurs reports whether a command is a script on a limiter's key: EVALSHA,
// hash, 1, key.
func isOurs(args []string, prefix string) bool {
	return len(args) > 3 && strings.HasPrefix(strings.ToLower(args[0]), "eval") && strings.HasPrefix(args[3], prefix+":{")
}
