package bindb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/writ-authority/writ/internal/vfs"
)

// maxBatch bounds how many waiting mutations share one set of syncs.
const maxBatch = 256

// pending is one mutation that waits for a batch.
type pending struct {
	ctx  context.Context
	fn   func(*Tx) error
	err  error
	done chan struct{}
}

// Update runs fn and makes what it wrote durable before it returns. Mutations
// that wait at the same time are applied in order of arrival and share one set
// of syncs; one that returns an error changes nothing and does not disturb the
// others. fn must not call View or Update of the same root.
//
// After ErrReadOnly the root refuses all writes.
func (r *Root) Update(ctx context.Context, fn func(*Tx) error) error {
	p := &pending{ctx: ctx, fn: fn, done: make(chan struct{})}
	r.queueMu.Lock()
	r.queue = append(r.queue, p)
	r.queueMu.Unlock()
	for {
		select {
		case <-p.done:
			return p.err
		case r.leader <- struct{}{}:
			select {
			case <-p.done:
			default:
				r.lead(ctx)
			}
			<-r.leader
		}
	}
}

// lead applies one batch of the queue. The leader token is held.
func (r *Root) lead(ctx context.Context) {
	r.queueMu.Lock()
	n := min(len(r.queue), maxBatch)
	batch := r.queue[:n:n]
	r.queue = r.queue[n:]
	r.queueMu.Unlock()
	if n == 0 {
		return
	}
	err := r.exclusive(ctx, func() error { return r.apply(batch) })
	for _, p := range batch {
		if err != nil && ctx.Err() != nil && p.ctx.Err() == nil {
			// The leader gave up waiting; the others did not.
			r.queueMu.Lock()
			r.queue = append(r.queue, p)
			r.queueMu.Unlock()
			continue
		}
		if p.err == nil {
			p.err = err
		}
		close(p.done)
	}
}

// exclusive runs fn with the root's locks held exclusively and no foreign
// journal standing. The leader token is held.
func (r *Root) exclusive(ctx context.Context, fn func() error) error {
	if r.closed.Load() {
		return ErrClosed
	}
	if err := r.failed.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, *err)
	}
	r.rw.Lock()
	defer r.rw.Unlock()
	locks, err := r.lock(ctx, vfs.Exclusive)
	if err != nil {
		return err
	}
	defer locks.unlock()
	if _, err := r.recover(); err != nil {
		return err
	}
	return fn()
}

// apply runs the mutations of a batch and commits what the successful ones
// wrote. Each failed one has its error set; the returned error concerns all.
func (r *Root) apply(batch []*pending) error {
	tx := newTx(r.newView())
	for _, p := range batch {
		if p.err = p.ctx.Err(); p.err != nil {
			continue
		}
		s := tx.save()
		if p.err = p.fn(tx); p.err != nil {
			tx.rollback(s)
		}
	}
	return r.commit(tx)
}

// Session is the right to run several batches without anybody else in between.
type Session struct{ r *Root }

// Exclusive holds the root's locks while fn runs, for work that must commit
// more than once with nothing in between, such as a land around a ref update.
// Inside fn, mutations go through the session.
func (r *Root) Exclusive(ctx context.Context, fn func(*Session) error) error {
	select {
	case r.leader <- struct{}{}:
		defer func() { <-r.leader }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.exclusive(ctx, func() error { return fn(&Session{r}) })
}

// Update commits fn's writes as one batch.
func (s *Session) Update(ctx context.Context, fn func(*Tx) error) error {
	p := &pending{ctx: ctx, fn: fn}
	if err := s.r.apply([]*pending{p}); err != nil {
		return err
	}
	return p.err
}

// View reads under the session's lock.
func (s *Session) View(fn func(Reader) error) error {
	v := s.r.newView()
	return fn(&v)
}

// commit makes the batch durable: the journal, then stage after stage. When it
// fails before a sync did, the files are put back as they were.
func (r *Root) commit(tx *Tx) error {
	if !tx.dirty() {
		for _, fn := range tx.prepare {
			if err := fn(); err != nil {
				return err
			}
		}
		for _, fn := range tx.after {
			fn()
		}
		return nil
	}
	if err := r.failed.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, *err)
	}
	j, err := newJournal(tx, r.batch+1)
	if err != nil {
		return err
	}
	for _, fn := range tx.prepare {
		if err := fn(); err != nil {
			return err
		}
	}
	if err := r.writeJournal(j); err != nil {
		return err
	}
	r.batch++
	r.wrote = true
	for st := range stageCount {
		synced, err := r.writeStage(tx, st)
		if err == nil {
			continue
		}
		if !synced {
			// Nothing is known to be lost yet: a full disk, for example.
			// Put the files back and stay in service.
			if back := j.revert(r); back == nil {
				return err
			} else {
				err = errors.Join(err, back)
			}
		}
		return r.fail(err)
	}
	for _, fn := range tx.after {
		fn()
	}
	return nil
}

// fail turns the root read-only and leaves word for the recovery of the next
// open, as far as the disk still takes it.
func (r *Root) fail(cause error) error {
	r.failed.CompareAndSwap(nil, &cause)
	if f, err := r.FS.OpenFile(r.failedPath(), os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		_ = errors.Join(f.Sync(), f.Close(), r.FS.SyncDir(filepath.Dir(r.failedPath())))
	}
	return fmt.Errorf("%w: %w", ErrReadOnly, cause)
}

// writeJournal makes the journal durable. Before it returns nothing else has
// been touched, so that its failure costs nothing but the batch, unless the sync
// itself failed.
func (r *Root) writeJournal(j *journal) error {
	b, err := j.encode()
	if err != nil {
		return err
	}
	path := r.journalPath()
	info, err := r.FS.Lstat(path)
	created := errors.Is(err, fs.ErrNotExist)
	if err != nil && !created {
		return err
	}
	if created || r.journal == nil || info.ID != r.journalID {
		if err := r.openJournal(path); err != nil {
			return err
		}
	}
	if _, err := r.journal.WriteAt(b, 0); err != nil {
		// The old journal may be half overwritten now; it describes a batch
		// that is complete, and a torn journal means exactly that.
		return err
	}
	if !created {
		if err := r.journal.Sync(); err != nil {
			return r.fail(err)
		}
		return nil
	}
	var wg sync.WaitGroup
	var dirErr error
	wg.Go(func() { dirErr = r.FS.SyncDir(filepath.Dir(path)) })
	err = r.journal.Sync()
	wg.Wait()
	if err = errors.Join(err, dirErr); err != nil {
		return r.fail(err)
	}
	return nil
}

func (r *Root) openJournal(path string) error {
	if r.journal != nil {
		_ = r.journal.Close() // unlinked by another process, already synced
		r.journal = nil
	}
	f, err := r.FS.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = vfs.MkdirAll(r.FS, filepath.Dir(path), 0o700); err == nil {
			f, err = r.FS.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		}
	}
	if err != nil {
		return err
	}
	id, err := f.ID()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.journal, r.journalID = f, id
	return nil
}

// writeStage writes and syncs the files of one stage. synced reports whether
// the failure came from the sync.
func (r *Root) writeStage(tx *Tx, st stage) (synced bool, err error) {
	var dirty []vfs.File
	for no, w := range tx.writes {
		if w == nil {
			continue
		}
		f := families[no]
		appends := f.append == st && len(w.appended) > 0
		replaces := f.replace == st && len(w.replaced) > 0
		if !appends && !replaces {
			continue
		}
		file, err := r.file(f)
		if err != nil {
			return false, err
		}
		if appends {
			if _, err := file.WriteAt(w.appended, w.old); err != nil {
				return false, err
			}
		}
		if replaces {
			for off, img := range w.replaced {
				if _, err := file.WriteAt(img, off); err != nil {
					return false, err
				}
			}
		}
		dirty = append(dirty, file)
	}
	if len(dirty) == 0 {
		return false, nil
	}
	return true, syncAll(dirty)
}
