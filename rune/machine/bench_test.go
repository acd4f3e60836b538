package machine_test

import (
	"testing"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// summation adds the numbers up to the event.
const summation = `let n = event; let s = ~mem; loop {
	if n == 0 { s } else { rebind s = s + n; rebind n = n - 1; continue }
}`

// BenchmarkRun reports the time of one step, in a loop whose numbers change.
func BenchmarkRun(b *testing.B) {
	p, err := rune.Compile([]byte(summation))
	if err != nil {
		b.Fatal(err)
	}
	steps := uint64(0)
	for i := 0; b.Loop(); i++ {
		m, err := machine.Load(p, machine.Input{State: nox.Atom(uint64(i)), Event: nox.Atom(uint64(900 + i%100))}, machine.MaxSteps)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.Run(machine.MaxSteps); err != nil {
			b.Fatal(err)
		}
		steps += m.Used()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
}

// BenchmarkPlain runs the same with the evaluator of the tests.
func BenchmarkPlain(b *testing.B) {
	p := compile(b, summation)
	steps := uint64(0)
	for i := 0; b.Loop(); i++ {
		in := machine.Input{State: nox.Atom(uint64(i)), Event: nox.Atom(uint64(900 + i%100))}
		e := plain{limit: machine.MaxSteps}
		if _, end := e.run(in.Base(), p.Formula(in.Event)); end != (stop{}) {
			b.Fatal(end)
		}
		steps += e.used
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
}

// suspended is a state in the middle of a program.
func suspended(b *testing.B, i int) *machine.Machine {
	b.Helper()
	p, err := rune.Compile([]byte(summation))
	if err != nil {
		b.Fatal(err)
	}
	m, err := machine.Load(p, machine.Input{State: ones(40), Event: nox.Atom(uint64(1000 + i))}, machine.MaxSteps)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := m.Run(20); err != nil {
		b.Fatal(err)
	}
	return m
}

func BenchmarkCheckpoint(b *testing.B) {
	var states []*machine.Machine
	for i := range 64 {
		states = append(states, suspended(b, i))
	}
	for i := 0; b.Loop(); i++ {
		if _, err := states[i%len(states)].Checkpoint(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRestore(b *testing.B) {
	var states [][]byte
	for i := range 64 {
		c, err := suspended(b, i).Checkpoint()
		if err != nil {
			b.Fatal(err)
		}
		states = append(states, c)
	}
	b.SetBytes(int64(len(states[0])))
	for i := 0; b.Loop(); i++ {
		if _, err := machine.Restore(states[i%len(states)], machine.MaxSteps); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := rune.Compile([]byte(summation)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHostileSlice compares two large equal nouns that share nothing, as often as
// a slice of 1000 steps can: the most that steps can be made to cost.
func BenchmarkHostileSlice(b *testing.B) {
	distinct := func() nox.Noun {
		artifact, err := nox.Encode(tree(13))
		if err != nil {
			b.Fatal(err)
		}
		n, err := nox.Decode(artifact)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	p := compile(b, "loop { if ~mem == event { continue } else { 0 } }")
	for b.Loop() {
		m, err := machine.Load(p, machine.Input{State: distinct(), Event: distinct()}, machine.MaxSteps)
		if err != nil {
			b.Fatal(err)
		}
		if r, err := m.Run(1000); err != nil || r.Status != machine.Yielded {
			b.Fatal(r, err)
		}
	}
}
