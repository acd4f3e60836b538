package cell_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
)

type vectorHead struct {
	Index  uint64          `json:"index"`
	Commit record.Particle `json:"commit"`
}

func (h vectorHead) head() cell.Head { return cell.Head{Index: h.Index, Commit: h.Commit} }

type vectorOperation struct {
	Op          string           `json:"op"`
	As          string           `json:"as"`
	Source      string           `json:"source"`
	Initial     string           `json:"initial"`
	Nonce       string           `json:"nonce"`
	StepLimit   uint64           `json:"step_limit"`
	AllowedActs []string         `json:"allowed_acts"`
	Cell        string           `json:"cell"`
	Input       string           `json:"input"`
	Context     *record.Particle `json:"context"`
	Lifecycle   string           `json:"lifecycle"`
	Operation   record.Particle  `json:"operation"`
	Attempt     record.Particle  `json:"attempt"`
	Tag         string           `json:"tag"`
	Value       string           `json:"value"`
	Reason      string           `json:"reason"`
	Progress    string           `json:"progress"`
	State       string           `json:"state"`
	Head        *vectorHead      `json:"head"`
	Error       string           `json:"error"`
	Fault       string           `json:"fault"`
	Note        string           `json:"note"`
}

type scenario struct {
	Name       string            `json:"name"`
	Operations []vectorOperation `json:"operations"`
	Commits    []struct {
		Cell       string            `json:"cell"`
		Index      uint64            `json:"index"`
		Commit     record.Particle   `json:"commit"`
		Entry      string            `json:"entry"`
		Event      *record.Particle  `json:"event"`
		After      record.Particle   `json:"after"`
		Operations []record.Particle `json:"operations"`
	} `json:"commits"`
	Final []struct {
		Cell      string     `json:"cell"`
		Lifecycle string     `json:"lifecycle"`
		State     string     `json:"state"`
		Head      vectorHead `json:"head"`
		Live      bool       `json:"live"`
		Fault     *string    `json:"fault"`
	} `json:"final"`
	StoredItems int `json:"stored_items"`
	Writes      int `json:"writes"`
}

func scenarios(t testing.TB) []scenario {
	t.Helper()
	data, err := os.ReadFile("testdata/engine.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		List []scenario `json:"list"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.List) == 0 {
		t.Fatal("there are no vectors")
	}
	return v.List
}

func noun(t testing.TB, text string) nox.Noun {
	t.Helper()
	n, err := nox.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func nonce(t testing.TB, text string) (n [32]byte) {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil || copy(n[:], b) != len(n) {
		t.Fatalf("%q is no nonce", text)
	}
	return n
}

func number(t testing.TB, text string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func lifecycle(t testing.TB, text string) record.Lifecycle {
	t.Helper()
	for l := record.Installed; l <= record.Retired; l++ {
		if l.String() == text {
			return l
		}
	}
	t.Fatalf("%q is no lifecycle", text)
	return 0
}

// TestVectors runs the scenarios of the specification on one engine, and on a new
// engine for each operation, as if the process were started again each time.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range []string{"one engine", "an engine an operation"} {
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					s.run(t, kind != "one engine")
				})
			}
		})
	}
}

// run runs a scenario and returns what is stored.
func (s *scenario) run(t *testing.T, restart bool) (*celltest.Memory, map[string]record.Particle) {
	store := celltest.NewMemory()
	options := cell.Options{Ward: cell.LocalWard{}}
	engine := cell.New(store, options)
	cells := map[string]record.Particle{}
	refuse := false
	for i, o := range s.Operations {
		if o.Op == "" {
			refuse = refuse || o.Note == "the next tick commits the reservation, then the store refuses the settlement"
			continue
		}
		if restart {
			engine = cell.New(store, options)
		}
		if refuse {
			writes := 0
			store.Plan(func(c celltest.Call) celltest.Fault {
				if c == celltest.CallWrite {
					if writes++; writes == 2 {
						return celltest.Failed
					}
				}
				return celltest.None
			})
		}
		err := o.run(t, engine, cells)
		store.Plan(nil)
		refuse = false
		if code := cell.Code(err); code != o.Error {
			t.Fatalf("operation %d, %s: error %v, expected %q", i, o.Op, err, o.Error)
		}
		if o.Fault != "" && o.Op == "tick" {
			if v := inspect(t, engine, cells[o.Cell]); v.Fault != o.Fault {
				t.Errorf("operation %d, %s: fault %q, expected %q", i, o.Op, v.Fault, o.Fault)
			}
		}
	}
	s.compare(t, store, engine, cells)
	return store, cells
}

func inspect(t testing.TB, e *cell.Engine, c record.Particle) cell.View {
	t.Helper()
	v, err := e.Inspect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// run does an operation and compares what it answers, other than its error.
func (o *vectorOperation) run(t *testing.T, e *cell.Engine, cells map[string]record.Particle) error {
	t.Helper()
	ctx := t.Context()
	var head cell.Head
	var err error
	switch o.Op {
	case "create":
		b := cell.Birth{Source: []byte(o.Source), Initial: noun(t, o.Initial), Nonce: nonce(t, o.Nonce), StepLimit: o.StepLimit}
		for _, a := range o.AllowedActs {
			b.Acts = append(b.Acts, number(t, a))
		}
		var c record.Particle
		c, head, err = e.Create(ctx, b)
		if err == nil {
			if c.String() != o.Cell {
				t.Errorf("create: cell %v, expected %v", c, o.Cell)
			}
			cells[o.As] = c
		}
	case "manage":
		head, err = e.Manage(ctx, cells[o.Cell], lifecycle(t, o.Lifecycle))
	case "submit":
		head, err = e.Submit(ctx, cells[o.Cell], cell.Input{Nonce: nonce(t, o.Nonce), Noun: noun(t, o.Input), Context: o.Context})
	case "tick":
		var p cell.Progress
		p, err = e.Tick(ctx, cells[o.Cell])
		head = p.Head
		if err != nil {
			break
		}
		if p.Kind.String() != o.Progress || p.Operation != o.Operation {
			t.Errorf("tick: %v of operation %v, expected %s of %v", p.Kind, p.Operation, o.Progress, o.Operation)
		}
		if o.State != "" && p.State.String() != o.State {
			t.Errorf("tick: state %v, expected %s", p.State, o.State)
		}
		if o.Tag != "" && p.Tag != number(t, o.Tag) {
			t.Errorf("tick: tag %d, expected %s", p.Tag, o.Tag)
		}
	case "begin_attempt":
		var a cell.Attempt
		a, err = e.Begin(ctx, cells[o.Cell], o.Operation)
		if err == nil && (a.Attempt != o.Attempt || a.Operation != o.Operation) {
			t.Errorf("begin: attempt %v of %v, expected %v of %v", a.Attempt, a.Operation, o.Attempt, o.Operation)
		}
	case "record_outcome":
		head, err = e.Settle(ctx, cells[o.Cell], o.Operation, o.Attempt, noun(t, o.Value))
	case "record_failure":
		head, err = e.Fail(ctx, cells[o.Cell], o.Operation, o.Attempt, o.Reason)
	case "cancel":
		head, err = e.Cancel(ctx, cells[o.Cell])
	default:
		t.Fatalf("unknown operation %q", o.Op)
	}
	if o.Head != nil && head != o.Head.head() {
		t.Errorf("%s: head %v, expected %v (error %v)", o.Op, head, o.Head.head(), err)
	}
	return err
}

// compare compares all commits, the state of all cells, and the store.
func (s *scenario) compare(t *testing.T, store *celltest.Memory, e *cell.Engine, cells map[string]record.Particle) {
	seen := map[string]int{}
	for _, want := range s.Commits {
		c := cells[want.Cell]
		heads, err := store.History(t.Context(), c, want.Index, 1)
		if err != nil || len(heads) != 1 || heads[0] != (cell.Head{Index: want.Index, Commit: want.Commit}) {
			t.Fatalf("commit %d of %s: %v, error %v, expected %v", want.Index, want.Cell, heads, err, want.Commit)
		}
		seen[want.Cell]++
		r := record.NewReader(t.Context(), record.Local(), store, record.CellBudget)
		if want.Index == 0 {
			var birth record.Birth[record.Particle]
			if err := r.Record(want.Commit, &birth); err != nil || birth.InitialSnapshot != want.After {
				t.Errorf("birth of %s: snapshot %v, error %v, expected %v", want.Cell, birth.InitialSnapshot, err, want.After)
			}
			continue
		}
		var commit record.Commit[record.Particle]
		if err := r.Record(want.Commit, &commit); err != nil {
			t.Fatal(err)
		}
		if commit.After != want.After || !slices.Equal(commit.Operations, want.Operations) || !slices.Equal(commit.Events, []record.Particle{*want.Event}) {
			t.Errorf("commit %d of %s is %+v, expected %+v", want.Index, want.Cell, commit, want)
		}
		var event record.Event[record.Particle]
		if err := r.Record(commit.Events[0], &event); err != nil || event.Entry != want.Entry {
			t.Errorf("event of commit %d of %s: entry %q, error %v, expected %q", want.Index, want.Cell, event.Entry, err, want.Entry)
		}
	}
	for _, want := range s.Final {
		v := inspect(t, e, cells[want.Cell])
		fault := ""
		if want.Fault != nil {
			fault = *want.Fault
		}
		if v.Lifecycle.String() != want.Lifecycle || v.State.String() != want.State || v.Head != want.Head.head() ||
			(v.Input != nil) != want.Live || v.Fault != fault {
			t.Errorf("%s at the end: %+v, expected %+v, fault %q", want.Cell, v, want, fault)
		}
		if n := seen[want.Cell]; v.Head.Index+1 != uint64(n) {
			t.Errorf("%s has %d commits, expected %d", want.Cell, v.Head.Index+1, n)
		}
	}
	if items, writes := store.Len(); items != s.StoredItems || writes != s.Writes {
		t.Errorf("%d items in %d writes, expected %d in %d", items, writes, s.StoredItems, s.Writes)
	}
	if err := record.CheckAll(store.Items()); err != nil {
		t.Error(err)
	}
}

func TestErrorsHaveNames(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		cell.ErrMissing: "missing", cell.ErrConflict: "conflict", cell.ErrBusy: "busy", cell.ErrLifecycle: "lifecycle",
		cell.ErrDenied: "denied", cell.ErrUnknownOutcome: "unknown-outcome", cell.ErrBudget: "budget",
		cell.ErrUnsupported: "unsupported", cell.ErrRuntime: "runtime", cell.ErrInvalid: "invalid", cell.ErrSchema: "schema",
		cell.ErrLimit: "limit", cell.ErrCorrupt: "corrupt", cell.ErrCommitUnknown: "commit-unknown", cell.ErrStore: "store-failed",
		errors.New("anything else"): "store-failed",
	} {
		if got := cell.Code(err); got != want {
			t.Errorf("%v is called %q, expected %q", err, got, want)
		}
	}
	if got := cell.Code(nil); got != "" {
		t.Errorf("no error is called %q", got)
	}
}
