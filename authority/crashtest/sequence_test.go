package crashtest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// TestEveryVerb cuts the power at every operation of every verb.
func TestEveryVerb(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		for _, v := range verbs {
			t.Run(m.name+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				w := setup(t, m, 1)
				if err := w.prepare(v); err != nil {
					t.Fatal(err)
				}
				h := begin(t, v.name, w)
				if err := h.do(v); err != nil {
					t.Fatalf("%s: %v", v.name, err)
				}
				p := policy
				if v.name == "AddRepository" {
					p.Recent = 4 // it makes some fifty files
				}
				h.crashEverywhere(p)
				w.close(t)
			})
		}
	}
}

// TestRandomSequences does the same with random sequences of verbs, until as many
// states were recovered as were asked for.
func TestRandomSequences(t *testing.T) {
	t.Parallel()
	var next atomic.Uint64
	next.Store(*firstSeed)
	for worker := range 2 {
		t.Run(fmt.Sprint("worker ", worker), func(t *testing.T) {
			t.Parallel()
			for tally.states.Load() < *wantStates {
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
	for range rng.IntN(30) {
		if err := verbs[rng.IntN(len(verbs))].do(w); err != nil && !refused(err) {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	h := begin(t, fmt.Sprintf("sequence %d, %s", seed, m.name), w)
	for range 3 + rng.IntN(6) {
		_ = h.do(verbs[rng.IntN(len(verbs))]) // which may be refused here
	}
	h.crashEverywhere(policy)
	w.close(t)
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
