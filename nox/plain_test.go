package nox_test

import (
	"encoding/binary"
	"math/big"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
)

// plain reduces as the table of patterns says, by recursion and with big integers.
func plain(subject, formula nox.Noun, left *uint64) (nox.Noun, error) {
	none := nox.Noun{}
	if formula.IsAtom() || !formula.Head().IsAtom() {
		return none, nox.ErrMalformed
	}
	op, body := formula.Head().Value(), formula.Tail()
	costs := []uint64{1, 1, 1, 1, 1, 1, 1, 1, 64, 1, 64, 32, 32, 32, 32, 25, 1, 1}
	if op >= uint64(len(costs)) {
		return none, nox.ErrPattern
	}
	if *left < costs[op] {
		return none, nox.ErrHalt
	}
	*left -= costs[op]

	switch op {
	case 0:
		if !body.IsAtom() {
			return none, nox.ErrMalformed
		}
		if body.Value() == 0 {
			return limbs(plainIdentity(subject)), nil
		}
		part, ok := plainAxis(subject, body.Value())
		if !ok {
			return none, nox.ErrAxis
		}
		return part, nil
	case 1:
		return body, nil
	case 4:
		if body.IsAtom() || body.Tail().IsAtom() {
			return none, nox.ErrMalformed
		}
		test, err := plain(subject, body.Head(), left)
		if err != nil {
			return none, err
		}
		if !test.IsAtom() {
			return none, nox.ErrType
		}
		if test.Value() == 0 {
			return plain(subject, body.Tail().Head(), left)
		}
		return plain(subject, body.Tail().Tail(), left)
	case 8, 13, 15:
		x, err := plain(subject, body, left)
		if err != nil {
			return none, err
		}
		if op == 15 {
			var state [16]uint64
			id := plainIdentity(x)
			for i := range 4 {
				state[i] = binary.LittleEndian.Uint64(id[8*i:])
			}
			hemera.Permute(&state)
			a := nox.Atom
			return nox.Pair(nox.Pair(a(state[0]), a(state[1])), nox.Pair(a(state[2]), a(state[3]))), nil
		}
		if !x.IsAtom() {
			return none, nox.ErrType
		}
		if op == 8 {
			if x.Value() == 0 {
				return none, nox.ErrInverse
			}
			return nox.Atom(new(big.Int).ModInverse(number(x.Value()), order).Uint64()), nil
		}
		if x.Value() >= 1<<32 {
			return none, nox.ErrType
		}
		return nox.Atom(1<<32 - 1 - x.Value()), nil
	case 16, 17:
		return none, nox.ErrProvider
	}

	if body.IsAtom() {
		return none, nox.ErrMalformed
	}
	x, err := plain(subject, body.Head(), left)
	if err != nil {
		return none, err
	}
	y, err := plain(subject, body.Tail(), left)
	if err != nil {
		return none, err
	}
	switch op {
	case 2:
		return plain(x, y, left)
	case 3:
		return nox.Pair(x, y), nil
	case 9:
		return yes(plainEqual(x, y)), nil
	}
	if !x.IsAtom() || !y.IsAtom() {
		return none, nox.ErrType
	}
	v, w := x.Value(), y.Value()
	switch op {
	case 5:
		return modulo(new(big.Int).Add(number(v), number(w))), nil
	case 6:
		return modulo(new(big.Int).Sub(number(v), number(w))), nil
	case 7:
		return modulo(new(big.Int).Mul(number(v), number(w))), nil
	case 10:
		return yes(v < w), nil
	}
	if v >= 1<<32 || w >= 1<<32 {
		return none, nox.ErrType
	}
	switch op {
	case 11:
		return nox.Atom(v ^ w), nil
	case 12:
		return nox.Atom(v & w), nil
	default: // 14
		if w >= 32 {
			return nox.Atom(0), nil
		}
		return nox.Atom(v << w % (1 << 32)), nil
	}
}

func modulo(x *big.Int) nox.Noun { return nox.Atom(x.Mod(x, order).Uint64()) }

func yes(b bool) nox.Noun {
	if b {
		return nox.Atom(0)
	}
	return nox.Atom(1)
}

func limbs(d hemera.Digest) nox.Noun {
	limb := func(i int) nox.Noun { return nox.Atom(binary.LittleEndian.Uint64(d[8*i:])) }
	return nox.Pair(nox.Pair(limb(0), limb(1)), nox.Pair(limb(2), limb(3)))
}

// anyFormula draws formulas that are mostly well formed.
func anyFormula(depth int) *rapid.Generator[nox.Noun] {
	return rapid.Custom(func(t *rapid.T) nox.Noun {
		a := nox.Atom
		leaf := depth == 0
		if rapid.IntRange(0, 30).Draw(t, "odd") == 0 {
			return nox.Pair(a(rapid.Uint64Range(0, 20).Draw(t, "operator")), canonicalNoun().Draw(t, "body"))
		}
		op := rapid.SampledFrom([]uint64{0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 9, 10, 11, 12, 13, 14, 15}).Draw(t, "pattern")
		if leaf {
			op %= 2
		}
		f := anyFormula(depth - 1)
		switch op {
		case 0:
			return nox.Pair(a(0), a(rapid.Uint64Range(0, 15).Draw(t, "axis")))
		case 1:
			if !leaf && rapid.Bool().Draw(t, "code") {
				return nox.Pair(a(1), f.Draw(t, "quoted"))
			}
			return nox.Pair(a(1), canonicalNoun().Draw(t, "quoted"))
		case 8, 13, 15:
			return nox.Pair(a(op), f.Draw(t, "operand"))
		case 4:
			return nox.Pair(a(4), nox.Pair(f.Draw(t, "test"), nox.Pair(f.Draw(t, "yes"), f.Draw(t, "no"))))
		case 2:
			if rapid.Bool().Draw(t, "self") { // often runs what it has
				return nox.Pair(a(2), nox.Pair(f.Draw(t, "subject"), nox.Pair(a(1), f.Draw(t, "formula"))))
			}
		}
		return nox.Pair(a(op), nox.Pair(f.Draw(t, "first"), f.Draw(t, "second")))
	})
}
