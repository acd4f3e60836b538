package authority_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// backup makes a backup in a directory of the test.
func backup(t *testing.T, a *authority.Authority) (string, authority.Manifest) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "backup")
	m, err := a.Backup(context.Background(), dst, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dst, m
}

func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	authoritytest.Shared(t)
	b := authoritytest.Setup(t)
	ctx := context.Background()
	p := b.Publish()
	if _, _, err := b.Authority.AddRepository(ctx, "other", record.Namespace{'O'}, 1); err != nil {
		t.Fatal(err)
	}
	lease := claim(b, enqueue(b, p.Patchset))
	var told []int64
	dst := filepath.Join(t.TempDir(), "backup")
	m, err := b.Authority.Backup(ctx, dst, func(done, total int64) { told = append(told, done, total) })
	if err != nil {
		t.Fatal(err)
	}
	if n := len(told); n == 0 || told[n-1] != m.Bytes || told[n-2] != m.Bytes {
		t.Errorf("progress ended with %v, want %d of as many", told[max(0, len(told)-2):], m.Bytes)
	}
	if m.Installation != b.Authority.Installation() || m.Generation != 1 || m.Epoch != 1 || m.Repositories != 6 || m.CreatedAt != "2023-11-14T22:13:20Z" {
		t.Errorf("manifest %+v", m)
	}
	read, err := authority.Verify(ctx, b.Options, dst, nil)
	if err != nil || !reflect.DeepEqual(read, m) {
		t.Fatalf("verify: %v, or another manifest", err)
	}
	// Nothing but authority is in it.
	err = filepath.WalkDir(dst, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) != ".bin" && d.Name() != "backup.json" {
			t.Errorf("%s is in the backup", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	authoritytest.Shared(t) // a restore needs the locks

	// Work after the backup is gone with a restore, and so are the leases.
	b.Publish()
	later := b.Next(p)
	after := claim(b, enqueue(b, later.Patchset))
	if _, err := authority.Restore(ctx, b.Options, dst, authority.Restoration{}); !errors.Is(err, authority.ErrExists) {
		t.Errorf("restore over an authority: %v", err)
	}
	var last int64
	done, err := authority.Restore(ctx, b.Options, dst, authority.Restoration{Replace: true, Progress: func(done, total int64) {
		if total != 2*m.Bytes || done < last {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	}})
	if err != nil {
		t.Fatal(err)
	}
	if done.Epoch != 2 || done.Generation != 2 || done.Installation != m.Installation || done.Old == "" || last != 2*m.Bytes {
		t.Errorf("restored %+v, %d bytes", done, last)
	}
	if err := b.Repo.Update(ctx, func(*authority.Tx) error { return nil }); !errors.Is(err, authority.ErrGeneration) {
		t.Errorf("the old generation: %v", err)
	}
	b.Reopen()
	_, again := backup(t, b.Authority)
	if !reflect.DeepEqual(again.Files, m.Files) {
		t.Error("the restored files are not those of the backup")
	}
	// The index of the second Job is given out again, with its first attempt.
	if l := claim(b, enqueue(b, b.Next(p).Patchset)); l.Job != after.Job || l.Attempt != after.Attempt {
		t.Fatalf("lease %+v, want one like %+v", l, after)
	}
	for _, l := range []authority.Lease{lease, after} {
		wantErr(t, b.Repo, authority.ErrLeaseLost, func(tx *authority.Tx) error { _, err := tx.Heartbeat(l); return err })
		wantErr(t, b.Repo, authority.ErrLeaseLost, func(tx *authority.Tx) error { _, err := tx.CompleteCI(l, authoritytest.Passed); return err })
	}
	if j := job(b, lease.Job); j.State != record.JobStateRunning {
		t.Errorf("the job is %s", j.State)
	}
	// Without a lease, the job that was running is given to the next who asks.
	b.Update(func(tx *authority.Tx) error { _, err := tx.LoseLease(lease.Job); return err })
	if j := job(b, lease.Job); j.State == record.JobStateRunning {
		t.Error("the job without a lease is still running")
	}

	// Into an empty directory, and once more over that: epochs only grow.
	o := b.Options
	o.Dir = filepath.Join(t.TempDir(), "new")
	for epoch := uint64(2); epoch < 4; epoch++ {
		done, err := authority.Restore(ctx, o, dst, authority.Restoration{Replace: epoch > 2, DropOld: true})
		if err != nil || done.Epoch != epoch || done.Old != "" {
			t.Fatalf("restore: %+v, %v", done, err)
		}
		wantEntries(t, filepath.Join(o.Dir, "retired"))
	}
	a, err := authority.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, again := backup(t, a); !reflect.DeepEqual(again.Files, m.Files) || again.Epoch != 3 {
		t.Error("the second restore is not the backup")
	}
}

// A damaged installation is what a backup is for.
func TestRestoreOverADamagedAuthority(t *testing.T) {
	t.Parallel()
	authoritytest.Shared(t)
	authoritytest.Shared(t)
	for name, damage := range map[string]func(gen string) error{
		"registry":           func(gen string) error { return os.Truncate(filepath.Join(gen, "registry", "repository.bin"), 50) },
		"record":             func(gen string) error { return os.Truncate(filepath.Join(gen, "repositories", "4", "task.bin"), 50) },
		"registry gone":      func(gen string) error { return os.RemoveAll(filepath.Join(gen, "registry")) },
		"repository gone":    func(gen string) error { return os.RemoveAll(filepath.Join(gen, "repositories", "4")) },
		"everything is gone": os.RemoveAll,
	} {
		b := authoritytest.Setup(t)
		b.Publish()
		dst, m := backup(t, b.Authority)
		if err := damage(filepath.Join(b.Options.Dir, "generations", "1")); err != nil {
			t.Fatal(err)
		}
		if _, err := authority.Restore(context.Background(), b.Options, dst, authority.Restoration{Replace: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b.Reopen()
		if _, again := backup(t, b.Authority); !reflect.DeepEqual(again.Files, m.Files) {
			t.Errorf("%s: the restored files are not those of the backup", name)
		}
	}
}

// Backups taken while others write are sound and hold what was acknowledged before
// they began. The summaries are long, so that most is copied ahead of the lock.
func TestBackupWhileOthersWrite(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	ctx := context.Background()
	p := b.Publish()
	text := strings.Repeat("x", 60_000)
	var tasks atomic.Int64
	add := func(r *authority.Repository) error {
		err := r.Update(ctx, func(tx *authority.Tx) error {
			if _, err := tx.OpenTask("Another", text); err != nil {
				return err
			}
			return tx.SetLineHead(p.Main, p.Base) // a record that is replaced
		})
		if err == nil {
			tasks.Add(1)
		}
		return err
	}
	b.Update(func(tx *authority.Tx) error {
		for range 90 {
			if _, err := tx.OpenTask("One", text); err != nil {
				return err
			}
		}
		return nil
	})
	tasks.Add(90)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	second := b.Repo
	if !authoritytest.Owned {
		second = b.Second()
	}
	for _, r := range []*authority.Repository{b.Repo, second} {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := add(r); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 3 {
		before := tasks.Load()
		dst, _ := backup(t, b.Authority)
		after := tasks.Load() + 3 // one of each writer may be durable and not counted yet
		o := b.Options
		o.Dir = filepath.Join(t.TempDir(), fmt.Sprint(i))
		if _, err := authority.Restore(ctx, o, dst, authority.Restoration{}); err != nil {
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
		err = r.View(ctx, func(v *authority.View) error {
			n, err := bindb.Tasks.Count(v)
			if int64(n) < before+1 || int64(n) > after+1 {
				t.Errorf("%d tasks in a backup, want %d to %d", n, before+1, after+1)
			}
			return err
		})
		if err = errors.Join(err, a.Close()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestBackupDestinations(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	ctx := context.Background()
	dir := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		os.Mkdir(filepath.Join(dir, "empty"), 0o700),
		os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "link")),
		os.Symlink(b.Options.Dir, filepath.Join(dir, "data")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := entries(t, dir)
	for _, c := range []struct {
		dst  string
		want error
	}{
		{filepath.Join(dir, "file"), fs.ErrExist},
		{filepath.Join(dir, "empty"), fs.ErrExist},
		{filepath.Join(dir, "link"), fs.ErrExist},
		{filepath.Join(dir, "none", "backup"), fs.ErrNotExist},
		{filepath.Join(dir, "file", "backup"), syscall.ENOTDIR},
		{b.Options.Dir, fs.ErrExist},
		{filepath.Join(b.Options.Dir, "backup"), authority.ErrUnsuitable},
		{filepath.Join(b.Options.Dir, "generations", "1", "backup"), authority.ErrUnsuitable},
		{filepath.Join(dir, "data", "runtime", "backup"), authority.ErrUnsuitable},
	} {
		if _, err := b.Authority.Backup(ctx, c.dst, nil); !errors.Is(err, c.want) {
			t.Errorf("backup to %s: %v, want %v", c.dst, err, c.want)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	_, err := b.Authority.Backup(ended, filepath.Join(dir, "cancelled"), func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled backup: %v", err)
	}
	if after := entries(t, dir); !reflect.DeepEqual(after, before) {
		t.Errorf("failed backups left %q, before there were %q", after, before)
	}
}

// Every kind of damage to a backup is found, and no restore begins with it.
func TestVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	b.Publish()
	ctx := context.Background()
	dst, m := backup(t, b.Authority)
	manifest := func(change func(m map[string]any)) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, "backup.json")
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			var doc map[string]any
			if err := json.Unmarshal(raw, &doc); err != nil {
				return err
			}
			change(doc)
			if raw, err = json.Marshal(doc); err != nil {
				return err
			}
			return os.WriteFile(path, raw, 0o600)
		}
	}
	task := filepath.Join("repositories", "4", "task.bin")
	type damage struct {
		name string
		do   func(dir string) error
		want error
		text string
	}
	cases := []damage{
		{"a missing file", func(dir string) error { return os.Remove(filepath.Join(dir, task)) }, bindb.ErrCorrupt, "task.bin"},
		{"a short file", func(dir string) error { return os.Truncate(filepath.Join(dir, task), 20) }, bindb.ErrCorrupt, "task.bin has 20 bytes, want 64"},
		{"a missing repository", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "repositories", "0")) }, bindb.ErrCorrupt, ""},
		{"one file more", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "registry", "repository_namespace.idx"), []byte{1, 0, 0, 0}, 0o600)
		}, bindb.ErrCorrupt, "not listed"},
		{"one directory more", func(dir string) error { return os.Mkdir(filepath.Join(dir, "repositories", "5"), 0o700) }, bindb.ErrCorrupt, "6 entries"},
		{"a link", func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, task), dir+".moved"), os.Symlink(dir+".moved", filepath.Join(dir, task)))
		}, vfs.ErrSymlink, ""},
		{"no manifest", func(dir string) error { return os.Remove(filepath.Join(dir, "backup.json")) }, authority.ErrNoBackup, "backup.json"},
		{"no JSON", func(dir string) error { return os.WriteFile(filepath.Join(dir, "backup.json"), []byte("{"), 0o600) }, bindb.ErrCorrupt, ""},
		{"another epoch", manifest(func(m map[string]any) { m["epoch"] = 7 }), bindb.ErrCorrupt, "digest"},
		{"a newer form", manifest(func(m map[string]any) { m["schema"] = "writ.backup.v2" }), authority.ErrNewerFormat, ""},
		{"no directory", func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) }, authority.ErrUnsuitable, ""},
		{"nothing", os.RemoveAll, authority.ErrNoBackup, ""},
	}
	fresh := authority.Options{Dir: filepath.Join(t.TempDir(), "fresh")}
	for i, c := range cases {
		dir := filepath.Join(t.TempDir(), fmt.Sprint("copy", i))
		if err := os.CopyFS(dir, os.DirFS(dst)); err != nil {
			t.Fatal(err)
		}
		if err := c.do(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := authority.Verify(ctx, authority.Options{}, dir, nil); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if _, err := authority.Restore(ctx, fresh, dir, authority.Restoration{}); !errors.Is(err, c.want) {
			t.Errorf("restore of %s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := os.Lstat(fresh.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused restore made the data directory: %v", err)
	}
	for _, f := range m.Files {
		if strings.HasPrefix(f.Path, "repositories/") && !strings.HasPrefix(f.Path, "repositories/4/") {
			continue // as empty as the others
		}
		path := filepath.Join(dst, filepath.FromSlash(f.Path))
		flipByte(t, path, f.Size-1)
		if _, err := authority.Verify(ctx, authority.Options{}, dst, nil); !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), f.Path) {
			t.Errorf("a flipped bit in %s: %v", f.Path, err)
		}
		flipByte(t, path, f.Size-1)
	}
	var sum bytes.Buffer
	if _, err := authority.Verify(ctx, authority.Options{}, dst, func(done, total int64) { sum.Reset(); fmt.Fprint(&sum, done, total) }); err != nil {
		t.Error(err)
	}
	if sum.String() != fmt.Sprint(m.Bytes, m.Bytes) {
		t.Errorf("progress ended at %s of %d", sum.String(), m.Bytes)
	}
}

// flipByte inverts one byte of a file.
func flipByte(t testing.TB, path string, at int64) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 0xff
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Files whose sums are right are still refused when they do not fit together: a
// Repository that the registry calls purged, with a Job in it.
func TestVerifyRefusesWhatDoesNotFitTogether(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	enqueue(b, b.Publish().Patchset)
	dst, m := backup(t, b.Authority)
	path := filepath.Join(dst, "registry", "repository.bin")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	layout, _ := record.ByFile("repository.bin")
	at := bindb.HeaderSize + 4*layout.Size + 1
	if layout.Fields[1].Name != "lifecycle_kind" || raw[at] != byte(record.LifecycleActive) {
		t.Fatal("the field is not where it was expected")
	}
	raw[at] = byte(record.LifecyclePurged)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range m.Files {
		if m.Files[i].Path == "registry/repository.bin" {
			m.Files[i].SHA256 = fmt.Sprintf("%x", sha256.Sum256(raw))
		}
	}
	m.Digest = ""
	doc, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	m.Digest = fmt.Sprintf("%x", sha256.Sum256(doc))
	if doc, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dst, "backup.json"), doc, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Verify(context.Background(), authority.Options{}, dst, nil); !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "J06") {
		t.Errorf("verify: %v, want J06", err)
	}
}
