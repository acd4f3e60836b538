package authority_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

var errStop = errors.New("stop here")

// wantErr runs an Update that must fail with the given error.
func wantErr(t *testing.T, r *authority.Repository, want error, fn func(*authority.Tx) error) error {
	t.Helper()
	err := r.Update(context.Background(), fn)
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	return err
}

func enqueue(b *authoritytest.Bundle, patchset uint32) uint32 {
	b.TB.Helper()
	var job uint32
	b.Update(func(tx *authority.Tx) (err error) {
		job, _, err = tx.EnqueueCI(patchset)
		return err
	})
	return job
}

func claim(b *authoritytest.Bundle, job uint32) authority.Lease {
	b.TB.Helper()
	var l authority.Lease
	b.Update(func(tx *authority.Tx) (err error) {
		l, err = tx.Claim(job, authority.RequestID{})
		return err
	})
	return l
}

func job(b *authoritytest.Bundle, index uint32) (j authority.Job) {
	b.TB.Helper()
	b.View(func(v *authority.View) (err error) {
		j, err = v.Job(index)
		return err
	})
	return j
}

func patchset(b *authoritytest.Bundle, index uint32) (p authority.Patchset) {
	b.TB.Helper()
	b.View(func(v *authority.View) (err error) {
		p, err = v.Patchset(index)
		return err
	})
	return p
}

func change(b *authoritytest.Bundle, index uint32) (c authority.Change) {
	b.TB.Helper()
	b.View(func(v *authority.View) (err error) {
		c, err = v.Change(index)
		return err
	})
	return c
}

func leaseFile(b *authoritytest.Bundle) string {
	return filepath.Join(b.Options.Dir, "runtime", "leases", "4")
}

func TestRunOfAJob(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	index := enqueue(b, p.Patchset)
	b.Update(func(tx *authority.Tx) error {
		again, created, err := tx.EnqueueCI(p.Patchset)
		if again != index || created {
			t.Errorf("a queued job is not attached to: %d, %t", again, created)
		}
		return err
	})
	if ps := patchset(b, p.Patchset); ps.CIRunSeq != 1 || ps.CIJob != record.RefTo(index) || !ps.Meta.EvaluationPending() {
		t.Errorf("after enqueue: %+v", ps)
	}
	l := claim(b, index)
	if l.Token == (authority.LeaseToken{}) || l.Attempt != 1 || l.ExpiresAt-l.Heartbeat != 60 {
		t.Errorf("lease %+v", l)
	}
	b.Update(func(tx *authority.Tx) error {
		_, created, err := tx.EnqueueCI(p.Patchset)
		if created {
			t.Error("a running job is not attached to")
		}
		return err
	})
	if j := job(b, index); j.State != record.JobStateRunning || j.Attempts != 1 || j.LockedAt == 0 {
		t.Errorf("after claim: %+v", j)
	}
	b.View(func(v *authority.View) error {
		j, err := v.Job(index)
		if err != nil {
			return err
		}
		seen, ok, err := v.LeaseOf(&j, record.Seconds(b.Clock.Now().Unix()))
		if !ok || seen.ExpiresAt != l.ExpiresAt || seen.Token != (authority.LeaseToken{}) {
			t.Errorf("LeaseOf gives %+v, %t", seen, ok)
		}
		return err
	})
	b.Clock.Advance(59 * time.Second)
	b.Update(func(tx *authority.Tx) (err error) {
		l, err = tx.Heartbeat(l)
		return err
	})
	b.Clock.Advance(59 * time.Second) // past the first expiry
	b.Update(func(tx *authority.Tx) error {
		outcome, err := tx.CompleteCI(l, authoritytest.Passed)
		if outcome != record.JobOutcomeCompleted {
			t.Errorf("outcome %s", outcome)
		}
		return err
	})
	ps := patchset(b, p.Patchset)
	if ps.CICompletedAt != record.Seconds(b.Clock.Now().Unix()) || ps.CIStatus.Tests() != record.CIStatusPass || ps.CISuiteResults != 1 {
		t.Errorf("evidence %+v", ps)
	}
	if j := job(b, index); j.State != record.JobStateSucceeded || j.Outcome != record.JobOutcomeCompleted || j.LockedAt != 0 {
		t.Errorf("after completion: %+v", j)
	}
	wantErr(t, b.Repo, authority.ErrLeaseLost, func(tx *authority.Tx) error {
		_, err := tx.CompleteCI(l, authoritytest.Failed)
		return err
	})
	// A rerun is another job and clears the evidence.
	if again := enqueue(b, p.Patchset); again == index {
		t.Error("an ended job runs again")
	}
	if ps := patchset(b, p.Patchset); ps.CIRunSeq != 2 || ps.CICompletedAt != 0 || ps.CIStatus != 0 {
		t.Errorf("after the rerun was queued: %+v", ps)
	}
}

func TestClaimByRequest(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	index := enqueue(b, b.Publish().Patchset)
	mine, yours := authority.RequestID{1}, authority.RequestID{2}
	var first authority.Lease
	b.Update(func(tx *authority.Tx) (err error) {
		first, err = tx.Claim(index, mine)
		return err
	})
	b.Clock.Advance(10 * time.Second)
	b.Update(func(tx *authority.Tx) error {
		again, err := tx.Claim(index, mine)
		if again != first {
			t.Errorf("the same request got %+v, want %+v", again, first)
		}
		return err
	})
	err := wantErr(t, b.Repo, authority.ErrLeaseHeld, func(tx *authority.Tx) error {
		_, err := tx.Claim(index, yours)
		return err
	})
	if !strings.Contains(err.Error(), first.ExpiresAt.String()) {
		t.Errorf("%q does not say until when", err)
	}
	// The request survives heartbeats, whatever the holder passes.
	b.Update(func(tx *authority.Tx) error {
		_, err := tx.Heartbeat(authority.Lease{Job: index, Attempt: first.Attempt, Token: first.Token})
		return err
	})
	b.Update(func(tx *authority.Tx) error {
		again, err := tx.Claim(index, mine)
		if again.Token != first.Token {
			t.Error("the request was forgotten")
		}
		return err
	})
	// No request id matches no other one.
	other := enqueue(b, b.Publish().Patchset)
	claim(b, other)
	wantErr(t, b.Repo, authority.ErrLeaseHeld, func(tx *authority.Tx) error {
		_, err := tx.Claim(other, authority.RequestID{})
		return err
	})
}

func TestLostLease(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	index := enqueue(b, b.Publish().Patchset)
	lose := func() (j authority.Job) {
		b.Update(func(tx *authority.Tx) (err error) {
			j, err = tx.LoseLease(index)
			return err
		})
		return j
	}
	for attempt := uint16(1); attempt <= 3; attempt++ {
		l := claim(b, index)
		if l.Attempt != attempt {
			t.Fatalf("attempt %d, want %d", l.Attempt, attempt)
		}
		wantErr(t, b.Repo, authority.ErrLeaseHeld, func(tx *authority.Tx) error {
			_, err := tx.LoseLease(index)
			return err
		})
		b.Clock.Advance(60 * time.Second) // the instant of expiry is too late
		for name, verb := range map[string]func(*authority.Tx) error{
			"heartbeat":  func(tx *authority.Tx) error { _, err := tx.Heartbeat(l); return err },
			"completion": func(tx *authority.Tx) error { _, err := tx.CompleteCI(l, authoritytest.Passed); return err },
			"failure":    func(tx *authority.Tx) error { return tx.FailJob(l, true) },
		} {
			if err := b.Repo.Update(context.Background(), verb); !errors.Is(err, authority.ErrLeaseLost) {
				t.Errorf("%s after expiry: %v", name, err)
			}
		}
		// A claim does not take over by itself and says what is needed.
		err := wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error {
			_, err := tx.Claim(index, authority.RequestID{})
			return err
		})
		if !strings.Contains(err.Error(), "queued again") {
			t.Errorf("%q does not say what to do", err)
		}
		j := lose()
		if attempt == 3 {
			if j.State != record.JobStateFailed || j.Error != record.JobErrorLeaseExpired || j.Outcome != record.JobOutcomeFailed {
				t.Errorf("after the last attempt: %+v", j)
			}
			break
		}
		if j.State != record.JobStateQueued || j.Error != record.JobErrorLeaseExpired || j.AvailableAt != record.Seconds(b.Clock.Now().Unix())+15 {
			t.Errorf("after attempt %d: %+v", attempt, j)
		}
		err = wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error {
			_, err := tx.Claim(index, authority.RequestID{})
			return err
		})
		if !strings.Contains(err.Error(), "waits until "+j.AvailableAt.String()) {
			t.Errorf("%q does not say until when", err)
		}
		b.Clock.Advance(15 * time.Second)
	}
	if j := lose(); j.State != record.JobStateFailed {
		t.Errorf("an ended job changed: %+v", j)
	}
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error {
		_, err := tx.Claim(index, authority.RequestID{})
		return err
	})
}

func TestLostLeaseAfterAWrongClock(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	index := enqueue(b, b.Publish().Patchset)
	b.Clock.Advance(365 * 24 * time.Hour)
	claim(b, index)
	b.Clock.Advance(-365 * 24 * time.Hour) // set right
	b.Update(func(tx *authority.Tx) error {
		j, err := tx.LoseLease(index)
		if want := tx.Now() + 15; j.AvailableAt != want {
			t.Errorf("available at %s, want %s", j.AvailableAt, want)
		}
		return err
	})
	b.Clock.Advance(15 * time.Second)
	claim(b, index)
}

func TestFailedJob(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	index := enqueue(b, p.Patchset)
	l := claim(b, index)
	b.Update(func(tx *authority.Tx) error { return tx.FailJob(l, true) })
	if j := job(b, index); j.State != record.JobStateQueued || j.Error != record.JobErrorRetryable {
		t.Errorf("a retryable failure left %+v", j)
	}
	b.Clock.Advance(15 * time.Second)
	l = claim(b, index)
	b.Update(func(tx *authority.Tx) error { return tx.FailJob(l, false) }) // as after Ctrl-C
	if j := job(b, index); j.State != record.JobStateFailed || j.Error != record.JobErrorTerminal || j.Attempts != 2 {
		t.Errorf("a terminal failure left %+v", j)
	}
	if ps := patchset(b, p.Patchset); ps.CICompletedAt != 0 || ps.CIJob != record.RefTo(index) {
		t.Errorf("a failed job left evidence: %+v", ps)
	}
	next := enqueue(b, p.Patchset)
	for range 3 {
		l = claim(b, next)
		b.Update(func(tx *authority.Tx) error { return tx.FailJob(l, true) })
		b.Clock.Advance(15 * time.Second)
	}
	if j := job(b, next); j.State != record.JobStateFailed || j.Error != record.JobErrorTerminal {
		t.Errorf("the last retryable failure left %+v", j)
	}
}

// TestSupersededJob forces a newer selection, as a rerun by another writer of the
// format may.
func TestSupersededJob(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	old := enqueue(b, p.Patchset)
	l := claim(b, old)
	err := b.Repo.Root().Update(context.Background(), func(tx *bindb.Tx) error {
		j, err := bindb.WorkerJobs.Get(tx, old)
		if err != nil {
			return err
		}
		j.State, j.Attempts, j.LockedAt = record.JobStateQueued, 0, 0
		next, err := bindb.WorkerJobs.Append(tx, j)
		if err != nil {
			return err
		}
		rec, err := bindb.Patchsets.Get(tx, p.Patchset)
		if err != nil {
			return err
		}
		rec.CIJob = record.RefTo(next)
		rec.CIRunSeq++
		return bindb.Patchsets.Put(tx, p.Patchset, rec)
	})
	if err != nil {
		t.Fatal(err)
	}
	before := patchset(b, p.Patchset)
	b.Update(func(tx *authority.Tx) error {
		outcome, err := tx.CompleteCI(l, authoritytest.Passed)
		if outcome != record.JobOutcomeSuperseded {
			t.Errorf("outcome %s", outcome)
		}
		return err
	})
	if after := patchset(b, p.Patchset); after != before {
		t.Errorf("a superseded job changed the patchset: %+v", after)
	}
	if j := job(b, old); j.State != record.JobStateSucceeded || j.Outcome != record.JobOutcomeSuperseded {
		t.Errorf("superseded job: %+v", j)
	}
}

// TestLateEvidence: a job of a Patchset that is no longer selected gives it its
// evidence and leaves the readiness of the Change alone.
func TestLateEvidence(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	first := b.Publish()
	l := claim(b, enqueue(b, first.Patchset))
	second := b.Next(first)
	b.Update(func(tx *authority.Tx) error {
		_, _, err := tx.Decide(second.Patchset, authority.PolicyInput{})
		return err
	})
	if c := change(b, first.Change); !c.Meta.ReadyToLand() {
		t.Fatalf("the change is not ready: %+v", c.Meta)
	}
	b.Update(func(tx *authority.Tx) error {
		_, err := tx.CompleteCI(l, authoritytest.Failed)
		return err
	})
	if c := change(b, first.Change); !c.Meta.ReadyToLand() || c.Meta.ValidationPending() {
		t.Errorf("late evidence about another patchset changed the change: %+v", c.Meta)
	}
	if p := patchset(b, first.Patchset); p.CIStatus.Overall() != record.CIStatusFail || !p.Meta.EvaluationPending() {
		t.Errorf("the evidence is missing: %+v", p)
	}
}

func TestInvalidEvidence(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	l := claim(b, enqueue(b, p.Patchset))
	for _, ev := range []authority.Evidence{
		{}, // no overall result
		{Selected: 1, Results: 2, Overall: record.CIStatusPass},
		{Selected: 2, Results: 1, BlockingFailures: 2, Overall: record.CIStatusFail},
	} {
		wantErr(t, b.Repo, bindb.ErrInvalid, func(tx *authority.Tx) error {
			_, err := tx.CompleteCI(l, ev)
			return err
		})
	}
	b.Update(func(tx *authority.Tx) error { _, err := tx.CompleteCI(l, authoritytest.Passed); return err })
}

func TestSecondProcessSeesTheLease(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	index := enqueue(b, p.Patchset)
	other := b.Second()
	l := claim(b, index)
	wantErr(t, other, authority.ErrLeaseHeld, func(tx *authority.Tx) error {
		_, err := tx.Claim(index, authority.RequestID{9})
		return err
	})
	wantErr(t, other, authority.ErrLeaseHeld, func(tx *authority.Tx) error {
		_, err := tx.LoseLease(index)
		return err
	})
	wantErr(t, other, authority.ErrLeaseLost, func(tx *authority.Tx) error {
		forged := l
		forged.Token[0] ^= 1
		_, err := tx.Heartbeat(forged)
		return err
	})
	// Whoever has the token is the holder.
	if err := other.Update(context.Background(), func(tx *authority.Tx) error {
		_, err := tx.CompleteCI(l, authoritytest.Passed)
		return err
	}); err != nil {
		t.Error(err)
	}
}

// restore opens the authority as a restore leaves it, one epoch later.
func restore(b *authoritytest.Bundle) {
	t := b.TB
	t.Helper()
	path := filepath.Join(b.Options.Dir, "active.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var active map[string]any
	if err := json.Unmarshal(raw, &active); err != nil {
		t.Fatal(err)
	}
	active["epoch"] = 2
	if raw, err = json.Marshal(active); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b.Reopen()
}

func TestRestoredEpochVoidsLeases(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	index := enqueue(b, b.Publish().Patchset)
	l := claim(b, index)
	restore(b)
	if got := b.Authority.Epoch(); got != 2 {
		t.Fatalf("epoch %d", got)
	}
	wantErr(t, b.Repo, authority.ErrLeaseLost, func(tx *authority.Tx) error {
		_, err := tx.CompleteCI(l, authoritytest.Passed)
		return err
	})
	b.Update(func(tx *authority.Tx) error { _, err := tx.LoseLease(index); return err })
	b.Clock.Advance(15 * time.Second)
	claim(b, index)
}

func TestReplicaIsDisposable(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string, whole []byte) error{
		"removed":            func(path string, _ []byte) error { return os.Remove(path) },
		"empty":              func(path string, _ []byte) error { return os.Truncate(path, 0) },
		"cut in its header":  func(path string, _ []byte) error { return os.Truncate(path, 100) },
		"cut in a slot":      func(path string, _ []byte) error { return os.Truncate(path, 512+700) },
		"of another version": func(path string, w []byte) error { w[8] = 4; return os.WriteFile(path, w, 0o600) },
		"random": func(path string, w []byte) error {
			if _, err := authoritytest.NewRandom(3).Read(w); err != nil {
				return err
			}
			return os.WriteFile(path, w, 0o600)
		},
		"of another repository": func(path string, w []byte) error {
			return os.WriteFile(path, w, 0o600) // written as Repository 5's below
		},
		"as large as a disk": func(path string, _ []byte) error { return os.Truncate(path, 1<<40) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := authoritytest.Setup(t)
			// Several writes, so that the old sectors have high sequence numbers.
			first, second := enqueue(b, b.Publish().Patchset), enqueue(b, b.Publish().Patchset)
			old, kept := claim(b, first), claim(b, second)
			for range 5 {
				b.Update(func(tx *authority.Tx) (err error) { old, err = tx.Heartbeat(old); return err })
				b.Update(func(tx *authority.Tx) (err error) { kept, err = tx.Heartbeat(kept); return err })
			}
			raw, err := os.ReadFile(leaseFile(b))
			if err != nil {
				t.Fatal(err)
			}
			if name == "of another repository" {
				raw = foreignReplica(t)
			}
			if err := damage(leaseFile(b), raw); err != nil {
				t.Fatal(err)
			}
			b.Reopen()
			wantErr(t, b.Repo, authority.ErrLeaseLost, func(tx *authority.Tx) error {
				_, err := tx.Heartbeat(kept)
				return err
			})
			b.Update(func(tx *authority.Tx) error { _, err := tx.LoseLease(second); return err })
			b.Clock.Advance(15 * time.Second)
			l := claim(b, second)
			b.Update(func(tx *authority.Tx) (err error) { l, err = tx.Heartbeat(l); return err })
			b.Update(func(tx *authority.Tx) error { _, err := tx.CompleteCI(l, authoritytest.Passed); return err })
		})
	}
}

// foreignReplica is the lease file of Repository 5 of another authority, whose
// jobs have the same indexes.
func foreignReplica(t *testing.T) []byte {
	t.Helper()
	b := authoritytest.Setup(t)
	index, _, err := b.Authority.AddRepository(context.Background(), "other", record.Namespace{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if b.Repo, err = b.Authority.Repository(context.Background(), index); err != nil {
		t.Fatal(err)
	}
	claim(b, enqueue(b, b.Publish().Patchset))
	claim(b, enqueue(b, b.Publish().Patchset))
	raw, err := os.ReadFile(filepath.Join(b.Options.Dir, "runtime", "leases", "5"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestTornHeartbeat damages either sector of a slot in turn: the entry before the
// torn one counts.
func TestTornHeartbeat(t *testing.T) {
	t.Parallel()
	for sector := range 2 {
		t.Run(fmt.Sprint("sector ", sector), func(t *testing.T) {
			t.Parallel()
			b := authoritytest.Setup(t)
			index := enqueue(b, b.Publish().Patchset)
			l := claim(b, index) // sector 0
			b.Clock.Advance(30 * time.Second)
			b.Update(func(tx *authority.Tx) (err error) { l, err = tx.Heartbeat(l); return err }) // sector 1
			raw, err := os.ReadFile(leaseFile(b))
			if err != nil {
				t.Fatal(err)
			}
			raw[512*(1+sector)+70] ^= 0xff
			if err := os.WriteFile(leaseFile(b), raw, 0o600); err != nil {
				t.Fatal(err)
			}
			b.Reopen()
			b.Clock.Advance(31 * time.Second) // only the heartbeat holds it now
			err = b.Repo.Update(context.Background(), func(tx *authority.Tx) error { _, err := tx.Heartbeat(l); return err })
			if lost := errors.Is(err, authority.ErrLeaseLost); lost != (sector == 1) {
				t.Errorf("sector %d torn: %v", sector, err)
			}
		})
	}
}

// TestClaimsAtOnce: mutations of one batch share its commit, and each must see
// the leases of those before it.
func TestClaimsAtOnce(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	const n = 24
	jobs := make([]uint32, n)
	for i := range jobs {
		jobs[i] = enqueue(b, b.Publish().Patchset)
	}
	var wg sync.WaitGroup
	leases := make([][]authority.Lease, n)
	var mu sync.Mutex
	for i, index := range jobs {
		for range 3 {
			wg.Go(func() {
				err := b.Repo.Update(context.Background(), func(tx *authority.Tx) error {
					// A rival that finds the job running tries to take it away.
					if _, err := tx.LoseLease(index); err != nil {
						return err
					}
					l, err := tx.Claim(index, authority.RequestID{})
					if err != nil {
						return err
					}
					mu.Lock()
					defer mu.Unlock()
					leases[i] = append(leases[i], l)
					return nil
				})
				if err != nil && !errors.Is(err, authority.ErrLeaseHeld) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for i, got := range leases {
		if len(got) != 1 {
			t.Fatalf("job %d was given out %d times", i, len(got))
		}
		b.Update(func(tx *authority.Tx) error {
			_, err := tx.CompleteCI(got[0], authoritytest.Passed)
			return err
		})
	}
}

// TestSlotsAreUsedAgain: the file grows with the leases at one time, not with the
// history.
func TestSlotsAreUsedAgain(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	for i := range 40 {
		l := claim(b, enqueue(b, b.Publish().Patchset))
		if i%2 == 0 {
			b.Update(func(tx *authority.Tx) error { _, err := tx.CompleteCI(l, authoritytest.Passed); return err })
		} else {
			b.Clock.Advance(time.Minute) // its holder has died
		}
	}
	info, err := os.Stat(leaseFile(b))
	if err != nil || info.Size() != (1+2*32)*512 {
		t.Errorf("the lease file has %d bytes, want room for 32 leases: %v", info.Size(), err)
	}
}

// TestLeaseSyncFails: a claim whose lease could not be made durable has not happened.
// The file of leases begins anew with the next one, and keeps the leases that count.
func TestLeaseSyncFails(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("own=", own), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			fs, clock := vfs.NewSim(), authoritytest.NewClock()
			o := authority.Options{Dir: "/data", FS: fs, Clock: clock.Now, Random: authoritytest.NewRandom(4), Own: own}
			open := func() *authority.Repository {
				a, err := authority.Open(ctx, o)
				if err != nil {
					t.Fatal(err)
				}
				r, err := a.Repository(ctx, authority.FirstRepository)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			if err := createIn(o); err != nil {
				t.Fatal(err)
			}
			r := open()
			for range 2 {
				if _, _, err := r.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindContentGC}); err != nil {
					t.Fatal(err)
				}
			}
			first, err := r.ClaimJob(ctx, 0, authority.RequestID{})
			if err != nil {
				t.Fatal(err)
			}
			fs.Fail(func(op vfs.Op) error {
				if op.Kind == vfs.OpSync && strings.Contains(op.Path, "/leases/") {
					return syscall.EIO
				}
				return nil
			})
			if _, err := r.ClaimJob(ctx, 1, authority.RequestID{}); !errors.Is(err, syscall.EIO) {
				t.Errorf("claim: %v", err)
			}
			if _, err := r.HeartbeatJob(ctx, first); !errors.Is(err, syscall.EIO) {
				t.Errorf("heartbeat: %v", err)
			}
			fs.Fail(nil)
			if err := r.View(ctx, func(v *authority.View) error {
				j, err := v.Job(1)
				if j.State != record.JobStateQueued || j.Attempts != 0 {
					t.Errorf("the claim that failed left %+v", j)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			clock.Advance(time.Second)
			second, err := r.ClaimJob(ctx, 1, authority.RequestID{})
			if err != nil {
				t.Fatal(err)
			}
			fs.Capture()
			for state := range fs.CrashStates(fs.OpCount(), vfs.Policy{}) {
				o.FS = state
				r := open()
				for _, l := range []authority.Lease{first, second} {
					if _, err := r.HeartbeatJob(ctx, l); err != nil {
						t.Errorf("%s: job %d: %v", state.Origin(), l.Job, err)
					}
				}
			}
		})
	}
}
