package cell_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// modelSource counts down, asks its host, and adds what it is told to its state.
const modelSource = `let n = event;
let m = loop { if n == 0 { 0 } else { rebind n = n - 1; continue } };
let got = host(event);
~mem + got`

// model is a cell as the specification tells it, without records, hashes and stores. How
// many steps a program takes is the only thing that it has from the machine.
type model struct {
	allowed   bool
	limit     uint64
	index     uint64
	lifecycle record.Lifecycle
	state     uint64
	fault     string
	live      *modelInput
	requests  map[int]modelRequest    // by nonce
	outcomes  map[uint64]modelOutcome // by the number of the act
	acts      uint64
}

type modelInput struct {
	event                   uint64
	charged, reserved, used uint64
	toAct, toEnd            uint64 // steps
	stage                   string // "run", "pending", "attempted", "settled", "failed"
	act                     uint64
	value                   uint64
	reason                  string
}

type modelRequest struct{ input, index uint64 }

type modelOutcome struct {
	failed bool
	value  uint64
	reason string
	index  uint64
}

// steps counts the steps to the act and to the end.
func steps(event uint64) (toAct, toEnd uint64) {
	p, err := rune.Compile([]byte(modelSource))
	if err != nil {
		panic(err)
	}
	m, err := machine.Load(p, machine.Input{Event: nox.Atom(event)}, machine.MaxSteps)
	if err != nil {
		panic(err)
	}
	if r, err := m.Run(machine.MaxSteps); err != nil || r.Status != machine.Act {
		panic(fmt.Sprint(r.Status, err))
	}
	toAct = m.Used()
	if err := m.Resume(nox.Atom(1)); err != nil {
		panic(err)
	}
	if r, err := m.Run(machine.MaxSteps); err != nil || r.Status != machine.Done {
		panic(fmt.Sprint(r.Status, err))
	}
	return toAct, m.Used()
}

func (m *model) manage(to record.Lifecycle) string {
	if m.lifecycle == to {
		return ""
	}
	from := map[record.Lifecycle][]record.Lifecycle{
		record.Active: {record.Paused}, record.Paused: {record.Active},
		record.Retiring: {record.Active, record.Paused}, record.Retired: {record.Retiring},
	}
	if !slices.Contains(from[to], m.lifecycle) {
		return "lifecycle"
	}
	if to >= record.Retiring && m.live != nil {
		return "busy"
	}
	m.lifecycle = to
	m.index++
	return ""
}

func (m *model) submit(nonce int, input uint64) (index uint64, code string) {
	if r, known := m.requests[nonce]; known {
		if r.input != input {
			return 0, "conflict"
		}
		return r.index, ""
	}
	if m.lifecycle != record.Active {
		return 0, "lifecycle"
	}
	if m.live != nil {
		return 0, "busy"
	}
	m.index++
	m.live = &modelInput{event: input, stage: "run"}
	m.live.toAct, m.live.toEnd = steps(input)
	m.fault = ""
	m.requests[nonce] = modelRequest{input, m.index}
	return m.index, ""
}

func (m *model) end(fault string) {
	m.index++
	m.live, m.fault = nil, fault
}

// tick makes a tick, of which the write number lost fails, counted from 1.
func (m *model) tick(lost int) (progress, code string) {
	in := m.live
	if m.lifecycle != record.Active {
		return "", "lifecycle"
	}
	if in == nil {
		return "idle", ""
	}
	writes := 0
	fails := func() bool { writes++; return writes == lost }
	switch in.stage {
	case "pending":
		return "awaiting", ""
	case "attempted":
		return "unknown", ""
	case "failed":
		if fails() {
			return "", "store-failed"
		}
		m.end(in.reason)
		return "", "runtime"
	}
	if in.reserved > 0 {
		if fails() {
			return "", "store-failed"
		}
		in.charged += in.reserved
		in.reserved = 0
		m.index++
	}
	if in.charged == m.limit {
		if fails() {
			return "", "store-failed"
		}
		m.end("runtime budget exhausted")
		return "", "budget"
	}
	if fails() {
		return "", "store-failed"
	}
	in.reserved = min(m.limit-in.charged, 1000)
	m.index++
	if fails() {
		return "", "store-failed"
	}
	target := in.toAct
	if in.stage == "settled" {
		target = in.toEnd
	}
	if target-in.used > in.reserved {
		in.used += in.reserved
		in.charged += in.reserved
		in.reserved = 0
		m.index++
		if in.stage == "settled" { // the outcome is consumed and the run goes on
			in.stage, in.toAct = "consumed", in.toEnd
		}
		return "advanced", ""
	}
	in.charged += target - in.used
	in.used, in.reserved = target, 0
	if in.stage == "run" {
		m.acts++
		in.stage, in.act = "pending", m.acts
		m.index++
		return "advanced", ""
	}
	m.state += in.value
	m.end("")
	return "complete", ""
}

func (m *model) begin(right bool) string {
	if m.lifecycle != record.Active {
		return "lifecycle"
	}
	if m.live == nil || m.live.act == 0 || m.live.stage == "consumed" {
		return "missing"
	}
	if !right {
		return "conflict"
	}
	if m.live.stage != "pending" {
		return "unknown-outcome"
	}
	m.index++
	if !m.allowed {
		return "denied"
	}
	m.live.stage = "attempted"
	return ""
}

func (m *model) settle(act uint64, o modelOutcome) (index uint64, code string) {
	if old, known := m.outcomes[act]; known {
		if old.failed != o.failed || old.value != o.value || old.reason != o.reason {
			return 0, "conflict"
		}
		return old.index, ""
	}
	if m.live == nil || m.live.act == 0 {
		return 0, "missing"
	}
	if act != m.live.act || m.live.stage != "attempted" {
		return 0, "conflict"
	}
	m.index++
	m.live.stage, m.live.value, m.live.reason = "settled", o.value, o.reason
	if o.failed {
		m.live.stage = "failed"
	}
	o.index = m.index
	m.outcomes[act] = o
	return m.index, ""
}

func (m *model) cancel() string {
	if m.live == nil {
		return "missing"
	}
	if m.live.stage == "attempted" {
		return "unknown-outcome"
	}
	m.end("cancelled by local authority")
	return ""
}

// TestModel does random things to a cell and to a model of it, with writes that are lost
// and engines that begin anew.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ctx := t.Context()
		store := celltest.NewMemory()
		options := cell.Options{Ward: cell.LocalWard{}}
		e := cell.New(store, options)
		m := &model{
			allowed: rapid.IntRange(0, 4).Draw(t, "allowed") > 0, limit: rapid.SampledFrom([]uint64{500, 1000, 2500, 100_000}).Draw(t, "limit"),
			index: 1, lifecycle: record.Active, state: 10, requests: map[int]modelRequest{}, outcomes: map[uint64]modelOutcome{},
		}
		birth := cell.Birth{Source: []byte(modelSource), Initial: nox.Atom(10), StepLimit: m.limit}
		if m.allowed {
			birth.Acts = []uint64{rune.TagHost}
		}
		c, _, err := e.Create(ctx, birth)
		if err != nil {
			t.Fatal(err)
		}
		type ids struct{ operation, attempt record.Particle }
		acts := map[uint64]ids{}
		expect := func(what string, err error, code string) {
			if cell.Code(err) != code {
				t.Fatalf("%s: %v, expected %q", what, err, code)
			}
		}
		headIs := func(what string, head cell.Head, index uint64, code string) {
			if code == "" && head.Index != index {
				t.Fatalf("%s: head %d, expected %d", what, head.Index, index)
			}
		}
		tick := func(lost int) {
			writes := 0
			if lost > 0 {
				store.Plan(func(call celltest.Call) celltest.Fault {
					if call == celltest.CallWrite {
						if writes++; writes == lost {
							return celltest.Failed
						}
					}
					return celltest.None
				})
			}
			p, err := e.Tick(ctx, c)
			store.Plan(nil)
			progress, code := m.tick(lost)
			expect("tick", err, code)
			if code == "" && p.Kind.String() != progress {
				t.Fatalf("tick: %v, expected %s", p.Kind, progress)
			}
			if progress == "awaiting" {
				acts[m.live.act] = ids{operation: p.Operation, attempt: acts[m.live.act].attempt}
			}
		}
		settle := func(act uint64, o modelOutcome) {
			var head cell.Head
			var err error
			if o.failed {
				head, err = e.Fail(ctx, c, acts[act].operation, acts[act].attempt, o.reason)
			} else {
				head, err = e.Settle(ctx, c, acts[act].operation, acts[act].attempt, nox.Atom(o.value))
			}
			index, code := m.settle(act, o)
			expect("settle", err, code)
			headIs("settle", head, index, code)
		}
		drawOutcome := func(t *rapid.T) modelOutcome {
			if rapid.Bool().Draw(t, "failed") {
				return modelOutcome{failed: true, reason: rapid.SampledFrom([]string{"no", "never", ""}).Draw(t, "reason")}
			}
			return modelOutcome{value: rapid.Uint64Range(0, 3).Draw(t, "value")}
		}
		begin := func() {
			if m.live == nil || acts[m.live.act].operation == (record.Particle{}) {
				return
			}
			act := m.live.act
			a, err := e.Begin(ctx, c, acts[act].operation)
			expect("begin", err, m.begin(true))
			if err == nil {
				if acts[act].attempt != (record.Particle{}) {
					t.Fatalf("the attempt of act %d was handed out again", act)
				}
				acts[act] = ids{a.Operation, a.Attempt}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				n, input := rapid.IntRange(0, 9).Draw(t, "nonce"), rapid.SampledFrom([]uint64{0, 1, 60, 200}).Draw(t, "input")
				head, err := e.Submit(ctx, c, cell.Input{Nonce: nth(n), Noun: nox.Atom(input)})
				index, code := m.submit(n, input)
				expect("submit", err, code)
				headIs("submit", head, index, code)
			},
			"tick":      func(*rapid.T) { tick(0) },
			"tick more": func(*rapid.T) { tick(0); tick(0) },
			"tick, and a write fails": func(t *rapid.T) {
				tick(rapid.IntRange(1, 3).Draw(t, "write"))
			},
			"begin": func(*rapid.T) { begin() },
			"begin another": func(*rapid.T) {
				_, err := e.Begin(ctx, c, record.Particle{9})
				expect("begin another", err, m.begin(false))
			},
			"settle": func(t *rapid.T) {
				if m.acts > 0 {
					settle(rapid.Uint64Range(1, m.acts).Draw(t, "act"), drawOutcome(t))
				}
			},
			"act": func(t *rapid.T) {
				tick(0)
				tick(0)
				begin()
				if m.live != nil && m.live.act > 0 {
					settle(m.live.act, drawOutcome(t))
				}
			},
			"cancel": func(*rapid.T) {
				_, err := e.Cancel(ctx, c)
				expect("cancel", err, m.cancel())
			},
			"pause or not": func(t *rapid.T) {
				l := rapid.SampledFrom([]record.Lifecycle{record.Paused, record.Active, record.Active, record.Active}).Draw(t, "lifecycle")
				_, err := e.Manage(ctx, c, l)
				expect("manage", err, m.manage(l))
			},
			"retire": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
					l := rapid.SampledFrom([]record.Lifecycle{record.Retiring, record.Retired}).Draw(t, "lifecycle")
					_, err := e.Manage(ctx, c, l)
					expect("manage", err, m.manage(l))
				}
			},
			"begin anew": func(*rapid.T) { e = cell.New(store, options) },
			"": func(t *rapid.T) {
				v, err := e.Inspect(ctx, c)
				if err != nil {
					t.Fatal(err)
				}
				if v.Head.Index != m.index || v.Lifecycle != m.lifecycle || v.State.Value() != m.state || v.Fault != m.fault || (v.Input != nil) != (m.live != nil) {
					t.Fatalf("the cell is %+v, expected %+v", v, m)
				}
				if in := v.Input; in != nil {
					if in.Charged != m.live.charged || in.Reserved != m.live.reserved || in.Used != m.live.used || in.Limit != m.limit {
						t.Fatalf("steps %+v, expected %+v", in, m.live)
					}
					stage := map[string]record.Stage{
						"pending": record.Pending, "attempted": record.AttemptRecorded, "settled": record.Resolved, "failed": record.Resolved,
					}[m.live.stage]
					if (in.Act != nil) != (stage != 0) || in.Act != nil && in.Act.Stage != stage {
						t.Fatalf("act %+v, expected %s", in.Act, m.live.stage)
					}
				}
			},
		})
	})
}
