package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

const intro = `"100 per minute", by each algorithm.

admitted      of 200,000 calls: 1,000 subjects in turn, a call each 0.5 ms, from a window's start
most in ...   by a client that was quiet, then asks each millisecond from half a second before a window's end
longest wait  of that client between two calls that pass
bytes a key   that the server takes for a subject who used all it may

`

const advice = `
token_bucket    the default: bursts up to a size you choose, then a steady rate
gcra            the same promise in the smallest key
sliding_log     never more than 100 in any minute, exactly; an entry for each unit
sliding_window  as a fixed window, without the second burst at its edge
fixed_window    the simplest; up to twice the limit around a window's edge
`

// Table prints the rows for people.
func Table(w io.Writer, rows []Row) error {
	var cells strings.Builder
	cells.WriteString("algorithm\tadmitted\tmost in 1 s\tmost in 60 s\tlongest wait\tbytes a key\n")
	for _, r := range rows {
		fmt.Fprintf(&cells, "%s\t%5.1f %%\t%11d\t%12d\t%10.1f s\t%11s\n",
			r.Algorithm, r.Percent(), r.MostIn1s, r.MostIn60s, float64(r.LongestWaitMS)/1000, bytesText(r.Bytes))
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	_, err1 := io.WriteString(t, intro+cells.String())
	err2 := t.Flush()
	_, err3 := io.WriteString(w, advice)
	return errors.Join(err1, err2, err3)
}

func bytesText(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// JSON prints the rows for scripts, as one array.
func JSON(w io.Writer, rows []Row) error {
	return json.NewEncoder(w).Encode(rows)
}
