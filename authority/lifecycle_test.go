package authority_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// openAgain opens the authority once more, as another process would.
func openAgain(t *testing.T, o authority.Options) *authority.Authority {
	t.Helper()
	if o.Own {
		authoritytest.Shared(t)
	}
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

// another opens the Repository of a bundle as another process would, unless its
// authority is owned.
func another(b *authoritytest.Bundle) *authority.Repository {
	if authoritytest.Owned {
		return b.Repo
	}
	return b.Second()
}

func namespace(t testing.TB, s string) record.Namespace {
	t.Helper()
	n, err := record.ParseNamespace(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func openTask(tx *authority.Tx) error {
	_, err := tx.OpenTask("Paint the widgets", "They are grey.")
	return err
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	a := b.Authority
	verbs := map[string]func(context.Context, uint32) (authority.RepositoryInfo, error){
		"retire": a.Retire, "activate": a.Reactivate,
	}
	for i, c := range []struct {
		verb  string
		index uint32
		want  record.Lifecycle // zero: refused
	}{
		{"activate", 4, 0},
		{"retire", 4, record.LifecycleRetiring},
		{"retire", 4, 0},
		{"activate", 4, record.LifecycleActive},
		{"activate", 4, 0},
		{"retire", 0, record.LifecycleRetiring}, // reserved ones too
		{"activate", 0, record.LifecycleActive},
	} {
		before, err := a.RepositoryInfo(ctx, c.index)
		if err != nil {
			t.Fatal(err)
		}
		b.Clock.Advance(time.Second)
		got, err := verbs[c.verb](ctx, c.index)
		after, rerr := a.RepositoryInfo(ctx, c.index)
		if rerr != nil {
			t.Fatal(rerr)
		}
		if c.want == 0 {
			if !errors.Is(err, authority.ErrState) || after != before {
				t.Errorf("step %d: %s: %v, %+v", i, c.verb, err, after)
			}
			continue
		}
		want := before
		want.Lifecycle, want.UpdatedAt = c.want, record.Seconds(b.Clock.Now().Unix())
		if err != nil || got != want || after != want {
			t.Errorf("step %d: %s: %v, %+v, want %+v", i, c.verb, err, after, want)
		}
	}
	if _, err := a.Retire(ctx, 5); !errors.Is(err, bindb.ErrNotFound) {
		t.Errorf("a repository that is not there: %v", err)
	}
}

// A clock that goes back does not take the time of a record back.
func TestRegistryTimesNeverDecrease(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	created := record.Seconds(b.Clock.Now().Unix())
	b.Clock.Advance(-time.Hour)
	info, err := b.Authority.SetPolicyFlags(ctx, 4, 1)
	if err != nil || info.UpdatedAt != created || info.CreatedAt != created {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestSetPolicyFlags(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	other := another(b)
	for _, flags := range []record.PolicyFlags{0, 0xff, authority.DefaultFlags} {
		info, err := b.Authority.SetPolicyFlags(ctx, 4, flags)
		if err != nil || info.PolicyFlags != flags || b.Repo.Info() != info {
			t.Errorf("%+v, %v", info, err)
		}
		// Another process learns it with its next mutation.
		if err := other.Update(ctx, openTask); err != nil {
			t.Fatal(err)
		}
		if other.Info() != info {
			t.Errorf("the other process has %+v, want %+v", other.Info(), info)
		}
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	a := b.Authority
	p := b.Publish()
	second, _, err := a.AddRepository(ctx, "second", namespace(t, "Ab"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		index uint32
		ns    record.Namespace
		err   error
	}{
		{4, namespace(t, "Ab"), authority.ErrConflict},
		{4, namespace(t, "ab"), nil}, // exact bytes
		{4, namespace(t, "ab"), nil}, // its own
		{second, namespace(t, "ab"), authority.ErrConflict},
		{second, record.Namespace{}, nil},
		{4, namespace(t, "Ab"), nil},
		{4, record.Namespace{0, 'x'}, bindb.ErrInvalid},
		{4, record.Namespace{'/', 0}, bindb.ErrInvalid},
		{4, namespace(t, "SE"), nil},
		{0, namespace(t, "x"), nil},
		{0, record.Namespace{}, nil},
	} {
		info, err := a.SetNamespace(ctx, c.index, c.ns)
		if !errors.Is(err, c.err) || c.err == nil && info.Namespace != c.ns {
			t.Errorf("case %d: %v, %v", i, info.Namespace, err)
		}
	}
	// A retiring Repository keeps its namespace to itself.
	if _, err := a.Retire(ctx, 4); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SetNamespace(ctx, second, namespace(t, "SE")); !errors.Is(err, authority.ErrConflict) {
		t.Errorf("the namespace of a retiring repository: %v", err)
	}
	if _, _, err := a.AddRepository(ctx, "third", namespace(t, "SE"), 0); !errors.Is(err, authority.ErrConflict) {
		t.Errorf("the namespace of a retiring repository: %v", err)
	}
	if info, err := a.RepositoryByNamespace(ctx, namespace(t, "SE")); err != nil || info.Index != 4 || info.Name != "widgets" {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := a.RepositoryByNamespace(ctx, namespace(t, "Ab")); !errors.Is(err, bindb.ErrNotFound) {
		t.Errorf("a namespace that was given up: %v", err)
	}
	if _, err := a.RepositoryByNamespace(ctx, record.Namespace{}); !errors.Is(err, bindb.ErrInvalid) {
		t.Errorf("the empty namespace: %v", err)
	}
	if list, err := a.Registry().Indexes(ctx); err != nil || len(list) != 1 || list[0].State != bindb.IndexCurrent {
		t.Errorf("%+v, %v", list, err)
	}
	// What was opened before the change renders the new one, and it parses back.
	b.View(func(v *authority.View) error {
		got, err := v.Patchset(p.Patchset)
		if err != nil {
			return err
		}
		if got.ID.String() != "SET-0001/C-01/P-01" {
			t.Errorf("patchset %s", got.ID)
		}
		for _, id := range []record.Identity{got.ID, got.ID.Task(), got.ID.Task().Change(63), got.ID.Review(0), got.ID.PolicyDecision(1), got.ID.Task().Waiver(3)} {
			back, err := record.ParseIdentity(id.String(), b.Repo.Info().Namespace)
			if err != nil || back != id {
				t.Errorf("%s came back as %s, %v", id, back, err)
			}
		}
		return nil
	})
}

// The namespace index is only believed where the records agree, and never when it
// says nothing.
func TestNamespaceIndexIsNeverTrusted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	a := b.Authority
	index, _, err := a.AddRepository(ctx, "second", namespace(t, "SE"), 0)
	if err != nil {
		t.Fatal(err)
	}
	row := func(ns string, i uint32) string {
		n := namespace(t, ns)
		return string([]byte{n[0], n[1], 0, 0, byte(i + 1), 0, 0, 0})
	}
	path := filepath.Join(b.Options.Dir, "generations", "1", "registry", "repository_namespace.idx")
	header := "\x01\x00\x00\x00"
	for name, content := range map[string]string{
		"right":          header + row("AB", 0) + row("SE", index) + row("zz", 0),
		"stale":          header + row("SE", 4) + row("SE", 77),
		"empty":          header,
		"unsorted":       header + row("zz", 0) + row("SE", index) + row("AB", 0),
		"cut":            header + row("SE", index)[:7],
		"no header":      "\x01",
		"malformed":      header + row("AB", 0) + "\x00\x00\x00\x00\x01\x00\x00\x00" + row("SE", index),
		"of nothing":     header + "SE\x00\x00\x00\x00\x00\x00",
		"wrong reserved": header + "SE\x01\x00\x06\x00\x00\x00",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if info, err := a.RepositoryByNamespace(ctx, namespace(t, "SE")); err != nil || info.Index != index {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		if _, err := a.RepositoryByNamespace(ctx, namespace(t, "zz")); !errors.Is(err, bindb.ErrNotFound) {
			t.Errorf("%s: a namespace of nobody: %v", name, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// While retiring the queue drains and nothing new begins.
func TestRetiringDrains(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authoritytest.Setup(t)
	p := b.Publish()
	var job uint32
	b.Update(func(tx *authority.Tx) (err error) {
		job, _, err = tx.EnqueueCI(p.Patchset)
		return err
	})
	if _, err := b.Authority.Retire(ctx, 4); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, authority.ErrNotActive) || !strings.Contains(err.Error(), "retiring") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("update", b.Repo.Update(ctx, openTask))
	refused("session", b.Repo.Exclusive(ctx, func(*authority.Session) error { return nil }))
	for what, verb := range map[string]func(*authority.Tx) error{
		"task":   openTask,
		"change": func(tx *authority.Tx) error { _, err := tx.OpenChange(p.Task, "x", p.Main, 0); return err },
		"patchset": func(tx *authority.Tx) error {
			_, err := tx.Publish(authority.PatchsetSpec{Change: p.Change})
			return err
		},
		"job": func(tx *authority.Tx) error { _, _, err := tx.EnqueueCI(p.Patchset); return err },
	} {
		refused(what, b.Repo.UpdateQueue(ctx, verb))
	}
	var lease authority.Lease
	drain := func(r *authority.Repository, fn func(*authority.Tx) error) {
		t.Helper()
		if err := r.UpdateQueue(ctx, fn); err != nil {
			t.Fatal(err)
		}
	}
	other := another(b)
	refused("another process", other.Update(ctx, openTask))
	drain(other, func(tx *authority.Tx) (err error) { lease, err = tx.Claim(job, authority.RequestID{1}); return err })
	drain(b.Repo, func(tx *authority.Tx) (err error) { lease, err = tx.Heartbeat(lease); return err })
	drain(b.Repo, func(tx *authority.Tx) error { _, err := tx.CompleteCI(lease, authoritytest.Passed); return err })
	if _, err := b.Authority.Reactivate(ctx, 4); err != nil {
		t.Fatal(err)
	}
	if err := other.Update(ctx, openTask); err != nil {
		t.Errorf("after activation: %v", err)
	}
}

// TestRetireIsSeenAtOnce: once Retire has returned, no mutation of any process
// succeeds, however long ago that process has opened the Repository.
func TestRetireIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	// A simulated disk, on which those who wait for a lock are woken in turn.
	sim := vfs.NewSim()
	o := authority.Options{Dir: "/data", FS: sim, LockWait: 5 * time.Minute}
	if err := createIn(o); err != nil {
		t.Fatal(err)
	}
	// Three who write and one who retires: processes, or parts of the owner.
	var repos []*authority.Repository
	var a *authority.Authority
	o.Own = authoritytest.Owned
	for range 4 {
		if a == nil || !o.Own {
			o.FS = sim.Process()
			a = reopened(t, o)
		}
		r, err := a.Repository(ctx, 4)
		if err != nil {
			t.Fatal(err)
		}
		repos = append(repos, r)
	}
	for round := range 5 {
		var retired atomic.Bool
		var begun sync.WaitGroup
		var wg sync.WaitGroup
		var late, done atomic.Int64
		for _, r := range repos[:3] {
			begun.Add(1)
			wg.Go(func() {
				for first := true; ; first = false {
					was := retired.Load()
					err := r.Update(ctx, openTask)
					if first {
						begun.Done()
					}
					switch {
					case err == nil && was:
						late.Add(1)
					case err == nil:
						done.Add(1)
					case errors.Is(err, authority.ErrNotActive):
						return
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		begun.Wait()
		if _, err := a.Retire(ctx, 4); err != nil {
			t.Fatal(err)
		}
		retired.Store(true)
		wg.Wait()
		if late.Load() > 0 || done.Load() == 0 {
			t.Errorf("round %d: %d mutations succeeded after the repository had retired, %d before", round, late.Load(), done.Load())
		}
		if _, err := a.Reactivate(ctx, 4); err != nil {
			t.Fatal(err)
		}
	}
}

// Lifecycle changes of several Repositories and mutations of all of them, from two
// processes at once, come to an end.
func TestLifecycleDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	sim := vfs.NewSim()
	o := authority.Options{Dir: "/data", FS: sim, LockWait: 5 * time.Minute, Own: authoritytest.Owned}
	if err := createIn(o); err != nil {
		t.Fatal(err)
	}
	var authorities []*authority.Authority
	for range 2 {
		if o.FS = sim.Process(); !o.Own || len(authorities) == 0 {
			authorities = append(authorities, reopened(t, o))
		}
	}
	var wg sync.WaitGroup
	for i, a := range authorities {
		wg.Go(func() {
			for n := range 20 {
				if _, err := a.SetPolicyFlags(ctx, uint32(n%5), record.PolicyFlags(n)); err != nil {
					t.Error(err)
				}
				if n%5 == i {
					if _, _, err := a.AddRepository(ctx, "more", record.Namespace{}, 0); err != nil {
						t.Error(err)
					}
				}
			}
		})
		for index := range uint32(5) {
			wg.Go(func() {
				r, err := a.Repository(ctx, index)
				for range 10 {
					if err == nil {
						err = r.Update(ctx, openTask)
					}
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
}

// A mutation that meets a registry batch whose writer died recovers it first.
func TestMutationRecoversTheRegistry(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	sim := vfs.NewSim()
	clock := authoritytest.NewClock()
	options := func(fsys vfs.FS) authority.Options {
		return authority.Options{Dir: "/data", FS: fsys, Clock: clock.Now, LockWait: time.Second}
	}
	if err := createIn(options(sim)); err != nil {
		t.Fatal(err)
	}
	survivor, err := authority.Open(ctx, options(sim))
	if err != nil {
		t.Fatal(err)
	}
	r, err := survivor.Repository(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	retired := 0
	for step := 0; ; step++ {
		dead := sim.Process()
		a, err := authority.Open(ctx, options(dead))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Repository(ctx, 4); err != nil {
			t.Fatal(err)
		}
		// Once it cannot write any more, it is killed.
		left := step
		sim.Fail(func(op vfs.Op) error {
			switch op.Kind {
			case vfs.OpWrite, vfs.OpSync:
				if left--; left < 0 {
					return syscall.EIO
				}
			}
			return nil
		})
		_, err = a.Retire(ctx, 4)
		dead.Crash()
		sim.Fail(nil)
		got := r.Update(ctx, openTask)
		info, ierr := survivor.RepositoryInfo(ctx, 4)
		if ierr != nil {
			t.Fatal(ierr)
		}
		if (got == nil) != (info.Lifecycle == record.LifecycleActive) || got != nil && !errors.Is(got, authority.ErrNotActive) {
			t.Fatalf("step %d: the repository is %s, an update gave %v", step, info.Lifecycle, got)
		}
		if info.Lifecycle == record.LifecycleRetiring {
			retired++
			if _, err := survivor.Reactivate(ctx, 4); err != nil {
				t.Fatal(err)
			}
		} else if err == nil {
			t.Fatalf("step %d: an acknowledged retirement is lost", step)
		}
		if err == nil {
			break
		}
	}
	if err := survivor.Close(); err != nil {
		t.Fatal(err)
	}
	if retired == 0 {
		t.Error("no retirement came about")
	}
}

// What an interrupted registration left goes away when the authority is opened,
// unless nothing can be written or somebody is at work on the registry.
func TestOpenRemovesStaging(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := authority.Options{Dir: t.TempDir(), Own: authoritytest.Owned}
	if err := createIn(o); err != nil {
		t.Fatal(err)
	}
	open := func() {
		t.Helper()
		a, err := authority.Open(ctx, o)
		if err == nil {
			err = a.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(o.Dir, "generations", "1", "repositories", "5")
	there := func() bool {
		_, err := os.Stat(left)
		return err == nil
	}
	stage := func() {
		t.Helper()
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(left, "task.bin"), []byte{1}, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stage()
	open()
	if there() {
		t.Error("the directory is still there")
	}
	if o.Own {
		return // nobody else can have the lock
	}
	stage()
	lock, err := vfs.OS.Lock(ctx, filepath.Join(o.Dir, "generations", "1", "registry", "01-registry.lock"), vfs.Shared)
	if err != nil {
		t.Fatal(err)
	}
	open()
	if !there() {
		t.Error("the directory was removed while somebody had the registry's lock")
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	open()
	if there() {
		t.Error("the directory is still there")
	}
	// Only the next index may be left over.
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(left, filepath.Join(filepath.Dir(left), "6")); err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Open(ctx, o); !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), "D02") {
		t.Errorf("a directory with the index after the next: %v", err)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(left), "6")); err != nil {
		t.Fatal(err)
	}
}
