// Command asm writes the AVX-512 code of package hemera.
//
// A vector has one element of eight states, so that the lanes never meet. The field and
// the layers are those of the plain code beside it, which says why they are right; what
// is here is the same on eight lanes. Elements are any representatives below 2^64.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	width  = 16
	vector = 64 // bytes
)

// field has the constants that stay in registers.
type field struct {
	epsilon VecVirtual    // 2^32 - 1 in each lane
	odd     OpmaskVirtual // the upper half of each lane, as 32-bit words
}

func newField() *field {
	f := &field{epsilon: ZMM(), odd: K()}
	x := GP64()
	MOVQ(U64(1<<32-1), x)
	VPBROADCASTQ(x, f.epsilon)
	MOVQ(U64(0xaaaa), x)
	KMOVW(x.As32(), f.odd)
	return f
}

// reduce returns high·2^64 + low modulo the prime.
func (f *field) reduce(high, low VecVirtual) VecVirtual {
	upper := ZMM()
	VPSRLQ(U8(32), high, upper)
	r, borrow := ZMM(), K()
	VPCMPUQ(U8(1), upper, low, borrow) // low < upper
	VPSUBQ(upper, low, r)
	VPSUBQ(f.epsilon, r, borrow, r)
	m := ZMM()
	VPMULUDQ(high, f.epsilon, m)
	return f.add(r, m)
}

// add returns a + b, where the sum with 2^32 - 1 in place of the carry does not carry
// again.
func (f *field) add(a, b VecVirtual) VecVirtual {
	sum, carry := ZMM(), K()
	VPADDQ(a, b, sum)
	VPCMPUQ(U8(1), b, sum, carry) // sum < b
	VPADDQ(f.epsilon, sum, carry, sum)
	return sum
}

// addLoose returns a + b for any two representatives.
func (f *field) addLoose(a, b VecVirtual) VecVirtual {
	sum, carry, again := ZMM(), K(), K()
	VPADDQ(a, b, sum)
	VPCMPUQ(U8(1), b, sum, carry)
	VPADDQ(f.epsilon, sum, carry, sum)
	VPCMPUQ(U8(1), f.epsilon, sum, carry, again)
	VPADDQ(f.epsilon, sum, again, sum)
	return sum
}

// wide returns the product of a and b as two words.
func (f *field) wide(a, b VecVirtual) (high, low VecVirtual) {
	ah, bh := ZMM(), ZMM()
	VMOVSHDUP(a, ah)
	VMOVSHDUP(b, bh)
	ll, lh, hl, hh := ZMM(), ZMM(), ZMM(), ZMM()
	VPMULUDQ(a, b, ll)
	VPMULUDQ(a, bh, lh)
	VPMULUDQ(ah, b, hl)
	VPMULUDQ(ah, bh, hh)
	return f.columns(ll, lh, hl, hh)
}

// square returns the square of a as two words.
func (f *field) square(a VecVirtual) (high, low VecVirtual) {
	ah := ZMM()
	VMOVSHDUP(a, ah)
	ll, lh, hh := ZMM(), ZMM(), ZMM()
	VPMULUDQ(a, a, ll)
	VPMULUDQ(a, ah, lh)
	VPMULUDQ(ah, ah, hh)
	return f.columns(ll, lh, lh, hh)
}

// columns adds up the products of halves.
func (f *field) columns(ll, lh, hl, hh VecVirtual) (high, low VecVirtual) {
	carry, middle := ZMM(), ZMM()
	VPSRLQ(U8(32), ll, carry)
	VPADDQ(hl, carry, middle)
	part := ZMM()
	VPANDQ(f.epsilon, middle, part)
	VPADDQ(lh, part, part)
	high = ZMM()
	VPSRLQ(U8(32), middle, middle)
	VPADDQ(hh, middle, high)
	upper := ZMM()
	VPSRLQ(U8(32), part, upper)
	VPADDQ(upper, high, high)
	low = ZMM()
	VMOVDQA64(ll, low)
	VMOVSLDUP(part, f.odd, low)
	return high, low
}

func (f *field) mul(a, b VecVirtual) VecVirtual {
	return f.reduce(f.wide(a, b))
}

func (f *field) sqr(a VecVirtual) VecVirtual {
	return f.reduce(f.square(a))
}

// mulAdd returns a·b + c.
func (f *field) mulAdd(a, b, c, one VecVirtual) VecVirtual {
	high, low := f.wide(a, b)
	carry := K()
	VPADDQ(c, low, low)
	VPCMPUQ(U8(1), c, low, carry)
	VPADDQ(one, high, carry, high)
	return f.reduce(high, low)
}

func at(p Register, i int) Mem { return Mem{Base: p, Disp: vector * i} }

// substitute replaces every element by its seventh power.
func (f *field) substitute(s Register) {
	for i := range width {
		x := ZMM()
		VMOVDQU64(at(s, i), x)
		x2 := f.sqr(x)
		x3 := f.mul(x2, x)
		x4 := f.sqr(x2)
		VMOVDQU64(f.mul(x3, x4), at(s, i))
	}
}

// mix is the external layer on plain integers.
func mix(x []VecVirtual) {
	for g := 0; g < width; g += 4 {
		a, b, c, d := x[g], x[g+1], x[g+2], x[g+3]
		ab, cd, bc, da, sum := ZMM(), ZMM(), ZMM(), ZMM(), ZMM()
		VPADDQ(a, b, ab)
		VPADDQ(c, d, cd)
		VPADDQ(b, c, bc)
		VPADDQ(d, a, da)
		VPADDQ(ab, cd, sum)
		for _, y := range []struct{ pair, own VecVirtual }{{ab, b}, {bc, c}, {cd, d}, {da, a}} {
			VPADDQ(sum, y.pair, y.pair)
			VPADDQ(y.own, y.pair, y.pair)
		}
		x[g], x[g+1], x[g+2], x[g+3] = ab, bc, cd, da
	}
	for i := range 4 {
		column := ZMM()
		VPADDQ(x[i], x[4+i], column)
		VPADDQ(x[8+i], column, column)
		VPADDQ(x[12+i], column, column)
		for g := 0; g < width; g += 4 {
			VPADDQ(column, x[g+i], x[g+i])
		}
	}
}

// external multiplies the state by the matrix and adds constants, whose lower halves
// are at c and whose upper halves follow them. low is room for a state.
func (f *field) external(s, c Register, low Mem) {
	x := make([]VecVirtual, width)
	for i := range width {
		x[i] = ZMM()
		VPANDQ(at(s, i), f.epsilon, x[i])
	}
	mix(x)
	for i := range width {
		VPADDQ_BCST(Mem{Base: c, Disp: 8 * i}, x[i], x[i])
		VMOVDQU64(x[i], low.Offset(vector*i))
	}
	for i := range width {
		x[i] = ZMM()
		VMOVDQU64(at(s, i), x[i])
		VPSRLQ(U8(32), x[i], x[i])
	}
	mix(x)
	for i := range width {
		high := x[i]
		VPADDQ_BCST(Mem{Base: c, Disp: 8 * (width + i)}, high, high)
		over := ZMM()
		VPSRLQ(U8(32), high, over)
		VPMULUDQ(over, f.epsilon, over)
		VPADDQ(low.Offset(vector*i), over, over)
		VPSLLQ(U8(32), high, high)
		VMOVDQU64(f.add(high, over), at(s, i))
	}
}

func external() {
	TEXT("externalAVX512", 0, "func(s *[16][8]uint64, c *[2][16]uint64)")
	Pragma("noescape")
	Doc("externalAVX512 multiplies eight states by the matrix of the external layer and adds constants.")
	s, c := Load(Param("s"), GP64()), Load(Param("c"), GP64())
	f := newField()
	f.external(s, c, AllocLocal(vector*width))
	VZEROUPPER()
	RET()
}

func rounds() {
	TEXT("roundsAVX512", 0, "func(s *[16][8]uint64, c *[2][16]uint64, n int)")
	Pragma("noescape")
	Doc("roundsAVX512 makes n full rounds of eight states: the S-boxes, then the external layer with constants.")
	s, c, n := Load(Param("s"), GP64()), Load(Param("c"), GP64()), Load(Param("n"), GP64())
	f := newField()
	low := AllocLocal(vector * width)
	Label("round")
	f.substitute(s)
	f.external(s, c, low)
	ADDQ(U32(2*8*width), c)
	DECQ(n)
	JNZ(LabelRef("round"))
	VZEROUPPER()
	RET()
}

func addConstants() {
	TEXT("addAVX512", NOSPLIT, "func(s *[16][8]uint64, c *[16]uint64)")
	Pragma("noescape")
	Doc("addAVX512 adds constants, which are canonical, to eight states.")
	s, c := Load(Param("s"), GP64()), Load(Param("c"), GP64())
	f := newField()
	for i := range width {
		x, y := ZMM(), ZMM()
		VMOVDQU64(at(s, i), x)
		VPBROADCASTQ(Mem{Base: c, Disp: 8 * i}, y)
		VMOVDQU64(f.add(x, y), at(s, i))
	}
	VZEROUPPER()
	RET()
}

func partial() {
	TEXT("partialAVX512", NOSPLIT, "func(s *[16][8]uint64, x, rest *[8]uint64, d *[16]uint64, next *uint64)")
	Pragma("noescape")
	Doc("partialAVX512 makes the internal layer of eight states. x has the inverses of their elements 0 and",
		"gets their successors, with the constant next; rest has the sums of the other elements.")
	s, px, prest := Load(Param("s"), GP64()), Load(Param("x"), GP64()), Load(Param("rest"), GP64())
	d, next := Load(Param("d"), GP64()), Load(Param("next"), GP64())
	f := newField()
	one := ZMM()
	t := GP64()
	MOVQ(U64(1), t)
	VPBROADCASTQ(t, one)
	y, rest := ZMM(), ZMM()
	VMOVDQU64(Mem{Base: px}, y)
	VMOVDQU64(Mem{Base: prest}, rest)
	sum := f.addLoose(rest, y)
	factor := func(i int) VecVirtual {
		x := ZMM()
		VPBROADCASTQ(Mem{Base: d, Disp: 8 * i}, x)
		return x
	}
	constant := ZMM()
	VPBROADCASTQ(Mem{Base: next}, constant)
	VMOVDQU64(f.add(f.mulAdd(factor(0), y, sum, one), constant), Mem{Base: px})
	total, over := ZMM(), ZMM()
	VPXORQ(over, over, over)
	for i := 1; i < width; i++ {
		x := ZMM()
		VMOVDQU64(at(s, i), x)
		x = f.mulAdd(factor(i), x, sum, one)
		VMOVDQU64(x, at(s, i))
		if i == 1 {
			VMOVDQA64(x, total)
			continue
		}
		carry := K()
		VPADDQ(x, total, total)
		VPCMPUQ(U8(1), x, total, carry)
		VPADDQ(one, over, carry, over)
	}
	VPMULUDQ(over, f.epsilon, over)
	VMOVDQU64(f.add(total, over), Mem{Base: prest})
	VZEROUPPER()
	RET()
}

// nonzero returns x with 1 in place of 0, and the lanes that were 0.
func (f *field) nonzero(x, one VecVirtual) (VecVirtual, OpmaskVirtual) {
	prime, zero, isZero, isPrime := ZMM(), ZMM(), K(), K()
	VPXORQ(zero, zero, zero)
	VPSUBQ(f.epsilon, zero, prime) // 2^64 - (2^32 - 1)
	VPCMPUQ(U8(0), zero, x, isZero)
	VPCMPUQ(U8(0), prime, x, isPrime)
	KORW(isZero, isPrime, isZero)
	y := ZMM()
	VMOVDQA64(x, y)
	VMOVDQA64(one, isZero, y)
	return y, isZero
}

func newOne() VecVirtual {
	one, t := ZMM(), GP64()
	MOVQ(U64(1), t)
	VPBROADCASTQ(t, one)
	return one
}

func products() {
	TEXT("productsAVX512", NOSPLIT, "func(products, xs *[8]uint64, n int)")
	Pragma("noescape")
	Doc("productsAVX512 sets products[i] to xs[0]·…·xs[i], lane by lane, with 1 in place of 0.")
	p, xs, n := Load(Param("products"), GP64()), Load(Param("xs"), GP64()), Load(Param("n"), GP64())
	f := newField()
	one := newOne()
	product := ZMM()
	VMOVDQA64(one, product)
	Label("forward")
	x := ZMM()
	VMOVDQU64(Mem{Base: xs}, x)
	x, _ = f.nonzero(x, one)
	VMOVDQA64(f.mul(product, x), product)
	VMOVDQU64(product, Mem{Base: p})
	ADDQ(U8(vector), xs)
	ADDQ(U8(vector), p)
	DECQ(n)
	JNZ(LabelRef("forward"))
	VZEROUPPER()
	RET()
}

func inverses() {
	TEXT("inversesAVX512", NOSPLIT, "func(xs, products, inverse *[8]uint64, n int)")
	Pragma("noescape")
	Doc("inversesAVX512 replaces xs[i] by 1/xs[i] and leaves what is 0. inverse is that of products[n-1].")
	xs, p := Load(Param("xs"), GP64()), Load(Param("products"), GP64())
	inv, n := Load(Param("inverse"), GP64()), Load(Param("n"), GP64())
	f := newField()
	one := newOne()
	inverse := ZMM()
	VMOVDQU64(Mem{Base: inv}, inverse)
	at := GP64()
	MOVQ(n, at)
	SHLQ(U8(6), at)
	ADDQ(at, xs)
	ADDQ(at, p)
	Label("back")
	SUBQ(U8(vector), xs)
	SUBQ(U8(vector), p)
	before, x := ZMM(), ZMM()
	VMOVDQA64(one, before)
	DECQ(n)
	JZ(LabelRef("first"))
	VMOVDQU64(Mem{Base: p, Disp: -vector}, before)
	Label("first")
	VMOVDQU64(Mem{Base: xs}, x)
	y, isZero := f.nonzero(x, one)
	result := f.mul(inverse, before)
	VPXORQ(result, result, isZero, result)
	VMOVDQU64(result, Mem{Base: xs})
	VMOVDQA64(f.mul(inverse, y), inverse)
	TESTQ(n, n)
	JNZ(LabelRef("back"))
	VZEROUPPER()
	RET()
}

func main() {
	ConstraintExpr("amd64,!purego")
	external()
	rounds()
	addConstants()
	partial()
	products()
	inverses()
	Generate()
}
