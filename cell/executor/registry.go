package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

// errNoAdapter begins what is said about a request that another process may perform.
var errNoAdapter = errors.New("there is no adapter")

// maxName is the length of an adapter's name in a request, in bytes.
const maxName = 64

// Adapter performs the requests under one name. It gets each of them without its first
// member, and can be a cell.Finder as well.
type Adapter interface {
	cell.Executor

	// Usage is the whole request in Rune, such as ["random" COUNT].
	Usage() string
}

// Registry performs host requests with the adapter that they name.
type Registry struct{ adapters map[string]Adapter }

// NewRegistry returns a registry of adapters by name.
func NewRegistry(adapters map[string]Adapter) *Registry {
	return &Registry{maps.Clone(adapters)}
}

// Do implements cell.Executor.
func (g *Registry) Do(ctx context.Context, r cell.Request) (cell.Result, error) {
	adapter, r, err := g.find(r)
	if err != nil {
		return failed("%v", err)
	}
	return adapter.Do(ctx, r)
}

// Performs implements cell.Chooser: a request for an adapter that is not here, or that
// its adapter leaves to others, goes on waiting.
func (g *Registry) Performs(r cell.Request) bool {
	adapter, r, err := g.find(r)
	if errors.Is(err, errNoAdapter) {
		return false
	}
	if chooser, ok := adapter.(cell.Chooser); ok {
		return chooser.Performs(r)
	}
	return true
}

// Find implements cell.Finder. What no adapter here would have performed, somebody
// else may have, so it stays unknown.
func (g *Registry) Find(ctx context.Context, r cell.Request) (cell.Result, error) {
	adapter, r, err := g.find(r)
	if err != nil {
		return cell.Result{}, err
	}
	finder, ok := adapter.(cell.Finder)
	if !ok {
		return cell.Result{}, fmt.Errorf("whether %s was done can't be looked up", adapter.Usage())
	}
	return finder.Find(ctx, r)
}

// find returns the adapter of a request and what is left of the request for it.
func (g *Registry) find(r cell.Request) (Adapter, cell.Request, error) {
	if r.Tag != rune.TagHost {
		return nil, r, fmt.Errorf("%s is no host request", rune.ActName(r.Tag))
	}
	if r.Arguments.IsAtom() {
		return nil, r, fmt.Errorf("a host request is a pair whose first member names an adapter, got the atom %d; %s", r.Arguments.Value(), g.offer())
	}
	name, err := text(r.Arguments.Head(), maxName)
	if err != nil {
		return nil, r, fmt.Errorf("the first member of a host request names an adapter, but %w; %s", err, g.offer())
	}
	adapter, ok := g.adapters[name]
	if !ok {
		return nil, r, fmt.Errorf("%w %s here; %s", errNoAdapter, strconv.QuoteToASCII(name), g.offer())
	}
	r.Arguments = r.Arguments.Tail()
	return adapter, r, nil
}

// offer says which requests there are.
func (g *Registry) offer() string {
	if len(g.adapters) == 0 {
		return "there are no adapters here"
	}
	var usages []string
	for _, name := range slices.Sorted(maps.Keys(g.adapters)) {
		usages = append(usages, g.adapters[name].Usage())
	}
	return "requests are " + strings.Join(usages, " or ")
}

// failed is a definite failure: nothing was done, or nothing that anybody asked for.
func failed(format string, args ...any) (cell.Result, error) {
	return cell.Failure(format, args...), nil
}

// succeeded is the reply of an adapter.
func succeeded(value nox.Noun) (cell.Result, error) {
	return cell.Result{Outcome: cell.OutcomeSucceeded, Value: value}, nil
}
