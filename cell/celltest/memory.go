// Package celltest has what tests of cells need: a Store in memory whose operations
// can be made to fail, and the conformance suite that every Store passes.
package celltest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

// Call is an operation of a store.
type Call uint8

// The operations of stores.
const (
	CallContent Call = iota + 1
	CallHead
	CallCells
	CallHistory
	CallRequest
	CallWrite
)

func (c Call) String() string {
	names := [...]string{CallContent: "Content", CallHead: "Head", CallCells: "Cells", CallHistory: "History", CallRequest: "Request", CallWrite: "Write"}
	if c == 0 || int(c) >= len(names) {
		return "invalid"
	}
	return names[c]
}

// Fault is what happens to an operation of a Memory.
type Fault uint8

// The faults. Of a read, all but None are a failure of the store.
const (
	None        Fault = iota
	Failed            // the operation has failed and changed nothing
	UnknownLost       // a write of which nobody knows what became, and which is lost
	UnknownKept       // a write of which nobody knows what became, and which is durable
)

// Memory is a Store in memory, which checks all that section 12 asks for.
type Memory struct {
	mu       sync.RWMutex
	content  map[record.Particle]*stored
	heads    map[record.Particle]cell.Head
	history  map[record.Particle][]cell.Head
	requests map[requestKey]answered
	claims   map[record.Particle]record.Particle // from request to event
	writes   int
	closed   bool // after a write that is unknown
	plan     func(Call) Fault
}

// stored is content, which is checked when it is read for the first time.
type stored struct {
	record.Item
	checked atomic.Bool
}

type requestKey struct{ cell, request record.Particle }

// answered is a write that was made. Its head and what it said are its fingerprint.
type answered struct {
	write cell.Write // without the bytes of its items
	head  cell.Head
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{
		content:  map[record.Particle]*stored{},
		heads:    map[record.Particle]cell.Head{},
		history:  map[record.Particle][]cell.Head{},
		requests: map[requestKey]answered{},
		claims:   map[record.Particle]record.Particle{},
	}
}

// Plan has a function decide what happens to each operation from now on; nil lets all
// of them pass. The function is called by one goroutine at a time.
func (m *Memory) Plan(plan func(Call) Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan = plan
}

// Reopen is what a store needs after a write that is unknown before it takes another.
// What is durable stays.
func (m *Memory) Reopen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = false
	m.plan = nil
}

// Clone returns a store with the same content, on which nothing is planned.
func (m *Memory) Clone() *Memory {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := &Memory{
		content: maps.Clone(m.content), heads: maps.Clone(m.heads), history: map[record.Particle][]cell.Head{},
		requests: maps.Clone(m.requests), claims: maps.Clone(m.claims), writes: m.writes,
	}
	for p, h := range m.history {
		c.history[p] = slices.Clone(h)
	}
	return c
}

// Len returns how many pieces of content are stored, and how many writes have changed
// something.
func (m *Memory) Len() (items, writes int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.content), m.writes
}

// Items returns all content in the order of its particles.
func (m *Memory) Items() []record.Item {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]record.Item, 0, len(m.content))
	for _, it := range m.content {
		list = append(list, it.Item)
	}
	slices.SortFunc(list, func(a, b record.Item) int { return bytes.Compare(a.Particle[:], b.Particle[:]) })
	return list
}

// Damage replaces the bytes of content by others, which the store will find out when
// it reads them.
func (m *Memory) Damage(p record.Particle, damage func([]byte)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.content[p]
	if !ok {
		panic(fmt.Sprintf("celltest: nothing to damage at %v", p))
	}
	it := &stored{Item: old.Item} // a clone may have the old one
	it.Bytes = slices.Clone(it.Bytes)
	damage(it.Bytes)
	m.content[p] = it
}

// Rebase makes a commit the head of a cell without any check, as nobody but a hostile
// owner of the store could.
func (m *Memory) Rebase(c record.Particle, head cell.Head, items ...record.Item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range items {
		m.content[it.Particle] = &stored{Item: it}
	}
	m.heads[c] = head
}

// fate asks the plan.
func (m *Memory) fate(c Call) Fault {
	if m.plan == nil {
		return None
	}
	return m.plan(c)
}

// read begins an operation that changes nothing. The caller unlocks.
func (m *Memory) read(ctx context.Context, c Call) (unlock func(), err error) {
	m.mu.RLock()
	unlock = m.mu.RUnlock
	if m.plan != nil {
		m.mu.RUnlock()
		m.mu.Lock()
		unlock = m.mu.Unlock
	}
	if err := ctx.Err(); err != nil {
		return unlock, err
	}
	if m.fate(c) != None {
		return unlock, fmt.Errorf("%w: %v was made to fail", cell.ErrStore, c)
	}
	return unlock, nil
}

// Content implements cell.Store.
func (m *Memory) Content(ctx context.Context, p record.Particle) (record.Kind, []byte, error) {
	unlock, err := m.read(ctx, CallContent)
	defer unlock()
	if err != nil {
		return 0, nil, err
	}
	it, ok := m.content[p]
	if !ok {
		return 0, nil, fmt.Errorf("%w: no content is named %v", cell.ErrMissing, p)
	}
	if !it.checked.Load() {
		if err := it.Check(); err != nil {
			return 0, nil, err
		}
		it.checked.Store(true)
	}
	return it.Kind, it.Bytes, nil
}

// Head implements cell.Store.
func (m *Memory) Head(ctx context.Context, c record.Particle) (cell.Head, error) {
	unlock, err := m.read(ctx, CallHead)
	defer unlock()
	if err != nil {
		return cell.Head{}, err
	}
	head, ok := m.heads[c]
	if !ok {
		return cell.Head{}, fmt.Errorf("%w: no cell is named %v", cell.ErrMissing, c)
	}
	return head, nil
}

// Cells implements cell.Store.
func (m *Memory) Cells(ctx context.Context, after record.Particle, limit int) ([]cell.CellHead, error) {
	unlock, err := m.read(ctx, CallCells)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if limit < 1 || limit > cell.MaxHistory {
		return nil, fmt.Errorf("%w: a page of %d cells, expected 1 to %d", cell.ErrLimit, limit, cell.MaxHistory)
	}
	var list []cell.CellHead
	for p, head := range m.heads {
		if bytes.Compare(p[:], after[:]) > 0 {
			list = append(list, cell.CellHead{Cell: p, Head: head})
		}
	}
	slices.SortFunc(list, func(a, b cell.CellHead) int { return bytes.Compare(a.Cell[:], b.Cell[:]) })
	return list[:min(limit, len(list))], nil
}

// History implements cell.Store.
func (m *Memory) History(ctx context.Context, c record.Particle, from uint64, limit int) ([]cell.Head, error) {
	unlock, err := m.read(ctx, CallHistory)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if limit < 1 || limit > cell.MaxHistory {
		return nil, fmt.Errorf("%w: a page of %d commits, expected 1 to %d", cell.ErrLimit, limit, cell.MaxHistory)
	}
	list, ok := m.history[c]
	if !ok {
		return nil, fmt.Errorf("%w: no cell is named %v", cell.ErrMissing, c)
	}
	list = list[min(from, uint64(len(list))):]
	return slices.Clone(list[:min(limit, len(list))]), nil
}

// Request implements cell.Store.
func (m *Memory) Request(ctx context.Context, c, request record.Particle) (cell.Head, bool, error) {
	unlock, err := m.read(ctx, CallRequest)
	defer unlock()
	if err != nil {
		return cell.Head{}, false, err
	}
	a, ok := m.requests[requestKey{c, request}]
	return a.head, ok, nil
}

// Write implements cell.Store.
func (m *Memory) Write(ctx context.Context, w *cell.Write) (cell.Head, error) {
	// Whether an item is what its name says depends on nothing else.
	itemErr := check(w)

	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return cell.Head{}, err
	}
	if m.closed {
		return cell.Head{}, fmt.Errorf("%w: after a write that is unknown the store must be opened again", cell.ErrStore)
	}
	switch m.fate(CallWrite) {
	case Failed:
		return cell.Head{}, fmt.Errorf("%w: Write was made to fail", cell.ErrStore)
	case UnknownLost:
		m.closed = true
		return cell.Head{}, fmt.Errorf("%w: Write was made to be lost", cell.ErrCommitUnknown)
	case UnknownKept:
		m.closed = true
		if itemErr == nil {
			_, itemErr = m.write(w)
		}
		if itemErr != nil {
			return cell.Head{}, fmt.Errorf("%w: Write was made to be kept, and was refused: %v", cell.ErrCommitUnknown, itemErr)
		}
		return cell.Head{}, fmt.Errorf("%w: Write was made to be kept", cell.ErrCommitUnknown)
	}
	if itemErr != nil {
		return cell.Head{}, itemErr
	}
	return m.write(w)
}

// check makes sure of the bounds and the items of a write.
func check(w *cell.Write) error {
	if len(w.Items) > record.MaxItems {
		return fmt.Errorf("%w: %d items in one write, at most %d are allowed", cell.ErrLimit, len(w.Items), record.MaxItems)
	}
	if len(w.Claims) > cell.MaxClaims {
		return fmt.Errorf("%w: %d claims in one write, at most %d are allowed", cell.ErrLimit, len(w.Claims), cell.MaxClaims)
	}
	size := 0
	seen := make(map[record.Particle]struct{}, len(w.Items))
	for _, it := range w.Items {
		size += 1 + len(it.Bytes)
		if _, twice := seen[it.Particle]; twice {
			return fmt.Errorf("%w: a write with the item %v twice", cell.ErrInvalid, it.Particle)
		}
		seen[it.Particle] = struct{}{}
		if err := it.Shape(); err != nil {
			return err
		}
	}
	if size > cell.MaxWriteBytes {
		return fmt.Errorf("%w: %d bytes in one write, at most %d are allowed", cell.ErrLimit, size, cell.MaxWriteBytes)
	}
	if w.Trusted {
		return nil
	}
	return record.CheckAll(w.Items)
}

// write is section 12.2 from its second point on.
func (m *Memory) write(w *cell.Write) (cell.Head, error) {
	key := requestKey{w.Cell, w.Request}
	if a, known := m.requests[key]; known {
		if !a.same(w) {
			return cell.Head{}, fmt.Errorf("%w: the request %v of cell %v was made before, with something else", cell.ErrConflict, w.Request, w.Cell)
		}
		return a.head, nil
	}
	if err := m.closure(w); err != nil {
		return cell.Head{}, err
	}
	head, exists := m.heads[w.Cell]
	if exists != (w.Expected != nil) || exists && head != *w.Expected {
		return cell.Head{}, fmt.Errorf("%w: the head of cell %v is not the expected one", cell.ErrConflict, w.Cell)
	}
	if exists && w.Next.Index != head.Index+1 || !exists && w.Next.Index != 0 {
		return cell.Head{}, fmt.Errorf("%w: the index %d does not follow the head of cell %v", cell.ErrConflict, w.Next.Index, w.Cell)
	}
	claimed := map[record.Particle]record.Particle{}
	for _, c := range w.Claims {
		event, ok := m.claims[c.Request]
		if !ok {
			event, ok = claimed[c.Request]
		}
		if ok && event != c.Event {
			return cell.Head{}, fmt.Errorf("%w: the request %v is claimed by another event", cell.ErrConflict, c.Request)
		}
		claimed[c.Request] = c.Event
	}
	for _, it := range w.Items {
		if old, ok := m.content[it.Particle]; ok && (old.Kind != it.Kind || !bytes.Equal(old.Bytes, it.Bytes)) {
			return cell.Head{}, fmt.Errorf("%w: what is stored as %v differs from what is written", cell.ErrCorrupt, it.Particle)
		}
	}

	maps.Copy(m.claims, claimed)
	for _, it := range w.Items {
		if _, ok := m.content[it.Particle]; !ok {
			m.content[it.Particle] = &stored{Item: it}
		}
	}
	m.history[w.Cell] = append(m.history[w.Cell], w.Next)
	m.heads[w.Cell] = w.Next
	m.requests[key] = answered{remember(w), w.Next}
	m.writes++
	return w.Next, nil
}

// closure makes sure that what a write refers to is there.
func (m *Memory) closure(w *cell.Write) error {
	there := make(map[record.Particle]struct{}, len(w.Items))
	for _, it := range w.Items {
		there[it.Particle] = struct{}{}
	}
	need := func(p record.Particle, what string) error {
		if _, ok := there[p]; ok {
			return nil
		}
		if _, ok := m.content[p]; ok {
			return nil
		}
		return fmt.Errorf("%w: %s %v is neither written nor stored", cell.ErrMissing, what, p)
	}
	if err := need(w.Next.Commit, "the commit"); err != nil {
		return err
	}
	for _, it := range w.Items {
		if it.Kind != record.KindPair {
			continue
		}
		left, right := it.Pair()
		if err := need(left, "a member of a pair,"); err != nil {
			return err
		}
		if err := need(right, "a member of a pair,"); err != nil {
			return err
		}
	}
	return nil
}

// remember keeps what tells a write from others.
func remember(w *cell.Write) cell.Write {
	c := cell.Write{Cell: w.Cell, Request: w.Request, Next: w.Next, Claims: slices.Clone(w.Claims)}
	if w.Expected != nil {
		expected := *w.Expected
		c.Expected = &expected
	}
	for _, it := range w.Items {
		c.Items = append(c.Items, record.Item{Particle: it.Particle})
	}
	return c
}

// same reports whether a write is the one that was made.
func (a answered) same(w *cell.Write) bool {
	if w.Next != a.write.Next || (w.Expected == nil) != (a.write.Expected == nil) {
		return false
	}
	if w.Expected != nil && *w.Expected != *a.write.Expected {
		return false
	}
	names := func(items []record.Item) []record.Particle {
		list := make([]record.Particle, len(items))
		for i, it := range items {
			list[i] = it.Particle
		}
		slices.SortFunc(list, func(a, b record.Particle) int { return bytes.Compare(a[:], b[:]) })
		return list
	}
	return slices.Equal(names(w.Items), names(a.write.Items)) && slices.Equal(w.Claims, a.write.Claims)
}
