package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// census is what a look at the limiter's keys found.
type census struct {
	seen     int  // keys, of whomever
	complete bool // all there are
	endless  []string
	fixed    int
	policies map[string]*kept
}

// kept is what is kept for a policy.
type kept struct {
	keys    int
	weighed int64 // of them
	bytes   int64
}

// weighed is how many keys of each policy are weighed on each primary.
const weighed = 100

// step is how many keys a server looks at in one go, which others wait for.
const step = 500

// lifetime is what a key without an end gets.
const lifetime = 24 * time.Hour

// census counts the limiter's keys, once.
func (p *patient) census(ctx context.Context) (*census, error) {
	if p.keys != nil {
		return p.keys, nil
	}
	c := &census{complete: true, policies: map[string]*kept{}}
	for _, n := range p.primaries() {
		p.say("looking at the keys of " + n.addr)
		if err := c.visit(ctx, p.opts, n); err != nil {
			return nil, fmt.Errorf("keys of %s: %w", n.addr, err)
		}
	}
	p.keys = c
	return c, nil
}

// visit walks over a primary's keys, as many as the sample allows.
func (c *census) visit(ctx context.Context, opts Options, n *node) error {
	weights := map[string]int{}
	var cursor uint64
	for looked := 0; ; {
		found, next, err := n.client.Scan(ctx, cursor, opts.Prefix+":{*", step).Result()
		if err != nil {
			return err
		}
		if err := c.count(ctx, opts.Fix, n.client, found, weights); err != nil {
			return err
		}
		looked, cursor = looked+step, next
		if cursor == 0 {
			c.seen += int(min(int64(looked), n.keys()))
			return nil
		}
		if opts.Sample > 0 && looked >= opts.Sample {
			c.seen += looked
			c.complete = false
			return nil
		}
	}
}

// keys returns how many keys the server had when it was asked.
func (n *node) keys() int64 {
	var count int64
	_, _ = fmt.Sscanf(n.info["db0"], "keys=%d", &count) // no such field: none
	return count
}

// count takes in some keys of one server, in one round trip, or two where some
// have no end.
func (c *census) count(ctx context.Context, fix bool, client *redis.Client, found []string, weights map[string]int) error {
	if len(found) == 0 {
		return nil
	}
	pipe := client.Pipeline()
	ends := make([]*redis.DurationCmd, len(found))
	sizes := make([]*redis.IntCmd, len(found))
	for i, key := range found {
		ends[i] = pipe.PTTL(ctx, key)
		name := policyOf(key)
		c.policy(name).keys++
		if weights[name]++; weights[name] <= weighed {
			sizes[i] = pipe.MemoryUsage(ctx, key)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) { // a key has gone meanwhile
		return err
	}
	var endless []string
	for i, key := range found {
		if ends[i].Val() == withoutEnd {
			endless = append(endless, key)
		}
		if sizes[i] != nil {
			k := c.policy(policyOf(key))
			k.weighed++
			k.bytes += sizes[i].Val()
		}
	}
	c.endless = append(c.endless, endless...)
	if !fix || len(endless) == 0 {
		return nil
	}
	return c.end(ctx, client, endless)
}

// withoutEnd is what PTTL says of a key that never expires.
const withoutEnd = -1

// end gives keys an end.
func (c *census) end(ctx context.Context, client *redis.Client, endless []string) error {
	pipe := client.Pipeline()
	for _, key := range endless {
		pipe.ExpireNX(ctx, key, lifetime)
	}
	_, err := pipe.Exec(ctx)
	if err == nil {
		c.fixed += len(endless)
	}
	return err
}

func (c *census) policy(name string) *kept {
	k := c.policies[name]
	if k == nil {
		k = &kept{}
		c.policies[name] = k
	}
	return k
}

// policyOf returns the policy in a key: prefix:{subject}:policy:shape.
func policyOf(key string) string {
	_, rest, _ := strings.Cut(key, "}:")
	name, _, _ := strings.Cut(rest, ":")
	return name
}

// limits says that there may be more, where the sample was smaller.
func (c *census) limits() string {
	if c.complete {
		return ""
	}
	return fmt.Sprintf(" (among the first %d keys; --sample=0 looks at all)", c.seen)
}
