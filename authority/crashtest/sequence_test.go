package crashtest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

// TestEveryVerb cuts the power at every operation of every verb. It runs before the
// parallel tests, so that the random sequences can count on its states.
func TestEveryVerb(t *testing.T) {
	for _, m := range modes {
		for i, v := range verbs {
			t.Run(m.name+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				w := setup(t, m, 1)
				do, err := w.ready(v)
				if err != nil {
					t.Fatal(err)
				}
				h := begin(t, v.name, w)
				h.sample, h.files = 300, v.files
				if v.files || i%8 > 0 && *wantStates < mediumRun {
					h.sample = 3000
				}
				if err := h.do(v.name, do); err != nil {
					t.Fatalf("%s: %v", v.name, err)
				}
				h.crashEverywhere(policy)
				w.close(t)
			})
		}
	}
}

// TestRandomSequences does the same with random sequences of verbs, until as many
// states were recovered as were asked for and a part of them was its own, or the
// test's time is nearly up.
func TestRandomSequences(t *testing.T) {
	t.Parallel()
	before := tally.states.Load()
	var next atomic.Uint64
	next.Store(*firstSeed)
	for worker := range 2 {
		t.Run(fmt.Sprint("worker ", worker), func(t *testing.T) {
			t.Parallel()
			for n := tally.states.Load(); n < *wantStates || n < before+*wantStates/4; n = tally.states.Load() {
				if end, ok := t.Deadline(); ok && time.Until(end) < time.Minute {
					t.Logf("time is up at sequence %d", next.Load())
					return
				}
				sequence(t, next.Add(1)-1)
			}
		})
	}
}

// sequence runs and crashes the random sequence of one seed.
func sequence(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	m := modes[rng.IntN(len(modes))]
	w := setup(t, m, seed)
	w.rng = rng
	// Some of it lies behind the recording, so that there is something to lose.
	h := newHistory(t, fmt.Sprintf("sequence %d, %s", seed, m.name), w)
	for range rng.IntN(20) {
		h.step(verbs[rng.IntN(len(verbs))])
	}
	h.begin()
	for range 3 + rng.IntN(6) {
		v := verbs[rng.IntN(len(verbs))]
		h.step(v)
		h.files = h.files || v.files
	}
	h.crashEverywhere(policy)
	w.close(t)
}

// step does a verb, which may be refused, with what it needs.
func (h *history) step(v verb) {
	do := v.do
	if v.stage != nil {
		err := h.do("what is needed for "+v.name, func(w *world) (err error) {
			do, err = v.stage(w)
			return err
		})
		if err != nil {
			return
		}
	}
	_ = h.do(v.name, do) // which has failed the test unless it was refused
}

func (w *world) close(t testing.TB) {
	t.Helper()
	if err := w.sound(true); err != nil {
		t.Error(err)
	}
	if err := w.a.Close(); err != nil {
		t.Error(err)
	}
}
