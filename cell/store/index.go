package store

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

// index says where content lies. New entries go to a table in memory; full tables
// become runs, and runs of a similar size are merged, both beside the writer. The file
// is what counts: the tables are made from the packs after the floor again.
type index struct {
	size int // tableSize

	mu      sync.RWMutex
	tables  []*table      // the last one takes entries
	changed chan struct{} // closed and replaced whenever a table has become a run, or could not
	trouble error         // of the last attempt

	runs  atomic.Pointer[[]*run]
	floor int64 // the last pack that the runs have; of the indexer
	packs int64 // how many packs there are up to it

	// damaged are runs, and packs that no run has, whose items nobody knows.
	damaged []error
}

// tableSize is how many entries a full table has at least.
const tableSize = 1 << 16

// maxTables is how many tables there may be before writes wait.
const maxTables = 4

func newIndex(size int) *index {
	x := &index{size: size, tables: []*table{newTable()}, changed: make(chan struct{})}
	x.runs.Store(&[]*run{})
	return x
}

// add adds the items of a new pack, and says whether a table has become full.
func (x *index) add(number int64, p *pack) (full bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.tables[len(x.tables)-1]
	t.add(number, p)
	if t.len() < x.size {
		return false
	}
	x.tables = append(x.tables, newTable())
	return true
}

// lose notes that a pack is damaged.
func (x *index) lose(number int64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tables[len(x.tables)-1].skip(number)
	x.damaged = append(x.damaged, err)
}

// oldest returns the oldest table if it is full, and how many are.
func (x *index) oldest() (*table, int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.tables[0], len(x.tables) - 1
}

// drop forgets the oldest table, now that a run has its entries.
func (x *index) drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tables = slices.Delete(x.tables, 0, 1)
	x.change()
}

// tried notes what became of the last attempt to make runs.
func (x *index) tried(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.trouble = err
	x.change()
}

// change wakes those who wait for room.
func (x *index) change() {
	close(x.changed)
	x.changed = make(chan struct{})
}

// room waits until there are not too many tables. If they can't become runs, because the
// disk is full, say, it returns why, and the next call tries again.
func (s *Store) room(ctx context.Context) error {
	x := s.index
	for again := false; ; again = true {
		x.mu.RLock()
		n, changed, trouble := len(x.tables), x.changed, x.trouble
		x.mu.RUnlock()
		switch {
		case n <= maxTables:
			return nil
		case again && trouble != nil:
			return failed(ctx, "make the index", trouble)
		}
		s.look()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.stop:
			return errClosed
		}
	}
}

// inTables appends the places of a key, the newest tables first.
func (x *index) inTables(places []place, k key) []place {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, t := range slices.Backward(x.tables) {
		places = t.find(places, k)
	}
	return places
}

// find looks content up: its pack and its place there. If whole is set its bytes are
// verified, otherwise nothing but the name. If it is not there ok is false; an error says
// that nobody knows, or that all there is of it is damaged.
func (s *Store) find(c conn, p record.Particle, whole bool) (at *pack, where place, ok bool, err error) {
	k := keyOf(&p)
	var buffer [4]place
	// What is damaged may be there once more.
	var damage error
	try := func(places []place) bool {
		for _, where = range places {
			var wrong error
			if at, ok, wrong = s.named(c, where, p); ok && whole {
				_, wrong = at.verified(where.ordinal())
				if ok = wrong == nil; !ok {
					wrong = fmt.Errorf("content %v: item %d of pack %d: %w", p, where.ordinal(), where.pack(), wrong)
				}
			}
			if ok {
				return true
			}
			if damage == nil {
				damage = wrong
			}
		}
		return false
	}
	// Tables first: what moves to a run meanwhile is found there.
	if try(s.index.inTables(buffer[:0], k)) {
		return at, where, true, nil
	}
	for again := true; again; {
		again = false
		runs := s.index.runs.Load()
		for _, r := range slices.Backward(*runs) {
			if !r.has(k) {
				continue
			}
			places, wrong := s.inRun(c, buffer[:0], r, k)
			if wrong != nil {
				// The pages of a run that was merged may be gone already.
				if again = s.index.runs.Load() != runs; again {
					break
				}
				if damage == nil {
					damage = wrong
				}
			}
			if try(places) {
				return at, where, true, nil
			}
		}
	}
	if damage == nil && len(s.index.damaged) > 0 {
		damage = s.index.damaged[0]
	}
	if damage != nil && !strings.Contains(damage.Error(), p.String()) {
		damage = fmt.Errorf("content %v may have been there: %w", p, damage)
	}
	return nil, 0, false, damage
}

// named makes sure that a place has the content that the index says. A key that leads
// to other content is either that of both, and the other content is whole, or damage.
func (s *Store) named(c conn, where place, p record.Particle) (at *pack, ok bool, err error) {
	at, err = s.pack(c, where.pack())
	if err != nil {
		return nil, false, fmt.Errorf("content %v: %w", p, err)
	}
	if where.ordinal() >= at.items() {
		return nil, false, fmt.Errorf("%w: content %v: pack %d has no item %d", cell.ErrCorrupt, p, where.pack(), where.ordinal())
	}
	if at.particle(where.ordinal()) == p {
		return at, true, nil
	}
	it, err := at.verified(where.ordinal())
	if err == nil && keyOf(&it.Particle) != keyOf(&p) {
		err = fmt.Errorf("%w: the index leads to other content", cell.ErrCorrupt)
	}
	if err != nil {
		return nil, false, fmt.Errorf("content %v: item %d of pack %d: %w", p, where.ordinal(), where.pack(), err)
	}
	return nil, false, nil
}

// inRun appends the places that a run has for a key.
func (s *Store) inRun(c conn, places []place, r *run, k key) ([]place, error) {
	for n := r.first(k); n == r.first(k) || r.may(n, k); n++ {
		data, err := readPage(c, r.page(n))
		if err != nil {
			return nil, err
		}
		i := sort.Search(pageLen(data), func(i int) bool { return pageEntry(data, i).key >= k })
		for ; i < pageLen(data); i++ {
			e := pageEntry(data, i)
			if e.key != k {
				break
			}
			places = append(places, e.place)
		}
	}
	return places, nil
}

// readPage reads and checks a page of the index.
func readPage(c conn, number int64) ([]byte, error) {
	var data []byte
	err := c.query("SELECT data FROM pages WHERE page = ?", func(q *sqlite.Stmt) { q.BindInt64(1, number) },
		func(q *sqlite.Stmt) error { data = bytes(q, 0); return nil })
	if err != nil {
		return nil, fmt.Errorf("page %d of the index: %w", number, err)
	}
	if data == nil {
		return nil, fmt.Errorf("%w: page %d of the index, of run %d, is not there", cell.ErrCorrupt, number, number>>pageBits)
	}
	return data, checkPage(number, data)
}

// pack returns a pack from the cache or the file.
func (s *Store) pack(c conn, number int64) (*pack, error) {
	if p := s.cache.get(number); p != nil {
		return p, nil
	}
	var data []byte
	err := c.query("SELECT data FROM packs WHERE pack = ?", func(q *sqlite.Stmt) { q.BindInt64(1, number) },
		func(q *sqlite.Stmt) error { data = bytes(q, 0); return nil })
	if err != nil {
		return nil, fmt.Errorf("pack %d: %w", number, err)
	}
	if data == nil {
		return nil, fmt.Errorf("%w: pack %d is not there", cell.ErrCorrupt, number)
	}
	p, err := readPack(number, data)
	if err != nil {
		return nil, err
	}
	s.cache.put(number, p)
	return p, nil
}
