// Package table prints figures as the documents have them: as a table of
// Markdown, padded so that it reads well in a terminal too.
package table

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table is a header and the rows below it.
type Table struct{ w table.Writer }

// New returns a table with these columns. What is in the first says what the
// others are figures of.
func New(columns ...string) *Table {
	t := &Table{table.NewWriter()}
	t.w.Style().Markdown.PadContent = true
	t.w.AppendHeader(row(columns))
	configs := make([]table.ColumnConfig, len(columns))
	for i := 1; i < len(columns); i++ {
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	t.w.SetColumnConfigs(configs)
	return t
}

// Addf adds a row of what the format makes, with a tab between two cells.
func (t *Table) Addf(format string, values ...any) {
	t.w.AppendRow(row(strings.Split(fmt.Sprintf(format, values...), "\t")))
}

// Print writes the table.
func (t *Table) Print(w io.Writer) error {
	_, err := fmt.Fprintln(w, t.w.RenderMarkdown())
	return err
}

func row(cells []string) table.Row {
	r := make(table.Row, len(cells))
	for i, c := range cells {
		r[i] = c
	}
	return r
}
