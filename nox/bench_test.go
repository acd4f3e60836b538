package nox_test

import (
	"context"
	"testing"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
)

// BenchmarkPair builds pairs without identity.
func BenchmarkPair(b *testing.B) {
	b.ReportAllocs()
	n := nox.Atom(0)
	var i uint64
	for b.Loop() {
		if i%1024 == 0 {
			n = nox.Atom(i)
		}
		n = nox.Pair(nox.Atom(i), n)
		i++
	}
	if n.IsAtom() {
		b.Fatal("nothing was built")
	}
}

// fresh builds nouns of 10,000 nodes, no atom of which has been met before.
type fresh struct{ s splitmix }

func (f *fresh) atom() nox.Noun { return nox.Atom(f.s.next() % nox.P) }

// flat is a tree as flat as can be.
func (f *fresh) flat(leaves int) nox.Noun {
	if leaves == 1 {
		return f.atom()
	}
	return nox.Pair(f.flat(leaves/2), f.flat(leaves-leaves/2))
}

// lists is a tree of lists of some 80 members each, as data of programs is.
func (f *fresh) lists(leaves int) nox.Noun {
	if leaves > 100 {
		return nox.Pair(f.lists(leaves/2), f.lists(leaves-leaves/2))
	}
	return f.chain(leaves)
}

// chain is one list, of which no two pairs can be hashed at the same time.
func (f *fresh) chain(leaves int) nox.Noun {
	list := nox.Atom(0)
	for range leaves - 1 {
		list = nox.Pair(f.atom(), list)
	}
	return list
}

// BenchmarkIdentity names nouns of 10,000 fresh nodes: 5,000 pairs, and as many atoms
// of two permutations each.
func BenchmarkIdentity(b *testing.B) {
	f := &fresh{s: 1}
	for _, x := range []struct {
		name  string
		build func(leaves int) nox.Noun
	}{{"flat", f.flat}, {"lists", f.lists}, {"chain", f.chain}} {
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				n := x.build(5000)
				b.StartTimer()
				if _, err := n.Identity(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("one by one", func(b *testing.B) { // the plain path
		for b.Loop() {
			b.StopTimer()
			n := f.flat(5000)
			b.StartTimer()
			plainIdentity(n)
		}
	})
	b.Run("cached", func(b *testing.B) {
		n := f.flat(5000)
		var id hemera.Digest
		for b.Loop() {
			id, _ = n.Identity()
		}
		if id == (hemera.Digest{}) {
			b.Fatal("no identity")
		}
	})
}

// BenchmarkReduce counts down from a number that changes with each call, and tells
// the patterns reduced a second.
func BenchmarkReduce(b *testing.B) {
	// Axis 2 is the loop, 6 what is left and 7 the sum.
	text := "[2 [[3 [[1 [4 [[9 [[0 6] [1 0]]] [[0 7] [2 [[3 [[0 2] [3 [[6 [[0 6] [1 1]]] [5 [[0 7] [0 6]]]]]]] [0 2]]]]]]] [0 1]]] [1 [2 [[0 1] [0 2]]]]]]"
	formula := parse(b, text)
	ctx := context.Background()
	var steps, i uint64
	b.ReportAllocs()
	for b.Loop() {
		i++
		object := nox.Pair(nox.Atom(1000+i%64), nox.Atom(i))
		_, cost, err := nox.Reduce(ctx, object, formula, nox.Options{Budget: 1 << 40})
		if err != nil {
			b.Fatal(err)
		}
		steps += cost // every pattern in it costs 1
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds()/1e6, "Msteps/s")
}

// BenchmarkArtifact encodes and decodes nouns of 10,000 nodes.
func BenchmarkArtifact(b *testing.B) {
	f := &fresh{s: 7}
	var nouns [8]nox.Noun
	var artifacts [8][]byte
	for i := range nouns {
		nouns[i] = f.lists(5000)
		var err error
		if artifacts[i], err = nox.Encode(nouns[i]); err != nil {
			b.Fatal(err)
		}
	}
	i := 0
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(artifacts[0])))
		for b.Loop() {
			i++
			if _, err := nox.Encode(nouns[i%8]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(artifacts[0])))
		for b.Loop() {
			i++
			if _, err := nox.Decode(artifacts[i%8]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkText prints and parses a noun of 10,000 nodes.
func BenchmarkText(b *testing.B) {
	n := (&fresh{s: 9}).lists(5000)
	text := n.String()
	b.Run("print", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			_ = n.String()
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := nox.Parse(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
