package cell

import (
	"container/list"
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/rune"
)

// Options of an engine. The zero value is right for a store of local cells whose acts
// are all denied.
type Options struct {
	// Ward decides acts; nil denies all of them.
	Ward Ward
	// Cells is how many cells are kept in memory between two calls; 0 means 16,384.
	// They take 64 MiB at most: there are fewer if they are large.
	Cells int
}

// Engine does what can be done to cells. Its methods may be called by any number of
// goroutines; those about one cell take turns.
type Engine struct {
	store    Store
	ward     Ward
	suite    *record.Suite
	memo     *record.Memo
	sealing  sealing
	programs programs
	underway underway

	active atomic.Int32 // calls that have their turn

	mu     sync.Mutex
	slots  map[Particle]*slot
	recent *list.List // of slots that nobody uses, the last used one in front
	weight int        // of those
	keep   int

	aheads [maxAhead]*prepared // by age, in a ring
	oldest int
}

// slot is the turn of a cell, and what is known of it from the last one.
type slot struct {
	cell  Particle
	turn  sync.Mutex
	state *state // nil if it must be read
	ahead atomic.Pointer[prepared]

	users  int
	place  *list.Element // in recent, if there are no users
	weight int           // in bytes, about, while it is in recent
}

// New returns an engine on a store that nobody else writes to.
func New(store Store, o Options) *Engine {
	suite := record.Local()
	e := &Engine{
		store: store, ward: o.Ward, suite: suite, memo: record.NewMemo(suite),
		sealing: sealing{workers: runtime.GOMAXPROCS(0)},
		slots:   map[Particle]*slot{}, recent: list.New(), keep: o.Cells,
	}
	if e.ward == nil {
		e.ward = denyAll{}
	}
	if e.keep <= 0 {
		e.keep = 1 << 14
	}
	return e
}

// take waits for the turn of a cell. The state of a slot is set only during a turn.
func (e *Engine) take(cell Particle) *slot {
	e.mu.Lock()
	s := e.slots[cell]
	if s == nil {
		s = &slot{cell: cell}
		e.slots[cell] = s
	}
	if s.place != nil {
		e.forget(s)
	}
	s.users++
	e.mu.Unlock()
	s.turn.Lock()
	e.active.Add(1)
	return s
}

// release ends a turn, and forgets the cells that were not used for longest.
func (e *Engine) release(s *slot) {
	e.active.Add(-1)
	known, weight := s.state != nil, s.state.weight()
	s.turn.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	if !known {
		delete(e.slots, s.cell)
		return
	}
	s.place, s.weight = e.recent.PushFront(s), weight
	e.weight += weight
	for e.recent.Len() > e.keep || e.weight > maxWeight {
		last := e.recent.Back().Value.(*slot)
		e.forget(last)
		delete(e.slots, last.cell)
	}
}

// maxWeight is how many bytes the cells that nobody uses may take, about.
const maxWeight = 64 << 20

// forget takes a slot from recent. The caller has the lock.
func (e *Engine) forget(s *slot) {
	e.recent.Remove(s.place)
	e.weight -= s.weight
	s.place = nil
}

// on gives a function its turn on a cell that exists.
func (e *Engine) on(ctx context.Context, cell Particle, fn func(s *slot) error) error {
	s := e.take(cell)
	defer e.release(s)
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.state == nil {
		state, err := e.load(ctx, cell)
		if err != nil {
			return err
		}
		s.state = state
	}
	return fn(s)
}

// maxPrograms is how many compiled programs are kept.
const maxPrograms = 256

// program is what a definition says.
type program struct {
	*rune.Program
	policy Particle
}

// programs are compiled sources by their definition.
type programs struct {
	mu   sync.Mutex
	list map[Particle]program
}

func (p *programs) get(definition Particle) (program, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.list[definition]
	return found, ok
}

func (p *programs) put(definition Particle, made program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list == nil {
		p.list = map[Particle]program{}
	}
	for old := range p.list {
		if len(p.list) < maxPrograms {
			break
		}
		delete(p.list, old) // any one: it is compiled again if it is needed
	}
	p.list[definition] = made
}

// program is the compiled source of a cell, whose policy must be that of its definition:
// a snapshot can't grant what the birth has not.
func (e *Engine) program(ctx context.Context, s *state) (*rune.Program, error) {
	p, ok := e.programs.get(s.snapshot.Definition)
	if !ok {
		var err error
		if p, err = e.compile(ctx, s.snapshot.Definition); err != nil {
			return nil, err
		}
		e.programs.put(s.snapshot.Definition, p)
	}
	if p.policy != s.snapshot.AuthorityPolicy {
		return nil, errHostile(s.cell, "its snapshot has another policy than its definition")
	}
	return p.Program, nil
}

// compile reads and compiles the source of a definition.
func (e *Engine) compile(ctx context.Context, definition Particle) (program, error) {
	r := record.NewReader(ctx, e.suite, e.store, record.ArtifactBudget)
	var d record.Definition[Particle]
	if err := r.Record(definition, &d); err != nil {
		return program{}, err
	}
	source, _, err := r.Artifact(d.Code)
	if err != nil {
		return program{}, err
	}
	p, err := rune.Compile(source)
	if err != nil {
		return program{}, runtimeError(err)
	}
	return program{p, d.Policy}, nil
}
