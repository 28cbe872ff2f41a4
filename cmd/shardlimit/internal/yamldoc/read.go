package yamldoc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Reader reads the nodes of one document. The zero Reader is ready to use.
type Reader struct {
	// Refused are keys that another program knows of and this one doesn't obey,
	// and why. They are faults wherever they stand.
	Refused map[string]string
	Faults  FileError // without a path
}

// Field reads one value, whose name in full is at.
type Field func(r *Reader, at string, n ast.Node)

// Fault keeps a fault at the place of node n, which may be nil for the
// document's start.
func (r *Reader) Fault(n ast.Node, field, reason string, args ...any) {
	f := Fault{Line: 1, Column: 1, Field: field, Reason: fmt.Sprintf(reason, args...)}
	if n != nil {
		at := start(n).GetToken().Position
		f.Line, f.Column = at.Line, at.Column
	}
	r.Faults = append(r.Faults, f)
}

// start returns the first key of a mapping that is written in lines, whose own
// token is the colon after it; any other node it returns as it is.
func start(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return n.Values[0].Key
		}
	case *ast.MappingValueNode:
		return n.Key
	}
	return n
}

// plain returns the node that n stands for, if it is an anchor or an alias that
// Parse has bound.
func plain(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.AnchorNode:
		return plain(n.Value)
	case *ast.AliasNode:
		return n.Value
	}
	return n
}

// Mapping reads a mapping's values by the fields of their keys. Values that are
// null count as left out; keys that are no field's are faults. It reports whether
// n is a mapping.
func (r *Reader) Mapping(at string, n ast.Node, fields map[string]Field) bool {
	m, ok := plain(n).(ast.MapNode)
	if !ok {
		r.Fault(n, at, "must be a mapping, with %s", OneOf(slices.Sorted(maps.Keys(fields))))
		return false
	}
	for i := m.MapRange(); i.Next(); {
		key := i.Key().GetToken().Value
		name := strings.TrimPrefix(at+"."+key, ".")
		read, known := fields[key]
		if why, refused := r.Refused[key]; refused && !known {
			r.Fault(i.Key(), name, "is not taken over: %s", why)
			continue
		}
		if !known {
			r.Fault(i.Key(), name, "unknown key: want %s", OneOf(slices.Sorted(maps.Keys(fields))))
			continue
		}
		if value := plain(i.Value()); value.Type() != ast.NullType {
			read(r, name, value)
		}
	}
	return true
}

// Items returns the items of a sequence.
func (r *Reader) Items(at string, n ast.Node) []ast.Node {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.Fault(n, at, "must be a list")
		return nil
	}
	items := make([]ast.Node, len(s.Values))
	for i, v := range s.Values {
		items[i] = plain(v)
	}
	return items
}

// Scalar returns the text of a node that is text. Numbers and booleans aren't.
func (r *Reader) Scalar(at string, n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		r.Fault(n, at, "%s must be text: put it in quotes", n.GetToken().Value)
	default:
		r.Fault(n, at, "must be text")
	}
	return "", false
}

// Whole returns a whole number from least to most.
func (r *Reader) Whole(at string, n ast.Node, least, most uint64) (uint64, bool) {
	var v any
	if i, ok := n.(*ast.IntegerNode); ok {
		v = i.GetValue()
	}
	u, ok := v.(uint64) // as the parser has those without a sign
	if !ok || u < least || u > most {
		r.Fault(n, at, "%s must be a whole number from %d to %d", n.GetToken().Value, least, most)
		return 0, false
	}
	return u, true
}

// Boolean reads true or false.
func Boolean(to *bool) Field {
	return func(r *Reader, at string, n ast.Node) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			r.Fault(n, at, "%s must be true or false", n.GetToken().Value)
			return
		}
		*to = b.Value
	}
}

// OneOf returns words as an enumeration.
func OneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
