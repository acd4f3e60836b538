package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/planfile"
)

// planRow is one plan as JSON.
type planRow struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Status    string `json:"status"`
	Revision  string `json:"revision"`
	Revisions uint16 `json:"revisions"`
	Items     uint16 `json:"items"`
	CreatedAt string `json:"created_at"`
	UpdatedAt string `json:"updated_at"`
}

// planDoc is one plan with the items of a revision.
type planDoc struct {
	Schema string `json:"schema"`
	Epoch  uint64 `json:"epoch"`
	planRow
	Shown revisionRow `json:"shown"`
}

// revisionRow is one revision with its items.
type revisionRow struct {
	ID           string    `json:"id"`
	Number       uint16    `json:"number"`
	Title        string    `json:"title"`
	Summary      string    `json:"summary"`
	ArtifactPath string    `json:"artifact_path"`
	ArtifactBlob string    `json:"artifact_blob"`
	CreatedAt    string    `json:"created_at"`
	Items        []itemRow `json:"items"`
}

// itemRow is one item of a revision.
type itemRow struct {
	Ref      string   `json:"ref"`
	Text     string   `json:"text"`
	Headings []string `json:"headings"`
	State    string   `json:"state"`
	Taskable bool     `json:"taskable"`
	Line     uint32   `json:"line"`
}

func rowOfPlan(v *authority.View, index uint32) (planRow, error) {
	p, err := v.Plan(index)
	if err != nil {
		return planRow{}, err
	}
	latest, err := v.LatestRevision(&p)
	return planRow{
		ID: p.ID.String(), Title: p.Title, Status: p.Meta.Status().String(), Revision: latest.ID.String(),
		Revisions: latest.Number, Items: latest.ItemCount, CreatedAt: instant(p.CreatedAt), UpdatedAt: instant(p.UpdatedAt),
	}, err
}

func docOfPlan(v *authority.View, r authority.PlanRevision) (*planDoc, error) {
	row, err := rowOfPlan(v, r.Plan)
	if err != nil {
		return nil, err
	}
	d := &planDoc{Schema: "writ.plan.v1", planRow: row, Shown: revisionRow{
		ID: r.ID.String(), Number: r.Number, Title: r.TitleSnapshot, Summary: r.Summary, ArtifactPath: r.ArtifactPath,
		ArtifactBlob: r.ArtifactBlobID, CreatedAt: instant(r.CreatedAt), Items: []itemRow{},
	}}
	items, err := v.Items(&r)
	for _, it := range items {
		d.Shown.Items = append(d.Shown.Items, itemRow{
			Ref: it.Ref, Text: it.Text, Headings: append([]string{}, it.Headings...), State: it.Meta.State().String(),
			Taskable: it.Meta.TaskableHint(), Line: it.LineNumber,
		})
	}
	return d, err
}

// revisionOf is the revision that a name means: of a plan, its latest one.
func revisionOf(v *authority.View, name string) (authority.PlanRevision, error) {
	got, err := v.Find(name)
	if err != nil {
		return authority.PlanRevision{}, err
	}
	switch got.Object {
	case record.ObjectPlanRevision:
		return v.PlanRevision(got.Index)
	case record.ObjectPlan:
		p, err := v.Plan(got.Index)
		if err != nil {
			return authority.PlanRevision{}, err
		}
		return v.LatestRevision(&p)
	}
	return authority.PlanRevision{}, &usageError{fmt.Errorf("%s names a %s; expected a plan such as PR-0 or a revision such as plan-revision:3", got, got.Object)}
}

func (a *app) plan() *cobra.Command {
	return a.noun("plan", "Record plans and their revisions from Markdown files", func(r *records) []*cobra.Command {
		return []*cobra.Command{r.planCreate(), r.planRevise(), r.planList(), r.planShow(), r.planRetitle(), r.planArchive()}
	})
}

// readPlan reads a plan file; - is standard input.
func (a *app) readPlan(path string) (*planfile.Plan, error) {
	in := a.in
	if path != "-" {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: %w: no such file", path, bindb.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, planfile.MaxFile+1))
	if err != nil {
		return nil, err
	}
	p, err := planfile.Parse(filepath.ToSlash(path), text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// planVerb runs a verb about a plan and prints its latest revision.
func (r *records) planVerb(c *cobra.Command, verb func(*authority.Tx) (uint32, error)) error {
	var d *planDoc
	epoch, err := r.update(c.Context(), func(tx *authority.Tx) error {
		index, err := verb(tx)
		if err != nil {
			return err
		}
		p, err := tx.Plan(index)
		if err != nil {
			return err
		}
		latest, err := tx.LatestRevision(&p)
		if err != nil {
			return err
		}
		d, err = docOfPlan(&tx.View, latest)
		return err
	})
	if err != nil {
		return err
	}
	d.Epoch = epoch
	return r.print(d, func() { r.showPlan(d) })
}

const planFileHelp = "FILE is Markdown: the first heading is the title, list items with a check box are the\n" +
	"items, named by {#name} at their end or by their text. - reads standard input."

func (r *records) planCreate() *cobra.Command {
	return &cobra.Command{
		Use:   "create FILE",
		Short: "Create a plan with its first revision",
		Long:  "Create records a plan. " + planFileHelp,
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := r.readPlan(args[0])
			if err != nil {
				return err
			}
			return r.planVerb(c, func(tx *authority.Tx) (uint32, error) { return tx.CreatePlan(p.Title, p.Revision) })
		},
	}
}

func (r *records) planRevise() *cobra.Command {
	return &cobra.Command{
		Use:   "revise PLAN FILE",
		Short: "Append a revision to a plan",
		Long: "Revise appends a revision, which is the latest one from then on; a task that is bound to\n" +
			"an item stays taskable if the revision has an item of exactly the same name. The title\n" +
			"follows the file. " + planFileHelp,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := r.readPlan(args[1])
			if err != nil {
				return err
			}
			return r.planVerb(c, func(tx *authority.Tx) (uint32, error) {
				plan, err := find(&tx.View, args[0], record.ObjectPlan)
				if err != nil {
					return 0, err
				}
				if err := tx.RetitlePlan(plan, p.Title); err != nil {
					return 0, err
				}
				_, err = tx.RevisePlan(plan, p.Revision)
				return plan, err
			})
		},
	}
}

func (r *records) planRetitle() *cobra.Command {
	return &cobra.Command{
		Use:   "retitle PLAN TITLE",
		Short: "Give a plan another title",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return r.planVerb(c, func(tx *authority.Tx) (uint32, error) {
				plan, err := find(&tx.View, args[0], record.ObjectPlan)
				if err != nil {
					return 0, err
				}
				return plan, tx.RetitlePlan(plan, args[1])
			})
		},
	}
}

func (r *records) planArchive() *cobra.Command {
	var superseded bool
	c := &cobra.Command{
		Use:   "archive PLAN",
		Short: "Put a plan aside",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return r.planVerb(c, func(tx *authority.Tx) (uint32, error) {
				plan, err := find(&tx.View, args[0], record.ObjectPlan)
				if err != nil {
					return 0, err
				}
				if superseded {
					return plan, tx.SupersedePlan(plan)
				}
				return plan, tx.ArchivePlan(plan)
			})
		},
	}
	c.Flags().BoolVar(&superseded, "superseded", false, "another plan takes its place")
	return c
}

func (r *records) planList() *cobra.Command {
	var limit int
	var all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List plans in draft, newest first",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			rows := []planRow{}
			more := false
			epoch, err := r.view(c.Context(), func(v *authority.View) (err error) {
				more, err = newest(v, bindb.Plans.Count, limit, func(i uint32) (bool, error) {
					p, err := v.Plan(i)
					if err != nil || !all && !p.Draft() {
						return false, err
					}
					row, err := rowOfPlan(v, i)
					rows = append(rows, row)
					return true, err
				})
				return err
			})
			if err != nil {
				return err
			}
			return r.print(map[string]any{"schema": "writ.plans.v1", "epoch": epoch, "plans": rows, "more": more}, func() {
				if len(rows) == 0 {
					fmt.Fprintln(r.out, "no plans")
				}
				var out [][]string
				for _, p := range rows {
					out = append(out, []string{p.ID, p.Status, fmt.Sprintf("revision %d", p.Revisions), plural(int(p.Items), "item", "items"), line(p.Title)})
				}
				table(r.out, out)
				r.more(more)
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "archived and superseded ones, too")
	limitFlag(c, &limit)
	return c
}

func (r *records) planShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show PLAN",
		Short: "Show a plan with the items of its latest or of another revision",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var d *planDoc
			epoch, err := r.view(c.Context(), func(v *authority.View) error {
				revision, err := revisionOf(v, args[0])
				if err != nil {
					return err
				}
				d, err = docOfPlan(v, revision)
				return err
			})
			if err != nil {
				return err
			}
			d.Epoch = epoch
			return r.print(d, func() { r.showPlan(d) })
		},
	}
}

func (r *records) showPlan(d *planDoc) {
	fmt.Fprintf(r.out, "%s  %s  %s\n", r.style.bold(d.ID), d.Status, line(d.Title))
	fmt.Fprintf(r.out, "  %s, number %d of %d, %s\n", d.Shown.ID, d.Shown.Number, d.Revisions, d.Shown.CreatedAt)
	var rows [][]string
	for _, it := range d.Shown.Items {
		box := "   "
		switch it.State {
		case record.PlanItemStateOpen.String():
			box = "[ ]"
		case record.PlanItemStateDone.String():
			box = "[x]"
		}
		ref := ""
		if it.Ref != it.Text {
			ref = "{#" + line(it.Ref) + "}"
		}
		rows = append(rows, []string{"  " + box, line(it.Text), ref})
	}
	table(r.out, rows)
}
