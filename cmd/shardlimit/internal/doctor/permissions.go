package doctor

import (
	"context"
	"fmt"
	"strings"
)

// rights are the commands that a limiter sends, itself or in its scripts, with
// arguments: "key" stands for one of its keys.
var rights = []string{
	"EVALSHA 0 1 key", "EVAL 0 1 key", "CLUSTER SLOTS", "ASKING", "TIME",
	"GET key", "SET key 0", "DEL key", "PEXPIRE key 1",
	"ZADD key 0 0", "ZCARD key", "ZCOUNT key 0 0", "ZRANGE key 0 0", "ZRANGEBYSCORE key 0 0", "ZREM key 0",
	"ZREMRANGEBYRANK key 0 0",
}

// rightsSuffice asks each primary what the limiter's user may not do there.
func rightsSuffice(ctx context.Context, p *patient) Finding {
	user := p.opts.User
	var lacks []string
	for _, n := range p.primaries() {
		if user == "" {
			var err error
			if user, err = n.client.Do(ctx, "acl", "whoami").Text(); err != nil {
				return unread(fmt.Errorf("ACL WHOAMI at %s: %w", n.addr, err))
			}
		}
		missing, err := n.lacks(ctx, user, p.opts.Prefix)
		if err != nil {
			return unread(fmt.Errorf("ACL DRYRUN at %s: %w", n.addr, err))
		}
		if len(missing) > 0 {
			lacks = append(lacks, n.addr+": "+strings.Join(missing, ", "))
		}
	}
	if len(lacks) == 0 {
		return fine("user %s may do all that a limiter does with %s:*", user, p.opts.Prefix)
	}
	return Finding{
		Verdict: Failure, Read: fmt.Sprintf("user %s may not: %s", user, strings.Join(lacks, "; ")),
		Advice: "ACL SETUSER as the README's Permissions say: without them calls are errors, whatever the failure mode",
	}
}

// lacks returns the commands that the user may not run on a limiter's keys.
func (n *node) lacks(ctx context.Context, user, prefix string) (missing []string, err error) {
	key := prefix + ":{doctor}:doctor:0000"
	for _, right := range rights {
		args := []any{"acl", "dryrun", user}
		for word := range strings.FieldsSeq(right) {
			if word == "key" {
				word = key
			}
			args = append(args, word)
		}
		verdict, err := n.client.Do(ctx, args...).Text()
		if err != nil && strings.HasSuffix(err.Error(), "not found") {
			return []string{"log in: there is no such user"}, nil
		}
		if err != nil {
			return nil, err
		}
		if verdict != "OK" {
			name, _, _ := strings.Cut(right, " ")
			missing = append(missing, name)
		}
	}
	return missing, nil
}
