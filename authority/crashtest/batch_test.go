package crashtest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// TestCreate cuts the power while an installation is made: there is none, and it
// can be made, or there is one.
func TestCreate(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(vfs.NewSim(), m, 1)
			w.sim.Capture()
			h := newHistory(t, "Create", w)
			h.acks = []ack{{verb: "nothing", now: w.clock.Now()}}
			if err := w.create(); err != nil {
				t.Fatal(err)
			}
			h.ack("Create")
			h.files = true
			h.crashEverywhere(policy)
			w.close(t)
		})
	}
}

// TestDeadProcess lets a process die at each operation of a claim. Another one
// gets the Job; the lease that it was given survives a power cut, whatever the
// first one could not make durable any more.
func TestDeadProcess(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		dead := setup(t, modes[0], 1)
		do, err := dead.ready(named("Claim"))
		if err != nil {
			t.Fatal(err)
		}
		dead.close(t)
		sim := dead.sim
		proc := sim.Process()
		dead.opt.FS = proc
		if err := dead.open(); err != nil {
			t.Fatal(err)
		}
		count, died := 0, false
		var mu sync.Mutex
		sim.Capture()
		sim.Fail(func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind <= vfs.OpUnlock && !died {
				if count++; count == n {
					died = true
					proc.Crash()
				}
			}
			return nil
		})
		first := do(dead)
		sim.Fail(nil)
		if !died {
			if first != nil || n < 10 {
				t.Fatalf("at %d nobody died: %v", n, first)
			}
			return
		}
		w := dead.on(sim, dead.clock.Now())
		w.opt.FS = sim.Process()
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		live, err := w.held()
		if err != nil {
			t.Fatal(err)
		}
		if len(live) == 0 {
			if first == nil {
				t.Fatalf("death at %d: a lease that was given out is gone", n)
			}
			if err := do(w); err != nil {
				t.Fatalf("death at %d: %v", n, err)
			}
			if live, err = w.held(); err != nil {
				t.Fatal(err)
			}
		}
		state := stateOf(sim)
		for disk := range sim.CrashStates(sim.OpCount(), vfs.Policy{Random: 4, Tears: 1}) {
			c := w.on(disk, dead.clock.Now())
			if err := c.open(); err != nil {
				t.Fatalf("death at %d, then %s: %v", n, disk.Origin(), err)
			}
			if stateOf(disk) != state {
				t.Fatalf("death at %d, then %s: the claim is gone", n, disk.Origin())
			}
			if err := c.leasesAre(ack{live: live}); err != nil {
				t.Fatalf("death at %d, then %s: %v", n, disk.Origin(), err)
			}
		}
	}
}

// TestBatches cuts the power while mutations of several callers share batches.
// Each batch is there or not; a mutation whose caller was answered is there.
func TestBatches(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s/%d", m.name, seed), func(t *testing.T) {
				t.Parallel()
				crashBatches(t, m, seed)
			})
		}
	}
}

func crashBatches(t *testing.T, m mode, seed uint64) {
	const callers, rounds = 8, 3
	w := setup(t, m, seed)
	var jobs [callers]uint32
	err := w.update(func(tx *authority.Tx) error {
		main, err := tx.EnsureLine(authority.MainLine)
		if err != nil {
			return err
		}
		for i := range jobs {
			if jobs[i], err = queueJob(tx, main, uint64(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h := begin(t, fmt.Sprintf("batches %d, %s", seed, m.name), w)

	// A batch begins when its journal is written: what is on the disk then is what
	// the batches before it have left.
	var started atomic.Int64
	var mu sync.Mutex
	w.sim.Fail(func(op vfs.Op) error {
		if op.Kind != vfs.OpWrite || !strings.HasSuffix(op.Path, "/journal/4") || op.Len <= 1 {
			return nil
		}
		state := stateOf(w.sim)
		mu.Lock()
		h.acks = append(h.acks, ack{verb: fmt.Sprintf("batch %d", len(h.acks)), now: h.acks[0].now})
		h.acks[len(h.acks)-2].state = state
		h.acks[len(h.acks)-1].op = op.N - 1 // it can't be on the disk before
		mu.Unlock()
		for started.Load() < callers { // whoever is late shares the next batch
			runtime.Gosched()
		}
		return nil
	})
	batchNow := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(h.acks)
	}
	// mutation is one that was answered when the disk had done so many operations.
	type mutation struct {
		batch, answered int
		lease           authority.Lease
	}
	var done [callers][rounds]mutation
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			started.Add(1)
			for round := range rounds {
				d := &done[i][round]
				err := w.update(func(tx *authority.Tx) (err error) {
					d.batch = batchNow()
					if _, err = tx.OpenTask(fmt.Sprintf("task %d of caller %d", round, i), "intent"); err != nil {
						return err
					}
					switch round {
					case 0:
						d.lease, err = tx.Claim(jobs[i], authority.RequestID{byte(i)})
					case 1:
						d.lease, err = tx.Heartbeat(done[i][0].lease)
					case 2:
						if i%2 == 0 {
							_, err = tx.CompleteCI(done[i][1].lease, authoritytest.Passed)
						} else {
							d.lease = done[i][1].lease
						}
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
				d.answered = w.sim.OpCount()
			}
		})
	}
	wg.Wait()
	w.sim.Fail(nil)
	if t.Failed() {
		return
	}
	last := len(h.acks) - 1
	h.acks[last].state = stateOf(w.sim)
	if last >= callers*rounds {
		t.Errorf("%d mutations made %d batches: nothing was shared", callers*rounds, last)
	}
	// What each batch has left of the leases.
	for k := range h.acks {
		h.acks[k].live = map[uint32]held{}
		for i := range callers {
			var now authority.Lease
			for _, d := range done[i] {
				if d.batch <= k {
					now = d.lease
				}
			}
			if now.Token != (authority.LeaseToken{}) {
				h.acks[k].live[now.Job] = held{now.Attempt, now.ExpiresAt}
				h.acks[k].leases = append(h.acks[k].leases, now)
			}
		}
	}
	h.window = func(cut int) (lo, hi int) {
		for _, list := range done {
			for _, d := range list {
				if d.answered <= cut {
					lo = max(lo, d.batch)
				}
			}
		}
		for hi < last && h.acks[hi+1].op <= cut {
			hi++
		}
		return lo, max(lo, hi)
	}
	h.crashEverywhere(policy)
	w.close(t)
}

// queueJob publishes a Patchset and queues its job.
func queueJob(tx *authority.Tx, line uint32, number uint64) (job uint32, err error) {
	task, err := tx.OpenTask("Task", "Intent")
	if err != nil {
		return 0, err
	}
	var at [2]uint32
	for i := range at {
		if at[i], err = tx.AddSnapshot(authoritytest.Snapshot(2*number+uint64(i), line)); err != nil {
			return 0, err
		}
	}
	change, err := tx.OpenChange(task, "Change", line, record.RefTo(at[0]))
	if err != nil {
		return 0, err
	}
	p, err := tx.Publish(authority.PatchsetSpec{Change: change, Base: at[0], Revision: at[1], Summary: "Summary"})
	if err != nil {
		return 0, err
	}
	job, _, err = tx.EnqueueCI(p)
	return job, err
}
