package scripts

import (
	"strconv"

	"github.com/shardlimit/shardlimit/internal/rule"
)

// StateVersion is part of every key's shape mark: it changes whenever a script
// of another release would misread what is stored.
const StateVersion = 2

// second is one second in µs.
const second = 1_000_000

// Plan is what all calls of one policy share: its limits, the script that
// takes from them, and the arguments that never change, ready to be sent. It
// is immutable.
type Plan struct {
	limits []rule.Limit
	take   *Script
	args   []any   // of take
	giving [][]any // of give and lease, a limit each, without what a charge left behind
}

// NewPlan compiles limits, which must be valid: 1 to 8 of them, a sliding_log
// only by itself.
func NewPlan(limits ...rule.Limit) *Plan {
	p := &Plan{limits: limits}
	switch l := limits[0]; {
	case len(limits) > 1 || p.short():
		p.take = several
		for _, l := range limits {
			p.args = append(p.args, severalArgs(l)...)
		}
	case l.Algorithm == rule.TokenBucket:
		p.take, p.args = tokenBucket, texts(l.Rate, l.Period, l.Burst)
	case l.Algorithm == rule.GCRA:
		p.take, p.args = gcra, texts(l.Rate, l.Period, l.Burst)
	case l.Algorithm == rule.SlidingWindow:
		p.take, p.args = slidingWindow, texts(l.Rate, l.Period)
	case l.Algorithm == rule.SlidingLog:
		p.take, p.args = slidingLog, texts(l.Rate, l.Period)
	case l.Algorithm == rule.FixedWindow:
		p.take, p.args = fixedWindow, texts(l.Rate, l.Period)
	}
	for _, l := range limits {
		args := severalArgs(l)
		if p.Windowed() {
			args[0] = any("w")
		}
		p.giving = append(p.giving, args)
	}
	return p
}

// severalArgs encodes one limit as several.lua takes it.
func severalArgs(l rule.Limit) []any {
	kind, burst := "t", l.Burst
	switch l.Algorithm {
	case rule.GCRA:
		kind = "g"
	case rule.SlidingWindow:
		kind, burst = "s", 0
	case rule.FixedWindow:
		kind, burst = "f", 0
	case rule.TokenBucket, rule.SlidingLog: // a log is never one of several
	}
	return append([]any{kind}, texts(l.Rate, l.Period, burst)...)
}

// texts formats numbers once, so that no call does it again.
func texts(numbers ...int64) []any {
	args := make([]any, len(numbers))
	for i, n := range numbers {
		args[i] = strconv.FormatInt(n, 10)
	}
	return args
}

// Limits returns the limits, in order. They must not be changed.
func (p *Plan) Limits() []rule.Limit { return p.limits }

// Capacity returns how many units all limits could ever hold at once.
func (p *Plan) Capacity() int64 {
	least := p.limits[0].Capacity()
	for _, l := range p.limits[1:] {
		least = min(least, l.Capacity())
	}
	return least
}

// Windowed reports whether the policy has a key for each window: a fixed
// window by itself, of at least a second.
func (p *Plan) Windowed() bool {
	return p.is(rule.FixedWindow) && p.limits[0].Period >= second
}

// Leasable reports whether the policy's units may be lent to processes: those of
// a single limit that [rule.Limit.Leasable] says so of. Policies with several
// limits are never leased.
func (p *Plan) Leasable() bool {
	return len(p.limits) == 1 && p.limits[0].Leasable()
}

// short reports whether the policy is a fixed window too short for a key each.
func (p *Plan) short() bool {
	return p.is(rule.FixedWindow) && p.limits[0].Period < second
}

// is reports whether the policy is one limit of algorithm a.
func (p *Plan) is(a rule.Algorithm) bool {
	return len(p.limits) == 1 && p.limits[0].Algorithm == a
}
