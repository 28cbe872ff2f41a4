package live

import (
	"fmt"
	"strings"

	"github.com/NimbleMarkets/ntcharts/sparkline"
	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/charmbracelet/x/ansi"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/report"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stage"
)

// The colours are the terminal's own, so that they suit its background; there
// are none under NO_COLOR. What they say stands there in words too.
var (
	plain  = lipgloss.NewStyle()
	bold   = plain.Bold(true)
	dim    = plain.Faint(true)
	green  = plain.Foreground(lipgloss.ANSIColor(2))
	yellow = plain.Foreground(lipgloss.ANSIColor(3))
	red    = plain.Foreground(lipgloss.ANSIColor(1))
	blue   = plain.Foreground(lipgloss.ANSIColor(4))
)

// View returns the picture: as many lines as the terminal has, none of them
// wider than it. Where it's too small, the events go first; the keys stay.
func (m model) View() string {
	top := []string{m.title(), dim.Render(m.scene.Where), ""}
	if m.scene.Where == "" {
		top = append(top, m.opening+" ...")
	} else {
		top = append(top, m.board()...)
	}
	top = append(top, m.log(m.height-len(top)-2)...)
	lines := make([]string, m.height)
	copy(lines[:max(0, m.height-1)], top)
	if m.height > 0 {
		lines[m.height-1] = m.footer()
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

func (m model) title() string {
	time := ""
	if m.scene.Where != "" {
		time = fmt.Sprintf("%5.1f of %.0f s", m.now.At.Seconds(), m.scene.Duration.Seconds())
	}
	return spread(m.width, bold.Render("shardlimit demo"), time)
}

// board returns all between the title and the events.
func (m model) board() []string {
	var lines []string
	if len(m.now.Cluster) > 0 {
		lines = append(lines, m.shards()...)
		lines = append(lines, "")
	}
	lines = append(lines, m.decisions()...)
	if m.scene.Lends {
		lines = append(lines, m.decidedBy())
	}
	lines = append(lines, m.latency())
	if roomy := 26; m.height >= roomy {
		lines = append(lines, "")
	}
	return append(append(lines, m.hottest()...), "")
}

func (m model) shards() []string {
	rows := [][]string{{"shard", "primary", "slots", "replicas", "state", "decisions/s"}}
	for i, s := range m.now.Cluster {
		rows = append(rows, []string{
			fmt.Sprint(i + 1), s.Addr, report.Group(int64(s.Slots)), fmt.Sprint(s.Replicas), string(s.State),
			report.Group(report.PerSecond(m.now.Shards[i], m.now.Length)),
		})
	}
	return columns(rows, []int{-7, -22, 8, 10, 9, 13}, func(row, col int) lipgloss.Style {
		if col != 4 {
			return plain
		}
		return map[stage.State]lipgloss.Style{stage.Up: green, stage.Moving: yellow, stage.Down: red}[m.now.Cluster[row].State]
	})
}

// decisions returns a sparkline for each outcome.
func (m model) decisions() []string {
	const label = 22
	height := 1
	if m.height >= 34 {
		height = 2
	}
	var lines []string
	for i, name := range [outcomes]string{"allowed", "denied", "fallback", "errors"} {
		now := int64(0)
		if h := m.history[i]; len(h) > 0 {
			now = int64(h[len(h)-1])
		}
		text := fmt.Sprintf("%-9s%9s/s", name, report.Group(now))
		line := spark(m.history[i], max(1, m.width-label), height, [outcomes]lipgloss.Style{green, blue, yellow, red}[i])
		left := plain.Width(label).Height(height).AlignVertical(lipgloss.Bottom).Render(text)
		lines = append(lines, strings.Split(lipgloss.JoinHorizontal(lipgloss.Bottom, left, line), "\n")...)
	}
	return lines
}

func spark(values []float64, width, height int, style lipgloss.Style) string {
	s := sparkline.New(width, height, sparkline.WithStyle(style))
	s.PushAll(values[max(0, len(values)-width):])
	s.Draw()
	return s.View()
}

// decidedBy says who decided: Redis, or this process by what it knows.
func (m model) decidedBy() string {
	by := m.now.Sources()
	return fmt.Sprintf("%-9s redis %7s  lease %7s  denial %7s  Redis calls each %s", "decided",
		report.Percent(by.Redis, by.All()), report.Percent(by.Lease, by.All()), report.Percent(by.Denial, by.All()),
		report.Each(m.now.Calls, by.All()))
}

func (m model) latency() string {
	p := [3]string{"-", "-", "-"}
	if m.now.Length > 0 {
		for i, percent := range []float64{50, 99, 100} {
			p[i] = report.Short(m.now.Latency(percent))
		}
	}
	return fmt.Sprintf("%-9s p50 %9s   p99 %9s   max %9s", "latency", p[0], p[1], p[2])
}

func (m model) hottest() []string {
	const least, most = 3, 10
	n := min(max(least, (m.height-15)/3), most, len(m.now.Hottest))
	rows := [][]string{{"hottest", "shard", "admitted", "denied", "fallback", "lease", "left"}}
	for _, s := range m.now.Hottest[:n] {
		shard := "-"
		if s.Shard >= 0 {
			shard = fmt.Sprint(s.Shard + 1)
		}
		rows = append(rows, []string{
			s.Name, shard, report.Group(s.Admitted), report.Group(s.Denied), report.Group(s.Unknown),
			report.Group(s.Lease.Units), report.Group(s.Lease.Left),
		})
	}
	return columns(rows, []int{-14, 7, 14, 14, 10, 8, 8}, func(int, int) lipgloss.Style { return plain })
}

// columns lays rows out, the first of which is the head: each column has its
// width, whatever is in it; below 0: the text is on the left.
func columns(rows [][]string, widths []int, style func(row, col int) lipgloss.Style) []string {
	t := table.New().Headers(rows[0]...).Rows(rows[1:]...).Wrap(false).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).
		StyleFunc(func(row, col int) lipgloss.Style {
			s := dim
			if row != table.HeaderRow {
				s = style(row, col)
			}
			if w := widths[col]; w > 0 {
				return s.Width(w).Align(lipgloss.Right)
			}
			return s.Width(-widths[col])
		})
	return strings.Split(t.Render(), "\n")
}

// log returns the latest events, in so many lines at most.
func (m model) log(most int) []string {
	const indent = 10
	var lines []string
	for _, e := range m.events {
		text := strings.Split(ansi.Wordwrap(e.text, max(1, m.width-indent), ""), "\n")
		for i, line := range text {
			at := ""
			if i == 0 {
				at = fmt.Sprintf("%6.1f s", e.at.Seconds())
			}
			lines = append(lines, dim.Render(fmt.Sprintf("%-*s", indent, at))+line)
		}
	}
	return lines[max(0, len(lines)-max(0, most)):]
}

func (m model) footer() string {
	right := ""
	switch {
	case m.ending:
		right = "ending ..."
	case m.asked != "":
		right = string(m.asked) + " ..."
	}
	return spread(m.width, m.help.View(m.keys), yellow.Render(right))
}

// spread puts one text at the left and one at the right of a line.
func spread(width int, left, right string) string {
	gap := width - lipgloss.Width(left) - lipgloss.Width(right)
	return left + strings.Repeat(" ", max(2, gap)) + right
}
