package store_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/cell/store"
)

var flips = flag.Int("flips", 120, "how many bits TestFlippedBits flips anywhere in a store")

// small makes a closed store of two cells and returns its bytes.
func small(t *testing.T, path string) (sagas []*saga, database []byte) {
	t.Helper()
	st := openAt(t, path)
	sagas = []*saga{newSaga("a", 8), newSaga("b", 3)}
	for i := range 4 {
		for _, s := range sagas {
			s.tell(t, st, i, i+1)
		}
	}
	mustClose(t, st)
	im := readImage(t, path)
	if len(im.log) > 0 {
		t.Fatalf("a closed store has a log of %d bytes", len(im.log))
	}
	return sagas, im.database
}

// A bit that is flipped in a particle, or in its name beside it, makes reading it fail,
// and the error names it. Nothing else is taken for absent.
func TestFlippedParticles(t *testing.T) {
	t.Parallel()
	path := place(t)
	sagas, database := small(t, path)
	var items []record.Item
	for _, s := range sagas {
		for _, w := range s.writes[:4] {
			items = append(items, w.Items...)
		}
	}
	random := rand.New(rand.NewPCG(6, 7))
	tried := 0
	for k, it := range items {
		if it.Kind != record.KindPair && len(it.Bytes) < 16 {
			continue // too short to be found for certain
		}
		at := bytes.Index(database, it.Bytes)
		if at < 0 || bytes.Contains(database[at+1:], it.Bytes) {
			continue // it lies on two pages, or twice
		}
		tried++
		damaged := bytes.Clone(database)
		damaged[at+random.IntN(len(it.Bytes))] ^= 1 << random.IntN(8)
		image{database: damaged}.lay(t, path)
		st := openAt(t, path)
		_, _, err := st.Content(t.Context(), it.Particle)
		if !errors.Is(err, cell.ErrCorrupt) || !strings.Contains(err.Error(), it.Particle.String()) {
			t.Fatalf("item %d, a %v, after a flipped bit: %v", k, it.Kind, err)
		}
		other := items[(k+1)%len(items)]
		if other.Particle != it.Particle {
			if err := has(t.Context(), st, other); err != nil && !errors.Is(err, cell.ErrCorrupt) {
				t.Fatalf("the item after the damaged one: %v", err)
			}
		}
		mustClose(t, st)
	}
	if tried < 20 {
		t.Fatalf("only %d items were damaged", tried)
	}
}

// A bit that is flipped anywhere in the file leads to the truth or to an error. Content is
// never taken for absent; where SQLite takes a row of something else for absent, verifying
// finds it.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	path := place(t)
	sagas, database := small(t, path)
	random := rand.New(rand.NewPCG(8, 9))
	noticed := 0
	for range *flips {
		at, bit := random.IntN(len(database)), random.IntN(8)
		damaged := bytes.Clone(database)
		damaged[at] ^= 1 << bit
		image{database: damaged}.lay(t, path)
		st, err := store.Open(t.Context(), store.Options{Path: path})
		if err != nil {
			noticed++
			continue
		}
		var failed error
		for _, s := range sagas {
			err := s.truth(t, st)
			if errors.Is(err, errLie) {
				t.Errorf("byte %d of page %d, bit %d: %v", at%pageSize, at/pageSize, bit, err)
			}
			failed = errors.Join(failed, err)
		}
		if failed != nil {
			noticed++
			if findings, err := st.Verify(t.Context(), nil); err == nil && len(findings) == 0 {
				t.Errorf("byte %d of page %d, bit %d: nothing was found, but %v", at%pageSize, at/pageSize, bit, failed)
			}
		}
		// Closing writes to the database, which may be what the damage prevents.
		_ = st.Close()
	}
	if noticed == 0 {
		t.Error("no flipped bit was noticed at all")
	}
}

var errLie = errors.New("an answer that is not true")

// truth reads everything of a saga with four commits, and returns the first error.
func (s *saga) truth(t *testing.T, st *store.Store) error {
	ctx := t.Context()
	var failed error
	for i := range 4 {
		w := s.write(uint64(i))
		for _, it := range w.Items {
			kind, data, err := st.Content(ctx, it.Particle)
			switch {
			case errors.Is(err, cell.ErrMissing):
				return fmt.Errorf("%w: %v is absent", errLie, it.Particle)
			case err != nil:
				failed = err
			case kind != it.Kind || !bytes.Equal(data, it.Bytes):
				return fmt.Errorf("%w: %v is %x", errLie, it.Particle, data)
			}
		}
		at, known, err := st.Request(ctx, w.Cell, w.Request)
		switch {
		case err != nil:
			failed = err
		case !known:
			failed = fmt.Errorf("request %d is not known", i)
		case at != w.Next:
			return fmt.Errorf("%w: request %d has led to %v", errLie, i, at)
		}
	}
	head, err := st.Head(ctx, s.cell())
	if err == nil && head != s.write(3).Next {
		return fmt.Errorf("%w: the head is %v", errLie, head)
	}
	page, pageErr := st.History(ctx, s.cell(), 0, 10)
	if pageErr != nil {
		return errors.Join(failed, err, pageErr)
	}
	for i, h := range page {
		if i > 3 || h != s.write(uint64(i)).Next {
			return fmt.Errorf("%w: commit %d is %v", errLie, i, h)
		}
	}
	if len(page) < 4 {
		return fmt.Errorf("%w: a history of %d commits", errLie, len(page))
	}
	return errors.Join(failed, err)
}

// A store that ends in the middle is refused, or its reads fail.
func TestCutDatabase(t *testing.T) {
	t.Parallel()
	path := place(t)
	sagas, database := small(t, path)
	for length := pageSize; length < len(database); length += pageSize {
		if err := os.WriteFile(path, database[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(t.Context(), store.Options{Path: path})
		if err != nil {
			continue
		}
		failed := false
		for _, s := range sagas {
			err := s.truth(t, st)
			failed = failed || err != nil
			if errors.Is(err, errLie) {
				t.Errorf("cut to %d bytes: %v", length, err)
			}
		}
		if !failed {
			t.Errorf("cut to %d bytes of %d, and everything is there", length, len(database))
		}
		_ = st.Close()
	}
}
