package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/nox"
)

func (a *app) nox() *cobra.Command {
	return group("nox", "Reduce formulas of Nox", a.noxRun())
}

// noxRunDoc is the outcome of a reduction.
type noxRunDoc struct {
	Schema string `json:"schema"`
	Value  string `json:"value"`
	Nodes  uint64 `json:"nodes"`
	Depth  uint64 `json:"depth"`
	Cost   uint64 `json:"cost"`
	Steps  uint64 `json:"steps"`
}

func (a *app) noxRun() *cobra.Command {
	var formula, object string
	o := nox.Options{Budget: 1_000_000}
	c := &cobra.Command{
		Use:   "run --formula NOUN --object NOUN",
		Short: "Reduce a formula against an object",
		Long: "Run reduces a formula, which is a noun, against another noun and prints the result. Most patterns\n" +
			"cost one step, words 32, inverses and comparisons 64, and a hash 25; what they cost is taken before\n" +
			"their operands are reduced, and when too little is left the reduction halts. One of the two nouns may\n" +
			"be - for standard input. The machine of cells has rules of its own: see `writ rune run`.",
		Example: "  writ nox run --formula '[5 [[0 2] [0 3]]]' --object '[20 22]'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if formula == "" || object == "" {
				return &usageError{errors.New("--formula and --object are required")}
			}
			if formula == "-" && object == "-" {
				return &usageError{errors.New("the formula and the object cannot both come from standard input")}
			}
			f, err := a.readNoun(c.Context(), formula)
			if err != nil {
				return fmt.Errorf("--formula: %w", err)
			}
			n, err := a.readNoun(c.Context(), object)
			if err != nil {
				return fmt.Errorf("--object: %w", err)
			}
			value, cost, err := nox.Reduce(c.Context(), n, f, o)
			if err != nil {
				return fmt.Errorf("after %d of %d steps: %w", cost, o.Budget, err)
			}
			text, err := nox.Text.Format(value)
			if err != nil {
				return fmt.Errorf("the result cannot be printed: %w", err)
			}
			d := noxRunDoc{Schema: "writ.nox-run.v1", Value: text, Nodes: value.Size(), Depth: value.Depth(), Cost: cost, Steps: o.Budget}
			return a.print(d, func() {
				fmt.Fprintln(a.out, text)
				fmt.Fprintf(a.err, "%d of %d steps\n", cost, o.Budget)
			})
		},
	}
	c.Flags().StringVar(&formula, "formula", "", "the formula, or -")
	c.Flags().StringVar(&object, "object", "", "what it is reduced against, or -")
	c.Flags().Uint64Var(&o.Budget, "steps", o.Budget, "how much the reduction may cost")
	return c
}
