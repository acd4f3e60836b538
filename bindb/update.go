package bindb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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
	leads    bool          // its caller applies the next batch; queueMu guards it
	wake     chan struct{} // sent to once: it was answered, or its caller leads
}

func newPending(ctx context.Context, fn func(*Tx) error) *pending {
	return &pending{ctx: ctx, fn: fn, wake: make(chan struct{}, 1)}
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
	p := newPending(ctx, fn)
	r.queueMu.Lock()
	r.queue = append(r.queue, p)
	p.leads = !r.led
	r.led = true
	leads := p.leads
	r.queueMu.Unlock()
	if !leads {
		select {
		case <-p.wake:
		case <-ctx.Done():
			if r.withdraw(p) {
				return ctx.Err()
			}
			<-p.wake // somebody is at it, so the answer is not known yet
		}
		if p.answered {
			return p.answer()
		}
	}
	return r.leadFor(p)
}

// leadFor applies the batch that begins with p and leaves the next one to the
// caller who has waited longest then.
func (r *Root) leadFor(p *pending) error {
	defer func() {
		if !p.answered { // nor will be: this goroutine gives up or ends
			r.remove(p)
		}
		r.handOver()
	}()
	select {
	case r.leader <- struct{}{}:
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
	defer func() { <-r.leader }()
	r.gather()
	r.lead(p.ctx)
	return p.answer()
}

// handOver lets the first one in the queue lead.
func (r *Root) handOver() {
	r.queueMu.Lock()
	defer r.queueMu.Unlock()
	if r.led = len(r.queue) > 0; r.led {
		r.queue[0].leads = true
		r.queue[0].wake <- struct{}{}
	}
}

// gather waits for the callers that the last batch has answered, as long as they
// keep coming: most have something new, and a batch costs the same syncs with
// them as without. The leader token is held.
func (r *Root) gather() {
	const patience = 3 // turns of all other goroutines in which nobody came
	waiting := r.waiting()
	for idle := 0; waiting < r.answered && idle < patience; idle++ {
		runtime.Gosched()
		if n := r.waiting(); n > waiting {
			waiting, idle = n, -1
		}
	}
}

// waiting is how many mutations the next batch could take.
func (r *Root) waiting() int {
	r.queueMu.Lock()
	defer r.queueMu.Unlock()
	return len(r.queue)
}

// withdraw takes p out of the queue and reports whether it was still there, not
// chosen to lead.
func (r *Root) withdraw(p *pending) bool {
	r.queueMu.Lock()
	defer r.queueMu.Unlock()
	return !p.leads && r.removeLocked(p)
}

func (r *Root) remove(p *pending) {
	r.queueMu.Lock()
	defer r.queueMu.Unlock()
	r.removeLocked(p)
}

func (r *Root) removeLocked(p *pending) bool {
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
	r.answered = n
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
	p.wake <- struct{}{}
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
	if r.image.Load() != nil {
		return fn() // the locks are held all the time
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

// latest reads the committed state. The leader token is held, and so are the
// locks.
func (r *Root) latest() Reader {
	if img := r.image.Load(); img != nil {
		return img
	}
	return r.newView()
}

// apply runs the mutations of a batch, as many as one journal can hold, and
// returns how many it took.
func (r *Root) apply(batch []*pending) (tx *Tx, took int) {
	tx = newTx(r.latest())
	for i, p := range batch {
		if p.err = p.ctx.Err(); p.err != nil {
			continue
		}
		s := tx.save()
		p.run(tx)
		if tx.journalSize() <= r.maxJournal {
			if p.err == nil && p.panicked == "" {
				tx.mutations++
			}
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
	p := newPending(ctx, fn)
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
	return fn(s.r.latest())
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
	if !tx.dirty() {
		return tx.runPrepare()
	}
	j, err := newJournal(tx, r.batch+1)
	if err != nil {
		return err
	}
	for _, jf := range j.files {
		if err := r.writable(jf.f); err != nil {
			return err
		}
	}
	sums, err := r.sumBatch(tx, j)
	if err != nil {
		return err
	}
	followQueue, err := r.jobs.follow(tx)
	if err != nil {
		return err
	}
	if err := r.begin(tx, j); err != nil {
		if r.batch == j.batch {
			sums.skip(r.batch)
		}
		return err
	}
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
	r.publish(tx, j)
	followQueue()
	r.stats.batches.Add(1)
	r.stats.mutations.Add(uint64(tx.mutations))
	return nil
}

// begin makes the journal durable and runs the hooks of the batch at the same
// time. When it fails, no file has been touched.
func (r *Root) begin(tx *Tx, j *journal) (err error) {
	const keep = 1 << 20 // what a large batch needed is given back
	if cap(r.encoded) > keep {
		r.encoded = nil
	}
	r.encoded = j.encode(r.encoded[:0])
	if len(tx.prepare) == 0 {
		if err := r.writeJournal(j, r.encoded); err != nil {
			return err
		}
		r.batch, r.wrote = j.batch, true
		return nil
	}
	var journal error
	var wg sync.WaitGroup
	wg.Go(func() { journal = r.writeJournal(j, r.encoded) })
	prepared := false
	defer func() { // also when a hook panics
		wg.Wait()
		err = errors.Join(err, journal)
		if journal != nil {
			return
		}
		r.batch, r.wrote = j.batch, true
		if !prepared {
			r.settled()
		}
	}()
	err = tx.runPrepare()
	prepared = err == nil
	return err
}

// publish shows a durable batch to the readers of an owned root.
func (r *Root) publish(tx *Tx, j *journal) {
	if img := r.image.Load(); img != nil {
		next := img.with(tx, j)
		next.followQueue(img, tx)
		r.image.Store(next)
	}
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
	if err := r.findJournal(path); err != nil {
		return err
	}
	// Within its length the file is overwritten in place, which the disk can do
	// without changing where it lies; so it grows in large steps.
	if n := int64(len(encoded)); n > r.journalSize {
		n = (n + journalStep - 1) / journalStep * journalStep
		encoded = append(encoded, make([]byte, n-int64(len(encoded)))...)
	}
	if !r.unsealed || r.image.Load() == nil { // the owner is alone in sealing
		broken, err := r.breakSeal()
		if err != nil {
			return err
		}
		r.sealOwed = r.sealOwed || broken
	}
	if _, err := r.journal.WriteAt(encoded, 0); err != nil {
		// The old journal may be half overwritten now; it describes a batch
		// that is settled, and a torn journal means exactly that.
		return err
	}
	r.journalSize = max(r.journalSize, int64(len(encoded)))
	r.stats.bytes.Add(uint64(len(encoded)))
	if r.journalNamed && !r.sealOwed {
		if err := r.syncAll([]vfs.File{r.journal}); err != nil {
			return r.fail(j, err, false)
		}
		return nil
	}
	var wg sync.WaitGroup
	var dirErr, sealErr error
	wg.Go(func() { dirErr = r.FS.SyncDir(filepath.Dir(path)) })
	wg.Go(func() { sealErr = r.syncSeal() })
	r.stats.syncs.Add(2)
	err := r.syncAll([]vfs.File{r.journal})
	wg.Wait()
	if err = errors.Join(err, dirErr, sealErr); err != nil {
		return r.fail(j, err, false)
	}
	r.journalNamed, r.sealOwed, r.unsealed = true, false, true
	return nil
}

// findJournal makes sure that r.journal is the file that recovery would read.
func (r *Root) findJournal(path string) error {
	if r.journal != nil && r.image.Load() != nil {
		return nil // nobody else takes it away from the owner
	}
	info, err := r.FS.Lstat(path)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return err
	}
	if gone || r.journal == nil || info.ID != r.journalID {
		return r.openJournal(path)
	}
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
	var size int64
	if err == nil {
		size, err = f.Size()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.journal, r.journalID, r.journalSize, r.journalNamed, r.known = f, id, size, false, 0
	return nil
}

// writeStage writes and syncs the files of one stage. synced reports whether
// the failure came from the sync.
func (r *Root) writeStage(tx *Tx, j *journal, st stage) (synced bool, err error) {
	var dirty []vfs.File
	written := 0
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
			written += len(w.appended)
		}
		if replaces {
			for _, img := range jf.images {
				if _, err := file.WriteAt(img.after, img.off); err != nil {
					return false, err
				}
				written += len(img.after)
			}
		}
		dirty = append(dirty, file)
	}
	if len(dirty) == 0 {
		return false, nil
	}
	r.stats.bytes.Add(uint64(written))
	return true, r.syncAll(dirty)
}
