package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/cell/store"
	"github.com/writ-authority/writ/internal/vfs"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// Verify reads a backup and checks all of it: that exactly the files of its manifest are
// there, with their sizes and sums, and that each part is sound. It writes nothing. The
// error is ErrNoBackup, ErrNewer, or ErrDamaged with what was found first. progress, if
// not nil, is told how many bytes were read.
func Verify(ctx context.Context, dir string, progress func(done, total int64)) (*Manifest, error) {
	m, err := verify(ctx, dir, progress)
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", dir, err)
	}
	return m, nil
}

func verify(ctx context.Context, dir string, progress func(done, total int64)) (*Manifest, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	has, err := list(dir)
	if err != nil {
		return nil, err
	}
	var want []string
	for _, f := range m.Files {
		want = append(want, f.Path)
	}
	for _, path := range want {
		if _, found := slices.BinarySearch(has, path); !found {
			return nil, fmt.Errorf("%w: %s is missing", ErrDamaged, path)
		}
	}
	for _, path := range has {
		if _, found := slices.BinarySearch(want, path); !found {
			return nil, fmt.Errorf("%w: %s is not listed in %s", ErrDamaged, path, manifestFile)
		}
	}
	c := &counter{total: m.Bytes, tell: progress}
	for _, f := range m.Files {
		got, err := hashFile(ctx, dir, f.Path, nil, c)
		if err != nil {
			return nil, err
		}
		if got != f {
			return nil, fmt.Errorf("%w: %s is not what %s says", ErrDamaged, f.Path, manifestFile)
		}
	}
	err = m.sound(ctx, dir)
	for _, damage := range []error{sqlite.ErrCorrupt, sqlite.ErrForeign, bindb.ErrCorrupt, authority.ErrNoBackup} {
		if errors.Is(err, damage) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
			break
		}
	}
	return m, err
}

// sound checks each part of a backup whose files are as they were written.
func (m *Manifest) sound(ctx context.Context, dir string) error {
	if m.Jobs != nil {
		sum, err := sqlite.Check(ctx, filepath.Join(dir, jobsFile))
		if err != nil {
			return err
		}
		if (Jobs{sum.Schema, sum.Epoch, sum.Jobs}) != *m.Jobs {
			return fmt.Errorf("%w: %s has other jobs than %s says", sqlite.ErrCorrupt, jobsFile, manifestFile)
		}
	}
	if m.Cells != nil {
		if _, err := store.CheckFile(ctx, filepath.Join(dir, cellsFile)); err != nil {
			return err
		}
	}
	if m.Authority != nil {
		if _, err := authority.Verify(ctx, authority.Options{}, filepath.Join(dir, authorityDir), nil); err != nil {
			return err
		}
	}
	return nil
}

// Restored says what a restore has made.
type Restored struct {
	*Manifest
	JobsEpoch      int64  // of the work items, if the backup has any
	AuthorityEpoch uint64 // of the authority, if the backup has one
}

// Restore verifies the backup in dir and makes the data directory data of it, which must
// not exist or be empty: whole, or not at all. The authority epochs are raised. A restore
// that is killed leaves a directory ".<name>.partial-…" beside data. The errors are those
// of Verify, and fs.ErrExist.
func Restore(ctx context.Context, dir, data string, progress func(done, total int64)) (*Restored, error) {
	r, err := restore(ctx, dir, filepath.Clean(data), progress)
	if err != nil {
		return nil, fmt.Errorf("restore into %s: %w", data, err)
	}
	return r, nil
}

func restore(ctx context.Context, dir, data string, progress func(done, total int64)) (*Restored, error) {
	if err := free(data); err != nil {
		return nil, err
	}
	half := func(from int64) func(done, total int64) {
		if progress == nil {
			return nil
		}
		return func(done, total int64) { progress(from*total+done, 2*total) }
	}
	m, err := Verify(ctx, dir, half(0))
	if err != nil {
		return nil, err
	}
	if err := vfs.MkdirAll(vfs.OS, filepath.Dir(data), 0o700); err != nil {
		return nil, err
	}
	r := &Restored{Manifest: m}
	c := &counter{total: m.Bytes, tell: half(1)}
	err = build(data, func(temp string) error {
		if m.Jobs != nil {
			if r.JobsEpoch, err = restoreJobs(ctx, m, dir, temp, c); err != nil {
				return err
			}
		}
		if m.Cells != nil {
			if err := restoreCells(ctx, m, dir, temp, c); err != nil {
				return err
			}
		}
		if m.Authority != nil {
			p, err := authority.Restore(ctx, authority.Options{Dir: temp}, filepath.Join(dir, authorityDir), authority.Restoration{})
			if err != nil {
				return err
			}
			r.AuthorityEpoch = p.Epoch
		}
		return nil
	})
	return r, err
}

// free refuses a data directory that has something.
func free(data string) error {
	entries, err := os.ReadDir(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: expected a name that is free, or an empty directory", fs.ErrExist)
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%w: the directory has something in it already, %s for instance", fs.ErrExist, entries[0].Name())
	}
	return nil
}

// copyFile copies a file of a backup and compares what it copies with the manifest.
func (m *Manifest) copyFile(ctx context.Context, dir, name, to string, c *counter) error {
	i := slices.IndexFunc(m.Files, func(f File) bool { return f.Path == name })
	if i < 0 {
		return fmt.Errorf("%w: %s does not list %s", ErrDamaged, manifestFile, name)
	}
	f, err := os.OpenFile(filepath.Join(to, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	got, err := hashFile(ctx, dir, name, f, c)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if got != m.Files[i] {
		return fmt.Errorf("%w: %s has changed since it was verified", ErrDamaged, name)
	}
	return nil
}

// restoreJobs copies the work items and raises their authority epoch.
func restoreJobs(ctx context.Context, m *Manifest, dir, to string, c *counter) (epoch int64, err error) {
	if err := m.copyFile(ctx, dir, jobsFile, to, c); err != nil {
		return 0, err
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(to, jobsFile)})
	if err != nil {
		return 0, err
	}
	err = s.Update(ctx, func(tx workitem.Tx) error {
		epoch, err = tx.RaiseEpoch()
		return err
	})
	return epoch, errors.Join(err, s.Close())
}

// restoreCells copies the cells and makes sure that this version can open them.
func restoreCells(ctx context.Context, m *Manifest, dir, to string, c *counter) error {
	if err := m.copyFile(ctx, dir, cellsFile, to, c); err != nil {
		return err
	}
	s, err := store.Open(ctx, store.Options{Path: filepath.Join(to, cellsFile)})
	if err != nil {
		return err
	}
	return s.Close()
}
