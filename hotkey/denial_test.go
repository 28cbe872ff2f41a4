package hotkey

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// onBoth runs a test for a key in the cache, and for one that has an entry.
func onBoth(t *testing.T, test func(t *testing.T, tier *Tier, k Key)) {
	for _, name := range []string{"cold", "hot"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tier := startTier(t, &lender{}, Config{})
				k := Key{Spec: &Spec{Policy: 1, Version: 1, NoLease: Off}, Subject: "a"}
				if name == "hot" {
					heatUp(tier, k)
				}
				test(t, tier, k)
			})
		})
	}
}

// denied tells of a denial, and has the cache take it in.
func (t *Tier) learn(k Key, s Stamp, d Denial) {
	t.Denied(k, s, d)
	t.tail.cache.Wait()
}

func TestADenialCoversWhatCostsAsMuch(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		d := Denial{Cost: 50, RetryAfter: 100 * time.Millisecond, Limit: 1, Remaining: 40, ResetAfter: time.Second}
		tier.learn(k, tier.Stamp(k), d)
		if got, known := tier.Decide(k, 1); known {
			t.Errorf("1: got %+v, want not known", got)
		}
		want := Answer{Source: FromDenial, Limit: 1, Remaining: 40, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter}
		for _, cost := range []int64{50, 51} {
			if got, known := tier.Decide(k, cost); !known || got != want {
				t.Errorf("%d: got %+v, %t; want %+v", cost, got, known, want)
			}
		}
	})
}

func TestADenialIsOfItsVersionAndItsKey(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: time.Second})
		for name, other := range map[string]Key{
			"version": {Spec: &Spec{Policy: 1, Version: 2}, Subject: "a"},
			"policy":  {Spec: &Spec{Policy: 2, Version: 1}, Subject: "a"},
			"subject": {Spec: k.Spec, Subject: "b"},
		} {
			if got, known := tier.Decide(other, 1); known {
				t.Errorf("another %s: got %+v, want not known", name, got)
			}
		}
	})
}

func TestADenialEndsAtRetryAfterOrItsTTL(t *testing.T) {
	for _, c := range []struct{ retry, want time.Duration }{
		{30 * time.Millisecond, 30 * time.Millisecond},
		{time.Hour, DenialTTL},
	} {
		onBoth(t, func(t *testing.T, tier *Tier, k Key) {
			s := tier.Stamp(k)
			time.Sleep(10 * time.Millisecond) // the call's way
			tier.learn(k, s, Denial{Cost: 1, RetryAfter: c.retry})
			time.Sleep(c.want - 10*time.Millisecond - time.Nanosecond)
			if _, known := tier.Decide(k, 1); !known {
				t.Errorf("retry after %v: not known just before %v", c.retry, c.want)
			}
			time.Sleep(time.Nanosecond)
			if _, known := tier.Decide(k, 1); known {
				t.Errorf("retry after %v: known after %v", c.retry, c.want)
			}
		})
	}
}

// The wait that Redis told is from the answer on: who waits as long from then
// comes too late rather than too early.
func TestADenialTellsTheWholeWait(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		s := tier.Stamp(k)
		time.Sleep(10 * time.Millisecond) // the call's way
		tier.learn(k, s, Denial{Cost: 1, RetryAfter: time.Hour, ResetAfter: 2 * time.Hour})
		time.Sleep(100 * time.Millisecond)
		want := Answer{Source: FromDenial, RetryAfter: time.Hour - 100*time.Millisecond, ResetAfter: 2*time.Hour - 100*time.Millisecond}
		if got, known := tier.Decide(k, 1); !known || got != want {
			t.Errorf("got %+v, %t; want %+v", got, known, want)
		}
	})
}

func TestForgetEndsADenial(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		late := tier.Stamp(k)
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: time.Second})
		tier.Forget(k)
		if got, known := tier.Decide(k, 1); known {
			t.Errorf("got %+v, want not known", got)
		}
		tier.learn(k, late, Denial{Cost: 1, RetryAfter: time.Second})
		if got, known := tier.Decide(k, 1); known {
			t.Errorf("learnt from a call before: got %+v, want not known", got)
		}
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: time.Second})
		if _, known := tier.Decide(k, 1); !known {
			t.Error("learnt from a call after: not known")
		}
	})
}

func TestADenialThatSaysLessReplacesNone(t *testing.T) {
	onBoth(t, func(t *testing.T, tier *Tier, k Key) {
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: 200 * time.Millisecond})
		tier.learn(k, tier.Stamp(k), Denial{Cost: 5, RetryAfter: 100 * time.Millisecond})
		time.Sleep(150 * time.Millisecond)
		if _, known := tier.Decide(k, 1); !known {
			t.Error("a request of 1 isn't known to be denied any more")
		}
	})
}

func TestADenialOfALongSubjectIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier := startTier(t, &lender{}, Config{})
		k := Key{Spec: keyA.Spec, Subject: strings.Repeat("x", MaxSubject+1)}
		for range 100 {
			tier.Observe(k, 1)
		}
		tier.learn(k, tier.Stamp(k), Denial{Cost: 1, RetryAfter: time.Second})
		if _, known := tier.Decide(k, 1); known {
			t.Error("known")
		}
		if got := tier.Inspect(); got.Entries != 0 || len(got.Hot) != 0 {
			t.Errorf("got %+v, want nothing of it", got)
		}
	})
}

func TestAKeyDeniedOftenBecomesHot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier := startTier(t, &lender{}, Config{})
		tier.learn(keyA, tier.Stamp(keyA), Denial{Cost: 1, RetryAfter: time.Second})
		for range 100 {
			if _, known := tier.Decide(keyA, 1); !known {
				t.Fatal("not known")
			}
		}
		time.Sleep(time.Nanosecond)
		s := tier.Inspect()
		if s.Entries != 1 || s.Counts.TailDenied != 20 || s.Counts.Denied != 80 {
			t.Errorf("got %+v, want an entry from the 20th denial on", s)
		}
	})
}
