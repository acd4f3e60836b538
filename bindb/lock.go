package bindb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// lockPaths are the lock files of a root in the order in which they are taken
// (section 12.6). A repository root has its queue lock for the job boundary and
// one write lock for every other family: this package has one writer a root,
// so that finer scopes would order nothing.
func (c Config) lockPaths() []string {
	if c.Kind == record.RootRegistry {
		return []string{filepath.Join(c.Dir, "01-registry.lock")}
	}
	return []string{
		filepath.Join(c.Dir, "worker-queue.lock"),
		filepath.Join(c.Dir, ".locks", "binary-db", "global.write.lock"),
	}
}

// fileLocks are held from outside of a batch or a view.
type fileLocks []vfs.Lock

func (l fileLocks) unlock() {
	for i := len(l) - 1; i >= 0; i-- {
		_ = l[i].Unlock() // closing the handle releases it in any case
	}
}

// lock takes the root's file locks and asks the guard whether the root still
// counts. It waits at most LockWait and then returns ErrBusy.
func (r *Root) lock(ctx context.Context, mode vfs.LockMode) (fileLocks, error) {
	held, err := r.lockFiles(ctx, mode)
	if r.Guard == nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return held, err
	}
	// A root that was replaced may also be gone, with its lock files.
	if gerr := r.Guard(); gerr != nil {
		held.unlock()
		return nil, gerr
	}
	return held, err
}

func (r *Root) lockFiles(ctx context.Context, mode vfs.LockMode) (fileLocks, error) {
	wait, cancel := context.WithTimeout(ctx, r.LockWait)
	defer cancel()
	var held fileLocks
	for _, path := range r.lockPaths() {
		l, err := r.FS.Lock(wait, path, mode)
		// The root itself is never made here: whoever removed it meant it.
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != r.Dir {
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
// should be short; it must not call Update or View of the same root. On an owned
// root nobody waits: fn reads the last durable batch, as long as it likes.
func (r *Root) View(ctx context.Context, fn func(Reader) error) error {
	if r.Own {
		rd, err := r.Reader()
		if err != nil {
			return err
		}
		return fn(rd)
	}
	for {
		again, err := r.viewOnce(ctx, fn)
		if err != nil || !again {
			return err
		}
		// Another process was interrupted: recover with the lock that takes,
		// then read.
		if _, err := r.settle(ctx); err != nil {
			return err
		}
	}
}

// Reader returns the last durable batch of an owned root. It stays as it is,
// whatever is committed later, and holds on to its memory. The error is
// ErrNotOwned for a root that was opened without Config.Own.
func (r *Root) Reader() (Reader, error) {
	img := r.image.Load()
	switch {
	case img == nil:
		return nil, ErrNotOwned
	case r.closed.Load():
		return nil, ErrClosed
	}
	return img, nil
}

func (r *Root) viewOnce(ctx context.Context, fn func(Reader) error) (again bool, err error) {
	r.rw.RLock()
	defer r.rw.RUnlock()
	if r.closed.Load() {
		return false, ErrClosed
	}
	locks, err := r.lock(ctx, vfs.Shared)
	if err != nil {
		return false, err
	}
	defer locks.unlock()
	if again, err = r.standing(); again || err != nil {
		return again, err
	}
	return false, fn(r.newView())
}

// standing reports whether a batch was interrupted, or is under way, so that the
// files cannot be read as they are. rw is held.
func (r *Root) standing() (bool, error) {
	head, err := r.journalHead()
	if err != nil || !head.interrupted() {
		return false, err
	}
	failed := r.failed.Load()
	if failed == nil {
		return true, nil
	}
	if !failed.undone || !head.own || head.batch != failed.batch {
		return false, fmt.Errorf("%w: %w", ErrReadOnly, failed.cause)
	}
	return false, nil // this root's own failed batch, which is out of sight already
}

// Peek runs fn on the committed state and waits for nobody. It is for a caller
// that holds a lock under which it must not wait for those of this root. Only a
// record that nobody else can be replacing, which the caller's own lock must see
// to, is sure to be read as it is; the others may change while fn reads them. The
// error is ErrBusy while a batch of this root is under way or was interrupted: a
// View, without that lock, waits for it or recovers it.
func (r *Root) Peek(fn func(Reader) error) error {
	if r.Own {
		return r.View(context.Background(), fn) // which waits for nobody
	}
	if !r.rw.TryRLock() {
		return ErrBusy
	}
	defer r.rw.RUnlock()
	if r.closed.Load() {
		return ErrClosed
	}
	standing, err := r.standing()
	if err != nil {
		return err
	}
	if standing {
		return ErrBusy
	}
	return fn(r.newView())
}

// settle takes the exclusive lock and brings an interrupted batch to its end.
func (r *Root) settle(ctx context.Context) (reverted bool, err error) {
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

// head is the first sector of the journal, as far as it matters under a lock.
type head struct {
	exists bool
	id     vfs.FileID
	whole  bool // the magic is there
	own    bool // it is the file that this root has written to
	state  journalState
	batch  uint64
}

// interrupted reports whether recovery has to look at the journal.
func (h head) interrupted() bool {
	return h.exists && (!h.whole || h.state != journalSettled)
}

// journalHead reads the head of the standing journal. The error is ErrForeign
// for that of another root.
func (r *Root) journalHead() (head, error) {
	info, err := r.FS.Lstat(r.journalPath())
	if errors.Is(err, fs.ErrNotExist) {
		return head{}, nil
	}
	if err != nil {
		return head{}, err
	}
	file, own := r.journal, r.journal != nil && info.ID == r.journalID
	if !own {
		if file, err = r.FS.OpenFile(r.journalPath(), os.O_RDONLY, 0); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return head{}, nil // its writer has stopped meanwhile
			}
			return head{}, err
		}
		defer file.Close() // only read
	}
	var b [journalHead]byte
	if n, err := file.ReadAt(b[:], 0); n < len(b) {
		if err != nil && !errors.Is(err, io.EOF) {
			return head{}, err
		}
		return head{exists: true, id: info.ID}, nil
	}
	if string(b[:journalStateAt]) != journalMagic {
		return head{exists: true, id: info.ID}, nil
	}
	if [32]byte(b[journalRootAt:journalLengthAt]) != r.Identity {
		return head{}, fmt.Errorf("%w: the journal %s describes another root; move it away to go on", ErrForeign, r.journalPath())
	}
	h := head{
		exists: true, id: info.ID, whole: true, own: own, state: journalState(b[journalStateAt]),
		batch: binary.LittleEndian.Uint64(b[journalBatchAt:]),
	}
	if h.state == journalOpen && own && h.batch == r.known {
		h.state = journalSettled
	}
	return h, nil
}

// recover settles an interrupted batch under the exclusive lock. A complete one
// is kept, unless its writer left word that a sync had failed; any other one is
// taken back. It reports whether one was, after which everything must be
// validated.
func (r *Root) recover() (reverted bool, err error) {
	h, err := r.journalHead()
	if err != nil {
		return false, err
	}
	if r.batch, err = r.newest(h); err != nil {
		return false, err
	}
	if !h.interrupted() {
		return false, nil
	}
	reverted, err = r.finish(h)
	return reverted, unwritable(err)
}

func (r *Root) finish(h head) (reverted bool, err error) {
	raw, err := vfs.ReadFile(r.FS, r.journalPath(), 2*maxJournal)
	if err != nil {
		return false, err
	}
	j, err := decodeJournal(raw)
	if err != nil {
		return false, err
	}
	if j == nil {
		// Torn: the batch before it was settled and its own has begun nowhere.
		r.recovered = append(r.recovered, Recovery{"journal", "is torn, so that no file was changed"})
		if h.whole {
			return false, r.leaveSettled() // its number must not come again
		}
		return false, r.FS.Remove(r.journalPath())
	}
	for _, jf := range j.files {
		if jf.f.root != r.Kind {
			return false, corruptf("the journal names %s, which is no file of the %s root", jf.f.file, r.Kind)
		}
	}
	keep := false
	if h.state != journalFailed {
		if keep, err = j.applied(r); err != nil {
			return false, err
		}
	}
	if keep {
		err = j.confirm(r)
	} else {
		err = j.revert(r)
	}
	if err != nil {
		return false, err
	}
	what := "batch %d of %d files was interrupted and has been taken back"
	if keep {
		what = "batch %d of %d files was complete and has been kept"
	}
	r.recovered = append(r.recovered, Recovery{"journal", fmt.Sprintf(what, j.batch, len(j.files))})
	return !keep, r.leaveSettled()
}

// leaveSettled leaves word that the journal of another process, or of an earlier
// one, needs no recovery any more.
func (r *Root) leaveSettled() error {
	file, err := r.FS.OpenFile(r.journalPath(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte{byte(journalSettled)}, journalStateAt)
	return errors.Join(err, file.Close())
}
