package doctor

import (
	"errors"
	"testing"
	"time"
)

func TestClocksDifferOnlyWhereTheWayCannotExplainIt(t *testing.T) {
	ms := func(a, b int) span {
		return span{least: time.Duration(a) * time.Millisecond, most: time.Duration(b) * time.Millisecond}
	}
	for _, tt := range []struct {
		spans []span
		want  Verdict
	}{
		{nil, Fine},
		{[]span{ms(-1, 1), ms(0, 2), ms(50, 60)}, Fine},
		{[]span{ms(-500, 500), ms(400, 900)}, Fine}, // slow answers: they may agree
		{[]span{ms(0, 1), ms(101, 102)}, Warning},
		{[]span{ms(300, 301), ms(0, 1)}, Warning},
		{[]span{ms(0, 1), ms(5, 6), ms(-1100, -1000)}, Failure},
	} {
		if f := judgeClocks(tt.spans); f.Verdict != tt.want {
			t.Errorf("%v: %+v, want %v", tt.spans, f, tt.want)
		}
	}
}

func TestReplicasThatLagAreCounted(t *testing.T) {
	n := &node{info: fields("master_repl_offset:2000000\r\nconnected_slaves:4\r\n" +
		"slave0:ip=127.0.0.1,port=1,state=online,offset=2000000,lag=0\r\n" +
		"slave1:ip=127.0.0.1,port=2,state=online,offset=2000000,lag=3\r\n" +
		"slave2:ip=127.0.0.1,port=3,state=online,offset=900000,lag=1\r\n" +
		"slave3:ip=127.0.0.1,port=4,state=wait_bgsave,offset=0,lag=0\r\n")}
	if online, slow := n.replicas(); online != 3 || slow != 2 {
		t.Errorf("%d replicas online, %d of them late; want 3 and 2", online, slow)
	}
}

func TestOldServersAreToldByWhatTheySayOfShards(t *testing.T) {
	for text, want := range map[string]bool{
		"ERR Unknown subcommand or wrong number of arguments for 'shards'. Try CLUSTER HELP.": true, // 6.0
		"ERR unknown subcommand 'shards'. Try CLUSTER HELP.":                                  true,
		"ERR This instance has cluster support disabled":                                      false,
		"NOPERM this user has no permissions to run the 'cluster|shards' command":             false,
	} {
		if got := isOld(errors.New(text)); got != want {
			t.Errorf("isOld(%q) = %v, want %v", text, got, want)
		}
	}
	p := &patient{}
	for _, f := range []Finding{slotsAreServed(t.Context(), p), loadSpreads(t.Context(), p)} {
		if f.Verdict != Warning {
			t.Errorf("without shards: %+v, want a warning", f)
		}
	}
}

func TestOldServersAreFound(t *testing.T) {
	p := &patient{nodes: []*node{
		{addr: "a", info: map[string]string{"redis_version": "7.0.15"}},
		{addr: "b", info: map[string]string{"redis_version": "6.2.14"}},
		{addr: "c", info: map[string]string{"redis_version": "7.2.4", "valkey_version": "8.1.1"}},
	}}
	f := versionsSuffice(t.Context(), p)
	if want := "Redis 6.2.14, Redis 7.0.15, Valkey 8.1.1; before 7.0: b"; f.Verdict != Failure || f.Read != want {
		t.Errorf("%+v, want a failure that reads %q", f, want)
	}
}
