package page

import (
	"fmt"
	"strings"
)

// chart is rates over time as an SVG shows them: a step a tick, allowed below,
// denied upon that.
type chart struct {
	Width, Height   int
	Allowed, Denied string // paths; "" where there is nothing
	Peak            float64
}

// newChart returns the chart of what the series remembers, of this height.
func newChart(s *series, height int) chart {
	c := chart{Width: window, Height: height}
	lower, upper := make([]float64, window), make([]float64, window)
	for i, one := range s.samples(window) {
		r := one.rates()
		lower[i], upper[i] = r.allowed+r.shadowed, r.all()
		c.Peak = max(c.Peak, upper[i])
	}
	c.Allowed = c.area(make([]float64, window), lower)
	c.Denied = c.area(lower, upper)
	return c
}

// area returns the path around what is between two edges.
func (c *chart) area(lower, upper []float64) string {
	var there, back strings.Builder
	differ := false
	for i := range upper {
		fmt.Fprintf(&there, "V%.1fH%d", c.y(upper[i]), i+1)
		j := len(lower) - 1 - i
		fmt.Fprintf(&back, "V%.1fH%d", c.y(lower[j]), j)
		differ = differ || upper[i] > lower[i]
	}
	if !differ {
		return ""
	}
	return fmt.Sprintf("M0 %.1f", c.y(lower[0])) + there.String() + back.String() + "Z"
}

// y returns how far below the top the value is.
func (c *chart) y(value float64) float64 {
	if c.Peak == 0 {
		return float64(c.Height)
	}
	return float64(c.Height) * (1 - value/c.Peak)
}
