package authority_test

import (
	"context"
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

const (
	purgeJournal   = ".repository-purge.journal.json"
	patchsetBefore = ".repository-purge.patchset.before"
	jobBefore      = ".repository-purge.worker-job.before"
)

// withJobs fills the first user Repository with Patchsets whose Jobs have passed,
// failed and been superseded, and retires it.
func withJobs(t testing.TB, a *authority.Authority, clock *authoritytest.Clock) {
	t.Helper()
	ctx := context.Background()
	r, err := a.Repository(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	b := &authoritytest.Bundle{TB: t, Clock: clock, Authority: a, Repo: r}
	p := b.Publish()
	for i := range 3 {
		b.Update(func(tx *authority.Tx) error {
			if err := authoritytest.Run(tx, p.Patchset, authoritytest.Failed); err != nil {
				return err
			}
			return authoritytest.Run(tx, p.Patchset, authoritytest.Passed)
		})
		if i < 2 {
			p = b.Next(p)
		}
	}
	if _, err := a.Retire(ctx, 4); err != nil {
		t.Fatal(err)
	}
}

func repositoryDir(o authority.Options) string {
	return filepath.Join(o.Dir, "generations", "1", "repositories", "4")
}

// purgeFiles are the bytes that a purge decides about.
func purgeFiles(t testing.TB, o authority.Options) string {
	t.Helper()
	var b strings.Builder
	for _, path := range []string{
		filepath.Join(repositoryDir(o), "patchset.bin"), filepath.Join(repositoryDir(o), "worker_job.bin"),
		filepath.Join(o.Dir, "generations", "1", "registry", "repository.bin"),
	} {
		raw, err := vfs.ReadFile(o.FS, path, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%x\n", raw)
	}
	return b.String()
}

// leftovers are the files of a purge that are still there.
func leftovers(t testing.TB, o authority.Options) []string {
	t.Helper()
	list, err := o.FS.ReadDir(repositoryDir(o))
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, f := range list {
		if strings.HasPrefix(f.Name, ".repository-purge") {
			left = append(left, f.Name)
		}
	}
	return left
}

func TestPurge(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	a := b.Authority
	b.Options.FS = vfs.OS
	if _, err := a.Purge(ctx, 4, nil); !errors.Is(err, authority.ErrState) || !strings.Contains(err.Error(), "active") {
		t.Errorf("an active repository: %v", err)
	}
	p := b.Publish()
	var queued, running uint32
	var lease authority.Lease
	b.Update(func(tx *authority.Tx) (err error) {
		if err = authoritytest.Run(tx, p.Patchset, authoritytest.Passed); err != nil {
			return err
		}
		queued, _, err = tx.EnqueueCI(p.Patchset)
		return err
	})
	p = b.Next(p)
	b.Update(func(tx *authority.Tx) (err error) {
		if running, _, err = tx.EnqueueCI(p.Patchset); err == nil {
			lease, err = tx.Claim(running, authority.RequestID{1})
		}
		return err
	})
	readers := []*authority.Repository{b.Repo}
	if !authoritytest.Owned {
		readers = append(readers, b.Second())
	}
	if _, err := a.SetNamespace(ctx, 4, namespace(t, "SE")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Retire(ctx, 4); err != nil {
		t.Fatal(err)
	}
	before := purgeFiles(t, b.Options)
	_, err := a.Purge(ctx, 4, nil)
	if !errors.Is(err, authority.ErrState) || !strings.Contains(err.Error(), "1 queued and 1 running") {
		t.Errorf("a queue that is not drained: %v", err)
	}
	if purgeFiles(t, b.Options) != before || len(leftovers(t, b.Options)) > 0 {
		t.Error("a refused purge changed something")
	}
	err = b.Repo.UpdateQueue(ctx, func(tx *authority.Tx) error {
		if _, err := tx.CompleteCI(lease, authoritytest.Passed); err != nil {
			return err
		}
		l, err := tx.Claim(queued, authority.RequestID{2})
		if err != nil {
			return err
		}
		return tx.FailJob(l, false)
	})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := b.Repo.Drain(ctx); err != nil || d != (authority.Drain{}) {
		t.Errorf("%+v, %v", d, err)
	}
	evidence := map[uint32]record.Patchset{}
	jobs := map[uint32]record.WorkerJob{}
	b.View(func(v *authority.View) error {
		for i := range uint32(2) {
			got, err := bindb.Patchsets.Get(v, i)
			if err != nil || got.CIJob == 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			evidence[i] = got
		}
		for i := range uint32(3) {
			got, err := bindb.WorkerJobs.Get(v, i)
			if err != nil {
				return err
			}
			jobs[i] = got
		}
		return nil
	})
	b.Clock.Advance(time.Minute)
	now := record.Seconds(b.Clock.Now().Unix())
	var steps []int64
	info, err := a.Purge(ctx, 4, func(done, total int64) {
		if total != 5 {
			t.Errorf("%d records in total", total)
		}
		steps = append(steps, done)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 2 || steps[1] != 5 {
		t.Errorf("progress %v", steps)
	}
	if info.Lifecycle != record.LifecyclePurged || info.UpdatedAt != now || info.Namespace != namespace(t, "SE") || info.Name != "widgets" {
		t.Errorf("%+v", info)
	}
	if left := leftovers(t, b.Options); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	indexes, err := b.Repo.Root().Indexes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range indexes {
		if (x.File == bindb.ReadyIndex || x.File == bindb.StateIndex) && (x.State != bindb.IndexCurrent || x.Rows != 0) {
			t.Errorf("%+v", x)
		}
	}
	// Nothing else has changed, and history can be read by everybody.
	b.Reopen()
	a = b.Authority
	readers[0] = b.Repo
	for _, r := range readers {
		err := r.View(ctx, func(v *authority.View) error {
			for i, want := range evidence {
				want.CIJob = 0
				if got, err := bindb.Patchsets.Get(v, i); err != nil || got != want {
					t.Errorf("patchset %d is %+v, want %+v, %v", i, got, want, err)
				}
			}
			for i, want := range jobs {
				want.Meta.SetTombstoned(true)
				want.UpdatedAt = now
				if got, err := bindb.WorkerJobs.Get(v, i); err != nil || got != want {
					t.Errorf("job %d is %+v, want %+v, %v", i, got, want, err)
				}
			}
			got, err := v.Patchset(p.Patchset)
			if err == nil && r == b.Repo && got.ID.String() != "SET-0001/C-01/P-02" {
				t.Errorf("patchset %s", got.ID)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		nothing := func(*authority.Tx) error { return nil }
		for what, err := range map[string]error{
			"update":  r.Update(ctx, nothing),
			"queue":   r.UpdateQueue(ctx, nothing),
			"session": r.Exclusive(ctx, func(*authority.Session) error { return nil }),
		} {
			if !errors.Is(err, authority.ErrNotActive) || !strings.Contains(err.Error(), "purged") {
				t.Errorf("%s of a purged repository: %v", what, err)
			}
		}
	}
	if findings, err := b.Repo.Check(ctx); err != nil || len(findings) > 0 {
		t.Errorf("%v %v", findings, err)
	}
	// It is final, and gives its namespace away.
	for what, verb := range map[string]func() (authority.RepositoryInfo, error){
		"retire":    func() (authority.RepositoryInfo, error) { return a.Retire(ctx, 4) },
		"activate":  func() (authority.RepositoryInfo, error) { return a.Reactivate(ctx, 4) },
		"purge":     func() (authority.RepositoryInfo, error) { return a.Purge(ctx, 4, nil) },
		"flags":     func() (authority.RepositoryInfo, error) { return a.SetPolicyFlags(ctx, 4, 0) },
		"namespace": func() (authority.RepositoryInfo, error) { return a.SetNamespace(ctx, 4, record.Namespace{}) },
	} {
		if _, err := verb(); !errors.Is(err, authority.ErrState) {
			t.Errorf("%s of a purged repository: %v", what, err)
		}
	}
	if _, err := a.RepositoryByNamespace(ctx, namespace(t, "SE")); !errors.Is(err, bindb.ErrNotFound) {
		t.Errorf("the namespace of a purged repository: %v", err)
	}
	if index, created, err := a.AddRepository(ctx, "widgets", namespace(t, "SE"), authority.DefaultFlags); index != 5 || !created || err != nil {
		t.Errorf("%d, %t, %v", index, created, err)
	}
	if info, err := a.RepositoryByNamespace(ctx, namespace(t, "SE")); err != nil || info.Index != 5 {
		t.Errorf("%+v, %v", info, err)
	}
}

// Reserved Repositories are retired and purged like others.
func TestPurgeReserved(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	if _, err := b.Authority.Retire(ctx, 2); err != nil {
		t.Fatal(err)
	}
	info, err := b.Authority.Purge(ctx, 2, nil)
	if err != nil || info.Lifecycle != record.LifecyclePurged || info.Meta.Tombstoned() || info.Name != record.ReservedRepositories[2] {
		t.Errorf("%+v, %v", info, err)
	}
	b.Reopen()
}

// TestPurgeCrash cuts the power after every operation of a purge. Whoever opens
// the authority then finds all of it done or nothing, to the byte.
func TestPurgeCrash(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	clock := authoritytest.NewClock()
	sim := vfs.NewSim()
	o := authority.Options{Dir: "/data", FS: sim, Clock: clock.Now, LockWait: time.Second, Own: authoritytest.Owned}
	a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
	if err != nil {
		t.Fatal(err)
	}
	withJobs(t, a, clock)
	clock.Advance(time.Minute)
	before := purgeFiles(t, o)
	a.SetPurgeStep(2)
	sim.Capture()
	begin := sim.OpCount()
	if _, err := a.Purge(ctx, 4, nil); err != nil {
		t.Fatal(err)
	}
	end := sim.OpCount()
	after := purgeFiles(t, o)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	policy, again := vfs.Policy{Random: 2, Seed: 1, Tears: 1, Recent: 16}, 40
	if testing.Short() {
		policy, again = vfs.Policy{Tears: 1, Recent: 4}, 200
	}
	seen := map[uint64]bool{}
	states, done, undone := 0, 0, 0
	for cut := begin; cut <= sim.OpCount(); cut++ {
		for disk := range sim.CrashStates(cut, policy) {
			if seen[disk.Fingerprint()] && cut != end {
				continue
			}
			seen[disk.Fingerprint()] = true
			if states++; states%again == 0 {
				crashPurgeRecovery(t, disk, o, before, after, cut >= end)
			}
			switch recoverPurge(t, disk, o, states%8 == 0) {
			case after:
				done++
			case before:
				undone++
				if cut >= end {
					t.Fatalf("%s: an acknowledged purge is lost", disk.Origin())
				}
			default:
				t.Fatalf("%s: the purge is neither done nor undone", disk.Origin())
			}
		}
	}
	t.Logf("%d states: %d done, %d undone", states, done, undone)
	if done == 0 || undone == 0 {
		t.Error("one of the two outcomes never came about")
	}
}

// recoverPurge opens the authority as the next process would and returns what a
// purge decides about. Everything must be sound and usable.
func recoverPurge(t *testing.T, disk *vfs.Sim, o authority.Options, use bool) string {
	t.Helper()
	ctx := context.Background()
	o.FS = disk
	a, err := authority.Open(ctx, o)
	if err != nil {
		t.Fatalf("%s: %v", disk.Origin(), err)
	}
	r, err := a.Repository(ctx, 4)
	if err != nil {
		t.Fatalf("%s: %v", disk.Origin(), err)
	}
	if left := leftovers(t, o); len(left) > 0 {
		t.Fatalf("%s: left behind: %v", disk.Origin(), left)
	}
	if findings, err := r.Check(ctx); err != nil || len(findings) > 0 {
		t.Fatalf("%s: %v %v", disk.Origin(), findings, err)
	}
	got := purgeFiles(t, o)
	if use && r.Info().Lifecycle == record.LifecycleRetiring {
		// It can be used again, and purged after all.
		if _, err := a.Reactivate(ctx, 4); err != nil {
			t.Fatalf("%s: %v", disk.Origin(), err)
		}
		if err := r.Update(ctx, openTask); err != nil {
			t.Fatalf("%s: %v", disk.Origin(), err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatalf("%s: %v", disk.Origin(), err)
	}
	return got
}

// crashPurgeRecovery cuts the power at every operation of the recovery too. It
// leaves disk as it was.
func crashPurgeRecovery(t *testing.T, disk *vfs.Sim, o authority.Options, before, after string, acknowledged bool) {
	t.Helper()
	ctx := context.Background()
	var copied *vfs.Sim
	disk.Capture()
	for state := range disk.CrashStates(disk.OpCount(), vfs.Policy{}) {
		copied = state // nothing is unsynced, so that there is one
	}
	copied.Capture()
	begin := copied.OpCount()
	o.FS = copied
	a, err := authority.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Repository(ctx, 4); err != nil {
		t.Fatal(err)
	}
	settled := purgeFiles(t, o)
	end := copied.OpCount()
	seen := map[uint64]bool{}
	for cut := begin; cut <= end; cut++ {
		for second := range copied.CrashStates(cut, vfs.Policy{Tears: 1, Random: 1, Seed: 3, Recent: 6}) {
			if seen[second.Fingerprint()] {
				continue
			}
			seen[second.Fingerprint()] = true
			got := recoverPurge(t, second, o, false)
			if got != settled || acknowledged && got != after || got != before && got != after {
				t.Fatalf("%s, then %s: the second recovery came to another state", disk.Origin(), second.Origin())
			}
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPurgeFaults lets every write and sync of a purge fail in turn. The process
// goes on, refuses the Repository, or has purged it; never does it show anything
// in between, and neither does the next process.
func TestPurgeFaults(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	taken, refused, purged := 0, 0, 0
	for step := 0; ; step++ {
		clock := authoritytest.NewClock()
		sim := vfs.NewSim()
		o := authority.Options{Dir: "/data", FS: sim, Clock: clock.Now, LockWait: time.Second, Own: authoritytest.Owned}
		a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
		if err != nil {
			t.Fatal(err)
		}
		withJobs(t, a, clock)
		a.SetPurgeStep(2)
		before := purgeFiles(t, o)
		left := step
		failed := false
		sim.Fail(func(op vfs.Op) error {
			switch op.Kind {
			case vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpRemove, vfs.OpCreate, vfs.OpTruncate, vfs.OpSyncDir:
				if left--; left == -1 {
					failed = true
					return syscall.ENOSPC
				}
			}
			return nil
		})
		_, err = a.Purge(ctx, 4, nil)
		sim.Fail(nil)
		r, oerr := a.Repository(ctx, 4)
		if oerr != nil {
			t.Fatal(oerr)
		}
		view := r.View(ctx, func(*authority.View) error { return nil })
		switch {
		case err == nil:
			purged++
			if view != nil || r.Info().Lifecycle != record.LifecyclePurged {
				t.Fatalf("step %d: %v, %+v", step, view, r.Info())
			}
		case view == nil:
			taken++
			if got := purgeFiles(t, o); got != before {
				t.Fatalf("step %d: %v, but something has changed", step, err)
			}
		case errors.Is(view, bindb.ErrReadOnly) && errors.Is(err, bindb.ErrReadOnly):
			refused++
			nothing := func(*authority.Tx) error { return nil }
			for _, err := range []error{r.Update(ctx, nothing), r.UpdateQueue(ctx, nothing)} {
				if !errors.Is(err, bindb.ErrReadOnly) {
					t.Fatalf("step %d: a refused repository takes an update: %v", step, err)
				}
			}
			if _, err := a.Reactivate(ctx, 4); !errors.Is(err, bindb.ErrReadOnly) {
				t.Fatalf("step %d: a refused repository is activated: %v", step, err)
			}
		default:
			t.Fatalf("step %d: purge: %v; view: %v", step, err, view)
		}
		_ = a.Close() // a root with a failed sync says so
		again, oerr := authority.Open(ctx, o)
		if oerr != nil {
			t.Fatal(oerr)
		}
		if r, oerr = again.Repository(ctx, 4); oerr != nil {
			t.Fatalf("step %d: %v", step, oerr)
		}
		if findings, cerr := r.Check(ctx); cerr != nil || len(findings) > 0 {
			t.Fatalf("step %d: %v %v", step, findings, cerr)
		}
		switch r.Info().Lifecycle {
		case record.LifecycleRetiring:
			if err == nil || purgeFiles(t, o) != before {
				t.Fatalf("step %d: the purge gave %v, and the next process finds something else", step, err)
			}
		case record.LifecyclePurged:
			if len(leftovers(t, o)) > 0 {
				t.Fatalf("step %d: left behind: %v", step, leftovers(t, o))
			}
		default:
			t.Fatalf("step %d: %s", step, r.Info().Lifecycle)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if !failed {
			break
		}
	}
	t.Logf("%d taken back, %d refused, %d purged", taken, refused, purged)
	if taken < 10 || refused < 3 || purged < 2 {
		t.Error("an outcome came about too rarely")
	}
}

// TestPurgeCancelled takes everything back when the caller has had enough.
func TestPurgeCancelled(t *testing.T) {
	t.Parallel()
	clock := authoritytest.NewClock()
	o := authority.Options{Dir: "/data", FS: vfs.NewSim(), Clock: clock.Now, Own: authoritytest.Owned}
	a, err := authority.Create(context.Background(), o, "widgets", authority.DefaultFlags)
	if err != nil {
		t.Fatal(err)
	}
	withJobs(t, a, clock)
	before := purgeFiles(t, o)
	a.SetPurgeStep(1)
	ctx, cancel := context.WithCancel(context.Background())
	_, err = a.Purge(ctx, 4, func(done, _ int64) {
		if done == 5 { // some locators are gone, and some Jobs
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || purgeFiles(t, o) != before || len(leftovers(t, o)) > 0 {
		t.Errorf("%v; left behind: %v", err, leftovers(t, o))
	}
	if _, err := a.Purge(context.Background(), 4, nil); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// Whoever reads while a purge is under way sees what comes out of it.
func TestReadersOfAPurge(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	clock := authoritytest.NewClock()
	o := authority.Options{Dir: "/data", FS: vfs.NewSim(), Clock: clock.Now, Own: authoritytest.Owned}
	a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
	if err != nil {
		t.Fatal(err)
	}
	withJobs(t, a, clock)
	a.SetPurgeStep(1)
	r, err := a.Repository(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	// seen counts the tombstoned Jobs and the locators.
	seen := func() (dead, located int, err error) {
		err = r.View(ctx, func(v *authority.View) error {
			dead, located = 0, 0
			err := bindb.WorkerJobs.Scan(v, 0, 6, func(_ uint32, j *record.WorkerJob) error {
				if j.Meta.Tombstoned() {
					dead++
				}
				return nil
			})
			if err != nil {
				return err
			}
			return bindb.Patchsets.Scan(v, 0, 3, func(_ uint32, p *record.Patchset) error {
				if p.CIJob != 0 {
					located++
				}
				return nil
			})
		})
		return dead, located, err
	}
	if dead, located, err := seen(); dead != 0 || located != 3 || err != nil {
		t.Fatalf("%d dead jobs, %d locators, %v", dead, located, err)
	}
	var wg sync.WaitGroup
	if _, err := a.Purge(ctx, 4, func(done, total int64) {
		wg.Go(func() {
			if dead, located, err := seen(); dead != 6 || located != 0 || err != nil {
				t.Errorf("a reader after %d of %d records sees %d dead jobs and %d locators, %v", done, total, dead, located, err)
			}
		})
	}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// A process that has had the Repository open for long meets a purge whose process
// died.
func TestPurgeOfADeadProcess(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	clock := authoritytest.NewClock()
	sim := vfs.NewSim()
	options := func(fsys vfs.FS) authority.Options {
		return authority.Options{Dir: "/data", FS: fsys, Clock: clock.Now, LockWait: time.Second}
	}
	o := options(sim)
	a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
	if err != nil {
		t.Fatal(err)
	}
	withJobs(t, a, clock)
	r, err := a.Repository(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(*authority.Tx) error { return nil }
	for name, meet := range map[string]func() error{
		"view":     func() error { return r.View(ctx, func(*authority.View) error { return nil }) },
		"queue":    func() error { return r.UpdateQueue(ctx, nothing) },
		"activate": func() error { _, err := a.Reactivate(ctx, 4); return err },
		"backup":   func() error { _, err := a.Backup(ctx, "/backup", nil); return err },
	} {
		if r.Info().Lifecycle == record.LifecycleActive {
			if _, err := a.Retire(ctx, 4); err != nil {
				t.Fatal(err)
			}
		}
		before := purgeFiles(t, o)
		dead := sim.Process()
		other, err := authority.Open(ctx, options(dead))
		if err != nil {
			t.Fatal(err)
		}
		stop, cancel := context.WithCancel(ctx)
		other.SetPurgeStep(1)
		_, err = other.Purge(stop, 4, func(done, _ int64) {
			if done == 4 {
				dead.Crash()
			}
		})
		cancel()
		if err == nil {
			t.Fatal("the dead process has purged")
		}
		if purgeFiles(t, o) == before || len(leftovers(t, o)) != 3 {
			t.Fatalf("%s: the purge was not interrupted half-way: %v", name, leftovers(t, o))
		}
		if err := meet(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := purgeFiles(t, o); name != "activate" && got != before || len(leftovers(t, o)) > 0 {
			t.Errorf("%s: the purge was not taken back; left behind: %v", name, leftovers(t, o))
		}
		if findings, err := r.Check(ctx); err != nil || len(findings) > 0 {
			t.Errorf("%s: %v %v", name, findings, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestPurgeJournals has what only a defect or another implementation leaves.
func TestPurgeJournals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		lifecycle record.Lifecycle
		damage    func(dir string) error
		want      string // "": recovered to the state before
	}{
		"as it was left": {record.LifecycleRetiring, func(string) error { return nil }, ""},
		"an active one":  {record.LifecycleActive, func(string) error { return nil }, "repository 4 is active, but a purge of it stands"},
		"copies without a journal": {record.LifecycleActive, func(dir string) error {
			return os.Remove(filepath.Join(dir, purgeJournal))
		}, ""},
		"a copy that is missing": {record.LifecycleRetiring, func(dir string) error {
			return os.Remove(filepath.Join(dir, jobBefore))
		}, jobBefore + " is missing"},
		"a copy that has rotted": {record.LifecycleRetiring, func(dir string) error {
			return flip(filepath.Join(dir, patchsetBefore), 20)
		}, patchsetBefore + " has the SHA-256"},
		"a copy that was cut": {record.LifecycleRetiring, func(dir string) error {
			return os.Truncate(filepath.Join(dir, jobBefore), 30)
		}, jobBefore + " has the SHA-256"},
		"a file that has grown": {record.LifecycleRetiring, func(dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, "worker_job.bin"), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.Write(make([]byte, record.WorkerJobSize))
			return errors.Join(err, f.Close())
		}, "worker_job.bin has"},
		"a journal that is none": {record.LifecycleRetiring, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, purgeJournal), []byte("{"), 0o600)
		}, "is no journal of a purge"},
		"a journal of another kind": {record.LifecycleRetiring, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, purgeJournal), []byte(`{"schema": "x"}`), 0o600)
		}, `schema "x"`},
		// Another implementation writes records in place, and a torn one is
		// restored with the rest.
		"torn records": {record.LifecycleRetiring, func(dir string) error {
			for file, at := range map[string]int64{"worker_job.bin": 6, "patchset.bin": 4 + record.PatchsetSize} {
				f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteAt([]byte{0xff, 0xff, 0xff, 0xff}, at)
				if err = errors.Join(err, f.Close()); err != nil {
					return err
				}
			}
			return nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := authoritytest.NewClock()
			o := authority.Options{Dir: t.TempDir(), FS: vfs.OS, Clock: clock.Now, Own: authoritytest.Owned}
			a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
			if err != nil {
				t.Fatal(err)
			}
			withJobs(t, a, clock)
			dir := repositoryDir(o)
			if c.lifecycle == record.LifecycleActive {
				if _, err := a.Reactivate(ctx, 4); err != nil {
					t.Fatal(err)
				}
			}
			before := purgeFiles(t, o)
			r, err := a.Repository(ctx, 4)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Root().Exclusive(ctx, func(s *bindb.Session) error { return s.PreservePurge(ctx) }); err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			now := purgeFiles(t, o)
			a = reopened(t, o)
			r, err = a.Repository(ctx, 4)
			if c.want != "" {
				if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if purgeFiles(t, o) != now {
					t.Error("something was touched")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if purgeFiles(t, o) != before || len(leftovers(t, o)) > 0 {
				t.Errorf("not restored; left behind: %v", leftovers(t, o))
			}
			if findings, err := r.Check(ctx); err != nil || len(findings) > 0 {
				t.Errorf("%v %v", findings, err)
			}
		})
	}
}

// reopened opens an authority that was closed.
func reopened(t *testing.T, o authority.Options) *authority.Authority {
	t.Helper()
	a, err := authority.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func flip(path string, at int64) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	raw[at] ^= 1
	return os.WriteFile(path, raw, 0o600)
}

// A Repository that says purged must look like it (J06).
func TestPurgedRepositoryMustLookPurged(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		spoil func(*bindb.Tx) error
		want  string
	}{
		"a live job": {func(tx *bindb.Tx) error {
			j, err := bindb.WorkerJobs.Get(tx, 1)
			if err != nil {
				return err
			}
			j.Meta.SetTombstoned(false)
			return bindb.WorkerJobs.Put(tx, 1, j)
		}, "worker_job.bin record 1: job_meta is not tombstoned"},
		"a locator": {func(tx *bindb.Tx) error {
			p, err := bindb.Patchsets.Get(tx, 2)
			if err != nil {
				return err
			}
			j, err := bindb.WorkerJobs.Get(tx, 5)
			if err != nil {
				return err
			}
			j.Meta.SetTombstoned(false)
			p.CIJob = record.RefTo(5)
			return errors.Join(bindb.WorkerJobs.Put(tx, 5, j), bindb.Patchsets.Put(tx, 2, p))
		}, "patchset.bin record 2: ci_worker_job_index_plus1 is 6"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := authoritytest.NewClock()
			o := authority.Options{Dir: t.TempDir(), Clock: clock.Now, Own: authoritytest.Owned}
			a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
			if err != nil {
				t.Fatal(err)
			}
			withJobs(t, a, clock)
			if _, err := a.Purge(ctx, 4, nil); err != nil {
				t.Fatal(err)
			}
			r, err := a.Repository(ctx, 4)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Root().Update(ctx, c.spoil); err != nil {
				t.Fatal(err)
			}
			findings, err := r.Check(ctx)
			if err != nil || !strings.Contains(fmt.Sprint(findings), c.want) {
				t.Errorf("%v %v", findings, err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			again := reopened(t, o)
			if _, err := again.Repository(ctx, 4); !errors.Is(err, bindb.ErrCorrupt) {
				t.Errorf("open: %v", err)
			}
		})
	}
}

// TestPurgeOfMany purges more records than one batch can hold, and takes as many
// back when the registry has no room.
func TestPurgeOfMany(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const jobs = 150_000
	sim := vfs.NewSim()
	clock := authoritytest.NewClock()
	o := authority.Options{Dir: "/data", FS: sim, Clock: clock.Now, Own: authoritytest.Owned}
	a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Repository(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	now := record.Seconds(clock.Now().Unix())
	for range 3 {
		err := r.Root().Update(ctx, func(tx *bindb.Tx) error {
			for range jobs / 3 {
				if _, err := bindb.WorkerJobs.Append(tx, record.WorkerJob{
					Kind: record.JobKindReconcileRepo, State: record.JobStateSucceeded, Outcome: record.JobOutcomeCompleted,
					Attempts: 1, MaxAttempts: 1, AvailableAt: now, CreatedAt: now, UpdatedAt: now,
				}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Retire(ctx, 4); err != nil {
		t.Fatal(err)
	}
	before := purgeFiles(t, o)
	full := false
	sim.Fail(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && filepath.Base(op.Path) == "repository.bin" && !full {
			full = true
			return syscall.ENOSPC
		}
		return nil
	})
	_, err = a.Purge(ctx, 4, nil)
	sim.Fail(nil)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("purge on a full disk: %v", err)
	}
	if purgeFiles(t, o) != before || len(leftovers(t, o)) > 0 {
		t.Fatal("the purge was not taken back")
	}
	batches := 0
	if _, err := a.Purge(ctx, 4, func(int64, int64) { batches++ }); err != nil {
		t.Fatal(err)
	}
	if batches != 3 {
		t.Errorf("%d batches", batches)
	}
	if findings, err := r.Check(ctx); err != nil || len(findings) > 0 {
		t.Errorf("%v %v", findings, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
