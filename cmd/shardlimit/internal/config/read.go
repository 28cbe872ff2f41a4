package config

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// reader reads a document, and field one value of it.
type (
	reader = yamldoc.Reader
	field  = yamldoc.Field
)

// text reads text.
func text(to *string) field {
	return func(r *reader, at string, n ast.Node) {
		if s, ok := r.Scalar(at, n); ok {
			*to = s
		}
	}
}

// word reads one of some words.
func word(to *string, words ...string) field {
	return func(r *reader, at string, n ast.Node) {
		s, ok := r.Scalar(at, n)
		if ok && !slices.Contains(words, s) {
			r.Fault(n, at, "%q must be %s", s, yamldoc.OneOf(words))
		} else if ok {
			*to = s
		}
	}
}

// number reads a whole number from least to most.
func number(to *int, least, most int) field {
	return func(r *reader, at string, n ast.Node) {
		if u, ok := r.Whole(at, n, uint64(least), uint64(most)); ok {
			*to = int(u)
		}
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
			r.Fault(n, at, "%s must be a number above 0 and at most 1", n.GetToken().Value)
			return
		}
		*to = f
	}
}

// duration reads a duration above 0, as in "50ms" or "1m30s".
func duration(to *time.Duration) field {
	return func(r *reader, at string, n ast.Node) {
		s, ok := r.Scalar(at, n)
		if !ok {
			return
		}
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			r.Fault(n, at, "%q must be a duration above 0, as in 50ms or 1m30s", s)
			return
		}
		*to = d
	}
}

// form reads text of a form.
func form(to *string, is *regexp.Regexp) field {
	return func(r *reader, at string, n ast.Node) {
		s, ok := r.Scalar(at, n)
		if ok && !is.MatchString(s) {
			r.Fault(n, at, "%q must match %v", s, is)
		} else if ok {
			*to = s
		}
	}
}

// forms reads a list of texts of a form.
func forms(to *[]string, is *regexp.Regexp) field {
	return func(r *reader, at string, n ast.Node) {
		for i, item := range r.Items(at, n) {
			var s string
			form(&s, is)(r, fmt.Sprintf("%s[%d]", at, i), item)
			*to = append(*to, s)
		}
	}
}
