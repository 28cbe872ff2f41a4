package domains

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// place is where something stands in a document. The zero place is of what was
// left out.
type place struct {
	node ast.Node
	name string
}

// note is a field that is read later, if at all.
func (p *place) note(_ *yamldoc.Reader, at string, n ast.Node) { *p = place{n, at} }

// or returns the node, or n where it was left out.
func (p *place) or(n ast.Node) ast.Node {
	if p.node != nil {
		return p.node
	}
	return n
}

// text notes and reads text. Numbers and booleans are text too, as they are
// written.
func (p *place) text(to *string) yamldoc.Field {
	return func(r *yamldoc.Reader, at string, n ast.Node) {
		p.note(r, at, n)
		switch n.(type) {
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
			*to = n.GetToken().Value
		default:
			*to, _ = r.Scalar(at, n)
		}
	}
}

// flag notes and reads true or false.
func (p *place) flag(to *bool) yamldoc.Field {
	return func(r *yamldoc.Reader, at string, n ast.Node) {
		p.note(r, at, n)
		yamldoc.Boolean(to)(r, at, n)
	}
}
