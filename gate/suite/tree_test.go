package suite_test

import (
	"errors"
	"slices"
	"strings"
)

// files is a Tree in memory: contents by path.
type files map[string]string

func (f files) List() ([]string, error) {
	var names []string
	for path := range f {
		name, _, _ := strings.Cut(path, "/")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (f files) Read(path string) ([]byte, bool, error) {
	data, ok := f[path]
	return []byte(data), ok, nil
}

// broken is a Tree that can't be read: one file of it, or the list.
type broken struct {
	files
	path string
}

var errBroken = errors.New("object is missing")

func (b broken) List() ([]string, error) {
	if b.path == "" {
		return nil, errBroken
	}
	return b.files.List()
}

func (b broken) Read(path string) ([]byte, bool, error) {
	if path == b.path {
		return nil, false, errBroken
	}
	return b.files.Read(path)
}
