package nox_test

import (
	"errors"
	"math/big"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
)

// measure counts nodes, depth and atoms outside the field by recursion.
func measure(n nox.Noun) (size, depth uint64, canonical bool) {
	if n.IsAtom() {
		return 1, 0, n.Value() < nox.P
	}
	s, d, c := measure(n.Head())
	s2, d2, c2 := measure(n.Tail())
	return 1 + s + s2, 1 + max(d, d2), c && c2
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := anyNoun().Draw(t, "noun")
		size, depth, canonical := measure(n)
		if n.Size() != size || n.Depth() != depth || n.IsCanonical() != canonical {
			t.Fatalf("%v: size %d, depth %d, canonical %v; expected %d, %d, %v", n, n.Size(), n.Depth(), n.IsCanonical(), size, depth, canonical)
		}
		id, err := n.Identity()
		if !canonical {
			if !errors.Is(err, nox.ErrNonCanonical) {
				t.Fatalf("the identity of %v: %v", n, err)
			}
			return
		}
		if err != nil || id != plainIdentity(n) {
			t.Fatalf("the identity of %v is %v, %v; expected %v", n, id, err, plainIdentity(n))
		}
		if again, err := n.Identity(); err != nil || again != id {
			t.Fatalf("the identity of %v is %v, then %v, %v", n, id, again, err)
		}
	})
}

func TestSizeStandsStill(t *testing.T) {
	t.Parallel()
	n := nox.Atom(nox.P - 1)
	for i := range 3000 {
		n = nox.Pair(n, n)
		want := uint64(1)<<32 - 1
		if i+2 <= 32 {
			want = uint64(1)<<(i+2) - 1
		}
		if n.Size() != want || n.Depth() != uint64(i+1) || !n.IsCanonical() {
			t.Fatalf("2^%d nodes are %d, %d deep", i+2, n.Size(), n.Depth())
		}
	}
}

func TestAccessorsPanicOnTheWrongKind(t *testing.T) {
	t.Parallel()
	pair := nox.Pair(nox.Atom(1), nox.Atom(2))
	for name, f := range map[string]func(){
		"value of a pair": func() { pair.Value() },
		"head of an atom": func() { nox.Atom(1).Head() },
		"tail of an atom": func() { nox.Atom(1).Tail() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			f()
		}()
	}
}

// copied builds a noun again without sharing anything with it.
func copied(n nox.Noun) nox.Noun {
	if n.IsAtom() {
		return n
	}
	return nox.Pair(copied(n.Head()), copied(n.Tail()))
}

func TestEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyNoun().Draw(t, "a"), anyNoun().Draw(t, "b")
		if nox.Equal(a, b) != plainEqual(a, b) {
			t.Fatalf("Equal(%v, %v) is %v", a, b, nox.Equal(a, b))
		}
		if !nox.Equal(a, copied(a)) {
			t.Fatalf("%v does not equal its copy", a)
		}
	})
}

// doubled is a noun of 2^(levels+1) nodes with the leaf at every end but the last.
func doubled(leaf, last uint64, levels int) nox.Noun {
	n, end := nox.Atom(leaf), nox.Atom(last)
	for range levels {
		n, end = nox.Pair(n, n), nox.Pair(n, end)
	}
	return end
}

// TestEqualOfSharedNouns compares nouns that no one could go through.
func TestEqualOfSharedNouns(t *testing.T) {
	t.Parallel()
	for _, leaf := range []uint64{5, nox.P + 5} { // with identity and without
		a, b, c := doubled(leaf, leaf, 300), doubled(leaf, leaf, 300), doubled(leaf, leaf+1, 300)
		if !nox.Equal(a, b) || nox.Equal(a, c) || nox.Equal(c, b) || !nox.Equal(a, a) {
			t.Errorf("shared nouns of %d are not compared well", leaf)
		}
	}
}

// TestEqualOfLongLists compares more nodes than are visited one by one.
func TestEqualOfLongLists(t *testing.T) {
	t.Parallel()
	list := func(first uint64, n int) nox.Noun {
		x := nox.Atom(0)
		for i := range n - 1 {
			x = nox.Pair(nox.Atom(uint64(i%7)), x)
		}
		return nox.Pair(nox.Atom(first), x)
	}
	swapped := nox.Pair(nox.Atom(9), nox.Pair(nox.Atom(8), nox.Atom(7)))
	other := nox.Pair(nox.Atom(8), nox.Pair(nox.Atom(9), nox.Atom(7)))
	for range 10_000 {
		swapped, other = nox.Pair(nox.Atom(1), swapped), nox.Pair(nox.Atom(1), other)
	}
	if !nox.Equal(list(3, 10_000), list(3, 10_000)) || nox.Equal(list(3, 10_000), list(4, 10_000)) || nox.Equal(swapped, other) {
		t.Error("long lists are not compared well")
	}
	if !nox.Equal(list(nox.P, 10_000), list(nox.P, 10_000)) || nox.Equal(list(nox.P, 10_000), list(nox.P+1, 10_000)) {
		t.Error("long lists without identity are not compared well")
	}
}

func TestAxis(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := anyNoun().Draw(t, "noun")
		axis := rapid.OneOf(rapid.Uint64Range(1, 40), rapid.Uint64Min(1)).Draw(t, "axis")
		want, wantOK := plainAxis(n, axis)
		got, ok := n.Axis(axis)
		if ok != wantOK || ok && got != want {
			t.Fatalf("axis %d of %v is %v, %v; expected %v, %v", axis, n, got, ok, want, wantOK)
		}
	})
	if _, ok := nox.Atom(1).Axis(0); ok {
		t.Error("there is an axis 0")
	}
}

// TestIdentityInManyGoroutines is for the race detector.
func TestIdentityInManyGoroutines(t *testing.T) {
	t.Parallel()
	n := tree(500)
	want := plainIdentity(n)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if id, err := n.Identity(); err != nil || id != want {
				t.Errorf("%v, %v; expected %v", id, err, want)
			}
		})
	}
	wait.Wait()
}

func TestIdentitiesRefuse(t *testing.T) {
	t.Parallel()
	ids := make([]hemera.Digest, 2)
	if err := nox.Identities(ids, []nox.Noun{nox.Atom(1), nox.Pair(nox.Atom(1), nox.Atom(nox.P))}); !errors.Is(err, nox.ErrNonCanonical) {
		t.Errorf("%v; expected %v", err, nox.ErrNonCanonical)
	}
	if _, err := nox.Particle(nox.Atom(nox.P)); !errors.Is(err, nox.ErrNonCanonical) {
		t.Errorf("%v; expected %v", err, nox.ErrNonCanonical)
	}
	if _, err := nox.Hash(nox.Atom(nox.P)); !errors.Is(err, nox.ErrNonCanonical) {
		t.Errorf("%v; expected %v", err, nox.ErrNonCanonical)
	}
	if err := nox.Identities(nil, nil); err != nil {
		t.Error(err)
	}
}

func TestField(t *testing.T) {
	t.Parallel()
	check := func(fatal func(string, ...any), x, y uint64) {
		for _, op := range []struct {
			name string
			got  uint64
			want *big.Int
		}{
			{"+", nox.Add(x, y), new(big.Int).Add(number(x), number(y))},
			{"-", nox.Sub(x, y), new(big.Int).Sub(number(x), number(y))},
			{"·", nox.Mul(x, y), new(big.Int).Mul(number(x), number(y))},
		} {
			if want := op.want.Mod(op.want, order); op.got != want.Uint64() {
				fatal("%d %s %d is %d; expected %v", x, op.name, y, op.got, want)
			}
		}
		want := new(big.Int).ModInverse(number(x), order)
		if x%nox.P == 0 {
			want = new(big.Int)
		}
		if got := nox.Inverse(x); got != want.Uint64() {
			fatal("the inverse of %d is %d; expected %v", x, got, want)
		}
	}
	edges := []uint64{0, 1, 2, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1<<48 - 1, 1 << 48, 1 << 56, 1 << 63,
		nox.P - 2, nox.P - 1, nox.P, nox.P + 1, 1<<64 - 2, 1<<64 - 1}
	for _, x := range edges {
		for _, y := range edges {
			check(t.Fatalf, x, y)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t.Fatalf, anyAtom().Draw(t, "x"), anyAtom().Draw(t, "y"))
	})
}
