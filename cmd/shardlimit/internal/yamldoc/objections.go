package yamldoc

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/shardlimit/shardlimit"
)

// Objections keeps what the library has against what was read. at returns the node
// and the name of the library's field. Of a field that is at fault already it has
// got a stand-in, whose faults nobody made.
func (r *Reader) Objections(err error, at func(field string) (ast.Node, string)) {
	before := r.Faults
	for _, c := range configErrors(err) {
		n, field := at(c.Field)
		if !slices.ContainsFunc(before, func(f Fault) bool { return f.Field == field }) {
			r.Fault(n, field, "%s", reason(c))
		}
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
