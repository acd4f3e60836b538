package machine_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune/machine"
)

// unshared is the same noun with nothing in it shared.
func unshared(t testing.TB, n nox.Noun) nox.Noun {
	t.Helper()
	artifact, err := nox.Encode(n)
	if err != nil {
		t.Fatal(err)
	}
	if n, err = nox.Decode(artifact); err != nil {
		t.Fatal(err)
	}
	return n
}

// seeds are the checkpoints of the vectors, valid and not.
func seeds(f *testing.F) [][]byte {
	f.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		f.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		f.Fatal(err)
	}
	var all [][]byte
	add := func(text string) {
		b, err := hex.DecodeString(text)
		if err != nil {
			f.Fatal(err)
		}
		if len(b) > 0 {
			all = append(all, b)
		}
	}
	for _, one := range v.Machine {
		for _, s := range one.Steps {
			add(s.Checkpoint)
		}
	}
	for _, one := range v.Invalid {
		add(one.Bytes)
	}
	return all
}

// FuzzRestore says that any bytes are refused or are the checkpoint of one state,
// that such a state runs without harm, and alike in one go and step by step.
func FuzzRestore(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 2000
		m, err := machine.Restore(b, limit)
		if err != nil {
			if !errors.Is(err, machine.BadCheckpoint) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		got, err := m.Checkpoint()
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%x is restored, but its checkpoint is %x, %v", b, got, err)
		}
		m2, err := machine.Restore(b, limit)
		if err != nil {
			t.Fatal(err)
		}
		a, aerr := finish(t, m, limit)
		c, cerr := finish(t, m2, 1)
		if a.Status != c.Status || a.Tag != c.Tag || !nox.Equal(a.Value, c.Value) || !nox.Equal(a.Arguments, c.Arguments) ||
			m.Used() != m2.Used() || kindOf(aerr) != kindOf(cerr) {
			t.Fatalf("%x ends with %+v, %v after %d steps, or with %+v, %v after %d", b, a, aerr, m.Used(), c, cerr, m2.Used())
		}
	})
}

func kindOf(err error) machine.Kind {
	if f := (*machine.Fault)(nil); errors.As(err, &f) {
		return f.Kind
	}
	return 0
}

// finish runs m in slices to its end; acts are answered with 3.
func finish(t *testing.T, m *machine.Machine, slice uint64) (machine.Result, error) {
	t.Helper()
	for {
		if _, _, waiting := m.Waiting(); waiting {
			if err := m.Resume(nox.Atom(3)); err != nil {
				return machine.Result{}, err
			}
		}
		r, err := m.Run(slice)
		if err != nil || r.Status == machine.Done || r.Status == machine.Event {
			return r, err
		}
		if m.Frames() > machine.MaxFrames || m.Values() > machine.MaxValues {
			t.Fatalf("%d frames and %d values are kept", m.Frames(), m.Values())
		}
	}
}

// FuzzHostileFormula runs any noun as a formula against any noun.
func FuzzHostileFormula(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b, []byte{0, 1, 2})
	}
	f.Fuzz(func(t *testing.T, formula, subject []byte) {
		// Any bytes are a noun: each one opens a pair, or is an atom.
		m, err := machine.Start(nounOf(subject), nounOf(formula), 3000)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := nox.Decode(formula); err == nil {
			if m, err = machine.Start(nounOf(subject), n, 3000); err != nil {
				t.Fatal(err)
			}
		}
		_, err = finish(t, m, 1000)
		if f := (*machine.Fault)(nil); err != nil && !errors.As(err, &f) {
			t.Fatalf("ended with %v", err)
		}
	})
}

// nounOf makes a noun of bytes, of which those from 128 on are pairs.
func nounOf(b []byte) nox.Noun {
	var made []nox.Noun
	for i := len(b) - 1; i >= 0; i-- {
		if n := len(made); b[i] >= 128 && n >= 2 {
			made = append(made[:n-2], nox.Pair(made[n-1], made[n-2]))
			continue
		}
		made = append(made, nox.Atom(uint64(b[i])))
	}
	if len(made) == 0 {
		return nox.Atom(0)
	}
	return made[len(made)-1]
}

// hostile programs make, keep, name and compare as much as steps can, with a state
// that is a pair of two equal nouns.
var hostile = map[string]string{
	"grow":    "let n = 0; let a = 0; loop { rebind n = n + 1; rebind a = if and(n, 63) == 0 { 0 } else { [n a n] }; continue }",
	"double":  "let n = 0; let a = 0; loop { rebind n = n + 1; rebind a = if and(n, 7) == 0 { n } else { [a a] }; continue }",
	"hash":    "let a = 0; loop { rebind a = hash([a, a]); continue }",
	"compare": "loop { if head(~mem) == tail(~mem) { continue } else { 0 } }",
	"name":    "let n = 0; loop { rebind n = n + 1; let a = hash([n ~mem]); continue }",
	"stack":   "let n = 0; loop { let a = loop { rebind n = n + 1; if and(n, 31) == 0 { n } else { [n [n n n] continue] } }; continue }",
	"ask":     "let n = 0; loop { rebind n = host([n ~mem]); continue }",
}

// particles is a formula whose subject is itself and its own last particle, which takes
// fewer steps than a program could.
const particles = "[2 [[3 [[1 [2 [[3 [[0 2] [0 0]]] [0 2]]]] [0 1]]] [1 [2 [[0 1] [0 2]]]]]]"

// What the package says that is allocated at most: bytes for a step, and for a node of
// the state that a run begins with.
const (
	bytesPerStep = 512
	bytesPerNode = 256
)

// TestMemoryIsBounded runs hostile programs and counts all that was ever allocated,
// which is a bound of what was in use. Nothing may run beside it.
func TestMemoryIsBounded(t *testing.T) {
	half := unshared(t, tree(13))
	state := nox.Pair(half, unshared(t, half))
	const steps = 20_000
	formulas := map[string]nox.Noun{"particles": parseNoun(t, particles)}
	for name, source := range hostile {
		formulas[name] = compile(t, source).Formula(nox.Atom(0))
	}
	for name, formula := range formulas {
		t.Run(name, func(t *testing.T) {
			m, err := machine.Start(machine.Input{State: state}.Base(), formula, steps)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			if _, err := finish(t, m, 1000); !errors.Is(err, machine.StepLimit) {
				t.Fatalf("ends with %v", err)
			}
			runtime.ReadMemStats(&after)
			used := after.TotalAlloc - before.TotalAlloc
			if bound := bytesPerStep*steps + bytesPerNode*state.Size(); used > bound {
				t.Errorf("%d bytes were allocated, at most %d were expected", used, bound)
			}
		})
	}
}
