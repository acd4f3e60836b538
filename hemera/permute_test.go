package hemera

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPermuteAgainstReference(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	for range 40 {
		s := anyState(r)
		got := s
		got.permute()
		if want := reference(s); got.canonical() != want {
			t.Fatalf("permutation of %x is %x, want %x", s, got.canonical(), want)
		}
	}
}

// TestPermuteAllAgainstPermute takes every size of a batch. Some of the states are built
// so that an inversion of the first partial round meets a zero.
func TestPermuteAllAgainstPermute(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	var zeros []state
	for _, v := range readVectors(t).Permutation {
		zeros = append(zeros, v.In.state())
	}
	for n := 1; n <= lanes; n++ {
		states, want := make([]state, n), make([]state, n)
		for i := range states {
			states[i] = anyState(r)
			if r.IntN(3) == 0 {
				states[i] = zeros[r.IntN(len(zeros))]
			}
			want[i] = states[i]
			want[i].permute()
		}
		permuteAll(states)
		for i := range states {
			if states[i].canonical() != want[i].canonical() {
				t.Fatalf("state %d of %d: %x, want %x", i, n, states[i].canonical(), want[i].canonical())
			}
		}
	}
}

// TestVectorsAgainstPlain compares both ways to permute a batch, on elements that are
// next to where arithmetic carries, borrows or meets a zero.
func TestVectorsAgainstPlain(t *testing.T) {
	t.Parallel()
	if vectorAt > lanes {
		t.Skip("this build or processor has no vectors")
	}
	r := seeded(t)
	edges := []uint64{0, 1, 2, epsilon - 1, epsilon, epsilon + 1, 1 << 63, prime - 1, prime, prime + 1, 1<<64 - 1 - epsilon, 1<<64 - 2, 1<<64 - 1}
	for n := 1; n <= lanes; n++ {
		for range 4 {
			vector := make([]state, n)
			for i := range vector {
				vector[i] = anyState(r)
				for e := range vector[i] {
					if r.IntN(2) == 0 {
						vector[i][e] = edges[r.IntN(len(edges))]
					}
				}
			}
			plain := slices.Clone(vector)
			in := slices.Clone(vector)
			permuteVectors(vector)
			permuteTogether(plain)
			for i := range vector {
				if vector[i].canonical() != plain[i].canonical() {
					t.Fatalf("state %d of %d: %x is %x, want %x", i, n, in[i], vector[i].canonical(), plain[i].canonical())
				}
			}
		}
	}
}

func TestPermuteRefusesWhatIsNoElement(t *testing.T) {
	t.Parallel()
	for i := range width {
		s := [16]uint64{1, 2, 3}
		s[i] = prime
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
		one, some := s, []state{s, {}, s}
		one.permute()
		permuteAll(some)
		want := reference(s)
		if one.canonical() != want || some[0].canonical() != want || some[2].canonical() != want {
			t.Errorf("permutation of %x: %x, in a batch %x, want %x", s, one, some, want)
		}
	})
}

// BenchmarkTogether is BenchmarkPermuteAll without vectors.
func BenchmarkTogether(b *testing.B) {
	for _, n := range []int{4, 16, 64} {
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
	for _, n := range []int{2, 4, 8, 16, 64} {
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
