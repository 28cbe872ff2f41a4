package drill

import (
	"context"
	"fmt"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// Account is what became of the calls of a run. But for the first three, all of
// it is exact, in calls or units of one.
//
// Where units are lent, what is charged and nobody's may be a lease as well whose
// grant or return was lost. It is in Idle then: Double is 0 of what is lent. And
// as much may be denied to others, so that Under says nothing.
type Account struct {
	Calls   int `json:"calls"`
	InTime  int `json:"in_time"` // of them, made within 5 ms of when they were due
	Skipped int `json:"skipped"` // not made, as they would have been late by more than 20 ms

	Admitted int64 `json:"admitted"`
	Leased   int64 `json:"leased"` // of them, by leases
	Idle     int64 `json:"idle"`   // charged of what is lent, and neither spent nor given back
	Denied   int64 `json:"denied"`
	Unknown  int64 `json:"unknown"`   // answered by the failure mode, perhaps charged
	NeverRan int64 `json:"never_ran"` // answered by the failure mode, not charged
	Open     int64 `json:"open"`      // of those, met an open breaker
	Errors   int64 `json:"errors"`

	Stood        int64 `json:"stood"`         // charges of unknown calls that were found
	AtRisk       int64 `json:"at_risk"`       // admitted where the fault may have lost the charge: the bound of Lost
	Lost         int64 `json:"lost"`          // of them, charges that are gone, or units admitted again: over, as section 2 allows it
	Over         int64 `json:"over"`          // admitted beyond that
	Under        int64 `json:"under"`         // denied although there was room
	Double       int64 `json:"double"`        // charged twice, or charged and said never to have run
	Vanished     int64 `json:"vanished"`      // charges gone that nothing explains
	WrongAnswers int64 `json:"wrong_answers"` // by a failure mode that isn't the policy's
}

// settle makes up the account, once the load is over.
func (p *play) settle(ctx context.Context) (*Account, error) {
	if p.options.Leases {
		p.giveBack()
	}
	a := &Account{Skipped: p.fault.load.skipped}
	accounts := map[*subject]*ledger.Account{}
	for i := range p.demand.subjects {
		s := &p.demand.subjects[i]
		accounts[s] = &ledger.Account{Log: ledger.NewLog(s.terms())}
	}
	for c := range p.fault.load.all() {
		a.enter(c)
		accounts[c.subject].Add(c.at, p.fault.outcome(c))
	}
	if err := p.open(patience); err != nil {
		return nil, err
	}
	for s, account := range accounts {
		a.judge(s, account)
		if !s.counts() {
			continue
		}
		r, err := p.peek(ctx, p.limiters[len(p.limiters)-1], s)
		if err != nil {
			return nil, err
		}
		a.compare(s, ledger.Settle(*account, s.limit()-r.Remaining))
	}
	return a, nil
}

// giveBack closes the limiters, which give their leases back. One that can't is
// no fault: what it held is Idle.
func (p *play) giveBack() {
	for _, l := range p.limiters {
		_ = l.Close()
	}
	p.limiters = nil
}

func (a *Account) enter(c *call) {
	a.Calls++
	if c.at.Sent-c.due <= inTime {
		a.InTime++
	}
	down := c.failure()
	switch {
	case c.err != nil:
		a.Errors++
	case down != nil:
		a.failed(c)
	case c.result.Allowed:
		a.Admitted++
		if c.result.Source == shardlimit.FromLease {
			a.Leased++
		}
	default:
		a.Denied++
	}
}

func (a *Account) failed(c *call) {
	switch {
	case c.failure().Unknown:
		a.Unknown++
	default:
		a.NeverRan++
	}
	if c.open() {
		a.Open++
	}
	if c.result.Allowed != c.subject.open() {
		a.WrongAnswers++
	}
}

// judge holds what a subject was answered against its limits.
func (a *Account) judge(s *subject, account *ledger.Account) {
	v := ledger.Judge(s.terms(), *account)
	a.AtRisk += account.AtRisk
	a.Lost += v.Lost
	a.Over += v.Over
	a.Under += v.Under
}

// compare takes in what was found of a subject's charges.
func (a *Account) compare(of *subject, s ledger.Settlement) {
	a.Stood += s.Stood
	a.Lost += s.Lost
	if of.terms().Lends() {
		a.Idle += s.Double
	} else {
		a.Double += s.Double
	}
	a.Vanished += s.Vanished
}

// broken says which promises were, that hold wherever and however fast this ran.
func (p *play) broken(a *Account) []string {
	var broken []string
	zero := func(n int64, what string) {
		if n != 0 {
			broken = append(broken, fmt.Sprintf("%s: %d", what, n))
		}
	}
	zero(a.Double, "charged twice")
	zero(a.Over, "over beyond what was at risk")
	zero(a.Vanished, "charges gone that were not at risk")
	if !p.options.Leases {
		zero(a.Under, "under")
	}
	zero(a.WrongAnswers, "answers that aren't the policy's mode's")
	if p.stuck {
		broken = append(broken, "not all shards answer again")
	}
	return broken
}
