package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

// content is what a write brings, checked and ready to be stored.
type content struct {
	names []record.Particle // sorted
	packs []*pack           // of what is not known to be there
	open  []need            // what was not there when it was looked for
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
// Content that is there stays, so that only what is not needs another look.
func (s *Store) prepare(ctx context.Context, items []record.Item, trusted bool, needs ...need) (*content, error) {
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
	c := &content{names: make([]record.Particle, len(items))}
	for i := range items {
		c.names[i] = items[i].Particle
		if !trusted {
			continue
		}
		if err := items[i].Shape(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.names, compareParticles)
	for i := 1; i < len(c.names); i++ {
		if c.names[i] == c.names[i-1] {
			return nil, fmt.Errorf("%w: a write with the item %v twice", cell.ErrInvalid, c.names[i])
		}
	}
	if !trusted {
		if err := record.CheckAll(items); err != nil {
			return nil, err
		}
	}
	fresh := make([]record.Item, 0, len(items))
	for i := range items {
		if !s.known.has(items[i].Particle) {
			fresh = append(fresh, items[i])
		}
		if items[i].Kind == record.KindPair {
			left, right := items[i].Pair()
			needs = append(needs, need{"a member of a pair,", left}, need{"a member of a pair,", right})
		}
	}
	c.packs = appendPacks(nil, fresh)
	for _, n := range needs {
		if !c.has(n.of) && !s.known.has(n.of) {
			c.open = append(c.open, n)
		}
	}
	if len(c.open) == 0 {
		return c, nil
	}
	err := s.reading(ctx, func(r conn) (err error) {
		c.open, err = s.absent(r, c.open)
		return err
	})
	return c, failed(ctx, "look for content", err)
}

// absent returns the needs that are not there.
func (s *Store) absent(c conn, needs []need) ([]need, error) {
	var absent []need
	for _, n := range needs {
		if s.known.has(n.of) {
			continue
		}
		_, _, ok, err := s.find(c, n.of)
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

func (c *content) has(p record.Particle) bool {
	_, ok := slices.BinarySearchFunc(c.names, p, compareParticles)
	return ok
}

func compareParticles(a, b record.Particle) int {
	if x, y := binary.BigEndian.Uint64(a[:]), binary.BigEndian.Uint64(b[:]); x != y {
		return cmp.Compare(x, y)
	}
	return slices.Compare(a[8:], b[8:])
}

// fingerprint tells a write from others with the same request.
type fingerprint [sha256.Size]byte

func fingerprintOf(cellName, request record.Particle, expected *cell.Head, next cell.Head, names []record.Particle, claims []cell.Claim) (f fingerprint) {
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
	h.Write(cellName[:])
	h.Write(request[:])
	if expected == nil {
		number(0)
	} else {
		number(1)
		head(*expected)
	}
	head(next)
	number(uint64(len(names)))
	for i := range names {
		h.Write(names[i][:])
	}
	number(uint64(len(claims)))
	for i := range claims {
		h.Write(claims[i].Request[:])
		h.Write(claims[i].Event[:])
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
	if err := s.index.room(ctx, s.stop); err != nil {
		return cell.Head{}, err
	}
	c, err := s.prepare(ctx, w.Items, w.Trusted, need{"the commit", w.Next.Commit})
	if err != nil {
		return cell.Head{}, err
	}
	print := fingerprintOf(w.Cell, w.Request, w.Expected, w.Next, c.names, w.Claims)
	err = s.update(ctx, func(t *tx) (err error) {
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
	if err := s.index.room(ctx, s.stop); err != nil {
		return err
	}
	c, err := s.prepare(ctx, items, false)
	if err != nil {
		return err
	}
	return s.update(ctx, func(t *tx) error {
		if err := t.close(c); err != nil {
			return err
		}
		return t.append(c.packs)
	})
}
