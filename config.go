package shardlimit

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"time"
)

// Config is what a Limiter is made with. Its zero value is a good default.
type Config struct {
	// Prefix begins each key, so that limiters which share a Redis do not share
	// its keys: up to 64 of A-Z a-z 0-9 _ . : and -. "" means "rl".
	Prefix string
	// Timeout is the longest that a call waits for Redis before the policy's
	// failure mode decides; 0 means 50 ms. A policy may have its own. NewLocal
	// has nothing to wait for.
	Timeout time.Duration
	// SubjectKey, if it isn't empty, keeps subjects out of Redis: a keyed hash
	// (HMAC-SHA256) stands for each. Limiters meet the same counts only under
	// the same key.
	SubjectKey []byte
	// Breaker says when a shard that doesn't answer isn't asked any more. Its
	// zero value is a good default.
	Breaker BreakerConfig
	// Batch bounds the calls that go out together, and those that wait. Its zero
	// value is a good default.
	Batch BatchConfig
	// HotKeys bounds what is kept to decide without Redis. Its zero value is a
	// good default.
	HotKeys HotKeysConfig
	// Observer is told of decisions and changes, as far as its functions are
	// set.
	Observer Observer
	// Logger gets a line for each change: a breaker opened or closed, a
	// fallback came in use or isn't any more, the topology changed, Redis is
	// set up wrongly. nil means slog.Default, as a limiter that stops limiting
	// should be heard; slog.New(slog.DiscardHandler) keeps it quiet.
	Logger *slog.Logger
}

// The Prefix and the Timeout that zero means.
const (
	defaultPrefix  = "rl"
	defaultTimeout = 50 * time.Millisecond
)

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// filled returns c with its defaults in place, and nothing of the caller's in
// it, or every fault of c.
func (c Config) filled() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	c.SubjectKey = bytes.Clone(c.SubjectKey)

	var faults []error
	if !prefixForm.MatchString(c.Prefix) {
		faults = append(faults, &ConfigError{Field: "Prefix", Value: c.Prefix, Reason: "must match " + prefixForm.String()})
	}
	if err := checkTimeout(c.Timeout); err != nil {
		faults = append(faults, err)
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	faults = append(faults, c.Breaker.faults()...)
	faults = append(faults, c.Batch.faults()...)
	faults = append(faults, c.HotKeys.faults()...)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, errors.Join(faults...)
}

func checkTimeout(timeout time.Duration) error {
	if timeout < 0 {
		return &ConfigError{Field: "Timeout", Value: timeout, Reason: "must not be negative"}
	}
	return nil
}
