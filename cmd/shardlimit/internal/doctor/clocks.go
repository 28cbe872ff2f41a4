package doctor

import (
	"context"
	"fmt"
	"time"
)

// The differences between two clocks that matter. Stored time that is more than
// a second ahead is pulled back.
const (
	apart    = 100 * time.Millisecond
	farApart = time.Second
)

// readings is how often each clock is read; the quickest answer counts.
const readings = 5

// span says how far a server's clock is ahead of this machine's: no less than
// least and no more than most.
type span struct {
	addr        string
	least, most time.Duration
}

// clocksAgree looks for servers whose clocks differ, whatever the way there
// takes.
func clocksAgree(ctx context.Context, p *patient) Finding {
	var spans []span
	for _, n := range p.answering() {
		s, err := n.clock(ctx)
		if err != nil {
			return unread(fmt.Errorf("TIME at %s: %w", n.addr, err))
		}
		spans = append(spans, s)
	}
	return judgeClocks(spans)
}

func judgeClocks(spans []span) Finding {
	slow, fast, surely := widest(spans)
	if surely < apart {
		return fine("no two are surely more than %v apart", max(surely, 0).Round(time.Microsecond))
	}
	f := Finding{
		Verdict: Warning,
		Read:    fmt.Sprintf("%s is ahead of %s by at least %v", fast, slow, surely.Round(time.Millisecond)),
		Advice:  "let NTP set them: when a slot changes hands, its limits are over or under by as much time's units, once",
	}
	if surely >= farApart {
		f.Verdict = Failure
	}
	return f
}

// widest returns the two clocks that surely differ most, and by how much.
func widest(spans []span) (slow, fast string, surely time.Duration) {
	for _, a := range spans {
		for _, b := range spans {
			if d := b.least - a.most; d > surely {
				slow, fast, surely = a.addr, b.addr, d
			}
		}
	}
	return slow, fast, surely
}

// clock reads the node's clock. Its time was right at some moment between the
// question and the answer.
func (n *node) clock(ctx context.Context) (span, error) {
	s := span{addr: n.addr}
	for i := range readings {
		asked := time.Now()
		server, err := n.client.Time(ctx).Result()
		answered := time.Now()
		if err != nil {
			return s, err
		}
		least, most := server.Sub(answered.Round(0)), server.Sub(asked.Round(0))
		if i == 0 || most-least < s.most-s.least {
			s.least, s.most = least, most
		}
	}
	return s, nil
}
