package nox_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
)

// listBytes is the artifact of a list of n ones ended by 0.
func listBytes(n int) []byte {
	one := []byte{1, 0, 1, 0, 0, 0, 0, 0, 0, 0}
	return append(bytes.Repeat(one, n), make([]byte, 9)...)
}

// tree is a tree of that many leaves as flat as can be, each leaf a node of its own.
func tree(leaves int) nox.Noun {
	level := make([]nox.Noun, leaves)
	for i := range level {
		level[i] = nox.Atom(uint64(i))
	}
	for len(level) > 1 {
		var up []nox.Noun
		for i := 0; i+1 < len(level); i += 2 {
			up = append(up, nox.Pair(level[i], level[i+1]))
		}
		if len(level)%2 == 1 {
			up = append(up, level[len(level)-1])
		}
		level = up
	}
	return level[0]
}

func TestDepthOfArtifacts(t *testing.T) {
	t.Parallel()
	deepest := listBytes(128)
	const blob = "705cdbbe81beccb3fd1aaa687d3d09ceb6d5b385821eb5e0f1edd606068a4324"
	if got := hemera.Sum(deepest).String(); got != blob {
		t.Errorf("the blob of 128 ones is %s; expected %s", got, blob)
	}
	n, err := nox.Decode(deepest)
	if err != nil {
		t.Fatal(err)
	}
	if n.Size() != 257 || n.Depth() != 128 {
		t.Errorf("a list of 128 has %d nodes and depth %d; expected 257 and 128", n.Size(), n.Depth())
	}
	again, err := nox.Encode(n)
	if err != nil || !bytes.Equal(again, deepest) {
		t.Errorf("encoding a list of 128 ones again gives %x, %v", again, err)
	}
	_, err = nox.Decode(listBytes(129))
	if !errors.Is(err, nox.ErrDepth) || !strings.Contains(err.Error(), "129 levels down, where 128 are allowed") {
		t.Errorf("decoding a list of 129: %v", err)
	}
	if _, err := nox.Encode(nox.Pair(nox.Atom(1), n)); !errors.Is(err, nox.ErrDepth) {
		t.Errorf("encoding a list of 129: %v", err)
	}
	left := bytes.Repeat([]byte{1}, 1<<20)
	if _, err := nox.Decode(left); !errors.Is(err, nox.ErrDepth) {
		t.Errorf("decoding a million pairs to the left: %v", err)
	}
}

func TestNodesOfArtifacts(t *testing.T) {
	t.Parallel()
	full := tree(32768)
	if full.Size() != 65535 || full.Depth() != 15 {
		t.Fatalf("the tree has %d nodes and depth %d", full.Size(), full.Depth())
	}
	b, err := nox.Encode(full)
	if err != nil {
		t.Fatal(err)
	}
	back, err := nox.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := nox.Encode(back); err != nil || !bytes.Equal(again, b) {
		t.Errorf("a tree of 32768 leaves does not come back: %v", err)
	}
	over := tree(32769)
	if _, err := nox.Encode(over); !errors.Is(err, nox.ErrNodes) {
		t.Errorf("encoding 65537 nodes: %v", err)
	}
	b, err = nox.Limits{Nodes: 1 << 17, Depth: 128}.Encode(over)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nox.Decode(b); !errors.Is(err, nox.ErrNodes) {
		t.Errorf("decoding 65537 nodes: %v", err)
	}
}

// TestSharedArtifactIsRefused says that the size of a noun is known before anything
// is written.
func TestSharedArtifactIsRefused(t *testing.T) {
	t.Parallel()
	n := nox.Atom(1)
	for range 100 {
		n = nox.Pair(n, n)
	}
	if _, err := nox.Encode(n); !errors.Is(err, nox.ErrNodes) {
		t.Errorf("encoding 2^101 nodes: %v", err)
	}
}

func TestArtifactsSayWhereTheyAreWrong(t *testing.T) {
	t.Parallel()
	atom := func(v uint64) []byte { return binary.LittleEndian.AppendUint64([]byte{0}, v) }
	for _, x := range []struct {
		artifact []byte
		err      error
		says     string
	}{
		{nil, nox.ErrTruncated, "byte 0 should begin a node"},
		{append([]byte{1}, atom(7)...), nox.ErrTruncated, "byte 10 should begin a node"},
		{append([]byte{1}, append(atom(7), 0, 1, 2)...), nox.ErrTruncated, "byte 10 begins an atom of 9 bytes, of which 3 are there"},
		{append([]byte{1}, append(atom(7), 2)...), nox.ErrTag, "byte 10 is 0x02"},
		{append(atom(7), 0), nox.ErrTrailing, "ends at byte 9 of 10"},
	} {
		_, err := nox.Decode(x.artifact)
		if !errors.Is(err, x.err) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("decoding %x: %v; expected %v and %q", x.artifact, err, x.err, x.says)
		}
	}
}

func TestArtifactRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := anyNoun().Draw(t, "noun")
		b, err := nox.Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		back, err := nox.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if !nox.Equal(back, n) || back.Size() != n.Size() || back.Depth() != n.Depth() {
			t.Fatalf("%v came back as %v", n, back)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 9))
	f.Add(listBytes(3))
	f.Add(listBytes(129))
	f.Add([]byte{1, 1, 1, 2})
	f.Fuzz(func(t *testing.T, artifact []byte) {
		n, err := nox.Decode(artifact)
		if err != nil {
			return
		}
		if n.Size() > nox.Artifact.Nodes || n.Depth() > nox.Artifact.Depth {
			t.Fatalf("a noun of %d nodes and depth %d was read", n.Size(), n.Depth())
		}
		again, err := nox.Encode(n)
		if err != nil || !bytes.Equal(again, artifact) {
			t.Fatalf("%x is encoded again as %x, %v", artifact, again, err)
		}
	})
}
