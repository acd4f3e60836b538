package cell_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
)

// everyScenario runs what is given on the outcome of each scenario.
func everyScenario(t *testing.T, fn func(t *testing.T, store *celltest.Memory, cells map[string]record.Particle)) {
	for _, s := range scenarios(t) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			store, cells := s.run(t, false)
			fn(t, store, cells)
		})
	}
}

// TestVerify makes sure that a walk from the heads reaches exactly what is stored and
// finds nothing wrong with it, and that it names whatever is damaged.
func TestVerify(t *testing.T) {
	t.Parallel()
	everyScenario(t, func(t *testing.T, store *celltest.Memory, cells map[string]record.Particle) {
		e := cell.New(store, cell.Options{})
		findings, v, err := e.Verify(t.Context(), nil)
		if len(findings) > 0 || err != nil || v.Cells != uint64(len(cells)) {
			t.Errorf("%v, %+v, %v", findings, v, err)
		}
		reached := map[record.Particle]bool{}
		if err := e.Reachable(t.Context(), func(p record.Particle) error {
			reached[p] = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		items := store.Items()
		if len(reached) != len(items) {
			t.Errorf("%d of %d items are reachable", len(reached), len(items))
		}
		for i := 0; i < len(items); i += 997 {
			p := items[i].Particle
			damaged := store.Clone()
			damaged.Damage(p, func(b []byte) { b[0] ^= 1 })
			findings, _, err := cell.New(damaged, cell.Options{}).Verify(t.Context(), nil)
			if err != nil || len(findings) == 0 || !errors.Is(findings[0].Err, cell.ErrCorrupt) || !strings.Contains(findings[0].Err.Error(), p.String()) {
				t.Errorf("damaged %v: %v, %v", p, findings, err)
			}
		}
	})
}

func TestReplay(t *testing.T) {
	t.Parallel()
	everyScenario(t, func(t *testing.T, store *celltest.Memory, cells map[string]record.Particle) {
		_, writes := store.Len()
		for name, c := range cells {
			last := uint64(0)
			got, err := cell.New(store, cell.Options{}).Replay(t.Context(), c, func(done, _ uint64) { last = done })
			if err != nil || got.Finding != nil || got.Commits != got.Head.Index+1 || last != got.Commits {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		if _, after := store.Len(); after != writes {
			t.Errorf("replaying has made %d writes", after-writes)
		}
	})
}

// TestReplayFindsForgery gives a cell a commit that has all the right hashes and
// nothing that leads to it.
func TestReplayFindsForgery(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := celltest.NewMemory()
	e := cell.New(store, cell.Options{})
	c, head := counter(t, e, "0", 1)
	state := noun(t, "1000")
	forged := forge(t, store, c, head, state)
	again := cell.New(store, cell.Options{})
	if findings, _, err := again.Verify(ctx, nil); len(findings) > 0 || err != nil {
		t.Errorf("the forged commit is well-formed, but: %v, %v", findings, err)
	}
	if v := inspect(t, again, c); v.State.String() != "1000" {
		t.Fatalf("state %v", v.State)
	}
	got, err := again.Replay(ctx, c, nil)
	if err != nil || got.Finding == nil || got.Finding.Index != forged.Index {
		t.Errorf("%+v, %v, expected a finding at commit %d", got, err, forged.Index)
	}
}

// counter makes a cell that adds what it is sent.
func counter(t testing.TB, e *cell.Engine, initial string, seed byte) (record.Particle, cell.Head) {
	t.Helper()
	c, head, err := e.Create(t.Context(), cell.Birth{
		Source: []byte("~mem + event"), Initial: noun(t, initial), Nonce: [32]byte{seed}, StepLimit: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, head
}

// send runs an input to its end.
func send(t testing.TB, e *cell.Engine, c record.Particle, seed byte, text string) cell.Head {
	t.Helper()
	if _, err := e.Submit(t.Context(), c, cell.Input{Nonce: [32]byte{seed, 1}, Noun: noun(t, text)}); err != nil {
		t.Fatal(err)
	}
	p, err := e.Tick(t.Context(), c)
	if err != nil || p.Kind != cell.Complete {
		t.Fatalf("%v, %v", p.Kind, err)
	}
	return p.Head
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	everyScenario(t, func(t *testing.T, store *celltest.Memory, cells map[string]record.Particle) {
		for _, c := range cells {
			var file bytes.Buffer
			commits, items, err := cell.New(store, cell.Options{}).Export(t.Context(), c, &file)
			if err != nil {
				t.Fatal(err)
			}
			other := celltest.NewMemory()
			e := cell.New(other, cell.Options{})
			got, head, err := e.Import(t.Context(), bytes.NewReader(file.Bytes()))
			if err != nil || got != c || head.Index+1 != commits {
				t.Fatalf("%v, %v, %v", got, head, err)
			}
			if n, _ := other.Len(); uint64(n) != items {
				t.Errorf("%d items, want %d", n, items)
			}
			if r, err := e.Replay(t.Context(), c, nil); err != nil || r.Finding != nil {
				t.Errorf("%+v, %v", r, err)
			}
			if want, got := inspect(t, cell.New(store, cell.Options{}), c), inspect(t, e, c); want.Head != got.Head || want.State.String() != got.State.String() {
				t.Errorf("%+v, want %+v", got, want)
			}
			if _, _, err := e.Import(t.Context(), bytes.NewReader(file.Bytes())); !errors.Is(err, cell.ErrConflict) {
				t.Errorf("the same again: %v", err)
			}
		}
	})
}

// TestImportGoesOn sends the imported cell the request that it knows, and a new one.
func TestImportGoesOn(t *testing.T) {
	t.Parallel()
	store := celltest.NewMemory()
	e := cell.New(store, cell.Options{})
	c, _ := counter(t, e, "5", 1)
	send(t, e, c, 1, "7")
	var file bytes.Buffer
	if _, _, err := e.Export(t.Context(), c, &file); err != nil {
		t.Fatal(err)
	}
	there := cell.New(celltest.NewMemory(), cell.Options{})
	if _, _, err := there.Import(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	again := cell.Input{Nonce: [32]byte{1, 1}, Noun: noun(t, "7")}
	if head, err := there.Submit(t.Context(), c, again); err != nil || head.Index != 2 {
		t.Errorf("the same request: %v, %v", head, err)
	}
	again.Noun = noun(t, "8")
	if _, err := there.Submit(t.Context(), c, again); !errors.Is(err, cell.ErrConflict) {
		t.Errorf("the same nonce for something else: %v", err)
	}
	send(t, there, c, 2, "30")
	if v := inspect(t, there, c); v.State.String() != "42" {
		t.Errorf("state %v", v.State)
	}
}

// TestImportRefuses flips bits all over an export, and cuts it there.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	e := cell.New(celltest.NewMemory(), cell.Options{})
	c, _ := counter(t, e, "0", 1)
	var file bytes.Buffer
	if _, _, err := e.Export(t.Context(), c, &file); err != nil {
		t.Fatal(err)
	}
	whole := file.Bytes()
	refuses := func(what string, i int, b []byte) {
		store := celltest.NewMemory()
		there := cell.New(store, cell.Options{})
		if _, _, err := there.Import(t.Context(), bytes.NewReader(b)); err == nil {
			t.Errorf("%s at %d is taken", what, i)
		}
		if list, err := store.Cells(t.Context(), record.Particle{}, 10); len(list) > 0 || err != nil {
			t.Errorf("%s at %d: %v, %v", what, i, list, err)
		}
	}
	for i := 0; i < len(whole); i += 991 { // a prime, so that every part of a frame is met
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		refuses("a flipped bit", i, b)
		refuses("a cut", i, whole[:i])
	}
	refuses("more", len(whole), append(bytes.Clone(whole), 0))
}

func FuzzImport(f *testing.F) {
	e := cell.New(celltest.NewMemory(), cell.Options{})
	c, _ := counter(f, e, "0", 1)
	var file bytes.Buffer
	if _, _, err := e.Export(f.Context(), c, &file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte("writ cell export 1\nC"))
	f.Fuzz(func(t *testing.T, b []byte) {
		store := celltest.NewMemory()
		there := cell.New(store, cell.Options{})
		got, _, err := there.Import(t.Context(), bytes.NewReader(b))
		if err != nil {
			return
		}
		if findings, _, err := there.Verify(t.Context(), nil); len(findings) > 0 || err != nil {
			t.Errorf("cell %v was taken: %v, %v", got, findings, err)
		}
	})
}

func TestFork(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := celltest.NewMemory()
	e := cell.New(store, cell.Options{})
	old, _ := counter(t, e, "40", 1)
	send(t, e, old, 1, "2")
	child, _, err := e.Fork(ctx, old, cell.Fork{
		Source: []byte("~mem * event"), Map: []byte("[event, 1]"), Nonce: [32]byte{9}, StepLimit: 500,
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := inspect(t, e, child); v.State.String() != "[42 1]" || v.Policy.StepLimit != 500 || v.Lifecycle != record.Active {
		t.Errorf("%+v", v)
	}
	var birth record.Birth[record.Particle]
	if err := record.NewReader(ctx, record.Local(), store, 1000).Record(child, &birth); err != nil || birth.Parent != record.Some(old) {
		t.Errorf("parent %+v, %v", birth.Parent, err)
	}
	if v := inspect(t, e, old); v.State.String() != "42" {
		t.Errorf("the old cell: %+v", v)
	}
	if r, err := e.Replay(ctx, child, nil); err != nil || r.Finding != nil {
		t.Errorf("%+v, %v", r, err)
	}
	for name, c := range map[string]struct {
		fork cell.Fork
		want error
	}{
		"a map that does not compile": {cell.Fork{Source: []byte("event"), Map: []byte("1 +"), StepLimit: 1}, cell.ErrRuntime},
		"a map that fails":            {cell.Fork{Source: []byte("event"), Map: []byte("head(event)"), StepLimit: 1}, cell.ErrRuntime},
		"a map that never ends":       {cell.Fork{Source: []byte("event"), Map: []byte("loop { continue }"), StepLimit: 1}, cell.ErrBudget},
		"a map that asks its host":    {cell.Fork{Source: []byte("event"), Map: []byte("host(1)"), StepLimit: 1}, cell.ErrRuntime},
		"no steps":                    {cell.Fork{Source: []byte("event")}, cell.ErrBudget},
	} {
		if _, _, err := e.Fork(ctx, old, c.fork); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := e.Submit(ctx, old, cell.Input{Nonce: [32]byte{77}, Noun: noun(t, "1")}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Fork(ctx, old, cell.Fork{Source: []byte("event"), StepLimit: 1}); !errors.Is(err, cell.ErrBusy) {
		t.Errorf("while it has an input: %v", err)
	}
}
