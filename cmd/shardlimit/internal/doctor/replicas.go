package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The lag from which on a replica would lose what matters.
const (
	lagging      = 2 * time.Second // since it last acknowledged; it does so every second
	laggingBytes = 1 << 20
)

// replicasFollow looks for primaries that no replica could take over for, or
// that refuse writes for want of them.
func replicasFollow(_ context.Context, p *patient) Finding {
	var missing, late, refuse []*node
	for _, n := range p.primaries() {
		online, slow := n.replicas()
		switch {
		case online == 0:
			missing = append(missing, n)
		case slow > 0:
			late = append(late, n)
		}
		if least, _ := strconv.Atoi(n.config["min-replicas-to-write"]); least > online {
			refuse = append(refuse, n)
		}
	}
	switch {
	case len(refuse) > 0:
		return Finding{
			Verdict: Failure, Read: "min-replicas-to-write is more than the replicas of " + names(refuse),
			Advice: "start replicas, or lower it: until then the subjects there get their policies' failure mode",
		}
	case p.opts.Single:
		return fine("%d of the one server; no failover", len(p.nodes)-1)
	case len(missing) > 0:
		return Finding{
			Verdict: Warning, Read: "no replica is online for " + names(missing),
			Advice: "add one to each: else a primary that dies takes its subjects' state along, and nobody serves them",
		}
	case len(late) > 0:
		return Finding{
			Verdict: Warning,
			Read:    fmt.Sprintf("replicas more than %v or %d bytes behind, of %s", lagging, laggingBytes, names(late)),
			Advice:  "look at their load and network: what they lack is admitted again after a failover",
		}
	}
	return fine("each primary has one that follows; min-replicas-to-write is met")
}

// replicas returns how many replicas of a primary are online, and how many of
// them lag behind.
func (n *node) replicas() (online, slow int) {
	for i := range n.number("connected_slaves") {
		r := replicaFields(n.info["slave"+strconv.FormatInt(i, 10)])
		if r["state"] != "online" {
			continue
		}
		online++
		seconds, _ := strconv.ParseInt(r["lag"], 10, 64)
		offset, _ := strconv.ParseInt(r["offset"], 10, 64)
		if time.Duration(seconds)*time.Second > lagging || n.number("master_repl_offset")-offset > laggingBytes {
			slow++
		}
	}
	return online, slow
}

// replicaFields returns the fields of "ip=…,port=…,state=online,offset=…,lag=0".
func replicaFields(text string) map[string]string {
	all := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	return all
}
