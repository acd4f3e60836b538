package celltest

import (
	"context"
	"fmt"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

// Put implements cell.Adopter.
func (m *Memory) Put(_ context.Context, items []record.Item) error {
	if err := record.CheckAll(items); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range items {
		m.content[it.Particle] = &stored{Item: it}
	}
	return nil
}

// Adopt implements cell.Adopter.
func (m *Memory) Adopt(_ context.Context, a *cell.Adoption) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, exists := m.heads[a.Cell]; exists {
		return fmt.Errorf("%w: the cell %v exists", cell.ErrConflict, a.Cell)
	}
	for i, c := range a.Commits {
		if _, ok := m.content[c.Commit]; !ok {
			return fmt.Errorf("%w: the commit %v", cell.ErrMissing, c.Commit)
		}
		if event, ok := m.claims[c.Request]; i > 0 && ok && event != c.Event {
			return fmt.Errorf("%w: the request %v is claimed by another event", cell.ErrConflict, c.Request)
		}
	}
	for i, c := range a.Commits {
		head := cell.Head{Index: uint64(i), Commit: c.Commit}
		m.history[a.Cell] = append(m.history[a.Cell], head)
		m.heads[a.Cell] = head
		m.requests[requestKey{a.Cell, c.Request}] = answered{head: head}
		if i > 0 {
			m.claims[c.Request] = c.Event
		}
	}
	return nil
}
