package store_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/cell/store"
	"github.com/writ-authority/writ/nox"
)

// TestMoveACell exports a cell from one store, imports it into another one and goes on
// there; what a refused import has left is collected.
func TestMoveACell(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	open := func(name string) (*store.Store, *cell.Engine) {
		s, err := store.Open(ctx, store.Options{Path: filepath.Join(t.TempDir(), name)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s, cell.New(s, cell.Options{})
	}
	_, here := open("here.db")
	c, _, err := here.Create(ctx, cell.Birth{Source: []byte("~mem + event"), StepLimit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	send := func(e *cell.Engine, n byte) cell.Progress {
		if _, err := e.Submit(ctx, c, cell.Input{Nonce: [32]byte{n}, Noun: nox.Atom(uint64(n))}); err != nil {
			t.Fatal(err)
		}
		p, err := e.Tick(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for n := range byte(5) {
		send(here, n)
	}
	var file bytes.Buffer
	if _, _, err := here.Export(ctx, c, &file); err != nil {
		t.Fatal(err)
	}

	s, there := open("there.db")
	cut := file.Bytes()[:file.Len()-1]
	if _, _, err := there.Import(ctx, bytes.NewReader(cut)); !errors.Is(err, cell.ErrExport) {
		t.Fatal(err)
	}
	whole := bytes.Clone(file.Bytes())
	if _, _, err := there.Import(ctx, bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := there.Import(ctx, bytes.NewReader(whole)); !errors.Is(err, cell.ErrConflict) {
		t.Errorf("a second import: %v", err)
	}
	if err := s.Put(ctx, []record.Item{blobItem("left by somebody")}); err != nil {
		t.Fatal(err)
	}
	if p := send(there, 32); p.State.Value() != 0+1+2+3+4+32 {
		t.Errorf("state %v", p.State)
	}
	collect := func() store.Collected {
		done, err := s.Collect(ctx, func(visit func(record.Particle) error) error { return there.Reachable(ctx, visit) })
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	if done := collect(); done.Particles < 1 {
		t.Errorf("%+v was collected", done)
	}
	if done := collect(); done != (store.Collected{}) {
		t.Errorf("%+v was collected again", done)
	}
	if _, _, err := s.Content(ctx, blobItem("left by somebody").Particle); !errors.Is(err, cell.ErrMissing) {
		t.Errorf("what nobody refers to: %v", err)
	}
	if findings, err := s.Verify(ctx, nil); len(findings) > 0 || err != nil {
		t.Error(findings, err)
	}
	again := cell.New(s, cell.Options{})
	if findings, _, err := again.Verify(ctx, nil); len(findings) > 0 || err != nil {
		t.Error(findings, err)
	}
	if r, err := again.Replay(context.Background(), c, nil); r.Finding != nil || err != nil || r.Commits != 2+3*6 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMoveALongHistory exports more content than an import stores at once.
func TestMoveALongHistory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	open := func() *cell.Engine {
		s := openAt(t, filepath.Join(t.TempDir(), "cells.db"))
		t.Cleanup(func() { mustClose(t, s) })
		return cell.New(s, cell.Options{})
	}
	here, there := open(), open()
	c, _, err := here.Create(ctx, cell.Birth{Source: []byte("~mem + event"), StepLimit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		if _, err := here.Submit(ctx, c, cell.Input{Nonce: [32]byte{byte(n), 1}, Noun: nox.Atom(uint64(n))}); err != nil {
			t.Fatal(err)
		}
		if _, err := here.Tick(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if _, _, err := here.Export(ctx, c, &file); err != nil {
		t.Fatal(err)
	}
	if file.Len() < 5<<20 {
		t.Fatalf("an export of %d bytes says nothing", file.Len())
	}
	if _, _, err := there.Import(ctx, &file); err != nil {
		t.Fatal(err)
	}
	if r, err := there.Replay(ctx, c, nil); r.Finding != nil || err != nil || r.Commits != 602 {
		t.Errorf("%+v, %v", r, err)
	}
}
