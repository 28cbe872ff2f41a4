package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// result is what one kind of load came to in one round.
type result struct {
	answers int64
	took    time.Duration
	cpu     cpu                     // that it took
	redis   int64                   // decisions of Redis, not of the process
	times   *hdrhistogram.Histogram // until an answer, in ns
}

// The bounds of the histogram: three digits of what lies between.
const (
	quickest = int64(time.Microsecond)
	slowest  = int64(10 * time.Second)
	digits   = 3
)

func newResult() *result { return &result{times: hdrhistogram.New(quickest, slowest, digits)} }

func (r *result) rate() float64 { return float64(r.answers) / r.took.Seconds() }

// add adds what another connection saw in the same time.
func (r *result) add(o *result) {
	r.answers += o.answers
	r.redis += o.redis
	r.times.Merge(o.times)
}

// drive sends random ones of the requests by so many connections, each as soon as
// the one before is answered, for as long as span.
func drive(ctx context.Context, address string, requests []request, connections int, span time.Duration) (*result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	own, errs := make([]*result, connections), make([]error, connections)
	var driving sync.WaitGroup
	began := time.Now()
	for i := range connections {
		driving.Go(func() {
			own[i], errs[i] = converse(ctx, address, requests, began.Add(span))
			if errs[i] != nil {
				cancel()
			}
		})
	}
	driving.Wait()
	sum := newResult()
	sum.took = time.Since(began)
	for _, r := range own {
		sum.add(r)
	}
	return sum, errors.Join(errs...)
}

// longest is the bytes of the longest answer, as one to a batch is.
const longest = 1 << 16

// converse is one connection's part. It writes and reads HTTP by itself: a whole
// client would take more of the machine than the daemon does.
func converse(ctx context.Context, address string, requests []request, end time.Time) (*result, error) {
	r := newResult()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return r, err
	}
	defer func() { _ = conn.Close() }() // all was read
	answers := bufio.NewReaderSize(conn, longest)
	for now := time.Now(); now.Before(end) && ctx.Err() == nil; {
		if _, err := conn.Write(requests[rand.IntN(len(requests))]); err != nil {
			return r, err
		}
		body, err := read(answers)
		if err != nil {
			return r, err
		}
		sent := now
		now = time.Now()
		r.answers++
		r.redis += int64(bytes.Count(body, []byte(`"source":"redis"`)))
		if err := r.times.RecordValue(max(int64(now.Sub(sent)), quickest)); err != nil {
			return r, err
		}
	}
	return r, nil
}
