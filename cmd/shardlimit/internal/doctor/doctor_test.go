package doctor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/connect"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/doctor"
	"github.com/shardlimit/shardlimit/internal/rediscluster"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// look examines the nodes at addrs, and returns the findings by check.
func look(t *testing.T, addrs []string, mutate func(*doctor.Options)) map[string]doctor.Finding {
	t.Helper()
	client, err := (&connect.Flags{Redis: addrs}).Options()
	if err != nil {
		t.Fatal(err)
	}
	opts := doctor.Options{Client: client, Prefix: "rl"}
	if mutate != nil {
		mutate(&opts)
	}
	report, err := doctor.Look(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]doctor.Finding{}
	for _, f := range report.Findings {
		found[f.Check] = f
		if f.Read == "" || (f.Verdict != doctor.Fine) != (f.Advice != "") {
			t.Errorf("%+v: want what was read, and advice unless it's fine", f)
		}
	}
	return found
}

// healthy starts a cluster on which the doctor finds nothing.
func healthy(t *testing.T) *rediscluster.Cluster {
	t.Helper()
	return redistest.Start(t, redistest.Options{Replicas: 1, Args: []string{
		"--cluster-require-full-coverage", "no", "--lazyfree-lazy-expire", "yes",
		"--cluster-allow-replica-migration", "no", "--slowlog-max-len", "0",
	}})
}

// plant is a fault, and what the check of this name must say about it.
type plant struct {
	check   string
	fault   string
	plant   []string // a command on each primary
	undo    []string
	verdict doctor.Verdict
	read    string // part of what was read
}

var plants = []plant{
	{
		"coverage", "one shard takes all along",
		words("config set cluster-require-full-coverage yes"), words("config set cluster-require-full-coverage no"),
		doctor.Warning, "yes on",
	},
	{
		"eviction", "keys are evicted",
		words("config set maxmemory-policy volatile-lru maxmemory 1gb"), words("config set maxmemory-policy noeviction maxmemory 0"),
		doctor.Failure, "volatile-lru",
	},
	{
		"lazy expiry", "expiry frees at once",
		words("config set lazyfree-lazy-expire no"), words("config set lazyfree-lazy-expire yes"),
		doctor.Warning, "lazyfree-lazy-expire no",
	},
	{
		"replicas", "more replicas wanted than there are",
		words("config set min-replicas-to-write 2"), words("config set min-replicas-to-write 0"),
		doctor.Failure, "min-replicas-to-write",
	},
	{
		"memory", "memory is short",
		words("config set maxmemory 1mb"), words("config set maxmemory 0"),
		doctor.Warning, "80 % of maxmemory",
	},
	{
		"permissions", "the user may not run scripts",
		words("acl setuser default -eval -evalsha"), words("acl setuser default +@all"),
		doctor.Failure, "EVALSHA, EVAL",
	},
}

func words(s string) []string { return strings.Fields(s) }

func TestEachPlantedFaultIsFound(t *testing.T) {
	c := healthy(t)
	primaries, err := c.Primaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := look(t, c.Addrs(), nil)
	for check, f := range found {
		if f.Verdict != doctor.Fine {
			t.Errorf("nothing planted: %s: %+v", check, f)
		}
	}
	if f := found["hottest slots"]; !strings.HasPrefix(f.Read, "by ") {
		t.Errorf("%+v: want it to say by what they are the hottest", f)
	}
	for _, tt := range plants {
		t.Run(tt.check+": "+tt.fault, func(t *testing.T) {
			each(t, primaries, tt.plant)
			found := look(t, c.Addrs(), nil)
			each(t, primaries, tt.undo)
			wantFinding(t, found, tt.check, tt.verdict, tt.read)
			if f := look(t, c.Addrs(), nil)[tt.check]; f.Verdict != doctor.Fine {
				t.Errorf("undone: %+v", f)
			}
		})
	}
}

func each(t *testing.T, nodes []*rediscluster.Node, command []string) {
	t.Helper()
	for _, n := range nodes {
		run(t, n.Client(), command)
	}
}

func run(t *testing.T, rdb *redis.Client, command []string) {
	t.Helper()
	args := make([]any, len(command))
	for i, word := range command {
		args[i] = word
	}
	if err := rdb.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%q: %v", command, err)
	}
}

func wantFinding(t *testing.T, found map[string]doctor.Finding, check string, verdict doctor.Verdict, read string) {
	t.Helper()
	if f := found[check]; f.Verdict != verdict || !strings.Contains(f.Read, read) {
		t.Errorf("%s: %+v; want a %v that tells of %q", check, f, verdict, read)
	}
}

func TestKeysWithoutAnEndAreFoundAndFixed(t *testing.T) {
	c := redistest.Shared(t)
	rdb := redistest.Client(t, c, nil)
	limiter, err := shardlimit.New(rdb, shardlimit.Config{Prefix: "endless"})
	if err != nil {
		t.Fatal(err)
	}
	policy := shardlimit.MustPolicy(shardlimit.PolicyConfig{
		Name: "api", Limits: []shardlimit.Limit{shardlimit.PerHour(9)}, Timeout: time.Minute,
	})
	const subjects = 700
	for i := range subjects {
		if _, err := limiter.Allow(t.Context(), policy, fmt.Sprint("user:", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := limiter.Close(); err != nil {
		t.Fatal(err)
	}
	key := "endless:{a}:api:0000"
	set(t, rdb, key)
	set(t, rdb, "other:{a}") // none of the limiter's

	endless := func(o *doctor.Options) { o.Prefix = "endless" }
	found := look(t, c.Addrs(), endless)
	wantFinding(t, found, "expiry", doctor.Failure, "1 keys never end, as \""+key+"\"")
	wantFinding(t, found, "memory", doctor.Fine, fmt.Sprintf("api %d keys", subjects+1))

	found = look(t, c.Addrs(), func(o *doctor.Options) { endless(o); o.Fix = true })
	wantFinding(t, found, "expiry", doctor.Warning, "1 keys had no end")
	if left := rdb.TTL(t.Context(), key).Val(); left <= 23*time.Hour || left > 24*time.Hour {
		t.Errorf("%s ends in %v, want a day", key, left)
	}
	if left := rdb.TTL(t.Context(), "other:{a}").Val(); left != -1 {
		t.Errorf("a key of somebody else ends in %v", left)
	}
	wantFinding(t, look(t, c.Addrs(), endless), "expiry", doctor.Fine, "every key of endless:*")
}

func TestNoMoreKeysAreLookedAtThanTheSample(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	pipe := s.Client().Pipeline()
	for i := range 5000 {
		pipe.Set(t.Context(), fmt.Sprintf("rl:{%d}:api:0000", i), "", time.Hour)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	single := func(o *doctor.Options) { o.Single = true }
	found := look(t, []string{s.Addr()}, func(o *doctor.Options) { single(o); o.Sample = 1000 })
	wantFinding(t, found, "expiry", doctor.Fine, "among the first 1000 keys")
	wantFinding(t, look(t, []string{s.Addr()}, single), "memory", doctor.Fine, "api 5000 keys")
}

func TestSlowCommandsAreFound(t *testing.T) {
	const busy = "for i = 1, 5e6 do end" // some 20 ms
	const off = "config set slowlog-log-slower-than -1"
	s := redistest.StartSingle(t, redistest.Options{Args: words("--slowlog-log-slower-than 5000")})
	for _, key := range []string{"rl:{a}:api:0000", "rl:{b}:api:0000", "other:{a}:api:0000"} {
		if err := s.Client().Eval(t.Context(), busy, []string{key}).Err(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	run(t, s.Client(), words(off)) // what the doctor asks may be slow here too
	single := func(o *doctor.Options) { o.Single = true }
	found := look(t, []string{s.Addr()}, single)
	wantFinding(t, found, "slow commands", doctor.Warning, "2 (EVAL")
	wantFinding(t, found, "slow commands", doctor.Warning, "of the limiter, 1 (EVAL")
	run(t, s.Client(), words("slowlog reset"))
	wantFinding(t, look(t, []string{s.Addr()}, single), "slow commands", doctor.Fine, "none")
}

func set(t *testing.T, rdb *redis.ClusterClient, key string) {
	t.Helper()
	if err := rdb.Set(t.Context(), key, "", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestAPrimaryThatIsAwayIsFound(t *testing.T) {
	c := redistest.Start(t, redistest.Options{})
	gone := c.Nodes()[2]
	if err := gone.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	var found map[string]doctor.Finding
	for found["slots"].Verdict != doctor.Failure { // until the others know
		found = look(t, c.Addrs()[:1], nil)
		wantFinding(t, found, "nodes", doctor.Failure, "1 of 3 do not answer: "+gone.Addr())
	}
	wantFinding(t, found, "slots", doctor.Failure, "by a primary that is down")
	wantFinding(t, found, "replicas", doctor.Warning, "no replica is online for")
}

func TestSlotsThatNobodyServesAreFound(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Shards: 1})
	if err := c.Nodes()[0].Client().ClusterDelSlotsRange(t.Context(), 100, 199).Err(); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, look(t, c.Addrs(), nil), "slots", doctor.Failure, "100 of 16384 served by nobody")
}

func TestAUserWhoMayNotLookGetsWarnings(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Shards: 1})
	each(t, c.Nodes(), words("acl setuser meek on >secret ~rl:* +cluster|shards +info +acl|whoami"))
	found := look(t, c.Addrs(), func(o *doctor.Options) { o.Client.Username, o.Client.Password = "meek", "secret" })
	for _, check := range []string{"coverage", "eviction", "lazy expiry", "clocks", "permissions", "expiry", "memory", "slow commands", "hottest slots"} {
		wantFinding(t, found, check, doctor.Warning, "could not be read")
	}
	wantFinding(t, found, "slots", doctor.Fine, "all 16384 served")
}

func TestTheRightsInTheDocsSuffice(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Shards: 1})
	each(t, c.Nodes(), slices.Concat(words("acl setuser doctor on >secret +expire"), words(rightsIn(t, "docs/doctor.md"))))
	run(t, c.Nodes()[0].Client(), []string{"set", "rl:{a}:api:0000", ""})
	found := look(t, c.Addrs(), func(o *doctor.Options) {
		o.Client.Username, o.Client.Password = "doctor", "secret"
		o.User, o.Fix = "default", true
	})
	for check, f := range found {
		if strings.Contains(f.Read, "could not be read") {
			t.Errorf("%s: %+v", check, f)
		}
	}
	wantFinding(t, found, "expiry", doctor.Warning, "1 keys had no end")
}

func TestTheDocsNameEachCheck(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	text := document(t, "docs/doctor.md")
	for check := range look(t, []string{s.Addr()}, func(o *doctor.Options) { o.Single = true }) {
		if !strings.Contains(text, "\n| "+check+" |") {
			t.Errorf("docs/doctor.md has no row for %s", check)
		}
	}
}

func TestRightsOfAnotherUserAreLookedAt(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Shards: 1})
	each(t, c.Nodes(), slices.Concat(words("acl setuser limiter on >secret"), words(rightsIn(t, "README.md"))))
	as := func(o *doctor.Options) { o.User = "limiter" }
	wantFinding(t, look(t, c.Addrs(), as), "permissions", doctor.Fine, "user limiter may do all")
	for _, right := range words(rightsIn(t, "README.md"))[1:] { // each is one that the doctor would miss
		each(t, c.Nodes(), append(words("acl setuser limiter"), "-"+right[1:]))
		wantFinding(t, look(t, c.Addrs(), as), "permissions", doctor.Failure, strings.ToUpper(strings.Split(right[1:], "|")[0]))
		each(t, c.Nodes(), append(words("acl setuser limiter"), right))
	}
	wantFinding(t, look(t, c.Addrs(), func(o *doctor.Options) { as(o); o.Prefix = "other" }), "permissions", doctor.Failure, "GET")
}

func TestNothingAnsweringIsAnError(t *testing.T) {
	client, err := (&connect.Flags{Redis: []string{"127.0.0.1:1", "127.0.0.1:2"}}).Options()
	if err != nil {
		t.Fatal(err)
	}
	_, err = doctor.Look(t.Context(), doctor.Options{Client: client, Prefix: "rl"})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1:") || !strings.Contains(err.Error(), "127.0.0.1:2:") {
		t.Errorf("Look where nobody is: %v, want an error that names both", err)
	}
}

func TestAServerWithoutClusterModeIsNamed(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	client, err := (&connect.Flags{Redis: []string{s.Addr()}}).Options()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = doctor.Look(t.Context(), doctor.Options{Client: client}); err == nil || !strings.Contains(err.Error(), "--redis-single") {
		t.Errorf("Look at one server as at a cluster: %v, want a word of --redis-single", err)
	}
}

func TestReportIsTextAndJSON(t *testing.T) {
	r := doctor.Report{Findings: []doctor.Finding{
		{Check: "nodes", Read: "6 answer"},
		{Check: "lazy expiry", Verdict: doctor.Warning, Read: "no", Advice: "say yes"},
	}}
	if r.Worst() != doctor.Warning {
		t.Errorf("the worst is %v, want a warning", r.Worst())
	}
	var text, data bytes.Buffer
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	want := "fine     nodes        6 answer\nwarning  lazy expiry  no\n                      -> say yes\n\n1 fine, 1 warnings, 0 failures\n"
	if text.String() != want {
		t.Errorf("text\n%s\nwant\n%s", &text, want)
	}
	if err := r.JSON(&data); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Worst    string
		Findings []struct{ Check, Verdict, Read, Advice string }
	}
	if err := json.Unmarshal(data.Bytes(), &back); err != nil || back.Worst != "warning" || len(back.Findings) != 2 || back.Findings[1].Verdict != "warning" {
		t.Errorf("JSON %s: %v", &data, err)
	}
}

// TestWhereNoNodeLetsTheUserInNothingIsFine: no node that is asked is no node that is well.
func TestWhereNoNodeLetsTheUserInNothingIsFine(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Shards: 1, Replicas: 1})
	each(t, c.Nodes(), words("acl setuser stranger on >secret +cluster|shards"))
	client, err := (&connect.Flags{Redis: c.Addrs(), User: "stranger"}).Options()
	if err != nil {
		t.Fatal(err)
	}
	client.Password = "secret"
	_, err = doctor.Look(t.Context(), doctor.Options{Client: client, Prefix: "rl"})
	if err == nil || strings.Count(err.Error(), "NOPERM") != 2 {
		t.Errorf("Look as a user who may ask no node how it is: %v, want an error for each", err)
	}
	for _, n := range c.Nodes() {
		if n.Addr() != c.Addrs()[0] { // the replica
			run(t, n.Client(), words("acl setuser stranger +info"))
		}
	}
	found := look(t, c.Addrs(), func(o *doctor.Options) { o.Client.Username, o.Client.Password = "stranger", "secret" })
	for check, f := range found {
		switch check {
		case "nodes":
			wantFinding(t, found, check, doctor.Failure, "1 of 2 do not answer: "+c.Addrs()[0])
			if !strings.Contains(f.Advice, "let this user in") {
				t.Errorf("advice %q, want to let the user in", f.Advice)
			}
		case "slots":
			wantFinding(t, found, check, doctor.Fine, "all 16384 served")
		default:
			wantFinding(t, found, check, doctor.Warning, "could not be read: no primary answers")
		}
	}
}

func TestAUserWhomAPrimaryDoesNotKnowIsAFailure(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Shards: 1})
	found := look(t, c.Addrs(), func(o *doctor.Options) { o.User = "nobody" })
	wantFinding(t, found, "permissions", doctor.Failure, c.Addrs()[0]+": log in: there is no such user")
}

func TestAReplicaThatWouldEvictIsAWarning(t *testing.T) {
	c := redistest.Start(t, redistest.Options{Shards: 1, Replicas: 1})
	for _, n := range c.Nodes() {
		if n.Addr() != c.Addrs()[0] {
			run(t, n.Client(), words("config set maxmemory 100mb maxmemory-policy allkeys-lru"))
			wantFinding(t, look(t, c.Addrs(), nil), "eviction", doctor.Warning, "allkeys-lru on a replica, "+n.Addr())
		}
	}
}
