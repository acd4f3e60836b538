package authority_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// places renders findings as "root: finding".
func places(findings []authority.Finding) string {
	var lines []string
	for _, f := range findings {
		lines = append(lines, fmt.Sprintf("%s: %s", f.Root, f.Finding))
	}
	return strings.Join(lines, "\n")
}

// examined renders the reports of Examine the same way, with "sound" for those
// that have nothing to report.
func examined(t *testing.T, o authority.Options) string {
	t.Helper()
	var lines, begun []string
	err := authority.Examine(context.Background(), o, func(name authority.RootName) { begun = append(begun, name.String()) }, func(r authority.RootReport) error {
		if last := begun[len(begun)-1]; last != r.Root.String() {
			t.Errorf("%s was announced, %s reported", last, r.Root)
		}
		for _, f := range r.Findings {
			lines = append(lines, fmt.Sprintf("%s: %s", r.Root, f))
		}
		for _, x := range r.Recovered {
			lines = append(lines, fmt.Sprintf("%s: recovered %s", r.Root, x))
		}
		switch {
		case r.Err != nil:
			lines = append(lines, fmt.Sprintf("%s: error %v", r.Root, r.Err))
		case len(r.Findings) == 0:
			lines = append(lines, fmt.Sprintf("%s: sound", r.Root))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n"
}

// patchField changes one field of a record on disk.
func patchField(t *testing.T, path, field string, index int, value byte) {
	t.Helper()
	l, ok := record.ByFile(filepath.Base(path))
	if !ok {
		t.Fatalf("no family %s", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range l.Fields {
		if f.Name == field {
			b[bindb.HeaderSize+index*l.Size+f.Offset] = value
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCheckGoesThroughAllRoots(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	clock := authoritytest.NewClock()
	made := func(t *testing.T) (authority.Options, *authority.Authority) {
		o := authority.Options{Dir: t.TempDir(), Clock: clock.Now}
		a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
		if err != nil {
			t.Fatal(err)
		}
		withJobs(t, a, clock)
		return o, a
	}
	repository := func(o authority.Options) string { return filepath.Join(o.Dir, "generations", "1", "repositories", "4") }
	registry := func(o authority.Options) string { return filepath.Join(o.Dir, "generations", "1", "registry") }
	for name, c := range map[string]struct {
		harm func(t *testing.T, o authority.Options)
		want string // of Check and of Examine; "": sound
		mark string // whose absence shows it to Open too
	}{
		"sound": {harm: func(*testing.T, authority.Options) {}},
		"a record of a repository": {harm: func(t *testing.T, o authority.Options) {
			patchField(t, filepath.Join(repository(o), "worker_job.bin"), "job_kind", 0, 1)
		}, want: "repository 4 (widgets): worker_job.bin record 0: job_kind is 1", mark: "4"},
		"a record of the registry": {harm: func(t *testing.T, o authority.Options) {
			patchField(t, filepath.Join(registry(o), "repository.bin"), "lifecycle_kind", 4, 9)
		}, want: "registry: repository.bin record 4: lifecycle_kind is 9", mark: "registry"},
		"a directory": {harm: func(t *testing.T, o authority.Options) {
			if err := os.Mkdir(filepath.Join(filepath.Dir(repository(o)), "04"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, want: "/04: is not the index of a repository, 0 to 4 (D02)"},
		"a directory that is gone": {harm: func(t *testing.T, o authority.Options) {
			if err := os.RemoveAll(filepath.Join(filepath.Dir(repository(o)), "1")); err != nil {
				t.Fatal(err)
			}
		}, want: "/1: is missing or no real directory, but the registry has a record of the repository (D03)"},
		"the registry is a link": {harm: func(t *testing.T, o authority.Options) {
			if err := errors.Join(os.Rename(registry(o), filepath.Join(o.Dir, "elsewhere")), os.Symlink(filepath.Join(o.Dir, "elsewhere"), registry(o))); err != nil {
				t.Fatal(err)
			}
		}, want: "/registry: is not a real directory (G01)"},
		"the parent": {harm: func(t *testing.T, o authority.Options) {
			parent := filepath.Dir(repository(o))
			if err := errors.Join(os.Rename(parent, filepath.Join(o.Dir, "elsewhere")), os.Symlink(filepath.Join(o.Dir, "elsewhere"), parent)); err != nil {
				t.Fatal(err)
			}
		}, want: "directories: " + "%s: is not a real directory (D01)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, a := made(t)
			if findings, err := a.Check(ctx); err != nil || len(findings) > 0 {
				t.Fatalf("%v, %v", findings, err)
			}
			c.harm(t, o)
			want := strings.Replace(c.want, "%s", filepath.Dir(repository(o)), 1)
			findings, err := a.Check(ctx)
			if err != nil || (want == "") != (len(findings) == 0) || !strings.Contains(places(findings), want) {
				t.Errorf("Check gives %v, %v, want %s", places(findings), err, want)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				got := examined(t, o)
				if !strings.Contains(got, want) || want == "" && strings.Count(got, ": sound\n") != 7 {
					t.Errorf("Examine gives\n%swant %s", got, want)
				}
				// The others are looked at all the same.
				if name != "the parent" && !strings.Contains(got, "repository 0") || strings.Contains(got, "error") {
					t.Errorf("Examine gives\n%s", got)
				}
				if c.mark == "" {
					break
				}
				if err := os.Remove(filepath.Join(o.Dir, "runtime", "mark", c.mark)); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
		})
	}
}

// A directory named by the next index is staging (D04): it is no violation, and
// whoever opens the authority removes it.
func TestStagingIsSwept(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := authority.Options{Dir: t.TempDir()}
	a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
	if err != nil {
		t.Fatal(err)
	}
	staging := filepath.Join(o.Dir, "generations", "1", "repositories", "5")
	if err := os.MkdirAll(filepath.Join(staging, "half"), 0o700); err != nil {
		t.Fatal(err)
	}
	if findings, err := a.Check(ctx); err != nil || len(findings) > 0 {
		t.Errorf("%v, %v", places(findings), err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := examined(t, o); strings.Count(got, ": sound\n") != 7 {
		t.Errorf("Examine gives\n%s", got)
	}
	if _, err := os.Lstat(staging); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// J06 is a rule between two roots: the record of the registry says purged.
func TestCheckOfPurgedRepositories(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	clock := authoritytest.NewClock()
	o := authority.Options{Dir: t.TempDir(), Clock: clock.Now}
	a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
	if err != nil {
		t.Fatal(err)
	}
	withJobs(t, a, clock)
	if _, err := a.Purge(ctx, 4, nil); err != nil {
		t.Fatal(err)
	}
	if findings, err := a.Check(ctx); err != nil || len(findings) > 0 {
		t.Errorf("%v, %v", findings, err)
	}
	r, err := a.Repository(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	err = r.Root().Update(ctx, func(tx *bindb.Tx) error {
		j, err := bindb.WorkerJobs.Get(tx, 1)
		if err != nil {
			return err
		}
		j.Meta.SetTombstoned(false)
		return bindb.WorkerJobs.Put(tx, 1, j)
	})
	if err != nil {
		t.Fatal(err)
	}
	findings, err := a.Check(ctx)
	if err != nil || len(findings) != 1 || findings[0].Check != "J06" || findings[0].Index != 1 {
		t.Errorf("%v, %v", places(findings), err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := examined(t, o); !strings.Contains(got, "repository 4 (widgets): worker_job.bin record 1: job_meta") || !strings.Contains(got, "(J06)") {
		t.Errorf("Examine gives\n%s", got)
	}
	// An authority that is opened now says so of its own.
	again := openAgain(t, o)
	findings, err = again.Check(ctx)
	if err != nil || !slices.ContainsFunc(findings, func(f authority.Finding) bool { return strings.Contains(f.Message, "worker_job.bin record 1") }) {
		t.Errorf("%v, %v", places(findings), err)
	}
}

// What cannot be looked at is told apart from what is wrong.
func TestExamineReportsErrors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := authority.Options{Dir: t.TempDir()}
	if err := authority.Examine(ctx, o, nil, nil); !errors.Is(err, authority.ErrNoAuthority) {
		t.Errorf("of an empty directory: %v", err)
	}
	a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	seen := 0
	err = authority.Examine(ctx, o, nil, func(authority.RootReport) error { seen++; return stop })
	if !errors.Is(err, stop) || seen != 1 {
		t.Errorf("%v after %d roots", err, seen)
	}
	// A journal of another installation stands where that of a root should be.
	journal := make([]byte, 4096)
	copy(journal, "WRITJNL1")
	if err := os.MkdirAll(filepath.Join(o.Dir, "runtime", "journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "runtime", "journal", "2"), journal, 0o600); err != nil {
		t.Fatal(err)
	}
	got := examined(t, o)
	if !strings.Contains(got, "repository 2 (ait-python): error") || strings.Count(got, ": sound\n") != 6 {
		t.Errorf("Examine gives\n%s", got)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := authority.Examine(cancelled, o, nil, func(authority.RootReport) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
