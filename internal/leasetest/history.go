// Package leasetest judges those who lend units against a plain model that knows
// every one of them: which was admitted, and which a process may yet spend.
//
// A [History] is what may happen to one key: processes ask for leases, spend them
// early, late or never, crash, lose replies, settle at once, too late or not at
// all; single requests, refunds, resets and changed limits come between; the
// shard's clock steps back. Who decides, Redis or a model of it, is the caller's.
package leasetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit/internal/rule"
	"github.com/shardlimit/shardlimit/scripts"
)

const (
	ms        = 1000 // µs
	leaseTime = int64(rule.LeaseTime / 1000)
	start     = 1893456000_000_000 // 2030-01-01, µs
)

// Break is a rule of the protocol that processes do not keep. The zero Break is
// none.
type Break struct {
	Twice  bool // each settlement is sent again
	Longer bool // leases are spent for two lease times
	// Late judges no sooner than too much has been admitted. Otherwise a history
	// fails as soon as what is stored no longer covers what may yet be.
	Late bool
}

// History is one key's. It is not safe for concurrent use.
type History struct {
	rng   *rand.Rand
	key   string
	broke Break
	plans []*scripts.Plan // one, or some that differ in rate and burst
	rates bool            // their rates differ
	calm  int             // of a hundred chances to spend, how many are left

	now       int64 // µs of real time
	ahead     int64 // µs, the shard's clock before it; it only falls
	processes [3]process
	receipts  []receipt
	ledger    Ledger
	call      *scripts.Call
	sent      int64 // µs of real time
	asker     *process
	last      []said
}

// said is a call and the reply to it, at a µs of real time.
type said struct {
	at    int64
	call  *scripts.Call
	reply scripts.Reply
}

// process is what one process holds of the key.
type process struct {
	leases []lease
	ended  []ended
}

// lease is units that a process may spend.
type lease struct {
	at, size, left int64
	lent, until    int64     // µs of real time
	mark           []float64 // as its receipts have it
	spent          []receipt
	void           bool // what is spent of it can't be refunded
}

// ended is a lease to be settled.
type ended struct {
	scripts.Settlement
	lent, due int64 // µs of real time
}

type receipt struct {
	scripts.Receipt
	at int64 // µs of real time
}

// New returns a history of a key of algorithm a. Its limits change in some, and
// in most it has but one.
func New(rng *rand.Rand, a rule.Algorithm, key string, broke Break) *History {
	h := &History{rng: rng, key: key, broke: broke, now: start + rng.Int64N(10_000*ms), calm: []int{50, 90, 99}[rng.IntN(3)]}
	rate := []int64{100, 1000, 50_000}[rng.IntN(3)]
	limit := rule.Limit{Algorithm: a, Rate: rate, Period: 1000 * ms, Burst: rate + rng.Int64N(rate)}
	h.plans = append(h.plans, scripts.NewPlan(limit))
	if rng.IntN(4) == 0 {
		for range 2 {
			other := limit
			other.Burst = 1 + rng.Int64N(2*limit.Burst)
			other.Rate += rng.Int64N(2) * (rng.Int64N(2*rate) - rate + 1)
			h.plans = append(h.plans, scripts.NewPlan(other))
		}
	}
	h.ledger = Ledger{since: h.now}
	for _, p := range h.plans {
		h.ledger.most = max(h.ledger.most, p.Capacity())
		h.rates = h.rates || p.Limits()[0].Rate != rate
		h.ledger.rate = max(h.ledger.rate, p.Limits()[0].Rate)
	}
	return h
}

// Now returns what the shard's clock shows, in µs since 1970.
func (h *History) Now() int64 { return h.now + h.ahead }

// Next lets time pass, in which processes spend, and returns the call that comes
// then. The error says what was admitted that must not be.
func (h *History) Next() (*scripts.Call, error) {
	plan := h.plans[h.rng.IntN(len(h.plans))]
	h.ledger.limit = plan.Limits()[0]
	if err := h.pass(h.tick()); err != nil {
		return nil, h.failed(err)
	}
	c := &scripts.Call{Plan: plan, Key: h.key, Cost: 1, Count: 1}
	h.asker = &h.processes[h.rng.IntN(len(h.processes))]
	h.sent = h.now - h.rng.Int64N(2)*h.rng.Int64N(30*ms)
	switch p := h.rng.IntN(100); {
	case p < 60:
		c.Op, c.Lease = scripts.Lease, h.ask()
	case p < 64 && len(h.receipts) > 0:
		h.refund(c)
	case p < 66:
		c.Op = scripts.Reset
	case p < 70:
		h.asker.crash()
		c.Op = scripts.Peek
	default:
		c.Count = 1 + h.rng.Int64N(2)*h.rng.Int64N(plan.Capacity())
	}
	c.Window = c.InWindow(h.Now())
	h.call = c
	return c, nil
}

// tick is how long nobody calls: often less than a lease time, at times several,
// and then and now to the very end of an epoch.
func (h *History) tick() int64 {
	switch h.rng.IntN(10) {
	case 0:
		return 0
	case 1:
		return h.rng.Int64N(1000 * ms)
	case 2:
		return leaseTime - h.Now()%leaseTime - h.rng.Int64N(2)
	default:
		return h.rng.Int64N(80 * ms)
	}
}

// pass spends leases while time passes, some of it at the last moment.
func (h *History) pass(tick int64) error {
	until := h.now + tick
	all := h.rng.IntN(12) == 0
	for i := range h.processes {
		for j := range h.processes[i].leases {
			l := &h.processes[i].leases[j]
			if l.until <= h.now || (!all && h.rng.IntN(100) < h.calm) {
				continue
			}
			at := min(h.now+h.rng.Int64N(tick+1), l.until-1)
			if all {
				at = min(until, l.until-1)
			}
			n := l.left
			if !all {
				n = h.rng.Int64N(l.left + 1)
			}
			l.left -= n
			if !l.void && h.rng.IntN(4) == 0 {
				l.spent = append(l.spent, receipt{scripts.Receipt{Now: l.at, Granted: n, At: l.mark}, l.lent})
			}
			h.ledger.later(at, at+h.ahead, n)
		}
	}
	if err := h.ledger.spend(); err != nil {
		return err
	}
	h.now = until
	if h.ledger.limit.Algorithm == rule.TokenBucket && h.rng.IntN(40) == 0 {
		h.ahead -= h.rng.Int64N(3000 * ms)
		h.void() // a refund can't tell how much has decayed across a step
	}
	h.ledger.advance(h.now, h.Now())
	for i := range h.processes {
		h.processes[i].expire(h)
	}
	return nil
}

// expire closes the leases whose time is over.
func (p *process) expire(h *History) {
	p.leases = slices.DeleteFunc(p.leases, func(l lease) bool {
		over := l.until <= h.now
		if over {
			p.close(h, l)
		}
		return over
	})
}

// void has nothing refunded that was charged before.
func (h *History) void() {
	h.receipts = nil
	for i := range h.processes {
		for j := range h.processes[i].leases {
			l := &h.processes[i].leases[j]
			l.void, l.spent = true, nil
		}
	}
}

// close ends a lease, to be settled at once, late or never. What was spent of it
// is refunded by single calls from now on, whether it was settled or not.
func (p *process) close(h *History, l lease) {
	h.receipts = append(h.receipts, l.spent...)
	e := ended{Settlement: scripts.Settlement{At: l.at, Size: l.size, Unspent: l.left}, lent: l.lent, due: h.now}
	switch h.rng.IntN(5) {
	case 0:
		e.due += h.rng.Int64N(600 * ms)
	case 1:
		return
	}
	p.ended = append(p.ended, e)
	if h.broke.Twice {
		p.ended = append(p.ended, e)
	}
}

func (p *process) crash() { *p = process{} }

// ask is for a lease, and settles what is due. In half of all, the process closes
// one that it could spend on.
func (h *History) ask() scripts.Ask {
	p := h.asker
	if len(p.leases) > 0 && h.rng.IntN(2) == 0 {
		p.close(h, p.leases[0])
		p.leases = p.leases[1:]
	}
	a := scripts.Ask{Offered: h.rng.Int64N(5)}
	if h.rng.IntN(8) > 0 {
		a.Want = 4 + h.rng.Int64N(h.ledger.limit.Capacity())
	}
	if h.rng.IntN(8) == 0 {
		a.Offered = a.Want
	}
	if h.rng.IntN(20) == 0 {
		a.NotAfter = h.Now() - 1 // the script runs too late
	}
	p.ended = slices.DeleteFunc(p.ended, func(e ended) bool {
		if h.ahead < 0 && h.now-e.lent > 2*leaseTime {
			return true
		}
		if e.due > h.now || len(a.Settle) == scripts.MaxSettlements {
			return false
		}
		a.Settle = append(a.Settle, e.Settlement)
		return true
	})
	return a
}

func (h *History) refund(c *scripts.Call) {
	i := h.rng.IntN(len(h.receipts))
	c.Op, c.Receipt = scripts.Give, h.receipts[i].Receipt
	c.Window = int64(c.Receipt.At[0])
	h.ledger.refund(h.receipts[i])
	h.receipts = slices.Delete(h.receipts, i, i+1)
}

// Record takes in the reply to the call that Next returned. The error says what
// was admitted or lent that must not be.
func (h *History) Record(r scripts.Reply) error {
	c := h.call
	h.last = append(h.last[max(0, len(h.last)-12):], said{h.now, c, r})
	lost := h.rng.IntN(20) == 0
	switch {
	case c.Op == scripts.Reset:
		h.ledger.reset()
		h.void()
	case r.Granted < 1 || lost:
	case c.Op == scripts.Lease:
		life := c.Plan.LentFor(r.Now).Microseconds()
		if h.broke.Longer {
			life += leaseTime
		}
		h.asker.leases = append(h.asker.leases, lease{
			at: r.Now, size: r.Granted, left: r.Granted, lent: h.now, until: h.sent + life,
			mark: []float64{r.State(0).At}, void: h.rates || r.State(0).At > float64(r.Now),
		})
	case c.Op == scripts.Take:
		// Nor can it where its units were charged ahead of the clock, or decayed
		// at several rates.
		if !h.rates && r.State(0).At <= float64(r.Now) {
			h.receipts = append(h.receipts, receipt{scripts.Receipt{Now: r.Now, Granted: r.Granted, At: []float64{r.State(0).At}}, h.now})
		}
		h.ledger.later(h.now, h.Now(), r.Granted)
		if err := h.ledger.spend(); err != nil {
			return h.failed(err)
		}
	}
	if c.Op == scripts.Give || c.Op == scripts.Reset || r.Granted == scripts.OtherWindow || h.broke.Late {
		return nil
	}
	return h.failed(h.ledger.covered(r.State(0), h.Now(), h.outstanding()))
}

// outstanding is the units that processes may yet spend.
func (h *History) outstanding() (units int64) {
	for i := range h.processes {
		for _, l := range h.processes[i].leases {
			if l.until > h.now {
				units += l.left
			}
		}
	}
	return units
}

func (h *History) failed(err error) error {
	if err == nil {
		return nil
	}
	var text strings.Builder
	for _, s := range h.last {
		fmt.Fprintf(&text, "\n%d: op %d, count %d, %+v, %+v: %+v", s.at, s.call.Op, s.call.Count, s.call.Lease, s.call.Plan.Limits()[0], s.reply)
	}
	return fmt.Errorf("%w, after%s", err, &text)
}
