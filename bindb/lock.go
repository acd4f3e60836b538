package bindb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// lockPaths are the lock files of a root in the order in which they are taken
// (section 12.6). A repository root has its queue lock for the job boundary and
// one write lock for every other family: this package has one writer a root,
// so that finer scopes would order nothing.
func (r *Root) lockPaths() []string {
	if r.Kind == record.RootRegistry {
		return []string{filepath.Join(r.Dir, "01-registry.lock")}
	}
	return []string{
		filepath.Join(r.Dir, "worker-queue.lock"),
		filepath.Join(r.Dir, ".locks", "binary-db", "global.write.lock"),
	}
}

// fileLocks are held from outside of a batch or a view.
type fileLocks []vfs.Lock

func (l fileLocks) unlock() {
	for i := len(l) - 1; i >= 0; i-- {
		_ = l[i].Unlock() // closing the handle releases it in any case
	}
}

// lock takes the root's file locks. It waits at most LockWait and then returns
// ErrBusy.
func (r *Root) lock(ctx context.Context, mode vfs.LockMode) (fileLocks, error) {
	wait, cancel := context.WithTimeout(ctx, r.LockWait)
	defer cancel()
	var held fileLocks
	for _, path := range r.lockPaths() {
		l, err := r.FS.Lock(wait, path, mode)
		if errors.Is(err, fs.ErrNotExist) {
			if err = vfs.MkdirAll(r.FS, filepath.Dir(path), 0o700); err == nil {
				l, err = r.FS.Lock(wait, path, mode)
			}
		}
		if err != nil {
			held.unlock()
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case errors.Is(err, vfs.ErrLocked):
				return nil, fmt.Errorf("%w: %s was held for %s", ErrBusy, path, r.LockWait)
			}
			return nil, err
		}
		held = append(held, l)
	}
	return held, nil
}

// View runs fn on the committed state. Mutations wait until fn returns, so fn
// should be short; it must not call Update or View of the same root.
func (r *Root) View(ctx context.Context, fn func(Reader) error) error {
	if r.closed.Load() {
		return ErrClosed
	}
	for {
		again, err := r.viewOnce(ctx, fn)
		if err != nil || !again {
			return err
		}
		// Another process left a journal: look at it with the lock that
		// recovery needs, then read.
		if _, err := r.settle(ctx); err != nil {
			return err
		}
	}
}

func (r *Root) viewOnce(ctx context.Context, fn func(Reader) error) (again bool, err error) {
	r.rw.RLock()
	defer r.rw.RUnlock()
	locks, err := r.lock(ctx, vfs.Shared)
	if err != nil {
		return false, err
	}
	defer locks.unlock()
	standing, err := r.foreignJournal()
	if err != nil || standing {
		return standing, err
	}
	v := r.newView()
	return false, fn(&v)
}

// foreignJournal reports whether a journal stands that this root has not
// written itself.
func (r *Root) foreignJournal() (bool, error) {
	info, err := r.FS.Lstat(r.journalPath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return r.journal == nil || info.ID != r.journalID, nil
}

// settle takes the exclusive lock and brings an interrupted batch of another
// process to its end.
func (r *Root) settle(ctx context.Context) (reverted bool, err error) {
	standing, err := r.foreignJournal()
	if err != nil || !standing {
		return false, err
	}
	select {
	case r.leader <- struct{}{}:
		defer func() { <-r.leader }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	r.rw.Lock()
	defer r.rw.Unlock()
	locks, err := r.lock(ctx, vfs.Exclusive)
	if err != nil {
		return false, err
	}
	defer locks.unlock()
	return r.recover()
}

// recover settles a standing journal under the exclusive lock. A complete batch
// is synced and kept, any other one is taken back. It reports whether a batch
// was taken back or an earlier sync had failed, after which everything must be
// validated.
func (r *Root) recover() (reverted bool, err error) {
	standing, err := r.foreignJournal()
	if err != nil || !standing {
		return false, err
	}
	raw, err := vfs.ReadFile(r.FS, r.journalPath(), 2*maxJournal)
	if err != nil {
		return false, err
	}
	j, err := decodeJournal(raw)
	if err != nil {
		return false, err
	}
	suspect, err := vfs.Exists(r.FS, r.failedPath())
	if err != nil {
		return false, err
	}
	if j != nil {
		if j.identity != r.identity {
			return false, fmt.Errorf("%w: the journal %s describes another root; move it away to go on", ErrForeign, r.journalPath())
		}
		state, err := j.state(r)
		if err != nil {
			return false, err
		}
		switch {
		case state == journalBroken:
			reverted = true
			err = j.revert(r)
		case suspect:
			err = j.rewrite(r)
		default:
			err = j.sync(r)
		}
		if errors.Is(err, syscall.EROFS) || errors.Is(err, os.ErrPermission) {
			return false, fmt.Errorf("an interrupted batch must be recovered, but the authority cannot be written: %w", err)
		}
		if err != nil {
			return false, err
		}
	}
	if suspect {
		if err := r.FS.Remove(r.failedPath()); err != nil {
			return false, err
		}
	}
	return reverted || suspect, r.FS.Remove(r.journalPath())
}

// sync makes an applied batch durable: its writer may have died before it could.
func (j *journal) sync(r *Root) error {
	var files []vfs.File
	for _, jf := range j.files {
		f, err := r.file(jf.f)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	return syncAll(files)
}
