package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/internal/sqlitefile"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// admin may do everything.
var admin = workitem.Principal{Subject: "s", Tenant: "tenant-a", Owner: "o", Scopes: workitem.ScopeAdmin}

// opened opens a store and its authority until the test ends.
func opened(t *testing.T, path string) (*sqlite.Store, *workitem.Caller) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	a, err := workitem.New(s, workitem.Config{Quota: 4096})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return s, a.As(admin)
}

// jobID is the job of the n-th request.
func jobID(n int) string { return workitem.NewID(admin.Tenant, fmt.Sprintf("idem-%08d", n)).JobID() }

// finish submits the n-th request and has its job succeed.
func finish(ctx context.Context, jobs *workitem.Caller, n int) error {
	if _, err := jobs.Submit(ctx, &workitem.SubmitInput{Request: request(n)}); err != nil {
		return err
	}
	a, err := jobs.Claim(ctx, &workitem.ClaimInput{JobID: jobID(n), Worker: "w"})
	if err != nil {
		return err
	}
	_, err = jobs.Commit(ctx, &workitem.CommitInput{JobID: jobID(n), Claim: a.Claim.Fence(), Outcome: "succeeded"})
	return err
}

// alter changes a store as no program should.
func alter(t *testing.T, path, text string) {
	t.Helper()
	c, err := zombie.OpenConn(path, zombie.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteTransient(c, text, nil), c.Close()); err != nil {
		t.Fatal(err)
	}
}

// receive makes a store of a copy and checks it.
func receive(t *testing.T, copied []byte, path string) sqlite.Summary {
	t.Helper()
	if err := sqlite.Receive(t.Context(), bytes.NewReader(copied), path, nil); err != nil {
		t.Fatal(err)
	}
	sum, err := sqlite.Check(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestCopyUnderLoad copies a store whose writers go on, and looks in the copies for
// states that the store can't have been in.
func TestCopyUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, jobs := opened(t, filepath.Join(dir, "work.db"))
	const writers = 8
	var mu sync.Mutex
	var acknowledged [writers]int // jobs of a writer that were answered
	stop := make(chan struct{})
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() { // until stop is closed
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := finish(t.Context(), jobs, w*1_000_000+n); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged[w] = n + 1
				mu.Unlock()
			}
		})
	}
	enough := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return acknowledged[0] >= n
	}
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		for !enough(50 * (round + 1)) {
			if t.Failed() {
				break
			}
			if _, err := jobs.Stats(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		before := acknowledged
		mu.Unlock()
		var copied bytes.Buffer
		if err := s.Copy(t.Context(), &copied); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprint("copy", round, ".db"))
		sum := receive(t, copied.Bytes(), path)
		c, its := opened(t, path)
		total := 0
		for w := range writers {
			// Exactly a beginning of what each writer has done, with all that was
			// acknowledged before.
			n := 0
			for ; ; n++ {
				v, err := its.Get(t.Context(), &workitem.GetInput{JobID: jobID(w*1_000_000 + n)})
				if errors.Is(err, workitem.ErrNotFound) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				total++
				if v.State != "succeeded" {
					if _, err := its.Get(t.Context(), &workitem.GetInput{JobID: jobID(w*1_000_000 + n + 1)}); !errors.Is(err, workitem.ErrNotFound) {
						t.Errorf("writer %d has begun another job while its last one was %s: %v", w, v.State, err)
					}
					break
				}
			}
			if n < before[w] {
				t.Errorf("writer %d had %d jobs acknowledged before the copy, which has %d", w, before[w], n)
			}
		}
		if sum.Jobs != total {
			t.Errorf("the copy has %d jobs, and %d of a beginning", sum.Jobs, total)
		}
		if err := c.Health(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	done.Wait()
}

// TestLogIsKeptDuringACopy has the log outgrow several checkpoints while a copy is
// under way whose reader has not taken the first byte of the database yet.
func TestLogIsKeptDuringACopy(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it writes thousands of jobs")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "work.db")
	s, jobs := opened(t, path)
	submit := func(from, to int) {
		t.Helper()
		var all sync.WaitGroup
		for w := range 64 {
			all.Go(func() {
				for n := from + w; n < to; n += 64 {
					if _, err := jobs.Submit(t.Context(), &workitem.SubmitInput{Request: request(n)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	submit(0, 100)
	r, w := io.Pipe()
	copied := make(chan error, 1)
	go func() { copied <- errors.Join(s.Copy(t.Context(), w), w.Close()) }()
	first := make([]byte, 1)
	if _, err := io.ReadFull(r, first); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	submit(100, 3000) // about 7 writes each: more than pass between two checkpoints
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if before.ModTime() != after.ModTime() || before.Size() != after.Size() {
		t.Error("the log was copied into the database during a copy of both")
	}
	rest, err := io.ReadAll(r)
	if err := errors.Join(err, <-copied); err != nil {
		t.Fatal(err)
	}
	if sum := receive(t, append(first, rest...), filepath.Join(dir, "copy.db")); sum.Jobs < 100 {
		t.Errorf("the copy has %d jobs", sum.Jobs)
	}
	// It is copied again from now on.
	for n := 3000; ; n += 100 {
		submit(n, n+100)
		if info, err := os.Stat(path); err != nil || info.Size() > before.Size() {
			break
		}
		if n > 20_000 {
			t.Fatal("the log is never copied again")
		}
	}
}

func TestBrokenCopiesAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, jobs := opened(t, filepath.Join(dir, "work.db"))
	for n := range 3 {
		if _, err := jobs.Submit(t.Context(), &workitem.SubmitInput{Request: request(n)}); err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	if err := s.Copy(t.Context(), &buf); err != nil {
		t.Fatal(err)
	}
	whole := buf.Bytes()
	if sum := receive(t, whole, filepath.Join(dir, "whole.db")); sum != (sqlite.Summary{Schema: 1, Jobs: 3}) {
		t.Errorf("the copy has %+v", sum)
	}
	try := func(name string, copied []byte) {
		t.Helper()
		at := filepath.Join(t.TempDir(), "work.db")
		if err := sqlite.Receive(t.Context(), bytes.NewReader(copied), at, nil); !errors.Is(err, sqlitefile.ErrBrokenCopy) {
			t.Errorf("%s is answered with %v", name, err)
		}
	}
	for at := 0; at < len(whole); at += 1 + len(whole)/97 {
		try(fmt.Sprintf("a copy cut after %d bytes", at), whole[:at])
		flipped := bytes.Clone(whole)
		flipped[at] ^= 0x10
		try(fmt.Sprintf("a copy with another byte %d", at), flipped)
	}
	try("a copy without its last byte", whole[:len(whole)-1])

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Copy(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("a copy that is given up is answered with %v", err)
	}
	if err := sqlite.Receive(ctx, bytes.NewReader(whole), filepath.Join(dir, "cancelled.db"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a copy that nobody waits for is answered with %v", err)
	}
}

// stuck is a reader of a copy who takes nothing until he is let go.
type stuck struct {
	began chan struct{}
	once  sync.Once
	let   chan struct{}
}

func (w *stuck) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.began) })
	<-w.let
	return len(p), nil
}

func TestCloseEndsACopy(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "work.db")})
	if err != nil {
		t.Fatal(err)
	}
	w := &stuck{began: make(chan struct{}), let: make(chan struct{})}
	copied, closed := make(chan error, 1), make(chan error, 1)
	go func() { copied <- s.Copy(t.Context(), w) }()
	<-w.began
	go func() { closed <- s.Close() }()
	// Once views are refused the store is closing.
	for s.View(t.Context(), func(workitem.Reader) error { return nil }) == nil {
		runtime.Gosched()
	}
	select {
	case err := <-closed:
		t.Fatalf("the store is closed while it is copied: %v", err)
	default:
	}
	close(w.let)
	if err := <-copied; !errors.Is(err, workitem.ErrAuthorityUnavailable) {
		t.Errorf("the copy ends with %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := s.Copy(t.Context(), io.Discard); !errors.Is(err, workitem.ErrAuthorityUnavailable) {
		t.Errorf("a copy of a closed store ends with %v", err)
	}
}

func TestCheckFindsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, jobs := opened(t, filepath.Join(dir, "work.db"))
	for n := range 3 {
		if _, err := jobs.Submit(t.Context(), &workitem.SubmitInput{Request: request(n)}); err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	if err := s.Copy(t.Context(), &buf); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ sql, want string }{
		{"UPDATE counts SET items = items + 1", "counts 4 jobs"},
		{"DELETE FROM records WHERE item = 2", "records row 2 is missing"},
		{"UPDATE records SET metadata = '{}' WHERE item = 2", "records row 2 can't be read"},
		{"UPDATE records SET digest = x'00' WHERE item = 1", "digest that is not 32 bytes"},
		{"DELETE FROM history WHERE item = 3", "history row 3 is missing"},
		{"UPDATE items SET lease_epoch = 4294967296 WHERE item = 1", "authority epoch that has not begun"},
		{"UPDATE items SET status = 9, kind = 1 WHERE item = 1", "status 9"},
		{"UPDATE items SET tenant = 7 WHERE item = 1", "names a tenant that is not there"},
		{"INSERT INTO meta (name, value) VALUES ('epoch', 2097152)", "authority epoch is 2097152"},
		{"INSERT INTO edges (parent, child) VALUES (x'00', x'01')", "1 rows of edges"},
		{"INSERT INTO history SELECT 77, seq, at, event, from_status, to_status, epoch, subject, detail FROM history WHERE item = 1", "history row 77 belongs to no job"},
	} {
		path := filepath.Join(t.TempDir(), "work.db")
		receive(t, buf.Bytes(), path)
		alter(t, path, tc.sql)
		if _, err := sqlite.Check(t.Context(), path); !errors.Is(err, sqlite.ErrCorrupt) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.sql, err)
		}
	}
	// A page of SQLite's own structures.
	path := filepath.Join(t.TempDir(), "work.db")
	receive(t, buf.Bytes(), path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 200), 3*4096)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Check(t.Context(), path); !errors.Is(err, sqlite.ErrCorrupt) {
		t.Errorf("a damaged page is answered with %v", err)
	}
}
