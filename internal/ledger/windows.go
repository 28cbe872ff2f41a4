package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// window is the admissions that lie wholly within one window, by when they were
// answered. Those that lie across its edge are in none.
type window struct {
	began    time.Duration // since the run's start
	answered []time.Duration
}

// windows returns the admissions by the windows of a period, which begin at
// multiples of it since 1970.
func (l *Log) windows(period time.Duration) map[int64]*window {
	start := l.start.UnixNano()
	index := func(at time.Duration) int64 { return (start + int64(at)) / int64(period) }
	windows := map[int64]*window{}
	for _, at := range l.admitted {
		i := index(at.Sent - grain)
		if i != index(at.Replied+grain) {
			continue
		}
		if windows[i] == nil {
			windows[i] = &window{began: time.Duration(i*int64(period) - start)}
		}
		windows[i].answered = append(windows[i].answered, at.Replied)
	}
	for _, w := range windows {
		slices.SortFunc(w.answered, cmp.Compare)
	}
	return windows
}

// overWindow returns the most units above rate in one window.
func overWindow(windows map[int64]*window, rate int64) int64 {
	var over int64
	for _, w := range windows {
		over = max(over, int64(len(w.answered))-rate)
	}
	return over
}

// overSliding returns the most units above rate that a sliding window counts at
// any moment. What was answered by then was charged by then, and the window
// before counted for more when it was.
func overSliding(windows map[int64]*window, rate int64, period time.Duration) int64 {
	var over float64
	for i, w := range windows {
		before := 0.0
		if p := windows[i-1]; p != nil {
			before = float64(len(p.answered))
		}
		for n, at := range w.answered {
			elapsed := float64(at+grain-w.began) / float64(period)
			over = max(over, before*(1-elapsed)+float64(n+1)-float64(rate))
		}
	}
	return int64(math.Ceil(over - rounding))
}
