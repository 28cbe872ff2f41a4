package connect_test

import (
	"crypto/tls"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/connect"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/testfile"
	"github.com/shardlimit/shardlimit/internal/closing"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestNodesAreNamedByAddressOrURL(t *testing.T) {
	for _, tt := range []struct {
		nodes          []string
		want           string // the addresses
		user, password string
		tls            bool
	}{
		{nodes: []string{"10.0.0.1:6379", "[::1]:7000"}, want: "10.0.0.1:6379 [::1]:7000"},
		{nodes: []string{"redis://a"}, want: "a:6379"},
		{nodes: []string{"rediss://a:7000", "b:7000"}, want: "a:7000 b:7000", tls: true},
		{nodes: []string{"redis://me:secret@a:7000"}, want: "a:7000", user: "me", password: "secret"},
	} {
		f := connect.Flags{Redis: tt.nodes}
		opts, err := f.Options()
		if err != nil {
			t.Errorf("%q: %v", tt.nodes, err)
			continue
		}
		if got := strings.Join(opts.Addrs, " "); got != tt.want || opts.Username != tt.user || opts.Password != tt.password || (opts.TLSConfig != nil) != tt.tls {
			t.Errorf("%q: %s as %q with %q, TLS %v", tt.nodes, got, opts.Username, opts.Password, opts.TLSConfig != nil)
		}
		if opts.TLSConfig != nil && opts.TLSConfig.ServerName != "" {
			t.Errorf("%q: every node must bear the name %q", tt.nodes, opts.TLSConfig.ServerName)
		}
		if !opts.ContextTimeoutEnabled {
			t.Errorf("%q: deadlines don't bind", tt.nodes)
		}
	}
}

func TestPasswordComesFromFileThenEnvironmentThenURL(t *testing.T) {
	file := testfile.New(t, "password", "of the file\r\n")
	url := "redis://me:of-the-url@a"
	for _, tt := range []struct {
		variable, file, want string
	}{
		{want: "of-the-url"},
		{variable: "of the environment", want: "of the environment"},
		{variable: "of the environment", file: file, want: "of the file"},
	} {
		t.Setenv("SHARDLIMIT_REDIS_PASSWORD", tt.variable)
		f := connect.Flags{Redis: []string{url}, User: "you", PasswordFile: tt.file}
		opts, err := f.Options()
		if err != nil || opts.Password != tt.want || opts.Username != "you" {
			t.Errorf("%+v: password %q of %q, %v", tt, opts.Password, opts.Username, err)
		}
	}
}

func TestFaultsAreNamedAtOnceWithoutThePassword(t *testing.T) {
	const secret = "hush"
	empty := testfile.New(t, "empty", "")
	for _, tt := range []struct {
		flags connect.Flags
		want  []string
	}{
		{connect.Flags{}, []string{"--redis:"}},
		{connect.Flags{Redis: []string{"a", "b:1"}, PasswordFile: "/nowhere"}, []string{"node 1", "--redis-password-file"}},
		{connect.Flags{Redis: []string{"http://me:" + secret + "@a"}}, []string{"node 1"}},
		{connect.Flags{Redis: []string{"me:" + secret + "@a:1"}}, []string{"node 1: want host:port"}},
		{connect.Flags{Redis: []string{"b:1", secret + "@a:1"}}, []string{"node 2: want host:port"}},
		{connect.Flags{Redis: []string{"redis://me:" + secret + "@a:port"}}, []string{"node 1"}},
		{connect.Flags{Redis: []string{"redis://a/3"}}, []string{"database"}},
		{connect.Flags{Redis: []string{"a:1", "b:1"}, Single: true}, []string{"--redis-single"}},
		{connect.Flags{Redis: []string{"a:1"}, CA: "/nowhere", Cert: "c"}, []string{"--redis-ca", "--redis-key"}},
		{connect.Flags{Redis: []string{"a:1"}, CA: empty, Cert: empty, Key: empty}, []string{"no PEM certificate", "--redis-cert"}},
	} {
		_, err := tt.flags.Options()
		if err == nil {
			t.Errorf("%+v: no error", tt.flags)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v; want a word of %s", tt.flags, err, want)
			}
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: the error tells the password: %v", tt.flags, err)
		}
	}
	if _, err := (&connect.Flags{}).Client(); !errors.Is(err, connect.ErrNowhere) {
		t.Errorf("Client without nodes: %v, want ErrNowhere", err)
	}
}

func TestClientReachesAClusterByTLSAsAUser(t *testing.T) {
	opts := redistest.TLS(t, redistest.Options{Shards: 1})
	c := redistest.Start(t, opts)
	acl := []any{"acl", "setuser", "limiter", "on", ">secret", "~rl:*", "+@all"}
	if err := c.Nodes()[0].Client().Do(t.Context(), acl...).Err(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHARDLIMIT_REDIS_PASSWORD", "secret")
	f := connect.Flags{Redis: c.Addrs(), User: "limiter", CA: file(t, opts.Files, "ca.crt"), ServerName: opts.TLS.ServerName}
	wantWhoAmI(t, &f, "limiter")

	f.Cert, f.Key = file(t, opts.Files, "redis.crt"), file(t, opts.Files, "redis.key")
	wantWhoAmI(t, &f, "limiter")

	f.ServerName = "other.test"
	rdb := client(t, &f)
	if err := rdb.Ping(t.Context()).Err(); !isCertificateError(err) {
		t.Errorf("under another name: %v, want a certificate error", err)
	}
}

func TestClientReachesASingleServer(t *testing.T) {
	s := redistest.StartSingle(t, redistest.Options{})
	f := connect.Flags{Redis: []string{"redis://" + s.Addr()}, Single: true}
	wantWhoAmI(t, &f, "default")
}

func wantWhoAmI(t *testing.T, f *connect.Flags, want string) {
	t.Helper()
	if got, err := client(t, f).Do(t.Context(), "acl", "whoami").Text(); err != nil || got != want {
		t.Errorf("ACL WHOAMI: %q, %v; want %q", got, err, want)
	}
}

func client(t *testing.T, f *connect.Flags) redis.UniversalClient {
	t.Helper()
	rdb, err := f.Client()
	return closing.Opened(t, rdb, err)
}

func isCertificateError(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

func file(t *testing.T, files []string, name string) string {
	t.Helper()
	i := slices.IndexFunc(files, func(path string) bool { return filepath.Base(path) == name })
	if i < 0 {
		t.Fatalf("no %s in %q", name, files)
	}
	return files[i]
}

func TestNodesAreAllSpokenToByTLSOrNone(t *testing.T) {
	for _, nodes := range [][]string{{"redis://a:1", "rediss://b:1"}, {"rediss://a:1", "b:1", "redis://c:1"}} {
		f := connect.Flags{Redis: nodes}
		if _, err := f.Options(); err == nil || !strings.Contains(err.Error(), "redis:// and rediss:// side by side") {
			t.Errorf("Options of %q: %v, want them refused", nodes, err)
		}
	}
}
