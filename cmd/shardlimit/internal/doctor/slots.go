package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlimit/shardlimit/keys"
)

// errNoShards says that no node told of the shards.
var errNoShards = errors.New("CLUSTER SHARDS needs Redis 7.0; only the nodes that were named are looked at")

// slotsAreServed looks for slots that nobody serves, or whose primary is down.
func slotsAreServed(_ context.Context, p *patient) Finding {
	if p.opts.Single {
		return fine("one server without cluster mode serves all keys")
	}
	if len(p.shards) == 0 {
		return unread(errNoShards)
	}
	served, failed := 0, 0
	for _, shard := range p.shards {
		count := 0
		for _, r := range shard.Slots {
			count += int(r.End-r.Start) + 1
		}
		served += count
		for _, n := range shard.Nodes {
			if n.Role == "master" && n.Health != "online" {
				failed += count
			}
		}
	}
	if served == keys.Slots && failed == 0 {
		return fine("all %d served, by %d shards", served, len(p.shards))
	}
	return Finding{
		Verdict: Failure,
		Read:    fmt.Sprintf("%d of %d served by nobody, %d by a primary that is down", keys.Slots-served, keys.Slots, failed),
		Advice:  "redis-cli --cluster fix gives them to somebody; until then the subjects there get their policies' failure mode",
	}
}

// shardsStandAlone looks for clusters that refuse all calls once one shard is
// lost.
func shardsStandAlone(_ context.Context, p *patient) Finding {
	if p.opts.Single {
		return fine("no cluster")
	}
	strict, err := setTo(p.answering(), "cluster-require-full-coverage", func(v string) bool { return v == "yes" })
	switch {
	case err != nil:
		return unread(err)
	case len(strict) == 0:
		return fine("cluster-require-full-coverage no: a shard that is lost takes no other along")
	}
	return Finding{
		Verdict: Warning,
		Read:    "cluster-require-full-coverage yes on " + names(strict),
		Advice:  "CONFIG SET cluster-require-full-coverage no: else a shard that is lost takes all others' subjects along",
	}
}
