package hemera

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// hashers are all ways to hash one message.
func hashers() map[string]func() (*Hasher, func(message []byte) Digest) {
	key := [32]byte{1, 2, 3, 255}
	return map[string]func() (*Hasher, func([]byte) Digest){
		"plain": func() (*Hasher, func([]byte) Digest) { return New(), Sum },
		"keyed": func() (*Hasher, func([]byte) Digest) {
			return NewKeyed(&key), func(m []byte) Digest { return SumKeyed(&key, m) }
		},
		"derived": func() (*Hasher, func([]byte) Digest) {
			return NewDeriveKey("test"), func(m []byte) Digest { return DeriveKey("test", m) }
		},
	}
}

// TestPieces says that how a message is cut, and asking in between, changes nothing.
func TestPieces(t *testing.T) {
	t.Parallel()
	for name, form := range hashers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := seeded(t)
			h, sum := form()
			for range 150 {
				message := randomBytes(r, r.IntN(4*BlockSize))
				h.Reset()
				for rest := message; len(rest) > 0; {
					n := 1 + r.IntN(min(len(rest), 2*BlockSize))
					if wrote, err := h.Write(rest[:n]); wrote != n || err != nil {
						t.Fatalf("wrote %d of %d bytes, %v", wrote, n, err)
					}
					rest = rest[n:]
					if want := sum(message[:len(message)-len(rest)]); h.Digest() != want {
						t.Fatalf("after %d of %d bytes: %s, want %s", len(message)-len(rest), len(message), h.Digest(), want)
					}
				}
				want := sum(message)
				if got := h.Sum([]byte("before")); !bytes.Equal(got, append([]byte("before"), want[:]...)) {
					t.Fatalf("Sum of %d bytes appends %x, want %s", len(message), got, want)
				}
				first := make([]byte, Size)
				if _, err := io.ReadFull(h.XOF(), first); err != nil || !bytes.Equal(first, want[:]) {
					t.Fatalf("the unlimited output of %d bytes begins with %x, %v, want %s", len(message), first, err, want)
				}
			}
		})
	}
}

func TestModesDiffer(t *testing.T) {
	t.Parallel()
	message := []byte("message")
	seen := map[Digest]string{}
	add := func(name string, d Digest) {
		t.Helper()
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[d] = name
	}
	add("plain", Sum(message))
	add("keyed with zeros", SumKeyed(&[32]byte{}, message))
	add("zeros in front", Sum(append(make([]byte, 32), message...)))
	add("derived", DeriveKey("", message))
	add("derived for another purpose", DeriveKey("a", message))
	for counter := range uint64(2) {
		for _, root := range []bool{false, true} {
			leaf, err := Leaf(message, counter, root)
			if err != nil {
				t.Fatal(err)
			}
			add("leaf", leaf)
		}
	}
}

func TestSumReader(t *testing.T) {
	t.Parallel()
	message := randomBytes(seeded(t), 10000)
	got, n, err := SumReader(iotest.OneByteReader(bytes.NewReader(message)))
	if err != nil || n != int64(len(message)) || got != Sum(message) {
		t.Errorf("%s of %d bytes, %v, want %s", got, n, err, Sum(message))
	}
	broken := errors.New("broken")
	got, n, err = SumReader(io.MultiReader(bytes.NewReader(message), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || n != int64(len(message)) || got != (Digest{}) {
		t.Errorf("a reader that breaks after %d bytes: %s, %d, %v", len(message), got, n, err)
	}
}

// TestSumAll has messages that end at different times and in any order.
func TestSumAll(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	for _, n := range []int{0, 1, 2, lanes - 1, lanes, lanes + 1, 3*lanes + 5} {
		messages, got := make([][]byte, n), make([]Digest, n)
		for i := range messages {
			messages[i] = randomBytes(r, r.IntN(5*BlockSize))
		}
		SumAll(got, messages)
		for i, message := range messages {
			if want := Sum(message); got[i] != want {
				t.Errorf("message %d of %d, %d bytes: %s, want %s", i, n, len(message), got[i], want)
			}
		}
	}
}

func FuzzSum(f *testing.F) {
	f.Add([]byte("abc"), 1)
	f.Add(make([]byte, BlockSize), 55)
	f.Fuzz(func(t *testing.T, message []byte, piece int) {
		want := Sum(message)
		h := New()
		for rest := message; len(rest) > 0; {
			n := 1 + int(uint(piece)%uint(len(rest)))
			_, _ = h.Write(rest[:n])
			rest = rest[n:]
		}
		if got := h.Digest(); got != want {
			t.Errorf("in pieces: %s, want %s", got, want)
		}
		var sums [3]Digest
		SumAll(sums[:], [][]byte{message, nil, message})
		if sums[0] != want || sums[2] != want || sums[1] != Sum(nil) {
			t.Errorf("many: %s, want %s", sums, want)
		}
	})
}

func BenchmarkSum(b *testing.B) {
	message := randomBytes(rand.New(rand.NewPCG(1, 2)), 1<<16)
	b.SetBytes(int64(len(message)))
	for b.Loop() {
		d := Sum(message)
		copy(message, d[:])
	}
}

func BenchmarkSumAll(b *testing.B) {
	messages := make([][]byte, 256)
	for i := range messages {
		messages[i] = randomBytes(rand.New(rand.NewPCG(1, uint64(i))), 1000)
	}
	sums := make([]Digest, len(messages))
	b.SetBytes(int64(len(messages) * 1000))
	for b.Loop() {
		SumAll(sums, messages)
		for i := range messages {
			copy(messages[i], sums[i][:])
		}
	}
}
