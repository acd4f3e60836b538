package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate"
)

// landRow is one land as JSON.
type landRow struct {
	ID          string `json:"id"`
	Patchset    string `json:"patchset"`
	Target      string `json:"target_line"`
	Mode        string `json:"mode"`
	Status      string `json:"status"`
	Failure     string `json:"failure,omitempty"`
	From        string `json:"from,omitempty"`
	Landed      string `json:"landed,omitempty"`
	SubmittedAt string `json:"submitted_at"`
	UpdatedAt   string `json:"updated_at"`
}

// landDoc is one land.
type landDoc struct {
	Schema string `json:"schema"`
	Epoch  uint64 `json:"epoch"`
	landRow
}

func rowOfLand(v *authority.View, l *authority.Land) (landRow, error) {
	r := landRow{
		ID: l.ID.String(), Mode: l.Meta.Mode().String(), Status: l.Meta.Status().String(),
		SubmittedAt: instant(l.SubmittedAt), UpdatedAt: instant(l.UpdatedAt),
	}
	if l.Failure != record.LandFailureNone {
		r.Failure = l.Failure.String()
	}
	p, err := v.Patchset(l.Patchset)
	if err != nil {
		return r, err
	}
	r.Patchset = p.ID.String()
	if i, ok := l.TargetLine.Index(); ok {
		line, err := v.Line(i)
		if err != nil {
			return r, err
		}
		r.Target = line.Name
	}
	if r.From, err = snapshotName(v, l.PreTarget); err != nil {
		return r, err
	}
	r.Landed, err = snapshotName(v, l.Landed)
	return r, err
}

// landRows are the lands of a change, oldest first.
func landRows(v *authority.View, change uint32) ([]landRow, error) {
	rows := []landRow{}
	list, err := v.Lands(change)
	if err != nil {
		return nil, err
	}
	for i := range list {
		row, err := rowOfLand(v, &list[i])
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (a *app) land() *cobra.Command {
	c := a.noun("land", "Land a patchset, and look at what has landed", func(r *records) []*cobra.Command {
		return []*cobra.Command{r.landList(), r.landShow()}
	})
	c.Use = "land PATCHSET"
	c.Long = "Land brings a patchset that was gated onto the target branch, if its decision and its\n" +
		"reviews allow it and the landed tree is the tested one. It exits with 1 when it does not\n" +
		"land, and says why. `writ gate --land` gates and lands the present branch."
	c.Args = cobra.MaximumNArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		var r *gate.Report
		err := a.about(c.Context(), args, true, func(w *gate.Workspace, p *authority.Patchset) error {
			var err error
			r, err = w.Land(c.Context(), p)
			return err
		})
		if err != nil {
			return err
		}
		return a.gateReport(r)
	}
	return c
}

func (r *records) landList() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "list [CHANGE]",
		Short: "List lands, newest first",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			rows := []landRow{}
			more := false
			epoch, err := r.view(c.Context(), func(v *authority.View) error {
				var change uint32
				var err error
				if len(args) > 0 {
					if change, err = find(v, args[0], record.ObjectChange); err != nil {
						return err
					}
				}
				more, err = newest(v, bindb.Lands.Count, limit, func(i uint32) (bool, error) {
					l, err := v.Land(i)
					if err != nil || l.Meta.Tombstoned() || len(args) > 0 && l.Change != change {
						return false, err
					}
					row, err := rowOfLand(v, &l)
					rows = append(rows, row)
					return true, err
				})
				return err
			})
			if err != nil {
				return err
			}
			return r.print(map[string]any{"schema": "writ.lands.v1", "epoch": epoch, "lands": rows, "more": more}, func() {
				if len(rows) == 0 {
					fmt.Fprintln(r.out, "no lands")
				}
				r.landTable(rows)
				r.more(more)
			})
		},
	}
	limitFlag(c, &limit)
	return c
}

func (r *records) landTable(list []landRow) {
	var rows [][]string
	for _, l := range list {
		what := l.Landed
		if what == "" {
			what = l.Failure
		}
		rows = append(rows, []string{"  " + l.ID, l.Status, l.Mode, line(l.Target), what, l.SubmittedAt})
	}
	table(r.out, rows)
}

func (r *records) landShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show LAND",
		Short: "Show one land",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			d := &landDoc{Schema: "writ.land.v1"}
			var err error
			d.Epoch, err = r.view(c.Context(), func(v *authority.View) error {
				i, err := find(v, args[0], record.ObjectLand)
				if err != nil {
					return err
				}
				l, err := v.Land(i)
				if err != nil {
					return err
				}
				d.landRow, err = rowOfLand(v, &l)
				return err
			})
			if err != nil {
				return err
			}
			return r.print(d, func() {
				r.landTable([]landRow{d.landRow})
				fmt.Fprintf(r.out, "    patchset %s", d.Patchset)
				if d.From != "" {
					fmt.Fprintf(r.out, ", from %s", d.From)
				}
				fmt.Fprintln(r.out)
			})
		},
	}
}
