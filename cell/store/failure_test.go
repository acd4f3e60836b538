package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/hemera"
)

var errDisk = errors.New("the disk does not answer")

// step is commit n of a cell.
func step(name string, n uint64) *cell.Write {
	text := func(k uint64) record.Item {
		b := fmt.Appendf(nil, "%s, commit %d", name, k)
		return record.Item{Particle: hemera.Sum(b), Kind: record.KindBlob, Bytes: b}
	}
	it := text(n)
	w := &cell.Write{
		Cell: text(0).Particle, Request: hemera.Sum(fmt.Appendf(nil, "%s, request %d", name, n)),
		Next: cell.Head{Index: n, Commit: it.Particle}, Items: []record.Item{it},
	}
	if n > 0 {
		w.Expected = &cell.Head{Index: n - 1, Commit: text(n - 1).Particle}
	}
	return w
}

// A sync that fails makes the outcome unknown, never a success. From then on nothing is
// written, and nothing is read that may be lost; what was durable before can be read.
// The next open finds the old head or the new one, and the same write tells which.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "cells.db")
	s, err := Open(ctx, Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	good := s.syncLog
	s.syncLog = func() error {
		if broken.Load() {
			return errDisk
		}
		return good()
	}
	for _, name := range []string{"a", "b"} {
		if _, err := s.Write(ctx, step(name, 0)); err != nil {
			t.Fatal(err)
		}
	}
	broken.Store(true)
	lost := step("a", 1)
	if head, err := s.Write(ctx, lost); !errors.Is(err, cell.ErrCommitUnknown) || !errors.Is(err, errDisk) || cell.Code(err) != "commit-unknown" {
		t.Fatalf("a write whose sync fails: %v, %v", head, err)
	}
	broken.Store(false)
	for range 2 {
		if _, err := s.Write(ctx, step("b", 1)); !errors.Is(err, cell.ErrStore) || errors.Is(err, cell.ErrCommitUnknown) {
			t.Errorf("a write after a failed sync: %v", err)
		}
	}
	if s.Health() == nil {
		t.Error("the store says that it is well")
	}
	if head, err := s.Head(ctx, lost.Cell); err == nil {
		t.Errorf("a head that may be lost was read: %v", head)
	}
	if _, known, err := s.Request(ctx, lost.Cell, lost.Request); err == nil {
		t.Errorf("a request that may be lost is known: %v", known)
	}
	if list, err := s.History(ctx, lost.Cell, 0, 10); err == nil {
		t.Errorf("a history that may be lost was read: %v", list)
	}
	if list, err := s.Cells(ctx, record.Particle{}, 10); err == nil {
		t.Errorf("cells that may be lost were read: %v", list)
	}
	if head, err := s.Head(ctx, step("b", 0).Cell); err != nil || head != step("b", 0).Next {
		t.Errorf("a head that was durable: %v, %v", head, err)
	}
	if _, _, err := s.Content(ctx, step("b", 0).Next.Commit); err != nil {
		t.Errorf("content that was durable: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(ctx, Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	head, err := s.Head(ctx, lost.Cell)
	if err != nil || head != *lost.Expected && head != lost.Next {
		t.Fatalf("after opening again: %v, %v", head, err)
	}
	if head, err := s.Write(ctx, lost); err != nil || head != lost.Next {
		t.Fatalf("the same again: %v, %v", head, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Callers that share the failed sync are all told that nobody knows.
func TestFailedSyncOfMany(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "cells.db")})
	if err != nil {
		t.Fatal(err)
	}
	const callers = 20
	s.syncLog = func() error { return errDisk }
	answers := make(chan error, callers)
	for n := range callers {
		go func() {
			_, err := s.Write(context.Background(), step(fmt.Sprint(n), 0))
			answers <- err
		}()
	}
	unknown := 0
	for range callers {
		err := <-answers
		switch {
		case errors.Is(err, cell.ErrCommitUnknown):
			unknown++
		case !errors.Is(err, cell.ErrStore):
			t.Errorf("a write got %v", err)
		}
	}
	if unknown == 0 {
		t.Error("nobody was told that the outcome is unknown")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A write that the file does not take, because a row is in the way that should not be
// there, is no matter of those that share its transaction.
func TestOneFailsAlone(t *testing.T) {
	t.Parallel()
	s := small(t, filepath.Join(t.TempDir(), "cells.db"))
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.Write(t.Context(), step(name, 0)); err != nil {
			t.Fatal(err)
		}
	}
	err := s.update(t.Context(), func(x *tx) error {
		r, _, err := readRow(x.conn, step("b", 0).Cell)
		if err != nil {
			return err
		}
		return x.do(`INSERT INTO history (cell, head, "commit", mark) VALUES (?, 1, x'00', 0)`, func(q *sqlite.Stmt) { q.BindInt64(1, r.number) })
	})
	if err != nil {
		t.Fatal(err)
	}
	begun, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- s.update(context.Background(), func(*tx) error { close(begun); <-release; return nil })
	}()
	<-begun
	writes := []*cell.Write{step("a", 1), step("b", 1), step("c", 1), step("a", 1)}
	writes[3].Request = step("a", 2).Request // the same commit by another request
	answers := make([]error, len(writes))
	var wg sync.WaitGroup
	for i, w := range writes {
		wg.Go(func() { _, answers[i] = s.Write(context.Background(), w) })
		for n := 0; n <= i; { // until it waits
			runtime.Gosched()
			s.mu.Lock()
			n = len(s.waiting)
			s.mu.Unlock()
		}
	}
	close(release)
	wg.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if answers[0] != nil || answers[2] != nil {
		t.Errorf("those that share the transaction: %v, %v", answers[0], answers[2])
	}
	if !errors.Is(answers[1], cell.ErrStore) || errors.Is(answers[1], cell.ErrCommitUnknown) {
		t.Errorf("the one that can't be written: %v", answers[1])
	}
	if !errors.Is(answers[3], cell.ErrConflict) {
		t.Errorf("the one that is late: %v", answers[3])
	}
	if head, err := s.Head(t.Context(), step("b", 0).Cell); err != nil || head != step("b", 0).Next {
		t.Errorf("the head of the cell that can't be written: %v, %v", head, err)
	}
	if err := s.Health(); err != nil {
		t.Error(err)
	}
}
