// Package bindbtest holds what tests of packages above bindb need: a check that
// nothing they wrote violates the format.
package bindbtest

import (
	"context"
	"testing"

	"github.com/writ-authority/writ/bindb"
)

// MustCheck opens the root anew, as another process would, validates all of it
// and fails the test on any finding. It leaves the root as it found it, apart
// from the recovery of an interrupted batch.
func MustCheck(t testing.TB, cfg bindb.Config) {
	t.Helper()
	ctx := context.Background()
	r, err := bindb.Open(ctx, cfg)
	if err != nil {
		t.Fatalf("the root must be sound: %v", err)
	}
	findings, err := r.Check(ctx)
	if err != nil {
		t.Errorf("check %s: %v", cfg.Dir, err)
	}
	for _, f := range findings {
		t.Errorf("%s: %s", cfg.Dir, f)
	}
	if err := r.Close(); err != nil {
		t.Errorf("close %s: %v", cfg.Dir, err)
	}
}
