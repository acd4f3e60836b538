package cell

import (
	"context"
	"fmt"
)

// Finding is something that is wrong with a cell.
type Finding struct {
	Cell  Particle
	Index uint64 // the commit at which it was found
	Err   error
}

func (f Finding) String() string {
	return fmt.Sprintf("cell %v, commit %d: %v", f.Cell, f.Index, f.Err)
}

// Verification is how far Verify has come.
type Verification struct {
	Cells   uint64
	Commits uint64
	Items   uint64 // distinct pieces of content, each read and hashed
}

// Verify walks through every cell from its birth to its head: the chain of commits,
// their requests, and every piece of content that they refer to, whose hash is
// computed again. Progress is told after each cell. The findings are what is wrong; an
// error means that the walk itself has failed. It remembers the particle of each item,
// some 60 bytes.
func (e *Engine) Verify(ctx context.Context, progress func(Verification)) ([]Finding, Verification, error) {
	var findings []Finding
	var v Verification
	w := e.walk(ctx)
	err := e.each(ctx, func(c CellHead) error {
		w.found = func(index uint64, err error) { findings = append(findings, Finding{c.Cell, index, err}) }
		w.parent = Particle{}
		w.follow = func(p Particle) bool { return p != w.parent }
		err := w.history(c.Cell, c.Head, nil)
		v.Cells++
		v.Commits += c.Head.Index + 1
		v.Items = uint64(len(w.seen))
		if progress != nil {
			progress(v)
		}
		return err
	})
	return findings, v, err
}

// Reachable tells of every particle that a cell refers to, each once.
func (e *Engine) Reachable(ctx context.Context, each func(Particle) error) error {
	w := e.walk(ctx)
	w.requests = func(Particle, Particle, Head) error { return nil }
	if err := e.each(ctx, func(c CellHead) error {
		w.follow = func(p Particle) bool { return p != w.parent }
		return w.history(c.Cell, c.Head, nil)
	}); err != nil {
		return err
	}
	for p := range w.seen {
		if err := each(p); err != nil {
			return err
		}
	}
	return nil
}

// cellsAtOnce is how many cells are listed at a time.
const cellsAtOnce = 1000

// each goes through all cells.
func (e *Engine) each(ctx context.Context, fn func(CellHead) error) error {
	var after Particle
	for {
		list, err := e.store.Cells(ctx, after, cellsAtOnce)
		if err != nil {
			return err
		}
		for _, c := range list {
			if err := fn(c); err != nil {
				return err
			}
			after = c.Cell
		}
		if len(list) < cellsAtOnce {
			return nil
		}
	}
}
