package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// taskRow is one task as JSON.
type taskRow struct {
	ID        string      `json:"id"`
	Title     string      `json:"title"`
	Status    string      `json:"status"`
	Count     int         `json:"change_count"`
	Binding   *bindingRow `json:"binding,omitempty"`
	CreatedAt string      `json:"created_at"`
	UpdatedAt string      `json:"updated_at"`
	ClosedAt  string      `json:"closed_at,omitempty"`
}

// bindingRow is the item of a plan that a task takes up.
type bindingRow struct {
	Plan     string `json:"plan"`
	Revision string `json:"revision"`
	Ref      string `json:"ref"`
	Text     string `json:"text"`
	LinkedAt string `json:"linked_at"`
	Taskable bool   `json:"taskable"`
}

// taskDoc is one task with what belongs to it.
type taskDoc struct {
	Schema string `json:"schema"`
	Epoch  uint64 `json:"epoch"`
	taskRow
	Intent  string      `json:"intent"`
	Changes []changeRow `json:"changes"`
	Links   []linkRow   `json:"snapshots"`
}

// linkRow is a snapshot that was made for a task.
type linkRow struct {
	Snapshot   string `json:"snapshot"`
	Change     string `json:"change,omitempty"`
	Line       string `json:"line,omitempty"`
	Worktree   string `json:"worktree,omitempty"`
	AuthorMode string `json:"author_mode,omitempty"`
	Model      string `json:"model,omitempty"`
	Session    bool   `json:"session"`
	Checkpoint bool   `json:"checkpoint"`
	CreatedAt  string `json:"created_at"`
}

func rowOfTask(v *authority.View, index uint32) (taskRow, error) {
	t, err := v.Task(index)
	if err != nil {
		return taskRow{}, err
	}
	changes, err := v.ChangesOf(index)
	if err != nil {
		return taskRow{}, err
	}
	r := taskRow{
		ID: t.ID.String(), Title: t.Title, Status: t.Status(), Count: len(changes),
		CreatedAt: instant(t.CreatedAt), UpdatedAt: instant(t.UpdatedAt), ClosedAt: instant(t.ClosedAt),
	}
	b, err := v.Binding(&t)
	if b != nil {
		r.Binding = &bindingRow{
			Plan: b.Plan.ID.String(), Revision: b.Revision.ID.String(), Ref: b.Item.Ref, Text: b.Item.Text,
			LinkedAt: instant(b.LinkedAt), Taskable: b.Taskable,
		}
	}
	return r, err
}

func docOfTask(v *authority.View, index uint32) (*taskDoc, error) {
	row, err := rowOfTask(v, index)
	if err != nil {
		return nil, err
	}
	t, err := v.Task(index)
	if err != nil {
		return nil, err
	}
	d := &taskDoc{Schema: "writ.task.v1", taskRow: row, Intent: t.Intent, Changes: []changeRow{}, Links: []linkRow{}}
	changes, err := v.ChangesOf(index)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		row, err := rowOfChange(v, c.Index)
		if err != nil {
			return nil, err
		}
		d.Changes = append(d.Changes, row)
	}
	links, err := v.Links(index)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		s, err := v.Snapshot(l.Snapshot)
		if err != nil {
			return nil, err
		}
		row := linkRow{
			Snapshot: s.Name(), Line: l.LineName, Worktree: l.WorktreeName, AuthorMode: l.AuthorMode, Model: l.ModelName,
			Session: l.Meta.HasSession(), Checkpoint: l.Meta.HasCheckpoint(), CreatedAt: instant(l.CreatedAt),
		}
		if i, ok := l.Change.Index(); ok {
			c, err := v.Change(i)
			if err != nil {
				return nil, err
			}
			row.Change = c.ID.String()
		}
		d.Links = append(d.Links, row)
	}
	return d, nil
}

func (a *app) task() *cobra.Command {
	return a.noun("task", "Open, list, close tasks and bind them to plans", func(r *records) []*cobra.Command {
		return []*cobra.Command{r.taskOpen(), r.taskList(), r.taskShow(), r.taskClose(), r.taskBind(), r.taskUnbind(), r.taskLink()}
	})
}

// taskVerb runs a verb about a task and prints the task as it is then.
func (r *records) taskVerb(c *cobra.Command, name string, verb func(tx *authority.Tx, task uint32) error) error {
	var d *taskDoc
	epoch, err := r.update(c.Context(), func(tx *authority.Tx) error {
		task, err := find(&tx.View, name, record.ObjectTask)
		if err != nil {
			return err
		}
		if err := verb(tx, task); err != nil {
			return err
		}
		d, err = docOfTask(&tx.View, task)
		return err
	})
	if err != nil {
		return err
	}
	d.Epoch = epoch
	return r.print(d, func() { r.showTask(d) })
}

func (r *records) taskOpen() *cobra.Command {
	var intent string
	c := &cobra.Command{
		Use:   "open TITLE",
		Short: "Open a task",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := r.text(intent)
			if err != nil {
				return err
			}
			if text == "" {
				text = args[0]
			}
			var d *taskDoc
			epoch, err := r.update(c.Context(), func(tx *authority.Tx) error {
				index, err := tx.OpenTask(args[0], text)
				if err != nil {
					return err
				}
				d, err = docOfTask(&tx.View, index)
				return err
			})
			if err != nil {
				return err
			}
			d.Epoch = epoch
			return r.print(d, func() { r.showTask(d) })
		},
	}
	c.Flags().StringVar(&intent, "intent", "", "what is to be reached (default: the title); - reads it from standard input")
	return c
}

func (r *records) taskList() *cobra.Command {
	var limit int
	var all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List open tasks, newest first",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			rows := []taskRow{}
			more := false
			epoch, err := r.view(c.Context(), func(v *authority.View) (err error) {
				more, err = newest(v, bindb.Tasks.Count, limit, func(i uint32) (bool, error) {
					t, err := v.Task(i)
					if errors.Is(err, bindb.ErrNotFound) || err == nil && !all && !t.Open() {
						return false, nil
					}
					if err != nil {
						return false, err
					}
					row, err := rowOfTask(v, i)
					rows = append(rows, row)
					return true, err
				})
				return err
			})
			if err != nil {
				return err
			}
			return r.print(map[string]any{"schema": "writ.tasks.v1", "epoch": epoch, "tasks": rows, "more": more}, func() {
				if len(rows) == 0 {
					fmt.Fprintln(r.out, "no tasks")
				}
				var out [][]string
				for _, t := range rows {
					item := ""
					if t.Binding != nil {
						item = t.Binding.Plan + " " + line(t.Binding.Ref)
					}
					out = append(out, []string{t.ID, t.Status, plural(t.Count, "change", "changes"), item, line(t.Title)})
				}
				table(r.out, out)
				r.more(more)
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "closed ones, too")
	limitFlag(c, &limit)
	return c
}

func (r *records) taskShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show TASK",
		Short: "Show a task with its changes and snapshots",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var d *taskDoc
			epoch, err := r.view(c.Context(), func(v *authority.View) error {
				task, err := find(v, args[0], record.ObjectTask)
				if err != nil {
					return err
				}
				d, err = docOfTask(v, task)
				return err
			})
			if err != nil {
				return err
			}
			d.Epoch = epoch
			return r.print(d, func() { r.showTask(d) })
		},
	}
}

func (r *records) showTask(d *taskDoc) {
	fmt.Fprintf(r.out, "%s  %s  %s\n", r.style.bold(d.ID), d.Status, line(d.Title))
	if d.Intent != d.Title {
		fmt.Fprintf(r.out, "  %s\n", line(d.Intent))
	}
	if b := d.Binding; b != nil {
		state := ""
		if !b.Taskable {
			state = r.style.yellow("  (the plan no longer has it)")
		}
		fmt.Fprintf(r.out, "  takes up %s of %s: %s%s\n", line(b.Ref), b.Plan, line(b.Text), state)
	}
	var rows [][]string
	for _, c := range d.Changes {
		rows = append(rows, []string{"  " + c.ID, c.Status, line(c.Title)})
	}
	for _, l := range d.Links {
		rows = append(rows, []string{"  " + l.Snapshot, l.CreatedAt, line(l.Model)})
	}
	table(r.out, rows)
}

func (r *records) taskClose() *cobra.Command {
	var canceled bool
	c := &cobra.Command{
		Use:   "close TASK",
		Short: "Close a task for good, as completed or canceled",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return r.taskVerb(c, args[0], func(tx *authority.Tx, task uint32) error {
				if canceled {
					return tx.CancelTask(task)
				}
				return tx.CompleteTask(task)
			})
		},
	}
	c.Flags().BoolVar(&canceled, "canceled", false, "it is given up")
	return c
}

func (r *records) taskBind() *cobra.Command {
	return &cobra.Command{
		Use:   "bind TASK PLAN REF",
		Short: "Bind a task to an item of a plan",
		Long: "Bind says that a task takes up the item of a plan with exactly the reference REF.\n" +
			"PLAN is a plan such as PR-0, which means its latest revision, or a revision such as\n" +
			"plan-revision:3. The latest revision must have an item with that reference.",
		Args: cobra.ExactArgs(3),
		RunE: func(c *cobra.Command, args []string) error {
			return r.taskVerb(c, args[0], func(tx *authority.Tx, task uint32) error {
				revision, err := revisionOf(&tx.View, args[1])
				if err != nil {
					return err
				}
				it, ok, err := tx.ItemByRef(&revision, args[2])
				if err != nil {
					return err
				}
				if !ok {
					return fmt.Errorf("%s: %w: %s has no item with that reference", args[2], bindb.ErrNotFound, revision.ID)
				}
				return tx.BindTask(task, revision.Index, it.Index)
			})
		},
	}
}

func (r *records) taskUnbind() *cobra.Command {
	return &cobra.Command{
		Use:   "unbind TASK",
		Short: "Take the binding of a task away",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return r.taskVerb(c, args[0], func(tx *authority.Tx, task uint32) error { return tx.UnbindTask(task) })
		},
	}
}

func (r *records) taskLink() *cobra.Command {
	var s authority.LinkSpec
	var change string
	var mode authorMode
	c := &cobra.Command{
		Use:   "link TASK SNAPSHOT",
		Short: "Record that a snapshot was made for a task, by whom and where",
		Long: "Link tells where a snapshot comes from; a patchset stands for its revision. A patchset\n" +
			"whose revision has a link with model, session and checkpoint satisfies the requirement\n" +
			"ai_provenance.",
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("author-mode") {
				s.AuthorMode = mode.String()
			}
			return r.taskVerb(c, args[0], func(tx *authority.Tx, task uint32) error {
				spec := s
				spec.Task = task
				var err error
				if spec.Snapshot, err = snapshotOf(&tx.View, args[1]); err != nil {
					return err
				}
				if change != "" {
					i, err := find(&tx.View, change, record.ObjectChange)
					if err != nil {
						return err
					}
					spec.Change = record.RefTo(i)
				}
				_, err = tx.LinkSnapshot(spec)
				return err
			})
		},
	}
	f := c.Flags()
	f.StringVar(&change, "change", "", "change of the task that it was made for")
	f.StringVar(&s.Model, "model", "", "which model made it")
	f.BoolVar(&s.Session, "session", false, "it was made in a session of an agent")
	f.BoolVar(&s.Checkpoint, "checkpoint", false, "that session can be taken up again")
	f.StringVar(&s.Line, "line", "", "line that it was made on")
	f.StringVar(&s.Worktree, "worktree", "", "work tree that it was made in")
	f.Var(&mode, "author-mode", "who made it: human_only, human_with_ai_assist, ai_with_human_review or ai_only_experimental")
	return c
}

// snapshotOf is the snapshot that a name means: of a patchset, its revision.
func snapshotOf(v *authority.View, name string) (uint32, error) {
	got, err := v.Find(name)
	if err != nil {
		return 0, err
	}
	switch got.Object {
	case record.ObjectSnapshot:
		return got.Index, nil
	case record.ObjectPatchset:
		p, err := v.Patchset(got.Index)
		return p.RevisionSnapshot, err
	}
	return 0, &usageError{fmt.Errorf("%s names a %s; expected a snapshot such as SNP-0123456789AB or a patchset", got, got.Object)}
}
