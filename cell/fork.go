package cell

import (
	"context"
	"fmt"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// Fork is a new definition for a cell.
type Fork struct {
	Source    []byte // in Rune
	Map       []byte // a program whose event is the state, and whose value the new one; nil keeps it
	Nonce     [32]byte
	StepLimit uint64
	Acts      []uint64
}

// Fork makes a cell that goes on from the state of another one with another definition.
// The old cell is its parent, and stays as it is. The errors are those of Create, and
// ErrBusy while the old cell has an input, ErrRuntime where the map fails or asks its
// host for something, and ErrBudget for steps beyond the limit.
func (e *Engine) Fork(ctx context.Context, parent Particle, f Fork) (Particle, Head, error) {
	var state nox.Noun
	err := e.on(ctx, parent, func(at *slot) error {
		if at.state.input != nil {
			return fmt.Errorf("%w: the state of cell %v may still change", ErrBusy, parent)
		}
		state = at.state.noun
		return nil
	})
	if err != nil {
		return Particle{}, Head{}, err
	}
	if f.Map != nil {
		if state, err = mapped(state, f.Map); err != nil {
			return Particle{}, Head{}, err
		}
	}
	return e.Create(ctx, Birth{Source: f.Source, Initial: state, Nonce: f.Nonce, StepLimit: f.StepLimit, Acts: f.Acts, Parent: &parent})
}

// mapped is a state after a program.
func mapped(state nox.Noun, source []byte) (nox.Noun, error) {
	program, err := rune.Compile(source)
	if err != nil {
		return nox.Noun{}, runtimeError(fmt.Errorf("map: %w", err))
	}
	m, err := machine.Load(program, machine.Input{State: state, Event: state}, machine.MaxSteps)
	if err != nil {
		return nox.Noun{}, runtimeError(fmt.Errorf("map: %w", err))
	}
	m.Trace(program.Map)
	result, err := m.Run(machine.MaxSteps)
	if err != nil {
		return nox.Noun{}, runtimeError(fmt.Errorf("map: %w", err))
	}
	switch result.Status {
	case machine.Done:
		return result.Value, nil
	case machine.Yielded:
		return nox.Noun{}, fmt.Errorf("%w: the map has not ended after %d steps", ErrBudget, machine.MaxSteps)
	}
	return nox.Noun{}, fmt.Errorf("%w: the map asks for an act (%s), and a map has to compute its value alone", ErrRuntime, rune.ActName(result.Tag))
}
