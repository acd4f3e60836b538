package cell_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

// person is who drives one cell through a script, and what they have been told.
type person struct {
	cell         record.Particle
	operation    record.Particle // of the present act
	attempt      record.Particle // of the present act
	acknowledged []cell.Head
	handed       map[record.Particle]int // attempts that Begin has given to them, by operation
}

func (p *person) clone() *person {
	c := *p
	c.acknowledged = slices.Clone(p.acknowledged)
	c.handed = maps.Clone(p.handed)
	return &c
}

func (p *person) told(head cell.Head, err error) error {
	if err == nil {
		p.acknowledged = append(p.acknowledged, head)
	}
	return err
}

// step is something that a person wants. It may be tried again after a failure; then it
// goes on from whatever is true.
type step struct {
	name string
	do   func(ctx context.Context, e *cell.Engine, p *person) error
}

var errGoal = errors.New("the goal is not reached")

func stepCreate(source string, limit uint64, acts ...uint64) step {
	return step{"create", func(ctx context.Context, e *cell.Engine, p *person) error {
		c, head, err := e.Create(ctx, cell.Birth{Source: []byte(source), Initial: nox.Atom(10), StepLimit: limit, Acts: acts})
		if err == nil && p.cell != (record.Particle{}) && c != p.cell {
			return fmt.Errorf("%w: another cell %v", errGoal, c)
		}
		if err == nil {
			p.cell = c
		}
		return p.told(head, err)
	}}
}

func stepManage(l record.Lifecycle) step {
	return step{"manage " + l.String(), func(ctx context.Context, e *cell.Engine, p *person) error {
		return p.told(e.Manage(ctx, p.cell, l))
	}}
}

func stepSubmit(i int, input uint64) step {
	return step{fmt.Sprint("submit ", i), func(ctx context.Context, e *cell.Engine, p *person) error {
		return p.told(e.Submit(ctx, p.cell, cell.Input{Nonce: nth(i), Noun: nox.Atom(input)}))
	}}
}

// stepTick makes one tick unless the goal is reached, and says whether it is now.
func stepTick(name, code string, goal func(cell.View) bool) step {
	return step{"tick to " + name, func(ctx context.Context, e *cell.Engine, p *person) error {
		for {
			v, err := e.Inspect(ctx, p.cell)
			if err != nil {
				return err
			}
			if goal(v) {
				if v.Input != nil && v.Input.Act != nil {
					p.operation = v.Input.Act.Operation
				}
				return nil
			}
			progress, err := e.Tick(ctx, p.cell)
			if progress.Head != (cell.Head{}) {
				p.acknowledged = append(p.acknowledged, progress.Head)
			}
			switch {
			case err != nil && cell.Code(err) != code:
				return err
			case err == nil && progress.Kind != cell.Advanced && progress.Kind != cell.Complete:
				return fmt.Errorf("%w: the cell is %v", errGoal, progress.Kind)
			}
		}
	}}
}

func awaits(v cell.View) bool {
	return v.Input != nil && v.Input.Act != nil && v.Input.Act.Stage == record.Pending
}

func ended(state, fault string) func(cell.View) bool {
	return func(v cell.View) bool { return v.Input == nil && v.State.String() == state && v.Fault == fault }
}

var stepBegin = step{"begin", func(ctx context.Context, e *cell.Engine, p *person) error {
	a, err := e.Begin(ctx, p.cell, p.operation)
	switch {
	case err == nil:
		p.handed[a.Operation]++
		p.attempt = a.Attempt
	case errors.Is(err, cell.ErrUnknownOutcome):
		// It is recorded, and nobody was told: a person has to find out.
		v, err := e.Inspect(ctx, p.cell)
		if err != nil {
			return err
		}
		p.attempt = *v.Input.Act.Attempt
		return nil
	}
	return err
}}

var stepDenied = step{"begin what is denied", func(ctx context.Context, e *cell.Engine, p *person) error {
	_, err := e.Begin(ctx, p.cell, p.operation)
	if errors.Is(err, cell.ErrDenied) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("%w: it was allowed", errGoal)
	}
	return err
}}

func stepSettle(value uint64) step {
	return step{"settle", func(ctx context.Context, e *cell.Engine, p *person) error {
		return p.told(e.Settle(ctx, p.cell, p.operation, p.attempt, nox.Atom(value)))
	}}
}

func stepFail(reason string) step {
	return step{"fail", func(ctx context.Context, e *cell.Engine, p *person) error {
		return p.told(e.Fail(ctx, p.cell, p.operation, p.attempt, reason))
	}}
}

var stepCancel = step{"cancel", func(ctx context.Context, e *cell.Engine, p *person) error {
	head, err := e.Cancel(ctx, p.cell)
	if errors.Is(err, cell.ErrMissing) {
		if v, err := e.Inspect(ctx, p.cell); err != nil || v.Fault == "" {
			return fmt.Errorf("%w: fault %q, error %v", errGoal, v.Fault, err)
		}
		return nil
	}
	return p.told(head, err)
}}

var stepLog = step{"inspect and log", func(ctx context.Context, e *cell.Engine, p *person) error {
	if _, err := e.Inspect(ctx, p.cell); err != nil {
		return err
	}
	_, err := e.Log(ctx, p.cell, 0, cell.MaxHistory)
	return err
}}

const countThenAsk = `let n = event;
let m = loop { if n == 0 { 5 } else { rebind n = n - 1; continue } };
let got = host(m);
~mem + got`

var scripts = map[string][]step{
	"acts": {
		stepCreate(countThenAsk, 100_000, rune.TagHost),
		stepManage(record.Paused), stepManage(record.Active),
		stepSubmit(1, 90), stepTick("an act", "", awaits), stepBegin, stepSettle(32), stepTick("the end", "", ended("42", "")),
		stepSubmit(2, 0), stepTick("an act", "", awaits), stepBegin, stepFail("no room"), stepTick("the failure", "runtime", ended("42", "no room")),
		stepSubmit(3, 0), stepTick("an act", "", awaits), stepCancel, stepLog,
		stepManage(record.Retiring), stepManage(record.Retired),
	},
	"what is denied": {
		stepCreate(countThenAsk, 100_000), stepSubmit(1, 0), stepTick("an act", "", awaits), stepDenied, stepCancel,
	},
	"all steps used": {
		stepCreate("loop { continue }", 2500), stepSubmit(1, 0),
		stepTick("the end", "budget", ended("10", "runtime budget exhausted")), stepLog,
	},
	"a fault": {
		stepCreate("head(event)", 2500), stepSubmit(1, 0), stepTick("the end", "runtime", ended("10", "runtime: axis")),
		stepSubmit(2, 0), stepCancel,
	},
}

// TestCut lets every operation of the store fail in every step of the scripts, before
// and after it has had its effect, and looks at what is left.
func TestCut(t *testing.T) {
	t.Parallel()
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := celltest.NewMemory()
			p := &person{handed: map[record.Particle]int{}}
			for i := range script {
				cut(t, script[i:], store.Clone(), p)
				e := cell.New(store, cell.Options{Ward: cell.LocalWard{}})
				if err := script[i].do(t.Context(), e, p); err != nil {
					t.Fatalf("%s: %v", script[i].name, err)
				}
			}
		})
	}
}

// cut cuts the first step at every operation, in an engine that knows nothing and in one
// that knows the cell. Of the hundreds of reads of content in a row, all of which have
// the same end, it takes the first, the last and some.
func cut(t *testing.T, script []step, store *celltest.Memory, p *person) {
	for _, warm := range []bool{false, true} {
		if warm && p.cell == (record.Particle{}) {
			continue
		}
		var calls []celltest.Call
		watched := store.Clone()
		e := driver(t, watched, p, warm)
		watched.Plan(func(c celltest.Call) celltest.Fault {
			calls = append(calls, c)
			return celltest.None
		})
		if err := script[0].do(t.Context(), e, p.clone()); err != nil {
			t.Fatalf("%s: %v", script[0].name, err)
		}
		for k, call := range calls {
			within := k > 0 && k+1 < len(calls) && calls[k-1] == celltest.CallContent && calls[k+1] == celltest.CallContent
			if call == celltest.CallContent && within && k%211 != 0 {
				continue
			}
			faults := []celltest.Fault{celltest.Failed}
			if call == celltest.CallWrite {
				faults = append(faults, celltest.UnknownLost, celltest.UnknownKept)
			}
			for _, fault := range faults {
				cutAt(t, script, store.Clone(), p.clone(), warm, k, fault)
			}
		}
	}
}

// driver is an engine that has read the cell, if it shall be warm.
func driver(t *testing.T, store *celltest.Memory, p *person, warm bool) *cell.Engine {
	t.Helper()
	e := cell.New(store, cell.Options{Ward: cell.LocalWard{}})
	if warm {
		inspect(t, e, p.cell)
	}
	return e
}

// cutAt lets the operation k of the first step fail.
func cutAt(t *testing.T, script []step, store *celltest.Memory, p *person, warm bool, k int, fault celltest.Fault) {
	ctx := t.Context()
	e := driver(t, store, p, warm)
	n, hit := 0, celltest.Call(0)
	store.Plan(func(c celltest.Call) celltest.Fault {
		defer func() { n++ }()
		if n == k {
			hit = c
			return fault
		}
		return celltest.None
	})
	err := script[0].do(ctx, e, p)
	store.Plan(nil)
	where := fmt.Sprintf("%s, cut at operation %d, %v, fault %d, warm %v", script[0].name, k, hit, fault, warm)
	want := cell.ErrStore
	if hit == celltest.CallWrite && fault != celltest.Failed {
		want = cell.ErrCommitUnknown
	}
	if !errors.Is(err, want) {
		t.Fatalf("%s: error %v, expected %v", where, err, want)
	}
	if fault != celltest.Failed {
		if _, err := e.Submit(ctx, p.cell, cell.Input{Nonce: nth(99)}); err == nil {
			t.Fatalf("%s: an input was admitted before the store was opened again", where)
		}
		store.Reopen()
		if !warm { // else the engine has to find out itself
			e = cell.New(store, cell.Options{Ward: cell.LocalWard{}})
		}
	}
	rest := script[:1] // what comes after a read that has failed is not different
	if hit == celltest.CallWrite {
		rest = script[:min(6, len(script))]
	}
	for _, s := range rest {
		if err := s.do(ctx, e, p); err != nil {
			t.Fatalf("%s: then %s: %v", where, s.name, err)
		}
	}
	sound(t, where, store, e, p)
}

// sound checks what must be true of a history, whatever has happened.
func sound(t *testing.T, where string, store *celltest.Memory, e *cell.Engine, p *person) {
	t.Helper()
	log, err := e.Log(t.Context(), p.cell, 0, cell.MaxHistory)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	for _, head := range p.acknowledged {
		if head.Index >= uint64(len(log)) || log[head.Index].Commit != head.Commit {
			t.Fatalf("%s: commit %v was acknowledged and is lost", where, head)
		}
	}
	for operation, n := range p.handed {
		if n > 1 {
			t.Fatalf("%s: the attempt of %v was handed out %d times", where, operation, n)
		}
	}
	attempts := map[record.Particle]int{}
	var charged, reserved, used uint64
	for i, entry := range log {
		if entry.Index != uint64(i) || i > 0 && entry.Before != log[i-1].After {
			t.Fatalf("%s: commit %d does not follow the one before", where, i)
		}
		if entry.Entry == cell.EntryMain {
			charged, reserved, used = 0, 0, 0
		}
		for _, o := range entry.Operations {
			if _, ok := o.Record.(*record.Attempt[record.Particle]); ok {
				attempts[o.Operation]++
			}
			r := o.Resources
			if r == nil {
				continue
			}
			if r.Charged < charged || r.CheckpointUsed < used || r.Charged > r.Limit || r.CheckpointUsed > r.Charged {
				t.Fatalf("%s: commit %d, %s: charged %d after %d, used %d after %d, of %d", where, i, entry.Entry, r.Charged, charged, r.CheckpointUsed, used, r.Limit)
			}
			if entry.Entry == cell.EntryRecover && r.Charged != charged+reserved {
				t.Fatalf("%s: commit %d charges %d for %d that were reserved", where, i, r.Charged-charged, reserved)
			}
			if entry.Entry == cell.EntryReserve && reserved != 0 {
				t.Fatalf("%s: commit %d reserves while %d are reserved", where, i, reserved)
			}
			charged, reserved, used = r.Charged, r.Reserved, r.CheckpointUsed
		}
	}
	for operation, n := range attempts {
		if n > 1 {
			t.Fatalf("%s: %d attempts of %v are recorded", where, n, operation)
		}
	}
	if len(log) > 0 {
		if head, err := store.Head(t.Context(), p.cell); err != nil || head.Commit != log[len(log)-1].Commit {
			t.Fatalf("%s: head %v, error %v, and the last commit is %v", where, head, err, log[len(log)-1].Commit)
		}
	}
}
