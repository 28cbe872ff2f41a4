package doctor

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// versionsSuffice looks for servers that don't know the scripts' first line.
func versionsSuffice(_ context.Context, p *patient) Finding {
	var old []*node
	seen := map[string]bool{}
	for _, n := range p.answering() {
		name, text := "Redis ", n.info["redis_version"]
		if valkey := n.info["valkey_version"]; valkey != "" {
			name, text = "Valkey ", valkey
		}
		seen[name+text] = true
		major, _, _ := strings.Cut(n.info["redis_version"], ".") // Valkey says 7.2.4 here
		if number, err := strconv.Atoi(major); err != nil || number < 7 {
			old = append(old, n)
		}
	}
	read := strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
	if len(old) == 0 {
		return Finding{Read: read}
	}
	return Finding{
		Verdict: Failure, Read: read + "; before 7.0: " + names(old),
		Advice: "upgrade to Redis 7.0 or Valkey: older servers refuse the limiter's scripts",
	}
}
