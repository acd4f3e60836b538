package gate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate/suite"
)

// run is one CI run of a Patchset as this command saw it.
type run struct {
	job      uint32
	seq      uint32
	attached bool // somebody else ran it
	ran      bool // this command ran it
	results  suite.Results
	logDir   string
	checkout time.Duration
}

// logDir is where one attempt's logs and results are kept.
func (w *Workspace) logDir(job uint32) string {
	return filepath.Join(w.Authority.Dir(), "logs", strconv.FormatUint(uint64(w.Repo.Info().Index), 10), strconv.FormatUint(uint64(job), 10))
}

// poll is how often a command looks at a Job that somebody else holds.
const poll = 200 * time.Millisecond

// check makes sure that a Patchset has evidence: it runs the suites, or waits for
// the command that does.
func (w *Workspace) check(ctx context.Context, rec *recorded, rl *rules, o *Options) (*run, error) {
	out := &run{}
	var request authority.RequestID
	if _, err := rand.Read(request[:]); err != nil {
		return nil, err
	}
	enqueue := o.Rerun
	for {
		var lease *authority.Lease
		var done bool
		err := w.Repo.Update(ctx, func(tx *authority.Tx) (err error) {
			lease, done, err = w.turn(tx, rec.patchset, enqueue, request, out)
			return err
		})
		if err != nil {
			return nil, err
		}
		out.logDir = w.logDir(out.job)
		switch {
		case done:
			out.results = w.results(out.job, out.seq)
			return out, nil
		case lease != nil:
			out.ran, out.attached = true, false
			return out, w.work(ctx, rec, rl, *lease, out, o.Progress)
		}
		enqueue, out.attached = false, true
		if o.Waiting != nil {
			o.Waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w while another command ran the checks", ErrInterrupted)
		case <-time.After(poll):
		}
	}
}

// turn tells whether a Patchset has its evidence, and if not, makes sure that it
// has a Job and takes the Job's lease. Without either somebody else holds the Job,
// or it waits for its retry. Job and run are noted in out.
func (w *Workspace) turn(tx *authority.Tx, patchset uint32, enqueue bool, request authority.RequestID, out *run) (lease *authority.Lease, done bool, err error) {
	p, err := tx.Patchset(patchset)
	if err != nil {
		return nil, false, err
	}
	out.seq = p.CIRunSeq
	job, err := tx.SelectedJob(&p)
	if err != nil {
		return nil, false, err
	}
	if job != nil {
		out.job = job.Index
	}
	active := job != nil && !job.State.Terminal()
	if !active && !enqueue && p.CICompletedAt != 0 {
		return nil, true, nil
	}
	if out.job, _, err = tx.EnqueueCI(patchset); err != nil {
		return nil, false, err
	}
	if p, err = tx.Patchset(patchset); err != nil {
		return nil, false, err
	}
	out.seq = p.CIRunSeq
	lease, err = claim(tx, out.job, request)
	return lease, false, err
}

// claim takes a Job's lease, or nil when it cannot be had yet.
func claim(tx *authority.Tx, job uint32, request authority.RequestID) (*authority.Lease, error) {
	j, err := tx.LoseLease(job) // gives back what a dead holder has left
	if errors.Is(err, authority.ErrLeaseHeld) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if j.State != record.JobStateQueued || j.AvailableAt > tx.Now() {
		return nil, nil
	}
	l, err := tx.Claim(job, request)
	return &l, err
}

// results reads the detailed results of a run, which are no authority: without
// them, or with a damaged copy, the compact evidence has to do.
func (w *Workspace) results(job, seq uint32) suite.Results {
	meta, results, err := suite.ReadResults(w.logDir(job))
	if err != nil || meta.Job != job || meta.RunSequence != seq {
		return nil
	}
	return results
}

// work runs the suites of a claimed Job in a clean checkout and gives the
// Patchset its evidence. When ctx ends, the Job fails for good.
func (w *Workspace) work(ctx context.Context, rec *recorded, rl *rules, lease authority.Lease, out *run, progress func(suite.Event)) (err error) {
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	beating := make(chan struct{})
	go func() { // ends with working; extends the lease while the suites run
		defer close(beating)
		w.beat(working, &lease, stop)
	}()
	err = w.suites(working, rec, rl, lease.Attempt, out, progress)
	cause := context.Cause(working)
	stop(nil)
	<-beating
	// What follows must be recorded although the user has interrupted us.
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err != nil {
		if errors.Is(cause, authority.ErrLeaseLost) {
			return fmt.Errorf("the checks were stopped: %w", cause)
		}
		failed := w.Repo.Update(final, func(tx *authority.Tx) error { return tx.FailJob(lease, false) })
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("%w: the checks were stopped and the job has failed", ErrInterrupted), failed)
		}
		return errors.Join(err, failed)
	}
	return w.Repo.Update(final, func(tx *authority.Tx) error {
		_, err := tx.CompleteCI(lease, compact(out.results, len(rl.Suites)))
		return err
	})
}

// beat sends heartbeats until ctx ends. A lost lease ends the work.
func (w *Workspace) beat(ctx context.Context, lease *authority.Lease, stop context.CancelCauseFunc) {
	tick := time.NewTicker(w.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := w.Repo.Update(ctx, func(tx *authority.Tx) error {
			next, err := tx.Heartbeat(*lease)
			if err == nil {
				*lease = next
			}
			return err
		})
		if errors.Is(err, authority.ErrLeaseLost) {
			stop(err)
			return
		}
	}
}

func (w *Workspace) suites(ctx context.Context, rec *recorded, rl *rules, attempt uint16, out *run, progress func(suite.Event)) error {
	if err := os.MkdirAll(out.logDir, 0o700); err != nil {
		return err
	}
	if len(rl.Suites) > 0 {
		if err := w.runInCheckout(ctx, rec, rl, out, progress); err != nil {
			return err
		}
	}
	c, err := w.Git.Commit(ctx, rec.head.commit)
	if err != nil {
		return err
	}
	return suite.WriteResults(out.logDir, suite.Meta{
		Job: out.job, Attempt: uint32(attempt), RunSequence: out.seq, Commit: string(c.ID), Tree: string(c.Tree),
	}, out.results)
}

func (w *Workspace) runInCheckout(ctx context.Context, rec *recorded, rl *rules, out *run, progress func(suite.Event)) (err error) {
	began := time.Now()
	// An earlier attempt at this Job may have been killed and have left its own.
	if err := w.removeNoted(ctx, out.job); err != nil {
		return err
	}
	dir, err := w.checkoutDir(out.job)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, w.removeCheckout(context.WithoutCancel(ctx), out.job, dir))
	}()
	top := filepath.Join(dir, w.name())
	if err := w.Git.AddWorktree(ctx, top, rec.head.commit); err != nil {
		return err
	}
	out.checkout = time.Since(began)
	out.results, err = suite.Run(ctx, suite.RunOptions{Suites: rl.Suites, Dir: top, LogDir: out.logDir, Progress: progress})
	return err
}

// note is the file that remembers a checkout, so that one left by a crash is
// found again.
func (w *Workspace) note(job uint32) string {
	return filepath.Join(w.Authority.Dir(), "runtime", "checkouts", record.JobLabel(w.Repo.Info().Index, job))
}

func (w *Workspace) checkoutDir(job uint32) (string, error) {
	dir, err := os.MkdirTemp("", "writ-")
	if err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(w.note(job)), 0o700); err != nil {
		return dir, err
	}
	return dir, os.WriteFile(w.note(job), []byte(dir), 0o600)
}

func (w *Workspace) removeCheckout(ctx context.Context, job uint32, dir string) error {
	err := w.Git.RemoveWorktree(ctx, filepath.Join(dir, w.name()))
	return errors.Join(err, os.RemoveAll(dir), os.Remove(w.note(job)))
}

// sweep removes checkouts whose Job is no longer held: their command was killed.
func (w *Workspace) sweep(ctx context.Context) error {
	dir := filepath.Dir(w.note(0))
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil {
			continue
		}
		held := false
		err = w.Repo.View(ctx, func(v *authority.View) error {
			j, err := v.Job(uint32(n))
			if errors.Is(err, bindb.ErrNotFound) {
				return nil // restored to a time before the Job
			}
			if err != nil || j.State != record.JobStateRunning {
				return err
			}
			_, held, err = v.LeaseOf(&j, w.now())
			return err
		})
		if err != nil {
			return err
		}
		if held {
			continue
		}
		if err := w.removeNoted(ctx, uint32(n)); err != nil {
			return err
		}
	}
	return nil
}

// removeNoted removes the checkout that the note of a Job names, if there is one.
func (w *Workspace) removeNoted(ctx context.Context, job uint32) error {
	path, err := os.ReadFile(w.note(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !strings.HasPrefix(filepath.Base(string(path)), "writ-") {
		return os.Remove(w.note(job)) // cut off while it was written
	}
	return w.removeCheckout(ctx, job, string(path))
}

// compact is the evidence that the Patchset keeps.
func compact(results suite.Results, selected int) authority.Evidence {
	ev := results.Evidence()
	return authority.Evidence{
		Selected: uint16(selected), Results: uint16(ev.Results), BlockingFailures: uint16(ev.BlockingFailures),
		Overall: ciStatus(ev.Overall), Tests: ciStatus(ev.Tests), Lint: ciStatus(ev.Lint),
	}
}
