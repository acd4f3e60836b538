package authority_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// clockNow is the bundle's clock in seconds.
func clockNow(b *authoritytest.Bundle) record.Seconds { return record.Seconds(b.Clock.Now().Unix()) }

func jobCount(b *authoritytest.Bundle) (n uint32) {
	b.TB.Helper()
	b.View(func(v *authority.View) (err error) {
		n, err = bindb.WorkerJobs.Count(v)
		return err
	})
	return n
}

func TestEnqueueEveryKind(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	p := b.Publish()
	none, patchset, snapshot := record.Ref(0), record.RefTo(p.Patchset), record.RefTo(p.Revision)
	for kind := range record.JobKind(20) {
		want := uint32(0) // how many of the four patterns are accepted
		switch kind {
		case 2, 3, 4, 5, 7, 8, 9, 10, 11:
			want = 1
		case 6:
			want = 2
		}
		got := uint32(0)
		for _, ps := range []record.Ref{none, patchset} {
			for _, snap := range []record.Ref{none, snapshot} {
				before := jobCount(b)
				index, created, err := b.Repo.EnqueueJob(ctx, authority.JobSpec{Kind: kind, Patchset: ps, Snapshot: snap})
				if err != nil {
					if !errors.Is(err, bindb.ErrInvalid) || jobCount(b) != before {
						t.Errorf("kind %d with %d and %d: %v, %d jobs more", kind, ps, snap, err, jobCount(b)-before)
					}
					continue
				}
				got++
				j := job(b, index)
				if !created || index != before || j.Kind != kind || j.Patchset != ps || j.Snapshot != snap ||
					j.State != record.JobStateQueued || j.MaxAttempts != 3 || j.AvailableAt != clockNow(b) || j.CreatedAt != clockNow(b) {
					t.Errorf("kind %d: job %d, created %t: %+v", kind, index, created, j)
				}
				patchsetFits := (ps != 0) == (kind.PatchsetNeed() == record.NeedRequired)
				snapshotFits := kind.SnapshotNeed() == record.NeedOptional || (snap != 0) == (kind.SnapshotNeed() == record.NeedRequired)
				if !patchsetFits || !snapshotFits {
					t.Errorf("kind %d was accepted with %d and %d", kind, ps, snap)
				}
			}
		}
		if got != want {
			t.Errorf("kind %d: %d patterns of references are accepted, want %d", kind, got, want)
		}
	}
}

func TestEnqueueDetails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	p := b.Publish()
	later := clockNow(b) + 100
	index, _, err := b.Repo.EnqueueJob(ctx, authority.JobSpec{
		Kind: record.JobKindRepoCI, Snapshot: record.RefTo(p.Revision), AvailableAt: later, MaxAttempts: 9,
	})
	if err != nil {
		t.Fatal(err)
	}
	if j := job(b, index); j.AvailableAt != later || j.MaxAttempts != 9 {
		t.Errorf("job %+v", j)
	}
	if _, err := b.Repo.ClaimJob(ctx, index, authority.RequestID{}); !errors.Is(err, authority.ErrState) {
		t.Errorf("a job was claimed before its time: %v", err)
	}
	// Only patchset.ci attaches to an active Job.
	for _, kind := range []record.JobKind{record.JobKindPatchsetCI, record.JobKindPolicyEvaluate, record.JobKindPatchsetCIAggregate} {
		s := authority.JobSpec{Kind: kind, Patchset: record.RefTo(p.Patchset)}
		first, _, err := b.Repo.EnqueueJob(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		second, created, err := b.Repo.EnqueueJob(ctx, s)
		if err != nil || created != (kind != record.JobKindPatchsetCI) || created != (first != second) {
			t.Errorf("%s twice: jobs %d and %d, created %t: %v", kind, first, second, created, err)
		}
	}
	before := patchset(b, p.Patchset)
	for _, outcome := range []record.JobOutcome{record.JobOutcomeAttached, record.JobOutcomeSkipped, record.JobOutcomeSuperseded} {
		index, created, err := b.Repo.EnqueueJob(ctx, authority.JobSpec{
			Kind: record.JobKindPatchsetCI, Patchset: record.RefTo(p.Patchset), Outcome: outcome,
		})
		if err != nil || !created {
			t.Fatalf("%s: created %t: %v", outcome, created, err)
		}
		if j := job(b, index); j.State != record.JobStateSucceeded || j.Outcome != outcome || j.Attempts != 0 || j.Error != 0 || j.LockedAt != 0 {
			t.Errorf("%s: %+v", outcome, j)
		}
	}
	if after := patchset(b, p.Patchset); after != before {
		t.Errorf("a job that did not run was selected: %+v", after)
	}
	for name, c := range map[string]struct {
		spec authority.JobSpec
		want error
	}{
		"completed":           {authority.JobSpec{Kind: record.JobKindContentGC, Outcome: record.JobOutcomeCompleted}, bindb.ErrInvalid},
		"failed":              {authority.JobSpec{Kind: record.JobKindContentGC, Outcome: record.JobOutcomeFailed}, bindb.ErrInvalid},
		"absent patchset":     {authority.JobSpec{Kind: record.JobKindPatchsetCI, Patchset: record.RefTo(77)}, bindb.ErrNotFound},
		"absent snapshot":     {authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(77)}, bindb.ErrNotFound},
		"the greatest index":  {authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: ^record.Ref(0)}, bindb.ErrNotFound},
		"absent prior":        {authority.JobSpec{Kind: record.JobKindMainSeedRefresh, Patchset: record.RefTo(0), Snapshot: record.RefTo(77)}, bindb.ErrNotFound},
		"an unknown outcome":  {authority.JobSpec{Kind: record.JobKindContentGC, Outcome: 9}, bindb.ErrInvalid},
		"a kind that is void": {authority.JobSpec{Kind: 1}, bindb.ErrInvalid},
	} {
		n := jobCount(b)
		if _, _, err := b.Repo.EnqueueJob(ctx, c.spec); !errors.Is(err, c.want) || jobCount(b) != n {
			t.Errorf("%s: %v, %d new jobs", name, err, jobCount(b)-n)
		}
	}
}

// TestEnqueueRemovedTargets: what was removed is no target, and a Job whose target
// was removed meanwhile is not handed out.
func TestEnqueueRemovedTargets(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	p := b.Publish()
	spec := authority.JobSpec{Kind: record.JobKindPolicyEvaluate, Patchset: record.RefTo(p.Patchset)}
	index, _, err := b.Repo.EnqueueJob(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	err = b.Repo.Root().Update(ctx, func(tx *bindb.Tx) error {
		c, err := bindb.Changes.Get(tx, p.Change)
		if err != nil {
			return err
		}
		c.RemoteMeta.SetDeleted(true)
		return bindb.Changes.Put(tx, p.Change, c)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Repo.EnqueueJob(ctx, spec); !errors.Is(err, bindb.ErrNotFound) {
		t.Errorf("a patchset of a deleted change is a target: %v", err)
	}
	if _, err := b.Repo.ClaimJob(ctx, index, authority.RequestID{}); !errors.Is(err, bindb.ErrNotFound) {
		t.Errorf("a job about nothing was claimed: %v", err)
	}
	other, _, err := b.Repo.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindContentGC})
	if err != nil {
		t.Fatal(err)
	}
	c, ok, err := b.Authority.ClaimNext(ctx, authority.ClaimFilter{})
	if err != nil || !ok || c.Job.Index != other {
		t.Errorf("claimed %+v, %t: %v; want job %d behind the one that can't be", c.Job, ok, err, other)
	}
	if c, ok, err := b.Authority.ClaimNext(ctx, authority.ClaimFilter{}); err != nil || ok {
		t.Errorf("claimed %+v: %v", c.Job, err)
	}
}

// TestEnqueueAdopts: an interruption of another writer between Job and Patchset
// leaves a Job that nobody has selected. The next enqueue selects it.
func TestEnqueueAdopts(t *testing.T) {
	t.Parallel()
	for _, between := range []int{0, 300} {
		for _, state := range []record.JobState{record.JobStateQueued, record.JobStateRunning, record.JobStateFailed} {
			t.Run(fmt.Sprint(state, " behind ", between), func(t *testing.T) {
				t.Parallel()
				ctx := context.Background()
				b := authoritytest.Setup(t)
				p := b.Publish()
				first := enqueue(b, p.Patchset)
				l := claim(b, first)
				if err := b.Repo.FailJob(ctx, l, false); err != nil {
					t.Fatal(err)
				}
				var orphan uint32
				err := b.Repo.Root().Update(ctx, func(tx *bindb.Tx) (err error) {
					j := record.WorkerJob{
						Kind: record.JobKindPatchsetCI, State: state, MaxAttempts: 3, Patchset: record.RefTo(p.Patchset),
						AvailableAt: clockNow(b), CreatedAt: clockNow(b), UpdatedAt: clockNow(b),
					}
					switch state {
					case record.JobStateRunning:
						j.Attempts, j.LockedAt = 1, clockNow(b)
					case record.JobStateFailed:
						j.Outcome, j.Error = record.JobOutcomeFailed, record.JobErrorTerminal
					}
					if orphan, err = bindb.WorkerJobs.Append(tx, j); err != nil {
						return err
					}
					for range between {
						if _, err := bindb.WorkerJobs.Append(tx, record.WorkerJob{
							Kind: record.JobKindContentGC, State: record.JobStateQueued, MaxAttempts: 1,
							AvailableAt: clockNow(b), CreatedAt: clockNow(b), UpdatedAt: clockNow(b),
						}); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				n := jobCount(b)
				index, created, err := b.Repo.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindPatchsetCI, Patchset: record.RefTo(p.Patchset)})
				if err != nil {
					t.Fatal(err)
				}
				if adopts := state != record.JobStateFailed; created == adopts || (index == orphan) != adopts || (jobCount(b) == n) != adopts {
					t.Errorf("enqueue gives job %d, created %t; the orphan is %d", index, created, orphan)
				}
				if ps := patchset(b, p.Patchset); ps.CIJob != record.RefTo(index) || ps.CIRunSeq != 2 {
					t.Errorf("the patchset selects %+v", ps)
				}
			})
		}
	}
}

// twoRepositories gives the bundle a second user Repository, at index 5.
func twoRepositories(b *authoritytest.Bundle) *authority.Repository {
	b.TB.Helper()
	ctx := context.Background()
	index, _, err := b.Authority.AddRepository(ctx, "gadgets", record.Namespace{}, 0)
	if err != nil {
		b.TB.Fatal(err)
	}
	r, err := b.Authority.Repository(ctx, index)
	if err != nil {
		b.TB.Fatal(err)
	}
	return r
}

func gc(b *authoritytest.Bundle, r *authority.Repository, kind record.JobKind, after int) string {
	b.TB.Helper()
	i, _, err := r.EnqueueJob(context.Background(), authority.JobSpec{Kind: kind, AvailableAt: clockNow(b) + record.Seconds(after)})
	if err != nil {
		b.TB.Fatal(err)
	}
	return fmt.Sprint(r.Info().Index, "/", i)
}

// next claims what is next, as repository/job, or "" when there is nothing.
func next(t *testing.T, a *authority.Authority, f authority.ClaimFilter) string {
	t.Helper()
	c, ok, err := a.ClaimNext(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return ""
	}
	if c.Lease.Job != c.Job.Index || c.Job.State != record.JobStateRunning || c.Lease.Token == (authority.LeaseToken{}) {
		t.Errorf("claimed %+v with %+v", c.Job, c.Lease)
	}
	return fmt.Sprint(c.Repository.Info().Index, "/", c.Job.Index)
}

func TestClaimNextOrder(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	second := twoRepositories(b)
	const collect, pack = record.JobKindContentGC, record.JobKindContentPack
	e := gc(b, second, collect, 30)
	c := gc(b, second, collect, 10)
	d := gc(b, second, collect, 10)
	bb := gc(b, b.Repo, collect, 10)
	a := gc(b, b.Repo, pack, 5)
	f := gc(b, b.Repo, collect, 31)
	if got := next(t, b.Authority, authority.ClaimFilter{}); got != "" {
		t.Errorf("%s was claimed before its time", got)
	}
	b.Clock.Advance(30 * time.Second)
	if got := next(t, b.Authority, authority.ClaimFilter{Repositories: []uint32{0, 1}}); got != "" {
		t.Errorf("the filter let %s pass", got)
	}
	if got := next(t, b.Authority, authority.ClaimFilter{Kinds: []record.JobKind{collect}}); got != bb {
		t.Errorf("first of its kind: %s, want %s", got, bb)
	}
	if got := next(t, b.Authority, authority.ClaimFilter{Repositories: []uint32{5}}); got != c {
		t.Errorf("first of its repository: %s, want %s", got, c)
	}
	for _, want := range []string{a, d, e, ""} {
		if got := next(t, b.Authority, authority.ClaimFilter{}); got != want {
			t.Errorf("next is %q, want %q", got, want)
		}
	}
	b.Clock.Advance(time.Second)
	if got := next(t, b.Authority, authority.ClaimFilter{}); got != f {
		t.Errorf("next is %q, want %q", got, f)
	}
}

func TestClaimNextByRequest(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	second := twoRepositories(b)
	gc(b, second, record.JobKindContentGC, 0)
	f := authority.ClaimFilter{Request: authority.RequestID{7}}
	first, ok, err := b.Authority.ClaimNext(ctx, f)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	gc(b, b.Repo, record.JobKindContentGC, -10) // would be first
	b.Clock.Advance(20 * time.Second)
	for range 2 {
		again, ok, err := b.Authority.ClaimNext(ctx, f)
		if err != nil || !ok || again.Lease != first.Lease || again.Repository != first.Repository {
			t.Errorf("the same request got %+v, %t: %v; want %+v", again.Lease, ok, err, first.Lease)
		}
		b.Reopen() // the lease outlives the process
		if first.Repository, err = b.Authority.Repository(ctx, 5); err != nil {
			t.Fatal(err)
		}
	}
	if got := next(t, b.Authority, authority.ClaimFilter{Request: authority.RequestID{8}}); got != "4/0" {
		t.Errorf("another request got %q", got)
	}
	// A request whose lease has ended is a new one.
	if _, err := first.Repository.CompleteJob(ctx, first.Lease, authority.JobResult{Outcome: record.JobOutcomeCompleted}); err != nil {
		t.Fatal(err)
	}
	third := gc(b, b.Repo, record.JobKindContentGC, 0)
	if got := next(t, b.Authority, f); got != third {
		t.Errorf("after the end of its lease the request got %q, want %q", got, third)
	}
}

// TestClaimNextAtOnce: many workers, some with the same request id, get every Job
// once.
func TestClaimNextAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	repos := []*authority.Repository{b.Repo, twoRepositories(b)}
	const n = 30
	for i := range n {
		gc(b, repos[i%2], record.JobKindContentGC, -i%7)
	}
	var mu sync.Mutex
	got := map[string]authority.LeaseToken{}
	var wg sync.WaitGroup
	for i := range n {
		for range 2 { // and its repetition
			wg.Go(func() {
				c, ok, err := b.Authority.ClaimNext(ctx, authority.ClaimFilter{Request: authority.RequestID{byte(i), 1}})
				if err != nil || !ok {
					t.Errorf("claim %d: %t %v", i, ok, err)
					return
				}
				name := fmt.Sprint(c.Repository.Info().Index, "/", c.Job.Index)
				mu.Lock()
				defer mu.Unlock()
				if token, again := got[name]; again && token != c.Lease.Token {
					t.Errorf("job %s has two leases", name)
				}
				got[name] = c.Lease.Token
			})
		}
	}
	wg.Wait()
	if len(got) != n {
		t.Errorf("%d of %d jobs were handed out", len(got), n)
	}
}

func TestRetiringRepositoryDrains(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	p := b.Publish()
	ci := enqueue(b, p.Patchset)
	for range 3 {
		gc(b, b.Repo, record.JobKindContentGC, 1)
	}
	if _, err := b.Authority.Retire(ctx, 4); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Repo.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindContentGC}); !errors.Is(err, authority.ErrNotActive) {
		t.Errorf("a retiring repository takes jobs: %v", err)
	}
	c, ok, err := b.Authority.ClaimNext(ctx, authority.ClaimFilter{})
	if err != nil || !ok || c.Job.Index != ci {
		t.Fatalf("claimed %+v: %v", c, err)
	}
	l, err := b.Repo.HeartbeatJob(ctx, c.Lease)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Repo.CompleteJob(ctx, l, authority.JobResult{Outcome: record.JobOutcomeCompleted, Evidence: &authoritytest.Passed}); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(time.Second)
	c, _, err = b.Authority.ClaimNext(ctx, authority.ClaimFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Repo.FailJob(ctx, c.Lease, false); err != nil {
		t.Fatal(err)
	}
	if got := next(t, b.Authority, authority.ClaimFilter{}); got != "4/2" {
		t.Errorf("claimed %s", got)
	}
	b.Clock.Advance(time.Minute)
	if n, err := b.Authority.ExpireLeases(ctx); n != 1 || err != nil {
		t.Errorf("%d leases have expired: %v", n, err)
	}
	if _, err := b.Authority.Purge(ctx, 4, nil); err == nil {
		t.Error("a repository with queued jobs was purged")
	}
}

func TestExpireLeases(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	second := twoRepositories(b)
	for range 5 {
		gc(b, b.Repo, record.JobKindContentGC, 0)
		gc(b, second, record.JobKindContentGC, 0)
	}
	var held []authority.Claimed
	for range 8 {
		c, ok, err := b.Authority.ClaimNext(ctx, authority.ClaimFilter{})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		held = append(held, c)
	}
	expire := func(want int) {
		t.Helper()
		if n, err := b.Authority.ExpireLeases(ctx); n != want || err != nil {
			t.Errorf("%d leases have expired, want %d: %v", n, want, err)
		}
	}
	expire(0)
	b.Clock.Advance(30 * time.Second)
	if _, err := held[0].Repository.HeartbeatJob(ctx, held[0].Lease); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(30 * time.Second)
	expire(7)
	expire(0)
	if j := job(b, held[1].Job.Index); j.State != record.JobStateQueued || j.Error != record.JobErrorLeaseExpired || j.AvailableAt != clockNow(b)+15 {
		t.Errorf("after expiry: %+v", j)
	}
	// Two were never claimed, and the others wait for their retry.
	for _, want := range []string{"5/3", "5/4", ""} {
		if got := next(t, b.Authority, authority.ClaimFilter{}); got != want {
			t.Errorf("next is %q, want %q", got, want)
		}
	}
	b.Clock.Advance(time.Minute) // the claim gives back what is left by itself
	if got := next(t, b.Authority, authority.ClaimFilter{}); got != "4/1" {
		t.Errorf("next is %q, want 4/1", got)
	}
	if j := job(b, held[0].Job.Index); j.State != record.JobStateQueued {
		t.Errorf("a claim does not give back: %+v", j)
	}
}

// TestCompleteResults has what a holder may report.
func TestCompleteResults(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	passed := authoritytest.Passed
	completed := authority.JobResult{Outcome: record.JobOutcomeCompleted}
	withEvidence := authority.JobResult{Outcome: record.JobOutcomeCompleted, Evidence: &passed}
	skipped := authority.JobResult{Outcome: record.JobOutcomeSkipped}
	for name, c := range map[string]struct {
		kind record.JobKind
		res  authority.JobResult
		want error
	}{
		"no outcome":                  {record.JobKindContentGC, authority.JobResult{}, bindb.ErrInvalid},
		"attached":                    {record.JobKindContentGC, authority.JobResult{Outcome: record.JobOutcomeAttached}, bindb.ErrInvalid},
		"superseded":                  {record.JobKindContentGC, authority.JobResult{Outcome: record.JobOutcomeSuperseded}, bindb.ErrInvalid},
		"failed":                      {record.JobKindContentGC, authority.JobResult{Outcome: record.JobOutcomeFailed}, bindb.ErrInvalid},
		"evidence of a collection":    {record.JobKindContentGC, withEvidence, bindb.ErrInvalid},
		"CI without evidence":         {record.JobKindPatchsetCI, completed, bindb.ErrInvalid},
		"skipped CI with evidence":    {record.JobKindPatchsetCI, authority.JobResult{Outcome: record.JobOutcomeSkipped, Evidence: &passed}, bindb.ErrInvalid},
		"CI":                          {record.JobKindPatchsetCI, withEvidence, nil},
		"skipped CI":                  {record.JobKindPatchsetCI, skipped, nil},
		"collection":                  {record.JobKindContentGC, completed, nil},
		"skipped collection":          {record.JobKindContentGC, skipped, nil},
		"evaluation with no evidence": {record.JobKindPolicyEvaluate, completed, nil},
	} {
		p := b.Publish()
		s := authority.JobSpec{Kind: c.kind}
		if c.kind.PatchsetNeed() == record.NeedRequired {
			s.Patchset = record.RefTo(p.Patchset)
		}
		index, _, err := b.Repo.EnqueueJob(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		l, err := b.Repo.ClaimJob(ctx, index, authority.RequestID{})
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := b.Repo.CompleteJob(ctx, l, c.res)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		j, ps := job(b, index), patchset(b, p.Patchset)
		switch {
		case c.want != nil:
			if j.State != record.JobStateRunning || ps.CICompletedAt != 0 {
				t.Errorf("%s: a refused result left %+v and %+v", name, j, ps)
			}
		case outcome != c.res.Outcome || j.Outcome != outcome || j.State != record.JobStateSucceeded || (ps.CICompletedAt != 0) != (c.res.Evidence != nil):
			t.Errorf("%s: outcome %s left %+v and %+v", name, outcome, j, ps)
		}
	}
}

// TestEvidenceOfTheSameRun: another writer was interrupted between the evidence and
// the end of the Job. The same evidence ends the Job, other evidence is refused.
func TestEvidenceOfTheSameRun(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	p := b.Publish()
	l := claim(b, enqueue(b, p.Patchset))
	b.Clock.Advance(time.Second)
	err := b.Repo.Root().Update(ctx, func(tx *bindb.Tx) error {
		rec, err := bindb.Patchsets.Get(tx, p.Patchset)
		if err != nil {
			return err
		}
		rec.CISelectedSuites, rec.CISuiteResults, rec.CICompletedAt = 1, 1, clockNow(b)
		rec.CIStatus.SetOverall(record.CIStatusPass)
		rec.CIStatus.SetTests(record.CIStatusPass)
		return bindb.Patchsets.Put(tx, p.Patchset, rec)
	})
	if err != nil {
		t.Fatal(err)
	}
	before := patchset(b, p.Patchset)
	b.Clock.Advance(time.Second)
	for _, other := range []authority.Evidence{
		authoritytest.Failed,
		{Selected: 2, Results: 1, Overall: record.CIStatusPass, Tests: record.CIStatusPass},
		{Selected: 1, Results: 1, Overall: record.CIStatusPass, Tests: record.CIStatusPass, Lint: record.CIStatusPass},
	} {
		_, err := b.Repo.CompleteJob(ctx, l, authority.JobResult{Outcome: record.JobOutcomeCompleted, Evidence: &other})
		if !errors.Is(err, authority.ErrState) {
			t.Errorf("other evidence for the same run: %v", err)
		}
	}
	outcome, err := b.Repo.CompleteJob(ctx, l, authority.JobResult{Outcome: record.JobOutcomeCompleted, Evidence: &authoritytest.Passed})
	if err != nil || outcome != record.JobOutcomeCompleted {
		t.Errorf("the same evidence: %s, %v", outcome, err)
	}
	if after := patchset(b, p.Patchset); after != before {
		t.Errorf("the evidence was written again: %+v, was %+v", after, before)
	}
}

func TestListJobs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	kinds := []record.JobKind{record.JobKindContentGC, record.JobKindContentPack}
	for i := range 2500 {
		gc(b, b.Repo, kinds[i%2], 2500-i)
		if i > 20 {
			break
		}
	}
	b.Clock.Advance(time.Hour)
	for range 4 {
		c, _, err := b.Authority.ClaimNext(ctx, authority.ClaimFilter{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Job.Index%3 == 0 {
			if err := b.Repo.FailJob(ctx, c.Lease, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.View(func(v *authority.View) error {
		all, err := v.Jobs(authority.JobFilter{Limit: 1000})
		if err != nil || len(all) != 22 {
			t.Fatalf("%d jobs: %v", len(all), err)
		}
		for _, f := range []authority.JobFilter{
			{}, {Limit: 3}, {Before: 10}, {Before: 10, Limit: 2}, {State: record.JobStateQueued}, {State: record.JobStateQueued, Kind: kinds[1]},
			{State: record.JobStateQueued, Before: 9, Limit: 4}, {State: record.JobStateRunning}, {State: record.JobStateRunning, Before: 20},
			{State: record.JobStateFailed}, {Kind: kinds[0], Limit: 5}, {State: record.JobStateSucceeded},
		} {
			var want []uint32
			for _, j := range all {
				if (f.State == 0 || j.State == f.State) && (f.Kind == 0 || j.Kind == f.Kind) && (f.Before == 0 || j.Index < f.Before) && (f.Limit == 0 || len(want) < f.Limit) {
					want = append(want, j.Index)
				}
			}
			list, err := v.Jobs(f)
			var got []uint32
			for _, j := range list {
				got = append(got, j.Index)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%+v: %v, want %v: %v", f, got, want, err)
			}
		}
		s, err := v.QueueStats(clockNow(b))
		if want := (bindb.JobCounts{Queued: 18, Running: 2, Failed: 2, Ready: 18}); err != nil || s.JobCounts != want || s.Oldest != all[4].AvailableAt {
			t.Errorf("stats %+v, want %+v: %v", s, want, err)
		}
		return nil
	})
}

func TestTokensDoNotShowThemselves(t *testing.T) {
	t.Parallel()
	token := authority.LeaseToken{0xab, 0xcd}
	l := authority.Lease{Job: 1, Token: token}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, x := range []any{token, l, &l, authority.Claimed{Lease: l}} {
			if s := fmt.Sprintf(format, x); strings.Contains(s, "abcd") || strings.Contains(s, "171") || strings.Contains(s, "0xab") {
				t.Errorf("%s shows the token: %s", format, s)
			}
		}
	}
	back, err := authority.ParseLeaseToken(token.Hex())
	if err != nil || back != token {
		t.Errorf("%s reads as %v: %v", token.Hex(), back, err)
	}
	for _, s := range []string{"", "ab", strings.Repeat("0", 32), strings.Repeat("g", 32), strings.Repeat("a", 34)} {
		_, terr := authority.ParseLeaseToken(s)
		_, rerr := authority.ParseRequestID(s)
		if !errors.Is(terr, bindb.ErrInvalid) || !errors.Is(rerr, bindb.ErrInvalid) {
			t.Errorf("%q: %v, %v", s, terr, rerr)
		}
		if len(s) > 2 && strings.Contains(terr.Error(), s) {
			t.Errorf("the error repeats the token: %v", terr)
		}
	}
}

// TestPurgedRepositoryHasNoQueue: a purge tombstones the Jobs, and nothing of them is
// handed out, listed or counted.
func TestPurgedRepositoryHasNoQueue(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	second := twoRepositories(b)
	p := b.Publish()
	l := claim(b, enqueue(b, p.Patchset))
	if got := jobCount(b); got != 1 {
		t.Fatalf("%d jobs", got)
	}
	if _, err := b.Authority.Retire(ctx, 4); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Repo.CompleteJob(ctx, l, authority.JobResult{Outcome: record.JobOutcomeSkipped}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Authority.Purge(ctx, 4, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Repo.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindContentGC}); !errors.Is(err, authority.ErrNotActive) {
		t.Errorf("enqueue: %v", err)
	}
	if _, err := b.Repo.ClaimJob(ctx, l.Job, authority.RequestID{}); !errors.Is(err, authority.ErrNotActive) {
		t.Errorf("claim: %v", err)
	}
	want := gc(b, second, record.JobKindContentGC, 0)
	for _, want := range []string{want, ""} {
		if got := next(t, b.Authority, authority.ClaimFilter{}); got != want {
			t.Errorf("next is %q, want %q", got, want)
		}
	}
	if n, err := b.Authority.ExpireLeases(ctx); n != 0 || err != nil {
		t.Errorf("%d leases have expired: %v", n, err)
	}
	b.View(func(v *authority.View) error {
		list, err := v.Jobs(authority.JobFilter{})
		if err != nil || len(list) != 0 {
			t.Errorf("the list has %+v: %v", list, err)
		}
		s, err := v.QueueStats(clockNow(b))
		if s != (authority.QueueStats{}) {
			t.Errorf("stats %+v", s)
		}
		return err
	})
}

// TestRequestOfAnEndedLease: leases that have ended can stand in the file for a while,
// and one of them may have been of the same request.
func TestRequestOfAnEndedLease(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	request := authority.RequestID{3}
	for range 3 {
		gc(b, b.Repo, record.JobKindContentGC, 0)
	}
	var held []authority.Lease
	for i := range uint32(3) {
		l, err := b.Repo.ClaimJob(ctx, i, request)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
	}
	raw, err := os.ReadFile(leaseFile(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2} {
		if _, err := b.Repo.CompleteJob(ctx, held[i], authority.JobResult{Outcome: record.JobOutcomeCompleted}); err != nil {
			t.Fatal(err)
		}
	}
	// As if the end of the leases had not reached the disk.
	if err := os.WriteFile(leaseFile(b), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b.Reopen()
	gc(b, b.Repo, record.JobKindContentGC, 0)
	c, ok, err := b.Authority.ClaimNext(ctx, authority.ClaimFilter{Request: request})
	if err != nil || !ok || c.Lease != held[1] {
		t.Errorf("the request got %+v, %t: %v; want %+v", c.Lease, ok, err, held[1])
	}
}
