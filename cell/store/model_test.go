package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/cell/store"
)

// TestModel does the same at random to a store and to the plain one in memory, and
// opens the store again now and then.
func TestModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		at, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(at, "cells.db")
		open := func() *store.Store {
			st, err := store.Open(t.Context(), store.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		m := &model{t: t, memory: celltest.NewMemory(), store: open()}
		t.Repeat(map[string]func(*rapid.T){
			"write": m.write,
			"again": m.again,
			"read":  m.read,
			"reopen": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "seldom") > 0 {
					t.Skip("takes long")
				}
				if err := m.store.Close(); err != nil {
					t.Fatal(err)
				}
				m.store = open()
			},
		})
		if findings, err := m.store.Verify(t.Context(), nil); err != nil || len(findings) > 0 {
			t.Errorf("found %v, %v", findings, err)
		}
		if err := errors.Join(m.store.Close(), os.RemoveAll(at)); err != nil {
			t.Fatal(err)
		}
	})
}

type model struct {
	t      *rapid.T
	memory *celltest.Memory
	store  *store.Store
	writes []*cell.Write // that were tried
}

// item draws an item of a small world, in which most writes have something to do with
// one another.
func drawItem(t *rapid.T) record.Item {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return atomItem(rapid.Uint64Range(0, 20).Draw(t, "atom"))
	case 1:
		return blobItem(fmt.Sprint("text ", rapid.IntRange(0, 20).Draw(t, "blob")))
	}
	left, right := drawItem(t), drawItem(t)
	return pairItem(left.Particle, right.Particle)
}

func drawParticle(t *rapid.T, name string) record.Particle {
	return blobItem(fmt.Sprint(name, rapid.IntRange(0, 5).Draw(t, name))).Particle
}

func (m *model) write(t *rapid.T) {
	w := &cell.Write{Cell: drawParticle(t, "cell"), Request: drawParticle(t, "request")}
	seen := map[record.Particle]bool{}
	for range rapid.IntRange(0, 6).Draw(t, "items") {
		it := drawItem(t)
		if seen[it.Particle] && !rapid.Bool().Draw(t, "twice") {
			continue
		}
		seen[it.Particle] = true
		if rapid.IntRange(0, 30).Draw(t, "damage") == 0 {
			it.Bytes = slices.Clone(it.Bytes)
			it.Bytes[0] ^= 1
		}
		w.Items = append(w.Items, it)
	}
	commit := blobItem(fmt.Sprint("commit ", rapid.IntRange(0, 50).Draw(t, "commit")))
	w.Next.Commit = commit.Particle
	if !seen[commit.Particle] && rapid.IntRange(0, 9).Draw(t, "with commit") > 0 {
		w.Items = append(w.Items, commit)
	}
	if head, err := m.memory.Head(t.Context(), w.Cell); err == nil {
		w.Expected, w.Next.Index = &head, head.Index+1
	}
	switch rapid.IntRange(0, 12).Draw(t, "lie") {
	case 0:
		w.Expected = nil
	case 1:
		w.Next.Index++
	case 2:
		w.Expected = &cell.Head{Index: 1, Commit: commit.Particle}
	}
	for range rapid.IntRange(0, 2).Draw(t, "claims") {
		w.Claims = append(w.Claims, cell.Claim{Request: drawParticle(t, "claimed"), Event: drawParticle(t, "event")})
	}
	m.writes = append(m.writes, w)
	m.both(t, w)
}

func (m *model) again(t *rapid.T) {
	if len(m.writes) == 0 {
		t.Skip("nothing was written")
	}
	m.both(t, m.writes[rapid.IntRange(0, len(m.writes)-1).Draw(t, "which")])
}

func (m *model) both(t *rapid.T, w *cell.Write) {
	want, wantErr := m.memory.Write(t.Context(), w)
	head, err := m.store.Write(t.Context(), w)
	if head != want || cell.Code(err) != cell.Code(wantErr) {
		t.Fatalf("write: %v, %v; expected %v, %v", head, err, want, wantErr)
	}
}

func (m *model) read(t *rapid.T) {
	ctx := t.Context()
	for n := range 6 {
		c := blobItem(fmt.Sprint("cell", n)).Particle
		want, wantErr := m.memory.Head(ctx, c)
		head, err := m.store.Head(ctx, c)
		if head != want || cell.Code(err) != cell.Code(wantErr) {
			t.Fatalf("head: %v, %v; expected %v, %v", head, err, want, wantErr)
		}
		from, limit := rapid.Uint64Range(0, 4).Draw(t, "from"), rapid.IntRange(1, 4).Draw(t, "limit")
		wantList, wantErr := m.memory.History(ctx, c, from, limit)
		list, err := m.store.History(ctx, c, from, limit)
		if !slices.Equal(list, wantList) || cell.Code(err) != cell.Code(wantErr) {
			t.Fatalf("history: %v, %v; expected %v, %v", list, err, wantList, wantErr)
		}
		for k := range 6 {
			r := blobItem(fmt.Sprint("request", k)).Particle
			want, wantKnown, wantErr := m.memory.Request(ctx, c, r)
			head, known, err := m.store.Request(ctx, c, r)
			if head != want || known != wantKnown || cell.Code(err) != cell.Code(wantErr) {
				t.Fatalf("request: %v, %v, %v; expected %v, %v, %v", head, known, err, want, wantKnown, wantErr)
			}
		}
	}
	wantCells, wantErr := m.memory.Cells(ctx, record.Particle{}, 4)
	cells, err := m.store.Cells(ctx, record.Particle{}, 4)
	if !slices.Equal(cells, wantCells) || cell.Code(err) != cell.Code(wantErr) {
		t.Fatalf("cells: %v, %v; expected %v, %v", cells, err, wantCells, wantErr)
	}
	for _, w := range m.writes {
		for _, it := range w.Items {
			wantKind, wantData, wantErr := m.memory.Content(ctx, it.Particle)
			kind, data, err := m.store.Content(ctx, it.Particle)
			if kind != wantKind || !bytes.Equal(data, wantData) || cell.Code(err) != cell.Code(wantErr) {
				t.Fatalf("content %v: %v, %x, %v; expected %v, %x, %v", it.Particle, kind, data, err, wantKind, wantData, wantErr)
			}
		}
	}
}
