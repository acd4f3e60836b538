package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// Bundle is an authority under test.
type Bundle struct {
	// Jobs is the authority for one caller, until the next Reopen.
	Jobs func(workitem.Principal) operation.Jobs
	// Store is the store of the authority, for rows that no verb would write.
	Store func() workitem.Store
	// Reopen closes authority and store and opens them again.
	Reopen func()
	// Save closes authority and store, keeps a copy of what the store has, and opens
	// them again. What it returns does the same and brings the copy back meanwhile.
	Save func() (restore func())
}

// Open makes an authority of an empty store, with the clock and these settings.
// What it opens it closes when the test ends.
type Open func(t *testing.T, cfg workitem.Config, clock *Clock) *Bundle

// Engine opens the store of one engine that lies in a directory, by a clock; nil is
// the machine's.
type Engine func(ctx context.Context, dir string, clock *Reading) (workitem.Store, error)

// Save copies what the closed store of a directory has. What it returns brings that
// back, while the store is closed too.
type Save func(t *testing.T, dir string) (restore func())

// Over makes authorities of an engine's stores, each in a directory of its own.
func Over(engine Engine) Open {
	return OverSaved(engine, func(t *testing.T, dir string) func() {
		t.Helper()
		saved := filepath.Join(t.TempDir(), "saved")
		if err := os.CopyFS(saved, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		return func() {
			t.Helper()
			if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(saved))); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// OverSaved is Over for an engine that keeps its stores elsewhere than in their
// directories.
func OverSaved(engine Engine, save Save) Open {
	return func(t *testing.T, cfg workitem.Config, clock *Clock) *Bundle {
		t.Helper()
		dir := t.TempDir()
		var store workitem.Store
		var authority *workitem.Authority
		open := func() {
			t.Helper()
			var reading *Reading
			if clock != nil {
				reading = clock.Start()
			}
			var err error
			if store, err = engine(t.Context(), dir, reading); err != nil {
				t.Fatal(err)
			}
			if authority, err = workitem.New(store, cfg); err != nil {
				t.Fatal(err)
			}
			<-authority.Reconciled()
		}
		shut := func() {
			t.Helper()
			if err := authority.Close(); err != nil {
				t.Error(err)
			}
		}
		open()
		t.Cleanup(func() { shut() })
		return &Bundle{
			Jobs:   func(p workitem.Principal) operation.Jobs { return authority.As(p) },
			Store:  func() workitem.Store { return store },
			Reopen: func() { t.Helper(); shut(); open() },
			Save: func() func() {
				t.Helper()
				shut()
				restore := save(t, dir)
				open()
				return func() { t.Helper(); shut(); restore(); open() }
			},
		}
	}
}

// test is one behaviour.
type test struct {
	name   string
	at     float64 // where the clock starts, in seconds; 0 is in 2030
	config func(*workitem.Config)
	run    func(*fixture)
	// prepare, instead of config and run, makes a test that shares something with
	// its configuration.
	prepare func(*workitem.Config) func(*fixture)
}

// begin is where the clock starts if a test does not say.
var begin = workitem.Instant(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())

// Run tests every behaviour, each on a store of its own, side by side.
func Run(t *testing.T, open Open) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"submit", submitTests}, {"trace", traceTests}, {"order", orderTests}, {"lease", leaseTests},
		{"replay", replayTests}, {"cancel", cancelTests}, {"consent", consentTests},
		{"dependency", dependencyTests}, {"retry", retryTests}, {"list", listTests},
		{"ready", readyTests}, {"tenancy", tenancyTests}, {"history", historyTests},
		{"prune", pruneTests}, {"restart", restartTests}, {"wait", waitTests}, {"observe", observeTests}, {"store", storeTests}, {"epoch", epochTests}, {"overview", overviewTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, tc := range group.tests {
				t.Run(tc.name, func(t *testing.T) {
					t.Parallel()
					f := newFixture(t, &tc, open)
					f.run(f)
				})
			}
		})
	}
}

func newFixture(t *testing.T, tc *test, open Open) *fixture {
	t.Helper()
	var cfg workitem.Config
	if tc.config != nil {
		tc.config(&cfg)
	}
	run := tc.run
	if tc.prepare != nil {
		run = tc.prepare(&cfg)
	}
	at := begin
	if tc.at != 0 {
		at = seconds(tc.at)
	}
	f := &fixture{T: t, Clock: NewClock(at), ctx: t.Context(), run: run}
	f.Bundle = open(t, cfg, f.Clock)
	f.enter()
	return f
}
