package domains

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// File is a file of the configuration. Each of its documents is a domain.
type File struct {
	Path string
	Text []byte
}

// Parse reads the files. The error is a yamldoc.FileError with all that is wrong
// with them.
func Parse(files []File, settings Settings) (*Set, error) {
	s := &Set{domains: map[string]*level{}, settings: settings}
	var faults yamldoc.FileError
	for _, f := range files {
		for _, fault := range s.parse(f.Text) {
			fault.Path = f.Path
			faults = append(faults, fault)
		}
	}
	if err := faults.Sorted(); err != nil {
		return nil, err
	}
	return s, nil
}

// parse adds the domains of a text.
func (s *Set) parse(text []byte) yamldoc.FileError {
	documents, faults := yamldoc.Parse(text)
	for _, body := range documents {
		if body != nil {
			r := reader{set: s, Reader: yamldoc.Reader{Refused: refused}}
			r.document(body)
			faults = append(faults, r.Faults...)
		}
	}
	return faults
}

// reader reads one document.
type reader struct {
	yamldoc.Reader
	set    *Set
	domain string
	open   []ast.Node // the lists of descriptors that are being read, from the outermost on
}

// document reads a domain and its descriptors.
func (r *reader) document(n ast.Node) {
	var domain, descriptors place
	if !r.Mapping("", n, map[string]yamldoc.Field{
		"domain":      domain.text(&r.domain),
		"descriptors": descriptors.note,
	}) {
		return
	}
	known := r.set.domains[r.domain]
	switch {
	case r.domain == "":
		r.Fault(domain.or(n), "domain", "must be there, and not empty")
	case known != nil && !r.set.settings.Merge:
		r.Fault(domain.node, "domain", "%q is another document's domain too", r.domain)
		known = nil
	}
	if known == nil {
		known = &level{}
		r.set.domains[r.domain] = known
	}
	if descriptors.node != nil {
		r.descriptors(descriptors, known, "")
	}
}
