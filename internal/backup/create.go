package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/cell/store"
	"github.com/writ-authority/writ/internal/vfs"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// Source is a data directory and how its parts are reached.
type Source struct {
	Data    string
	Version string // of this program
	// Jobs has read read a copy of the work items, which lie in work.db, or returns
	// ErrElsewhere. It is not called if there is no such file.
	Jobs func(ctx context.Context, read func(io.Reader) error) error
	// Patience is how long whoever has the cells open is waited for.
	Patience time.Duration
	// Progress, if not nil, is told how many bytes were copied of about how many.
	Progress func(done, total int64)
}

// Create writes a backup of everything in a data directory to dst, which must not exist
// and must lie outside, while others go on working. It is checked completely and durable
// before it gets its name. A failed one leaves nothing behind, a killed one a directory
// ".<name>.partial-…" beside dst.
func Create(ctx context.Context, s Source, dst string) (*Manifest, error) {
	m, err := create(ctx, s, filepath.Clean(dst))
	if err != nil {
		return nil, fmt.Errorf("backup to %s: %w", dst, err)
	}
	return m, nil
}

func create(ctx context.Context, s Source, dst string) (*Manifest, error) {
	if there, err := vfs.Exists(vfs.OS, dst); err != nil {
		return nil, err
	} else if there {
		return nil, fmt.Errorf("%w: expected a name that is free", fs.ErrExist)
	}
	if err := outside(s.Data, filepath.Dir(dst)); err != nil {
		return nil, err
	}
	var m *Manifest
	err := build(dst, func(temp string) (err error) {
		m, err = s.fill(ctx, temp)
		return err
	})
	return m, err
}

// build has fill make a directory under another name, which becomes path once it is
// durable. It removes what was made if anything fails.
func build(path string, fill func(temp string) error) (err error) {
	var suffix [8]byte
	if _, err := rand.Read(suffix[:]); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.partial-%x", filepath.Base(path), suffix))
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	if err := fill(temp); err != nil {
		return err
	}
	if err := syncAll(temp); err != nil {
		return err
	}
	// An empty directory gives way. Whatever else is there, or comes now, refuses.
	switch err := syscall.Rmdir(path); {
	case err == nil, errors.Is(err, syscall.ENOENT):
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: something was put there meanwhile: %w", fs.ErrExist, err)
	default:
		return &fs.PathError{Op: "rmdir", Path: path, Err: err}
	}
	if err := vfs.OS.Rename(temp, path); err != nil {
		return err
	}
	if err := vfs.OS.SyncDir(filepath.Dir(path)); err != nil {
		return errors.Join(err, vfs.OS.Rename(path, temp)) // it is complete, if it must stay
	}
	return nil
}

// syncAll makes everything in a directory durable.
func syncAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return vfs.OS.SyncDir(path)
		}
		f, err := vfs.OS.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// outside refuses a directory inside the data directory, and one that is not there.
func outside(data, dir string) error {
	of, err := os.Stat(data)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w: there is no such directory", data, ErrNothing)
	}
	if err != nil {
		return err
	}
	at, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if at, err = filepath.EvalSymlinks(at); err != nil {
		return err
	}
	for {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if os.SameFile(of, info) {
			return fmt.Errorf("%w %s", ErrInside, data)
		}
		if at == filepath.Dir(at) {
			return nil
		}
		at = filepath.Dir(at)
	}
}

// fill copies every part that is there, checks the copies, and writes the manifest.
func (s *Source) fill(ctx context.Context, dir string) (*Manifest, error) {
	m := &Manifest{Schema: schema, Version: s.Version, CreatedAt: time.Now().UTC().Format(time.RFC3339)}
	c := &counter{tell: s.Progress}
	parts := map[string]bool{}
	for _, name := range []string{jobsFile, cellsFile} {
		size, there, err := sizeOf(filepath.Join(s.Data, name))
		if err != nil {
			return nil, err
		}
		parts[name] = there
		c.total += size
	}
	if parts[jobsFile] {
		if err := s.copyJobs(ctx, filepath.Join(dir, jobsFile), m, c); err != nil {
			return nil, err
		}
	}
	if parts[cellsFile] {
		to := filepath.Join(dir, cellsFile)
		if err := s.copyCells(ctx, to, c); err != nil {
			return nil, err
		}
		version, err := store.CheckFile(ctx, to)
		if err != nil {
			return nil, err
		}
		m.Cells = &Cells{Schema: version}
	}
	if err := s.copyAuthority(ctx, filepath.Join(dir, authorityDir), m); err != nil {
		return nil, err
	}
	if m.Jobs == nil && m.Cells == nil && m.Authority == nil {
		return nil, fmt.Errorf("%s: %w", s.Data, ErrNothing)
	}
	paths, err := list(dir)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		f, err := hashFile(ctx, dir, path, nil, &counter{})
		if err != nil {
			return nil, err
		}
		m.Files = append(m.Files, f)
		m.Bytes += f.Size
	}
	text, err := m.encode()
	if err != nil {
		return nil, err
	}
	return m, vfs.WriteFileAtomic(vfs.OS, filepath.Join(dir, manifestFile), text, 0o600)
}

// sizeOf is the size of a store with its log, at the moment.
func sizeOf(path string) (size int64, there bool, err error) {
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, false, err
		}
		size += info.Size()
		there = there || name == path
	}
	return size, there, nil
}

func (s *Source) copyJobs(ctx context.Context, to string, m *Manifest, c *counter) error {
	err := s.Jobs(ctx, func(r io.Reader) error { return sqlite.Receive(ctx, r, to, c.add) })
	if errors.Is(err, ErrElsewhere) {
		return nil
	}
	if err != nil {
		return err
	}
	sum, err := sqlite.Check(ctx, to)
	m.Jobs = &Jobs{Schema: sum.Schema, Epoch: sum.Epoch, Jobs: sum.Jobs}
	return err
}

func (s *Source) copyCells(ctx context.Context, to string, c *counter) error {
	patience, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	if err := store.Copy(patience, filepath.Join(s.Data, cellsFile), to, c.add); err != nil {
		return err
	}
	return os.Remove(to + ".lock") // nobody else knows the directory
}

func (s *Source) copyAuthority(ctx context.Context, to string, m *Manifest) error {
	au, err := authority.Open(ctx, authority.Options{Dir: s.Data})
	if errors.Is(err, authority.ErrNoAuthority) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := au.Backup(ctx, to, s.Progress)
	if err := errors.Join(err, au.Close()); err != nil {
		return err
	}
	m.Authority = &Authority{Installation: b.Installation, Generation: b.Generation, Epoch: b.Epoch, Repositories: b.Repositories}
	return nil
}
