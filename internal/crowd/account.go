package crowd

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/ledger"
	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/internal/testclock"
	"github.com/shardlimit/shardlimit/memory"
	"github.com/shardlimit/shardlimit/scripts"
)

// Account is what all instances were answered about one key, in units.
type Account struct {
	Key Key
	// ByOutcome counts the records of each Outcome.
	ByOutcome [outcomesEnd]int64

	ledger   ledger.Account
	start    time.Time
	ending   time.Duration   // since start: then it was at its end
	arrivals []time.Duration // since start, of all requests
	slowest  time.Duration
	admitted []ledger.Span
	refused  []ledger.Span
}

// Read returns the accounts of o's keys, of what the instances wrote down in the
// files. All of them had the same Keys and Start.
func Read(o Order, files ...string) ([]Account, error) {
	accounts := make([]Account, len(o.Keys))
	for i, k := range o.Keys {
		calls := ledger.NewLog(k.terms())
		calls.Since(o.Start)
		accounts[i] = Account{Key: k, ledger: ledger.Account{Log: calls}, start: o.Start, ending: o.For - atEnd}
	}
	for _, name := range files {
		records, err := readBook(name)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			accounts[r.Key].add(r)
		}
	}
	return accounts, nil
}

func (a *Account) add(r Record) {
	a.ByOutcome[r.Outcome] += r.Units
	if r.Outcome == GivenBack || r.Outcome == LostRefund {
		return
	}
	a.arrivals = append(a.arrivals, r.At.Sent)
	if r.At.Replied > a.ending {
		a.slowest = max(a.slowest, r.At.Replied-r.At.Sent)
	}
	switch r.Outcome {
	case Admitted, Leased:
		a.admitted = append(a.admitted, r.At)
	case Denied, DeniedHere:
		a.refused = append(a.refused, r.At)
	case Unknown, NeverRan, GivenBack, LostRefund:
	}
	for range r.Units {
		a.ledger.Add(r.At, judged[r.Outcome])
	}
}

// judged is what the ledger calls an outcome.
var judged = [outcomesEnd]ledger.Outcome{
	Denied: ledger.Denied, DeniedHere: ledger.Denied, Admitted: ledger.Admitted, Leased: ledger.Admitted,
	Unknown: ledger.Unknown, NeverRan: ledger.NeverRan,
}

// Asked returns how many requests there were.
func (a *Account) Asked() int64 { return int64(len(a.arrivals)) }

// Passed returns how many units were admitted, refunded ones included.
func (a *Account) Passed() int64 { return a.ByOutcome[Admitted] + a.ByOutcome[Leased] }

// Kept returns how many units were admitted and not given back.
func (a *Account) Kept() int64 { return a.Passed() - a.ByOutcome[GivenBack] }

// AtRisk returns how many units may have been admitted between two moments.
func (a *Account) AtRisk(from, to time.Time) int64 {
	var n int64
	for _, at := range a.admitted {
		if at.Replied >= from.Sub(a.start) && at.Sent <= to.Sub(a.start) {
			n++
		}
	}
	return n
}

// Over returns how many units were admitted beyond the limit's own rule: in any
// span, or in any window.
func (a *Account) Over() int64 {
	return ledger.Judge(a.Key.terms(), a.ledger).Over
}

// Under returns how many units short of its promise a bucket was at worst, while it
// was asked for more than it has: those that were forgotten may be missing besides.
func (a *Account) Under() int64 {
	return ledger.Judge(a.Key.terms(), a.ledger).Under
}

// Refused returns how many units were free while one was refused, at most, of a
// key that was not leased: 0 if each refusal was right.
func (a *Account) Refused() int64 {
	return ledger.Refused(a.Key.Limit, a.start, a.admitted, a.refused)
}

// Slowest returns the longest that a request took at the end of the run.
func (a *Account) Slowest() time.Duration { return a.slowest }

// Fresh returns how many units a store that lends nothing admits of the same
// requests.
func (a *Account) Fresh() int64 {
	store := memory.New()
	call := scripts.Call{Plan: scripts.NewPlan(asRule(a.Key.Limit)), Key: a.Key.Subject, Cost: 1, Count: 1}
	slices.Sort(a.arrivals)
	var admitted int64
	for _, at := range a.arrivals {
		call.Clock = testclock.At(a.start.Add(at).UnixMicro())
		reply, _ := store.Do(context.Background(), &call) // without a bound nothing fails
		admitted += reply.Granted
	}
	return admitted
}

// asRule returns the limit as the store has it.
func asRule(l shardlimit.Limit) rule.Limit {
	return rule.Limit{
		Algorithm: algorithms[l.Algorithm], Rate: l.Rate, Period: l.Period.Microseconds(), Burst: cmp.Or(l.Burst, l.Rate),
	}
}

var algorithms = map[shardlimit.Algorithm]rule.Algorithm{
	shardlimit.TokenBucket: rule.TokenBucket, shardlimit.GCRA: rule.GCRA, shardlimit.FixedWindow: rule.FixedWindow,
	shardlimit.SlidingWindow: rule.SlidingWindow, shardlimit.SlidingLog: rule.SlidingLog,
}
