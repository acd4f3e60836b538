package convert

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// FromU32Time names the predecessor of the layout, whose times have four bytes.
const FromU32Time = "u32-time-v0"

// manifests are files beside the roots that the predecessor's server keeps. They
// describe its generation, which the target does not continue.
var manifests = []string{"generation.json", "generation-complete.json"}

// u32Time converts a generation of the predecessor: a registry, called registry
// or global, and the directory repositories.
type u32Time struct {
	source
	target *target
	rep    *Report

	registry string   // name of the registry's directory, once it is known
	indexes  []uint32 // Repositories that have a directory, ascending
}

// run builds the target and leaves the report in u.rep.
func (u *u32Time) run(ctx context.Context) error {
	listed, files, err := u.begin(ctx)
	if err != nil {
		return err
	}
	inv, err := u.freeze(ctx, listed, files, func(ctx context.Context) error { return u.target.check(ctx, u.rep) })
	if err != nil {
		return err
	}
	u.rep.read(inv)
	u.synthesised(listed)
	return nil
}

// begin finds out what there is and makes the roots that it goes to.
func (u *u32Time) begin(ctx context.Context) (listed []sourceFile, files []*copying, err error) {
	u.place = u.placed
	if listed, err = u.list(); err != nil {
		return nil, nil, err
	}
	if u.registry == "" {
		return nil, nil, sourcef(u.dir, "has neither a directory registry nor global: a generation has one of them and repositories")
	}
	if files, err = u.plan(listed); err != nil {
		return nil, nil, err
	}
	u.target.repositories = u.indexes
	return listed, files, u.target.create(ctx)
}

// placed accepts the files and directories of a generation.
func (u *u32Time) placed(path string, dir bool) error {
	const want = "is no part of a generation, which has registry or global, and repositories with one directory an index"
	parts := strings.Split(path, "/")
	switch {
	case len(parts) == 1 && dir && (path == "registry" || path == "global"):
		if u.registry != "" && u.registry != path {
			return sourcef(path, "and %s are both there; only one can be the registry", u.registry)
		}
		u.registry = path
		return nil
	case len(parts) == 1 && dir && path == "repositories", len(parts) == 1 && !dir && slices.Contains(manifests, path):
		return nil
	case parts[0] == "repositories" && len(parts) == 2 && dir:
		i, ok := index(parts[1])
		if !ok {
			return sourcef(path, "is not named by the index of a Repository, such as 0 or 4")
		}
		if at, there := slices.BinarySearch(u.indexes, i); !there {
			u.indexes = slices.Insert(u.indexes, at, i)
		}
		return nil
	case parts[0] == "repositories" && len(parts) > 2:
		return placedInRoot(record.RootAuthority, path, strings.Join(parts[2:], "/"), dir)
	case parts[0] == u.registry && len(parts) > 1:
		return placedInRoot(record.RootRegistry, path, strings.Join(parts[1:], "/"), dir)
	}
	return sourcef(path, want)
}

// placedInRoot accepts what an authority root may hold. What an interrupted
// mutation of the predecessor needs for its recovery is refused: only the
// predecessor's server can finish it.
func placedInRoot(kind record.Root, path, name string, dir bool) error {
	if kind == record.RootAuthority && (name == record.LockDir || name == record.WriteLockDir) && dir {
		return nil
	}
	if dir {
		return sourcef(path, "is a directory, which %s root does not have", kind)
	}
	switch {
	case slices.Contains(record.Files(kind), name), disposable(kind, name):
		return nil
	case slices.Contains(record.Temporaries(kind), name):
		return sourcef(path, "belongs to a mutation that was interrupted: start the server of the source once, so that it recovers, and stop it")
	case slices.Contains(record.Forbidden(kind), name), kind == record.RootAuthority && strings.HasSuffix(name, record.ForbiddenSuffix):
		return sourcef(path, "has a name that the format forbids in this root")
	}
	return sourcef(path, "is not declared in the inventory of this root")
}

// disposable says whether a file is inventoried and left behind: locks, indexes,
// which are rebuilt, and rewritten files that were not put in place.
func disposable(kind record.Root, name string) bool {
	if kind == record.RootRegistry {
		if name == record.RegistryLock {
			return true
		}
	} else {
		lock, ok := strings.CutPrefix(name, record.WriteLockDir+"/")
		if name == record.QueueLock || ok && slices.Contains(record.WriteLocks(), lock) {
			return true
		}
	}
	if slices.Contains(record.IndexFiles(kind), name) {
		return true
	}
	switch filepath.Ext(name) {
	case ".rewrite", ".rebuild", ".update-staging":
		return slices.Contains(record.Temporaries(kind), name)
	}
	return false
}

// plan says where every file goes and checks what a length can show.
func (u *u32Time) plan(listed []sourceFile) ([]*copying, error) {
	var files []*copying
	for _, f := range listed {
		c := &copying{file: f}
		files = append(files, c)
		cfg, name, ok := u.root(f.path)
		if !ok || disposable(cfg.Kind, name) {
			continue
		}
		c.to = filepath.Join(cfg.Dir, name)
		if l, ok := record.ByFile(name); ok {
			if w := widen(l); !w.same() {
				c.widening = &w
			}
		}
		if err := c.measure(name); err != nil {
			return nil, err
		}
	}
	return files, orphaned(listed, u.parts())
}

// parts are the roots of the source.
func (u *u32Time) parts() []part {
	list := []part{{u.registry + "/", record.Files(record.RootRegistry)}}
	for _, i := range u.indexes {
		list = append(list, part{fmt.Sprintf("repositories/%d/", i), record.Files(record.RootAuthority)})
	}
	return list
}

// synthesised reports the files that the source does not have.
func (u *u32Time) synthesised(listed []sourceFile) {
	for i, p := range u.parts() {
		for _, file := range p.missing(sizes(listed)) {
			if i == 0 {
				u.rep.warn("%s is not in the source and is empty in the target", p.dir+file)
				continue
			}
			r := &u.rep.Repositories[i-1]
			r.Synthesised = append(r.Synthesised, file)
		}
	}
}

// root says in which root of the target a file lies, and its name there.
func (u *u32Time) root(path string) (cfg bindb.Config, name string, ok bool) {
	if rest, ok := strings.CutPrefix(path, u.registry+"/"); ok {
		return u.target.Registry(), rest, true
	}
	return inRepository(u.target, path)
}

// inRepository says in which Repository of the target a file lies that is below
// repositories in the source.
func inRepository(t *target, path string) (cfg bindb.Config, name string, ok bool) {
	rest, ok := strings.CutPrefix(path, "repositories/")
	if !ok {
		return bindb.Config{}, "", false
	}
	label, name, ok := strings.Cut(rest, "/")
	i, canonical := index(label)
	if !ok || !canonical {
		return bindb.Config{}, "", false
	}
	return t.Repository(i), name, true
}

// index reads the canonical index of a Repository.
func index(text string) (uint32, bool) {
	i, err := strconv.ParseUint(text, 10, 32)
	return uint32(i), err == nil && strconv.FormatUint(i, 10) == text && i < record.MaxTargets
}
