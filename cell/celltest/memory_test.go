package celltest_test

import (
	"errors"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/hemera"
)

func TestMemoryIsAStore(t *testing.T) {
	t.Parallel()
	celltest.RunStore(t, func(*testing.T) cell.Store { return celltest.NewMemory() })
}

func TestMemoryFaults(t *testing.T) {
	t.Parallel()
	text := []byte("birth")
	p := hemera.Sum(text)
	birth := &cell.Write{
		Cell: p, Request: p, Next: cell.Head{Commit: p},
		Items: []record.Item{{Particle: p, Kind: record.KindBlob, Bytes: text}},
	}
	for _, test := range []struct {
		name string
		plan func(celltest.Call) celltest.Fault
		err  error
		kept bool
	}{
		{"a write that fails", func(celltest.Call) celltest.Fault { return celltest.Failed }, cell.ErrStore, false},
		{"a write that is lost", func(celltest.Call) celltest.Fault { return celltest.UnknownLost }, cell.ErrCommitUnknown, false},
		{"a write that is kept", func(celltest.Call) celltest.Fault { return celltest.UnknownKept }, cell.ErrCommitUnknown, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := celltest.NewMemory()
			m.Plan(test.plan)
			if _, err := m.Write(t.Context(), birth); !errors.Is(err, test.err) {
				t.Fatalf("%v, expected %v", err, test.err)
			}
			if _, err := m.Head(t.Context(), p); !errors.Is(err, cell.ErrStore) {
				t.Fatalf("a read that was made to fail: %v, expected %v", err, cell.ErrStore)
			}
			m.Plan(nil)
			if errors.Is(test.err, cell.ErrCommitUnknown) {
				if _, err := m.Write(t.Context(), birth); !errors.Is(err, cell.ErrStore) {
					t.Fatalf("a write before reopening: %v, expected %v", err, cell.ErrStore)
				}
			}
			m.Reopen()
			if _, err := m.Head(t.Context(), p); test.kept != (err == nil) {
				t.Fatalf("head: %v", err)
			}
			if _, err := m.Write(t.Context(), birth); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestMemoryFindsDamage(t *testing.T) {
	t.Parallel()
	m := celltest.NewMemory()
	text := []byte("birth")
	p := hemera.Sum(text)
	if _, err := m.Write(t.Context(), &cell.Write{
		Cell: p, Request: p, Next: cell.Head{Commit: p},
		Items: []record.Item{{Particle: p, Kind: record.KindBlob, Bytes: text}},
	}); err != nil {
		t.Fatal(err)
	}
	m.Damage(p, func(b []byte) { b[0] ^= 1 })
	if _, _, err := m.Content(t.Context(), p); !errors.Is(err, cell.ErrCorrupt) {
		t.Fatalf("%v, expected %v", err, cell.ErrCorrupt)
	}
}
