package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/hotkey"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// environment is the variable that holds an instance's Order.
const environment = "SHARDLIMIT_CROWD_ORDER"

// Main returns, unless this process was started by [Start]: then it is an
// instance, does what it was told, and exits.
func Main() {
	text := os.Getenv(environment)
	if text == "" {
		return
	}
	var o Order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "instance:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run does what o says, until its time is over or its parent has gone, and says
// at the end what it has to report.
func run(o Order) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the parent
		cancel()
	}()
	report, err := Play(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// instance is one that runs.
type instance struct {
	order    Order
	policies []*shardlimit.Policy
	rdb      *redis.ClusterClient
	book     *book
	open     atomic.Pointer[opened]

	mu     sync.Mutex
	report Report
}

// opened is a Limiter, and those who ask it just now.
type opened struct {
	limiter *shardlimit.Limiter
	asking  sync.RWMutex // held for reading by each; for writing by who closes it
	closed  bool
}

// mostErrors is how many errors a report holds.
const mostErrors = 5

// Play is an instance in this process: it asks as o says until its time is over
// or ctx ends, closes its Limiter, and returns what there is to report.
func Play(ctx context.Context, o Order) (Report, error) {
	policies, err := o.policies()
	if err != nil {
		return Report{}, err
	}
	in := &instance{order: o, policies: policies, rdb: redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: o.Addrs, ContextTimeoutEnabled: true, ReadTimeout: o.Timeout,
	})}
	if in.book, err = newBook(o.Log, o.Durable); err != nil {
		return Report{}, err
	}
	if err := in.reopen(); err != nil {
		return Report{}, err
	}
	in.ask(ctx)
	in.retire(in.open.Load())
	return in.report, errors.Join(in.book.close(), in.rdb.Close())
}

// reopen makes a new Limiter, which others ask from now on, and closes the one
// before.
func (in *instance) reopen() error {
	l, err := shardlimit.New(in.rdb, shardlimit.Config{
		Prefix: in.order.Prefix, Timeout: in.order.Timeout,
		HotKeys: shardlimit.HotKeysConfig{Entries: in.order.Entries},
	})
	if err != nil {
		return err
	}
	if old := in.open.Swap(&opened{limiter: l}); old != nil {
		in.retire(old)
	}
	return nil
}

// retire closes a Limiter once nobody asks it any more, and books what it counted.
func (in *instance) retire(o *opened) {
	o.asking.Lock()
	o.closed = true
	o.asking.Unlock()
	held := o.limiter.Inspect().HotKeys.Held
	if err := o.limiter.Close(); !errors.Is(err, context.DeadlineExceeded) { // a shard that is being replaced may take longer
		in.failed(err)
	}
	s := o.limiter.Inspect()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.report.Held += held
	c := &in.report.Counts
	c.Leased += s.HotKeys.Counts.Leased
	c.Lent += s.HotKeys.Counts.Lent
	c.GivenBack += s.HotKeys.Counts.GivenBack
	c.Forgotten += s.HotKeys.Counts.Forgotten
	c.Asks += s.HotKeys.Counts.Asks
	c.Missed += s.HotKeys.Counts.Missed
	in.report.Counters.Unknown += s.Counters.Unknown
	in.report.Counters.Stranded += s.Counters.Stranded
}

// failed books an error.
func (in *instance) failed(err error) {
	if err == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.report.Counters.Errors++
	if len(in.report.Errors) < mostErrors {
		in.report.Errors = append(in.report.Errors, err.Error())
	}
}

// late books how late a caller was at worst, at the end.
func (in *instance) late(by time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.report.Late = max(in.report.Late, by)
}

// with calls f with the Limiter of the moment, which is not closed meanwhile.
func (in *instance) with(f func(l *shardlimit.Limiter)) {
	for {
		o := in.open.Load()
		o.asking.RLock()
		if !o.closed {
			defer o.asking.RUnlock()
			f(o.limiter)
			return
		}
		o.asking.RUnlock()
	}
}

// callers is how many goroutines ask for one key.
const callers = 8

// ask asks for every key until the time is over, and reopens meanwhile.
func (in *instance) ask(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, in.order.Start.Add(in.order.For))
	defer cancel()
	var asking sync.WaitGroup
	for key, k := range in.order.Keys {
		for c := range callers {
			if k.Rate > 0 {
				asking.Go(func() { in.askFor(ctx, key, c) })
			}
		}
	}
	if in.order.Reopen > 0 {
		asking.Go(func() { in.reopenAll(ctx) })
	}
	asking.Go(func() { in.look(ctx) })
	asking.Wait()
}

// look books again and again what is seen of the entries.
func (in *instance) look(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var of *opened
	var entries int
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if o := in.open.Load(); o != of {
			of, entries = o, 0
		}
		s := of.limiter.Inspect().HotKeys
		in.saw(s, max(0, entries-s.Entries))
		entries = s.Entries
	}
}

// saw books what was seen, and how many entries have gone.
func (in *instance) saw(s *hotkey.Snapshot, gone int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.report.Cooled += gone
	homeless := func(k hotkey.HotKey) bool { return k.NoLease == hotkey.TableFull }
	if s.Entries == s.Cap && slices.ContainsFunc(s.Hot, homeless) {
		in.report.NoPlace++
	}
}

func (in *instance) reopenAll(ctx context.Context) {
	tick := time.NewTicker(in.order.Reopen)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			in.failed(in.reopen())
		case <-ctx.Done():
			return
		}
	}
}

// askFor asks for one key at its caller's part of the rate. One that is late
// catches up.
func (in *instance) askFor(ctx context.Context, key, caller int) {
	random := rand.New(rand.NewPCG(in.order.Seed, uint64(key*callers+caller)))
	pauses := pauses{seed: in.order.Seed + uint64(key)<<32, on: in.order.Pause, key: key}
	gap := time.Duration(float64(callers) / in.order.Keys[key].Rate * float64(time.Second))
	due := max(0, time.Since(in.order.Start)).Truncate(gap) + gap*time.Duration(caller+1)/callers
	timer := time.NewTimer(0)
	defer timer.Stop()
	var late time.Duration
	defer func() { in.late(late) }()
	for {
		if wait := due - time.Since(in.order.Start); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		} else if ctx.Err() != nil {
			return
		}
		if now := time.Since(in.order.Start); now > in.order.For-atEnd {
			late = max(late, now-due)
		}
		due += gap
		if !pauses.at(due) {
			in.one(ctx, key, random)
		}
	}
}

// pauses are times in which a key is left alone: all of every other span, which is
// long enough to cool, and some of the end of the others, at random.
type pauses struct {
	seed uint64
	on   bool
	key  int
}

const pauseSpan = 2500 * time.Millisecond

func (p pauses) at(due time.Duration) bool {
	if !p.on {
		return false
	}
	span := int(due / pauseSpan)
	if (span+p.key)%2 == 1 {
		return true
	}
	random := rand.New(rand.NewPCG(p.seed, uint64(span)))
	return due%pauseSpan >= pauseSpan/2+time.Duration(random.Int64N(int64(pauseSpan/2)))
}

// one makes one request, writes down what became of it, and refunds some.
func (in *instance) one(ctx context.Context, key int, random *rand.Rand) {
	ctx = context.WithoutCancel(ctx)
	in.with(func(l *shardlimit.Limiter) {
		sent := time.Since(in.order.Start)
		r, err := l.Allow(ctx, in.policies[key], in.order.Keys[key].Subject)
		replied := time.Since(in.order.Start)
		if err != nil {
			in.failed(err)
			return
		}
		if r.Failure != nil && !in.order.Faults {
			in.failed(r.Failure)
		}
		rec := Record{At: ledger.Span{Sent: sent, Replied: replied}, Key: key, Outcome: outcome(r), Units: 1}
		in.book.write(rec)
		if each := in.order.Keys[key].Refund; each == 0 || !r.Allowed || random.IntN(each) > 0 {
			return
		}
		rec.Outcome = GivenBack
		if err := l.Refund(ctx, r); err != nil {
			in.failed(err)
			rec.Outcome = LostRefund
		}
		in.book.write(rec)
	})
}
