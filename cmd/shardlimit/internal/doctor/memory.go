package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// nothingIsEvicted looks for servers that forget keys when memory is short, and
// with them what was used.
func nothingIsEvicted(_ context.Context, p *patient) Finding {
	evicts, err := setTo(p.primaries(), "maxmemory-policy", func(v string) bool { return v != "noeviction" })
	if err != nil {
		return unread(err)
	}
	var evicted int64
	limited := false
	for _, n := range evicts {
		evicted += n.number("evicted_keys")
		limited = limited || n.config["maxmemory"] != "0"
	}
	switch {
	case len(evicts) == 0:
		return nothingWillBeEvicted(p)
	case !limited && evicted == 0:
		return fine("maxmemory-policy %s, without a maxmemory that it would act at", evicts[0].config["maxmemory-policy"])
	}
	return Finding{
		Verdict: Failure,
		Read:    fmt.Sprintf("maxmemory-policy %s on %s; %d keys evicted so far", evicts[0].config["maxmemory-policy"], names(evicts), evicted),
		Advice:  "CONFIG SET maxmemory-policy noeviction, and enough maxmemory: a subject whose key is evicted has used nothing",
	}
}

// nothingWillBeEvicted looks for replicas that would forget keys once they are
// primaries.
func nothingWillBeEvicted(p *patient) Finding {
	evict, err := setTo(p.answering(), "maxmemory-policy", func(v string) bool { return v != "noeviction" })
	evict = slices.DeleteFunc(evict, func(n *node) bool { return n.config["maxmemory"] == "0" })
	switch {
	case err != nil:
		return unread(err)
	case len(evict) == 0:
		return fine("maxmemory-policy noeviction")
	}
	return Finding{
		Verdict: Warning, Read: fmt.Sprintf("maxmemory-policy %s on a replica, %s", evict[0].config["maxmemory-policy"], names(evict)),
		Advice: "CONFIG SET maxmemory-policy noeviction there too: a failover makes it a primary",
	}
}

// expiryIsLazy looks for servers that free what has expired between calls.
func expiryIsLazy(_ context.Context, p *patient) Finding {
	eager, err := setTo(p.primaries(), "lazyfree-lazy-expire", func(v string) bool { return v != "yes" })
	switch {
	case err != nil:
		return unread(err)
	case len(eager) == 0:
		return fine("lazyfree-lazy-expire yes")
	}
	return Finding{
		Verdict: Warning, Read: "lazyfree-lazy-expire no on " + names(eager),
		Advice: "CONFIG SET lazyfree-lazy-expire yes, where a sliding_log is used: else calls wait while a long log is freed",
	}
}

// full is the share of maxmemory from which on it is short.
const full = 0.8

// memorySuffices says what the policies' keys take, and which servers are
// nearly full.
func memorySuffices(ctx context.Context, p *patient) Finding {
	c, err := p.census(ctx)
	if err != nil {
		return unread(err)
	}
	var short []*node
	for _, n := range p.primaries() {
		if most := n.number("maxmemory"); most > 0 && float64(n.number("used_memory")) >= full*float64(most) {
			short = append(short, n)
		}
	}
	if len(short) == 0 {
		return fine("%s", c.memory())
	}
	return Finding{
		Verdict: Warning, Read: fmt.Sprintf("over %.0f %% of maxmemory used on %s; %s", full*100, names(short), c.memory()),
		Advice: "more maxmemory or more shards: once it's full, calls for new subjects get their policies' failure mode",
	}
}

// memory says what a key of each policy takes, on average.
func (c *census) memory() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c.policies)) {
		k := c.policies[name]
		parts = append(parts, fmt.Sprintf("%s %d keys of %d bytes", name, k.keys, k.bytes/max(k.weighed, 1)))
	}
	if len(parts) == 0 {
		return "no keys of the limiter"
	}
	return strings.Join(parts, ", ") + c.limits()
}
