package doctor

import (
	"context"
	"fmt"
	"strings"
)

// nodesAnswer says which nodes are away.
func nodesAnswer(_ context.Context, p *patient) Finding {
	var away []string
	for _, n := range p.nodes {
		if n.err != nil {
			away = append(away, fmt.Sprintf("%s (%s): %v", n.addr, role(n), n.err))
		}
	}
	if len(away) == 0 {
		return fine("%d answer, %d of them primaries", len(p.nodes), len(p.primaries()))
	}
	return Finding{
		Verdict: Failure,
		Read:    fmt.Sprintf("%d of %d do not answer: %s", len(away), len(p.nodes), strings.Join(away, "; ")),
		Advice:  "start them, or CLUSTER FORGET those that are gone for good; the policies' failure modes answer for a primary that is away",
	}
}

func role(n *node) string {
	if n.primary {
		return "primary"
	}
	return "replica"
}
