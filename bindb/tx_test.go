package bindb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// txModel is what two families hold, a fixed one and a payload one. Both may
// hold what nothing refers to, so that the root is sound all the time.
type txModel struct {
	phases []uint16
	bytes  []byte
}

func (m *txModel) clone() *txModel {
	return &txModel{append([]uint16(nil), m.phases...), append([]byte(nil), m.bytes...)}
}

// txStep is one call inside of a mutation.
type txStep struct {
	kind  string
	index int
	phase uint16
	bytes []byte
}

// txMutation is a mutation that may fail at its end.
type txMutation struct {
	steps []txStep
	fails bool
}

var errChangedMind = errors.New("changed my mind")

func drawMutation() *rapid.Generator[txMutation] {
	step := rapid.Custom(func(t *rapid.T) txStep {
		return txStep{
			kind:  rapid.SampledFrom([]string{"append", "put", "payload", "read", "put nowhere", "invalid"}).Draw(t, "kind"),
			index: rapid.IntRange(0, 1000).Draw(t, "index"),
			phase: rapid.Uint16().Draw(t, "phase"),
			bytes: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes"),
		}
	})
	return rapid.Custom(func(t *rapid.T) txMutation {
		return txMutation{
			steps: rapid.SliceOfN(step, 0, 8).Draw(t, "steps"),
			fails: rapid.IntRange(0, 2).Draw(t, "outcome") == 0,
		}
	})
}

func phase(p uint16) record.PolicyCheck {
	return record.PolicyCheck{Kind: record.CheckKindCIRolloutPhase, Subject: p}
}

// run carries the mutation out on tx and on the model. What goes wrong is an
// error that is not errChangedMind.
func (m txMutation) run(tx *bindb.Tx, model *txModel) error {
	for _, s := range m.steps {
		switch s.kind {
		case "append":
			i, err := bindb.PolicyChecks.Append(tx, phase(s.phase))
			if err != nil || int(i) != len(model.phases) {
				return fmt.Errorf("append gave %d: %w", i, err)
			}
			model.phases = append(model.phases, s.phase)
		case "put":
			if len(model.phases) == 0 {
				continue
			}
			i := s.index % len(model.phases)
			if err := bindb.PolicyChecks.Put(tx, uint32(i), phase(s.phase)); err != nil {
				return err
			}
			model.phases[i] = s.phase
		case "payload":
			off, err := bindb.ReviewPayload.Append(tx, s.bytes)
			if err != nil || int(off) != bindb.HeaderSize+len(model.bytes) {
				return fmt.Errorf("append gave offset %d: %w", off, err)
			}
			model.bytes = append(model.bytes, s.bytes...)
		case "read":
			if err := compare(tx, model); err != nil {
				return err
			}
		case "put nowhere":
			if err := bindb.PolicyChecks.Put(tx, uint32(len(model.phases)), phase(0)); !errors.Is(err, bindb.ErrNotFound) {
				return fmt.Errorf("a replacement of nothing gave: %w", err)
			}
		case "invalid":
			if _, err := bindb.PolicyChecks.Append(tx, record.PolicyCheck{Subject: 1}); !errors.Is(err, bindb.ErrInvalid) {
				return fmt.Errorf("an invalid record gave: %w", err)
			}
		}
	}
	if err := compare(tx, model); err != nil {
		return err
	}
	if m.fails {
		return errChangedMind
	}
	return nil
}

// compare reads everything and some parts of it.
func compare(rd bindb.Reader, m *txModel) error {
	n, err := bindb.PolicyChecks.Count(rd)
	if err != nil || int(n) != len(m.phases) {
		return fmt.Errorf("there are %d records, want %d: %w", n, len(m.phases), err)
	}
	for i, want := range m.phases {
		c, err := bindb.PolicyChecks.Get(rd, uint32(i))
		if err != nil || c.Subject != want {
			return fmt.Errorf("record %d has %d, want %d: %w", i, c.Subject, want, err)
		}
	}
	seen := uint32(0)
	err = bindb.PolicyChecks.Scan(rd, n/3, n, func(i uint32, c *record.PolicyCheck) error {
		if c.Subject != m.phases[i] {
			return fmt.Errorf("the scan gives %d for record %d, want %d", c.Subject, i, m.phases[i])
		}
		seen++
		return nil
	})
	if err != nil || seen != n-n/3 {
		return fmt.Errorf("the scan saw %d of %d records: %w", seen, n-n/3, err)
	}
	for _, r := range [][2]int{{0, len(m.bytes)}, {len(m.bytes) / 3, len(m.bytes) / 2}, {len(m.bytes), len(m.bytes)}} {
		b, err := bindb.ReviewPayload.Read(rd, uint64(bindb.HeaderSize+r[0]), r[1]-r[0])
		if err != nil || string(b) != string(m.bytes[r[0]:r[1]]) {
			return fmt.Errorf("payload %v is %q, want %q: %w", r, b, m.bytes[r[0]:r[1]], err)
		}
	}
	return nil
}

// TestTxReadsItsOwnWrites compares mutations, of which several share a batch and
// some take themselves back, with a model: while they run, after the commit, and
// in another process.
func TestTxReadsItsOwnWrites(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		batches := rapid.SliceOfN(rapid.SliceOfN(drawMutation(), 1, 5), 1, 5).Draw(rt, "batches")
		reopen := rapid.Bool().Draw(rt, "reopen")
		_, cfg := simConfig(t)
		create(t, cfg)
		r := open(t, cfg)
		model := &txModel{}
		for _, batch := range batches {
			var fns []func(*bindb.Tx) error
			for _, m := range batch {
				fns = append(fns, func(tx *bindb.Tx) error {
					changed := model.clone()
					err := m.run(tx, changed)
					if err == nil {
						model = changed
					}
					return err
				})
			}
			for i, err := range r.Batch(ctx, fns...) {
				if batch[i].fails != errors.Is(err, errChangedMind) || err != nil && !batch[i].fails {
					rt.Fatalf("mutation %d: %v", i, err)
				}
			}
			if reopen {
				closeRoot(t, r)
				r = open(t, cfg)
			}
			if err := r.View(ctx, func(rd bindb.Reader) error { return compare(rd, model) }); err != nil {
				rt.Fatal(err)
			}
		}
		closeRoot(t, r)
	})
}

func TestLargeBatchIsSplit(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	r.LimitJournal(20_000) // some 150 replaced Lines
	const n = 300
	update(t, r, func(w *writer) {
		for i := range n {
			w.line(fmt.Sprint("line ", i))
		}
	})
	touch := func(from, to uint32) func(*bindb.Tx) error {
		return write(func(w *writer) {
			for i := from; i < to; i++ {
				change(w, bindb.Lines, i, func(l *record.Line) { l.UpdatedAt++ })
			}
		})
	}
	var errs []error
	ops := opsOf(sim, func() {
		errs = r.Batch(context.Background(), touch(0, 100), touch(50, 150), touch(150, 250), touch(0, n), touch(0, 100))
	})
	for i, err := range errs {
		if want := i == 3; errors.Is(err, bindb.ErrTooLarge) != want || !want && err != nil {
			t.Errorf("mutation %d: %v", i, err)
		}
	}
	if got := len(at(ops, vfs.OpSync, "line.bin")); got != 3 {
		t.Errorf("there were %d batches, want 3", got)
	}
	err := r.View(context.Background(), func(rd bindb.Reader) error {
		return bindb.Lines.Scan(rd, 0, n, func(i uint32, l *record.Line) error {
			want := record.Seconds(10)
			switch {
			case i < 50:
				want += 2
			case i < 100:
				want += 3
			case i < 250:
				want++
			}
			if l.UpdatedAt != want {
				return fmt.Errorf("Line %d has %d, want %d", i, l.UpdatedAt, want)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	closeRoot(t, r)
}
