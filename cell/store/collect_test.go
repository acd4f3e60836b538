package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

// commits makes a cell of n commits, each a blob with more content beside it.
func commits(t testing.TB, s *Store, name string, n, more int) (c record.Particle, list []cell.Head, beside []record.Item) {
	t.Helper()
	var head *cell.Head
	for i := range n {
		items := blobs(fmt.Sprint(name, " ", i), 1+more)
		w := &cell.Write{Request: items[0].Particle, Expected: head, Next: cell.Head{Index: uint64(i), Commit: items[0].Particle}, Items: items}
		if i == 0 {
			c = items[0].Particle
		}
		w.Cell = c
		w.Claims = []cell.Claim{{Request: items[0].Particle, Event: items[more].Particle}}
		if _, err := s.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		list = append(list, w.Next)
		beside = append(beside, items[1:]...)
		head = &w.Next
	}
	return c, list, beside
}

func TestCollect(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cells.db")
	s := small(t, path)
	c, list, beside := commits(t, s, "a", 50, 20)
	lone := blobs("lone", 500)
	if err := s.Put(t.Context(), lone); err != nil {
		t.Fatal(err)
	}
	before, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keep := beside[:len(beside)/2]
	reachable := func(visit func(record.Particle) error) error {
		for _, h := range list {
			if err := visit(h.Commit); err != nil {
				return err
			}
		}
		for _, it := range keep {
			if err := visit(it.Particle); err != nil {
				return err
			}
		}
		return nil
	}
	errStop := errors.New("stop")
	for name, bad := range map[string]func(visit func(record.Particle) error) error{
		"a walk that fails": func(visit func(record.Particle) error) error { return errors.Join(reachable(visit), errStop) },
		"missing content":   func(visit func(record.Particle) error) error { return visit(blobs("no", 1)[0].Particle) },
	} {
		if _, err := s.Collect(t.Context(), bad); err == nil {
			t.Errorf("%s: collected", name)
		}
	}
	have(t, s, lone)
	done, err := s.Collect(t.Context(), reachable)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(len(lone) + len(beside) - len(keep)); done.Particles != want {
		t.Errorf("%d particles were removed, expected %d", done.Particles, want)
	}
	check := func(s *Store) {
		t.Helper()
		have(t, s, keep)
		sound(t, s)
		for _, it := range append(lone, beside[len(keep):]...) {
			if _, _, err := s.Content(t.Context(), it.Particle); !errors.Is(err, cell.ErrMissing) {
				t.Fatalf("collected content: %v", err)
			}
		}
		if got, err := s.History(t.Context(), c, 0, 100); err != nil || len(got) != len(list) {
			t.Errorf("history %v, error %v", got, err)
		}
		n, err := s.Stats(t.Context())
		if err != nil || n.Particles != before.Particles-done.Particles || n.Bytes != before.Bytes-done.Bytes || n.Cells != 1 {
			t.Errorf("stats %+v, before %+v, removed %+v, error %v", n, before, done, err)
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = small(t, path)
	check(s)
	// What was removed can be written again.
	if err := s.Put(t.Context(), lone); err != nil {
		t.Fatal(err)
	}
	have(t, s, lone)
}

func TestCollectGivesTheDiskBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cells.db")
	s := small(t, path)
	_, list, _ := commits(t, s, "a", 3, 1)
	for n := range 40 {
		if err := s.Put(t.Context(), blobs(fmt.Sprint(n), 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	s = small(t, path)
	_, err := s.Collect(t.Context(), func(visit func(record.Particle) error) error {
		for _, h := range list {
			if err := visit(h.Commit); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if after := size(); after > before/10 {
		t.Errorf("%d bytes, and %d after the collection", before, after)
	}
}

// A collection that is cut short anywhere leaves everything that is reachable.
func TestCollectCutShort(t *testing.T) {
	t.Parallel()
	errCut := errors.New("cut")
	for cut := range 12 {
		path := filepath.Join(t.TempDir(), "cells.db")
		s := small(t, path)
		_, list, beside := commits(t, s, "a", 40, 20)
		lone := blobs("lone", 300)
		if err := s.Put(t.Context(), lone); err != nil {
			t.Fatal(err)
		}
		settled(t, s)
		c := &collecting{s: s, live: map[int64]*[packItems / 64]uint64{}}
		for _, h := range list {
			if err := c.visit(t.Context(), h.Commit); err != nil {
				t.Fatal(err)
			}
		}
		for _, it := range beside {
			if err := c.visit(t.Context(), it.Particle); err != nil {
				t.Fatal(err)
			}
		}
		left := cut
		s.tidying.Lock()
		err := c.run(t.Context(), func(fn func(*tx) error) error {
			if left--; left < 0 {
				return errCut
			}
			return s.update(t.Context(), fn)
		}, new(Collected))
		s.tidying.Unlock()
		if err == nil && cut < 2 || err != nil && !errors.Is(err, errCut) {
			t.Fatalf("cut after %d transactions: %v", cut, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = small(t, path)
		have(t, s, beside)
		sound(t, s)
		settled(t, s)
		have(t, s, beside)
		sound(t, s)
	}
}

func TestEach(t *testing.T) {
	t.Parallel()
	s := small(t, filepath.Join(t.TempDir(), "cells.db"))
	want := map[record.Particle]bool{}
	for n := range 5 {
		items := blobs(fmt.Sprint(n), 400)
		if err := s.Put(t.Context(), items); err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			want[it.Particle] = true
		}
	}
	err := s.Each(t.Context(), func(it record.Item) error {
		if !want[it.Particle] {
			t.Errorf("%v comes unexpected", it.Particle)
		}
		delete(want, it.Particle)
		return it.Check()
	})
	if err != nil || len(want) > 0 {
		t.Errorf("%d items were left out, error %v", len(want), err)
	}
	errStop := errors.New("stop")
	if err := s.Each(t.Context(), func(record.Item) error { return errStop }); !errors.Is(err, errStop) {
		t.Errorf("%v, expected %v", err, errStop)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Each(ended, func(record.Item) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected %v", err, context.Canceled)
	}
}
