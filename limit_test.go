package shardlimit_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

func TestLimitsInText(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		text  string
		want  shardlimit.Limit
		canon string // "": text
	}{
		{"100/s", shardlimit.PerSecond(100), ""},
		{"100/1s", shardlimit.PerSecond(100), "100/s"},
		{"60/m", shardlimit.PerMinute(60), ""},
		{"60/60s", shardlimit.PerMinute(60), "60/m"},
		{"1000/h burst 50", shardlimit.PerHour(1000).WithBurst(50), ""},
		{"1000/d burst 1000", shardlimit.PerDay(1000).WithBurst(1000), ""},
		{"5/5m sliding_log", shardlimit.Per(5, 5*time.Minute).WithAlgorithm(shardlimit.SlidingLog), ""},
		{"5/m gcra", shardlimit.PerMinute(5).WithAlgorithm(shardlimit.GCRA), ""},
		{"5/m burst 7 gcra", shardlimit.PerMinute(5).WithBurst(7).WithAlgorithm(shardlimit.GCRA), ""},
		{" 5/m\tburst  7 token_bucket ", shardlimit.PerMinute(5).WithBurst(7), "5/m burst 7"},
		{"5/24h fixed_window", shardlimit.PerDay(5).WithAlgorithm(shardlimit.FixedWindow), "5/d fixed_window"},
		{"5/36h sliding_window", shardlimit.Per(5, 36*time.Hour).WithAlgorithm(shardlimit.SlidingWindow), ""},
		{"1/366d", shardlimit.Per(1, 366*day), ""},
		{"1/1ms", shardlimit.Per(1, time.Millisecond), "1/ms"},
		{"1/1.5s", shardlimit.Per(1, 1500*time.Millisecond), "1/1500ms"},
		{"1/1.001ms", shardlimit.Per(1, 1001*time.Microsecond), ""},
		{"1/0.000001h", shardlimit.Per(1, 3600*time.Microsecond), "1/3.6ms"},
		{"1/31622399999.999ms", shardlimit.Per(1, 366*day-time.Microsecond), ""},
		{"1000000000/s", shardlimit.PerSecond(1e9), ""},
	} {
		got, err := shardlimit.ParseLimit(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("ParseLimit(%q) = %#v, %v; want %#v", tt.text, got, err, tt.want)
		}
		canon := tt.canon
		if canon == "" {
			canon = tt.text
		}
		if got := tt.want.String(); got != canon {
			t.Errorf("String of %#v = %q, want %q", tt.want, got, canon)
		}
	}
}

func TestTextThatIsNoLimit(t *testing.T) {
	for _, tt := range []struct{ text, field, reason string }{
		{"", "Limit", "is empty: want N/duration [burst N] [algorithm]"},
		{" ", "Limit", "is empty: want N/duration [burst N] [algorithm]"},
		{"100", "Limit", "has no slash: want N/duration [burst N] [algorithm]"},
		{"100 /s", "Limit", "has no slash: want N/duration [burst N] [algorithm]"},
		{"/s", "Limit", `has a rate that isn't a number of units: ""`},
		{"1e3/s", "Limit", `has a rate that isn't a number of units: "1e3"`},
		{"-1/s", "Limit", `has a rate that isn't a number of units: "-1"`},
		{"9223372036854775808/s", "Limit", `has a rate that isn't a number of units: "9223372036854775808"`},
		{"1/", "Limit", `has a duration that isn't a number and ms, s, m, h or d: ""`},
		{"1/5", "Limit", `has a duration that isn't a number and ms, s, m, h or d: "5"`},
		{"1/1h30m", "Limit", `has a duration that isn't a number and ms, s, m, h or d: "1h30m"`},
		{"1/-5s", "Limit", `has a duration that isn't a number and ms, s, m, h or d: "-5s"`},
		{"1/1.s", "Limit", `has a duration that isn't a number and ms, s, m, h or d: "1.s"`},
		{"1/.5s", "Limit", `has a duration that isn't a number and ms, s, m, h or d: ".5s"`},
		{"1/1.0000005s", "Limit", `has a duration that isn't a number and ms, s, m, h or d: "1.0000005s"`},
		{"1/99999999999999d", "Limit", `has a duration that isn't a number and ms, s, m, h or d: "99999999999999d"`},
		{"1/s/s", "Limit", `has a duration that isn't a number and ms, s, m, h or d: "s/s"`},
		{"1/sm", "Limit", `has a duration that isn't a number and ms, s, m, h or d: "sm"`},
		{"1/s burst", "Limit", "has no number after burst"},
		{"1/s burst x", "Limit", `has a burst that isn't a number of units: "x"`},
		{"1/s burst 0", "Limit", `has a burst that isn't a number of units: "0"`},
		{"1/s leaky", "Limit", `has an unknown algorithm: "leaky"`},
		{"1/s gcra burst 5", "Limit", `goes on behind its end: "burst"`},
		{"0/s", "Limit.Rate", "must be 1 to 1000000000"},
		{"1/0s", "Limit.Period", "must be 1ms to 366 days"},
		{"1/367d", "Limit.Period", "must be 1ms to 366 days"},
		{"5/s burst 6 fixed_window", "Limit.Burst", "fixed_window has none: it must be 0"},
	} {
		got, err := shardlimit.ParseLimit(tt.text)
		c, ok := errors.AsType[*shardlimit.ConfigError](err)
		if got != (shardlimit.Limit{}) || !ok || c.Field != tt.field || c.Reason != tt.reason {
			t.Errorf("ParseLimit(%q) = %v, %v; want a ConfigError: %s %s", tt.text, got, err, tt.field, tt.reason)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, text := range []string{
		"100/s", "1000/h burst 50", "5/5m sliding_log", "1/366d", "3/1.001ms gcra", "1/0.5d burst 7 token_bucket",
		"0/0s", "1/9999999999999999999ms", "1/1.0000000000000000000s", "/", "1/s burst", "é/ß",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := shardlimit.ParseLimit(text)
		if err != nil {
			if _, ok := errors.AsType[*shardlimit.ConfigError](err); !ok {
				t.Errorf("ParseLimit(%q): error %v, want a ConfigError", text, err)
			}
			return
		}
		again, err := shardlimit.ParseLimit(limit.String())
		if err != nil || again != limit {
			t.Errorf("ParseLimit(%q) = %#v, whose text %q reads %#v, %v", text, limit, limit, again, err)
		}
		if _, err := shardlimit.NewPolicy(shardlimit.PolicyConfig{Name: "fuzz", Limits: []shardlimit.Limit{limit}}); err != nil {
			t.Errorf("ParseLimit(%q) = %#v, which NewPolicy refuses: %v", text, limit, err)
		}
	})
}

func TestLimitsInJSON(t *testing.T) {
	type config struct{ Limit shardlimit.Limit }
	for _, tt := range []struct {
		config config
		want   string
	}{
		{config{shardlimit.PerHour(1000).WithBurst(50)}, `{"Limit":"1000/h burst 50"}`},
		{config{}, `{"Limit":""}`},
	} {
		text, err := json.Marshal(tt.config)
		if err != nil || string(text) != tt.want {
			t.Errorf("Marshal = %s, %v; want %s", text, err, tt.want)
		}
		got := config{shardlimit.PerDay(1)}
		if err := json.Unmarshal(text, &got); err != nil || got != tt.config {
			t.Errorf("Unmarshal(%s) = %+v, %v; want %+v", text, got, err, tt.config)
		}
	}
	if text, err := json.Marshal(shardlimit.Limit{Rate: -1, Period: time.Second}); err == nil {
		t.Errorf("Marshal of an invalid limit = %s", text)
	}
	kept := shardlimit.PerDay(1)
	if err := kept.UnmarshalText([]byte("1/fortnight")); err == nil || kept != shardlimit.PerDay(1) {
		t.Errorf("UnmarshalText of no limit: %v, error %v", kept, err)
	}
}

func TestShareOfALimit(t *testing.T) {
	none := shardlimit.Limit{}
	for _, tt := range []struct {
		limit shardlimit.Limit
		share float64
		want  shardlimit.Limit
	}{
		{shardlimit.PerSecond(100), 1, shardlimit.PerSecond(100)},
		{shardlimit.PerSecond(100), 0.5, shardlimit.PerSecond(50)},
		{shardlimit.PerSecond(100), 0.29, shardlimit.PerSecond(29)}, // the product is 28.999…
		{shardlimit.PerSecond(10), 1.0 / 3, shardlimit.PerSecond(3)},
		{shardlimit.PerSecond(3), 1.0 / 3, shardlimit.PerSecond(1)},
		{shardlimit.PerSecond(100).WithBurst(7), 0.5, shardlimit.PerSecond(50).WithBurst(3)},
		{shardlimit.PerSecond(100).WithBurst(1), 0.5, none}, // a burst of 0 would mean 50
		{shardlimit.PerSecond(1), 0.5, none},
		{shardlimit.PerSecond(100), 0, none},
		{shardlimit.PerSecond(100), -1, none},
		{shardlimit.PerSecond(100), 1.5, none},
		{shardlimit.PerSecond(100), math.NaN(), none},
	} {
		if got := tt.limit.Share(tt.share); got != tt.want {
			t.Errorf("(%v).Share(%v) = %v, want %v", tt.limit, tt.share, got, tt.want)
		}
	}
}
