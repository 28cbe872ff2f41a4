package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/report"
)

// figure returns a number with commas.
func figure(n int64) string { return report.Group(n) }

// rate returns how much there is a second, to three digits or whole ones.
func rate(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.05:
		return "< 0.1"
	case f < 9.95:
		return fmt.Sprintf("%.1f", f)
	case f < 99_999.5:
		return figure(int64(math.Round(f)))
	case f < 999_500:
		return fmt.Sprintf("%.0f k", f/1e3)
	default:
		return fmt.Sprintf("%.2f M", f/1e6)
	}
}

// percent returns the part of a whole, none where there is no whole. What isn't
// all or nothing isn't written as such.
func percent(part, whole float64) string {
	share := part / whole
	switch {
	case whole == 0:
		return none
	case part == 0:
		return "0 %"
	case share < 0.0005:
		return "< 0.1 %"
	case part == whole:
		return "100 %"
	default:
		return fmt.Sprintf("%.1f %%", math.Min(100*share, 99.9))
	}
}

// bytes returns how much memory that is.
func bytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}

// none stands where there is nothing to show.
const none = "–"

// span returns a time in the unit that suits it, with the next smaller one where
// it's above a minute.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// visible returns a text that may hold anything as one that shows all that is in
// it, and nothing that moves what stands beside it: control bytes, invalid UTF-8
// and marks of direction as escapes of Go, a backslash as two.
func visible(s string) string {
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// subject is a subject, or a pattern of some, as the page shows it.
type subject struct {
	Text string // short
	Full string // more of it, "" where Text is all
}

// The characters shown of a subject's beginning and end, where it has more than
// shownAll, and the bytes of the fuller one.
const (
	shownAll   = 60
	shownHead  = 36
	shownTail  = 16
	shownBytes = 1024
)

func newSubject(s string) subject {
	if len(s) <= shownAll || len(s) <= 4*shownAll && utf8.RuneCountInString(s) <= shownAll {
		return subject{Text: visible(s)}
	}
	return subject{
		Text: visible(head(s, shownHead)) + "…" + visible(tail(s, shownTail)),
		Full: fmt.Sprintf("%s bytes: %s", figure(int64(len(s))), visible(clip(s, shownBytes))),
	}
}

// head returns the first n characters of s, or all.
func head(s string, n int) string {
	end := 0
	for ; n > 0 && end < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end]
}

// tail returns the last n characters of s, or all.
func tail(s string, n int) string {
	begin := len(s)
	for ; n > 0 && begin > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:begin])
		begin -= size
	}
	return s[begin:]
}

// clip returns s, or its first n bytes and an ellipsis.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
