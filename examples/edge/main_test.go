package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// The hot tenant is decided in the process, and denied when it asks for too much;
// another one is not.
func TestHotTenantLeavesTheOthersAlone(t *testing.T) {
	limiter, err := shardlimit.New(redistest.Client(t, redistest.Shared(t), nil), shardlimit.Config{
		Prefix: redistest.Prefix(t), Timeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := limiter.Close(); err != nil {
			t.Error(err)
		}
	})
	handler, err := edge(limiter)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path, key string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("X-API-Key", key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}

	var denied, over atomic.Bool
	var hot sync.WaitGroup
	for range 8 {
		hot.Go(func() {
			for !over.Load() {
				if ask("/", "hot").Code == http.StatusTooManyRequests {
					denied.Store(true)
				}
			}
		})
	}
	for range 100 {
		if w := ask("/", "other"); w.Code != http.StatusOK || w.Body.String() != "served\n" {
			t.Errorf("another tenant is answered %d %s", w.Code, w.Body)
		}
	}
	leased := func() bool { return limiter.Inspect().HotKeys.Counts.Leased > 1000 && denied.Load() }
	for deadline := time.Now().Add(time.Minute); !leased(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute: %+v, denied %v", limiter.Inspect().HotKeys, denied.Load())
		}
	}
	over.Store(true)
	hot.Wait()

	var seen struct {
		HotKeys struct {
			Hot []struct {
				Subject string
				Parts   int
			}
		} `json:"hot_keys"`
	}
	err = json.Unmarshal(ask("/debug/limits", "").Body.Bytes(), &seen)
	hottest := seen.HotKeys.Hot
	if err != nil || len(hottest) == 0 || hottest[0].Subject != "key:hot" || hottest[0].Parts != 8 {
		t.Errorf("/debug/limits: %v, %+v; want parts of the hot tenant first", err, hottest)
	}
}
