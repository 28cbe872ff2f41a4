package cluster

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestQueueKeepsTheOrderWhoeverLeaves(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var q queue
	var want []*command
	for range 10_000 {
		switch n := random.IntN(4); {
		case n < 2:
			c := &command{}
			q.push(c)
			want = append(want, c)
		case len(want) == 0:
		case n == 2:
			if got := q.pop(); got != want[0] {
				t.Fatal("pop: not the oldest")
			}
			want = want[1:]
		default:
			i := random.IntN(len(want))
			if !q.remove(want[i]) || q.remove(want[i]) {
				t.Fatal("remove: want true once")
			}
			want = slices.Delete(want, i, i+1)
		}
		if q.length != len(want) {
			t.Fatalf("%d in the queue, want %d", q.length, len(want))
		}
	}
}
