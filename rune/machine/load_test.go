package machine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

func compile(t testing.TB, source string) *rune.Program {
	t.Helper()
	p, err := rune.Compile([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tree is a balanced tree of 2^depth ones.
func tree(depth int) nox.Noun {
	n := nox.Atom(1)
	for range depth {
		n = nox.Pair(n, n)
	}
	return n
}

func TestLimitsSpeakOfWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	deep := nox.Atom(1)
	for range 140 {
		deep = nox.Pair(deep, nox.Atom(0))
	}
	for _, one := range []struct {
		source string
		in     machine.Input
		kind   machine.Kind
		want   string
	}{
		{"event", machine.Input{Event: ones(140)}, machine.DepthLimit,
			"depth limit: the event: this list has 140 members; 116 fit: pass a particle, or a balanced tree"},
		{"event", machine.Input{State: ones(116)}, machine.DepthLimit,
			"depth limit: the state: this list has 116 members; 115 fit: pass a particle, or a balanced tree"},
		{"event", machine.Input{Event: deep}, machine.DepthLimit,
			"depth limit: the event: this noun is 140 levels deep; 116 fit: pass a particle, or a flatter tree"},
		{`"` + strings.Repeat("a", 130) + `"`, machine.Input{}, machine.DepthLimit,
			"depth limit: the program: its formula is 131 levels deep; 118 fit"},
		{"event", machine.Input{State: tree(14), Event: tree(14)}, machine.NodeLimit,
			"node limit: state, event and program have 65581 nodes (32767, 32767 and 3); at most 65536 fit: pass particles of what is large"},
	} {
		_, err := machine.Load(compile(t, one.source), one.in, 1000)
		if !errors.Is(err, one.kind) || !errors.Is(err, machine.ErrFault) || !strings.HasPrefix(err.Error(), one.want) {
			t.Errorf("got %v, want %s", err, one.want)
		}
	}
	for state, event := range map[int]int{115: 116, 0: 116} {
		if _, err := machine.Load(compile(t, "event"), machine.Input{State: ones(state), Event: ones(event)}, 1000); err != nil {
			t.Errorf("a state of %d and an event of %d members: %v", state, event, err)
		}
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	p := compile(t, "event")
	if err := machine.Fits(p, ones(115)); err != nil {
		t.Errorf("a list of 115 members: %v", err)
	}
	err := machine.Fits(p, ones(116))
	if f := (*machine.Fault)(nil); !errors.As(err, &f) || f.Text() != "runtime: state too large" {
		t.Errorf("a list of 116 members gives %v", err)
	}
}

func TestHereIsTheParticleOfTheContext(t *testing.T) {
	t.Parallel()
	here := hemera.Digest{0: 1, 8: 2, 16: 3, 31: 4}
	m, err := machine.Load(compile(t, "[~here ~mem ~world]"), machine.Input{State: nox.Atom(9), Here: &here}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(1000)
	if want := parseNoun(t, "[[[1 2] [3 288230376151711744]] 9 0]"); err != nil || !nox.Equal(r.Value, want) {
		t.Errorf("got %s, %v, want %s", r.Value, err, want)
	}
}

func TestLargeRepliesAreFaults(t *testing.T) {
	t.Parallel()
	for reply, kind := range map[nox.Noun]machine.Kind{
		ones(127): 0,
		ones(128): machine.DepthLimit,
		tree(14):  0,
		tree(15):  machine.NodeLimit,
	} {
		m, err := machine.Load(compile(t, "host(0)"), machine.Input{}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Run(1000); err != nil {
			t.Fatal(err)
		}
		used := m.Used()
		err = m.Resume(reply)
		if kind == 0 {
			if err != nil {
				t.Errorf("a reply of %d nodes, %d deep: %v", reply.Size(), reply.Depth(), err)
			}
			continue
		}
		if !errors.Is(err, kind) || m.Used() != used {
			t.Errorf("a reply of %d nodes, %d deep: %v after %d steps, want %v after %d", reply.Size(), reply.Depth(), err, m.Used(), kind, used)
		}
		if _, again := m.Run(1000); again != err {
			t.Errorf("the machine goes on with %v after the fault %v", again, err)
		}
	}
}

func TestCallersErrorsLeaveTheMachine(t *testing.T) {
	t.Parallel()
	m, err := machine.Load(compile(t, "host(event) + 1"), machine.Input{Event: nox.Atom(4)}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Resume(nox.Atom(1)); err != machine.ErrNotWaiting {
		t.Errorf("a reply before the act: %v", err)
	}
	if r, err := m.Run(1000); err != nil || r.Status != machine.Act {
		t.Fatal(r, err)
	}
	if _, err := m.Run(1000); err != machine.ErrWaiting {
		t.Errorf("a run before the reply: %v", err)
	}
	if tag, arguments, ok := m.Waiting(); !ok || tag != rune.TagHost || arguments != nox.Atom(4) {
		t.Errorf("waits for %d with %s: %v", tag, arguments, ok)
	}
	if err := m.Resume(nox.Atom(1)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a result stays
		if r, err := m.Run(1000); err != nil || r.Value != nox.Atom(2) {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	if _, err := machine.Start(nox.Atom(0), nox.Atom(0), machine.MaxSteps+1); !errors.Is(err, machine.ErrLimit) {
		t.Errorf("a limit above a million: %v", err)
	}
	if _, err := machine.Restore(nil, machine.MaxSteps+1); !errors.Is(err, machine.ErrLimit) {
		t.Errorf("a limit above a million: %v", err)
	}
}

func TestEval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"7":                       "7",
		`[1, "ab", 0x10]`:         "[1 [97 98 0] 16]",
		"{ let x = 3; [x x * x]}": "[3 9]",
		`""`:                      "0",
		`"é"`:                     "[195 169 0]",
		`["clock", 0]`:            "[[99 108 111 99 107 0] 0]",
		`head("ab")`:              "97",
		`"a" == [97, 0]`:          "0",
	} {
		if n, err := machine.Eval([]byte(text)); err != nil || !nox.Equal(n, parseNoun(t, want)) {
			t.Errorf("%s is %s, %v; want %s", text, n, err, want)
		}
	}
	for text, want := range map[string]error{
		"event":             rune.ErrSource,
		"~mem":              machine.Axis,
		"head(1)":           machine.Axis,
		"host(1)":           machine.ErrAct,
		"loop { continue }": machine.StepLimit,
	} {
		if n, err := machine.Eval([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s is %s, %v; want %v", text, n, err, want)
		}
	}
}

// TestPlacesAfterDecoding has two equal expressions: while the machine lives it knows
// which of them has failed, afterwards it names both.
func TestPlacesAfterDecoding(t *testing.T) {
	t.Parallel()
	p := compile(t, "let a = [1 2];\nif event == 0 { head(head(a)) } else {\n  head(head(a)) }")
	m, err := machine.Load(p, machine.Input{Event: nox.Atom(1)}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(1); err != nil {
		t.Fatal(err)
	}
	b, err := m.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := machine.Restore(b, 1000)
	if err != nil {
		t.Fatal(err)
	}
	restored.Trace(p.Map)
	_, err = m.Run(1000)
	if want := "axis at 3:3: head needs a part that is not there: axis 2 of the atom 1"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = restored.Run(1000)
	if f := (*machine.Fault)(nil); !errors.As(err, &f) || f.Kind != machine.Axis || len(f.Places) < 2 || f.Excerpt() != "" {
		t.Errorf("after decoding: %v", err)
	}
}
