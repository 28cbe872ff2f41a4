// Package yamldoc reads YAML strictly: what does a document say, and where is it
// wrong?
//
// A program's configuration reads its keys by a [Reader], which goes on where one
// is at fault, so that all faults of a file are told at once, each by its line
// and column.
package yamldoc

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Parse returns the bodies of the documents of text; an empty one is nil. Where
// text isn't YAML, or has tags or aliases of nothing, it returns faults.
func Parse(text []byte) (bodies []ast.Node, faults FileError) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // as some editors begin a file
	if !utf8.Valid(text) {
		return nil, FileError{noText(text)}
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, FileError{syntax(err)}
	}
	for _, d := range file.Docs {
		if _, ok := d.Body.(*ast.DirectiveNode); ok { // it stands before a document
			continue
		}
		bodies = append(bodies, d.Body)
		if d.Body != nil {
			faults = append(faults, bind(d.Body)...)
		}
	}
	if faults != nil {
		return nil, faults
	}
	return bodies, nil
}

// noText says where text isn't UTF-8.
func noText(text []byte) Fault {
	f := Fault{Line: 1, Column: 1, Reason: "is not UTF-8"}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			return f
		case r == '\n':
			f.Line, f.Column = f.Line+1, 1
		default:
			f.Column++
		}
		text = text[n:]
	}
	return f
}

// syntax returns why text isn't YAML.
func syntax(err error) Fault {
	if e, ok := errors.AsType[yaml.Error](err); ok {
		at := e.GetToken().Position
		return Fault{Line: at.Line, Column: at.Column, Reason: e.GetMessage()}
	}
	return Fault{Line: 1, Column: 1, Reason: err.Error()}
}
