package main_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
	"github.com/writ-authority/writ/workitem/transfer"
)

// movingJobs is how many jobs are in an import that is interrupted: so many that their
// text is larger than what lies in pipes, buffers and the first transactions.
const movingJobs = 6000

// manyJobs is the export of a store with movingJobs jobs.
func manyJobs(t *testing.T) []byte {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "work.db")})
	if err != nil {
		t.Fatal(err)
	}
	a, err := workitem.New(store, workitem.Config{})
	if err != nil {
		t.Fatal(errors.Join(err, store.Close()))
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := a.As(workitem.Principal{Subject: "tester", Tenant: "local", Owner: "tester", Scopes: workitem.ScopeAdmin})
	const callers = 64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := i; n < movingJobs; n += callers {
				if _, err := c.Submit(t.Context(), &workitem.SubmitInput{Request: stormRequest("moving-"+strconv.Itoa(n), "")}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	var b bytes.Buffer
	if _, err := transfer.Export(t.Context(), store, &b, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	if b.Len() < 8<<20 {
		t.Fatalf("the export has only %d bytes", b.Len())
	}
	return b.Bytes()
}

// writ runs a command and returns its exit code, or -1 if a signal has ended it, with
// what it has printed.
func writ(t *testing.T, in io.Reader, args ...string) (code int, out, messages string) {
	t.Helper()
	c := exec.Command("writ", args...)
	var o, e bytes.Buffer
	c.Dir, c.Stdin, c.Stdout, c.Stderr = t.TempDir(), in, &o, &e
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), o.String(), e.String()
}

// sameJobs wants two exports to have the same lines, apart from the first one and the
// last one, which say when they were made and of what engine they are.
func sameJobs(t *testing.T, got, want []byte) {
	t.Helper()
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	if len(a) != len(b) {
		t.Fatalf("%d lines, want %d", len(a), len(b))
	}
	for i := 1; i < len(a)-2; i++ {
		if !bytes.Equal(a[i], b[i]) {
			t.Fatalf("line %d is\n%s\nwant\n%s", i+1, a[i], b[i])
		}
	}
}

// TestKillImport kills imports in the middle. Nothing uses what they leave; the next
// import begins anew, and then everything is there.
func TestKillImport(t *testing.T) {
	t.Parallel()
	text := manyJobs(t)
	for name, where := range map[string]func(*testing.T) []string{
		"sqlite": func(t *testing.T) []string { return []string{"--data", filepath.Join(t.TempDir(), "data")} },
		"postgres": func(t *testing.T) []string {
			return []string{"--jobs-db", pgtest.Shared(t, pgtest.Options{Durable: true}).Database(t)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := where(t)
			on := func(args ...string) []string { return append(append([]string{"job"}, args...), place...) }
			for range 2 {
				c := exec.Command("writ", on("import", "-")...)
				in, err := c.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				// What it has not read by then fits into its buffers.
				_, err = in.Write(text[:len(text)-1<<20])
				if err := errors.Join(err, c.Process.Kill()); err != nil {
					t.Fatal(err)
				}
				if err := c.Wait(); err == nil {
					t.Fatal("an import that was killed has succeeded")
				}
				for _, args := range [][]string{on("list"), on("export", filepath.Join(t.TempDir(), "x"))} {
					if code, out, messages := writ(t, nil, args...); code != 1 || !strings.Contains(messages, "import") {
						t.Fatalf("%v: exit code %d\n%s%s", args, code, out, messages)
					}
				}
			}
			if code, out, messages := writ(t, bytes.NewReader(text), on("import", "-")...); code != 0 {
				t.Fatalf("the last import: exit code %d\n%s%s", code, out, messages)
			}
			code, out, messages := writ(t, nil, on("export")...)
			if code != 0 {
				t.Fatalf("the export: exit code %d\n%s", code, messages)
			}
			sameJobs(t, []byte(out), text)
		})
	}
}

// TestImportOnFullDisk fills the disk in the middle of an import.
func TestImportOnFullDisk(t *testing.T) {
	t.Parallel()
	if !canMount() {
		t.Skip("file systems can not be mounted here")
	}
	text := manyJobs(t)
	dir := t.TempDir()
	if err := mountSmall(dir, "64m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 58<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	code, out, messages := writ(t, bytes.NewReader(text), "job", "import", "-", "--data", data)
	if code != 6 || !strings.Contains(messages, "room") {
		t.Fatalf("on a full disk: exit code %d\n%s%s", code, out, messages)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if code, out, messages := writ(t, nil, "job", "list", "--data", data); code != 1 {
		t.Errorf("what is left: exit code %d\n%s%s", code, out, messages)
	}
	if code, out, messages := writ(t, bytes.NewReader(text), "job", "import", "-", "--data", data); code != 0 {
		t.Fatalf("with room again: exit code %d\n%s%s", code, out, messages)
	}
	if code, out, messages := writ(t, nil, "job", "export", "--data", data); code != 0 {
		t.Errorf("the export: exit code %d\n%s", code, messages)
	} else {
		sameJobs(t, []byte(out), text)
	}
}
