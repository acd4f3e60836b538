package nox_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/nox"
)

func reduce(object, formula nox.Noun, budget uint64) (nox.Noun, uint64, error) {
	return nox.Reduce(context.Background(), object, formula, nox.Options{Budget: budget})
}

// outcome spells the outcome of a reduction like the vectors.
func outcome(n nox.Noun, cost uint64, err error) string {
	for _, known := range []struct {
		err  error
		name string
	}{
		{nox.ErrHalt, "halt"},
		{nox.ErrAxis, "error AxisError"},
		{nox.ErrType, "error TypeError"},
		{nox.ErrInverse, "error InvZero"},
		{nox.ErrPattern, "error UnknownTag"},
		{nox.ErrMalformed, "error Malformed"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%v cost %d", n, cost)
}

func TestReductionVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Reductions {
		n, cost, err := nox.Reduce(context.Background(), parse(t, v.Object), parse(t, v.Formula), nox.Options{Budget: v.Budget})
		if got := outcome(n, cost, err); got != v.Outcome {
			t.Errorf("%s of %s with %d: %s; expected %s", v.Formula, v.Object, v.Budget, got, v.Outcome)
		}
	}
}

// TestReduceAsThePlainOne compares value, cost and error with the plain evaluator,
// with every budget up to what the formula needs.
func TestReduceAsThePlainOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		object := canonicalNoun().Draw(t, "object")
		formula := anyFormula(5).Draw(t, "formula")
		budget := rapid.OneOf(rapid.Just(uint64(5000)), rapid.Uint64Range(0, 300)).Draw(t, "budget")
		left := budget
		want, wantErr := plain(object, formula, &left)
		got, cost, err := reduce(object, formula, budget)
		if !errors.Is(err, wantErr) || cost != budget-left {
			t.Fatalf("%v of %v: cost %d, %v; expected %d, %v", formula, object, cost, err, budget-left, wantErr)
		}
		if err == nil && !nox.Equal(got, want) {
			t.Fatalf("%v of %v: %v; expected %v", formula, object, got, want)
		}
	})
}

func TestReduceRefuses(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		object, formula string
		err             error
		cost            uint64
		says            string
	}{
		{"0", "5", nox.ErrMalformed, 0, "an atom is no formula"},
		{"0", "[[0 1] 2]", nox.ErrMalformed, 0, "its operator is a pair"},
		{"0", "[18 0]", nox.ErrPattern, 0, "operator 18; expected one from 0 to 17"},
		{"0", "[0 [1 2]]", nox.ErrMalformed, 1, "an axis is an atom"},
		{"0", "[5 1]", nox.ErrMalformed, 1, "the pattern add has two operands"},
		{"0", "[4 [[1 0] [1 1]]]", nox.ErrMalformed, 2, "an atom is no formula, in the formula 1"},
		{"0", "[4 [[1 0] 1]]", nox.ErrMalformed, 1, "a branch has a test and two formulas"},
		{"0", "[4 1]", nox.ErrMalformed, 1, "a branch has a test and two formulas"},
		{"[1 2]", "[4 [[0 1] [[1 1] [1 2]]]]", nox.ErrType, 2, "the test is [1 2]; expected an atom"},
		{"[1 2]", "[3 [[0 2] [0 6]]]", nox.ErrAxis, 3, "axis 6 leads into an atom of the subject [1 2], in the formula [0 6]"},
		{"[1 2]", "[7 [[0 2] [0 1]]]", nox.ErrType, 3, "the second operand is [1 2]; expected an atom"},
		{"[1 2]", "[7 [[0 1] [0 1]]]", nox.ErrType, 3, "the first operand is [1 2]; expected an atom"},
		{"[1 2]", "[8 [0 1]]", nox.ErrType, 65, "the operand is [1 2]; expected an atom"},
		{"[1 2]", "[10 [[0 1] [0 2]]]", nox.ErrType, 66, "the first operand"},
		{"[1 4294967296]", "[14 [[0 2] [0 3]]]", nox.ErrType, 34, "the second operand is 4294967296; expected a 32-bit word"},
		{"4294967296", "[13 [0 1]]", nox.ErrType, 33, "expected a 32-bit word"},
		{"0", "[8 [0 1]]", nox.ErrInverse, 65, "the operand is 0"},
		{"0", "[16 [[1 0] [1 0]]]", nox.ErrProvider, 1, "the pattern call needs one"},
		{"0", "[17 [[1 0] [1 0]]]", nox.ErrProvider, 1, "the pattern look needs one"},
		{"18446744069414584321", "[1 0]", nox.ErrNonCanonical, 0, "in the object 18446744069414584321"},
		{"0", "[1 [0 18446744069414584321]]", nox.ErrNonCanonical, 0, "in the formula"},
	} {
		_, cost, err := reduce(parse(t, x.object), parse(t, x.formula), 1000)
		if !errors.Is(err, x.err) || cost != x.cost || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s of %s: cost %d, %v; expected %d, %v and %q", x.formula, x.object, cost, err, x.cost, x.err, x.says)
		}
	}
}

// TestBudgetIsExact runs every pattern with what it costs and with one unit less.
func TestBudgetIsExact(t *testing.T) {
	t.Parallel()
	object := parse(t, "[3 [5 6]]")
	for formula, cost := range map[string]uint64{
		"[0 1]":                      1,
		"[1 7]":                      1,
		"[2 [[0 1] [1 [0 2]]]]":      4,
		"[3 [[0 1] [0 1]]]":          3,
		"[4 [[1 0] [[0 1] [0 99]]]]": 3,
		"[4 [[1 9] [[0 99] [0 1]]]]": 3,
		"[5 [[0 2] [0 6]]]":          3,
		"[6 [[0 2] [0 6]]]":          3,
		"[7 [[0 2] [0 6]]]":          3,
		"[8 [0 2]]":                  65,
		"[9 [[0 2] [0 6]]]":          3,
		"[10 [[0 2] [0 6]]]":         66,
		"[11 [[0 2] [0 6]]]":         34,
		"[12 [[0 2] [0 6]]]":         34,
		"[13 [0 2]]":                 33,
		"[14 [[0 2] [0 6]]]":         34,
		"[15 [0 2]]":                 26,
		"[0 0]":                      1,
	} {
		f := parse(t, formula)
		if _, got, err := reduce(object, f, cost); err != nil || got != cost {
			t.Errorf("%s costs %d, %v; expected %d", formula, got, err, cost)
		}
		if _, got, err := reduce(object, f, cost-1); !errors.Is(err, nox.ErrHalt) || got > cost-1 {
			t.Errorf("%s with %d: cost %d, %v; expected a halt", formula, cost-1, got, err)
		}
	}
}

func TestShift(t *testing.T) {
	t.Parallel()
	for _, x := range [][3]uint64{{1, 31, 1 << 31}, {3, 31, 1 << 31}, {1, 32, 0}, {1, 64, 0}, {1, math.MaxUint32, 0}, {math.MaxUint32, 0, math.MaxUint32}, {0x80000001, 1, 2}} {
		object := nox.Pair(nox.Atom(x[0]), nox.Atom(x[1]))
		got, _, err := reduce(object, parse(t, "[14 [[0 2] [0 3]]]"), 100)
		if err != nil || got != nox.Atom(x[2]) {
			t.Errorf("%d shifted by %d is %v, %v; expected %d", x[0], x[1], got, err, x[2])
		}
	}
}

// loopOf is a formula that runs body, which has itself at axis 2 of its subject and a
// state at axis 3, and so may run for ever.
func loopOf(body string) string {
	return "[2 [[3 [[1 " + body + "] [0 1]]] [1 [2 [[0 1] [0 2]]]]]]"
}

// hostile formulas use their budget in the dearest ways.
var hostile = map[string]string{
	"count":        loopOf("[2 [[3 [[0 2] [5 [[1 1] [0 3]]]]] [0 2]]]"),
	"recurse":      loopOf("[5 [[1 1] [2 [[0 1] [0 2]]]]]"),
	"double":       loopOf("[2 [[3 [[0 2] [3 [[0 3] [0 3]]]]] [0 2]]]"),
	"grow left":    loopOf("[2 [[3 [[0 2] [3 [[0 3] [1 7]]]]] [0 2]]]"),
	"grow right":   loopOf("[2 [[3 [[0 2] [3 [[1 7] [0 3]]]]] [0 2]]]"),
	"particles":    loopOf("[2 [[3 [[0 2] [3 [[0 0] [0 3]]]]] [0 2]]]"),
	"hash growing": loopOf("[2 [[3 [[0 2] [3 [[15 [0 3]] [0 3]]]]] [0 2]]]"),
	// two lists of the same members, built apart and compared at every turn
	"compare": "[2 [[3 [[1 [2 [[3 [[0 2] [3 [[3 [[9 [[0 6] [0 7]]] [0 6]]] [3 [[1 0] [0 7]]]]]]] [0 2]]]] [1 [0 0]]]] [1 [2 [[0 1] [0 2]]]]]]",
}

// bytesPerCost is what the documentation of Options promises.
const bytesPerCost = 512

// TestHostileFormulasAreBounded says that the memory in use stays within the bound
// that Options tells, and that every formula ends by itself. It counts what the whole
// process allocates, so nothing may run beside it.
func TestHostileFormulasAreBounded(t *testing.T) {
	const budget = 20_000
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			formula := parse(t, text)
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, cost, err := reduce(nox.Atom(0), formula, budget)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, nox.ErrHalt) || cost > budget || cost < budget-64 {
				t.Errorf("cost %d, %v; expected a halt near %d", cost, err, budget)
			}
			// All that was ever allocated is a bound of what was in use.
			if used := after.TotalAlloc - before.TotalAlloc; used > bytesPerCost*budget {
				t.Errorf("%d bytes were allocated, %d a unit", used, used/budget)
			}
		})
	}
}

// TestNothingRecursesOverData builds, reduces, compares, names and encodes nouns that
// are deeper than a stack of 128 KiB could hold calls. A stack that grows beyond ends
// the whole process, so nothing may run beside it.
func TestNothingRecursesOverData(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(128 << 10))
	const depth = 10_000
	formula := parse(t, "[1 1]")
	for range depth {
		formula = nox.Pair(nox.Atom(5), nox.Pair(formula, parse(t, "[1 1]")))
	}
	got, cost, err := reduce(nox.Atom(0), formula, math.MaxUint64)
	if err != nil || got != nox.Atom(depth+1) || cost != 2*depth+1 {
		t.Errorf("%v, cost %d, %v", got, cost, err)
	}
	left := func(first, last uint64) nox.Noun {
		n := nox.Atom(first)
		for range depth {
			n = nox.Pair(n, nox.Atom(last))
		}
		return n
	}
	if n := left(0, 3); n.Depth() != depth || n.Size() != 2*depth+1 {
		t.Errorf("%d pairs to the left have %d nodes and depth %d", depth, n.Size(), n.Depth())
	}
	// Those with an atom of P have no identity, and are compared in another way.
	for _, last := range []uint64{3, nox.P} {
		if !nox.Equal(left(0, last), left(0, last)) || nox.Equal(left(0, last), left(1, last)) {
			t.Error("two deep nouns are not compared well")
		}
	}
	limits := nox.Limits{Nodes: 2*depth + 1, Depth: depth}
	b, err := limits.Encode(left(0, nox.P))
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := limits.Decode(b)
	if err != nil || !nox.Equal(decoded, left(0, nox.P)) {
		t.Errorf("a deep noun is decoded as another one: %v", err)
	}
	text, err := limits.Format(decoded)
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := limits.Parse(text); err != nil || !nox.Equal(parsed, decoded) {
		t.Errorf("a deep noun is parsed as another one: %v", err)
	}
}

func TestReduceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("no longer wanted")
	done := make(chan error)
	go func() {
		_, _, err := nox.Reduce(ctx, nox.Atom(0), parse(t, hostile["count"]), nox.Options{Budget: math.MaxUint64})
		done <- err
	}()
	cancel(reason)
	select {
	case err := <-done:
		if !errors.Is(err, reason) {
			t.Errorf("%v; expected %v", err, reason)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

func FuzzReduce(f *testing.F) {
	for _, text := range hostile {
		b, err := nox.Encode(parse(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, artifact []byte) {
		n, err := nox.Limits{Nodes: 4096, Depth: 128}.Decode(artifact)
		if err != nil || !n.IsCanonical() {
			return
		}
		const budget = 300
		left := uint64(budget)
		want, wantErr := plain(n, n, &left)
		got, cost, err := reduce(n, n, budget)
		if !errors.Is(err, wantErr) || cost != budget-left {
			t.Fatalf("cost %d, %v; expected %d, %v", cost, err, budget-left, wantErr)
		}
		if err == nil && !nox.Equal(got, want) {
			t.Fatalf("%v; expected %v", got, want)
		}
	})
}
