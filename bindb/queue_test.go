package bindb_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// queueState is what the queue says about the Jobs that a reader sees.
type queueState struct {
	ready   []string // time and index
	running []uint32
	counts  bindb.JobCounts
	active  []string // greatest active patchset.ci Job of each Patchset that does not select it
}

// queueNow is the instant at which Jobs are counted as ready.
const queueNow = 105

// queueByIndex asks the functions under test.
func queueByIndex(r bindb.Reader, patchsets uint32) (s queueState, err error) {
	err = bindb.ReadyJobs(r, func(at record.Seconds, job uint32) (bool, error) {
		s.ready = append(s.ready, fmt.Sprint(uint64(at), " ", job))
		return true, nil
	})
	err = errors.Join(err, bindb.RunningJobs(r, func(job uint32) (bool, error) {
		s.running = append(s.running, job)
		return true, nil
	}))
	var cerr error
	s.counts, cerr = bindb.CountJobs(r, queueNow)
	err = errors.Join(err, cerr)
	for p := range patchsets {
		job, ok, aerr := bindb.ActiveCI(r, p)
		if ok {
			s.active = append(s.active, fmt.Sprint(p, " ", job))
		}
		err = errors.Join(err, aerr)
	}
	return s, err
}

// queueByScan reads every record.
func queueByScan(r bindb.Reader, patchsets uint32) (s queueState, err error) {
	type key struct {
		at  record.Seconds
		job uint32
	}
	var ready []key
	n, err := bindb.WorkerJobs.Count(r)
	if err != nil {
		return s, err
	}
	greatest := map[uint32]uint32{}
	err = bindb.WorkerJobs.Scan(r, 0, n, func(i uint32, j *record.WorkerJob) error {
		if j.Meta.Tombstoned() {
			return nil
		}
		switch j.State {
		case record.JobStateQueued:
			ready = append(ready, key{j.AvailableAt, i})
			s.counts.Queued++
			if j.AvailableAt <= queueNow {
				s.counts.Ready++
			}
		case record.JobStateRunning:
			s.running = append(s.running, i)
			s.counts.Running++
		case record.JobStateSucceeded:
			s.counts.Succeeded++
		case record.JobStateFailed:
			s.counts.Failed++
		}
		if p, ok := j.Patchset.Index(); ok && j.Kind == record.JobKindPatchsetCI && !j.State.Terminal() {
			greatest[p] = i
		}
		return nil
	})
	slices.SortFunc(ready, func(a, b key) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.job, b.job)) })
	for _, k := range ready {
		s.ready = append(s.ready, fmt.Sprint(uint64(k.at), " ", k.job))
	}
	for p := range patchsets {
		rec, perr := bindb.Patchsets.Get(r, p)
		err = errors.Join(err, perr)
		if job, ok := greatest[p]; ok && (rec.CIJob == 0 || record.RefTo(job) > rec.CIJob) {
			s.active = append(s.active, fmt.Sprint(p, " ", job))
		}
	}
	return s, err
}

func sameQueue(r bindb.Reader, patchsets uint32) error {
	got, err := queueByIndex(r, patchsets)
	if err != nil {
		return err
	}
	want, err := queueByScan(r, patchsets)
	if err != nil {
		return err
	}
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		return fmt.Errorf("the queue says\n %s\nthe records say\n %s", g, w)
	}
	return nil
}

// jobOf draws a valid record.
func jobOf(t *rapid.T, patchsets uint32) record.WorkerJob {
	j := record.WorkerJob{
		Kind: rapid.SampledFrom([]record.JobKind{record.JobKindContentGC, record.JobKindReconcileRepo, record.JobKindPatchsetCI}).Draw(t, "kind"),
		State: rapid.SampledFrom([]record.JobState{
			record.JobStateQueued, record.JobStateQueued, record.JobStateRunning, record.JobStateSucceeded, record.JobStateFailed,
		}).Draw(t, "state"),
		MaxAttempts: 3, CreatedAt: 100, UpdatedAt: 120,
		AvailableAt: record.Seconds(rapid.SampledFrom([]uint64{1, 100, 104, 105, 106, 1 << 33}).Draw(t, "available")),
	}
	if j.Kind == record.JobKindPatchsetCI {
		j.Patchset = record.RefTo(rapid.Uint32Range(0, patchsets-1).Draw(t, "patchset"))
	}
	switch j.State {
	case record.JobStateRunning:
		j.Attempts, j.LockedAt = 1, 110
	case record.JobStateSucceeded:
		j.Outcome = record.JobOutcomeCompleted
	case record.JobStateFailed:
		j.Outcome, j.Error = record.JobOutcomeFailed, record.JobErrorTerminal
	}
	j.Meta.SetTombstoned(rapid.IntRange(0, 9).Draw(t, "tombstone") == 0)
	return j
}

// TestQueueFollowsTheRecords changes Jobs at random, in batches of which parts
// fail, by two roots that stand for two processes or by an owner, with restarts: what the queue
// keeps in memory must always be what a scan of the records says.
func TestQueueFollowsTheRecords(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		cfg := configBelow(vfs.NewSim(), "/")
		if err := bindb.Create(cfg); err != nil {
			t.Fatal(err)
		}
		cfg.Own = cfg.Own || rapid.Bool().Draw(t, "owned")
		roots := make([]*bindb.Root, 2)
		if cfg.Own {
			roots = roots[:1]
		}
		openAt := func(i int) {
			var err error
			if roots[i], err = bindb.Open(ctx, cfg); err != nil {
				t.Fatal(err)
			}
		}
		for i := range roots {
			openAt(i)
		}
		const patchsets = 3
		err := roots[0].Update(ctx, write(func(w *writer) {
			line := w.line("main")
			base := w.snapshot(line)
			c := w.change(w.task("task"), line, "change")
			for range patchsets {
				w.patchset(c, base, w.snapshot(line))
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		mutation := func(t *rapid.T) func(*bindb.Tx) error {
			type step struct {
				put    uint32
				append bool
				rec    record.WorkerJob
			}
			var steps []step
			for range rapid.IntRange(1, 4).Draw(t, "steps") {
				steps = append(steps, step{rapid.Uint32Range(0, 400).Draw(t, "job"), rapid.Bool().Draw(t, "append"), jobOf(t, patchsets)})
			}
			fails := rapid.IntRange(0, 3).Draw(t, "fails") == 0
			selects := rapid.IntRange(0, 3).Draw(t, "selects") == 0
			return func(tx *bindb.Tx) error {
				for _, s := range steps {
					n, err := bindb.WorkerJobs.Count(tx)
					if err != nil {
						return err
					}
					if s.append || n == 0 {
						if _, err := bindb.WorkerJobs.Append(tx, s.rec); err != nil {
							return err
						}
					} else if err := bindb.WorkerJobs.Put(tx, s.put%n, s.rec); err != nil {
						return err
					}
					if p, ok := s.rec.Patchset.Index(); ok && selects {
						rec, err := bindb.Patchsets.Get(tx, p)
						if err != nil {
							return err
						}
						rec.CIJob = record.RefTo(s.put % max(n, 1))
						if err := bindb.Patchsets.Put(tx, p, rec); err != nil {
							return err
						}
					}
					if err := sameQueue(tx, patchsets); err != nil {
						return fmt.Errorf("inside of a mutation: %w", err)
					}
				}
				if fails {
					return errChangedMind
				}
				return nil
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			i := rapid.IntRange(0, len(roots)-1).Draw(t, "process")
			var fns []func(*bindb.Tx) error
			for range rapid.IntRange(1, 4).Draw(t, "mutations") {
				fns = append(fns, mutation(t))
			}
			if rapid.IntRange(0, 9).Draw(t, "many") == 0 {
				many := jobOf(t, patchsets)
				fns = append(fns, func(tx *bindb.Tx) error {
					for range 300 { // more than what is looked through without the queue
						if _, err := bindb.WorkerJobs.Append(tx, many); err != nil {
							return err
						}
					}
					return nil
				})
			}
			for _, err := range roots[i].Batch(ctx, fns...) {
				if err != nil && !errors.Is(err, errChangedMind) {
					t.Fatal(err)
				}
			}
			if rapid.IntRange(0, 4).Draw(t, "restart") == 0 {
				if err := roots[i].Close(); err != nil {
					t.Fatal(err)
				}
				openAt(i)
			}
			for _, r := range roots {
				if err := r.View(ctx, func(rd bindb.Reader) error { return sameQueue(rd, patchsets) }); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, r := range roots {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestQueueStopsWhenAsked(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	defer closeRoot(t, r)
	update(t, r, func(w *writer) {
		for i := range 10 {
			appendTo(w, bindb.WorkerJobs, record.WorkerJob{
				Kind: record.JobKindContentGC + record.JobKind(i%2), State: record.JobStateQueued, MaxAttempts: 1,
				AvailableAt: record.Seconds(20 - i), CreatedAt: 10, UpdatedAt: 10,
			})
		}
		appendTo(w, bindb.WorkerJobs, record.WorkerJob{
			Kind: record.JobKindContentPack, State: record.JobStateRunning, Attempts: 1, MaxAttempts: 1,
			AvailableAt: 10, LockedAt: 10, CreatedAt: 10, UpdatedAt: 10,
		})
	})
	broken := errors.New("broken")
	if err := r.View(context.Background(), func(rd bindb.Reader) error {
		var got []uint32
		if err := bindb.ReadyJobs(rd, func(_ record.Seconds, job uint32) (bool, error) {
			got = append(got, job)
			return len(got) < 3, nil
		}); err != nil || !slices.Equal(got, []uint32{9, 8, 7}) {
			t.Errorf("the first three ready jobs are %v: %v", got, err)
		}
		got = nil
		if err := bindb.ReadyJobsOf(rd, []record.JobKind{record.JobKindContentGC}, func(_ record.Seconds, job uint32) (bool, error) {
			got = append(got, job)
			return true, nil
		}); err != nil || !slices.Equal(got, []uint32{8, 6, 4, 2, 0}) {
			t.Errorf("the jobs of one kind are %v: %v", got, err)
		}
		if err := bindb.ReadyJobs(rd, func(record.Seconds, uint32) (bool, error) { return true, broken }); !errors.Is(err, broken) {
			t.Errorf("the error of fn is lost: %v", err)
		}
		if err := bindb.RunningJobs(rd, func(uint32) (bool, error) { return true, broken }); !errors.Is(err, broken) {
			t.Errorf("the error of fn is lost: %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestQueueMemory: a job that waits costs little. It does not run beside other
// tests, whose memory would be counted too.
func TestQueueMemory(t *testing.T) {
	const n = 100_000
	for kind, most := range map[record.JobKind]uint64{record.JobKindRepoCI: 32, record.JobKindPatchsetCI: 52} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		q := bindb.QueueOf(n, kind)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if got := (after.HeapAlloc - before.HeapAlloc) / n; got > most {
			t.Errorf("a queued %s job takes %d bytes, more than %d", kind, got, most)
		} else {
			t.Logf("a queued %s job takes %d bytes", kind, got)
		}
		runtime.KeepAlive(q)
	}
}

// TestQueueWithoutAJournal: where no journal stands, nothing says that another
// process has written and stopped since the queue was asked for.
func TestQueueWithoutAJournal(t *testing.T) {
	t.Parallel()
	shared(t)
	_, cfg := simConfig(t)
	create(t, cfg)
	job := record.WorkerJob{Kind: record.JobKindContentGC, State: record.JobStateQueued, MaxAttempts: 1, AvailableAt: 10, CreatedAt: 10, UpdatedAt: 10}
	add := func(r *bindb.Root) { update(t, r, func(w *writer) { appendTo(w, bindb.WorkerJobs, job) }) }
	check := func(r *bindb.Root) {
		t.Helper()
		if err := r.View(context.Background(), func(rd bindb.Reader) error { return sameQueue(rd, 0) }); err != nil {
			t.Error(err)
		}
	}
	first := open(t, cfg)
	defer closeRoot(t, first)
	check(first)
	second := open(t, cfg)
	add(second)
	closeRoot(t, second)
	add(first)
	check(first)
}
