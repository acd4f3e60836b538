package hemera

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/writ-authority/writ/internal/goldilocks"
)

func TestPermuteAgainstReference(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	for range 40 {
		s := anyState(r)
		got, plain := s, s
		got.permute()
		plain.permutePlain()
		if want := reference(s); got.canonical() != want || plain.canonical() != want {
			t.Fatalf("permutation of %x is %x, plain %x, want %x", s, got.canonical(), plain.canonical(), want)
		}
	}
}

// TestBatchesAgainstPlain takes every size of a batch, in plain arithmetic and, where the
// processor has them, in vectors. Some of the states are built so that an inversion of
// the first partial round meets a zero.
func TestBatchesAgainstPlain(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	var zeros []state
	for _, v := range readVectors(t).Permutation {
		zeros = append(zeros, v.In.state())
	}
	forms := map[string]func([]state){"together": permuteTogether}
	if hasVectors {
		forms["vectors"] = permuteVectors
	}
	for round := range 5 * lanes {
		n := 1 + round%lanes
		states, want := make([]state, n), make([]state, n)
		for i := range states {
			states[i] = anyState(r)
			if r.IntN(3) == 0 {
				states[i] = zeros[r.IntN(len(zeros))]
			}
			want[i] = states[i]
			want[i].permutePlain()
		}
		for name, permute := range forms {
			got := slices.Clone(states)
			permute(got)
			for i := range got {
				if got[i].canonical() != want[i].canonical() {
					t.Fatalf("%s, state %d of %d: %x becomes %x, want %x", name, i, n, states[i], got[i].canonical(), want[i].canonical())
				}
			}
		}
	}
}

func TestPermuteRefusesWhatIsNoElement(t *testing.T) {
	t.Parallel()
	for i := range width {
		s := [16]uint64{1, 2, 3}
		s[i] = goldilocks.Prime
		before := s
		if err := Permute(&s); !errors.Is(err, ErrNotCanonical) || s != before {
			t.Errorf("element %d is p: %v, state %x", i, err, s)
		}
	}
}

func FuzzPermute(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 8*width))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s state
		for i := range s {
			if len(b) < 8 {
				break
			}
			s[i], b = binary.LittleEndian.Uint64(b), b[8:]
		}
		one, plain, some, together := s, s, []state{s, {}, s}, []state{s, {}, s}
		one.permute()
		plain.permutePlain()
		permuteAll(some)
		permuteTogether(together)
		want := reference(s)
		for _, got := range []state{one, plain, some[0], some[2], together[0], together[2]} {
			if got.canonical() != want {
				t.Errorf("permutation of %x: %x, plain %x, in batches %x and %x, want %x", s, one, plain, some, together, want)
			}
		}
	})
}

// BenchmarkPermutePlain is BenchmarkPermute without vectors.
func BenchmarkPermutePlain(b *testing.B) {
	s := state{rand.Uint64(), rand.Uint64()}
	for b.Loop() {
		s.permutePlain()
	}
}

// BenchmarkTogether is BenchmarkPermuteAll without vectors.
func BenchmarkTogether(b *testing.B) {
	for _, n := range []int{2, 4, 6, 16, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			states := make([]state, n)
			for i := range states {
				states[i][0] = rand.Uint64()
			}
			for b.Loop() {
				permuteTogether(states)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/state")
		})
	}
}

// BenchmarkPermute permutes its own output, as a long message does.
func BenchmarkPermute(b *testing.B) {
	s := state{rand.Uint64(), rand.Uint64()}
	for b.Loop() {
		s.permute()
	}
}

func BenchmarkPermuteAll(b *testing.B) {
	for _, n := range []int{2, 4, 6, 16, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			states := make([]state, n)
			for i := range states {
				states[i][0] = rand.Uint64()
			}
			for b.Loop() {
				permuteAll(states)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/state")
		})
	}
}
