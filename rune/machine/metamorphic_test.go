package machine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// failer is a test, or a draw of one.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// outcome is all that may be seen of a computation.
type outcome struct {
	value nox.Noun
	fault machine.Kind
	event bool // it waits for an event, or for a reply that is not there
	used  uint64
	acts  string
}

func (o outcome) String() string {
	return fmt.Sprintf("value %s, fault %q, waits %v, %d steps, acts %s", o.value, o.fault, o.event, o.used, o.acts)
}

// job is a computation that can be run in several ways.
type job struct {
	source           *rune.Map // or nil
	subject, formula nox.Noun
	limit            uint64
	replies          []nox.Noun
	patient          bool // encode after every step, however many there are
}

// run runs it in slices. With encode, the machine is replaced after every slice by one
// made of its checkpoint, wherever there is one.
func (j job) run(t failer, slice uint64, encode bool) (outcome, *machine.Fault) {
	t.Helper()
	m, err := machine.Start(j.subject, j.formula, j.limit)
	if err != nil {
		t.Fatal(err)
	}
	m.Trace(j.source)
	replies := j.replies
	var acts []string
	end := func(o outcome, f *machine.Fault) (outcome, *machine.Fault) {
		o.used = m.Used()
		o.acts = strings.Join(acts, " ")
		return o, f
	}
	for {
		if encode {
			m = again(t, m)
			m.Trace(j.source)
		}
		before := m.Used()
		r, err := m.Run(slice)
		var f *machine.Fault
		switch {
		case errors.As(err, &f):
			return end(outcome{fault: f.Kind}, f)
		case err != nil:
			t.Fatal(err)
		}
		if m.Used()-before > slice || m.Used() > j.limit {
			t.Fatalf("a slice of %d has used %d steps, %d of %d in all", slice, m.Used()-before, m.Used(), j.limit)
		}
		switch r.Status {
		case machine.Done:
			return end(outcome{value: r.Value}, nil)
		case machine.Yielded:
			if m.Used()-before != slice {
				t.Fatalf("yielded after %d steps of %d", m.Used()-before, slice)
			}
		default:
			acts = append(acts, nox.Pair(nox.Atom(r.Tag), r.Arguments).String())
			if r.Status == machine.Event || len(replies) == 0 {
				return end(outcome{event: true}, nil)
			}
			if encode {
				m = again(t, m)
				m.Trace(j.source)
			}
			err := m.Resume(replies[0])
			replies = replies[1:]
			if errors.As(err, &f) {
				return end(outcome{fault: f.Kind}, f)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// again is the machine made of the checkpoint of m, or m if it has none.
func again(t failer, m *machine.Machine) *machine.Machine {
	t.Helper()
	b, err := m.Checkpoint()
	if errors.Is(err, machine.NodeLimit) || errors.Is(err, machine.DepthLimit) {
		return m
	}
	if err != nil {
		t.Fatal(err)
	}
	restored, err := machine.Restore(b, m.Limit())
	if err != nil {
		t.Fatalf("a checkpoint is refused: %v", err)
	}
	twice, err := restored.Checkpoint()
	if err != nil || !slices.Equal(b, twice) {
		t.Fatalf("restoring changes the checkpoint: %v\n%x\n%x", err, b, twice)
	}
	return restored
}

func same(a, b outcome) bool {
	return nox.Equal(a.value, b.value) && a.fault == b.fault && a.event == b.event && a.used == b.used && a.acts == b.acts
}

// check runs a job in all ways and with the plain evaluator.
func (j job) check(t failer) outcome {
	t.Helper()
	p := plain{limit: j.limit, replies: j.replies}
	value, end := p.run(j.subject, j.formula)
	var acts []string
	for _, a := range p.acts {
		acts = append(acts, a.String())
	}
	want := outcome{value: value, fault: end.kind, event: end.event, used: p.used, acts: strings.Join(acts, " ")}
	whole, exact := j.run(t, machine.MaxSteps, false)
	if !same(whole, want) {
		t.Fatalf("the formula %s of %s gives\n%s, but in plain\n%s", j.formula, j.subject, whole, want)
	}
	slices := []uint64{1, 2, 3, 5, 7, 11, 64, whole.used, whole.used + 1}
	if whole.used < 80 {
		slices = nil
		for n := range whole.used + 2 {
			slices = append(slices, n+1)
		}
	}
	for _, slice := range slices {
		for _, encode := range []bool{false, true} {
			if slice == 0 || encode && whole.used > 400 && slice < 5 && !j.patient {
				continue
			}
			got, f := j.run(t, slice, encode)
			if !same(got, want) {
				t.Fatalf("the formula %s of %s gives in slices of %d (encoded: %v)\n%s, but\n%s in one go", j.formula, j.subject, slice, encode, got, whole)
			}
			if f != nil && j.source != nil {
				checkPlaces(t, f, exact, encode)
			}
		}
	}
	return want
}

// checkPlaces says that a fault has the same place, or is among several equal ones
// after the state was decoded.
func checkPlaces(t failer, f, exact *machine.Fault, encoded bool) {
	t.Helper()
	if f.Kind == machine.StepLimit {
		return // nothing in the source is wrong
	}
	if !encoded && !slices.Equal(f.Places, exact.Places) {
		t.Fatalf("a fault is at %+v, in slices at %+v", exact.Places, f.Places)
	}
	for _, p := range exact.Places {
		if !slices.Contains(f.Places, p) {
			t.Fatalf("the fault %s is at %+v, but after decoding at %+v", exact, exact.Places, f.Places)
		}
	}
}

// TestKnownProgramsRunAlikeInAllWays has programs of every kind of end, some of which
// are too seldom drawn.
func TestKnownProgramsRunAlikeInAllWays(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		source, event string
		value         string       // or
		fault         machine.Kind // or an act without a reply
	}{
		{source: "let n = event; let p = 1; loop { if n == 0 { p } else { rebind p = p * n; rebind n = n - 1; continue } }", event: "20", value: "2432902008176640000"},
		{source: "let l = event; let r = 0; loop { if l == 0 { r } else { rebind r = [head(l) r]; rebind l = tail(l); continue } }", event: "[1 2 3 4 0]", value: "[4 3 2 1 0]"},
		{source: "let t = 2; let n = event; loop { if n == 0 { t } else { rebind t = [t hash(t)]; rebind n = n - 1; continue } }", event: "0", value: "2"},
		{source: "[host(event) emit(1) query([2 ~mem])]", event: "7", value: "[5 6 7]"},
		{source: "host(host(host(host(event))))", event: "7"},
		{source: "let n = 0; loop { rebind n = n + 1; if n == event { head(n) } else { continue } }", event: "9", fault: machine.Axis},
		{source: "let a = 1; loop { rebind a = [a a]; continue }", event: "0", fault: machine.NodeLimit},
		{source: "let a = 1; loop { rebind a = [1 a]; continue }", event: "0", fault: machine.DepthLimit},
		{source: "let a = 1; loop { rebind a = [a 1]; continue }", event: "0", fault: machine.DepthLimit},
		{source: "loop { 1 + continue }", event: "0", fault: machine.FrameLimit},
		{source: "loop { [host(1), continue] }", event: "0"},
		{source: "loop { let x = 1; continue }", event: "0", fault: machine.StepLimit},
		{source: "let a = 0xffffffff00000001; [a + 0, hash(a)]", event: "0", fault: machine.NonCanonical},
	} {
		p := compile(t, one.source)
		in := machine.Input{State: parseNoun(t, "[3 4]"), Event: parseNoun(t, one.event)}
		j := job{
			source:  p.Map,
			subject: in.Base(),
			formula: p.Formula(in.Event),
			limit:   3000,
			replies: []nox.Noun{nox.Atom(5), nox.Atom(6), nox.Atom(7)},
			patient: true,
		}
		o := j.check(t)
		if o.fault != one.fault || o.event != (one.value == "" && one.fault == 0) {
			t.Errorf("%s ends with %v", one.source, o)
		}
		if one.value != "" && !nox.Equal(o.value, parseNoun(t, one.value)) {
			t.Errorf("%s is %s, want %s", one.source, o.value, one.value)
		}
	}
}

// drawNoun is a noun with atoms that matter: small ones, and those at the borders.
func drawNoun(t *rapid.T, depth int) nox.Noun {
	if depth == 0 || rapid.IntRange(0, 2).Draw(t, "atom") == 0 {
		return nox.Atom(rapid.OneOf(
			rapid.Uint64Range(0, 20),
			rapid.SampledFrom([]uint64{nox.P - 1, nox.P, 1<<64 - 1, 1 << 32, 1 << 63}),
			rapid.Uint64(),
		).Draw(t, "word"))
	}
	return nox.Pair(drawNoun(t, depth-1), drawNoun(t, depth-1))
}

// drawFormula is mostly a formula, and sometimes any noun.
func drawFormula(t *rapid.T, depth int) nox.Noun {
	formula := func(op uint64, body nox.Noun) nox.Noun { return nox.Pair(nox.Atom(op), body) }
	if depth == 0 {
		if rapid.Bool().Draw(t, "quote") {
			return formula(1, drawNoun(t, 2))
		}
		return formula(0, nox.Atom(rapid.Uint64Range(1, 7).Draw(t, "axis")))
	}
	sub := func() nox.Noun { return drawFormula(t, depth-1) }
	switch op := rapid.Uint64Range(0, 19).Draw(t, "op"); op {
	case 0:
		return formula(0, nox.Atom(rapid.Uint64Range(0, 20).Draw(t, "axis")))
	case 1:
		return formula(1, sub()) // a formula to compose with
	case 2:
		return formula(2, nox.Pair(sub(), formula(1, sub())))
	case 4:
		return formula(4, nox.Pair(sub(), nox.Pair(sub(), sub())))
	case 8, 13, 15:
		return formula(op, sub())
	case 16:
		tag := rapid.SampledFrom([]uint64{rune.TagEmit - 1, rune.TagEmit, rune.TagHost, rune.TagHost, rune.TagHost + 1}).Draw(t, "tag")
		return formula(16, nox.Pair(nox.Pair(nox.Atom(tag), sub()), sub()))
	case 17:
		return drawNoun(t, 4)
	case 18: // a loop without an end
		again := formula(2, nox.Pair(formula(0, nox.Atom(1)), formula(0, nox.Atom(2))))
		return formula(2, nox.Pair(formula(3, nox.Pair(formula(1, sub()), sub())), again))
	case 19: // the same once more, which is how anything grows
		f := sub()
		return formula(3, nox.Pair(f, f))
	default:
		return formula(op, nox.Pair(sub(), sub()))
	}
}

func TestFormulasRunAlikeInAllWays(t *testing.T) {
	t.Parallel()
	ends := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		j := job{
			subject: drawNoun(t, 4),
			formula: drawFormula(t, rapid.IntRange(1, 5).Draw(t, "depth")),
			limit:   rapid.Uint64Range(0, 600).Draw(t, "limit"),
			replies: []nox.Noun{drawNoun(t, 2), drawNoun(t, 2), drawNoun(t, 2)},
		}
		o := j.check(t)
		ends[o.fault.String()]++
	})
	if len(ends) < 3 {
		t.Errorf("the formulas have ended in %v only", ends)
	}
}

// drawExpression is the text of an expression with these variables.
func drawExpression(t *rapid.T, depth int, scope []string, looping bool) string {
	if depth == 0 {
		return rapid.SampledFrom(append([]string{"0", "1", "7", "0xffffffff00000001", `"ab"`, "~mem", "~here", "true"}, scope...)).Draw(t, "leaf")
	}
	sub := func() string { return drawExpression(t, depth-1, scope, looping) }
	switch rapid.IntRange(0, 12).Draw(t, "form") {
	case 0:
		return "[" + sub() + ", " + sub() + "]"
	case 1:
		return "(" + sub() + rapid.SampledFrom([]string{" + ", " - ", " * ", " == ", " != ", " < ", " <= ", " > ", " >= ", " && ", " || "}).Draw(t, "op") + sub() + ")"
	case 2:
		return "if " + sub() + " { " + sub() + " } else { " + sub() + " }"
	case 3:
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
		return "{ let " + name + " = " + sub() + "; " + drawExpression(t, depth-1, append(slices.Clone(scope), name), looping) + " }"
	case 4:
		return "{ rebind " + rapid.SampledFrom(scope).Draw(t, "name") + " = " + sub() + "; " + sub() + " }"
	case 5:
		return "loop { " + drawExpression(t, depth-1, scope, true) + " }"
	case 6:
		if looping {
			return "continue"
		}
		return sub()
	case 7:
		return rapid.SampledFrom([]string{"host", "emit", "query"}).Draw(t, "act") + "(" + sub() + ")"
	case 8:
		return rapid.SampledFrom([]string{"hash", "inv", "not", "head", "tail"}).Draw(t, "function") + "(" + sub() + ")"
	case 9:
		return rapid.SampledFrom([]string{"xor", "and", "shl"}).Draw(t, "function") + "(" + sub() + ", " + sub() + ")"
	case 10:
		return rapid.SampledFrom([]string{"axis", "nth"}).Draw(t, "function") + "(" + sub() + ", 2)"
	case 11:
		return "!" + sub()
	default:
		return sub()
	}
}

func TestProgramsRunAlikeInAllWays(t *testing.T) {
	t.Parallel()
	ends := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		source := drawExpression(t, rapid.IntRange(1, 6).Draw(t, "depth"), []string{"event"}, false)
		p, err := rune.Compile([]byte(source))
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		formatted, err := rune.Format([]byte(source))
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if q, err := rune.Compile(formatted); err != nil || !nox.Equal(p.Body(), q.Body()) {
			t.Fatalf("%s is formatted as %s, %v", source, formatted, err)
		}
		in := machine.Input{State: drawNoun(t, 3), Event: drawNoun(t, 3)}
		j := job{
			source:  p.Map,
			subject: in.Base(),
			formula: p.Formula(in.Event),
			limit:   rapid.Uint64Range(0, 600).Draw(t, "limit"),
			replies: []nox.Noun{drawNoun(t, 2), drawNoun(t, 2), drawNoun(t, 2)},
		}
		o := j.check(t)
		ends[o.fault.String()]++
		if o.fault == machine.Axis || o.fault == machine.Type || o.fault == machine.NonCanonical {
			_, f := j.run(t, machine.MaxSteps, false)
			if len(f.Places) != 1 || f.Excerpt() == "" || f.Reason == "" {
				t.Fatalf("%s: the fault %v has the places %+v", source, f, f.Places)
			}
		}
	})
	if len(ends) < 3 {
		t.Errorf("the programs have ended in %v only", ends)
	}
}
