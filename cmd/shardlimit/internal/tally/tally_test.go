package tally_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/tally"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

const ms = time.Millisecond

// admitted is a call of a subject on a shard that was admitted.
func admitted(subject, shard int, sent, replied time.Duration) *tally.Call {
	return &tally.Call{
		Subject: subject, Shard: shard, At: ledger.Span{Sent: sent, Replied: replied},
		Result: shardlimit.Result{Allowed: true, Source: shardlimit.FromRedis},
	}
}

func newTally(subjects int) *tally.Tally {
	return tally.New(1, 2, subjects, []ledger.Terms{{Limits: []shardlimit.Limit{shardlimit.PerHour(9)}}})
}

func TestOnlyWhatAKilledPrimaryAdmittedAtTheLastIsAtRisk(t *testing.T) {
	counts := newTally(1)
	w := counts.Writer(0)
	w.Record(admitted(0, 1, 1*ms, 2*ms))
	gone := counts.Expose(1, 10*ms)
	for _, c := range []*tally.Call{
		admitted(0, 1, 8*ms, 9*ms),   // answered before: the replica has it
		admitted(0, 1, 9*ms, 11*ms),  // at risk
		admitted(0, 0, 11*ms, 12*ms), // another shard
	} {
		w.Record(c)
	}
	gone(20 * ms)
	w.Record(admitted(0, 1, 19*ms, 21*ms)) // at risk, although recorded later
	w.Record(admitted(0, 1, 21*ms, 22*ms)) // by the new primary
	for a := range counts.Accounts(0) {
		if a.AtRisk != 2 || a.Admitted != 6 {
			t.Errorf("%d at risk of %d admitted, want 2 of 6", a.AtRisk, a.Admitted)
		}
	}
}

func TestWhatAKilledPrimaryLentIsAtRiskForALeaseTime(t *testing.T) {
	counts := newTally(1)
	w := counts.Writer(0)
	counts.Expose(1, 10*ms)(20 * ms)
	for _, sent := range []time.Duration{220 * ms, 221 * ms} { // a lease ends 200 ms after it was asked for
		c := admitted(0, 1, sent, sent)
		c.Result.Source = shardlimit.FromLease
		w.Record(c)
	}
	for a := range counts.Accounts(0) {
		if a.AtRisk != 1 || a.Admitted != 2 {
			t.Errorf("%d at risk of %d admitted, want 1 of 2", a.AtRisk, a.Admitted)
		}
	}
}

func TestDecisionsAreCountedByPolicyAndSource(t *testing.T) {
	terms := ledger.Terms{Limits: []shardlimit.Limit{shardlimit.PerHour(9)}}
	counts := tally.New(1, 0, 1, []ledger.Terms{terms, terms})
	for policy, sources := range [][]shardlimit.Source{
		{shardlimit.FromRedis, shardlimit.FromFallback, shardlimit.FromMemory},
		{shardlimit.FromLease, shardlimit.FromLease, shardlimit.FromDenial},
	} {
		for _, s := range sources {
			counts.Writer(0).Record(&tally.Call{Policy: policy, Shard: -1, Result: shardlimit.Result{Source: s}})
		}
	}
	got := counts.Take()
	want := []tally.Sources{{Redis: 1, Fallback: 1, Memory: 1}, {Lease: 2, Denial: 1}}
	if diff := cmp.Diff(want, got.Policies); diff != "" || got.Sources().All() != 6 {
		t.Errorf("%d in all; Policies (-want +got)\n%s", got.Sources().All(), diff)
	}
	if after := counts.Take(); after.Sources() != (tally.Sources{}) {
		t.Errorf("%+v was counted twice", after.Sources())
	}
}

func TestWhatTheProcessKnewIsToldFromWhatRedisRefused(t *testing.T) {
	counts := newTally(1)
	for _, s := range []shardlimit.Source{shardlimit.FromRedis, shardlimit.FromDenial} {
		counts.Writer(0).Record(&tally.Call{Shard: 0, Result: shardlimit.Result{Source: s}})
	}
	for a := range counts.Accounts(0) {
		if a.Asked != 2 || a.Known != 1 {
			t.Errorf("%d known of %d asked, want 1 of 2", a.Known, a.Asked)
		}
	}
}

func TestHottestAreThoseWhoAskTheMost(t *testing.T) {
	counts := newTally(3)
	w := counts.Writer(0)
	denied, failed := *admitted(2, 0, 0, ms), *admitted(2, 0, 0, ms)
	denied.Result.Allowed = false
	failed.Result.Source = shardlimit.FromFallback
	for _, c := range []*tally.Call{admitted(0, 0, 0, ms), admitted(2, 0, 0, ms), &denied, &denied, &failed} {
		w.Record(c)
	}
	want := []tally.Subject{{Subject: 2, Admitted: 1, Denied: 2, Unknown: 1}, {Subject: 0, Admitted: 1}}
	if diff := cmp.Diff(want, counts.Hottest(2)); diff != "" {
		t.Errorf("Hottest(2) (-want +got)\n%s", diff)
	}
}
