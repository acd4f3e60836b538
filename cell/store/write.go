package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/hemera"
)

// content is what a write brings, checked and ready to be stored.
type content struct {
	names names
	packs []*pack // of what is not known to be there
	open  []need  // what was not there when it was looked for
	err   error   // of looking
}

// size is how many bytes it takes.
func (c *content) size() (n int) {
	for _, p := range c.packs {
		n += len(p.data)
	}
	return n
}

// names is a set of particles, each with its slot or in one after it.
type names struct {
	list  []record.Particle
	slots []uint32 // 1 + the number of a particle; 0 is free
	shift int
}

func newNames(n int) *names {
	width := max(3, bits.Len(uint(n))+1)
	return &names{make([]record.Particle, 0, n), make([]uint32, 1<<width), 64 - width}
}

// slot is that of a particle, or the free one for it.
func (n *names) slot(p *record.Particle) *uint32 {
	at := uint64(keyOf(p)) * mixer >> n.shift
	for n.slots[at] != 0 && n.list[n.slots[at]-1] != *p {
		at = (at + 1) & uint64(len(n.slots)-1)
	}
	return &n.slots[at]
}

func (n *names) has(p *record.Particle) bool { return *n.slot(p) != 0 }

// add is false if the particle was there.
func (n *names) add(p *record.Particle) bool {
	slot := n.slot(p)
	if *slot != 0 {
		return false
	}
	n.list = append(n.list, *p)
	*slot = uint32(len(n.list))
	return true
}

// need is content that must be there.
type need struct {
	what string
	of   record.Particle
}

func (n need) missing() error {
	return fmt.Errorf("%w: %s %v is neither written nor stored", cell.ErrMissing, n.what, n.of)
}

// prepare checks items in the caller's goroutine (section 12.2, points 1 and 3).
// Content that is there stays, so that only what is not needs another look. The commit
// of a write is content that must be there too.
func (s *Store) prepare(ctx context.Context, items []record.Item, trusted bool, commit *record.Particle) (*content, error) {
	if len(items) > record.MaxItems {
		return nil, fmt.Errorf("%w: %d items in one write, at most %d are allowed", cell.ErrLimit, len(items), record.MaxItems)
	}
	size := len(items)
	for _, it := range items {
		size += len(it.Bytes)
	}
	if size > cell.MaxWriteBytes {
		return nil, fmt.Errorf("%w: %d bytes in one write, at most %d are allowed", cell.ErrLimit, size, cell.MaxWriteBytes)
	}
	c := &content{names: *newNames(len(items))}
	for i := range items {
		it := &items[i]
		if !c.names.add(&it.Particle) {
			return nil, fmt.Errorf("%w: a write with the item %v twice", cell.ErrInvalid, it.Particle)
		}
		if trusted {
			if err := it.Shape(); err != nil {
				return nil, err
			}
		}
	}
	if !trusted {
		if err := record.CheckAll(items); err != nil {
			return nil, err
		}
	}
	needed := func(what string, p record.Particle) {
		if !c.names.has(&p) && !s.known.has(p) {
			c.open = append(c.open, need{what, p})
		}
	}
	if commit != nil {
		needed("the commit", *commit)
	}
	for i := range items {
		if items[i].Kind == record.KindPair {
			left, right := items[i].Pair()
			needed("a member of a pair,", left)
			needed("a member of a pair,", right)
		}
	}
	fresh := items
	look := !trusted || len(items) > steadyItems
	if len(c.open) > 0 || look {
		err := s.reading(ctx, func(r conn) error {
			if look {
				fresh = s.fresh(r, items)
			}
			c.open, c.err = s.absent(r, c.open)
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	c.packs = appendPacks(nil, fresh)
	return c, nil
}

// steadyItems is how many items a commit has at most that is made by a Builder which
// knows the constants of the store. One with more is the first of its process, and
// brings them again.
const steadyItems = 256

// fresh returns the items that are not there, or not whole. Whoever makes them with a
// Builder leaves out what is known already; others may bring everything again. What
// can't be read is stored once more, and found again by that.
func (s *Store) fresh(c conn, items []record.Item) []record.Item {
	fresh := make([]record.Item, 0, len(items))
	for _, it := range items {
		if at, ordinal, ok := s.cache.near.find(&it.Particle); ok {
			if _, err := at.verified(ordinal); err == nil {
				continue
			}
		}
		at, where, ok, err := s.find(c, it.Particle, true)
		if !ok || err != nil {
			fresh = append(fresh, it)
			continue
		}
		s.cache.near.add(where.pack(), at)
	}
	return fresh
}

// absent returns the needs that are not there.
func (s *Store) absent(c conn, needs []need) ([]need, error) {
	var absent []need
	for _, n := range needs {
		if s.known.has(n.of) {
			continue
		}
		_, _, ok, err := s.find(c, n.of, false)
		switch {
		case err != nil:
			return nil, err
		case ok:
			s.known.add(n.of)
		default:
			absent = append(absent, n)
		}
	}
	return absent, nil
}

// close makes sure that everything is there which was not, in the transaction.
func (t *tx) close(c *content) error {
	if c.err != nil {
		return failed(context.Background(), "look for content", c.err)
	}
	if len(c.open) == 0 {
		return nil
	}
	written := map[record.Particle]struct{}{} // by others in this transaction
	for _, p := range t.packs {
		for i := range p.items() {
			written[p.particle(i)] = struct{}{}
		}
	}
	open := slices.DeleteFunc(slices.Clone(c.open), func(n need) bool { _, ok := written[n.of]; return ok })
	absent, err := t.s.absent(t.conn, open)
	if err != nil {
		return failed(context.Background(), "look for content", err)
	}
	if len(absent) > 0 {
		return absent[0].missing()
	}
	return nil
}

func compareParticles(a, b record.Particle) int { return slices.Compare(a[:], b[:]) }

// orderedName is a particle with its first eight bytes, which nearly always tell where
// it belongs.
type orderedName struct {
	head uint64
	name *record.Particle
}

// fingerprint tells a write from others with the same request.
type fingerprint [sha256.Size]byte

func fingerprintOf(w *cell.Write, names []record.Particle) (f fingerprint) {
	h := sha256.New()
	number := func(n uint64) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
	head := func(x cell.Head) {
		number(x.Index)
		h.Write(x.Commit[:])
	}
	h.Write(w.Cell[:])
	h.Write(w.Request[:])
	if w.Expected == nil {
		number(0)
	} else {
		number(1)
		head(*w.Expected)
	}
	head(w.Next)
	number(uint64(len(names)))
	order := make([]orderedName, len(names))
	for i := range names {
		order[i] = orderedName{binary.BigEndian.Uint64(names[i][:]), &names[i]}
	}
	slices.SortFunc(order, func(a, b orderedName) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return compareParticles(*a.name, *b.name)
	})
	sorted := make([]byte, 0, len(names)*hemera.Size)
	for _, o := range order {
		sorted = append(sorted, o.name[:]...)
	}
	h.Write(sorted)
	number(uint64(len(w.Claims)))
	for i := range w.Claims {
		h.Write(w.Claims[i].Request[:])
		h.Write(w.Claims[i].Event[:])
	}
	h.Sum(f[:0])
	return f
}

// Write implements cell.Store.
func (s *Store) Write(ctx context.Context, w *cell.Write) (head cell.Head, err error) {
	if err := ctx.Err(); err != nil {
		return cell.Head{}, err
	}
	if len(w.Claims) > cell.MaxClaims {
		return cell.Head{}, fmt.Errorf("%w: %d claims in one write, at most %d are allowed", cell.ErrLimit, len(w.Claims), cell.MaxClaims)
	}
	if err := s.Health(); err != nil {
		return cell.Head{}, err
	}
	s.writes.RLock()
	defer s.writes.RUnlock()
	if err := s.room(ctx); err != nil {
		return cell.Head{}, err
	}
	c, err := s.prepare(ctx, w.Items, w.Trusted, &w.Next.Commit)
	if err != nil {
		return cell.Head{}, err
	}
	print := fingerprintOf(w, c.names.list)
	err = s.updateSized(ctx, c.size(), func(t *tx) (err error) {
		head, err = t.write(w, c, print)
		return err
	})
	if err != nil {
		return cell.Head{}, err
	}
	return head, nil
}

// write is one write, in the order of section 12.2 from its second point on. Nothing
// is written before everything was asked.
func (t *tx) write(w *cell.Write, c *content, print fingerprint) (cell.Head, error) {
	r, exists, err := readRow(t.conn, w.Cell)
	if err != nil {
		return cell.Head{}, failed(context.Background(), "read a head", err)
	}
	if exists {
		a, known, err := readRequest(t.conn, r.number, w.Request)
		switch {
		case err != nil:
			return cell.Head{}, failed(context.Background(), "read a request", err)
		case known && !a.is(print, w.Next):
			return cell.Head{}, fmt.Errorf("%w: the request %v of cell %v was made before, with something else", cell.ErrConflict, w.Request, w.Cell)
		case known:
			return a.head, nil
		}
	}
	if err := t.close(c); err != nil {
		return cell.Head{}, err
	}
	switch {
	case exists && w.Expected == nil:
		return cell.Head{}, fmt.Errorf("%w: cell %v exists", cell.ErrConflict, w.Cell)
	case !exists && w.Expected != nil:
		return cell.Head{}, fmt.Errorf("%w: cell %v does not exist", cell.ErrConflict, w.Cell)
	case exists && r.head != *w.Expected:
		return cell.Head{}, fmt.Errorf("%w: the head of cell %v is commit %d, %v, and not %d, %v", cell.ErrConflict, w.Cell, r.head.Index, r.head.Commit, w.Expected.Index, w.Expected.Commit)
	case exists && w.Next.Index != r.head.Index+1 || !exists && w.Next.Index != 0:
		return cell.Head{}, fmt.Errorf("%w: the index %d does not follow the head of cell %v", cell.ErrConflict, w.Next.Index, w.Cell)
	}
	claims, err := t.unclaimed(w.Claims)
	if err != nil {
		return cell.Head{}, err
	}
	r.cell = w.Cell
	if err := t.append(c.packs); err != nil {
		return cell.Head{}, err
	}
	for _, c := range claims {
		if err := t.claim(c); err != nil {
			return cell.Head{}, err
		}
	}
	if err := t.head(&r, exists, w.Next); err != nil {
		return cell.Head{}, err
	}
	return w.Next, t.commit(r.number, w.Next, w.Request, print)
}

// unclaimed returns the claims that are new, each once.
func (t *tx) unclaimed(claims []cell.Claim) ([]cell.Claim, error) {
	fresh := make([]cell.Claim, 0, len(claims))
	for _, c := range claims {
		event, claimed, err := readClaim(t.conn, c.Request)
		if err != nil {
			return nil, failed(context.Background(), "read a claim", err)
		}
		if !claimed {
			fresh = append(fresh, c)
		} else if event != c.Event {
			return nil, taken(c)
		}
	}
	slices.SortFunc(fresh, func(a, b cell.Claim) int { return compareParticles(a.Request, b.Request) })
	for i := 1; i < len(fresh); i++ {
		if fresh[i].Request == fresh[i-1].Request && fresh[i].Event != fresh[i-1].Event {
			return nil, taken(fresh[i])
		}
	}
	return slices.Compact(fresh), nil
}

func taken(c cell.Claim) error {
	return fmt.Errorf("%w: the request %v is claimed by another event", cell.ErrConflict, c.Request)
}

// Put stores content that no cell refers to yet. Members of pairs are among the items
// or in the store. It is durable when Put returns. The error wraps cell.ErrMissing,
// cell.ErrLimit, cell.ErrInvalid, cell.ErrCorrupt, cell.ErrStore or
// cell.ErrCommitUnknown.
func (s *Store) Put(ctx context.Context, items []record.Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.writes.RLock()
	defer s.writes.RUnlock()
	if err := s.room(ctx); err != nil {
		return err
	}
	c, err := s.prepare(ctx, items, false, nil)
	if err != nil {
		return err
	}
	return s.updateSized(ctx, c.size(), func(t *tx) error {
		if err := t.close(c); err != nil {
			return err
		}
		return t.append(c.packs)
	})
}
