package celltest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/hemera"
)

// RunStore checks that a store does what the interface promises. Each test asks open
// for an empty store; what it needs for closing that belongs to the caller's t.
func RunStore(t *testing.T, open func(t *testing.T) cell.Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s cell.Store)
	}{
		{"nothing is there at first", testEmpty},
		{"a write is there with all of its content", testWrite},
		{"a known request is answered", testRepeat},
		{"the head must be the expected one", testExpected},
		{"the index must be the next one", testIndex},
		{"what a write refers to must be there", testClosure},
		{"claims bind a request in the whole store", testClaims},
		{"a write that is refused changes nothing", testRefused},
		{"items must be what their names say", testItems},
		{"the bounds of a write", testBounds},
		{"pages of a history", testHistory},
		{"pages of cells", testCells},
		{"one of several writers to a cell wins", testRace},
		{"many cells at once", testParallel},
		{"a call that is given up", testContext},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

// blob is content of a test, the same for the same text.
func blob(text string) record.Item {
	return record.Item{Particle: hemera.Sum([]byte(text)), Kind: record.KindBlob, Bytes: []byte(text)}
}

func atom(v uint64) record.Item {
	var ids [1]record.Particle
	if err := hemera.AtomIDs(ids[:], []uint64{v}); err != nil {
		panic(err)
	}
	return record.Item{Particle: ids[0], Kind: record.KindAtom, Bytes: binary.LittleEndian.AppendUint64(nil, v)}
}

func pair(left, right record.Particle) record.Item {
	var ids [1]record.Particle
	if err := hemera.PairIDs(ids[:], [][2]record.Particle{{left, right}}); err != nil {
		panic(err)
	}
	return record.Item{Particle: ids[0], Kind: record.KindPair, Bytes: slices.Concat(left[:], right[:])}
}

// story is a cell whose commits are blobs.
type story struct {
	name string
	cell record.Particle
	head *cell.Head
}

func newStory(name string) *story { return &story{name: name, cell: blob(name + " 0").Particle} }

// next is the next write of the story; done says that it was made.
func (s *story) next(items ...record.Item) *cell.Write {
	index := uint64(0)
	if s.head != nil {
		index = s.head.Index + 1
	}
	commit := blob(fmt.Sprintf("%s %d", s.name, index))
	return &cell.Write{
		Cell: s.cell, Request: blob(fmt.Sprintf("%s request %d", s.name, index)).Particle, Expected: s.head,
		Next: cell.Head{Index: index, Commit: commit.Particle}, Items: append([]record.Item{commit}, items...),
	}
}

func (s *story) done(w *cell.Write) { s.head = &w.Next }

func (s *story) write(t *testing.T, store cell.Store, w *cell.Write) {
	t.Helper()
	head, err := store.Write(t.Context(), w)
	if err != nil {
		t.Fatalf("write %d of %s: %v", w.Next.Index, s.name, err)
	}
	if head != w.Next {
		t.Fatalf("write %d of %s: head %v, expected %v", w.Next.Index, s.name, head, w.Next)
	}
	s.done(w)
}

func refused(t *testing.T, store cell.Store, w *cell.Write, want error) {
	t.Helper()
	if head, err := store.Write(t.Context(), w); !errors.Is(err, want) {
		t.Fatalf("head %v and error %v, expected %v", head, err, want)
	}
}

func holds(t *testing.T, store cell.Store, items ...record.Item) {
	t.Helper()
	for _, it := range items {
		kind, data, err := store.Content(t.Context(), it.Particle)
		if err != nil {
			t.Fatal(err)
		}
		if kind != it.Kind || !bytes.Equal(data, it.Bytes) {
			t.Fatalf("%v is a %v %x, expected a %v %x", it.Particle, kind, data, it.Kind, it.Bytes)
		}
	}
}

func lacks(t *testing.T, store cell.Store, p record.Particle) {
	t.Helper()
	if _, _, err := store.Content(t.Context(), p); !errors.Is(err, cell.ErrMissing) {
		t.Fatalf("content %v: error %v, expected %v", p, err, cell.ErrMissing)
	}
}

func headIs(t *testing.T, store cell.Store, c record.Particle, want cell.Head) {
	t.Helper()
	if head, err := store.Head(t.Context(), c); err != nil || head != want {
		t.Fatalf("head %v and error %v, expected %v", head, err, want)
	}
}

func testEmpty(t *testing.T, s cell.Store) {
	p := blob("nothing").Particle
	lacks(t, s, p)
	if _, err := s.Head(t.Context(), p); !errors.Is(err, cell.ErrMissing) {
		t.Errorf("Head: %v, expected %v", err, cell.ErrMissing)
	}
	if _, err := s.History(t.Context(), p, 0, 1); !errors.Is(err, cell.ErrMissing) {
		t.Errorf("History: %v, expected %v", err, cell.ErrMissing)
	}
	if _, known, err := s.Request(t.Context(), p, p); err != nil || known {
		t.Errorf("Request: known %v, error %v", known, err)
	}
	if list, err := s.Cells(t.Context(), record.Particle{}, 10); err != nil || len(list) != 0 {
		t.Errorf("Cells: %v, error %v", list, err)
	}
}

func testWrite(t *testing.T, s cell.Store) {
	a := newStory("a")
	one, two := atom(1), atom(1<<63)
	both := pair(one.Particle, two.Particle)
	large := record.Item{Kind: record.KindBlob, Bytes: bytes.Repeat([]byte("0123456789"), 30_000)}
	large.Particle = hemera.Sum(large.Bytes)
	empty := blob("")
	// An atom and a blob of the same bytes are two things.
	same := blob(string(one.Bytes))
	w := a.next(one, two, both, large, empty, same)
	a.write(t, s, w)
	holds(t, s, w.Items...)
	headIs(t, s, a.cell, w.Next)
	if head, known, err := s.Request(t.Context(), a.cell, w.Request); err != nil || !known || head != w.Next {
		t.Errorf("Request: %v, known %v, error %v", head, known, err)
	}
	if _, known, err := s.Request(t.Context(), one.Particle, w.Request); err != nil || known {
		t.Errorf("the request of another cell: known %v, error %v", known, err)
	}
	// The second write has content of the first one, and refers to it.
	second := a.next(one, pair(both.Particle, large.Particle))
	second.Trusted = true
	a.write(t, s, second)
	holds(t, s, second.Items...)
	headIs(t, s, a.cell, second.Next)
}

func testRepeat(t *testing.T, s cell.Store) {
	a := newStory("a")
	birth := a.next(atom(1))
	a.write(t, s, birth)
	claim := cell.Claim{Request: blob("claimed").Particle, Event: blob("event").Particle}
	w := a.next(atom(2), atom(3))
	w.Claims = []cell.Claim{claim}
	a.write(t, s, w)
	a.write(t, s, a.next(atom(4)))
	for _, old := range []*cell.Write{birth, w} {
		if head, err := s.Write(t.Context(), old); err != nil || head != old.Next {
			t.Fatalf("write %d again: head %v, error %v", old.Next.Index, head, err)
		}
	}
	headIs(t, s, a.cell, *a.head)
	for name, change := range map[string]func(*cell.Write){
		"another next head":     func(w *cell.Write) { w.Next = cell.Head{Index: 1, Commit: birth.Next.Commit} },
		"another expected head": func(w *cell.Write) { w.Expected = &cell.Head{Index: 0, Commit: w.Next.Commit} },
		"no expected head":      func(w *cell.Write) { w.Expected = nil },
		"fewer items":           func(w *cell.Write) { w.Items = w.Items[:2] },
		"more items":            func(w *cell.Write) { w.Items = append(slices.Clone(w.Items), atom(9)) },
		"no claim":              func(w *cell.Write) { w.Claims = nil },
		"another claim":         func(w *cell.Write) { w.Claims = []cell.Claim{{Request: claim.Request, Event: claim.Request}} },
	} {
		changed := *w
		change(&changed)
		if _, err := s.Write(t.Context(), &changed); !errors.Is(err, cell.ErrConflict) {
			t.Errorf("the request with %s: %v, expected %v", name, err, cell.ErrConflict)
		}
	}
	lacks(t, s, atom(9).Particle)
	headIs(t, s, a.cell, *a.head)
}

func testExpected(t *testing.T, s cell.Store) {
	a := newStory("a")
	late := a.next()
	late.Expected = &cell.Head{Index: 0, Commit: a.cell}
	refused(t, s, late, cell.ErrConflict)
	a.write(t, s, a.next())
	born := *a.head
	a.write(t, s, a.next())
	other := a.next()
	other.Expected = &born
	refused(t, s, other, cell.ErrConflict)
	other.Expected = nil
	refused(t, s, other, cell.ErrConflict)
	other.Expected = &cell.Head{Index: a.head.Index, Commit: born.Commit}
	refused(t, s, other, cell.ErrConflict)
	headIs(t, s, a.cell, *a.head)
	a.write(t, s, a.next())
}

func testIndex(t *testing.T, s cell.Store) {
	a := newStory("a")
	first := a.next()
	first.Next.Index = 1
	refused(t, s, first, cell.ErrConflict)
	a.write(t, s, a.next())
	for _, index := range []uint64{0, 2, 1 << 63} {
		w := a.next()
		w.Next.Index = index
		refused(t, s, w, cell.ErrConflict)
	}
	headIs(t, s, a.cell, *a.head)
}

func testClosure(t *testing.T, s cell.Store) {
	a := newStory("a")
	one, absent := atom(1), atom(2)
	left, right := pair(absent.Particle, one.Particle), pair(one.Particle, absent.Particle)
	refused(t, s, a.next(one, left), cell.ErrMissing)
	refused(t, s, a.next(one, right), cell.ErrMissing)
	without := a.next(one)
	without.Items = without.Items[1:]
	refused(t, s, without, cell.ErrMissing)
	lacks(t, s, one.Particle)
	// The order of items does not matter.
	a.write(t, s, a.next(left, one, absent, right))
	a.write(t, s, a.next(pair(left.Particle, right.Particle)))
	// A commit that is stored need not be written again.
	again := a.next()
	again.Next.Commit, again.Items = one.Particle, nil
	a.write(t, s, again)
}

func testClaims(t *testing.T, s cell.Store) {
	a, b := newStory("a"), newStory("b")
	a.write(t, s, a.next())
	b.write(t, s, b.next())
	r, q, e, f := blob("r").Particle, blob("q").Particle, blob("e").Particle, blob("f").Particle
	w := a.next()
	w.Claims = []cell.Claim{{Request: r, Event: e}}
	a.write(t, s, w)
	w = b.next(atom(7))
	w.Claims = []cell.Claim{{Request: q, Event: e}, {Request: r, Event: f}}
	refused(t, s, w, cell.ErrConflict)
	lacks(t, s, atom(7).Particle)
	// The claim beside the refused one was not kept, and an equal one is no conflict.
	w.Claims = []cell.Claim{{Request: q, Event: f}, {Request: r, Event: e}}
	b.write(t, s, w)
	w = a.next()
	w.Claims = []cell.Claim{{Request: q, Event: e}}
	refused(t, s, w, cell.ErrConflict)
	w.Claims = []cell.Claim{{Request: blob("new").Particle, Event: e}, {Request: blob("new").Particle, Event: f}}
	refused(t, s, w, cell.ErrConflict)
}

func testRefused(t *testing.T, s cell.Store) {
	a := newStory("a")
	a.write(t, s, a.next())
	w := a.next(atom(1))
	w.Claims = []cell.Claim{{Request: blob("r").Particle, Event: blob("e").Particle}}
	bad := *w
	bad.Expected = &cell.Head{Index: 0, Commit: w.Next.Commit}
	refused(t, s, &bad, cell.ErrConflict)
	lacks(t, s, atom(1).Particle)
	lacks(t, s, w.Next.Commit)
	if _, known, err := s.Request(t.Context(), a.cell, w.Request); err != nil || known {
		t.Fatalf("the request of a refused write: known %v, error %v", known, err)
	}
	if list, err := s.History(t.Context(), a.cell, 0, 10); err != nil || len(list) != 1 {
		t.Fatalf("history %v, error %v", list, err)
	}
	w.Claims[0].Event = blob("another").Particle // that of the refused write was not kept
	a.write(t, s, w)
}

func testItems(t *testing.T, s cell.Store) {
	a := newStory("a")
	one, two := atom(1), atom(2)
	wrong := func(it record.Item, change func(*record.Item)) record.Item {
		it.Bytes = slices.Clone(it.Bytes)
		change(&it)
		return it
	}
	for name, it := range map[string]record.Item{
		"an atom under another name": wrong(one, func(it *record.Item) { it.Particle = two.Particle }),
		"a flipped bit of an atom":   wrong(one, func(it *record.Item) { it.Bytes[3] ^= 4 }),
		"a flipped bit of a blob":    wrong(blob("text"), func(it *record.Item) { it.Bytes[0] ^= 1 }),
		"a blob as an atom":          wrong(blob("8 bytes."), func(it *record.Item) { it.Kind = record.KindAtom }),
		"an atom as a blob":          wrong(one, func(it *record.Item) { it.Kind = record.KindBlob }),
		"an atom of 7 bytes":         wrong(one, func(it *record.Item) { it.Bytes = it.Bytes[:7] }),
		"a pair of 63 bytes":         wrong(pair(one.Particle, one.Particle), func(it *record.Item) { it.Bytes = it.Bytes[:63] }),
		"no kind":                    wrong(one, func(it *record.Item) { it.Kind = 0 }),
		"an atom that is no element": wrong(one, func(it *record.Item) { copy(it.Bytes, "\xff\xff\xff\xff\xff\xff\xff\xff") }),
	} {
		if _, err := s.Write(t.Context(), a.next(it)); !errors.Is(err, cell.ErrCorrupt) {
			t.Errorf("%s: %v, expected %v", name, err, cell.ErrCorrupt)
		}
	}
	lacks(t, s, one.Particle)
	if _, err := s.Write(t.Context(), a.next(one, two, one)); err == nil {
		t.Error("an item twice was taken")
	}
	// Whoever has just made the items is trusted with identities, not with shapes.
	w := a.next(record.Item{Particle: one.Particle, Kind: record.KindAtom, Bytes: one.Bytes[:7]})
	w.Trusted = true
	refused(t, s, w, cell.ErrCorrupt)
	a.write(t, s, a.next(one))
}

func testBounds(t *testing.T, s cell.Store) {
	a := newStory("a")
	// Hashing that much takes seconds, so the writes are trusted and the names invented.
	filled := func(n int, name string) record.Item {
		return record.Item{Particle: blob(name).Particle, Kind: record.KindBlob, Bytes: make([]byte, n)}
	}
	trusted := func(w *cell.Write) *cell.Write {
		w.Trusted = true
		return w
	}
	refused(t, s, trusted(a.next(filled(record.MaxBlob+1, "x"))), cell.ErrLimit)
	commit := len(a.next().Items[0].Bytes) + 1
	x := filled(record.MaxBlob, "x")
	refused(t, s, trusted(a.next(x, filled(record.MaxBlob-1-commit, "y"))), cell.ErrLimit)
	claims := a.next()
	for i := range cell.MaxClaims + 1 {
		claims.Claims = append(claims.Claims, cell.Claim{Request: blob(fmt.Sprint(i)).Particle})
	}
	refused(t, s, claims, cell.ErrLimit)
	claims.Claims = claims.Claims[1:]
	a.write(t, s, claims)
	b := newStory("b")
	b.write(t, s, trusted(b.next(x, filled(record.MaxBlob-2-commit, "y"))))
}

func testHistory(t *testing.T, s cell.Store) {
	a, b := newStory("a"), newStory("b")
	var all []cell.Head
	for range 25 {
		w := a.next()
		a.write(t, s, w)
		all = append(all, w.Next)
		b.write(t, s, b.next())
	}
	for from := range uint64(27) {
		for _, limit := range []int{1, 2, 24, 25, 26, cell.MaxHistory} {
			list, err := s.History(t.Context(), a.cell, from, limit)
			if err != nil {
				t.Fatal(err)
			}
			want := all[min(from, 25):min(int(from)+limit, 25)]
			if from > 25 {
				want = nil
			}
			if !slices.Equal(list, want) {
				t.Fatalf("from %d, at most %d: %v, expected %v", from, limit, list, want)
			}
		}
	}
	if list, err := s.History(t.Context(), a.cell, 1<<63+5, 10); err != nil || len(list) != 0 {
		t.Errorf("from 2^63 + 5: %v, error %v", list, err)
	}
	for _, limit := range []int{-1, 0, cell.MaxHistory + 1} {
		if _, err := s.History(t.Context(), a.cell, 0, limit); err == nil {
			t.Errorf("a page of %d was given", limit)
		}
	}
}

func testCells(t *testing.T, s cell.Store) {
	want := map[record.Particle]cell.Head{}
	for i := range 20 {
		a := newStory(fmt.Sprint("cell ", i))
		for range 1 + i%3 {
			a.write(t, s, a.next())
		}
		want[a.cell] = *a.head
	}
	for _, limit := range []int{1, 7, 20, 100} {
		got := map[record.Particle]cell.Head{}
		var after record.Particle
		for {
			list, err := s.Cells(t.Context(), after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				break
			}
			if len(list) > limit {
				t.Fatalf("%d cells on a page of %d", len(list), limit)
			}
			for _, c := range list {
				if bytes.Compare(c.Cell[:], after[:]) <= 0 {
					t.Fatalf("%v after %v", c.Cell, after)
				}
				after, got[c.Cell] = c.Cell, c.Head
			}
		}
		if len(got) != len(want) {
			t.Fatalf("pages of %d: %d cells, expected %d", limit, len(got), len(want))
		}
		for c, head := range want {
			if got[c] != head {
				t.Errorf("cell %v has the head %v, expected %v", c, got[c], head)
			}
		}
	}
}

func testRace(t *testing.T, s cell.Store) {
	a := newStory("a")
	a.write(t, s, a.next())
	for round := range 10 {
		var wg sync.WaitGroup
		var won atomic.Int32
		var winner atomic.Pointer[cell.Write]
		for i := range 8 {
			w := a.next(atom(uint64(100*round + i)))
			w.Request = blob(fmt.Sprintf("round %d, writer %d", round, i)).Particle
			w.Next.Commit = atom(uint64(100*round + i)).Particle
			wg.Go(func() {
				switch _, err := s.Write(context.Background(), w); {
				case err == nil:
					won.Add(1)
					winner.Store(w)
				case !errors.Is(err, cell.ErrConflict):
					t.Errorf("%v, expected %v", err, cell.ErrConflict)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d of 8 writers have won", won.Load())
		}
		a.done(winner.Load())
		headIs(t, s, a.cell, *a.head)
	}
}

func testParallel(t *testing.T, s cell.Store) {
	var wg sync.WaitGroup
	stories := make([]*story, 16)
	for i := range stories {
		stories[i] = newStory(fmt.Sprint("cell ", i))
		wg.Go(func() {
			a := stories[i]
			for k := range 10 {
				w := a.next(atom(uint64(k))) // all have that in common
				w.Claims = []cell.Claim{{Request: w.Request, Event: w.Next.Commit}}
				if head, err := s.Write(context.Background(), w); err != nil || head != w.Next {
					t.Errorf("write %d of %s: %v, %v", k, a.name, head, err)
					return
				}
				a.done(w)
				if head, err := s.Head(context.Background(), a.cell); err != nil || head != w.Next {
					t.Errorf("head of %s: %v, %v, expected %v", a.name, head, err, w.Next)
				}
			}
		})
	}
	wg.Wait()
	for _, a := range stories {
		list, err := s.History(t.Context(), a.cell, 0, 100)
		if err != nil || len(list) != 10 || list[9] != *a.head {
			t.Errorf("history of %s: %d commits, error %v", a.name, len(list), err)
		}
	}
}

func testContext(t *testing.T, s cell.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := newStory("a")
	w := a.next()
	if _, err := s.Write(ctx, w); err == nil {
		// It may be durable before anybody looks; then it must be there.
		headIs(t, s, a.cell, w.Next)
		return
	}
	if _, err := s.Head(ctx, a.cell); errors.Is(err, cell.ErrMissing) {
		t.Error("a call that was given up looks like absence")
	}
	a.write(t, s, w)
}
