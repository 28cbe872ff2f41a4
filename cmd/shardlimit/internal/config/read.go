package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// reader reads the nodes of a document, and goes on where one is at fault.
type reader struct {
	faults  FileError
	anchors map[string]ast.Node
}

// field reads one value, whose name in full is at.
type field func(r *reader, at string, n ast.Node)

// plain returns the node that n stands for, if it is an anchor or an alias.
func (r *reader) plain(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.AnchorNode:
		r.anchors[n.Name.GetToken().Value] = n.Value
		return r.plain(n.Value)
	case *ast.AliasNode:
		if known := r.anchors[n.Value.GetToken().Value]; known != nil {
			return known
		}
	}
	return n
}

// mapping reads a mapping's values by the fields of their keys. Values that are
// null count as left out; keys that are no field's are faults.
func (r *reader) mapping(at string, n ast.Node, fields map[string]field) {
	m, ok := n.(ast.MapNode)
	if !ok {
		r.fault(n, at, "must be a mapping, with %s", oneOf(slices.Sorted(maps.Keys(fields))))
		return
	}
	for i := m.MapRange(); i.Next(); {
		key := i.Key().GetToken().Value
		name := strings.TrimPrefix(at+"."+key, ".")
		read, known := fields[key]
		if !known {
			r.fault(i.Key(), name, "unknown key: want %s", oneOf(slices.Sorted(maps.Keys(fields))))
			continue
		}
		if value := r.plain(i.Value()); value.Type() != ast.NullType {
			read(r, name, value)
		}
	}
}

// items returns the items of a sequence.
func (r *reader) items(at string, n ast.Node) []ast.Node {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fault(n, at, "must be a list")
		return nil
	}
	items := make([]ast.Node, len(s.Values))
	for i, v := range s.Values {
		items[i] = r.plain(v)
	}
	return items
}

// scalar returns the text of a node that is text.
func (r *reader) scalar(at string, n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		r.fault(n, at, "%s must be text: put it in quotes", n.GetToken().Value)
	default:
		r.fault(n, at, "must be text")
	}
	return "", false
}

// text reads text.
func text(to *string) field {
	return func(r *reader, at string, n ast.Node) {
		if s, ok := r.scalar(at, n); ok {
			*to = s
		}
	}
}

// word reads one of some words.
func word(to *string, words ...string) field {
	return func(r *reader, at string, n ast.Node) {
		s, ok := r.scalar(at, n)
		if ok && !slices.Contains(words, s) {
			r.fault(n, at, "%q must be %s", s, oneOf(words))
		} else if ok {
			*to = s
		}
	}
}

// number reads a whole number from least to most.
func number(to *int, least, most int) field {
	return func(r *reader, at string, n ast.Node) {
		var v any
		if i, ok := n.(*ast.IntegerNode); ok {
			v = i.GetValue()
		}
		u, ok := v.(uint64) // as the parser has those without a sign
		if !ok || u < uint64(least) || u > uint64(most) {
			r.fault(n, at, "%s must be a whole number from %d to %d", n.GetToken().Value, least, most)
			return
		}
		*to = int(u)
	}
}

// fraction reads a number above 0 and at most 1.
func fraction(to *float64) field {
	return func(r *reader, at string, n ast.Node) {
		var f float64
		switch n := n.(type) {
		case *ast.FloatNode:
			f = n.Value
		case *ast.IntegerNode:
			if u, ok := n.GetValue().(uint64); ok {
				f = float64(u)
			}
		}
		if !(f > 0 && f <= 1) {
			r.fault(n, at, "%s must be a number above 0 and at most 1", n.GetToken().Value)
			return
		}
		*to = f
	}
}

// duration reads a duration above 0, as in "50ms" or "1m30s".
func duration(to *time.Duration) field {
	return func(r *reader, at string, n ast.Node) {
		s, ok := r.scalar(at, n)
		if !ok {
			return
		}
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			r.fault(n, at, "%q must be a duration above 0, as in 50ms or 1m30s", s)
			return
		}
		*to = d
	}
}

// oneOf returns words as an enumeration.
func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// boolean reads true or false.
func boolean(to *bool) field {
	return func(r *reader, at string, n ast.Node) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			r.fault(n, at, "%s must be true or false", n.GetToken().Value)
			return
		}
		*to = b.Value
	}
}

// form reads text of a form.
func form(to *string, is *regexp.Regexp) field {
	return func(r *reader, at string, n ast.Node) {
		s, ok := r.scalar(at, n)
		if ok && !is.MatchString(s) {
			r.fault(n, at, "%q must match %v", s, is)
		} else if ok {
			*to = s
		}
	}
}

// forms reads a list of texts of a form.
func forms(to *[]string, is *regexp.Regexp) field {
	return func(r *reader, at string, n ast.Node) {
		for i, item := range r.items(at, n) {
			var s string
			form(&s, is)(r, fmt.Sprintf("%s[%d]", at, i), item)
			*to = append(*to, s)
		}
	}
}
