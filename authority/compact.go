package authority

import (
	"context"
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// CompactOptions say how Compact treats what it replaces.
type CompactOptions struct {
	// KeepOld leaves the files as they were before in DATA/retired/N.
	KeepOld bool
	// Progress, if not nil, is told how many bytes were read.
	Progress func(done, total int64)
}

// Compaction is what Compact did.
type Compaction struct {
	Published
	Before, After int64 // bytes in all files of authority
	DroppedRows   uint32
	Roots         []CompactedRoot // the registry, then the Repositories in order
}

// CompactedRoot is what Compact did to one root.
type CompactedRoot struct {
	Name string // "registry", or the index of the Repository
	bindb.Compacted
}

// Compact writes the installation anew without the bytes that no record refers to
// (Binary DB v0, section 18.4), as a new generation. Nothing that can be seen
// through records changes: every index, identity, field and payload is the same,
// tombstones included, and so are the installation and the epoch.
//
// It runs offline: the error is bindb.ErrBusy while somebody else uses the
// authority, and ErrState while a Job is running. Everything is validated before
// it begins and again before the new generation counts; a failure changes nothing.
func Compact(ctx context.Context, o Options, c CompactOptions) (Compaction, error) {
	o = o.withDefaults()
	o.Own = false
	if err := examine(ctx, o); err != nil {
		return Compaction{}, fmt.Errorf("compact %s: %w", o.Dir, err)
	}
	var done Compaction
	var err error
	p := Publication{Replace: true, KeepEpoch: true, KeepOld: c.KeepOld}
	done.Published, err = Publish(ctx, o, p, func(g *Generation) error { return g.compact(ctx, c.Progress, &done) })
	if err != nil {
		return Compaction{}, err
	}
	return done, nil
}

// examine opens and closes everything, which recovers what was interrupted in any
// form, and compares all bytes with the checksums of the last clean stop: what is
// written anew gets new ones.
func examine(ctx context.Context, o Options) (err error) {
	a, err := Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := a.Close(); err == nil {
			err = cerr
		}
	}()
	if err := a.settlePurges(ctx); err != nil {
		return err
	}
	sound := func(name string, r *bindb.Root) error {
		findings, err := r.Check(ctx)
		if err == nil && len(findings) > 0 {
			err = fmt.Errorf("%w: %s/%s", bindb.ErrCorrupt, name, findings[0])
		}
		return err
	}
	if err := sound("registry", a.registry); err != nil {
		return err
	}
	list, err := a.Repositories(ctx)
	if err != nil {
		return err
	}
	for _, info := range withDirectory(list) {
		err := a.withRoot(ctx, info.Index, func(root *bindb.Root) error {
			return sound("repositories/"+label(info.Index), root)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// compact builds the generation from the one that it replaces.
func (g *Generation) compact(ctx context.Context, progress func(done, total int64), done *Compaction) error {
	registry := g.old.registry
	if registry == nil {
		return fmt.Errorf("%w: the registry is missing", bindb.ErrCorrupt)
	}
	if err := registry.Check(ctx); err != nil {
		return err
	}
	var list []RepositoryInfo
	err := registry.View(func(r bindb.Reader) (err error) {
		list, err = listRepositories(r)
		return err
	})
	if err != nil {
		return err
	}
	list = withDirectory(list)
	total, err := sizeOf(g.opt.FS, g.opt.config(g.old.active, record.RootRegistry, "registry").Dir)
	if err != nil {
		return err
	}
	// All of them are looked at before the first byte is written.
	for _, info := range list {
		held := g.old.repos[info.Index]
		if held == nil {
			return fmt.Errorf("%w: the directory of repository %d is missing", bindb.ErrCorrupt, info.Index)
		}
		if err := held.Check(ctx); err != nil {
			return err
		}
		if err := held.View(func(r bindb.Reader) error { return noRunningJob(r, info.Index) }); err != nil {
			return err
		}
		n, err := sizeOf(g.opt.FS, g.opt.config(g.old.active, record.RootAuthority, label(info.Index)).Dir)
		if err != nil {
			return err
		}
		total += n
	}
	c := &counter{total: total, tell: progress}
	write := func(held *bindb.Held, name string, cfg bindb.Config) error {
		if err := g.opt.FS.Mkdir(cfg.Dir, 0o700); err != nil {
			return err
		}
		root, err := held.Compact(ctx, g.opt.FS, cfg.Dir, c.add)
		if err != nil {
			return err
		}
		c.add(root.Before - root.After) // what was left out
		done.Roots = append(done.Roots, CompactedRoot{name, root})
		done.Before, done.After = done.Before+root.Before, done.After+root.After
		done.DroppedRows += root.DroppedRows
		return nil
	}
	if err := write(registry, "registry", g.Registry()); err != nil {
		return err
	}
	for _, info := range list {
		if err := write(g.old.repos[info.Index], label(info.Index), g.Repository(info.Index)); err != nil {
			return err
		}
	}
	return nil
}

// noRunningJob refuses a Repository in which somebody is at work.
func noRunningJob(r bindb.Reader, repository uint32) error {
	return bindb.RunningJobs(r, func(i uint32) (bool, error) {
		return false, statef("job %s is running; wait for it or let its lease expire", record.JobLabel(repository, i))
	})
}
