package doctor

import (
	"context"
	"fmt"
)

// keysEnd looks for keys of the limiter that never expire. It gives each of its
// keys an end, so these are somebody else's doing.
func keysEnd(ctx context.Context, p *patient) Finding {
	c, err := p.census(ctx)
	switch {
	case err != nil:
		return unread(err)
	case len(c.endless) == 0:
		return fine("every key of %s:* ends%s", p.opts.Prefix, c.limits())
	case c.fixed == len(c.endless):
		return Finding{
			Verdict: Warning, Read: fmt.Sprintf("%d keys had no end, as %q; they end in %v now", c.fixed, c.endless[0], lifetime),
			Advice: "find out who wrote them or made them PERSIST",
		}
	}
	return Finding{
		Verdict: Failure, Read: fmt.Sprintf("%d keys never end, as %q%s", len(c.endless), c.endless[0], c.limits()),
		Advice: fmt.Sprintf("--fix lets them end in %v; the limiter's own all end, so find out who wrote them or made them PERSIST", lifetime),
	}
}
