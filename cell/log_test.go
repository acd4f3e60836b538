package cell_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

// create makes a cell of a test, with the acts that its source asks for.
func create(t testing.TB, e *cell.Engine, source, initial string, limit uint64, acts ...uint64) record.Particle {
	t.Helper()
	c, _, err := e.Create(t.Context(), cell.Birth{Source: []byte(source), Initial: noun(t, initial), StepLimit: limit, Acts: acts})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// nth is a nonce of a test.
func nth(i int) (n [32]byte) {
	copy(n[:], fmt.Sprintf("nonce %d", i))
	return n
}

func submit(t testing.TB, e *cell.Engine, c record.Particle, i int, input string) cell.Head {
	t.Helper()
	head, err := e.Submit(t.Context(), c, cell.Input{Nonce: nth(i), Noun: noun(t, input)})
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func tick(t testing.TB, e *cell.Engine, c record.Particle, want cell.ProgressKind) cell.Progress {
	t.Helper()
	p, err := e.Tick(t.Context(), c)
	if err != nil || p.Kind != want {
		t.Fatalf("tick: %v, error %v, expected %v", p.Kind, err, want)
	}
	return p
}

// story is a log in short.
func story(list []cell.LogEntry) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%d %s %v: %v -> %v", e.Index, e.Entry, e.Lifecycle, e.StateBefore, e.State)
		if e.Input != nil {
			fmt.Fprintf(&b, ", input %v", *e.Input)
		}
		if e.Fault != "" {
			fmt.Fprintf(&b, ", fault %q", e.Fault)
		}
		for _, o := range e.Operations {
			fmt.Fprintf(&b, "; %s", strings.TrimSuffix(strings.TrimPrefix(o.Record.Schema(), "cell/"), "/1"))
			if r := o.Resources; r != nil {
				fmt.Fprintf(&b, " %d+%d used %d of %d", r.Charged, r.Reserved, r.CheckpointUsed, r.Limit)
			}
			if o.Tag != 0 {
				fmt.Fprintf(&b, " %s(%v)", rune.ActName(o.Tag), o.Arguments)
			}
			if o.Attempt != (record.Particle{}) {
				b.WriteString(" attempted")
			}
			if o.Value != nil {
				fmt.Fprintf(&b, " = %v", *o.Value)
			}
			if o.Reason != "" {
				fmt.Fprintf(&b, " because %q", o.Reason)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestLog(t *testing.T) {
	t.Parallel()
	e := cell.New(celltest.NewMemory(), cell.Options{Ward: cell.LocalWard{}})
	c := create(t, e, "let got = host([event 1]); ~mem + got", "10", 5000, rune.TagHost)
	ctx := t.Context()
	act := func(i int) (operation, attempt record.Particle) {
		submit(t, e, c, i, "7")
		tick(t, e, c, cell.Advanced)
		operation = tick(t, e, c, cell.Awaiting).Operation
		a, err := e.Begin(ctx, c, operation)
		if err != nil {
			t.Fatal(err)
		}
		return operation, a.Attempt
	}
	operation, attempt := act(1)
	if _, err := e.Settle(ctx, c, operation, attempt, nox.Atom(32)); err != nil {
		t.Fatal(err)
	}
	tick(t, e, c, cell.Complete)
	operation, attempt = act(2)
	if _, err := e.Fail(ctx, c, operation, attempt, "no room"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Tick(ctx, c); !errors.Is(err, cell.ErrRuntime) {
		t.Fatal(err)
	}
	if _, err := e.Manage(ctx, c, record.Retiring); err != nil {
		t.Fatal(err)
	}
	const want = `0 birth installed: 0 -> 10
1 active active: 10 -> 10
2 main active: 10 -> 10, input 7; continuation 0+0 used 0 of 5000
3 $reserve active: 10 -> 10; continuation 0+1000 used 0 of 5000
4 $act active: 10 -> 10; continuation 15+0 used 15 of 5000; outbox-entry host([7 1]); operation host([7 1])
5 $attempt active: 10 -> 10; continuation 15+0 used 15 of 5000; outbox-entry host([7 1]) attempted; attempt host([7 1]) attempted
6 $outcome active: 10 -> 10; continuation 15+0 used 15 of 5000; outbox-entry host([7 1]) attempted = 32; outcome host([7 1]) attempted = 32
7 $reserve active: 10 -> 10; continuation 15+1000 used 15 of 5000; outbox-entry host([7 1]) attempted = 32
8 $complete active: 10 -> 42; local-resources 24+0 used 24 of 5000; outbox-entry host([7 1]) attempted = 32
9 main active: 42 -> 42, input 7; continuation 0+0 used 0 of 5000
10 $reserve active: 42 -> 42; continuation 0+1000 used 0 of 5000
11 $act active: 42 -> 42; continuation 15+0 used 15 of 5000; outbox-entry host([7 1]); operation host([7 1])
12 $attempt active: 42 -> 42; continuation 15+0 used 15 of 5000; outbox-entry host([7 1]) attempted; attempt host([7 1]) attempted
13 $outcome active: 42 -> 42; continuation 15+0 used 15 of 5000; outbox-entry host([7 1]) attempted because "no room"; outcome host([7 1]) attempted because "no room"
14 $fault active: 42 -> 42, fault "no room"; local-resources 15+0 used 15 of 5000; outbox-entry host([7 1]) attempted because "no room"
15 retiring retiring: 42 -> 42
`
	var list []cell.LogEntry
	for from := uint64(0); ; from += 4 { // pages begin anywhere
		page, err := e.Log(ctx, c, from, 4)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		list = append(list, page...)
	}
	if got := story(list); got != want {
		t.Errorf("the log is\n%s\nexpected\n%s", got, want)
	}
	for i := range list[1:] {
		if list[i].After != list[i+1].Before {
			t.Errorf("commit %d does not begin where the one before has ended", i+1)
		}
	}
	if _, err := e.Log(ctx, list[3].Commit, 0, 1); !errors.Is(err, cell.ErrMissing) {
		t.Errorf("the log of no cell: %v", err)
	}
}
