package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// changeRow is one change as JSON.
type changeRow struct {
	ID                string `json:"id"`
	Task              string `json:"task"`
	Title             string `json:"title"`
	Status            string `json:"status"`
	BaseLine          string `json:"base_line"`
	Fork              string `json:"fork,omitempty"`
	Selected          string `json:"selected,omitempty"`
	ReviewPending     bool   `json:"review_pending"`
	ValidationPending bool   `json:"validation_pending"`
	ReadyToLand       bool   `json:"ready_to_land"`
	Blocked           bool   `json:"blocked"`
	CreatedAt         string `json:"created_at"`
	UpdatedAt         string `json:"updated_at"`
	ArchivedAt        string `json:"archived_at,omitempty"`
}

// changeDoc is one change with what belongs to it.
type changeDoc struct {
	Schema string `json:"schema"`
	Epoch  uint64 `json:"epoch"`
	changeRow
	Patchsets []patchsetRow `json:"patchsets"`
	Lands     []landRow     `json:"lands"`
}

func rowOfChange(v *authority.View, index uint32) (changeRow, error) {
	c, err := v.Change(index)
	if err != nil {
		return changeRow{}, err
	}
	r := changeRow{
		ID: c.ID.String(), Task: c.ID.Task().String(), Title: c.Title, Status: c.Status(),
		ReviewPending: c.Meta.ReviewPending(), ValidationPending: c.Meta.ValidationPending(),
		ReadyToLand: c.Meta.ReadyToLand(), Blocked: c.Meta.Blocked(),
		CreatedAt: instant(c.CreatedAt), UpdatedAt: instant(c.UpdatedAt), ArchivedAt: instant(c.ArchivedAt),
	}
	if i, ok := c.BaseLine.Index(); ok {
		l, err := v.Line(i)
		if err != nil {
			return r, err
		}
		r.BaseLine = l.Name
	}
	if r.Fork, err = snapshotName(v, c.ForkSnapshot); err != nil {
		return r, err
	}
	if i, ok := c.SelectedPatchset.Index(); ok {
		p, err := v.Patchset(i)
		if err != nil {
			return r, err
		}
		r.Selected = p.ID.String()
	}
	return r, nil
}

func snapshotName(v *authority.View, ref record.Ref) (string, error) {
	i, ok := ref.Index()
	if !ok {
		return "", nil
	}
	s, err := v.Snapshot(i)
	return s.Name(), err
}

func docOfChange(v *authority.View, index uint32) (*changeDoc, error) {
	row, err := rowOfChange(v, index)
	if err != nil {
		return nil, err
	}
	d := &changeDoc{Schema: "writ.change.v1", changeRow: row, Patchsets: []patchsetRow{}, Lands: []landRow{}}
	patchsets, err := v.Patchsets(index)
	if err != nil {
		return nil, err
	}
	for i := range patchsets {
		row, err := rowOfPatchset(v, &patchsets[i])
		if err != nil {
			return nil, err
		}
		d.Patchsets = append(d.Patchsets, row)
	}
	d.Lands, err = landRows(v, index)
	return d, err
}

func (a *app) change() *cobra.Command {
	return a.noun("change", "Open, list, archive and reopen changes", func(r *records) []*cobra.Command {
		return []*cobra.Command{r.changeOpen(), r.changeList(), r.changeShow(), r.changeArchive(), r.changeReopen()}
	})
}

// changeVerb runs a verb that gives a change and prints it as it is then.
func (r *records) changeVerb(c *cobra.Command, verb func(*authority.Tx) (uint32, error)) error {
	var d *changeDoc
	epoch, err := r.update(c.Context(), func(tx *authority.Tx) error {
		change, err := verb(tx)
		if err != nil {
			return err
		}
		d, err = docOfChange(&tx.View, change)
		return err
	})
	if err != nil {
		return err
	}
	d.Epoch = epoch
	return r.print(d, func() { r.showChange(d) })
}

func (r *records) changeOpen() *cobra.Command {
	base := authority.MainLine
	var fork string
	c := &cobra.Command{
		Use:   "open TASK TITLE",
		Short: "Open a change of a task",
		Long: "Open records that work on a task begins. `writ gate` opens a change by itself for a\n" +
			"branch that has none.",
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return r.changeVerb(c, func(tx *authority.Tx) (uint32, error) {
				task, err := find(&tx.View, args[0], record.ObjectTask)
				if err != nil {
					return 0, err
				}
				var from record.Ref
				if fork != "" {
					s, err := find(&tx.View, fork, record.ObjectSnapshot)
					if err != nil {
						return 0, err
					}
					from = record.RefTo(s)
				}
				l, ok, err := tx.FindLine(base)
				if err != nil {
					return 0, err
				}
				index := l.Index
				if !ok && base == authority.MainLine {
					index, err = tx.EnsureLine(base)
				} else if !ok {
					err = fmt.Errorf("line %q: %w", base, bindb.ErrNotFound)
				}
				if err != nil {
					return 0, err
				}
				return tx.OpenChange(task, args[1], index, from)
			})
		},
	}
	c.Flags().StringVar(&base, "base", base, "line that it is meant to land on; main stands for the target branch")
	c.Flags().StringVar(&fork, "fork", "", "snapshot that it starts from, such as SNP-0123456789AB")
	return c
}

func (r *records) changeList() *cobra.Command {
	var limit int
	var all bool
	c := &cobra.Command{
		Use:   "list [TASK]",
		Short: "List open changes, newest first",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			rows := []changeRow{}
			more := false
			epoch, err := r.view(c.Context(), func(v *authority.View) error {
				var task uint32
				var err error
				if len(args) > 0 {
					if task, err = find(v, args[0], record.ObjectTask); err != nil {
						return err
					}
				}
				more, err = newest(v, bindb.Changes.Count, limit, func(i uint32) (bool, error) {
					ch, err := v.Change(i)
					if errors.Is(err, bindb.ErrNotFound) || err == nil && (!all && !ch.Open() || len(args) > 0 && ch.Task != task) {
						return false, nil
					}
					if err != nil {
						return false, err
					}
					row, err := rowOfChange(v, i)
					rows = append(rows, row)
					return true, err
				})
				return err
			})
			if err != nil {
				return err
			}
			return r.print(map[string]any{"schema": "writ.changes.v1", "epoch": epoch, "changes": rows, "more": more}, func() {
				if len(rows) == 0 {
					fmt.Fprintln(r.out, "no changes")
				}
				var out [][]string
				for _, c := range rows {
					out = append(out, []string{c.ID, c.Status, c.marks(), line(c.Title)})
				}
				table(r.out, out)
				r.more(more)
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "landed and archived ones, too")
	limitFlag(c, &limit)
	return c
}

// marks is what a change waits for, in short.
func (c *changeRow) marks() string {
	switch {
	case c.ReadyToLand:
		return "ready"
	case c.Blocked:
		return "blocked"
	case c.ReviewPending:
		return "review pending"
	case c.ValidationPending:
		return "validation pending"
	}
	return ""
}

func (r *records) changeShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show CHANGE",
		Short: "Show a change with its patchsets and lands",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var d *changeDoc
			epoch, err := r.view(c.Context(), func(v *authority.View) error {
				change, err := find(v, args[0], record.ObjectChange)
				if err != nil {
					return err
				}
				d, err = docOfChange(v, change)
				return err
			})
			if err != nil {
				return err
			}
			d.Epoch = epoch
			return r.print(d, func() { r.showChange(d) })
		},
	}
}

func (r *records) showChange(d *changeDoc) {
	fmt.Fprintf(r.out, "%s  %s  %s  %s\n", r.style.bold(d.ID), d.Status, d.marks(), line(d.Title))
	r.patchsetTable(d.Patchsets)
	r.landTable(d.Lands)
}

func (r *records) changeArchive() *cobra.Command {
	var superseded, canceled bool
	c := &cobra.Command{
		Use:   "archive CHANGE",
		Short: "Put an open change aside",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := either("--superseded and --canceled", superseded, canceled); err != nil {
				return err
			}
			why := authority.ArchivePlain
			switch {
			case superseded:
				why = authority.ArchiveSuperseded
			case canceled:
				why = authority.ArchiveCanceled
			}
			return r.changeVerb(c, func(tx *authority.Tx) (uint32, error) {
				change, err := find(&tx.View, args[0], record.ObjectChange)
				if err != nil {
					return 0, err
				}
				return change, tx.ArchiveChange(change, why)
			})
		},
	}
	c.Flags().BoolVar(&superseded, "superseded", false, "other work takes its place")
	c.Flags().BoolVar(&canceled, "canceled", false, "it is given up")
	return c
}

func (r *records) changeReopen() *cobra.Command {
	return &cobra.Command{
		Use:   "reopen CHANGE",
		Short: "Take an archived change up again",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return r.changeVerb(c, func(tx *authority.Tx) (uint32, error) {
				change, err := find(&tx.View, args[0], record.ObjectChange)
				if err != nil {
					return 0, err
				}
				return change, tx.ReopenChange(change)
			})
		},
	}
}
