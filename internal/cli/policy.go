package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate"
)

// policyDoc is the policy of a repository as the registry has it.
type policyDoc struct {
	Schema     string                   `json:"schema"`
	Epoch      uint64                   `json:"epoch"`
	Repository uint32                   `json:"repository_index"`
	Flags      uint8                    `json:"policy_flags"`
	Policy     authority.PolicyDocument `json:"policy"`
}

func (a *app) policy() *cobra.Command {
	return a.noun("policy", "Show the policy of a repository, and decide by it", func(r *records) []*cobra.Command {
		return []*cobra.Command{r.policyShow()}
	}, a.policyEvaluate())
}

func (r *records) policyShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the requirements that the registry has for a repository",
		Long: "Show prints what the registry requires of every patchset of a repository. A gate takes\n" +
			"the policy of `writ.yaml` on the base instead, where there is one.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d := policyDoc{Schema: "writ.policy.v1"}
			err := r.withRepository(c.Context(), r.index, func(repo *authority.Repository) error {
				info := repo.Info()
				d.Epoch, d.Repository, d.Flags = repo.Epoch(), info.Index, uint8(info.PolicyFlags)
				d.Policy = authority.PolicyDocumentOf(info.PolicyFlags)
				return nil
			})
			if err != nil {
				return err
			}
			return r.print(d, func() {
				names := record.PolicyFlags(d.Flags).Names()
				if len(names) == 0 {
					names = []string{"nothing is required"}
				}
				for _, n := range names {
					fmt.Fprintln(r.out, n)
				}
			})
		},
	}
}

func (a *app) policyEvaluate() *cobra.Command {
	return &cobra.Command{
		Use:   "evaluate [PATCHSET]",
		Short: "Decide on a patchset again with what is recorded",
		Long: "Evaluate decides again, for instance once a waiver has expired. A decision that is the\n" +
			"same as the latest one is not recorded twice. Without a name it is the selected patchset\n" +
			"of the present branch.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.report(c.Context(), args, func(w *gate.Workspace, p *authority.Patchset) (*gate.Report, error) {
				return w.Evaluate(c.Context(), p)
			})
		},
	}
}
