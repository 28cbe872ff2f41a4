package yamldoc

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// bind puts what each alias of a document stands for in it, and returns what is
// wrong with its aliases and tags.
func bind(body ast.Node) FileError {
	b := &binder{anchors: map[string]ast.Node{}}
	ast.Walk(b, body)
	if b.faults == nil && b.aliases && b.size(body) >= maxExpanded {
		b.fault(body, "has more than %d values, with all that its aliases stand for", maxExpanded)
	}
	return b.faults
}

// maxExpanded is how many values a document with aliases may have in all: a few
// lines of them can stand for any number.
const maxExpanded = 1_000_000

// binder visits the nodes of a document in their order.
type binder struct {
	anchors map[string]ast.Node // of the nodes up to here
	aliases bool                // there are some
	sizes   map[ast.Node]int    // by what aliases stand for
	faults  FileError
}

// Visit implements ast.Visitor.
func (b *binder) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.AnchorNode:
		b.anchors[n.Name.GetToken().Value] = n.Value // which is no alias, by YAML's grammar
	case *ast.AliasNode:
		b.alias(n)
		return nil // what it stands for was visited
	case *ast.TagNode:
		b.fault(n, "%s: tags are not taken", n.Start.Value)
	}
	return b
}

func (b *binder) alias(n *ast.AliasNode) {
	name := n.Value.GetToken().Value
	known := b.anchors[name]
	if known == nil {
		b.fault(n, "*%s: no anchor before it has this name", name)
		return
	}
	n.Value, b.aliases = known, true
}

func (b *binder) fault(n ast.Node, reason string, args ...any) {
	at := start(n).GetToken().Position
	b.faults = append(b.faults, Fault{Line: at.Line, Column: at.Column, Reason: fmt.Sprintf(reason, args...)})
}

// size returns how many values n has, at most maxExpanded.
func (b *binder) size(n ast.Node) int {
	switch n := n.(type) {
	case *ast.AnchorNode:
		return b.size(n.Value)
	case *ast.AliasNode:
		return b.known(n.Value)
	case *ast.MappingValueNode:
		return b.size(n.Value)
	case *ast.MappingNode:
		return sum(b, n.Values)
	case *ast.SequenceNode:
		return sum(b, n.Values)
	}
	return 1
}

// known returns the size of what an alias stands for. One that has itself in it
// counts once: who reads it refuses that.
func (b *binder) known(n ast.Node) int {
	if size, ok := b.sizes[n]; ok {
		return size
	}
	if b.sizes == nil {
		b.sizes = map[ast.Node]int{}
	}
	b.sizes[n] = 1
	b.sizes[n] = b.size(n)
	return b.sizes[n]
}

func sum[N ast.Node](b *binder, nodes []N) int {
	all := 1
	for _, n := range nodes {
		all = min(all+b.size(n), maxExpanded)
	}
	return all
}
