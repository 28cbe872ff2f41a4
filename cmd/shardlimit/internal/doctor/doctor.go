// Package doctor reads a Redis Cluster and says what would hurt a limiter on
// it. It changes nothing, unless it's told to give keys without an end one.
package doctor

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Options says whom to look at, and how closely.
type Options struct {
	Client *redis.ClusterOptions // as whom to ask, and whom first
	Single bool                  // the one server has no cluster mode
	Prefix string                // of the limiter's keys
	User   string                // the limiter's; "": the one who asks
	Sample int                   // most keys to look at on each primary; 0: all
	Fix    bool                  // give keys without an end one

	Progress func(what string) // is told what begins; nil: nobody
}

// check is one question to the cluster. It reads what it needs and judges it.
type check struct {
	name string
	look func(context.Context, *patient) Finding
}

// checks are all of them, in the order of the report.
var checks = []check{
	{"nodes", nodesAnswer},
	{"version", ofPrimaries(versionsSuffice)},
	{"slots", slotsAreServed},
	{"coverage", ofPrimaries(shardsStandAlone)},
	{"eviction", ofPrimaries(nothingIsEvicted)},
	{"lazy expiry", ofPrimaries(expiryIsLazy)},
	{"replicas", ofPrimaries(replicasFollow)},
	{"clocks", ofPrimaries(clocksAgree)},
	{"permissions", ofPrimaries(rightsSuffice)},
	{"expiry", ofPrimaries(keysEnd)},
	{"memory", ofPrimaries(memorySuffices)},
	{"slow commands", ofPrimaries(nothingIsSlow)},
	{"hottest slots", ofPrimaries(loadSpreads)},
}

// ofPrimaries returns a look at primaries: where none answers, nothing that look
// says of none is known.
func ofPrimaries(look func(context.Context, *patient) Finding) func(context.Context, *patient) Finding {
	return func(ctx context.Context, p *patient) Finding {
		if len(p.primaries()) == 0 {
			return unread(errors.New("no primary answers"))
		}
		return look(ctx, p)
	}
}

// Look examines what opts name. The error says that nothing could be read at
// all; what a single check couldn't read is its finding.
func Look(ctx context.Context, opts Options) (Report, error) {
	p, err := admit(ctx, opts)
	if err != nil {
		return Report{}, err
	}
	var r Report
	for _, c := range checks {
		p.say("checking " + c.name)
		f := c.look(ctx, p)
		f.Check = c.name
		r.Findings = append(r.Findings, f)
	}
	return r, errors.Join(ctx.Err(), p.close())
}
