package cluster

import (
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

func TestTuneFillsWhatIsNotSet(t *testing.T) {
	got := Tune(&redis.ClusterOptions{Addrs: []string{"a:1"}})
	want := &redis.ClusterOptions{
		Addrs:                      []string{"a:1"},
		ContextTimeoutEnabled:      true,
		DisableRoutingPolicies:     true,
		MaxRedirects:               3,
		MaxRetries:                 -1,
		MinRetryBackoff:            2 * time.Millisecond,
		MaxRetryBackoff:            50 * time.Millisecond,
		DialTimeout:                500 * time.Millisecond,
		DialerRetries:              1,
		ReadTimeout:                time.Second,
		WriteTimeout:               time.Second,
		PoolTimeout:                100 * time.Millisecond,
		PoolSize:                   64,
		ClusterStateReloadInterval: 10 * time.Second,
		MaintNotificationsConfig:   &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Tune = %+v, want %+v", got, want)
	}
}

func TestTuneKeepsWhatIsSet(t *testing.T) {
	opts := redis.ClusterOptions{
		Addrs:                    []string{"a:1"},
		Username:                 "limiter",
		MaxRedirects:             8,
		MaxRetries:               2,
		DialTimeout:              time.Second,
		DialerRetries:            7,
		ReadTimeout:              -1,
		PoolSize:                 3,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeAuto},
	}
	before := opts
	got := Tune(&opts)
	if !reflect.DeepEqual(opts, before) {
		t.Errorf("Tune changed its argument to %+v", opts)
	}
	if got.Username != "limiter" || got.MaxRedirects != 8 || got.MaxRetries != 2 || got.DialTimeout != time.Second ||
		got.DialerRetries != 7 || got.ReadTimeout != -1 || got.PoolSize != 3 ||
		got.MaintNotificationsConfig.Mode != maintnotifications.ModeAuto {
		t.Errorf("Tune(%+v) = %+v: changed what was set", opts, got)
	}
}

func TestTuneInsistsOnPrimariesAndRedirects(t *testing.T) {
	got := Tune(&redis.ClusterOptions{MaxRedirects: -1, ReadOnly: true, RouteByLatency: true, RouteRandomly: true})
	if got.MaxRedirects != 3 || got.ReadOnly || got.RouteByLatency || got.RouteRandomly {
		t.Errorf("Tune = %+v, want 3 redirects, and no reads from replicas", got)
	}
}
