package failover

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// wrapped is what servers before Redis 7 put before an error within a script.
const wrapped = "ERR Error running script (call to f_6b1bf486c81ceb7edf3c093f4c48582e38c0e791): " +
	"@user_script:12: @user_script: 12: "

func TestClassOfReply(t *testing.T) {
	const within = " script: 6b1bf486c81ceb7edf3c093f4c48582e38c0e791, on @user_script:12."
	tests := []struct {
		text string
		want Class
	}{
		{"MOVED 3999 127.0.0.1:6381", NeverRan},
		{"ASK 3999 127.0.0.1:6381", NeverRan},
		{"NOSCRIPT No matching script. Please use EVAL.", NeverRan},
		{"NOSCRIPT No matching script.", NeverRan}, // Valkey
		{"TRYAGAIN Multiple keys request during rehashing of slot", NeverRan},
		{"CLUSTERDOWN The cluster is down", NeverRan},
		{"CLUSTERDOWN Hash slot not served", NeverRan},
		{"CLUSTERDOWN The cluster is down and only accepts read commands", NeverRan},
		{"LOADING Redis is loading the dataset in memory", NeverRan},
		{"LOADING Valkey is loading the dataset in memory", NeverRan},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", NeverRan},
		{"READONLY You can't write against a read only replica.", NeverRan},
		{"READONLY Can not run script with write flag on readonly replica.", NeverRan},
		{wrapped + "-READONLY You can't write against a read only replica.", NeverRan},
		{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", NeverRan},
		{"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", NeverRan},
		{"OOM command not allowed when used memory > 'maxmemory'.", NeverRan},
		{"OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'", NeverRan},
		{"OOM command not allowed when used memory > 'maxmemory'." + within, NeverRan},
		{wrapped + "-OOM command not allowed when used memory > 'maxmemory'.", NeverRan},
		{"NOREPLICAS Not enough good replicas to write.", NeverRan},
		{wrapped + "-NOREPLICAS Not enough good replicas to write.", NeverRan},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", NeverRan},
		{"MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk.", NeverRan},
		{"MISCONF Errors writing to the AOF file: No space left on device", NeverRan},
		{wrapped + "-MISCONF Errors writing to the AOF file: No space left on device", NeverRan},
		{"ERR max number of clients reached", NeverRan},
		{"ERR max number of clients + cluster connections reached", NeverRan},

		{"NOPERM this user has no permissions to run the 'evalsha' command", Configuration},
		{"NOPERM User limiter has no permissions to run the 'evalsha' command", Configuration},
		{"NOPERM No permissions to access a key", Configuration},
		{wrapped + "The user executing the script can't run this command or subcommand", Configuration},
		{"NOAUTH Authentication required.", Configuration},
		{"WRONGPASS invalid username-password pair or user is disabled.", Configuration},
		{"WRONGTYPE Operation against a key holding the wrong kind of value" + within, Configuration},
		{wrapped + "-WRONGTYPE Operation against a key holding the wrong kind of value", Configuration},
		{"CROSSSLOT Keys in request don't hash to the same slot", Configuration},
		{"DENIED Redis is running in protected mode", Configuration},
		{"ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'", Configuration},
		{"ERR user_script:3: attempt to compare nil with number" + within, Configuration},
		{"ERR Script attempted to access a non local key in a cluster node" + within, Configuration},
		{"ERR This instance has cluster support disabled", Configuration},
		{"ERR unknown command 'EVALSHA', with args beginning with: ", Configuration},
		{wrapped + "-", Configuration},
		{"ERR unknown command 'EVALSHA', with args beginning with: 'rl:{: -OOM x}'", Configuration}, // not the server's word
		{"BUSYKEY Target key name already exists.", Configuration},                                  // not BUSY
		{"ERR OOM", Configuration},
		{"", Configuration},
	}
	for _, tt := range tests {
		if got := ClassOfReply(tt.text); got != tt.want {
			t.Errorf("ClassOfReply(%q) = %v, want %v", tt.text, got, tt.want)
		}
	}
}

func TestReplyCode(t *testing.T) {
	tests := []struct{ text, want string }{
		{"TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN"},
		{"ERR syntax error", "ERR"},
		{wrapped + "-OOM command not allowed when used memory > 'maxmemory'.", "OOM"},
		{wrapped + "-ERR value is not an integer or out of range", "ERR"},
		{"ERR Error running script (call to f_6b): -1: -LOADING", "LOADING"}, // the first is no code
		{"NOSCRIPT", "NOSCRIPT"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := ReplyCode(tt.text); got != tt.want {
			t.Errorf("ReplyCode(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func FuzzReplyCode(f *testing.F) {
	f.Add("TRYAGAIN Multiple keys request during rehashing of slot")
	f.Add(wrapped + "-OOM command not allowed")
	f.Add(wrapped + ": -: - -")
	f.Fuzz(func(t *testing.T, text string) {
		if code := ReplyCode(text); strings.Contains(code, " ") || !strings.Contains(text, code) {
			t.Errorf("ReplyCode(%q) = %q, want a word of it", text, code)
		}
	})
}

func TestOnlyAShardThatCouldNotDecideIsUnavailable(t *testing.T) {
	want := map[Class]bool{0: false, NeverRan: true, Unknown: true, Configuration: false, Caller: false}
	for class, want := range want {
		if got := class.Unavailable(); got != want {
			t.Errorf("%v.Unavailable() = %v, want %v", class, got, want)
		}
	}
}

func TestErrorTellsItsCause(t *testing.T) {
	err := fmt.Errorf("allow: %w", &Error{Class: Unknown, Shard: "127.0.0.1:7000", Err: io.EOF})
	if f, ok := errors.AsType[*Error](err); !ok || f.Class != Unknown || !errors.Is(err, io.EOF) {
		t.Errorf("%v: want an *Error of class %v that wraps %v", err, Unknown, io.EOF)
	}
	tests := []struct {
		err  *Error
		want string
	}{
		{&Error{Class: Unknown, Shard: "127.0.0.1:7000", Err: io.EOF}, "shard 127.0.0.1:7000: outcome unknown: EOF"},
		{&Error{Class: NeverRan, Err: io.EOF}, "never ran: EOF"},
		{&Error{Class: Configuration, Err: io.EOF}, "configuration: EOF"},
		{&Error{Class: Caller, Err: io.EOF}, "caller: EOF"},
		{&Error{Err: io.EOF}, "Class(0): EOF"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("Error() = %q, want %q", got, tt.want)
		}
	}
}
