package machine_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// step is what a vector says of the initial state or of the end of a slice.
type step struct {
	State, Step     string
	Used            uint64
	Result          string
	Fault           string
	Tag, Arguments  string
	Frames, Values  *int
	Reply           string
	Blob            string `json:"checkpoint_blob"`
	Length          int    `json:"checkpoint_length"`
	Checkpoint      string
	CheckpointFault string `json:"checkpoint_fault"`
}

// vectors are those of the specification that concern the machine.
type vectors struct {
	Machine []struct {
		Name, Subject, Formula string
		Limit, Slice           uint64
		Steps                  []step
	}
	Invalid []struct {
		Name, Noun, Bytes string
		Limit             uint64
	} `json:"checkpoints_invalid"`
	Start []struct {
		Source, State, Event string
		Blob                 string `json:"checkpoint_blob"`
		Fault                string
	}
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func parseNoun(t testing.TB, text string) nox.Noun {
	t.Helper()
	n, err := nox.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// checkCheckpoint compares the checkpoint of m with what a vector says, and restores it.
func checkCheckpoint(t *testing.T, m *machine.Machine, want step) {
	t.Helper()
	got, err := m.Checkpoint()
	if want.CheckpointFault != "" {
		if f := (*machine.Fault)(nil); !errors.As(err, &f) || f.Kind.String() != want.CheckpointFault {
			t.Errorf("after %d steps the checkpoint gives %v, want the fault %s", m.Used(), err, want.CheckpointFault)
		}
		return
	}
	if err != nil {
		t.Fatalf("after %d steps the checkpoint gives %v", m.Used(), err)
	}
	if len(got) != want.Length || hemera.Sum(got).String() != want.Blob {
		t.Errorf("after %d steps the checkpoint has %d bytes and the identity %s, want %d and %s", m.Used(), len(got), hemera.Sum(got), want.Length, want.Blob)
	}
	if want.Checkpoint != "" && hex.EncodeToString(got) != want.Checkpoint {
		t.Errorf("after %d steps the checkpoint is\n%x, want\n%s", m.Used(), got, want.Checkpoint)
	}
	again, err := machine.Restore(got, m.Limit())
	if err != nil {
		t.Fatalf("after %d steps: %v", m.Used(), err)
	}
	if b, err := again.Checkpoint(); err != nil || !bytes.Equal(b, got) {
		t.Errorf("after %d steps the checkpoint differs once it is restored: %v", m.Used(), err)
	}
}

func TestMachineVectors(t *testing.T) {
	t.Parallel()
	all := readVectors(t).Machine
	if len(all) != 45 {
		t.Fatalf("%d vectors", len(all))
	}
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			m, err := machine.Start(parseNoun(t, v.Subject), parseNoun(t, v.Formula), v.Limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range v.Steps {
				if want.State == "initial" {
					checkCheckpoint(t, m, want)
					continue
				}
				r, err := m.Run(v.Slice)
				if m.Used() != want.Used {
					t.Errorf("used %d steps, want %d", m.Used(), want.Used)
				}
				if want.Step == "fault" {
					if f := (*machine.Fault)(nil); !errors.As(err, &f) || f.Kind.String() != want.Fault || f.Text() != "runtime: "+want.Fault {
						t.Errorf("ended with %v, want the fault %s", err, want.Fault)
					}
					continue
				}
				if err != nil || r.Status.String() != want.Step {
					t.Fatalf("ended with %v, %v; want %s", r.Status, err, want.Step)
				}
				switch r.Status {
				case machine.Done:
					if w := parseNoun(t, want.Result); !nox.Equal(r.Value, w) {
						t.Errorf("the result is %s, want %s", r.Value, w)
					}
				case machine.Act, machine.Event:
					tag, err := strconv.ParseUint(want.Tag, 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					if r.Tag != tag || !nox.Equal(r.Arguments, parseNoun(t, want.Arguments)) {
						t.Errorf("asks for %d with %s, want %d with %s", r.Tag, r.Arguments, tag, want.Arguments)
					}
					if want.Frames != nil && (m.Frames() != *want.Frames || m.Values() != *want.Values) {
						t.Errorf("%d frames and %d values are kept, want %d and %d", m.Frames(), m.Values(), *want.Frames, *want.Values)
					}
				}
				if want.Blob != "" || want.CheckpointFault != "" {
					checkCheckpoint(t, m, want)
				}
				if want.Reply != "" {
					if err := m.Resume(parseNoun(t, want.Reply)); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func TestInvalidCheckpointVectors(t *testing.T) {
	t.Parallel()
	all := readVectors(t).Invalid
	if len(all) != 13 {
		t.Fatalf("%d vectors", len(all))
	}
	for _, v := range all {
		b, err := hex.DecodeString(v.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := nox.Encode(parseNoun(t, v.Noun)); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%s: the noun is encoded as %x, %v", v.Name, want, err)
		}
		if m, err := machine.Restore(b, v.Limit); !errors.Is(err, machine.BadCheckpoint) {
			t.Errorf("%s: restored as %v, %v", v.Name, m, err)
		}
	}
}

// ones is the proper list of n ones.
func ones(n int) nox.Noun {
	l := nox.Atom(0)
	for range n {
		l = nox.Pair(nox.Atom(1), l)
	}
	return l
}

func TestStartVectors(t *testing.T) {
	t.Parallel()
	all := readVectors(t).Start
	if len(all) != 6 {
		t.Fatalf("%d vectors", len(all))
	}
	sources := map[string]string{
		"event":                            "event",
		`"let v = 0; " 38 times, then "v"`: strings.Repeat("let v = 0; ", 38) + "v",
		`"let v = 0; " 39 times, then "v"`: strings.Repeat("let v = 0; ", 39) + "v",
	}
	nouns := map[string]nox.Noun{
		"":                        nox.Atom(0),
		"proper list of 115 ones": ones(115),
		"proper list of 116 ones": ones(116),
		"proper list of 117 ones": ones(117),
	}
	for _, v := range all {
		source, known := sources[v.Source]
		state, knownState := nouns[v.State]
		event, knownEvent := nouns[v.Event]
		if !known || !knownState || !knownEvent {
			t.Fatalf("unknown vector %+v", v)
		}
		p, err := rune.Compile([]byte(source))
		if err != nil {
			t.Fatal(err)
		}
		m, err := machine.Load(p, machine.Input{State: state, Event: event}, 1000)
		if v.Fault != "" {
			if f := (*machine.Fault)(nil); !errors.As(err, &f) || f.Kind.String() != v.Fault {
				t.Errorf("%+v: got %v", v, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", v, err)
			continue
		}
		if b, err := m.Checkpoint(); err != nil || hemera.Sum(b).String() != v.Blob {
			t.Errorf("%+v: the checkpoint is %s, %v", v, hemera.Sum(b), err)
		}
	}
}
