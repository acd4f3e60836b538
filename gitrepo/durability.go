package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// Git syncs the files it writes (core.fsync=all) but not the directories that name them, so a
// power cut could still undo the rename that made a file visible. The functions here sync those.

// syncDir makes the names in a directory durable. A directory that does not exist has none: with
// another ref or object storage there may be no such directory.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make Git's files durable: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("make Git's files durable: sync %s: %w", dir, err)
	}
	return nil
}

func (r *Repo) objectDir() string { return filepath.Join(r.common, "objects") }

// syncLoose makes the name of one new object durable.
func (r *Repo) syncLoose(id OID) error {
	if err := syncDir(filepath.Join(r.objectDir(), string(id[:2]))); err != nil {
		return err
	}
	return syncDir(r.objectDir())
}

// objectWatch remembers the state of the object directories before a command that writes an
// unknown set of objects.
type objectWatch struct {
	repo   *Repo
	before map[string]time.Time // modification time of each fan-out directory
}

func (r *Repo) watchObjects() objectWatch {
	return objectWatch{repo: r, before: r.fanOut()}
}

// fanOut returns the directories that hold objects, with their modification times.
func (r *Repo) fanOut() map[string]time.Time {
	dirs := make(map[string]time.Time, 258)
	root := r.objectDir()
	stat := func(dir string) {
		if info, err := os.Stat(dir); err == nil {
			dirs[dir] = info.ModTime()
		}
	}
	stat(root)
	stat(filepath.Join(root, "pack"))
	for i := range 256 {
		stat(filepath.Join(root, fmt.Sprintf("%02x", i)))
	}
	return dirs
}

// sync makes the names in every directory durable that changed since, or so shortly before that
// the clock of the file system may not show a change.
func (w objectWatch) sync() error {
	for dir, now := range w.repo.fanOut() {
		if before, known := w.before[dir]; known && now.Equal(before) && time.Since(now) > 5*time.Second {
			continue
		}
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// syncRefs makes the names of loose refs durable, up to refs/ itself.
func (r *Repo) syncRefs(names []string) error {
	done := make(map[string]bool)
	for _, name := range names {
		for dir := path.Dir(name); dir != "." && !done[dir]; dir = path.Dir(dir) {
			done[dir] = true
			if err := syncDir(filepath.Join(r.common, filepath.FromSlash(dir))); err != nil {
				return err
			}
		}
	}
	return syncDir(r.common) // packed-refs, which a deletion rewrites
}
