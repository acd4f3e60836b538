// Command asm writes the vector path of package hemera: avx512_amd64.s and its
// declarations. It is a module of its own, so that only those who change it need avo.
//
// A state lies in registers of eight elements, in the order in which it lies in memory.
// So one state alone is served as well as many, whatever their number.
//
// An element is a pair (lo, hi) that stands for lo + hi·2^52, of which lo may have any
// sign and hi is not negative. Before it is multiplied it is carried: what lo has above
// 52 bits, its sign included, has been added to hi. The multiplier of the processor
// looks at the lower 52 bits only, so that they need not be cleared.
//
// Bounds: a product of carried elements whose hi is below 2^22 has |lo| < 2^54 and
// 2^12 <= hi < 2^22, so that carrying it leaves hi positive and below 2^22 again. The
// external layer multiplies by 35 at most: |lo| < 2^60 and hi < 2^28, which is folded to
// hi < 2^14. In the internal layer a sum with hi < 2^27 comes on top, which changes
// lo by less than 2^53 and hi by less than 2^16.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// element is eight elements, one a lane.
type element struct{ lo, hi VecVirtual }

// state has its elements 0 to 7 and 8 to 15.
type state [2]element

// constants are numbers that all lanes of a register have.
type constants struct {
	two8, two32 VecVirtual // multipliers that shift
	low12       VecVirtual // mask
	// The modulus as a pair. It is added where hi could become negative by a carry.
	primeLo, primeHi VecVirtual
	// avo takes a register that is cleared by itself for one that is read.
	zero VecVirtual
}

func broadcast(value uint64) VecVirtual {
	r, z := GP64(), ZMM()
	MOVQ(U64(value), r)
	VPBROADCASTQ(r, z)
	return z
}

func newConstants() constants {
	return constants{
		two8:    broadcast(1 << 8),
		two32:   broadcast(1 << 32),
		low12:   broadcast(1<<12 - 1),
		primeLo: broadcast(1<<64 - 1<<32 + 1),
		primeHi: broadcast(1 << 12),
		zero:    broadcast(0),
	}
}

func copyOf(v VecVirtual) VecVirtual {
	z := ZMM()
	VMOVDQA64(v, z)
	return z
}

// maskOrPrime is the truth table of (x and low12) or primeHi.
const maskOrPrime = 0xea

// reduce returns c0 + c1·2^52 + c2·2^104, which it overwrites, and adds primeHi. As 2^64
// is 2^32 - 1 and 2^104 is -2^8, that is, with h = c1 div 2^12,
// c0 + (c1 mod 2^12)·2^52 + h·2^32 - h - c2·2^8.
func (k constants) reduce(c0, c1, c2 VecVirtual) element {
	h, minus := ZMM(), ZMM()
	VPSRLQ(U8(12), c1, h)
	VMOVDQA64(h, minus)
	VPTERNLOGQ(U8(maskOrPrime), k.primeHi, k.low12, c1)
	VPMADD52LUQ(k.two8, c2, minus)
	VPMADD52LUQ(k.two32, h, c0)
	VPMADD52HUQ(k.two32, h, c1)
	VPSUBQ(minus, c0, c0)
	return element{c0, c1}
}

// multiplyAdd returns a·b + (c0, c1), not carried, and overwrites c0 and c1, of which c0
// must include primeLo.
func (k constants) multiplyAdd(a, b element, c0, c1 VecVirtual) element {
	c2 := copyOf(k.zero)
	VPMADD52HUQ(a.lo, b.lo, c1)
	VPMADD52LUQ(a.lo, b.lo, c0)
	VPMADD52HUQ(a.lo, b.hi, c2)
	VPMADD52LUQ(a.lo, b.hi, c1)
	VPMADD52HUQ(a.hi, b.lo, c2)
	VPMADD52LUQ(a.hi, b.lo, c1)
	VPMADD52LUQ(a.hi, b.hi, c2)
	return k.reduce(c0, c1, c2)
}

func (k constants) multiply(a, b element) element {
	return k.multiplyAdd(a, b, copyOf(k.primeLo), copyOf(k.zero))
}

func (k constants) square(a element) element {
	c0, c1, c2, twice := copyOf(k.primeLo), copyOf(k.zero), copyOf(k.zero), ZMM()
	VPADDQ(a.hi, a.hi, twice)
	VPMADD52HUQ(a.lo, a.lo, c1)
	VPMADD52LUQ(a.lo, a.lo, c0)
	VPMADD52LUQ(a.lo, twice, c1)
	VPMADD52HUQ(a.lo, twice, c2)
	VPMADD52LUQ(a.hi, a.hi, c2)
	return k.reduce(c0, c1, c2)
}

// carry makes a carried element of a, in place.
func carry(a element) element {
	over := ZMM()
	VPSRAQ(U8(52), a.lo, over)
	VPADDQ(over, a.hi, a.hi)
	return a
}

// fold replaces hi by what it has below 2^12 and primeHi.
func (k constants) fold(a element) {
	h := ZMM()
	VPSRLQ(U8(12), a.hi, h)
	VPTERNLOGQ(U8(maskOrPrime), k.primeHi, k.low12, a.hi)
	VPMADD52LUQ(k.two32, h, a.lo)
	VPSUBQ(h, a.lo, a.lo)
}

// substitute returns the seventh power of a, not carried.
func (k constants) substitute(a element) element {
	a2 := carry(k.square(a))
	a3 := carry(k.multiply(a2, a))
	a4 := carry(k.square(a2))
	return k.multiply(a3, a4)
}

// mix is the external layer on plain integers, in place.
func mix(a, b VecVirtual) {
	for _, x := range []VecVirtual{a, b} {
		// In groups of four x + 2·next + all is (x + next) + next + all.
		next, two, all := ZMM(), ZMM(), ZMM()
		VPERMQ(U8(0x39), x, next)
		VPADDQ(next, x, two)
		VPERMQ(U8(0x4e), two, all)
		VPADDQ(two, next, next)
		VPADDQ(two, next, next)
		VPADDQ(next, all, x)
	}
	sum, other := ZMM(), ZMM()
	VPADDQ(a, b, sum)
	VSHUFI64X2(U8(0x4e), sum, sum, other)
	VPADDQ(other, sum, sum)
	VPADDQ(sum, a, a)
	VPADDQ(sum, b, b)
}

// rowSize is the length of a state as pairs: sixteen lo, then sixteen hi.
const rowSize = 2 * 16 * 8

// row addresses half of row r.
func row(base Register, r, half int) (lo, hi Mem) {
	m := Mem{Base: base}
	return m.Offset(rowSize*r + 64*half), m.Offset(rowSize*r + rowSize/2 + 64*half)
}

func load(base Register, r, half int) element {
	x := element{ZMM(), ZMM()}
	lo, hi := row(base, r, half)
	VMOVDQU64(lo, x.lo)
	VMOVDQU64(hi, x.hi)
	return x
}

// addRow adds the constants of row r.
func addRow(x element, table Register, r, half int) {
	lo, hi := row(table, r, half)
	VPADDQ(lo, x.lo, x.lo)
	VPADDQ(hi, x.hi, x.hi)
}

// external is the external layer, with the constants of row r after it, which include
// primeLo. The result is folded and not carried.
func (k constants) external(s state, table Register, r int) {
	mix(s[0].lo, s[1].lo)
	mix(s[0].hi, s[1].hi)
	for half, x := range s {
		addRow(x, table, r, half)
		k.fold(x)
	}
}

// round has the S-boxes of a full round and what follows them.
func (k constants) round(s state, table Register, r int) state {
	s = state{k.substitute(carry(s[0])), k.substitute(carry(s[1]))}
	k.external(s, table, r)
	return s
}

// storeRest stores the sum of all elements but the first. They are not carried. butFirst
// has all lanes but the lowest.
func storeRest(s state, butFirst OpmaskVirtual, to Mem) {
	lo, hi := copyOf(s[1].lo), copyOf(s[1].hi)
	VPADDQ(s[0].lo, lo, butFirst, lo)
	VPADDQ(s[0].hi, hi, butFirst, hi)
	even, odd := ZMM(), ZMM()
	VPUNPCKLQDQ(hi, lo, even)
	VPUNPCKHQDQ(hi, lo, odd)
	VPADDQ(odd, even, even)
	upper, top := YMM(), XMM()
	VEXTRACTI64X4(U8(1), even, upper)
	VPADDQ(upper, even.AsY(), upper)
	VEXTRACTI128(U8(1), upper, top)
	VPADDQ(top, upper.AsX(), top)
	VMOVDQU(top, to)
}

func storeState(s state, to Register) {
	for half, x := range s {
		lo, hi := row(to, 0, half)
		VMOVDQU64(x.lo, lo)
		VMOVDQU64(x.hi, hi)
	}
}

func maskOf(lanes uint32) OpmaskVirtual {
	r, m := GP32(), K()
	MOVL(U32(lanes), r)
	KMOVW(r, m)
	return m
}

// loop repeats body n times, at least once, and returns.
func loop(n Register, body func()) {
	Label("state")
	body()
	DECQ(n)
	JNE(LabelRef("state"))
	VZEROUPPER()
	RET()
}

func pointer(name string) Register { return Load(Param(name), GP64()) }

func opening() {
	TEXT("openStates", NOSPLIT, "func(to *[32]uint64, rests *[2]uint64, from *[16]uint64, n int, table *[5][32]uint64)")
	Pragma("noescape")
	Doc("openStates does for n states what state.opening does, and sets rests to the sums of all elements", "but the first.")
	to, rests, from, n, table := pointer("to"), pointer("rests"), pointer("from"), pointer("n"), pointer("table")
	k := newConstants()
	low52, butFirst := broadcast(1<<52-1), maskOf(0xfe)
	loop(n, func() {
		var s state
		for half := range s {
			x := element{ZMM(), ZMM()}
			VMOVDQU64(Mem{Base: from}.Offset(64*half), x.lo)
			VPSRLQ(U8(52), x.lo, x.hi)
			VPANDQ(low52, x.lo, x.lo)
			s[half] = x
		}
		k.external(s, table, 0)
		for r := range 4 {
			s = k.round(s, table, 1+r)
		}
		storeRest(s, butFirst, Mem{Base: rests})
		carry(s[0])
		carry(s[1])
		storeState(s, to)
		ADDQ(U32(rowSize), to)
		ADDQ(U8(16), rests)
		ADDQ(U32(128), from)
	})
}

func internal() {
	TEXT("stepStates", NOSPLIT, "func(states *[32]uint64, rests *[2]uint64, sums *uint64, n int, diagonal *[32]uint64)")
	Pragma("noescape")
	Doc("stepStates does for n states what state.internal does: sums has the numbers to add, and rests is", "set to the sums of all new elements but the first.")
	states, rests, sums, n := pointer("states"), pointer("rests"), pointer("sums"), pointer("n")
	table := pointer("diagonal")
	k := newConstants()
	low52, butFirst := broadcast(1<<52-1), maskOf(0xfe)
	diagonal := state{load(table, 0, 0), load(table, 0, 1)}
	loop(n, func() {
		lo, hi := ZMM(), ZMM()
		VPBROADCASTQ(Mem{Base: sums}, lo)
		VPSRLQ(U8(52), lo, hi)
		VPANDQ(low52, lo, lo)
		VPADDQ(k.primeLo, lo, lo)
		var s state
		for half := range s {
			s[half] = k.multiplyAdd(load(states, 0, half), diagonal[half], copyOf(lo), copyOf(hi))
		}
		storeRest(s, butFirst, Mem{Base: rests})
		carry(s[0])
		carry(s[1])
		storeState(s, states)
		ADDQ(U32(rowSize), states)
		ADDQ(U8(16), rests)
		ADDQ(U8(8), sums)
	})
}

func closing() {
	TEXT("closeStates", NOSPLIT, "func(to *[16]uint64, from *[32]uint64, firsts *uint64, n int, table *[5][32]uint64)")
	Pragma("noescape")
	Doc("closeStates does for n states what state.closing does. Their first elements are in firsts.")
	to, from, firsts, n, table := pointer("to"), pointer("from"), pointer("firsts"), pointer("n"), pointer("table")
	k := newConstants()
	low52, first := broadcast(1<<52-1), maskOf(1)
	loop(n, func() {
		var s state
		for half := range s {
			x := load(from, 0, half)
			if half == 0 {
				word := ZMM()
				VPBROADCASTQ(Mem{Base: firsts}, word)
				VMOVDQA64(word, first, x.lo)
				VPSRLQ(U8(52), word, first, x.hi)
			}
			VPANDQ(low52, x.lo, x.lo)
			addRow(x, table, 0, half)
			s[half] = x
		}
		for r := range 4 {
			s = k.round(s, table, 1+r)
		}
		epsilon := ZMM()
		VPSUBQ(k.primeLo, k.zero, epsilon)
		for half, x := range s {
			// Carried and folded again, the number is below 2^64 + 2^35.
			carry(x)
			h, word, wrapped := ZMM(), ZMM(), K()
			VPANDQ(low52, x.lo, x.lo)
			VPSRLQ(U8(12), x.hi, h)
			VPMADD52LUQ(k.two32, h, x.lo)
			VPSUBQ(h, x.lo, x.lo)
			VPSLLQ(U8(52), x.hi, word)
			VPADDQ(x.lo, word, word)
			VPCMPUQ(U8(1), x.lo, word, wrapped)
			VPADDQ(epsilon, word, wrapped, word)
			VMOVDQU64(word, Mem{Base: to}.Offset(64*half))
		}
		ADDQ(U32(128), to)
		ADDQ(U32(rowSize), from)
		ADDQ(U8(8), firsts)
	})
}

func main() {
	ConstraintExpr("amd64,!purego")
	opening()
	internal()
	closing()
	Generate()
}
