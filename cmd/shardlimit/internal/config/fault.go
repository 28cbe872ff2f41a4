package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/shardlimit/shardlimit"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Path         string // of the file; "" where it has none
	Line, Column int    // from 1; 0 where it isn't in the file, but in a flag
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
	}
	if f.Field != "" {
		parts = append(parts, f.Field)
	}
	return strings.Join(append(parts, f.Reason), ": ")
}

// FileError is everything that is wrong with a configuration, in the order of the
// file.
type FileError []Fault

// Error returns a line for each fault.
func (f FileError) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the faults in the order of the file, or nil for none.
func (f FileError) sorted() error {
	if len(f) == 0 {
		return nil
	}
	slices.SortStableFunc(f, func(a, b Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return f
}

// fault keeps a fault at the place of node n.
func (r *reader) fault(n ast.Node, field, reason string, args ...any) {
	f := Fault{Line: 1, Column: 1, Field: field, Reason: fmt.Sprintf(reason, args...)}
	if n != nil {
		at := n.GetToken().Position
		f.Line, f.Column = at.Line, at.Column
	}
	r.faults = append(r.faults, f)
}

// refused keeps what the library has against what was read. at returns the node
// and the name of the library's field.
func (r *reader) refused(err error, at func(field string) (ast.Node, string)) {
	for _, c := range configErrors(err) {
		n, field := at(c.Field)
		r.fault(n, field, "%s", reason(c))
	}
}

// reason returns the value and what is wrong with it.
func reason(c *shardlimit.ConfigError) string {
	if s, ok := c.Value.(string); ok {
		return fmt.Sprintf("%q %s", s, c.Reason)
	}
	if c.Field == "Limits" { // the value is how many there are
		return fmt.Sprintf("%v limits: %s", c.Value, c.Reason)
	}
	return fmt.Sprintf("%v %s", c.Value, c.Reason)
}

// configErrors returns those that err joins.
func configErrors(err error) []*shardlimit.ConfigError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*shardlimit.ConfigError
		for _, e := range joined.Unwrap() {
			all = append(all, configErrors(e)...)
		}
		return all
	}
	if c, ok := errors.AsType[*shardlimit.ConfigError](err); ok {
		return []*shardlimit.ConfigError{c}
	}
	return nil
}
