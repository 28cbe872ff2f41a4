package doctor

import (
	"context"
	"fmt"
	"slices"
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
	advice := "start them, or CLUSTER FORGET those that are gone for good; the policies' failure modes answer for a primary that is away"
	if slices.ContainsFunc(p.nodes, isShut) {
		advice = "let this user in on each node, with the rights in docs/doctor.md"
	}
	return Finding{
		Verdict: Failure,
		Read:    fmt.Sprintf("%d of %d do not answer: %s", len(away), len(p.nodes), strings.Join(away, "; ")),
		Advice:  advice,
	}
}

// isShut reports whether the node runs, but not for this user.
func isShut(n *node) bool {
	return n.err != nil && slices.ContainsFunc([]string{"NOPERM", "NOAUTH", "WRONGPASS"}, func(why string) bool {
		return strings.HasPrefix(n.err.Error(), why)
	})
}

func role(n *node) string {
	if n.primary {
		return "primary"
	}
	return "replica"
}
