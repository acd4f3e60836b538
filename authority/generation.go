package authority

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// A generation below DATA/generations is staging as long as it has this file and
// active.json does not name it. Once active.json does, the file says that this
// may not be durable yet: whoever opens the authority writes active.json again
// before anything else is acknowledged.
const unpublished = "unpublished"

// Generations that nobody needs are first renamed to DATA/retired/N.discarded, in
// one step, and then removed, in many.
const discarded = ".discarded"

// Publication says how a new generation takes the place of the present one.
type Publication struct {
	// Installation is the id of the installation, 32 hexadecimal digits; empty
	// keeps the present one, or draws one where there is none. Refs in Git are
	// named by it.
	Installation string
	// Epoch is a lower bound of what was in use before. The new epoch is one
	// more than it and than the present one, so that no lease and no cursor
	// given out before is honoured.
	Epoch uint64
	// KeepEpoch keeps the present epoch: every identity means what it meant.
	KeepEpoch bool
	// Replace allows an authority to be there; without it the error is
	// ErrExists.
	Replace bool
	// KeepOld leaves the replaced generation in DATA/retired/N, where nothing
	// uses it. Otherwise it is removed, once the new one counts.
	KeepOld bool
	// Verified says that build has verified every root with bindb.Verify after its
	// last write. Publish then only compares the directories with the registry.
	Verified bool
}

// Published describes the generation that counts after Publish.
type Published struct {
	Installation string
	Generation   uint64
	Epoch        uint64
	// Old is where the replaced generation was left; empty when it was removed
	// or there was none.
	Old string
}

// Generation is a new generation under construction, which nothing can reach.
type Generation struct {
	opt    Options
	active active
	old    *frozen // nil where there is none to replace
}

// Number is the number of the generation, never one that was used before.
func (g *Generation) Number() uint64 { return g.active.Generation }

// Installation is the id that the authority will have.
func (g *Generation) Installation() string { return g.active.Installation }

// Epoch is the epoch that the authority will have.
func (g *Generation) Epoch() uint64 { return g.active.Epoch }

// Registry is the root of the registry, for bindb.Create or bindb.CreateWith. Its
// directory does not exist yet.
func (g *Generation) Registry() bindb.Config {
	return g.opt.config(g.active, record.RootRegistry, "registry")
}

// Repository is the root of one Repository. Its directory does not exist yet, its
// parent does.
func (g *Generation) Repository(index uint32) bindb.Config {
	return g.opt.config(g.active, record.RootAuthority, label(index))
}

// label is how a Repository is called in paths.
func label(index uint32) string { return strconv.FormatUint(uint64(index), 10) }

// Publish builds a new generation of the installation in o.Dir and puts it in the
// place of the present one, by one atomic replacement of active.json.
//
// build makes the registry and every Repository below the directories that
// Generation names, with package bindb or by writing files. It need not sync
// anything. When it has returned, Publish validates all of it as an open would:
// every root completely, unless p says that build has, and the directories against
// the registry. An error of either changes nothing.
//
// In a fresh data directory, which may not exist yet, a random installation id is drawn unless p has one. Where there is
// an authority, p.Replace must be set. Its locks are all held from before build
// runs until the new generation counts, so that build may copy from it; the error
// is bindb.ErrBusy while somebody uses it. A process that has the old generation
// open gets ErrGeneration from everything it tries afterwards.
//
// A crash at any point leaves the old generation or the new one; what an
// interrupted Publish left is removed by the next one. When the replacement of
// active.json itself fails in its last step, which of the two counts is known
// only when the authority is opened again; the error says so. Both are complete.
func Publish(ctx context.Context, o Options, p Publication, build func(*Generation) error) (Published, error) {
	o = o.withDefaults()
	o.Own = false // whoever opens it next decides that
	done, err := publish(ctx, o, p, build)
	if err != nil {
		return Published{}, fmt.Errorf("new generation in %s: %w", o.Dir, err)
	}
	return done, nil
}

func publish(ctx context.Context, o Options, p Publication, build func(*Generation) error) (Published, error) {
	if err := suitable(o); err != nil {
		return Published{}, err
	}
	if err := vfs.MkdirAll(o.FS, o.Dir, 0o700); err != nil {
		return Published{}, err
	}
	lock, err := o.lockLifecycle(ctx)
	if err != nil {
		return Published{}, err
	}
	defer func() { _ = lock.Unlock() }() // closing the handle releases it in any case
	for _, dir := range []string{"generations", "retired", "runtime"} {
		if err := vfs.MkdirAll(o.FS, filepath.Join(o.Dir, dir), 0o700); err != nil {
			return Published{}, err
		}
	}
	g := &Generation{opt: o}
	present, err := readActive(o)
	switch {
	case errors.Is(err, ErrNoAuthority):
		if err := o.clear(); err != nil {
			return Published{}, err
		}
	case err != nil:
		return Published{}, err
	case !p.Replace:
		return Published{}, ErrExists
	default:
		if err := o.confirmActive(present); err != nil {
			return Published{}, err
		}
		if err := o.tidy(present); err != nil {
			return Published{}, err
		}
		if g.old, err = freeze(ctx, o, present); err != nil {
			return Published{}, err
		}
		defer g.old.release()
	}
	if g.active, err = o.successor(present, p); err != nil {
		return Published{}, err
	}
	if err := g.make(ctx, p, build); err != nil {
		return Published{}, errors.Join(err, g.discard())
	}
	if err := o.writeActive(g.active); err != nil {
		now, rerr := readActive(o)
		if rerr == nil && now.same(present) || errors.Is(rerr, ErrNoAuthority) && present.Generation == 0 {
			return Published{}, errors.Join(err, g.discard())
		}
		return Published{}, fmt.Errorf("whether generation %d counts is known when the authority is opened again: %w", g.active.Generation, err)
	}
	done := Published{Installation: g.active.Installation, Generation: g.active.Generation, Epoch: g.active.Epoch}
	// The rest is tidying up, which the next one does if this one can't.
	o.unmarkPublished(g.active.Generation)
	if g.old != nil {
		done.Old, _ = o.retire(present.Generation, p.KeepOld)
	}
	return done, nil
}

// markUnpublished makes the file that says that active.json may not durably name a
// generation yet.
func (o Options) markUnpublished(n uint64) error {
	f, err := o.FS.OpenFile(filepath.Join(o.generation(n), unpublished), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// unmarkPublished takes that file away. Where that fails, an open confirms the
// generation once more.
func (o Options) unmarkPublished(n uint64) {
	_ = o.FS.Remove(filepath.Join(o.generation(n), unpublished))
	_ = o.FS.SyncDir(o.generation(n))
}

// Dir is the directory of the generation.
func (g *Generation) Dir() string { return g.opt.generation(g.active.Generation) }

// successor is the content of the next active.json.
func (o Options) successor(present active, p Publication) (active, error) {
	last := present.Generation
	for _, dir := range []string{"generations", "retired"} {
		list, err := readDir(o.FS, filepath.Join(o.Dir, dir))
		if err != nil {
			return active{}, err
		}
		for _, e := range list {
			if n, ok := generationNumber(strings.TrimSuffix(e.Name, discarded)); ok {
				last = max(last, n)
			}
		}
	}
	next := active{
		Schema: activeSchema, LayoutID: bindb.LayoutID, Generation: last + 1,
		Installation: present.Installation, Epoch: max(present.Epoch, p.Epoch) + 1,
	}
	if p.KeepEpoch {
		next.Epoch = max(present.Epoch, 1)
	}
	if p.Installation != "" {
		next.Installation = p.Installation
	}
	if next.Installation == "" {
		id := make([]byte, 16)
		if _, err := io.ReadFull(o.Random, id); err != nil {
			return active{}, err
		}
		next.Installation = hex.EncodeToString(id)
	}
	return next, next.check()
}

func generationNumber(name string) (uint64, bool) {
	n, err := strconv.ParseUint(name, 10, 63)
	return n, err == nil && n > 0 && strconv.FormatUint(n, 10) == name
}

// make builds the generation and makes it durable.
func (g *Generation) make(ctx context.Context, p Publication, build func(*Generation) error) error {
	fsys := g.opt.FS
	// A mark of an earlier try with this number would vouch for other files.
	if err := g.opt.dropRuntime(g.active.Generation); err != nil {
		return err
	}
	if err := fsys.Mkdir(g.Dir(), 0o700); err != nil {
		return err
	}
	if err := g.opt.markUnpublished(g.active.Generation); err != nil {
		return err
	}
	for _, dir := range []string{g.Dir(), filepath.Dir(g.Dir())} {
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := fsys.Mkdir(filepath.Join(g.Dir(), "repositories"), 0o700); err != nil {
		return err
	}
	if err := build(g); err != nil {
		return err
	}
	if err := g.validate(ctx, p.Verified); err != nil {
		return err
	}
	return syncTree(fsys, g.Dir())
}

// validate opens everything as it will be opened, which validates it completely,
// or the registry alone, when everything was verified before.
func (g *Generation) validate(ctx context.Context, verified bool) (err error) {
	a := &Authority{opt: g.opt, active: g.active}
	if a.registry, err = bindb.Open(ctx, g.Registry()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.registry.Close()) }()
	if left, err := a.checkDirectories(ctx); err != nil {
		return err
	} else if left {
		return fmt.Errorf("%w: D03 there is one directory more in %s than there are repositories", bindb.ErrCorrupt, a.repositoriesDir())
	}
	if verified {
		return nil
	}
	list, err := a.Repositories(ctx)
	if err != nil {
		return err
	}
	for _, info := range withDirectory(list) {
		root, err := bindb.Open(ctx, g.Repository(info.Index))
		if err != nil {
			return err
		}
		if info.Lifecycle == record.LifecyclePurged {
			err = checkPurged(ctx, root)
		}
		if err = errors.Join(err, root.Close()); err != nil {
			return err
		}
	}
	return nil
}

// syncTree makes a directory and everything below it durable.
func syncTree(fsys vfs.FS, dir string) error {
	const width = 8
	var files, dirs []string
	var walk func(dir string) error
	walk = func(dir string) error {
		list, err := fsys.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range list {
			path := filepath.Join(dir, e.Name)
			if !e.Mode.IsDir() {
				files = append(files, path)
			} else if err := walk(path); err != nil {
				return err
			}
		}
		dirs = append(dirs, dir)
		return nil
	}
	if err := walk(dir); err != nil {
		return err
	}
	errs := make([]error, width)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range width {
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(files) {
					return
				}
				errs[w] = syncFile(fsys, files[i])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err // the others have the same cause
		}
	}
	for _, dir := range dirs { // each after what lies below it
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func syncFile(fsys vfs.FS, path string) error {
	f, err := fsys.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// discard removes a generation that was never published.
func (g *Generation) discard() error {
	_, err := g.opt.retire(g.active.Generation, false)
	return err
}

// retire takes a generation out of the way: in one step, so that no part of it
// can be found, and then removes it unless it is kept. It returns where it was
// kept.
func (o Options) retire(n uint64, keep bool) (string, error) {
	from := o.generation(n)
	to := filepath.Join(o.Dir, "retired", strconv.FormatUint(n, 10))
	if !keep {
		to += discarded
	}
	if err := o.FS.Rename(from, to); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return "", err
	}
	for _, dir := range []string{filepath.Dir(to), filepath.Dir(from)} {
		if err := o.FS.SyncDir(dir); err != nil {
			return "", err
		}
	}
	if keep {
		return to, nil
	}
	return "", errors.Join(o.dropRuntime(n), o.FS.RemoveAll(to))
}

// dropRuntime removes the journals, marks and indexes of a generation that is
// gone.
func (o Options) dropRuntime(n uint64) error {
	if n != 1 {
		return o.FS.RemoveAll(o.rootRuntime(n))
	}
	var errs []error
	for _, name := range []string{"journal", "mark", "index", "staging", "sums"} {
		errs = append(errs, o.FS.RemoveAll(filepath.Join(o.runtime(), name)))
	}
	return errors.Join(errs...)
}

// discardStaging removes the generations that are not present and were never
// published, and the rest of those that were being removed.
func (o Options) discardStaging(present uint64) error {
	retired := filepath.Join(o.Dir, "retired")
	list, err := readDir(o.FS, retired)
	if err != nil {
		return err
	}
	for _, e := range list {
		name, ok := strings.CutSuffix(e.Name, discarded)
		n, number := generationNumber(name)
		if !ok || !number {
			continue
		}
		if err := errors.Join(o.dropRuntime(n), o.FS.RemoveAll(filepath.Join(retired, e.Name))); err != nil {
			return err
		}
	}
	others, err := o.others(present)
	if err != nil {
		return err
	}
	for _, n := range others {
		staging, err := vfs.Exists(o.FS, filepath.Join(o.generation(n), unpublished))
		if err != nil {
			return err
		}
		if !staging {
			continue
		}
		if err := vfs.MkdirAll(o.FS, retired, 0o700); err != nil {
			return err
		}
		if _, err := o.retire(n, false); err != nil {
			return err
		}
	}
	return nil
}

// others are the generations that active.json does not name, ascending.
func (o Options) others(present uint64) ([]uint64, error) {
	list, err := readDir(o.FS, filepath.Join(o.Dir, "generations"))
	var others []uint64
	for _, e := range list {
		if n, ok := generationNumber(e.Name); ok && n != present {
			others = append(others, n)
		}
	}
	slices.Sort(others)
	return others, err
}

// tidy removes what an interrupted Publish left. A generation that was replaced
// but not yet out of the way is kept: whether it was to be is not known any more.
func (o Options) tidy(present active) error {
	if err := o.discardStaging(present.Generation); err != nil {
		return err
	}
	others, err := o.others(present.Generation)
	if err != nil {
		return err
	}
	for _, n := range others {
		file, err := o.firstContent(n)
		switch {
		case err != nil:
			return err
		case file != "" && n > present.Generation:
			return fmt.Errorf("%w: active.json names generation %d, but %s is there; put the newer active.json back, or move generation %d away",
				bindb.ErrCorrupt, present.Generation, file, n)
		}
		if _, err := o.retire(n, file != ""); err != nil {
			return err
		}
	}
	return nil
}

// settleSwitch confirms the switch to a generation whose publisher was interrupted
// before it was durable. Nothing has to be confirmed where nothing can be written.
func (o Options) settleSwitch(ctx context.Context) error {
	a, err := readActive(o)
	if err != nil {
		return err
	}
	pending, err := vfs.Exists(o.FS, filepath.Join(o.generation(a.Generation), unpublished))
	if err != nil || !pending {
		return err
	}
	lock, err := o.lockLifecycle(ctx)
	if err == nil {
		defer func() { _ = lock.Unlock() }() // closing the handle releases it in any case
		// Its publisher may just have finished, or somebody else confirmed it.
		if a, err = readActive(o); err == nil {
			err = o.confirmActive(a)
		}
	}
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// confirmActive makes sure that active.json is durable. The lifecycle lock is
// held.
func (o Options) confirmActive(a active) error {
	mark := filepath.Join(o.generation(a.Generation), unpublished)
	pending, err := vfs.Exists(o.FS, mark)
	if err != nil || !pending {
		return err
	}
	if err := o.writeActive(a); err != nil {
		return err
	}
	if err := o.FS.Remove(mark); err != nil {
		return err
	}
	return o.FS.SyncDir(filepath.Dir(mark))
}

// frozen is the present generation with all of its locks held.
type frozen struct {
	active   active
	registry *bindb.Held
	repos    map[uint32]*bindb.Held
	order    []*bindb.Held
}

// freeze takes the locks of every root in their order. A root that is missing,
// because the generation is damaged, has none.
func freeze(ctx context.Context, o Options, a active) (*frozen, error) {
	f := &frozen{active: a, repos: map[uint32]*bindb.Held{}}
	hold := func(kind record.Root, label string) (*bindb.Held, error) {
		h, err := bindb.Hold(ctx, o.config(a, kind, label))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err == nil {
			f.order = append(f.order, h)
		}
		return h, err
	}
	var err error
	if f.registry, err = hold(record.RootRegistry, "registry"); err != nil {
		return nil, err
	}
	list, err := readDir(o.FS, filepath.Join(o.generation(a.Generation), "repositories"))
	if err != nil {
		f.release()
		return nil, err
	}
	var indexes []uint32
	for _, e := range list {
		if i, err := strconv.ParseUint(e.Name, 10, 32); err == nil && e.Mode.IsDir() {
			indexes = append(indexes, uint32(i))
		}
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		h, err := hold(record.RootAuthority, label(i))
		if err != nil {
			f.release()
			return nil, err
		}
		f.repos[i] = h
	}
	return f, nil
}

// release gives the locks back, the last one first.
func (f *frozen) release() {
	for _, h := range slices.Backward(f.order) {
		_ = h.Release() // nothing was written through it
	}
}
