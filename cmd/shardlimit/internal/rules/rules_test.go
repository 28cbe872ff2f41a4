package rules_test

import (
	"strconv"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rules"
)

func TestPatternsMatchWholeSubjects(t *testing.T) {
	for _, tt := range []struct {
		pattern, subject string
		want             bool
	}{
		{"user:42", "user:42", true},
		{"user:42", "user:421", false},
		{"*", "", true},
		{"*", "anyone", true},
		{"user:*", "user:", true},
		{"user:*", "user:42", true},
		{"user:*", "a user:42", false},
		{"*:trial", "42:trial", true},
		{"*:trial", "42:trial2", false},
		{"a*b", "ab", true},
		{"a*b", "a", false},
		{"a*a", "a", false}, // one a can't be both
		{"a*b*c", "axxbxxc", true},
		{"a*b*c", "axxcxxb", false},
		{"*b*b*", "abab", true},
		{"*b*b*", "ab", false},
		{"a**b", "ab", true},
		{"user:?", "user:1", false}, // only * is special
		{"[a]", "a", false},
	} {
		if got := rules.Pattern(tt.pattern).Match(tt.subject); got != tt.want {
			t.Errorf("Pattern(%q).Match(%q) = %t, want %t", tt.pattern, tt.subject, got, tt.want)
		}
	}
}

func policy(name string, rate int64) *shardlimit.Policy {
	return shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: name, Limits: []shardlimit.Limit{shardlimit.PerSecond(rate)}})
}

func TestFirstOverrideThatMatchesHolds(t *testing.T) {
	s := rules.New([]*shardlimit.Policy{policy("api", 1), policy("login", 2)}, []rules.Override{
		{"vip:1", policy("api", 10)},
		{"vip:*", policy("api", 20)},
		{"vip:2", policy("api", 30)}, // too late
		{"bot", policy("api", 40)},
		{"bot", policy("api", 50)}, // too late
		{"*", policy("login", 60)},
		{"*", policy("nobody", 70)},
	})
	for _, tt := range []struct {
		name, subject string
		rate          int64
		by            rules.Pattern
	}{
		{"api", "vip:1", 10, "vip:1"},
		{"api", "vip:2", 20, "vip:*"},
		{"api", "bot", 40, "bot"},
		{"api", "someone", 1, ""},
		{"login", "vip:1", 60, "*"},
	} {
		p, by := s.Find(tt.name, tt.subject)
		if p == nil || p.Name() != tt.name || p.Limits()[0].Rate != tt.rate || by != tt.by {
			t.Errorf("Find(%q, %q) = %v by %q, want a rate of %d by %q", tt.name, tt.subject, p, by, tt.rate, tt.by)
		}
	}
	if p, _ := s.Find("nobody", "vip:1"); p != nil {
		t.Errorf("Find of a name that no policy has = %v, want nil", p)
	}
}

// BenchmarkFind: a subject that none of ten thousand patterns matches.
func BenchmarkFind(b *testing.B) {
	api := shardlimit.MustPolicy(shardlimit.PolicyConfig{Name: "api", Limits: []shardlimit.Limit{shardlimit.PerSecond(1)}})
	var overrides []rules.Override
	for i := range 10_000 {
		overrides = append(overrides, rules.Override{Subject: rules.Pattern("customer:" + strconv.Itoa(i) + ":*"), Policy: api})
	}
	set := rules.New([]*shardlimit.Policy{api}, overrides)
	b.ReportAllocs()
	for b.Loop() {
		if _, by := set.Find("api", "customer:x"); by != "" {
			b.Fatalf("matches %s", by)
		}
	}
}
