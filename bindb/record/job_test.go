package record_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

// All combinations of state, outcome, error and lock, against the table of
// section 5.15 written down once more.
func TestJobStateTable(t *testing.T) {
	t.Parallel()
	type row struct {
		outcomes []record.JobOutcome
		errors   []record.JobError
	}
	table := map[record.JobState]row{
		1: {[]record.JobOutcome{0}, []record.JobError{0, 1, 3}},
		2: {[]record.JobOutcome{0}, []record.JobError{0, 1, 3}},
		3: {[]record.JobOutcome{1, 2, 3, 4}, []record.JobError{0}},
		4: {[]record.JobOutcome{5}, []record.JobError{2, 3}},
	}
	for state := record.JobState(1); state <= 4; state++ {
		for outcome := record.JobOutcome(0); outcome <= 5; outcome++ {
			for failure := record.JobError(0); failure <= 3; failure++ {
				for _, locked := range []record.Seconds{0, 95} {
					j := record.WorkerJob{
						Kind: record.JobKindContentGC, State: state, Outcome: outcome, Error: failure, Attempts: 1, MaxAttempts: 1,
						AvailableAt: 1, LockedAt: locked, CreatedAt: 90, UpdatedAt: 100,
					}
					want := slices.Contains(table[state].outcomes, outcome) && slices.Contains(table[state].errors, failure) &&
						(locked != 0) == (state == record.JobStateRunning)
					err := j.Check()
					if (err == nil) != want {
						t.Errorf("%s %s %s locked %d: got %v, want acceptance %v", state, outcome, failure, locked, err, want)
					}
					var fe *record.FieldError
					if err != nil && (!errors.As(err, &fe) || fe.Check != "J03") {
						t.Errorf("%s %s %s: got %v, want J03", state, outcome, failure, err)
					}
				}
			}
		}
	}
}

func TestCheckJob(t *testing.T) {
	t.Parallel()
	type R = record.WorkerJob
	run := func(r *R) { *r = job(record.JobStateRunning) }
	valid[R]{
		good: func() R { return job(record.JobStateQueued) },
		accepts: map[string]func(*R){
			"running":      run,
			"retry":        func(r *R) { r.Attempts, r.Error = 1, record.JobErrorLeaseExpired },
			"last attempt": func(r *R) { run(r); r.Attempts = 3 },
			"never tried":  func(r *R) { r.State, r.Outcome = record.JobStateSucceeded, record.JobOutcomeAttached },
		},
		breaks: map[string]func(*R){
			"J03 error_kind new":         func(r *R) { r.Error = record.JobErrorRetryable },
			"J04 max_attempts":           func(r *R) { r.MaxAttempts = 0 },
			"J04 attempt_count":          func(r *R) { r.Attempts = 4 },
			"J04 attempt_count running":  func(r *R) { run(r); r.Attempts = 0 },
			"J05 available_at_s":         func(r *R) { r.AvailableAt = 0 },
			"J05 created_at_s":           func(r *R) { r.CreatedAt = 0 },
			"J05 updated_at_s":           func(r *R) { r.UpdatedAt = 89 },
			"J05 locked_at_s too early":  func(r *R) { run(r); r.LockedAt = 89 },
			"J05 locked_at_s too late":   func(r *R) { run(r); r.LockedAt = 121 },
			"J01 patchset_index_plus1":   func(r *R) { r.Patchset = 0 },
			"J01 snapshot_index_plus1":   func(r *R) { r.Snapshot = 1 },
			"J01 patchset_index_plus1 0": func(r *R) { r.Kind = record.JobKindContentGC },
			"J01 snapshot_index_plus1 r": func(r *R) { r.Kind, r.Patchset = record.JobKindRepoCI, 0 },
		},
	}.run(t, (*R).Check)
}

func TestJobReferences(t *testing.T) {
	t.Parallel()
	names := map[record.Need]string{record.NeedNone: "zero", record.NeedOptional: "optional", record.NeedRequired: "required"}
	n := 0
	for _, line := range facts(t, "facts.txt") {
		var kind record.JobKind
		var patchset, snapshot string
		if !strings.HasPrefix(line, "job ") {
			continue
		}
		if _, err := fmt.Sscanf(line, "job %d %s %s", &kind, &patchset, &snapshot); err != nil {
			t.Fatal(err)
		}
		n++
		if got := names[kind.PatchsetNeed()]; got != patchset {
			t.Errorf("%s: patchset is %s, want %s", kind, got, patchset)
		}
		if got := names[kind.SnapshotNeed()]; got != snapshot {
			t.Errorf("%s: snapshot is %s, want %s", kind, got, snapshot)
		}
	}
	if n != 10 {
		t.Errorf("%d Job kinds, want 10", n)
	}
}
