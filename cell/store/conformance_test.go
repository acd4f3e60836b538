package store_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/store"
)

// open opens the store of a path until the test ends.
func open(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStoreIsAStore(t *testing.T) {
	t.Parallel()
	celltest.RunStore(t, func(t *testing.T) cell.Store { return open(t, filepath.Join(t.TempDir(), "cells.db")) })
}
