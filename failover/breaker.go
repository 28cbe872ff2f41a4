package failover

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// shard is what is known of one shard. The fields below the atomic ones are
// guarded by the mutex of the Breakers that it belongs to.
type shard struct {
	name    string
	open    atomic.Bool  // no calls go out
	failing atomic.Bool  // a call got no answer less than a window ago
	refused atomic.Int64 // calls that met it open, since it began to fail

	breaker *gobreaker.CircuitBreaker[struct{}]
	since   time.Time // the breaker's state holds
	cause   *Error    // of the latest call that got no answer
	began   time.Time // to fail
	last    time.Time // time that a call got no answer
	calls   Unanswered
	faults  map[string]bool // by the code of a misconfiguration
}

func newShard(name string, o Options, now time.Time) *shard {
	return &shard{
		name:    name,
		breaker: o.breaker(),
		since:   now,
		faults:  map[string]bool{},
	}
}

// breaker returns a closed breaker. It counts calls, and says when to open.
// It never becomes half-open: no caller's call is spent on a probe, and a new
// breaker takes its place once the shard is back.
func (o Options) breaker() *gobreaker.CircuitBreaker[struct{}] {
	const slices = 10 // of a window, which slides by one
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Interval:     o.Window,
		BucketPeriod: o.Window / slices,
		Timeout:      math.MaxInt64,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			calls := c.TotalFailures + c.TotalSuccesses
			return int64(calls) >= int64(o.MinCalls) && float64(c.TotalFailures) >= o.FailureRatio*float64(calls)
		},
	})
}

// record counts calls, until they trip the breaker; err is nil if they were
// answered.
func (s *shard) record(calls int64, err error) {
	for ; calls > 0 && !s.tripped(); calls-- {
		_, _ = s.breaker.Execute(func() (struct{}, error) { return struct{}{}, err })
	}
}

// tripped reports whether what was recorded says to open.
func (s *shard) tripped() bool { return s.breaker.State() == gobreaker.StateOpen }

// fail takes in that so many callers got no answer, and reports whether they are
// the first.
func (s *shard) fail(callers int64, err *Error, now time.Time) (first bool) {
	s.cause, s.last = err, now
	if err.Class == Unknown {
		s.calls.Unknown += callers
	} else {
		s.calls.NeverRan += callers
	}
	if err.keptWaiting() {
		s.record(callers, err)
	}
	if s.failing.Load() {
		return false
	}
	s.began = now
	s.failing.Store(true)
	return true
}

// quiet reports whether each call has had an answer for a window.
func (s *shard) quiet(window time.Duration, now time.Time) bool {
	return s.failing.Load() && !s.open.Load() && now.Sub(s.last) >= window
}

// recover forgets that calls failed, and returns how many.
func (s *shard) recover() Unanswered {
	calls := s.unanswered()
	s.calls = Unanswered{}
	s.refused.Store(0)
	s.failing.Store(false)
	return calls
}

func (s *shard) unanswered() Unanswered {
	calls := s.calls
	calls.Open = s.refused.Load()
	return calls
}

// trip opens the breaker.
func (s *shard) trip(now time.Time) {
	s.since = now
	s.open.Store(true)
}

// close closes the breaker, which begins to count anew, and returns how long
// it was open.
func (s *shard) close(o Options, now time.Time) time.Duration {
	lasted := now.Sub(s.since)
	s.breaker = o.breaker()
	s.since, s.last = now, now
	s.open.Store(false)
	return lasted
}

// keptWaiting reports whether the call waited in vain. That is what a breaker
// spares the next ones. A shard which is out of memory, can't save or lacks
// replicas says so at once.
func (e *Error) keptWaiting() bool {
	switch e.code() {
	case "OOM", "MISCONF", "NOREPLICAS":
		return false
	}
	return e.Class.Unavailable()
}

// code returns the word in capitals that a server's reply begins with; of
// another error, the first word.
func (e *Error) code() string {
	if e.Err == nil {
		return ""
	}
	return ReplyCode(e.Err.Error())
}
