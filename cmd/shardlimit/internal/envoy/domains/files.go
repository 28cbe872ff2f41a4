package domains

import (
	"os"
	"path/filepath"
	"strings"
)

// Files reads the file at path, or where it is a folder, those in it that end
// in .yaml or .yml, in the order of their names. Names that begin with a dot
// don't count.
func Files(path string) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	paths := []string{path}
	if info.IsDir() {
		if paths, err = inFolder(path); err != nil {
			return nil, err
		}
	}
	files := make([]File, len(paths))
	for i, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		files[i] = File{p, text}
	}
	return files, nil
}

// inFolder returns the paths of a folder's files, sorted.
func inFolder(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		end := filepath.Ext(e.Name())
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (end == ".yaml" || end == ".yml") {
			paths = append(paths, filepath.Join(path, e.Name()))
		}
	}
	return paths, nil
}
