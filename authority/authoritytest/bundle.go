// Package authoritytest makes authorities for tests and benchmarks: small ones
// with a clock that stands still, and large ones filled with a history.
package authoritytest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
)

// Start is where a Clock begins.
var Start = time.Unix(1_700_000_000, 0)

// Clock is a clock that moves when it is told to. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows Start.
func NewClock() *Clock { return &Clock{now: Start} }

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Random is a reader of reproducible bytes, safe for concurrent use.
type Random struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

// NewRandom returns the reader of one seed.
func NewRandom(seed byte) *Random { return &Random{src: rand.NewChaCha8([32]byte{seed})} }

// Read fills p.
func (r *Random) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src.Read(p)
}

// Owned makes Setup give authorities that their process owns. The tests of package
// authority run in both modes.
var Owned = os.Getenv("WRIT_TEST_OWN") != ""

// Shared skips a test about several processes at one authority.
func Shared(t testing.TB) {
	t.Helper()
	if Owned {
		t.Skip("an owned authority is not shared")
	}
}

// Bundle is a small authority with one user Repository.
type Bundle struct {
	TB        testing.TB
	Options   authority.Options
	Clock     *Clock
	Authority *authority.Authority
	Repo      *authority.Repository
}

// Setup creates an authority in a directory of the test. When the test ends, its
// Repository must be sound; both are closed.
func Setup(t testing.TB) *Bundle {
	t.Helper()
	clock := NewClock()
	b := &Bundle{TB: t, Clock: clock, Options: authority.Options{
		Dir: t.TempDir(), Clock: clock.Now, Random: NewRandom(1), LockWait: 10 * time.Second,
		Own: Owned,
	}}
	var err error
	if b.Authority, err = authority.Create(context.Background(), b.Options, "widgets", authority.DefaultFlags); err != nil {
		t.Fatal(err)
	}
	b.open()
	t.Cleanup(func() {
		b.Check()
		if err := b.Authority.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *Bundle) open() {
	b.TB.Helper()
	var err error
	if b.Repo, err = b.Authority.Repository(context.Background(), authority.FirstRepository); err != nil {
		b.TB.Fatal(err)
	}
}

// Reopen closes the authority and opens it again.
func (b *Bundle) Reopen() {
	b.TB.Helper()
	if err := b.Authority.Close(); err != nil {
		b.TB.Fatal(err)
	}
	var err error
	if b.Authority, err = authority.Open(context.Background(), b.Options); err != nil {
		b.TB.Fatal(err)
	}
	b.open()
}

// Second opens the authority once more, as another process would.
func (b *Bundle) Second() *authority.Repository {
	b.TB.Helper()
	Shared(b.TB)
	a, err := authority.Open(context.Background(), b.Options)
	if err != nil {
		b.TB.Fatal(err)
	}
	b.TB.Cleanup(func() {
		if err := a.Close(); err != nil {
			b.TB.Error(err)
		}
	})
	r, err := a.Repository(context.Background(), authority.FirstRepository)
	if err != nil {
		b.TB.Fatal(err)
	}
	return r
}

// Check fails the test when the registry or the Repository violates the format.
func (b *Bundle) Check() {
	b.TB.Helper()
	if findings, err := b.Authority.Registry().Check(context.Background()); err != nil || len(findings) > 0 {
		b.TB.Errorf("registry: %v %v", findings, err)
	}
	if findings, err := b.Repo.Root().Check(context.Background()); err != nil || len(findings) > 0 {
		b.TB.Errorf("repository: %v %v", findings, err)
	}
}

// Update runs fn, which must succeed.
func (b *Bundle) Update(fn func(*authority.Tx) error) {
	b.TB.Helper()
	if err := b.Repo.Update(context.Background(), fn); err != nil {
		b.TB.Fatal(err)
	}
}

// View runs fn, which must succeed.
func (b *Bundle) View(fn func(*authority.View) error) {
	b.TB.Helper()
	if err := b.Repo.View(context.Background(), fn); err != nil {
		b.TB.Fatal(err)
	}
}

// Published is a Patchset with what it belongs to, by index.
type Published struct {
	Task, Change, Patchset uint32
	Main                   uint32 // Line, which stands on Base
	Base, Revision         uint32 // Snapshots
}

// Publish opens a Task with a Change and publishes its first Patchset.
func (b *Bundle) Publish() Published {
	b.TB.Helper()
	var p Published
	b.Update(func(tx *authority.Tx) (err error) {
		p, err = published(tx)
		return err
	})
	return p
}

// Next publishes another Patchset of the same Change on the same base and selects
// it.
func (b *Bundle) Next(p Published) Published {
	b.TB.Helper()
	b.Update(func(tx *authority.Tx) error {
		line, err := tx.EnsureLine("paint")
		if err != nil {
			return err
		}
		if p.Revision, err = snapshot(tx, line); err != nil {
			return err
		}
		p.Patchset, err = tx.Publish(authority.PatchsetSpec{
			Change: p.Change, Base: p.Base, Revision: p.Revision, Summary: "Paint the widgets blue",
		})
		if err != nil {
			return err
		}
		return tx.SelectPatchset(p.Patchset)
	})
	return p
}

// Snapshot describes the content that a number stands for.
func Snapshot(number uint64, line uint32) authority.SnapshotSpec {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, number))
	return authority.SnapshotSpec{
		Hash48: binary.LittleEndian.Uint64(sum[:]) & (1<<48 - 1), Line: line, Manifest: sum,
		Files: uint32(number%100) + 1, Bytes: number * 100, Message: fmt.Sprintf("state %d", number),
	}
}

// Passed is the evidence of one suite of tests that passed.
var Passed = authority.Evidence{
	Selected: 1, Results: 1, Overall: record.CIStatusPass, Tests: record.CIStatusPass,
}

// Failed is the evidence of one blocking suite of tests that failed.
var Failed = authority.Evidence{
	Selected: 1, Results: 1, BlockingFailures: 1, Overall: record.CIStatusFail, Tests: record.CIStatusFail,
}

// Run gives a Patchset evidence through the queue, in one transaction.
func Run(tx *authority.Tx, patchset uint32, ev authority.Evidence) error {
	job, _, err := tx.EnqueueCI(patchset)
	if err != nil {
		return err
	}
	l, err := tx.Claim(job, authority.RequestID{})
	if err != nil {
		return err
	}
	_, err = tx.CompleteCI(l, ev)
	return err
}
