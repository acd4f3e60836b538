package hemera

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/writ-authority/writ/internal/goldilocks"
)

func TestBatchedIdentities(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	for _, n := range []int{0, 1, 2, lanes, lanes + 1, 300} {
		values, ids := make([]uint64, n), make([]Digest, n)
		for i := range values {
			values[i] = anyElement(r)
			if values[i] >= goldilocks.Prime || r.IntN(4) == 0 {
				values[i] = r.Uint64N(300)
			}
		}
		if err := AtomIDs(ids, values); err != nil {
			t.Fatal(err)
		}
		pairs, above := make([][2]Digest, n), make([]Digest, n)
		for i, v := range values {
			if want := atom(t, v); ids[i] != want {
				t.Errorf("atom %d: %s, want %s", v, ids[i], want)
			}
			pairs[i] = [2]Digest{ids[i], ids[r.IntN(n)]}
		}
		if err := PairIDs(above, pairs); err != nil {
			t.Fatal(err)
		}
		for i, p := range pairs {
			if want := pair(t, p[0], p[1]); above[i] != want {
				t.Errorf("pair %d of %d: %s, want %s", i, n, above[i], want)
			}
		}
	}
}

func TestAtomsThatHaveNoIdentity(t *testing.T) {
	t.Parallel()
	for _, v := range []uint64{goldilocks.Prime, goldilocks.Prime + 1, ^uint64(0)} {
		if id, err := AtomID(v); !errors.Is(err, ErrNotCanonical) || id != (Digest{}) {
			t.Errorf("atom %d: %s, %v", v, id, err)
		}
		ids := []Digest{{1}, {2}, {3}}
		if err := AtomIDs(ids, []uint64{1, 1 << 40, v}); !errors.Is(err, ErrNotCanonical) || ids[0] != (Digest{1}) || ids[1] != (Digest{2}) {
			t.Errorf("atom %d among others: %v, set %s", v, err, ids)
		}
		if _, err := Leaf(nil, v, false); !errors.Is(err, ErrNotCanonical) {
			t.Errorf("leaf %d: %v", v, err)
		}
		if _, err := NodeInNamespace(Digest{}, Digest{}, false, 0, v); !errors.Is(err, ErrNotCanonical) {
			t.Errorf("namespace up to %d: %v", v, err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	content := []byte("eight by")
	blob, data := Sum(content), atom(t, 8746589110646827365)
	if err := CheckBlob(blob, content); err != nil {
		t.Error(err)
	}
	if err := CheckData(data, content); err != nil {
		t.Error(err)
	}
	if err := CheckData(blob, content); !errors.Is(err, ErrMismatch) {
		t.Errorf("a blob as data: %v", err)
	}
	if err := CheckBlob(data, content); !errors.Is(err, ErrMismatch) {
		t.Errorf("data as a blob: %v", err)
	}
	// The folded twin of an identity with a small limb is another text for it.
	twin := pair(t, data, data)
	copy(twin[:8], "\x05\x00\x00\x00\xff\xff\xff\xff")
	if err := CheckBlob(twin, content); !errors.Is(err, ErrNotCanonical) {
		t.Errorf("an identity with a limb of p + 4: %v", err)
	}
	if err := CheckData(twin, content); !errors.Is(err, ErrNotCanonical) {
		t.Errorf("an identity with a limb of p + 4: %v", err)
	}
}

func TestParseDigest(t *testing.T) {
	t.Parallel()
	d := Sum([]byte("abc"))
	if got, err := ParseDigest(d.String()); err != nil || got != d {
		t.Errorf("%s parses as %s, %v", d, got, err)
	}
	if got, err := FromLimbs(d.Limbs()); err != nil || got != d {
		t.Errorf("%s from its limbs is %s, %v", d, got, err)
	}
	for text, want := range map[string]error{
		"":                                   ErrEncoding,
		d.String()[1:]:                       ErrEncoding,
		d.String() + "0":                     ErrEncoding,
		strings.ToUpper(d.String()):          ErrEncoding,
		"g" + d.String()[1:]:                 ErrEncoding,
		" " + d.String()[1:]:                 ErrEncoding,
		strings.Repeat("é", Size):            ErrEncoding,
		strings.Repeat("f", 2*Size):          ErrNotCanonical,
		"01000000ffffffff" + d.String()[16:]: ErrNotCanonical,
		d.String()[:48] + "01000000ffffffff": ErrNotCanonical,
	} {
		if got, err := ParseDigest(text); !errors.Is(err, want) || got != (Digest{}) {
			t.Errorf("%q parses as %s, %v, want %v", text, got, err, want)
		}
	}
	if _, err := FromLimbs([4]uint64{0, 0, goldilocks.Prime, 0}); !errors.Is(err, ErrNotCanonical) {
		t.Errorf("a limb of p: %v", err)
	}
}

func BenchmarkPairIDs(b *testing.B) {
	pairs, ids := make([][2]Digest, 256), make([]Digest, 256)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range pairs {
		pairs[i] = [2]Digest{Sum(randomBytes(r, 8)), Sum(randomBytes(r, 8))}
	}
	for b.Loop() {
		if err := PairIDs(ids, pairs); err != nil {
			b.Fatal(err)
		}
		for i := range pairs {
			pairs[i][0] = ids[i]
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(pairs)), "ns/pair")
}

func BenchmarkAtomID(b *testing.B) {
	for v := uint64(1 << 20); b.Loop(); v++ {
		if _, err := AtomID(v); err != nil {
			b.Fatal(err)
		}
	}
}
