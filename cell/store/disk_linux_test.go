package store_test

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/store"
)

// A full disk refuses writes, and nothing else; when there is room again writing goes
// on, without opening the store anew unless an outcome became unknown.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "cells.db")
	st := openAt(t, path)
	s := newSaga("s", 50)
	var refusal error
	n := 0
	for ; refusal == nil; n++ {
		if n > 1000 {
			t.Fatal("the disk does not become full")
		}
		_, refusal = st.Write(t.Context(), s.write(uint64(n)))
	}
	n--
	if !errors.Is(refusal, cell.ErrStore) && !errors.Is(refusal, cell.ErrCommitUnknown) {
		t.Fatalf("the refusal is %v", refusal)
	}
	unknown := errors.Is(refusal, cell.ErrCommitUnknown)
	if !unknown {
		s.mustCheck(t, st, n-1)
		if _, err := st.Write(t.Context(), s.write(uint64(n))); err == nil {
			t.Error("the disk was full, and now takes the same write")
		}
	}
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	if unknown {
		if err := st.Close(); err != nil {
			t.Log(err)
		}
		st = openAt(t, path)
		n = s.mustCheck(t, st, n-1)
	}
	s.tell(t, st, n, n+20)
	s.mustCheck(t, st, n+19)
	mustClose(t, st)
	st = openAt(t, path)
	s.mustCheck(t, st, n+19)
	mustBeClean(t, st)
	mustClose(t, st)
}

// Where there is no room for a store none can be opened, and the error says so.
func TestNoRoomToOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	_, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "cells.db")})
	if !errors.Is(err, store.ErrUnwritable) {
		t.Fatalf("got %v", err)
	}
}

// A store on media that can't be written is refused.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "cells.db")
	mustClose(t, openAt(t, path))
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, "size=4m"); err != nil {
		t.Fatal(err)
	}
	if st, err := store.Open(t.Context(), store.Options{Path: path}); err == nil {
		t.Error("a store that can't be written was opened", st.Close())
	}
}
