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
	moved  func(int64)

	registry string   // name of the registry's directory, once it is known
	indexes  []uint32 // Repositories that have a directory, ascending
}

// run builds the target and leaves the report in u.rep.
func (u *u32Time) run(ctx context.Context) error {
	listed, files, err := u.begin(ctx)
	if err != nil {
		return err
	}
	inv, err := u.freeze(ctx, listed, files, func(ctx context.Context) error { return u.target.check(ctx, u.rep) }, u.moved)
	if err != nil {
		return err
	}
	u.rep.inventory(inv)
	return u.synthesised(listed)
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
		i, err := strconv.ParseUint(parts[1], 10, 32)
		if err != nil || strconv.FormatUint(i, 10) != parts[1] || i >= record.MaxTargets {
			return sourcef(path, "is not named by the index of a Repository, such as 0 or 4")
		}
		if !slices.Contains(u.indexes, uint32(i)) {
			u.indexes = append(u.indexes, uint32(i))
			slices.Sort(u.indexes)
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
		if f.size < bindb.HeaderSize {
			return nil, sourcef(f.path, "is %d bytes long, shorter than its header of %d", f.size, bindb.HeaderSize)
		}
		l, ok := record.ByFile(name)
		if !ok {
			continue // variable bytes
		}
		w := widen(l)
		if !w.same() {
			c.widening = &w
		}
		body := f.size - bindb.HeaderSize
		if body%int64(w.old) != 0 {
			return nil, sourcef(f.path, "has %d bytes behind its header, which is no multiple of the %d bytes of a record in %s", body, w.old, FromU32Time)
		}
		if n := body / int64(w.old); n > record.MaxTargets {
			return nil, sourcef(f.path, "holds %d records, more than %d", n, int64(record.MaxTargets))
		}
	}
	return files, u.orphaned(listed)
}

// root says in which root of the target a file lies, and its name there.
func (u *u32Time) root(path string) (cfg bindb.Config, name string, ok bool) {
	if rest, ok := strings.CutPrefix(path, u.registry+"/"); ok {
		return u.target.registry(), rest, true
	}
	rest, ok := strings.CutPrefix(path, "repositories/")
	if !ok {
		return bindb.Config{}, "", false
	}
	label, name, _ := strings.Cut(rest, "/")
	return u.target.config(record.RootAuthority, label), name, true
}

// orphaned refuses a missing record file whose variable bytes are there: it was
// not empty. An empty file may be missing, since it is synthesised.
func (u *u32Time) orphaned(listed []sourceFile) error {
	sizes := map[string]int64{}
	for _, f := range listed {
		sizes[f.path] = f.size
	}
	return u.missing(sizes, func(_ int, dir, file string) error {
		l, ok := record.ByFile(file)
		if !ok {
			return nil
		}
		for _, f := range l.Fields {
			if payload := dir + f.Target; strings.HasSuffix(f.Name, "_offset") && sizes[payload] > bindb.HeaderSize {
				return sourcef(dir+file, "is missing, but %s has %d bytes, which only its records use", payload, sizes[payload])
			}
		}
		return nil
	})
}

// missing calls fn for each file that a root must have and does not. root counts
// the Repositories; it is -1 for the registry. dir ends with a slash.
func (u *u32Time) missing(sizes map[string]int64, fn func(root int, dir, file string) error) error {
	for root := -1; root < len(u.indexes); root++ {
		kind, dir := record.RootRegistry, u.registry+"/"
		if root >= 0 {
			kind, dir = record.RootAuthority, fmt.Sprintf("repositories/%d/", u.indexes[root])
		}
		for _, file := range record.Files(kind) {
			if _, ok := sizes[dir+file]; ok {
				continue
			}
			if err := fn(root, dir, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// synthesised reports the files that the source did not have.
func (u *u32Time) synthesised(listed []sourceFile) error {
	sizes := map[string]int64{}
	for _, f := range listed {
		sizes[f.path] = f.size
	}
	return u.missing(sizes, func(root int, dir, file string) error {
		if root < 0 {
			u.rep.Warnings = append(u.rep.Warnings, dir+file+" is not in the source and is empty in the target")
			return nil
		}
		r := &u.rep.Repositories[root]
		r.Synthesised = append(r.Synthesised, file)
		return nil
	})
}
