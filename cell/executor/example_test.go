package executor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/executor"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

// A cell asks for the time, and its state becomes the second in which its input came.
func Example() {
	ctx := context.Background()
	engine := cell.New(celltest.NewMemory(), cell.Options{Ward: cell.LocalWard{}})
	c, _, err := engine.Create(ctx, cell.Birth{
		Source: []byte(`head(host(["clock" 0]))`), StepLimit: 1000, Acts: []uint64{rune.TagHost},
	})
	if err != nil {
		panic(err)
	}
	if _, err := engine.Submit(ctx, c, cell.Input{Noun: nox.Atom(0)}); err != nil {
		panic(err)
	}

	registry := executor.NewRegistry(map[string]executor.Adapter{
		"clock": &executor.Clock{Now: func() time.Time { return time.Unix(1_700_000_000, 0) }},
	})
	supervisor := cell.NewSupervisor(engine, cell.SupervisorOptions{
		Executors: map[uint64]cell.Executor{rune.TagHost: registry},
		Notify: func(n cell.Notice) {
			switch n.Kind {
			case cell.Settled:
				fmt.Println(n.Kind, n.Value)
			case cell.Completed:
				fmt.Println(n.Kind, n.State)
			default:
				fmt.Println(n.Kind)
			}
		},
	})
	if err := supervisor.Run(ctx, []cell.Particle{c}); err != nil {
		panic(err)
	}
	// Output:
	// ticked
	// begun
	// settled [1700000000 0]
	// completed 1700000000
}
