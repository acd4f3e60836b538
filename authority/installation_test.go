package authority_test

import (
	"context"
	"errors"
	"io/fs"
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

func createIn(o authority.Options) error {
	a, err := authority.Create(context.Background(), o, "widgets", authority.DefaultFlags)
	if err != nil {
		return err
	}
	return a.Close()
}

// tree lists a directory with sizes, to see that nothing changed.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b.WriteString(path + " ")
		if d.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.Write(raw)
		}
		b.WriteString(info.Mode().String() + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCreate(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	ctx := context.Background()
	list, err := b.Authority.Repositories(ctx)
	if err != nil || len(list) != 5 {
		t.Fatalf("%d repositories, %v", len(list), err)
	}
	now := record.Seconds(b.Clock.Now().Unix())
	for i, r := range list {
		name, flags := "widgets", authority.DefaultFlags
		if i < authority.FirstRepository {
			name, flags = record.ReservedRepositories[i], 0x83
		}
		if r.Index != uint32(i) || r.Name != name || r.PolicyFlags != flags || r.Lifecycle != record.LifecycleActive || r.CreatedAt != now {
			t.Errorf("repository %d is %+v", i, r)
		}
		repo, err := b.Authority.Repository(ctx, uint32(i))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := b.Authority.Repository(ctx, uint32(i)); again != repo || err != nil {
			t.Errorf("repository %d was opened twice: %v", i, err)
		}
		if findings, err := repo.Root().Check(ctx); err != nil || len(findings) > 0 {
			t.Errorf("repository %d: %v %v", i, findings, err)
		}
	}
	if _, err := b.Authority.Repository(ctx, 5); !errors.Is(err, bindb.ErrNotFound) {
		t.Errorf("repository 5: %v", err)
	}
	before := tree(t, filepath.Join(b.Options.Dir, "generations"))
	if err := createIn(b.Options); !errors.Is(err, authority.ErrExists) || !strings.Contains(err.Error(), b.Options.Dir) {
		t.Errorf("created twice: %v", err)
	}
	if tree(t, filepath.Join(b.Options.Dir, "generations")) != before {
		t.Error("a refused creation changed something")
	}
	if len(b.Authority.Installation()) != 32 || b.Authority.Epoch() != 1 || b.Authority.Dir() != b.Options.Dir {
		t.Errorf("installation %q, epoch %d", b.Authority.Installation(), b.Authority.Epoch())
	}
}

func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = createIn(authority.Options{Dir: dir}) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, authority.ErrExists):
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("created %d times", made)
	}
}

func TestCreateWaitsNoLongerThanAllowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := vfs.OS.Lock(context.Background(), filepath.Join(dir, "lifecycle.lock"), vfs.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	if err := createIn(authority.Options{Dir: dir, LockWait: time.Millisecond}); !errors.Is(err, bindb.ErrBusy) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := authority.Create(ctx, authority.Options{Dir: dir}, "w", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := createIn(authority.Options{Dir: dir}); err != nil {
		t.Error(err)
	}
}

// TestInterruptedCreation kills the creating process before many of its steps; the
// next one must succeed on what is left.
func TestInterruptedCreation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	options := func(fsys vfs.FS) authority.Options {
		return authority.Options{Dir: "/data", FS: fsys, Clock: authoritytest.NewClock().Now, LockWait: time.Second}
	}
	whole := vfs.NewSim()
	if err := createIn(options(whole)); err != nil {
		t.Fatal(err)
	}
	steps := whole.OpCount()
	if steps < 50 {
		t.Fatalf("creation has %d steps", steps)
	}
	for stop := 1; stop <= steps; stop += 7 {
		sim := vfs.NewSim()
		dead := sim.Process()
		sim.Fail(func(op vfs.Op) error {
			if op.N >= stop {
				return syscall.EIO
			}
			return nil
		})
		err := createIn(options(dead))
		dead.Crash()
		sim.Fail(nil)
		if err == nil {
			continue // only the clean stop was disturbed
		}
		err = createIn(options(sim))
		if err != nil && !errors.Is(err, authority.ErrExists) {
			t.Fatalf("after step %d: %v", stop, err)
		}
		a, err := authority.Open(ctx, options(sim))
		if err != nil {
			t.Fatalf("after step %d: %v", stop, err)
		}
		for i := range uint32(5) {
			if _, err := a.Repository(ctx, i); err != nil {
				t.Fatalf("after step %d: repository %d: %v", stop, i, err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCreateTouchesNothingElse: the data directory may be any directory.
func TestCreateTouchesNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine := map[string]string{
		"runtime/my.log":          "a log",
		"generations/1/notes.txt": "notes",
		"README":                  "hello",
	}
	for name, text := range mine {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := createIn(authority.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	for name, text := range mine {
		if raw, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(raw) != text {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
}

func TestLostActiveFile(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	b.Publish()
	path := filepath.Join(b.Options.Dir, "active.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := authority.Open(ctx, b.Options); !errors.Is(err, authority.ErrNoAuthority) {
		t.Errorf("open: %v", err)
	}
	before := tree(t, filepath.Join(b.Options.Dir, "generations"))
	if err := createIn(b.Options); !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "put active.json back") {
		t.Errorf("create: %v", err)
	}
	if tree(t, filepath.Join(b.Options.Dir, "generations")) != before {
		t.Error("records were touched")
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b.Reopen()
}

func TestLostActiveFileOfALaterGeneration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "generations", "2"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := createIn(authority.Options{Dir: dir}); !errors.Is(err, bindb.ErrCorrupt) {
		t.Errorf("create: %v", err)
	}
}

func TestActiveFile(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("ab", 16)
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"newer schema":         {`{"schema":"writ.active.v2","layout_id":1,"generation":1,"installation":"` + id + `","epoch":1}`, authority.ErrNewerFormat},
		"newer schema, shapes": {`{"schema":"writ.active.v2","generation":"blue","epoch":{}}`, authority.ErrNewerFormat},
		"newer layout":         {`{"schema":"writ.active.v1","layout_id":2,"generation":1,"installation":"` + id + `","epoch":1}`, authority.ErrNewerFormat},
		"empty":                {``, bindb.ErrCorrupt},
		"cut":                  {`{"schema":"writ.active.v1","layout_id":1,`, bindb.ErrCorrupt},
		"no schema":            {`{}`, bindb.ErrCorrupt},
		"other schema":         {`{"schema":"something.else","layout_id":1}`, bindb.ErrCorrupt},
		"no installation":      {`{"schema":"writ.active.v1","layout_id":1,"generation":1,"epoch":1}`, bindb.ErrCorrupt},
		"no epoch":             {`{"schema":"writ.active.v1","layout_id":1,"generation":1,"installation":"` + id + `"}`, bindb.ErrCorrupt},
		"no generation":        {`{"schema":"writ.active.v1","layout_id":1,"installation":"` + id + `","epoch":1}`, bindb.ErrCorrupt},
		"negative epoch":       {`{"schema":"writ.active.v1","layout_id":1,"generation":1,"installation":"` + id + `","epoch":-1}`, bindb.ErrCorrupt},
		"missing generation":   {`{"schema":"writ.active.v1","layout_id":1,"generation":7,"installation":"` + id + `","epoch":1}`, fs.ErrNotExist},
		"too long":             {strings.Repeat(" ", 70<<10) + "{}", bindb.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := authority.Options{Dir: dir}
			if err := createIn(o); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "active.json"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			before := tree(t, dir)
			if _, err := authority.Open(context.Background(), o); !errors.Is(err, c.want) {
				t.Errorf("open: %v, want %v", err, c.want)
			}
			if err := createIn(o); !errors.Is(err, authority.ErrExists) {
				t.Errorf("create: %v", err)
			}
			if tree(t, dir) != before {
				t.Error("something was touched")
			}
		})
	}
}

func TestNoAuthority(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "missing")
	if _, err := authority.Open(context.Background(), authority.Options{Dir: dir}); !errors.Is(err, authority.ErrNoAuthority) {
		t.Errorf("open: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("opening made the directory")
	}
}

// TestReadOnlyDirectory uses a simulated disk, because root ignores permissions.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	sim := vfs.NewSim()
	o := authority.Options{Dir: "/data", FS: sim}
	refuse := func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpRead, vfs.OpOpen, vfs.OpReadDir, vfs.OpStat, vfs.OpLock, vfs.OpUnlock, vfs.OpClose:
			return nil
		}
		return syscall.EROFS
	}
	sim.Fail(refuse)
	if err := createIn(o); !errors.Is(err, syscall.EROFS) {
		t.Errorf("create on a read-only disk: %v", err)
	}
	sim.Fail(nil)
	used, err := authority.Create(ctx, o, "widgets", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := used.Repository(ctx, 4); err != nil { // which makes its lock files
		t.Fatal(err)
	}
	if err := used.Close(); err != nil {
		t.Fatal(err)
	}
	sim.Fail(refuse)
	a, err := authority.Open(ctx, o)
	if err != nil {
		t.Fatalf("open on a read-only disk: %v", err)
	}
	r, err := a.Repository(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.View(ctx, func(v *authority.View) error { _, _, err := v.FindLine("main"); return err }); err != nil {
		t.Errorf("reading a read-only disk: %v", err)
	}
	err = r.Update(ctx, func(tx *authority.Tx) error { _, err := tx.EnsureLine("main"); return err })
	if !errors.Is(err, syscall.EROFS) {
		t.Errorf("writing a read-only disk: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestInvalidNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "\xff", strings.Repeat("x", 1<<16)} {
		dir := t.TempDir()
		if _, err := authority.Create(context.Background(), authority.Options{Dir: dir}, name, 0); !errors.Is(err, bindb.ErrInvalid) {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
		if _, err := os.Stat(filepath.Join(dir, "active.json")); !errors.Is(err, fs.ErrNotExist) {
			t.Error("a refused creation counts")
		}
	}
}

func TestAddRepository(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	ctx := context.Background()
	add := func(name, ns string, flags record.PolicyFlags) (uint32, bool, error) {
		n, err := record.ParseNamespace(ns)
		if err != nil {
			t.Fatal(err)
		}
		return b.Authority.AddRepository(ctx, name, n, flags)
	}
	// What an interrupted registration left is no obstacle.
	left := filepath.Join(b.Options.Dir, "generations", "1", "repositories", "5")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "task.bin"), []byte{1}, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name, ns string
		flags    record.PolicyFlags
		index    uint32
		created  bool
		err      error
	}{
		{"se", "SE", 1, 5, true, nil},
		{"se", "SE", 1, 5, false, nil}, // the same again
		{"other", "SE", 1, 0, false, authority.ErrConflict},
		{"se", "SE", 2, 0, false, authority.ErrConflict},
		{"se", "se", 1, 6, true, nil}, // namespaces are exact
		{"widgets", "", 0, 7, true, nil},
		{"widgets", "", 0, 8, true, nil}, // without a namespace always another one
		{"ait-core", "x", 0, 9, true, nil},
		{"", "y", 0, 0, false, bindb.ErrInvalid},
	} {
		index, created, err := add(c.name, c.ns, c.flags)
		if !errors.Is(err, c.err) || created != c.created || c.err == nil && index != c.index {
			t.Errorf("case %d: %d, %t, %v; want %d, %t, %v", i, index, created, err, c.index, c.created, c.err)
		}
	}
	if _, _, err := b.Authority.AddRepository(ctx, "odd", record.Namespace{0, 'x'}, 0); !errors.Is(err, bindb.ErrInvalid) {
		t.Errorf("a malformed namespace: %v", err)
	}
	r, err := b.Authority.Repository(ctx, 5)
	if err != nil {
		t.Fatal(err)
	}
	err = r.Update(ctx, func(tx *authority.Tx) error {
		task, err := tx.OpenTask("Title", "Intent")
		if err != nil {
			return err
		}
		got, err := tx.Task(task)
		if got.ID.String() != "SET-0001" {
			t.Errorf("task %s", got.ID)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if info := r.Info(); info.Name != "se" || info.Index != 5 || info.Namespace.String() != "SE" {
		t.Errorf("info %+v", info)
	}
}

func TestUseAfterClose(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := authority.Options{Dir: t.TempDir()}
	if err := createIn(o); err != nil {
		t.Fatal(err)
	}
	a, err := authority.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Repository(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Repository(ctx, 4); !errors.Is(err, bindb.ErrClosed) {
		t.Errorf("repository: %v", err)
	}
	if err := r.Update(ctx, func(*authority.Tx) error { return nil }); !errors.Is(err, bindb.ErrClosed) {
		t.Errorf("update: %v", err)
	}
	if err := r.View(ctx, func(*authority.View) error { return nil }); !errors.Is(err, bindb.ErrClosed) {
		t.Errorf("view: %v", err)
	}
}
