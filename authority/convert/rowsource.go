package convert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// FromLegacyRows names the tables of the server before the predecessor.
const FromLegacyRows = "legacy-rows"

// legacyRows converts a directory with operational.json, one document a
// Repository, and its content families beside it: repositories/4.json and
// repositories/4/.
type legacyRows struct {
	source
	target  *target
	rep     *Report
	gates   []Gate
	salvage bool
	order   *repositoryOrder
	// orderPath is where the order came from, for errors.
	orderPath string

	registry registryRows
}

// carried are the families that come in binary form.
var carried = []string{"content", "plan"}

// carriedFiles lists their files.
func carriedFiles() []string {
	var files []string
	for _, l := range record.Layouts() {
		if slices.Contains(carried, l.Family) && l.Kind == record.KindRecord {
			files = append(files, l.File)
		}
	}
	for _, p := range record.PayloadFiles() {
		if slices.Contains(carried, p.Family) {
			files = append(files, p.File)
		}
	}
	return files
}

func (r *legacyRows) run(ctx context.Context) error {
	r.place = placedRow
	listed, err := r.list()
	if err != nil {
		return err
	}
	raw, err := r.document(operationalPath)
	if err != nil {
		return err
	}
	if err := decodeDocument(operationalPath, raw, &r.registry.doc); err != nil {
		return err
	}
	if err := r.registry.build(r.order, r.orderPath); err != nil {
		return err
	}
	if err := r.complete(listed); err != nil {
		return err
	}
	for i := range r.registry.repositories {
		r.target.repositories = append(r.target.repositories, uint32(i))
	}
	files, err := r.plan(listed)
	if err != nil {
		return err
	}
	if err := r.target.create(ctx); err != nil {
		return err
	}
	sums := map[string]*copying{}
	for _, c := range files {
		sums[c.file.path] = c
	}
	// What was read before the freeze has to be what the freeze saw.
	first := sha256.Sum256(raw)
	inv, err := r.freeze(ctx, listed, files, func(ctx context.Context) error {
		if sums[operationalPath].sum != first {
			return driftf(operationalPath, "has other content than before")
		}
		return r.build(ctx, sums)
	})
	if err != nil {
		return err
	}
	r.rep.read(inv)
	for i, p := range r.parts() {
		synthesised := p.missing(sizes(listed))
		r.rep.Repositories[i].Synthesised = append(r.rep.Repositories[i].Synthesised, synthesised...)
	}
	return nil
}

// placedRow accepts the files and directories of a source of rows.
func placedRow(path string, dir bool) error {
	parts := strings.SplitN(path, "/", 3)
	switch {
	case path == operationalPath && !dir, path == "repositories" && dir:
		return nil
	case parts[0] != "repositories" || len(parts) == 1:
		return sourcef(path, "is no part of a source of rows, which has %s and repositories", operationalPath)
	case len(parts) == 3:
		if err := placedInRoot(record.RootAuthority, path, parts[2], dir); err != nil {
			return err
		}
		if dir || disposable(record.RootAuthority, parts[2]) || slices.Contains(carriedFiles(), parts[2]) {
			return nil
		}
		return sourcef(path, "is a family that is made from the rows; only content and Plans come in binary form")
	}
	name, isDocument := strings.CutSuffix(parts[1], ".json")
	if _, ok := index(name); !ok || isDocument == dir {
		return sourcef(path, "is neither the document of a Repository, such as repositories/4.json, nor the directory of its content")
	}
	return nil
}

// complete compares the documents with the Repositories.
func (r *legacyRows) complete(listed []sourceFile) error {
	n := len(r.registry.repositories)
	sizes := sizes(listed)
	for i := range n {
		if _, ok := sizes[documentPath(i)]; !ok {
			return sourcef(documentPath(i), "is missing: it has the rows of %s, which gets the index %d", r.registry.repositories[i].row.RepoID, i)
		}
	}
	for _, f := range listed {
		rest, ok := strings.CutPrefix(f.path, "repositories/")
		if !ok {
			continue
		}
		name, _, below := strings.Cut(rest, "/")
		if !below {
			name = strings.TrimSuffix(name, ".json")
		}
		if i, _ := index(name); int64(i) >= int64(n) {
			return sourcef(f.path, "belongs to no Repository: %s has %d", operationalPath, n)
		}
	}
	return nil
}

func documentPath(index int) string { return fmt.Sprintf("repositories/%d.json", index) }

// document reads a JSON document as a whole.
func (r *legacyRows) document(path string) ([]byte, error) {
	raw, err := vfs.ReadFile(r.fs, r.path(path), maxDocument)
	if errors.Is(err, vfs.ErrTooLarge) {
		return nil, sourcef(path, "has more than %d bytes", maxDocument)
	}
	return raw, err
}

// plan says where the content goes.
func (r *legacyRows) plan(listed []sourceFile) ([]*copying, error) {
	var files []*copying
	for _, f := range listed {
		c := &copying{file: f}
		files = append(files, c)
		cfg, name, ok := inRepository(r.target, f.path)
		if !ok || disposable(record.RootAuthority, name) {
			continue
		}
		c.to = filepath.Join(cfg.Dir, name)
		if err := c.measure(name); err != nil {
			return nil, err
		}
	}
	return files, orphaned(listed, r.parts())
}

// parts are the directories of content.
func (r *legacyRows) parts() []part {
	var list []part
	for i := range r.registry.repositories {
		list = append(list, part{fmt.Sprintf("repositories/%d/", i), carriedFiles()})
	}
	return list
}

// build makes the registry and, beside the content that was copied, the other
// families of every Repository, and validates all of it. sums has what the first
// pass saw.
func (r *legacyRows) build(ctx context.Context, sums map[string]*copying) error {
	if err := r.registry.im.write(ctx, r.target.Registry()); err != nil {
		return err
	}
	built := make([]notes, len(r.registry.repositories))
	err := inParallel(ctx, len(built), func(ctx context.Context, i int) (err error) {
		built[i], err = r.repository(ctx, i, sums[documentPath(i)].sum)
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range built {
		r.rep.Gates = append(r.rep.Gates, l.used...)
		r.rep.Omitted = append(r.rep.Omitted, l.omitted...)
		for _, w := range l.warnings {
			r.rep.warn("repository %d: %s", l.index, w)
		}
	}
	return r.target.check(ctx, r.rep)
}

// repository converts the rows of one Repository.
func (r *legacyRows) repository(ctx context.Context, i int, sum [32]byte) (n notes, err error) {
	raw, err := r.document(documentPath(i))
	if err != nil {
		return n, err
	}
	if sha256.Sum256(raw) != sum {
		return n, driftf(documentPath(i), "has other content than before")
	}
	x, cfg := &r.registry.repositories[i], r.target.Repository(uint32(i))
	l := newLegacy()
	l.path, l.doc, l.index = documentPath(i), &document{}, uint32(i)
	l.name, l.ns, l.gates, l.salvage = x.row.RepoName, x.rec.Namespace, r.gates, r.salvage
	if err := decodeDocument(l.path, raw, l.doc); err != nil {
		return n, err
	}
	if l.doc.RepoID != x.row.RepoID {
		return n, sourcef(l.path, "has the repo_id %.60q, want %q, which gets the index %d", l.doc.RepoID, x.row.RepoID, i)
	}
	if l.content, err = openContent(cfg); err != nil {
		return n, fmt.Errorf("repositories/%d: %w", i, err)
	}
	defer func() { err = errors.Join(err, l.content.close()) }()
	if err := l.build(x.jobs); err != nil {
		return n, err
	}
	return l.notes, l.im.write(ctx, cfg)
}
