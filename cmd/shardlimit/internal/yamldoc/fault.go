package yamldoc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Path         string // of the file; "" where it has none
	Line, Column int    // from 1; 0 where it isn't in the file
	Field        string // as in "policies[0].limits[1]"; "" for the file as a whole
	Reason       string // what it must be, with the value that it is
}

// String returns the fault in the form path:line:column: field: reason.
func (f Fault) String() string {
	var parts []string
	switch {
	case f.Line > 0 && f.Path != "":
		parts = append(parts, fmt.Sprintf("%s:%d:%d", f.Path, f.Line, f.Column))
	case f.Line > 0:
		parts = append(parts, fmt.Sprintf("%d:%d", f.Line, f.Column))
	case f.Path != "":
		parts = append(parts, f.Path)
	}
	if f.Field != "" {
		parts = append(parts, f.Field)
	}
	return strings.Join(append(parts, f.Reason), ": ")
}

// FileError is everything that is wrong with a configuration, in the order of its
// files.
type FileError []Fault

// Error returns a line for each fault.
func (f FileError) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// Sorted returns the faults by path, line and column, or nil for none.
func (f FileError) Sorted() error {
	if len(f) == 0 {
		return nil
	}
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Line-b.Line, a.Column-b.Column)
	})
	return f
}
