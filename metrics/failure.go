package metrics

import (
	"context"
	"errors"

	"github.com/shardlimit/shardlimit"
)

// class is what became of a call that Redis did not decide, as a label.
type class string

// The classes.
const (
	neverRan      class = "never_ran"     // refused by the shard, or it was not reached in time
	unknown       class = "unknown"       // may have been charged
	open          class = "open"          // not sent: the breaker was open
	caller        class = "caller"        // the caller's context ended
	configuration class = "configuration" // somebody must do something about it
	shut          class = "closed"        // the limiter was
)

// failureOf returns why Redis did not decide, nil if it did.
func failureOf(d *shardlimit.Decision) error {
	if d.Err != nil {
		return d.Err
	}
	return d.Result.Failure
}

func classOf(failure error) class {
	down, unavailable := errors.AsType[*shardlimit.UnavailableError](failure)
	switch {
	case unavailable && down.Unknown:
		return unknown
	case errors.Is(failure, shardlimit.ErrBreakerOpen):
		return open
	case unavailable: // before what its cause may be
		return neverRan
	case errors.Is(failure, context.Canceled), errors.Is(failure, context.DeadlineExceeded):
		return caller
	case errors.Is(failure, shardlimit.ErrClosed):
		return shut
	default:
		return configuration
	}
}

func (m *Metrics) failed(d *shardlimit.Decision, failure error) {
	c := classOf(failure)
	m.failures.WithLabelValues(d.Policy, string(c)).Inc()
	if c == unknown {
		m.unknownUnits.WithLabelValues(d.Policy).Add(float64(d.Cost))
	}
}
