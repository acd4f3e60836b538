package bindb_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// history is what a run has told its callers: the state of all files after each
// acknowledged batch, and when it was acknowledged.
type history struct {
	states []string
	acked  []int // operations that were done when the state was acknowledged
}

func (h *history) ack(t testing.TB, sim *vfs.Sim, cfg bindb.Config) {
	h.acked = append(h.acked, sim.OpCount())
	h.states = append(h.states, dump(t, cfg))
}

// allowed are the states in which a root may be found after a power cut.
func (h *history) allowed(cut int) []string {
	last := 0
	for i, op := range h.acked {
		if op <= cut {
			last = i
		}
	}
	return h.states[last:min(last+2, len(h.states))]
}

// crashEverywhere cuts the power after every operation from the first
// acknowledged one on, recovers every state the disk may be in, and compares it
// with what was acknowledged.
func crashEverywhere(t *testing.T, sim *vfs.Sim, cfg bindb.Config, h *history, policy vfs.Policy) {
	t.Helper()
	ctx := context.Background()
	seen := map[string]bool{}
	states, step := 0, 200
	if testing.Short() {
		step = 1000
	}
	for cut := h.acked[0]; cut <= sim.OpCount(); cut++ {
		allowed := h.allowed(cut)
		for disk := range sim.CrashStates(cut, policy) {
			// The same bytes may be right at one cut and wrong at another.
			key := fmt.Sprint(disk.Fingerprint(), len(allowed), allowed[0])
			if seen[key] {
				continue
			}
			seen[key] = true
			states++
			again := cfg
			again.FS = disk
			if states%step == 0 {
				crashAgain(t, disk, again, allowed)
			}
			r, err := bindb.Open(ctx, again)
			if err != nil {
				t.Fatalf("%s: %v", disk.Origin(), err)
			}
			got := dump(t, again)
			if !slices.Contains(allowed, got) {
				t.Fatalf("%s: neither the acknowledged state nor the next one:\n%s\nacknowledged:\n%s", disk.Origin(), got, allowed[0])
			}
			findings, err := r.Check(ctx)
			if err != nil || len(findings) > 0 {
				t.Fatalf("%s: %v %v", disk.Origin(), findings, err)
			}
			// The recovered root works, and what it writes stays.
			if states%16 == 0 {
				update(t, r, func(w *writer) { w.line("after") })
				got = dump(t, again)
			}
			closeRoot(t, r)
			if states%16 == 0 {
				closeRoot(t, open(t, again))
				if dump(t, again) != got {
					t.Fatalf("%s: the root changed after recovery", disk.Origin())
				}
			}
		}
	}
	t.Logf("%d operations, %d states", sim.OpCount()-h.acked[0], states)
}

// crashAgain cuts the power at every operation of a recovery too. It leaves disk
// as it was.
func crashAgain(t *testing.T, disk *vfs.Sim, cfg bindb.Config, allowed []string) {
	t.Helper()
	var copied *vfs.Sim
	disk.Capture()
	for state := range disk.CrashStates(disk.OpCount(), vfs.Policy{}) {
		copied = state // nothing is unsynced, so that there is one
	}
	copied.Capture()
	begin := copied.OpCount()
	cfg.FS = copied
	r := open(t, cfg)
	settled := dump(t, cfg)
	opened := copied.OpCount()
	closeRoot(t, r)
	seen := map[string]bool{}
	for cut := begin; cut <= copied.OpCount(); cut++ {
		for again := range copied.CrashStates(cut, vfs.Policy{Tears: 1, Random: 2, Seed: 2, Recent: 6}) {
			key := fmt.Sprint(again.Fingerprint(), cut < opened)
			if seen[key] {
				continue
			}
			seen[key] = true
			cfg.FS = again
			r, err := bindb.Open(context.Background(), cfg)
			if err != nil {
				t.Fatalf("%s, then %s: %v", disk.Origin(), again.Origin(), err)
			}
			got := dump(t, cfg)
			if cut < opened && !slices.Contains(allowed, got) || cut >= opened && got != settled {
				t.Fatalf("%s, then %s: the second recovery came to another state:\n%s", disk.Origin(), again.Origin(), got)
			}
			closeRoot(t, r)
		}
	}
}

func policy(t *testing.T) vfs.Policy {
	if testing.Short() {
		return vfs.Policy{Tears: 1, Recent: 8}
	}
	return vfs.Policy{Random: 4, Seed: 1, Tears: 3, Recent: 60}
}

func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	var task uint32
	steps := story(&task)
	update(t, r, steps[0])
	sim.Capture()
	h := &history{}
	h.ack(t, sim, cfg)
	for _, step := range steps[1:] {
		update(t, r, step)
		h.ack(t, sim, cfg)
	}
	closeRoot(t, r)
	crashEverywhere(t, sim, cfg, h, policy(t))
}

// The first batches of a root make its journal, its lock files and folders.
func TestCrashAtFirstBatch(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	sim.Capture()
	h := &history{}
	h.ack(t, sim, cfg)
	for i := range 2 {
		r := open(t, cfg)
		update(t, r, func(w *writer) {
			if i == 0 {
				seed(w)
			}
			w.actor(fmt.Sprintf("grace %d", i))
		})
		h.ack(t, sim, cfg)
		closeRoot(t, r)
	}
	crashEverywhere(t, sim, cfg, h, policy(t))
}

// A batch larger than a page, with a journal that shrinks and grows.
func TestCrashInLargeBatches(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	sim.Capture()
	h := &history{}
	h.ack(t, sim, cfg)
	for _, n := range []int{40, 1, 60} {
		update(t, r, func(w *writer) {
			for i := range n {
				w.line(fmt.Sprintf("a Line with quite a long name, number %d of %d", i, n))
				change(w, bindb.Lines, uint32(i), func(l *record.Line) { l.UpdatedAt++ })
			}
		})
		h.ack(t, sim, cfg)
	}
	closeRoot(t, r)
	p := policy(t)
	p.Recent = 20
	crashEverywhere(t, sim, cfg, h, p)
}

// A process dies and another one takes over; the power goes during recovery.
func TestCrashInRecovery(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	first := cfg
	proc := sim.Process()
	first.FS = proc
	r := open(t, first)
	update(t, r, seed)
	h := &history{}
	h.ack(t, sim, cfg)
	var task uint32
	steps := story(&task)
	// It dies in the middle of the records.
	writes := 0
	sim.Fail(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && op.Path == "/4/change.bin" {
			if writes++; writes == 1 {
				proc.Crash()
			}
		}
		return nil
	})
	if err := r.Update(context.Background(), write(steps[0])); err == nil {
		t.Fatal("a crashed process was answered")
	}
	sim.Fail(nil)
	sim.Capture()
	h.acked[0] = sim.OpCount()
	second := open(t, cfg)
	if dump(t, cfg) != h.states[0] {
		t.Fatal("the interrupted batch was not taken back")
	}
	update(t, second, steps[0])
	h.ack(t, sim, cfg)
	closeRoot(t, second)
	crashEverywhere(t, sim, cfg, h, policy(t))
}

// Concurrent mutations share batches; each one is wholly there or absent, and
// there if its caller was answered.
func TestCrashUnderGroupCommit(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	sim.Capture()
	begin := sim.OpCount()
	const n = 12
	var acked [n]int
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			update(t, r, func(w *writer) {
				w.line(fmt.Sprintf("line %d", i))
				w.actor(fmt.Sprintf("actor %d", i))
				change(w, bindb.Lines, 0, func(l *record.Line) { l.UpdatedAt++ })
			})
			acked[i] = sim.OpCount()
		})
	}
	wg.Wait()
	ctx := context.Background()
	seen := map[string]bool{}
	for cut := begin; cut <= sim.OpCount(); cut++ {
		for disk := range sim.CrashStates(cut, policy(t)) {
			key := fmt.Sprint(disk.Fingerprint(), slices.IndexFunc(acked[:], func(op int) bool { return op > cut }))
			if seen[key] {
				continue
			}
			seen[key] = true
			again := cfg
			again.FS = disk
			r := open(t, again)
			if findings, err := r.Check(ctx); err != nil || len(findings) > 0 {
				t.Fatalf("%s: %v %v", disk.Origin(), findings, err)
			}
			err := r.View(ctx, func(rd bindb.Reader) error {
				there := 0
				for i := range n {
					lines, actors := 0, 0
					count := func(n *int) func(uint32) (bool, error) {
						return func(uint32) (bool, error) { *n++; return true, nil }
					}
					if err := bindb.LinesByName(rd, fmt.Sprintf("line %d", i), count(&lines)); err != nil {
						return err
					}
					if err := bindb.ActorsByName(rd, fmt.Sprintf("actor %d", i), count(&actors)); err != nil {
						return err
					}
					if lines != actors || lines > 1 || lines == 0 && acked[i] <= cut {
						return fmt.Errorf("mutation %d, acknowledged at %d: %d Lines, %d Actors", i, acked[i], lines, actors)
					}
					there += lines
				}
				main, err := bindb.Lines.Get(rd, 0)
				if err == nil && main.UpdatedAt != record.Seconds(10+there) {
					err = fmt.Errorf("%d mutations are there, but the Line was changed %d times", there, main.UpdatedAt-10)
				}
				return err
			})
			if err != nil {
				t.Fatalf("%s: %v", disk.Origin(), err)
			}
			closeRoot(t, r)
		}
	}
	closeRoot(t, r)
}
