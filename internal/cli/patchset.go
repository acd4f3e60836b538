package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate"
)

// patchsetRow is one patchset as JSON.
type patchsetRow struct {
	ID          string `json:"id"`
	Selected    bool   `json:"selected"`
	Withdrawn   bool   `json:"withdrawn"`
	Invalidated bool   `json:"invalidated"`
	Base        string `json:"base"`
	Revision    string `json:"revision"`
	Summary     string `json:"summary"`
	AuthorMode  string `json:"author_mode"`
	Runs        uint32 `json:"runs"`
	Overall     string `json:"overall"`
	Tests       string `json:"tests"`
	Lint        string `json:"lint"`
	Decision    string `json:"decision"`
	Current     bool   `json:"decision_current"`
	CreatedAt   string `json:"created_at"`
}

// patchsetDoc is one patchset as it is recorded, with what was said about it.
type patchsetDoc struct {
	Schema string `json:"schema"`
	Epoch  uint64 `json:"epoch"`
	patchsetRow
	Attestations []attestationRow `json:"attestations"`
	Reviews      []reviewRow      `json:"reviews"`
	Waivers      []waiverRow      `json:"waivers"`
	Decisions    []decisionRow    `json:"decisions"`
}

// decisionRow is one decision with its checks.
type decisionRow struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`
	CreatedAt string     `json:"created_at"`
	Checks    []checkRow `json:"checks"`
}

// checkRow is one check of a decision as it is stored.
type checkRow struct {
	Name    string `json:"name"`
	Status  string `json:"status"`
	Subject uint16 `json:"subject"`
}

func rowOfPatchset(v *authority.View, p *authority.Patchset) (patchsetRow, error) {
	c, err := v.Change(p.Change)
	if err != nil {
		return patchsetRow{}, err
	}
	r := patchsetRow{
		ID: p.ID.String(), Selected: c.SelectedPatchset == record.RefTo(p.Index),
		Withdrawn: p.Meta.Withdrawn(), Invalidated: p.Meta.Invalidated(), AuthorMode: p.Meta.AuthorMode().String(),
		Runs: p.CIRunSeq, Overall: p.CIStatus.Overall().String(), Tests: p.CIStatus.Tests().String(), Lint: p.CIStatus.Lint().String(),
		Decision: record.DecisionKindPending.String(), Current: !p.Meta.EvaluationPending(), CreatedAt: instant(p.CreatedAt),
	}
	if r.Base, err = snapshotName(v, record.RefTo(p.BaseSnapshot)); err != nil {
		return r, err
	}
	if r.Revision, err = snapshotName(v, record.RefTo(p.RevisionSnapshot)); err != nil {
		return r, err
	}
	if r.Summary, err = v.Summary(p); err != nil {
		return r, err
	}
	d, err := v.Decision(p)
	if d != nil {
		r.Decision = d.Kind().String()
	}
	return r, err
}

func docOfPatchset(v *authority.View, index uint32) (*patchsetDoc, error) {
	p, err := v.Patchset(index)
	if err != nil {
		return nil, err
	}
	d := &patchsetDoc{Schema: "writ.patchset.v1", Decisions: []decisionRow{}}
	if d.patchsetRow, err = rowOfPatchset(v, &p); err != nil {
		return nil, err
	}
	if d.Attestations, err = attestationRows(v, &p); err != nil {
		return nil, err
	}
	if d.Reviews, err = reviewRows(v, &p); err != nil {
		return nil, err
	}
	if d.Waivers, err = waiverRows(v, &p); err != nil {
		return nil, err
	}
	decisions, err := v.Decisions(&p)
	for _, x := range decisions {
		row := decisionRow{ID: x.ID.String(), Kind: x.Kind().String(), CreatedAt: instant(x.CreatedAt), Checks: []checkRow{}}
		for _, c := range x.Checks {
			row.Checks = append(row.Checks, checkRow{c.Kind.String(), c.Status.String(), c.Subject})
		}
		d.Decisions = append(d.Decisions, row)
	}
	return d, err
}

func (a *app) patchset() *cobra.Command {
	return a.noun("patchset", "List, select, withdraw and look into patchsets", func(r *records) []*cobra.Command {
		return []*cobra.Command{
			r.patchsetList(), r.patchsetShow(),
			r.patchsetVerb("select", "Make a patchset the one that stands for its change",
				func(tx *authority.Tx, p uint32) error { return tx.SelectPatchset(p) }),
			r.patchsetVerb("withdraw", "Take a patchset back that is not selected",
				func(tx *authority.Tx, p uint32) error { return tx.WithdrawPatchset(p) }),
			r.patchsetVerb("invalidate", "Declare a patchset unusable that is not selected",
				func(tx *authority.Tx, p uint32) error { return tx.InvalidatePatchset(p) }),
		}
	}, a.diffstat())
}

func (r *records) patchsetList() *cobra.Command {
	return &cobra.Command{
		Use:   "list CHANGE",
		Short: "List the patchsets of a change, oldest first",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			rows := []patchsetRow{}
			epoch, err := r.view(c.Context(), func(v *authority.View) error {
				change, err := find(v, args[0], record.ObjectChange)
				if err != nil {
					return err
				}
				list, err := v.Patchsets(change)
				if err != nil {
					return err
				}
				for i := range list {
					row, err := rowOfPatchset(v, &list[i])
					if err != nil {
						return err
					}
					rows = append(rows, row)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return r.print(map[string]any{"schema": "writ.patchsets.v1", "epoch": epoch, "patchsets": rows}, func() {
				if len(rows) == 0 {
					fmt.Fprintln(r.out, "no patchsets")
				}
				r.patchsetTable(rows)
			})
		},
	}
}

func (r *records) patchsetTable(list []patchsetRow) {
	var rows [][]string
	for _, p := range list {
		mark := " "
		if p.Selected {
			mark = "*"
		}
		state := p.Decision
		switch {
		case p.Withdrawn:
			state = "withdrawn"
		case p.Invalidated:
			state = "invalidated"
		}
		subject, _, _ := strings.Cut(p.Summary, "\n")
		rows = append(rows, []string{mark + " " + p.ID, p.Revision, state, line(subject)})
	}
	table(r.out, rows)
}

func (r *records) patchsetShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show PATCHSET",
		Short: "Show a patchset as it is recorded, with all that was said about it",
		Long: "Show prints the records of a patchset and needs no checkout. `writ show` explains what\n" +
			"stands in its way.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var d *patchsetDoc
			epoch, err := r.view(c.Context(), func(v *authority.View) error {
				p, err := find(v, args[0], record.ObjectPatchset)
				if err != nil {
					return err
				}
				d, err = docOfPatchset(v, p)
				return err
			})
			if err != nil {
				return err
			}
			d.Epoch = epoch
			return r.print(d, func() { r.showPatchset(d) })
		},
	}
}

func (r *records) showPatchset(d *patchsetDoc) {
	r.patchsetTable([]patchsetRow{d.patchsetRow})
	var rows [][]string
	for _, x := range d.Attestations {
		rows = append(rows, []string{"  " + x.ID, "attestation", x.Verification, x.CreatedAt, ""})
	}
	for _, x := range d.Reviews {
		rows = append(rows, []string{"  " + x.ID, "review", x.Action, x.CreatedAt, line(x.Actor + ": " + x.Text)})
	}
	for _, x := range d.Waivers {
		rows = append(rows, []string{"  " + x.ID, "waiver", x.Rule, x.CreatedAt, line(x.Reason)})
	}
	for _, x := range d.Decisions {
		rows = append(rows, []string{"  " + x.ID, "decision", x.Kind, x.CreatedAt, ""})
	}
	table(r.out, rows)
}

// patchsetVerb is a command about one patchset that prints it as it is then.
func (r *records) patchsetVerb(use, short string, verb func(*authority.Tx, uint32) error) *cobra.Command {
	return &cobra.Command{
		Use:   use + " PATCHSET",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var d *patchsetDoc
			epoch, err := r.update(c.Context(), func(tx *authority.Tx) error {
				p, err := find(&tx.View, args[0], record.ObjectPatchset)
				if err != nil {
					return err
				}
				if err := verb(tx, p); err != nil {
					return err
				}
				d, err = docOfPatchset(&tx.View, p)
				return err
			})
			if err != nil {
				return err
			}
			d.Epoch = epoch
			return r.print(d, func() { r.showPatchset(d) })
		},
	}
}

func (a *app) diffstat() *cobra.Command {
	return &cobra.Command{
		Use:   "diffstat [PATCHSET]",
		Short: "Compare the two trees of a patchset",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var d *gate.Diffstat
			err := a.about(c.Context(), args, false, func(w *gate.Workspace, p *authority.Patchset) error {
				var err error
				d, err = w.Diffstat(c.Context(), p)
				return err
			})
			if err != nil {
				return err
			}
			doc := struct {
				Schema string `json:"schema"`
				*gate.Diffstat
			}{"writ.diffstat.v1", d}
			return a.print(doc, func() {
				for _, f := range d.Files {
					fmt.Fprintf(a.out, "%-12s  %s\n", f.Status, line(f.Path))
				}
				fmt.Fprintf(a.out, "%s: %d added, %d deleted, %d modified\n", d.Patchset, d.Added, d.Deleted, d.Modified)
			})
		},
	}
}
