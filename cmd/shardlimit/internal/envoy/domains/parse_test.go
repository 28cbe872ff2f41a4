package domains_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
)

// of returns a domain of one descriptor with this limit.
func of(limit string) string {
	return "domain: d\ndescriptors:\n- key: k\n  rate_limit: " + limit
}

const fine = "{unit: day, requests_per_unit: 1}"

func TestFaultsNameLineColumnAndField(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"domain: [", "f:1:9: sequence end token ']' not found"},
		{"- a", "f:1:1: must be a mapping, with descriptors or domain"},
		{"descriptors: []", "f:1:1: domain: must be there, and not empty"},
		{"domain: ''", "f:1:9: domain: must be there, and not empty"},
		{"domain: d\nlimits: []", "f:2:1: limits: unknown key: want descriptors or domain"},
		{"domain: d\n---\ndomain: d", `f:3:9: domain: "d" is another document's domain too`},
		{"domain: d\ndescriptors: {}", "f:2:14: descriptors: must be a list"},
		{"domain: d\ndescriptors:\n- value: v", "f:3:3: descriptors[0].key: must be there, and not empty"},
		{"domain: d\ndescriptors:\n- key: k*", `f:3:8: descriptors[0].key: "k*" must not end in a *: values may`},
		{"domain: d\ndescriptors:\n- key: [k]", "f:3:8: descriptors[0].key: must be text\nf:3:8: descriptors[0].key: must be there, and not empty"},
		{"domain: d\ndescriptors:\n- key: k\n- key: k", "f:4:3: descriptors[1]: k is there already, side by side with it"},
		{"domain: d\ndescriptors:\n- key: k\n  value: v\n- {key: k, value: v}", "f:5:3: descriptors[1]: k_v is there already, side by side with it"},
		{"domain: d\ndescriptors:\n- key: k\n  limit: " + fine, "f:4:3: descriptors[0].limit: unknown key: want descriptors, detailed_metric, key, quota_mode, rate_limit, shadow_mode, share_threshold, value or value_to_metric"},
		{"domain: d\ndescriptors:\n- key: k\n  metadata: {a: b}", "f:4:3: descriptors[0].metadata: is not taken over: answers carry no dynamic metadata"},
		{"domain: d\ndescriptors:\n- key: k\n  shadow_mode: maybe", "f:4:16: descriptors[0].shadow_mode: maybe must be true or false"},
		{"domain: d\ndescriptors:\n- key: k\n  shadow_mode: true", "f:4:16: descriptors[0].shadow_mode: does nothing without a rate_limit beside it"},
		{"domain: d\ndescriptors:\n- key: k\n  quota_mode: true", "f:4:15: descriptors[0].quota_mode: does nothing without a rate_limit beside it"},
		{"domain: d\ndescriptors:\n- key: k\n  detailed_metric: true", "f:4:20: descriptors[0].detailed_metric: does nothing without a rate_limit beside it"},
		{"domain: d\ndescriptors:\n- key: k\n  value: v\n  share_threshold: true", "f:5:20: descriptors[0].share_threshold: takes a value with a * in it"},
		{"domain: d\ndescriptors:\n- key: k\n  descriptors:\n  - key: l\n    rate_limit: {}", "f:6:17: descriptors[0].descriptors[0].rate_limit.requests_per_unit: must be there, or unlimited: true in its place\n" +
			"f:6:17: descriptors[0].descriptors[0].rate_limit.unit: must be there: second, minute, hour, day, week, month or year"},
		{"domain: d\ndescriptors: &all\n- key: k\n  descriptors: *all", "f:3:1: descriptors[0].descriptors: must not have itself in it"},
		{of("10"), "f:4:15: descriptors[0].rate_limit: must be a mapping, with name, replaces, requests_per_unit, unit, unit_multiplier or unlimited"},
		{of("{unit: fortnight, requests_per_unit: 1}"), `f:4:22: descriptors[0].rate_limit.unit: "fortnight" must be second, minute, hour, day, week, month or year`},
		{of("{unit: unknown, requests_per_unit: 1}"), `f:4:22: descriptors[0].rate_limit.unit: "unknown" must be second, minute, hour, day, week, month or year`},
		{of("{unit: day, requests_per_unit: -1}"), "f:4:46: descriptors[0].rate_limit.requests_per_unit: -1 must be a whole number from 0 to 1000000000"},
		{of("{unit: day, requests_per_unit: 4294967295}"), "f:4:46: descriptors[0].rate_limit.requests_per_unit: 4294967295 must be a whole number from 0 to 1000000000"},
		{of("{unit: day, requests_per_unit: many}"), "f:4:46: descriptors[0].rate_limit.requests_per_unit: many must be a whole number from 0 to 1000000000"},
		{of("{unit: day, unit_multiplier: 0, requests_per_unit: 1}"), "f:4:44: descriptors[0].rate_limit.unit_multiplier: 0 must be a whole number from 1 to 1000000000"},
		{of("{unit: year, unit_multiplier: 2, requests_per_unit: 1}"), "f:4:45: descriptors[0].rate_limit: 17520h0m0s must be 1ms to 366 days"},
		{of("{unit: year, unit_multiplier: 2, requests_per_unit: 0}"), "f:4:45: descriptors[0].rate_limit: 17520h0m0s must be 1ms to 366 days"},
		{of("{unlimited: true, unit: day}"), "f:4:39: descriptors[0].rate_limit.unit: must be left out where unlimited is true"},
		{of("{unlimited: true, requests_per_unit: 1}"), "f:4:52: descriptors[0].rate_limit.requests_per_unit: must be left out where unlimited is true"},
		{of("{unit: day, requests_per_unit: 1, replaces: [{}]}"), "f:4:60: descriptors[0].rate_limit.replaces[0].name: must be there, and not empty"},
		{of("{unit: day, requests_per_unit: 1, replaces: [n]}"), "f:4:60: descriptors[0].rate_limit.replaces[0]: must be a mapping, with name"},
		{of("{unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}"), `f:4:76: descriptors[0].rate_limit.replaces[0].name: "n" is the limit's own name`},
		{of("{unit: day, requests_per_unit: 1, algorithm: gcra}"), "f:4:49: descriptors[0].rate_limit.algorithm: unknown key: want name, replaces, requests_per_unit, unit, unit_multiplier or unlimited"},
	} {
		_, err := domains.Parse([]domains.File{{Path: "f", Text: []byte(tt.text)}}, domains.Default())
		if err == nil {
			t.Errorf("%q: no fault, want %s", tt.text, tt.want)
		} else if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", tt.text, diff)
		}
	}
}

func TestFaultsOfTheSettingsStandAtTheLimit(t *testing.T) {
	for _, tt := range []struct {
		settings domains.Settings
		limit    string
		want     string
	}{
		{domains.Settings{Algorithm: shardlimit.SlidingLog}, "{unit: day, requests_per_unit: 20000}", "f:4:46: descriptors[0].rate_limit.requests_per_unit: 20000 of a sliding_log must be at most 10000"},
		{domains.Settings{OnFailure: shardlimit.FailLocal(0.1)}, "{unit: day, requests_per_unit: 9}", "f:4:15: descriptors[0].rate_limit: local 0.1 leaves less than one unit of Limits[0], 9/d"},
	} {
		_, err := domains.Parse([]domains.File{{Path: "f", Text: []byte(of(tt.limit))}}, tt.settings)
		if err == nil {
			t.Errorf("%s: no fault, want %s", tt.limit, tt.want)
		} else if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.limit, diff)
		}
	}
}

func TestPeriodsOfAllUnits(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		limit string
		want  time.Duration
	}{
		{"{unit: second, requests_per_unit: 1}", time.Second},
		{"{unit: Minute, requests_per_unit: 1}", time.Minute},
		{"{unit: HOUR, requests_per_unit: 1}", time.Hour},
		{"{unit: day, requests_per_unit: 1}", day},
		{"{unit: week, requests_per_unit: 1}", 7 * day},
		{"{unit: month, requests_per_unit: 1}", 30 * day},
		{"{unit: year, requests_per_unit: 1}", 365 * day},
		{"{unit: minute, unit_multiplier: 15, requests_per_unit: 1}", 15 * time.Minute},
	} {
		m, _ := parse(t, of(tt.limit)).Find("d", entries("k", "v"))
		want := shardlimit.Limit{Algorithm: shardlimit.FixedWindow, Rate: 1, Period: tt.want}
		if got := m.Rule.Policy.Limits()[0]; got != want {
			t.Errorf("%s: %v, want %v", tt.limit, got, want)
		}
	}
}

func TestAFolderIsAllOfItsFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml": "domain: b\n---\ndomain: c", "a.yml": "---\ndomain: a", ".hidden.yaml": "domain: a", "notes.txt": "domain: a",
	} {
		testfile.Write(t, filepath.Join(dir, name), text)
	}
	if err := os.Mkdir(filepath.Join(dir, "more.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := domains.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := domains.Parse(files, domains.Default())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, s.Names()); diff != "" {
		t.Errorf("domains: (-want +got)\n%s", diff)
	}
	if files, err = domains.Files(filepath.Join(dir, "b.yaml")); err != nil || len(files) != 1 {
		t.Errorf("Files of a file: %d, %v; want 1", len(files), err)
	}
	if _, err := domains.Files(filepath.Join(dir, "none")); err == nil {
		t.Error("Files of nothing: no error")
	}
}

func TestDomainsMayBeMerged(t *testing.T) {
	files := []domains.File{
		{Path: "a", Text: []byte("{domain: d, descriptors: [{key: k, rate_limit: " + fine + "}]}")},
		{Path: "b", Text: []byte("{domain: d, descriptors: [{key: l, rate_limit: " + fine + "}]}")},
	}
	if _, err := domains.Parse(files, domains.Default()); err == nil || err.Error() != `b:1:10: domain: "d" is another document's domain too` {
		t.Errorf("two files of one domain: %v", err)
	}
	settings := domains.Default()
	settings.Merge = true
	s, err := domains.Parse(files, settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"k", "l"} {
		if _, found := s.Find("d", entries(key, "")); !found {
			t.Errorf("no rule for %s after merging", key)
		}
	}
	files = append(files, domains.File{Path: "c", Text: files[0].Text})
	if _, err := domains.Parse(files, settings); err == nil {
		t.Error("a descriptor that is there twice after merging: no fault")
	}
}

// FuzzParse: whatever the text, there is a set or a fault, and no panic.
func FuzzParse(f *testing.F) {
	f.Add(shop)
	f.Add(of(fine))
	f.Add("domain: d\ndescriptors: &all [{key: k, descriptors: *all}, {key: l, descriptors: *all}]")
	f.Add("domain: &d x\ndescriptors: [{key: *d, value: *e}]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := domains.Parse([]domains.File{{Text: []byte(text)}}, domains.Default())
		if (s == nil) != (err != nil) {
			t.Errorf("Parse(%q): %v and %v", text, s, err)
		}
	})
}
