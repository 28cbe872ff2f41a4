package rediscluster

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// Version is a server's kind and version.
type Version struct {
	Name                string // "redis" or "valkey"
	Major, Minor, Patch int
}

// String returns it as "redis 7.0.15".
func (v Version) String() string {
	return fmt.Sprintf("%s %d.%d.%d", v.Name, v.Major, v.Minor, v.Patch)
}

// AtLeast reports whether v is of this version or a later one. It looks at the
// numbers alone: Valkey's go on from Redis 7.2.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// versionLine matches what redis-server and valkey-server --version print:
// "Redis server v=7.0.15 sha=…", "Valkey server v=9.1.2 sha=…".
var versionLine = regexp.MustCompile(`(?i)^(redis|valkey) server v=(\d+)\.(\d+)\.(\d+)`)

// ParseVersion reads what a server prints with --version.
func ParseVersion(line string) (Version, error) {
	m := versionLine.FindStringSubmatch(line)
	if m == nil {
		return Version{}, fmt.Errorf("no version in %q", line)
	}
	major, err1 := strconv.Atoi(m[2])
	minor, err2 := strconv.Atoi(m[3])
	patch, err3 := strconv.Atoi(m[4])
	name := "redis"
	if m[1][0]|0x20 == 'v' {
		name = "valkey"
	}
	return Version{Name: name, Major: major, Minor: minor, Patch: patch}, errors.Join(err1, err2, err3)
}
