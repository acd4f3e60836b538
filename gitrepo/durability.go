package gitrepo

import (
	"context"
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

// syncPath makes a file's content, or the names in a directory, durable. What does not exist needs
// nothing: with another ref or object storage there may be no such file.
func syncPath(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make Git's files durable: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("make Git's files durable: sync %s: %w", path, err)
	}
	return nil
}

func (r *Repo) objectDir() string { return filepath.Join(r.common, "objects") }

// syncLoose makes one object durable that was just written, or that had been there before without
// a sync: Git does not write it again then.
func (r *Repo) syncLoose(id OID) error {
	if err := syncPath(filepath.Join(r.objectDir(), string(id[:2]), string(id[2:]))); err != nil {
		return err
	}
	if err := syncPath(filepath.Join(r.objectDir(), string(id[:2]))); err != nil {
		return err
	}
	return syncPath(r.objectDir())
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
		if err := syncPath(dir); err != nil {
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
			if err := syncPath(filepath.Join(r.common, filepath.FromSlash(dir))); err != nil {
				return err
			}
		}
	}
	if err := syncPath(filepath.Join(r.common, "reftable")); err != nil { // refs may be kept there instead
		return err
	}
	return syncPath(r.common) // packed-refs, which a deletion rewrites
}

// singleSyncs is the number of loose objects up to which Persist syncs each by itself.
const singleSyncs = 64

// Persist makes durable what head needs and known do not: the objects reachable from it alone.
// Git does not sync loose objects by default, so a commit that the user has just made may not
// survive a power cut, although a ref of Writ's names it. Packed objects were synced when their
// pack was made. The cost grows with the difference; without known it walks the whole history.
func (r *Repo) Persist(ctx context.Context, head OID, known ...OID) error {
	if err := r.checkOID(head); err != nil {
		return err
	}
	if err := r.checkOID(known...); err != nil {
		return err
	}
	args := []string{"rev-list", "--objects", "--no-object-names", string(head)}
	for _, id := range known {
		args = append(args, "^"+string(id))
	}
	var loose []string
	err := r.revList(ctx, args, func(id OID) error {
		path := filepath.Join(r.objectDir(), string(id[:2]), string(id[2:]))
		if _, err := os.Lstat(path); err == nil {
			loose = append(loose, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(loose) > singleSyncs {
		f, err := os.Open(r.objectDir())
		if err != nil {
			return fmt.Errorf("make Git's files durable: %w", err)
		}
		defer f.Close()
		if done, err := syncFileSystem(f.Fd()); err != nil {
			return fmt.Errorf("make Git's files durable: sync the file system of %s: %w", r.objectDir(), err)
		} else if done {
			return nil
		}
	}
	dirs := map[string]bool{r.objectDir(): true, filepath.Join(r.objectDir(), "pack"): true}
	for _, path := range loose {
		// A file that is gone by now was packed, and the pack was synced before.
		if err := syncPath(path); err != nil {
			return err
		}
		dirs[filepath.Dir(path)] = true
	}
	for dir := range dirs {
		if err := syncPath(dir); err != nil {
			return err
		}
	}
	return nil
}
