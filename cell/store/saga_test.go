package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/cell/store"
	"github.com/writ-authority/writ/hemera"
)

// pageSize is that of the file.
const pageSize = 8192

func blobItem(text string) record.Item {
	return record.Item{Particle: hemera.Sum([]byte(text)), Kind: record.KindBlob, Bytes: []byte(text)}
}

func atomItem(v uint64) record.Item {
	id, err := hemera.AtomID(v)
	if err != nil {
		panic(err)
	}
	return record.Item{Particle: id, Kind: record.KindAtom, Bytes: binary.LittleEndian.AppendUint64(nil, v)}
}

func pairItem(left, right record.Particle) record.Item {
	id, err := hemera.PairID(left, right)
	if err != nil {
		panic(err)
	}
	return record.Item{Particle: id, Kind: record.KindPair, Bytes: slices.Concat(left[:], right[:])}
}

// saga is a cell of which everything follows from its name: whoever knows that and
// the head can tell what a store must have.
type saga struct {
	name   string
	width  int // items of a write beyond the five that each has
	writes []*cell.Write
}

func newSaga(name string, width int) *saga { return &saga{name: name, width: width} }

// write is the write of a commit. Its pairs have members that were written before.
func (s *saga) write(n uint64) *cell.Write {
	for uint64(len(s.writes)) <= n {
		i := uint64(len(s.writes))
		zero := atomItem(0)
		text := blobItem(fmt.Sprintf("%s, commit %d. %s", s.name, i, strings.Repeat("Lorem ipsum. ", int(i%40))))
		number := atomItem(1000 + i)
		body := pairItem(number.Particle, text.Particle)
		items := []record.Item{zero, text, number, body}
		last := body
		for k := range s.width {
			last = pairItem(last.Particle, zero.Particle)
			if k%7 == 6 {
				blob := blobItem(fmt.Sprint(s.name, i, k))
				items = append(items, last, blob)
				last = pairItem(last.Particle, blob.Particle)
			}
			items = append(items, last)
		}
		w := &cell.Write{Next: cell.Head{Index: i}, Trusted: i%2 == 0}
		before := zero.Particle
		if i > 0 {
			w.Expected = &s.writes[i-1].Next
			before = w.Expected.Commit
		}
		commit := pairItem(before, last.Particle)
		w.Next.Commit = commit.Particle
		w.Cell = commit.Particle
		if i > 0 {
			w.Cell = s.writes[0].Cell
		}
		w.Items = append(items, commit)
		w.Request = blobItem(fmt.Sprintf("%s, request %d", s.name, i)).Particle
		w.Claims = []cell.Claim{{Request: w.Request, Event: body.Particle}}
		s.writes = append(s.writes, w)
	}
	return s.writes[n]
}

func (s *saga) cell() record.Particle { return s.write(0).Cell }

// check makes sure that a store has this cell up to one of its commits, which is at
// least the given one unless that is negative, whole and nothing more. It returns the number of
// commits. The content of the last commits is read.
func (s *saga) check(ctx context.Context, st *store.Store, least int) (int, error) {
	head, err := st.Head(ctx, s.cell())
	if errors.Is(err, cell.ErrMissing) && least < 0 {
		_, known, err := st.Request(ctx, s.cell(), s.write(0).Request)
		if err != nil || known {
			return 0, fmt.Errorf("%s has no head, but its first request is known: %v, %v", s.name, known, err)
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("head of %s: %w", s.name, err)
	}
	if int64(head.Index) < int64(least) {
		return 0, fmt.Errorf("%s is at commit %d, but %d was acknowledged", s.name, head.Index, least)
	}
	if head != s.write(head.Index).Next {
		return 0, fmt.Errorf("%s has the head %v, which was never written", s.name, head)
	}
	for from := uint64(0); from <= head.Index; {
		page, err := st.History(ctx, s.cell(), from, 100)
		if err != nil {
			return 0, fmt.Errorf("history of %s: %w", s.name, err)
		}
		if len(page) == 0 {
			return 0, fmt.Errorf("the history of %s ends before commit %d", s.name, from)
		}
		for _, h := range page {
			if h != s.write(from).Next {
				return 0, fmt.Errorf("the history of %s has %v instead of %v", s.name, h, s.write(from).Next)
			}
			from++
		}
	}
	for i := head.Index - min(head.Index, 12); i <= head.Index; i++ {
		w := s.write(i)
		at, known, err := st.Request(ctx, w.Cell, w.Request)
		if err != nil || !known || at != w.Next {
			return 0, fmt.Errorf("request %d of %s is %v, %v, %w", i, s.name, at, known, err)
		}
		for _, it := range w.Items {
			if err := has(ctx, st, it); err != nil {
				return 0, fmt.Errorf("commit %d of %s: %w", i, s.name, err)
			}
		}
	}
	next := s.write(head.Index + 1)
	if _, known, err := st.Request(ctx, next.Cell, next.Request); err != nil || known {
		return 0, fmt.Errorf("request %d of %s is known: %v, %w", head.Index+1, s.name, known, err)
	}
	return int(head.Index) + 1, nil
}

// has makes sure that a store has an item.
func has(ctx context.Context, st *store.Store, it record.Item) error {
	kind, data, err := st.Content(ctx, it.Particle)
	if err != nil {
		return err
	}
	if kind != it.Kind || !bytes.Equal(data, it.Bytes) {
		return fmt.Errorf("%v is a %v %x, expected a %v %x", it.Particle, kind, data, it.Kind, it.Bytes)
	}
	return nil
}

func (s *saga) mustCheck(t *testing.T, st *store.Store, least int) int {
	t.Helper()
	n, err := s.check(t.Context(), st, least)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// tell writes the commits from one to before another.
func (s *saga) tell(t *testing.T, st *store.Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		w := s.write(uint64(i))
		if head, err := st.Write(t.Context(), w); err != nil || head != w.Next {
			t.Fatalf("commit %d of %s: %v, %v", i, s.name, head, err)
		}
	}
}

func openAt(t *testing.T, path string) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func mustClose(t *testing.T, st *store.Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// place is where a test has its store.
func place(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "cells.db")
}
