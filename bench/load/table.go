package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/table"
)

// show prints a line for each kind.
func show(w io.Writer, kinds []kind, results [][]*result) error {
	t := table.New("", "answers/s", "decisions/s", "p50, ms", "p99, ms", "by Redis", "ratio", "daemon, µs", "Redis, µs", "client, µs", "by CPU")
	for i, k := range kinds {
		all := total(results[i])
		t.Addf("%s\t%.0f\t%s\t%.2f\t%.2f\t%s\t%s\t%.2f\t%.2f\t%.2f\t%s", k.name, median(results[i]), k.decisions(results[i]),
			millis(all.times.ValueAtQuantile(50)), millis(all.times.ValueAtQuantile(99)), k.byRedis(all), k.ratio(i, results),
			k.each(all, all.cpu.daemon), k.each(all, all.cpu.redis), k.each(all, all.cpu.client), k.byCPU(i, results))
	}
	return t.Print(w)
}

// total returns what all rounds came to.
func total(rounds []*result) *result {
	all := newResult()
	for _, r := range rounds {
		all.add(r)
		all.cpu = all.cpu.plus(r.cpu)
	}
	return all
}

// each returns the µs of a time that each decision took, or each answer where
// there is none.
func (k *kind) each(all *result, t time.Duration) float64 {
	return float64(t.Nanoseconds()) / 1e3 / float64(all.answers*int64(max(1, k.size)))
}

// none is what a line has where there is nothing to say.
const none = "-"

func (k *kind) decisions(rounds []*result) string {
	if k.size == 0 {
		return none
	}
	return fmt.Sprintf("%.0f", median(rounds)*float64(k.size))
}

func (k *kind) byRedis(all *result) string {
	if k.size == 0 {
		return none
	}
	return fmt.Sprintf("%.1f %%", 100*float64(all.redis)/float64(all.answers*int64(k.size)))
}

// ratio returns how many times the decisions of the kind beside it there were:
// the median of the rounds' ratios.
func (k *kind) ratio(own int, results [][]*result) string {
	if k.beside == own {
		return none
	}
	ratios := make([]float64, len(results[own]))
	for i, r := range results[own] {
		ratios[i] = r.rate() / results[k.beside][i].rate()
	}
	return fmt.Sprintf("%.2f", middle(ratios))
}

// byCPU returns how many times the CPU time of a decision one of the kind beside
// it takes: what the ratio comes to where nothing else uses the machine.
func (k *kind) byCPU(own int, results [][]*result) string {
	if k.beside == own {
		return none
	}
	a, b := total(results[own]), total(results[k.beside])
	return fmt.Sprintf("%.2f", k.each(b, b.cpu.sum())/k.each(a, a.cpu.sum()))
}

func millis(ns int64) float64 { return float64(ns) / float64(time.Millisecond) }

// median returns the answers a second.
func median(rounds []*result) float64 {
	rates := make([]float64, len(rounds))
	for i, r := range rounds {
		rates[i] = r.rate()
	}
	return middle(rates)
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
