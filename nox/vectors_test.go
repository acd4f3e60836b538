package nox_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
)

// vectors is testdata/vectors.json.
type vectors struct {
	Artifacts []struct {
		Noun  string
		Bytes string
		Nodes uint64
		Depth uint64
	}
	Refused []struct {
		Name, Bytes, Error string
	}
	Encodings []struct {
		Noun  string
		Bytes string // may be absent
		Blob  string // may be absent
	}
	Identities []struct {
		Noun, Particle string
	}
	Shapes []struct {
		Shape    string
		N        int
		Particle string
	}
	Reductions []struct {
		Object, Formula, Outcome string
		Budget                   uint64
	}
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Artifacts) == 0 || len(v.Refused) == 0 || len(v.Encodings) == 0 ||
		len(v.Identities) == 0 || len(v.Shapes) == 0 || len(v.Reductions) == 0 {
		t.Fatal("a list of vectors is empty")
	}
	return v
}

func parse(t testing.TB, text string) nox.Noun {
	t.Helper()
	n, err := nox.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestArtifactVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Artifacts {
		n := parse(t, v.Noun)
		if n.Size() != v.Nodes || n.Depth() != v.Depth {
			t.Errorf("%s has %d nodes and depth %d; expected %d and %d", v.Noun, n.Size(), n.Depth(), v.Nodes, v.Depth)
		}
		got, err := nox.Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		if hex.EncodeToString(got) != v.Bytes {
			t.Errorf("the artifact of %s is %x; expected %s", v.Noun, got, v.Bytes)
		}
		back, err := nox.Decode(got)
		if err != nil {
			t.Fatal(err)
		}
		if !nox.Equal(back, n) {
			t.Errorf("%s came back as %v", v.Noun, back)
		}
	}
}

func TestArtifactRefusalVectors(t *testing.T) {
	t.Parallel()
	reasons := map[string]error{"truncated": nox.ErrTruncated, "bad tag": nox.ErrTag, "trailing bytes": nox.ErrTrailing}
	for _, v := range readVectors(t).Refused {
		if _, err := nox.Decode(unhex(t, v.Bytes)); !errors.Is(err, reasons[v.Error]) {
			t.Errorf("%s: %v; expected %v", v.Name, err, reasons[v.Error])
		}
	}
}

func TestEncodingVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Encodings {
		got, err := nox.Encode(parse(t, v.Noun))
		if err != nil {
			t.Fatal(err)
		}
		if v.Bytes != "" && !bytes.Equal(got, unhex(t, v.Bytes)) {
			t.Errorf("the artifact of %s is %x; expected %s", v.Noun, got, v.Bytes)
		}
		if blob := hemera.Sum(got); v.Blob != "" && blob.String() != v.Blob {
			t.Errorf("the blob of %s is %v; expected %s", v.Noun, blob, v.Blob)
		}
	}
}

func TestIdentityVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t).Identities
	nouns := make([]nox.Noun, len(v))
	for i := range v {
		nouns[i] = parse(t, v[i].Noun)
		one, err := parse(t, v[i].Noun).Identity()
		if err != nil {
			t.Fatal(err)
		}
		if one.String() != v[i].Particle {
			t.Errorf("the particle of %s is %v; expected %s", v[i].Noun, one, v[i].Particle)
		}
	}
	ids := make([]hemera.Digest, len(v))
	if err := nox.Identities(ids, nouns); err != nil {
		t.Fatal(err)
	}
	for i := range v {
		if ids[i].String() != v[i].Particle {
			t.Errorf("the particle of %s among others is %v; expected %s", v[i].Noun, ids[i], v[i].Particle)
		}
	}
}

// splitmix gives pseudo-random numbers.
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// shape builds a generated noun of the vectors.
func shape(t *testing.T, name string, n int) nox.Noun {
	t.Helper()
	x := nox.Atom(0)
	switch name {
	case "right-chain":
		for i := range n {
			x = nox.Pair(nox.Atom(uint64(i+1)), x)
		}
	case "left-chain":
		for i := range n {
			x = nox.Pair(x, nox.Atom(uint64(i+1)))
		}
	case "self-pair":
		for range n {
			x = nox.Pair(x, x)
		}
	case "list":
		for i := range n {
			x = nox.Pair(nox.Atom(uint64(n-1-i)), x)
		}
	case "splitmix-list":
		s := splitmix(1)
		atoms := make([]nox.Noun, n)
		for i := range atoms {
			atoms[i] = nox.Atom(s.next() % nox.P)
		}
		for _, a := range slices.Backward(atoms) {
			x = nox.Pair(a, x)
		}
	case "balanced":
		level := make([]nox.Noun, 1<<n)
		for i := range level {
			level[i] = nox.Atom(uint64(i))
		}
		for len(level) > 1 {
			for i := range len(level) / 2 {
				level[i] = nox.Pair(level[2*i], level[2*i+1])
			}
			level = level[:len(level)/2]
		}
		x = level[0]
	default:
		t.Fatalf("unknown shape %s", name)
	}
	return x
}

func TestShapeVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Shapes {
		id, err := shape(t, v.Shape, v.N).Identity()
		if err != nil {
			t.Fatal(err)
		}
		if id.String() != v.Particle {
			t.Errorf("the particle of %s %d is %v; expected %s", v.Shape, v.N, id, v.Particle)
		}
	}
}
