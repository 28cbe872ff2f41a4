// Package scripts holds the Lua that decides inside Redis, and the encoding of
// its arguments and replies.
//
// Each script decides about one key, which it gets in KEYS, by the clock of
// the shard that runs it. It replies with what it stored, packed, from which
// the caller derives every answer by the arithmetic of package rule. The head
// of each *.lua file is its contract.
package scripts

import (
	"crypto/sha1" //nolint:gosec // Redis names a script by its SHA-1
	_ "embed"
	"encoding/hex"
)

// Script is one Lua script.
type Script struct {
	Name string // the file's name without ".lua"
	Text string
	SHA  string // as EVALSHA takes it
}

//go:embed token_bucket.lua
var tokenBucketText string

//go:embed gcra.lua
var gcraText string

//go:embed sliding_window.lua
var slidingWindowText string

//go:embed sliding_log.lua
var slidingLogText string

//go:embed fixed_window.lua
var fixedWindowText string

//go:embed several.lua
var severalText string

//go:embed peek.lua
var peekText string

//go:embed peek_log.lua
var peekLogText string

//go:embed give.lua
var giveText string

//go:embed lease.lua
var leaseText string

//go:embed give_log.lua
var giveLogText string

var (
	tokenBucket   = newScript("token_bucket", tokenBucketText)
	gcra          = newScript("gcra", gcraText)
	slidingWindow = newScript("sliding_window", slidingWindowText)
	slidingLog    = newScript("sliding_log", slidingLogText)
	fixedWindow   = newScript("fixed_window", fixedWindowText)
	several       = newScript("several", severalText)
	peek          = newScript("peek", peekText)
	peekLog       = newScript("peek_log", peekLogText)
	give          = newScript("give", giveText)
	giveLog       = newScript("give_log", giveLogText)
	lease         = newScript("lease", leaseText)
)

func newScript(name, text string) *Script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return &Script{Name: name, Text: text, SHA: hex.EncodeToString(sum[:])}
}

// All returns every script, so that a server can be given them ahead of need.
func All() []*Script {
	return []*Script{
		tokenBucket, gcra, slidingWindow, slidingLog, fixedWindow,
		several, peek, peekLog, give, giveLog, lease,
	}
}
