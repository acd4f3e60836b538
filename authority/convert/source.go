package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// source is a directory that is read twice and never written.
type source struct {
	fs  vfs.FS
	dir string
	// place says whether a directory or file may be there; its error refuses the
	// source. It never sees links.
	place func(path string, dir bool) error
	// progress may be nil.
	progress func(read, all int64)
}

// sourceFile is one regular file of a source.
type sourceFile struct {
	path string // slash-separated, relative to the source
	size int64
	id   vfs.FileID
}

// list finds every file, sorted by path. It refuses symbolic links, files with
// several hard links, and whatever place refuses.
func (s *source) list() ([]sourceFile, error) {
	info, err := s.fs.Lstat(s.dir)
	if err != nil {
		return nil, err
	}
	if !info.Mode.IsDir() {
		return nil, sourcef(s.dir, "is no real directory but %s", info.Mode)
	}
	var files []sourceFile
	if err := s.walk("", &files); err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b sourceFile) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

// walk goes down as far as place allows, which bounds its depth.
func (s *source) walk(below string, files *[]sourceFile) error {
	entries, err := s.fs.ReadDir(filepath.Join(s.dir, filepath.FromSlash(below)))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := e.Name
		if below != "" {
			path = below + "/" + e.Name
		}
		switch {
		case !e.Mode.IsDir() && !e.Mode.IsRegular():
			return sourcef(path, "is no regular file but %s", e.Mode)
		case e.Mode.IsRegular() && e.Links != 1:
			return sourcef(path, "has %d hard links, want one: under its other name somebody may change it", e.Links)
		}
		if err := s.place(path, e.Mode.IsDir()); err != nil {
			return err
		}
		if e.Mode.IsDir() {
			if err := s.walk(path, files); err != nil {
				return err
			}
			continue
		}
		*files = append(*files, sourceFile{path, e.Size, e.ID})
	}
	return nil
}

// path gives the file on disk.
func (s *source) path(rel string) string { return filepath.Join(s.dir, filepath.FromSlash(rel)) }

// unchanged lists the source again and compares what a directory shows.
func (s *source) unchanged(before []sourceFile) error {
	after, err := s.list()
	if errors.Is(err, ErrSource) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrDrift, err) // it was not so before
	}
	if err != nil {
		return err
	}
	for i, a := range after {
		switch {
		case i >= len(before) || a.path < before[i].path:
			return driftf(a.path, "was added")
		case a.path > before[i].path:
			return driftf(before[i].path, "was removed")
		case a.size != before[i].size:
			return driftf(a.path, "had %d bytes and has %d", before[i].size, a.size)
		case a.id != before[i].id:
			return driftf(a.path, "was replaced by another file")
		}
	}
	if len(after) < len(before) {
		return driftf(before[len(after)].path, "was removed")
	}
	return nil
}

// part is a directory of a source with the files that it should have.
type part struct {
	dir   string // relative to the source, with a slash at its end
	files []string
}

// sizes finds the lengths of files by path.
func sizes(listed []sourceFile) map[string]int64 {
	m := make(map[string]int64, len(listed))
	for _, f := range listed {
		m[f.path] = f.size
	}
	return m
}

// missing lists the files that a part does not have.
func (p part) missing(sizes map[string]int64) []string {
	var list []string
	for _, file := range p.files {
		if _, ok := sizes[p.dir+file]; !ok {
			list = append(list, file)
		}
	}
	return list
}

// orphaned refuses a missing record file whose variable bytes are there: it was
// not empty. An empty file may be missing, since it is synthesised.
func orphaned(listed []sourceFile, parts []part) error {
	sizes := sizes(listed)
	for _, p := range parts {
		for _, file := range p.missing(sizes) {
			l, ok := record.ByFile(file)
			if !ok {
				continue
			}
			for _, f := range l.Fields {
				if payload := p.dir + f.Target; strings.HasSuffix(f.Name, "_offset") && sizes[payload] > bindb.HeaderSize {
					return sourcef(p.dir+file, "is missing, but %s has %d bytes, which only its records use", payload, sizes[payload])
				}
			}
		}
	}
	return nil
}
