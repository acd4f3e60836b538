package bindb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/writ-authority/writ/internal/vfs"
)

// maxBatch bounds how many waiting mutations share one set of syncs.
const maxBatch = 256

// pending is one mutation that waits for a batch.
type pending struct {
	ctx      context.Context
	fn       func(*Tx) error
	err      error
	panicked string // value and stack of a panic in fn
	gone     bool   // fn ended the goroutine that ran it
	answered bool
	done     chan struct{}
}

// errAbandoned is the answer to mutations whose function, or a hook of whose
// batch, ended the goroutine that ran it. Whether they are durable is unknown.
var errAbandoned = errors.New("the goroutine that was committing this mutation has ended")

// Update runs fn and makes what it wrote durable before it returns. Mutations
// that wait at the same time are applied in order of arrival and share one set
// of syncs; one that returns an error changes nothing and does not disturb the
// others. fn may run in another goroutine, and again if the batch it was in
// became too large; it must not call View or Update of the same root.
//
// When ctx ends before fn has run, nothing was changed. After ErrReadOnly the
// root refuses all writes.
func (r *Root) Update(ctx context.Context, fn func(*Tx) error) error {
	p := &pending{ctx: ctx, fn: fn, done: make(chan struct{})}
	r.queueMu.Lock()
	r.queue = append(r.queue, p)
	r.queueMu.Unlock()
	ended := ctx.Done()
	for {
		select {
		case <-p.done:
			return p.answer()
		case <-ended:
			if r.withdraw(p) {
				return ctx.Err()
			}
			ended = nil // somebody is at it, so the answer is not known yet
		case r.leader <- struct{}{}:
			r.leadFor(p)
		}
	}
}

// leadFor applies one batch, unless p was answered before the token was had.
func (r *Root) leadFor(p *pending) {
	defer func() { <-r.leader }()
	select {
	case <-p.done:
	default:
		r.lead(p.ctx)
	}
}

// withdraw takes p out of the queue and reports whether it was still there.
func (r *Root) withdraw(p *pending) bool {
	r.queueMu.Lock()
	defer r.queueMu.Unlock()
	i := slices.Index(r.queue, p)
	if i < 0 {
		return false
	}
	r.queue = slices.Delete(r.queue, i, i+1)
	return true
}

// lead applies one batch of the queue. The leader token is held.
func (r *Root) lead(ctx context.Context) {
	r.queueMu.Lock()
	n := min(len(r.queue), maxBatch)
	batch := slices.Clone(r.queue[:n])
	r.queue = slices.Delete(r.queue, 0, n)
	r.queueMu.Unlock()
	if n == 0 {
		return
	}
	// Whatever ends this goroutine, nobody waits for ever: those whose mutation
	// was not taken wait for the next batch, the others learn what happened.
	took, committing := 0, false
	var rest []*pending
	defer func() {
		for i, p := range batch {
			switch {
			case p.answered:
			case p.gone, committing && i < took:
				p.finish(errAbandoned)
			default:
				rest = append(rest, p)
			}
		}
		r.queueMu.Lock()
		r.queue = append(rest, r.queue...)
		r.queueMu.Unlock()
	}()
	locked := false
	err := r.exclusive(ctx, func() error {
		locked = true
		var tx *Tx
		tx, took = r.apply(batch)
		committing = true
		return r.commit(tx)
	})
	committing = false
	switch {
	case locked:
		for _, p := range batch[:took] {
			p.finish(err)
		}
	case ctx.Err() != nil:
		// The leader gave up waiting for the lock; the others have not.
		for _, p := range batch {
			if err := p.ctx.Err(); err != nil {
				p.finish(err)
			}
		}
	default:
		for _, p := range batch {
			p.finish(err)
		}
	}
}

// finish answers a mutation with the result of its batch, unless it has one of
// its own.
func (p *pending) finish(err error) {
	if p.err == nil && p.panicked == "" {
		p.err = err
	}
	p.answered = true
	close(p.done)
}

// answer returns the result of a mutation to its caller.
func (p *pending) answer() error {
	if p.panicked != "" {
		panic(p.panicked)
	}
	return p.err
}

// run applies one mutation to the batch, or nothing of it.
func (p *pending) run(tx *Tx) {
	s := tx.save()
	p.err, p.panicked, p.gone = nil, "", true
	defer func() {
		if v := recover(); v != nil {
			p.panicked = fmt.Sprintf("%v\n\nin a mutation, at\n%s", v, debug.Stack())
			p.gone = false
		}
		if p.gone || p.panicked != "" || p.err != nil {
			tx.rollback(s)
		}
	}()
	p.err = p.fn(tx)
	p.gone = false
}

// exclusive runs fn with the root's locks held exclusively and no batch
// interrupted. The leader token is held.
func (r *Root) exclusive(ctx context.Context, fn func() error) error {
	if r.closed.Load() {
		return ErrClosed
	}
	if err := r.refused(); err != nil {
		return err
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

// apply runs the mutations of a batch, as many as one journal can hold, and
// returns how many it took.
func (r *Root) apply(batch []*pending) (tx *Tx, took int) {
	tx = newTx(r.newView())
	for i, p := range batch {
		if p.err = p.ctx.Err(); p.err != nil {
			continue
		}
		s := tx.save()
		p.run(tx)
		if tx.journalSize() <= r.maxJournal {
			continue
		}
		tx.rollback(s)
		if tx.dirty() {
			return tx, i // it may fit alone
		}
		p.err = errors.Join(p.err, fmt.Errorf("%w: its journal would exceed %d bytes", ErrTooLarge, r.maxJournal))
	}
	return tx, len(batch)
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
	tx, _ := s.r.apply([]*pending{p})
	if err := p.answer(); err != nil {
		return err
	}
	return s.r.commit(tx)
}

// Writable returns ErrReadOnly once a sync of the root has failed.
func (s *Session) Writable() error { return s.r.refused() }

// View reads under the session's lock.
func (s *Session) View(fn func(Reader) error) error {
	v := s.r.newView()
	return fn(&v)
}

// commit makes the batch durable: the journal, then stage after stage. When it
// fails before a sync did, the files are put back as they were.
func (r *Root) commit(tx *Tx) error {
	if err := r.refused(); err != nil && tx.dirty() {
		return err
	}
	if err := r.commitWrites(tx); err != nil {
		return err
	}
	for _, fn := range tx.after {
		fn()
	}
	return nil
}

func (r *Root) commitWrites(tx *Tx) error {
	var j *journal
	var sums *sumChange
	var encoded []byte
	if tx.dirty() {
		var err error
		if j, err = newJournal(tx, r.batch+1); err != nil {
			return err
		}
		for _, jf := range j.files {
			if err := r.writable(jf.f); err != nil {
				return err
			}
		}
		if sums, err = r.sumBatch(tx, j); err != nil {
			return err
		}
		encoded = j.encode()
	}
	for _, fn := range tx.prepare {
		if err := fn(); err != nil {
			return err
		}
	}
	if j == nil {
		return nil
	}
	if err := r.writeJournal(j, encoded); err != nil {
		return err
	}
	r.batch = j.batch
	r.wrote = true
	for st := range stageCount {
		synced, err := r.writeStage(tx, j, st)
		if err == nil {
			continue
		}
		if !synced {
			// Nothing is known to be lost yet: a full disk, for example.
			// Put the files back and stay in service.
			back := j.revert(r)
			if back == nil {
				r.settled()
				sums.skip(r.batch)
				return err
			}
			err = errors.Join(err, back)
		}
		return r.fail(j, err, true)
	}
	r.settled()
	sums.apply(r.batch)
	return nil
}

// settled leaves word that there is nothing to recover. Where that fails, this
// root knows all the same, and other processes compare the files with the
// journal and find that nothing is missing.
func (r *Root) settled() {
	r.known = r.batch
	_, _ = r.journal.WriteAt([]byte{byte(journalSettled)}, journalStateAt)
}

// failure is what turned a root read-only.
type failure struct {
	cause  error
	batch  uint64
	undone bool // readers of this process don't see its batch
}

// refused returns ErrReadOnly once a sync has failed.
func (r *Root) refused() error {
	if f := r.failed.Load(); f != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, f.cause)
	}
	return nil
}

// fail turns the root read-only after a failed sync. The batch was not
// acknowledged; it is put out of sight of this process's readers and, by the
// state of the journal, left to recovery to be taken back for good.
func (r *Root) fail(j *journal, cause error, touched bool) error {
	f := &failure{cause: cause, batch: j.batch, undone: !touched}
	if _, err := r.journal.WriteAt([]byte{byte(journalFailed)}, journalStateAt); err == nil {
		_ = r.journal.Sync() // whether it can be trusted or not
	}
	if touched {
		_, err := j.undo(r)
		f.undone = err == nil
	}
	r.failed.Store(f)
	return r.refused()
}

// writeJournal makes the journal durable. Before it returns nothing else has
// been touched, so that its failure costs nothing but the batch, unless the sync
// itself failed.
func (r *Root) writeJournal(j *journal, encoded []byte) error {
	path := r.journalPath()
	info, err := r.FS.Lstat(path)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return err
	}
	if gone || r.journal == nil || info.ID != r.journalID {
		if err := r.openJournal(path); err != nil {
			return err
		}
	}
	broken, err := r.breakSeal()
	if err != nil {
		return err
	}
	if _, err := r.journal.WriteAt(encoded, 0); err != nil {
		// The old journal may be half overwritten now; it describes a batch
		// that is settled, and a torn journal means exactly that.
		return err
	}
	if r.journalNamed && !broken {
		if err := r.journal.Sync(); err != nil {
			return r.fail(j, err, false)
		}
		return nil
	}
	var wg sync.WaitGroup
	var dirErr, sealErr error
	wg.Go(func() { dirErr = r.FS.SyncDir(filepath.Dir(path)) })
	wg.Go(func() { sealErr = r.syncSeal() })
	err = r.journal.Sync()
	wg.Wait()
	if err = errors.Join(err, dirErr, sealErr); err != nil {
		return r.fail(j, err, false)
	}
	r.journalNamed = true
	return nil
}

// openJournal opens or makes the journal. Even one that was there may owe its
// directory entry to a process that died before it was durable.
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
	r.journal, r.journalID, r.journalNamed, r.known = f, id, false, 0
	return nil
}

// writeStage writes and syncs the files of one stage. synced reports whether
// the failure came from the sync.
func (r *Root) writeStage(tx *Tx, j *journal, st stage) (synced bool, err error) {
	var dirty []vfs.File
	for _, jf := range j.files {
		f, w := jf.f, tx.writes[jf.f.no]
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
			for _, img := range jf.images {
				if _, err := file.WriteAt(img.after, img.off); err != nil {
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
