package cell_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

type (
	part  = record.Particle
	node  = record.Node
	taken struct { // what the head of a cell has
		commit       record.Commit[part]
		snapshot     record.Snapshot[part]
		continuation record.Continuation[part]
		entry        record.OutboxEntry[part]
		operation    record.Operation[part]
		policy       record.LocalPolicy[part]
	}
)

func take(t testing.TB, store cell.Store, c part) (x taken) {
	t.Helper()
	head, err := store.Head(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r := record.NewReader(t.Context(), record.Local(), store, record.CellBudget)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.Record(head.Commit, &x.commit))
	must(r.Record(x.commit.After, &x.snapshot))
	must(r.Record(x.snapshot.AuthorityPolicy, &x.policy))
	m, err := r.Map(x.snapshot.Continuations, 1)
	must(err)
	if len(m) == 1 {
		must(r.Record(m[0].Key, &x.continuation))
	}
	m, err = r.Map(x.snapshot.Outbox, 1)
	must(err)
	if len(m) == 1 {
		must(r.Record(m[0].Value, &x.entry))
		must(r.Record(x.entry.Operation, &x.operation))
	}
	return x
}

// forgery builds what an attacker with the store would put there.
type forgery struct {
	*record.Builder
	taken
	s record.Snapshot[node]
	c record.Commit[node]
}

func (f *forgery) opt(o record.Optional[part]) record.Optional[node] {
	if !o.Present {
		return record.Optional[node]{}
	}
	return record.Some(f.Known(o.Link))
}

// live puts a changed continuation into the snapshot.
func (f *forgery) live(change func(*record.Continuation[node])) {
	x := f.continuation
	c := record.Continuation[node]{
		Definition: f.Known(x.Definition), Runtime: f.Known(x.Runtime), CheckpointSchema: f.Known(x.CheckpointSchema),
		Checkpoint: f.Known(x.Checkpoint), Trigger: record.Trigger[node]{Operation: f.opt(x.Trigger.Operation)},
		BaseHead: f.Known(x.BaseHead), Invocation: f.Known(x.Invocation), Context: f.opt(x.Context), ResourcesUsed: f.Known(x.ResourcesUsed),
	}
	change(&c)
	n := f.Record(&c)
	f.s.Continuations = f.Map(record.MapEntry[node]{Key: n, Value: n})
}

// act puts a changed entry into the outbox.
func (f *forgery) act(change func(*record.OutboxEntry[node])) {
	o := record.OutboxEntry[node]{
		Operation: f.Known(f.entry.Operation), Stage: f.entry.Stage, Outcome: f.opt(f.entry.Outcome), ConsumedBy: f.opt(f.entry.ConsumedBy),
	}
	for _, a := range f.entry.Attempts {
		o.Attempts = append(o.Attempts, f.Known(a))
	}
	change(&o)
	f.s.Outbox = f.Map(record.MapEntry[node]{Key: f.Known(f.operation.ID), Value: f.Record(&o)})
}

func (f *forgery) noun(n nox.Noun) node {
	b, err := nox.Encode(n)
	if err != nil {
		panic(err)
	}
	return f.Artifact(b, cell.NounMedia)
}

// tamper makes a forged commit the head of a cell.
func tamper(t testing.TB, store *celltest.Memory, c part, change func(*forgery)) {
	t.Helper()
	head, err := store.Head(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	f := &forgery{Builder: record.NewMemo(record.Local()).Builder(), taken: take(t, store, c)}
	s := f.snapshot
	f.s = record.Snapshot[node]{
		Definition: f.Known(s.Definition), ApplicationState: f.Known(s.ApplicationState), Lifecycle: s.Lifecycle,
		AuthorityPolicy: f.Known(s.AuthorityPolicy), Profile: f.Known(s.Profile), Inbox: f.Known(s.Inbox),
		Continuations: f.Known(s.Continuations), Outbox: f.Known(s.Outbox), Subscriptions: f.Map(), Management: f.Map(),
	}
	f.c = record.Commit[node]{
		Cell: f.Known(c), Index: head.Index, Previous: f.Known(f.commit.Previous), Before: f.Known(f.commit.Before),
		Events: []node{f.Known(f.commit.Events[0])}, Authority: f.Known(s.AuthorityPolicy),
	}
	change(f)
	if f.c.After == 0 {
		f.c.After = f.Record(&f.s)
	}
	n := f.Record(&f.c)
	if err := f.Seal(); err != nil {
		t.Fatal(err)
	}
	store.Rebase(c, cell.Head{Index: head.Index, Commit: f.Particle(n)}, f.Items()...)
}

// suspended are two cells of one store: the first waits for the outcome of an attempt,
// the second was admitted an input.
func suspended(t *testing.T) (store *celltest.Memory, waiting, admitted part) {
	t.Helper()
	store = celltest.NewMemory()
	e := cell.New(store, cell.Options{Ward: cell.LocalWard{}})
	waiting = create(t, e, "let got = host([event 1]); ~mem + got", "10", 5000, rune.TagHost)
	submit(t, e, waiting, 1, "7")
	tick(t, e, waiting, cell.Advanced)
	if _, err := e.Begin(t.Context(), waiting, tick(t, e, waiting, cell.Awaiting).Operation); err != nil {
		t.Fatal(err)
	}
	admitted = create(t, e, "~mem + event", "3", 5000)
	submit(t, e, admitted, 2, "4")
	return store, waiting, admitted
}

// TestForgedHeads has heads of well-formed content that does not belong together.
func TestForgedHeads(t *testing.T) {
	t.Parallel()
	original, waiting, admitted := suspended(t)
	other := take(t, original, admitted)
	for _, test := range []struct {
		name   string
		change func(*forgery)
		code   string
	}{
		{"the same again", func(*forgery) {}, ""},
		{"the commit of another cell", func(f *forgery) { f.c.Cell = f.Known(admitted) }, "conflict"},
		{"a commit of another index", func(f *forgery) { f.c.Index++ }, "conflict"},
		{"a policy as snapshot", func(f *forgery) { f.c.After = f.Known(f.snapshot.AuthorityPolicy) }, "schema"},
		{"a definition as profile", func(f *forgery) { f.s.Profile = f.s.Definition }, "unsupported"},
		{"a definition as policy", func(f *forgery) { f.s.AuthorityPolicy = f.s.Definition }, "schema"},
		{"a policy as state", func(f *forgery) { f.s.ApplicationState = f.s.AuthorityPolicy }, "schema"},
		{"a checkpoint schema as state", func(f *forgery) { f.s.ApplicationState = f.Manifest(record.Checkpoint) }, "invalid"},
		{"a text as state", func(f *forgery) { f.s.ApplicationState = f.Artifact([]byte("ten"), cell.NounMedia) }, "invalid"},
		{"a state of another codec", func(f *forgery) {
			f.s.ApplicationState = f.Record(&record.Artifact[node]{Content: f.Blob(make([]byte, 9)), Codec: f.Label("none"), ByteLength: 9})
		}, "schema"},
		{"a state of another length", func(f *forgery) {
			f.s.ApplicationState = f.Record(&record.Artifact[node]{Content: f.Blob(make([]byte, 9)), Codec: f.Label(record.Codec), ByteLength: 8})
		}, "invalid"},
		{"inbox and continuations swapped", func(f *forgery) { f.s.Inbox, f.s.Continuations = f.s.Continuations, f.s.Inbox }, "invalid"},
		{"inbox and outbox swapped", func(f *forgery) { f.s.Inbox, f.s.Outbox = f.s.Outbox, f.s.Inbox }, "invalid"},
		{"continuations and outbox swapped", func(f *forgery) { f.s.Continuations, f.s.Outbox = f.s.Outbox, f.s.Continuations }, "invalid"},
		{"a record as map", func(f *forgery) { f.s.Continuations = f.s.Definition }, "invalid"},
		{"no inbox", func(f *forgery) { f.s.Inbox = f.Map() }, "invalid"},
		{"no continuation", func(f *forgery) { f.s.Continuations = f.Map() }, "invalid"},
		{"no outbox", func(f *forgery) { f.s.Outbox = f.Map() }, "invalid"},
		{"the continuation of another cell", func(f *forgery) { f.s.Continuations = f.Known(other.snapshot.Continuations) }, "invalid"},
		{"continuation and inbox of another cell", func(f *forgery) {
			f.s.Continuations, f.s.Inbox, f.s.Outbox = f.Known(other.snapshot.Continuations), f.Known(other.snapshot.Inbox), f.Map()
		}, "invalid"},
		{"two continuations", func(f *forgery) {
			a, b := f.Known(f.continuation.Checkpoint), f.Known(f.snapshot.Definition)
			f.s.Continuations = f.Map(record.MapEntry[node]{Key: a, Value: a}, record.MapEntry[node]{Key: b, Value: b})
		}, "invalid"},
		{"a continuation under another name", func(f *forgery) {
			f.s.Continuations = f.Map(record.MapEntry[node]{Key: f.s.Definition, Value: f.Known(f.continuation.Checkpoint)})
		}, "invalid"},
		{"another machine", func(f *forgery) {
			f.live(func(c *record.Continuation[node]) { c.Runtime = f.Label("rune/unbounded-machine/1") })
		}, "unsupported"},
		{"another definition", func(f *forgery) {
			f.live(func(c *record.Continuation[node]) { c.Definition = f.Known(other.snapshot.Definition) })
		}, "invalid"},
		{"another context", func(f *forgery) {
			f.live(func(c *record.Continuation[node]) { c.Context = record.Some(f.Known(admitted)) })
		}, "invalid"},
		{"another trigger", func(f *forgery) {
			f.live(func(c *record.Continuation[node]) { c.Trigger = record.Trigger[node]{} })
		}, "invalid"},
		{"fewer steps charged than used", func(f *forgery) {
			f.live(func(c *record.Continuation[node]) {
				c.ResourcesUsed = f.Record(&record.LocalResources[node]{Charged: 3, CheckpointUsed: 15, Limit: 5000})
			})
		}, "invalid"},
		{"a wider limit", func(f *forgery) {
			f.live(func(c *record.Continuation[node]) {
				c.ResourcesUsed = f.Record(&record.LocalResources[node]{Charged: 15, CheckpointUsed: 15, Limit: 1_000_000})
			})
		}, "invalid"},
		{"more steps reserved than a slice", func(f *forgery) {
			f.live(func(c *record.Continuation[node]) {
				c.ResourcesUsed = f.Record(&record.LocalResources[node]{Charged: 15, Reserved: 1001, CheckpointUsed: 15, Limit: 5000})
			})
		}, "invalid"},
		{"more steps charged than there are", func(f *forgery) {
			f.live(func(c *record.Continuation[node]) {
				c.ResourcesUsed = f.Record(&record.LocalResources[node]{Charged: 1<<64 - 1, CheckpointUsed: 15, Limit: 5000})
			})
		}, "invalid"},
		{"a pending act with an attempt", func(f *forgery) {
			f.act(func(o *record.OutboxEntry[node]) { o.Stage = record.Pending })
		}, "invalid"},
		{"an attempt that is not there", func(f *forgery) {
			f.act(func(o *record.OutboxEntry[node]) { o.Attempts = nil })
		}, "invalid"},
		{"an attempt that is an operation", func(f *forgery) {
			f.act(func(o *record.OutboxEntry[node]) { o.Attempts = []node{o.Operation} })
		}, "schema"},
		{"a resolved act without an outcome", func(f *forgery) {
			f.act(func(o *record.OutboxEntry[node]) { o.Stage = record.Resolved })
		}, "invalid"},
		{"an outcome of another attempt", func(f *forgery) {
			f.act(func(o *record.OutboxEntry[node]) {
				o.Stage = record.Resolved
				o.Outcome = record.Some(f.Record(&record.Outcome[node]{
					Operation: f.Known(f.operation.ID), Attempt: f.Known(f.operation.ID), Disposition: record.Succeeded,
					Value: record.Some(f.noun(nox.Atom(1))),
				}))
			})
		}, "invalid"},
		{"the operation under another name", func(f *forgery) {
			n := f.Known(f.operation.Arguments)
			f.s.Outbox = f.Map(record.MapEntry[node]{Key: n, Value: n})
			f.live(func(c *record.Continuation[node]) { c.Trigger = record.Trigger[node]{Operation: record.Some(n)} })
		}, "schema"},
		{"something that is not there", func(f *forgery) { f.s.ApplicationState = f.Known(part{1}) }, "missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := original.Clone()
			tamper(t, store, waiting, test.change)
			_, writes := store.Len()
			e := cell.New(store, cell.Options{Ward: cell.LocalWard{}})
			for verb, do := range map[string]func() error{
				"inspect": func() error { _, err := e.Inspect(t.Context(), waiting); return err },
				"tick":    func() error { _, err := e.Tick(t.Context(), waiting); return err },
			} {
				if err := do(); cell.Code(err) != test.code {
					t.Errorf("%s: %v, expected %q", verb, err, test.code)
				}
			}
			if _, after := store.Len(); after != writes {
				t.Errorf("%d writes", after-writes)
			}
		})
	}
}

// TestWiderPolicy has a snapshot that grants an act.
func TestWiderPolicy(t *testing.T) {
	t.Parallel()
	store := celltest.NewMemory()
	e := cell.New(store, cell.Options{Ward: cell.LocalWard{}})
	c := create(t, e, "host(event)", "0", 100)
	submit(t, e, c, 1, "7")
	tick(t, e, c, cell.Advanced)
	operation := tick(t, e, c, cell.Awaiting).Operation
	widen := func(f *forgery) {
		f.s.AuthorityPolicy = f.Record(&record.LocalPolicy[node]{Owner: f.Known(f.policy.Owner), StepLimit: 100, AllowedActs: []uint64{rune.TagHost}})
	}
	tamper(t, store, c, widen)
	e = cell.New(store, cell.Options{Ward: cell.LocalWard{}})
	if _, err := e.Begin(t.Context(), c, operation); !errors.Is(err, cell.ErrInvalid) {
		t.Errorf("begin: %v, expected %v", err, cell.ErrInvalid)
	}
	idle := create(t, e, "event", "0", 100)
	tamper(t, store, idle, widen)
	e = cell.New(store, cell.Options{Ward: cell.LocalWard{}})
	if _, err := e.Submit(t.Context(), idle, cell.Input{}); !errors.Is(err, cell.ErrInvalid) {
		t.Errorf("submit: %v, expected %v", err, cell.ErrInvalid)
	}
}

// TestForeignCheckpoints has checkpoints that are sound and not those of the cell.
func TestForeignCheckpoints(t *testing.T) {
	t.Parallel()
	original, waiting, admitted := suspended(t)
	foreign := take(t, original, waiting).continuation.Checkpoint // it has used 15 steps and waits
	for name, checkpoint := range map[string]func(*forgery) node{
		"of another cell": func(f *forgery) node { return f.Known(foreign) },
		"no checkpoint":   func(f *forgery) node { return f.noun(nox.Atom(7)) },
		"of no noun":      func(f *forgery) node { return f.Artifact([]byte{2}, cell.CheckpointMedia) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := original.Clone()
			tamper(t, store, admitted, func(f *forgery) {
				f.live(func(c *record.Continuation[node]) { c.Checkpoint = checkpoint(f) })
			})
			e := cell.New(store, cell.Options{Ward: cell.LocalWard{}})
			if _, err := e.Tick(t.Context(), admitted); !errors.Is(err, cell.ErrRuntime) {
				t.Fatalf("%v, expected %v", err, cell.ErrRuntime)
			}
			v := inspect(t, e, admitted)
			if v.Fault != "runtime: bad checkpoint" || v.Input != nil || v.State.String() != "3" {
				t.Errorf("%+v", v)
			}
			list, err := e.Log(t.Context(), admitted, v.Head.Index, 1)
			if err != nil || list[0].Operations[0].Resources.Charged != 1000 {
				t.Errorf("the slice was not charged: %+v, error %v", list, err)
			}
		})
	}
}

// TestDamage flips a bit of each piece of content that a cell is read from.
func TestDamage(t *testing.T) {
	t.Parallel()
	original, c, _ := suspended(t)
	var read []part
	seen := map[part]bool{}
	e := cell.New(watcher{original, func(p part) {
		if !seen[p] {
			seen[p] = true
			read = append(read, p)
		}
	}}, cell.Options{})
	want := inspect(t, e, c)
	if len(read) < 100 {
		t.Fatalf("only %d pieces were read", len(read))
	}
	for i, p := range read {
		store := original.Clone()
		store.Damage(p, func(b []byte) { b[i%len(b)] ^= 1 << (i % 8) })
		e := cell.New(store, cell.Options{Ward: cell.LocalWard{}})
		_, err := e.Tick(t.Context(), c)
		if !errors.Is(err, cell.ErrCorrupt) || !strings.Contains(err.Error(), p.String()) {
			t.Fatalf("content %v with another bit: %v", p, err)
		}
		if head, err := store.Head(t.Context(), c); err != nil || head != want.Head {
			t.Fatalf("head %v, error %v", head, err)
		}
	}
}

// watcher tells what is read from a store.
type watcher struct {
	cell.Store
	read func(part)
}

func (w watcher) Content(ctx context.Context, p part) (record.Kind, []byte, error) {
	w.read(p)
	return w.Store.Content(ctx, p)
}

// TestEventsAreUnsupported has a checkpoint of a formula that no source compiles to.
func TestEventsAreUnsupported(t *testing.T) {
	t.Parallel()
	store, _, c := suspended(t)
	m, err := machine.Start(nox.Atom(0), noun(t, "[16 [[77 [1 5]] [0 2]]]"), 5000)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := m.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	tamper(t, store, c, func(f *forgery) {
		f.live(func(c *record.Continuation[node]) { c.Checkpoint = f.Artifact(checkpoint, cell.CheckpointMedia) })
	})
	e := cell.New(store, cell.Options{Ward: cell.LocalWard{}})
	if _, err := e.Tick(t.Context(), c); !errors.Is(err, cell.ErrUnsupported) {
		t.Fatalf("%v, expected %v", err, cell.ErrUnsupported)
	}
	v := inspect(t, e, c)
	if v.Fault != "event subscriptions are unsupported by this local adapter" || v.Input != nil {
		t.Errorf("%+v", v)
	}
	log, err := e.Log(t.Context(), c, v.Head.Index, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r := log[0].Operations[0].Resources; r.Charged != 3 || r.CheckpointUsed != 3 {
		t.Errorf("resources %+v, expected 3 steps", r)
	}
}

// TestAttemptsOfTwoEngines has two engines that know the same about a pending act.
func TestAttemptsOfTwoEngines(t *testing.T) {
	t.Parallel()
	store := celltest.NewMemory()
	e := cell.New(store, cell.Options{Ward: cell.LocalWard{}})
	c := create(t, e, "host(event)", "0", 100, rune.TagHost)
	submit(t, e, c, 1, "7")
	tick(t, e, c, cell.Advanced)
	operation := tick(t, e, c, cell.Awaiting).Operation
	handed := 0
	engines := []*cell.Engine{cell.New(store, cell.Options{Ward: cell.LocalWard{}}), cell.New(store, cell.Options{Ward: cell.LocalWard{}})}
	for _, e := range engines {
		inspect(t, e, c)
	}
	for _, e := range engines {
		if _, err := e.Begin(t.Context(), c, operation); err == nil {
			handed++
		} else if !errors.Is(err, cell.ErrConflict) {
			t.Errorf("%v, expected %v", err, cell.ErrConflict)
		}
	}
	if handed != 1 {
		t.Errorf("the attempt was handed out %d times", handed)
	}
}

// TestConflictsAreReadAgain has a head that moves behind the back of an engine.
func TestConflictsAreReadAgain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := celltest.NewMemory()
	e, other := cell.New(store, cell.Options{}), cell.New(store, cell.Options{})
	c := create(t, e, "~mem + event", "0", 100)
	submit(t, other, c, 1, "7")
	if _, err := e.Manage(ctx, c, record.Paused); !errors.Is(err, cell.ErrConflict) {
		t.Fatalf("%v, expected %v", err, cell.ErrConflict)
	}
	if p := tick(t, e, c, cell.Complete); p.State.String() != "7" {
		t.Errorf("state %v, expected 7", p.State)
	}
}

func TestNoncesAreUsedOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e := cell.New(celltest.NewMemory(), cell.Options{})
	a, b := create(t, e, "event", "0", 100), create(t, e, "[event event]", "0", 100)
	first := submit(t, e, a, 1, "7")
	for name, in := range map[string]struct {
		cell part
		in   cell.Input
	}{
		"another noun":               {a, cell.Input{Nonce: nth(1), Noun: noun(t, "8")}},
		"a context":                  {a, cell.Input{Nonce: nth(1), Noun: noun(t, "7"), Context: &a}},
		"another noun and context":   {a, cell.Input{Nonce: nth(1), Noun: noun(t, "[1 2]"), Context: &b}},
		"another cell":               {b, cell.Input{Nonce: nth(1), Noun: noun(t, "7")}},
		"another cell, another noun": {b, cell.Input{Nonce: nth(1), Noun: noun(t, "9")}},
	} {
		if _, err := e.Submit(ctx, in.cell, in.in); !errors.Is(err, cell.ErrConflict) {
			t.Errorf("the nonce again with %s: %v, expected %v", name, err, cell.ErrConflict)
		}
	}
	tick(t, e, a, cell.Complete)
	if _, err := e.Manage(ctx, a, record.Retiring); err != nil {
		t.Fatal(err)
	}
	if head := submit(t, e, a, 1, "7"); head != first {
		t.Errorf("the input again is answered with %v, expected %v", head, first)
	}
	if _, err := e.Submit(ctx, a, cell.Input{Nonce: nth(1), Noun: noun(t, "8")}); !errors.Is(err, cell.ErrConflict) {
		t.Errorf("another input with its nonce: %v", err)
	}
	if _, err := e.Submit(ctx, b, cell.Input{Nonce: nth(2), Context: &part{1}}); !errors.Is(err, cell.ErrMissing) {
		t.Errorf("a context that is not stored: %v", err)
	}
}

// wards of tests.
type wardFunc func(cell.Question) (bool, error)

func (w wardFunc) Allows(_ context.Context, q cell.Question) (bool, error) { return w(q) }

func TestActsNeedAWard(t *testing.T) {
	t.Parallel()
	broken := errors.New("the ward is broken")
	for _, test := range []struct {
		name string
		ward cell.Ward
		acts []uint64
		want error
	}{
		{"no ward", nil, []uint64{rune.TagHost}, cell.ErrDenied},
		{"the local ward and a policy without acts", cell.LocalWard{}, nil, cell.ErrDenied},
		{"the local ward and another act", cell.LocalWard{}, []uint64{rune.TagEmit, rune.TagQuery}, cell.ErrDenied},
		{"the local ward and the act", cell.LocalWard{}, []uint64{rune.TagEmit, rune.TagHost}, nil},
		{"a ward that fails", wardFunc(func(cell.Question) (bool, error) { return true, broken }), []uint64{rune.TagHost}, broken},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := celltest.NewMemory()
			e := cell.New(store, cell.Options{Ward: test.ward})
			c := create(t, e, "host(event)", "0", 100, test.acts...)
			submit(t, e, c, 1, "7")
			tick(t, e, c, cell.Advanced)
			p := tick(t, e, c, cell.Awaiting)
			_, before := store.Len()
			if _, err := e.Begin(t.Context(), c, p.Operation); !errors.Is(err, test.want) {
				t.Fatalf("%v, expected %v", err, test.want)
			}
			stage, records := record.Pending, 1
			switch test.want {
			case nil:
				stage = record.AttemptRecorded
			case broken:
				records = 0
			}
			if v := inspect(t, e, c); v.Input.Act.Stage != stage {
				t.Errorf("the act is %v, expected %v", v.Input.Act.Stage, stage)
			}
			if _, after := store.Len(); after-before != records {
				t.Errorf("%d commits, expected %d", after-before, records)
			}
		})
	}
}

// TestOutcomesNeedTheAttempt settles what was not attempted.
func TestOutcomesNeedTheAttempt(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e := cell.New(celltest.NewMemory(), cell.Options{Ward: cell.LocalWard{}})
	c := create(t, e, "host(event)", "0", 100, rune.TagHost)
	if _, err := e.Settle(ctx, c, part{1}, part{2}, nox.Atom(0)); !errors.Is(err, cell.ErrMissing) {
		t.Errorf("no input: %v", err)
	}
	submit(t, e, c, 1, "7")
	tick(t, e, c, cell.Advanced)
	p := tick(t, e, c, cell.Awaiting)
	if _, err := e.Settle(ctx, c, p.Operation, part{2}, nox.Atom(0)); !errors.Is(err, cell.ErrConflict) {
		t.Errorf("no attempt: %v", err)
	}
	if _, err := e.Begin(ctx, c, part{1}); !errors.Is(err, cell.ErrConflict) {
		t.Errorf("another operation: %v", err)
	}
	a, err := e.Begin(ctx, c, p.Operation)
	if err != nil {
		t.Fatal(err)
	}
	deep := nox.Atom(0)
	for range machine.MaxDepth + 1 {
		deep = nox.Pair(nox.Atom(0), deep)
	}
	for name, test := range map[string]struct {
		err  error
		want error
	}{
		"another attempt":       {second(e.Settle(ctx, c, p.Operation, part{2}, nox.Atom(0))), cell.ErrConflict},
		"another operation":     {second(e.Settle(ctx, c, part{1}, a.Attempt, nox.Atom(0))), cell.ErrConflict},
		"a value too deep":      {second(e.Settle(ctx, c, p.Operation, a.Attempt, deep)), cell.ErrRuntime},
		"a reason too long":     {second(e.Fail(ctx, c, p.Operation, a.Attempt, strings.Repeat("x", cell.MaxReason+1))), cell.ErrBudget},
		"cancelling":            {second(e.Cancel(ctx, c)), cell.ErrUnknownOutcome},
		"another attempt of it": {second2(e.Begin(ctx, c, p.Operation)), cell.ErrUnknownOutcome},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, expected %v", name, test.err, test.want)
		}
	}
	if _, err := e.Fail(ctx, c, p.Operation, a.Attempt, strings.Repeat("x", cell.MaxReason)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Settle(ctx, c, p.Operation, a.Attempt, nox.Atom(0)); !errors.Is(err, cell.ErrConflict) {
		t.Errorf("another outcome: %v", err)
	}
}

func second(_ cell.Head, err error) error     { return err }
func second2(_ cell.Attempt, err error) error { return err }

// TestGreedyPrograms runs programs that take what they can get.
func TestGreedyPrograms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, source, input, fault string
		limit, charged             uint64
	}{
		{"it yields for ever", "loop { continue }", "0", "runtime budget exhausted", 20_500, 20_500},
		{"it doubles a noun for ever", "let s = event; loop { rebind s = [s s]; continue }", "1", "runtime: node limit", 1_000_000, 1000},
		{"it grows a list for ever", "let s = event; loop { rebind s = [1 s]; continue }", "1", "runtime: depth limit", 1_000_000, 3000},
		{"its result leaves no room to start", "let s = event; let n = 120; loop { if n == 0 { s } else { rebind s = [1 s]; rebind n = n - 1; continue } }", "1",
			"runtime: state too large", 1_000_000, 5000},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := cell.New(celltest.NewMemory(), cell.Options{})
			c := create(t, e, test.source, "5", test.limit)
			submit(t, e, c, 1, test.input)
			var err error
			ticks := 0
			for ; ticks < 1100 && err == nil; ticks++ {
				_, err = e.Tick(t.Context(), c)
			}
			if err == nil {
				t.Fatalf("it still runs after %d ticks", ticks)
			}
			v := inspect(t, e, c)
			if v.Fault != test.fault || v.State.String() != "5" || v.Input != nil {
				t.Errorf("%+v, expected the fault %q", v, test.fault)
			}
			log, err := e.Log(t.Context(), c, v.Head.Index, 1)
			if err != nil {
				t.Fatal(err)
			}
			if r := log[0].Operations[0].Resources; r.Charged != test.charged {
				t.Errorf("%d steps are charged, expected %d", r.Charged, test.charged)
			}
			submit(t, e, c, 2, "0") // the cell goes on
		})
	}
}

// TestOneCellManyCallers has everybody do everything to one cell.
func TestOneCellManyCallers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := celltest.NewMemory()
	engines := []*cell.Engine{
		cell.New(store, cell.Options{Ward: cell.LocalWard{}}), // one owner has one engine, but must not rely on it
		cell.New(store, cell.Options{Ward: cell.LocalWard{}}),
	}
	p := &person{cell: create(t, engines[0], "let got = host(event); ~mem + got", "0", 5000, rune.TagHost), handed: map[part]int{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			e := engines[g%2]
			for i := range 30 {
				head, err := e.Submit(ctx, p.cell, cell.Input{Nonce: nth(100*g + i), Noun: nox.Atom(1)})
				expectOnly(t, p, &mu, head, err, cell.ErrBusy, cell.ErrConflict)
				progress, err := e.Tick(ctx, p.cell)
				expectOnly(t, p, &mu, progress.Head, err, cell.ErrConflict, cell.ErrRuntime)
				if progress.Kind != cell.Awaiting {
					continue
				}
				a, err := e.Begin(ctx, p.cell, progress.Operation)
				expectOnly(t, p, &mu, cell.Head{}, err, cell.ErrConflict, cell.ErrUnknownOutcome, cell.ErrMissing)
				if err != nil {
					continue
				}
				mu.Lock()
				p.handed[a.Operation]++
				mu.Unlock()
				if i%3 == 0 {
					head, err = e.Fail(ctx, p.cell, a.Operation, a.Attempt, "no")
				} else {
					head, err = e.Settle(ctx, p.cell, a.Operation, a.Attempt, nox.Atom(2))
				}
				for errors.Is(err, cell.ErrConflict) { // another engine has moved the head
					head, err = e.Settle(ctx, p.cell, a.Operation, a.Attempt, nox.Atom(2))
					if i%3 == 0 {
						head, err = e.Fail(ctx, p.cell, a.Operation, a.Attempt, "no")
					}
				}
				expectOnly(t, p, &mu, head, err)
			}
		})
	}
	wg.Wait()
	if len(p.handed) == 0 {
		t.Fatal("no act was attempted")
	}
	sound(t, "many callers", store, cell.New(store, cell.Options{}), p)
}

func expectOnly(t *testing.T, p *person, mu *sync.Mutex, head cell.Head, err error, allowed ...error) {
	t.Helper()
	if err == nil {
		if head != (cell.Head{}) {
			mu.Lock()
			p.acknowledged = append(p.acknowledged, head)
			mu.Unlock()
		}
		return
	}
	for _, a := range allowed {
		if errors.Is(err, a) {
			return
		}
	}
	t.Errorf("%v, expected one of %v", err, fmt.Sprint(allowed))
}
