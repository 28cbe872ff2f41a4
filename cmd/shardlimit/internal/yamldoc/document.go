// Package yamldoc reads YAML strictly: what does a document say, and where is it
// wrong?
//
// A program's configuration reads its keys by a [Reader], which goes on where one
// is at fault, so that all faults of a file are told at once, each by its line
// and column.
package yamldoc

import (
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Parse returns the bodies of the documents of text; an empty one is nil. Where
// text isn't YAML it returns a fault.
func Parse(text []byte) ([]ast.Node, FileError) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, FileError{syntax(err)}
	}
	bodies := make([]ast.Node, len(file.Docs))
	for i, d := range file.Docs {
		bodies[i] = d.Body
	}
	return bodies, nil
}

// syntax returns why text isn't YAML.
func syntax(err error) Fault {
	if e, ok := errors.AsType[yaml.Error](err); ok {
		at := e.GetToken().Position
		return Fault{Line: at.Line, Column: at.Column, Reason: e.GetMessage()}
	}
	return Fault{Line: 1, Column: 1, Reason: err.Error()}
}
