package cli

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/cell/store"
	"github.com/writ-authority/writ/nox"
)

// cellRowDoc is a cell in a list.
type cellRowDoc struct {
	Cell      string  `json:"cell"`
	Lifecycle string  `json:"lifecycle"`
	Progress  string  `json:"progress"`
	Act       string  `json:"act,omitempty"`
	State     string  `json:"state"`
	Head      headDoc `json:"head"`
}

// cellListDoc is writ.cell-list.v1.
type cellListDoc struct {
	Schema string       `json:"schema"`
	Cells  []cellRowDoc `json:"cells"`
	After  string       `json:"after,omitempty"`
}

// progressOf says what a cell does, in the words of a tick.
func progressOf(v *cell.View) string {
	switch {
	case v.Input == nil:
		return "idle"
	case v.Input.Act == nil, v.Input.Act.Stage == record.Resolved:
		return "running"
	case v.Input.Act.Stage == record.Pending:
		return "awaiting"
	}
	return "unknown"
}

func (a *app) cellList() *cobra.Command {
	var limit int
	var after string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the cells, in the order of their names",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var from cell.Particle
			if limit < 1 {
				return &usageError{errors.New("--limit: expected a positive number")}
			}
			if after != "" {
				var err error
				if from, err = particleArgument("--after", after); err != nil {
					return err
				}
			}
			doc := cellListDoc{Schema: "writ.cell-list.v1", Cells: []cellRowDoc{}}
			var states []string // as people read them
			err := a.withCells(c.Context(), func(cells *cells) error {
				list, err := cells.store.Cells(c.Context(), from, limit)
				if err != nil {
					return err
				}
				for _, h := range list {
					v, err := cells.Inspect(c.Context(), h.Cell)
					if err != nil {
						return err
					}
					row := cellRowDoc{h.Cell.String(), v.Lifecycle.String(), progressOf(&v), "", v.State.String(), headOf(v.Head)}
					if v.Input != nil && v.Input.Act != nil {
						row.Act = actName(v.Input.Act.Tag)
					}
					doc.Cells = append(doc.Cells, row)
					states = append(states, cut(expression(v.State), 40))
				}
				if len(list) == limit {
					doc.After = list[limit-1].Cell.String()
				}
				return nil
			})
			if err != nil {
				return err
			}
			return a.print(doc, func() {
				if len(doc.Cells) == 0 {
					fmt.Fprintln(a.out, "no cells")
					return
				}
				rows := [][]string{{"CELL", "LIFECYCLE", "PROGRESS", "COMMITS", "STATE"}}
				for i, r := range doc.Cells {
					progress := r.Progress
					if r.Act != "" {
						progress += " " + r.Act
					}
					rows = append(rows, []string{r.Cell[:12], r.Lifecycle, progress, strconv.FormatUint(r.Head.Index+1, 10), states[i]})
				}
				table(a.out, rows)
				if doc.After != "" {
					fmt.Fprintf(a.out, "(there may be more: --after %s)\n", doc.After)
				}
			})
		},
	}
	c.Flags().IntVarP(&limit, "limit", "n", 100, "how many")
	c.Flags().StringVar(&after, "after", "", "only those after this particle")
	return c
}

// cut is a text of at most n characters.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// cellDoc is writ.cell.v1.
type cellDoc struct {
	Schema     string        `json:"schema"`
	Cell       string        `json:"cell"`
	Head       headDoc       `json:"head"`
	Lifecycle  string        `json:"lifecycle"`
	Progress   string        `json:"progress"`
	State      string        `json:"state"`
	Snapshot   string        `json:"snapshot"`
	Definition string        `json:"definition"`
	StepLimit  uint64        `json:"step_limit"`
	Allowed    []string      `json:"allowed_acts"`
	Input      *cellInputDoc `json:"input"`
	Fault      string        `json:"fault,omitempty"`
}

type cellInputDoc struct {
	Event    string      `json:"event"`
	Context  string      `json:"context,omitempty"`
	Charged  uint64      `json:"charged"`
	Reserved uint64      `json:"reserved"`
	Left     uint64      `json:"left"`
	Act      *cellActDoc `json:"act"`
	Since    *headDoc    `json:"since,omitempty"`
}

type cellActDoc struct {
	Act       string `json:"act"`
	Tag       string `json:"tag"`
	Arguments string `json:"arguments"`
	Stage     string `json:"stage"`
	Operation string `json:"operation"`
	Attempt   string `json:"attempt,omitempty"`
}

func cellOf(v *cell.View) cellDoc {
	doc := cellDoc{
		Schema: "writ.cell.v1", Cell: v.Cell.String(), Head: headOf(v.Head), Lifecycle: v.Lifecycle.String(), Progress: progressOf(v),
		State: v.State.String(), Snapshot: v.Snapshot.String(), Definition: v.Definition.String(),
		StepLimit: v.Policy.StepLimit, Allowed: []string{}, Fault: v.Fault,
	}
	for _, tag := range v.Policy.AllowedActs {
		doc.Allowed = append(doc.Allowed, actName(tag))
	}
	in := v.Input
	if in == nil {
		return doc
	}
	doc.Input = &cellInputDoc{Event: in.Event.String(), Charged: in.Charged, Reserved: in.Reserved, Left: in.Limit - in.Charged - in.Reserved}
	if in.Context != nil {
		doc.Input.Context = in.Context.String()
	}
	if act := in.Act; act != nil {
		doc.Input.Act = &cellActDoc{actName(act.Tag), strconv.FormatUint(act.Tag, 10), act.Arguments.String(), act.Stage.String(), act.Operation.String(), ""}
		if act.Attempt != nil {
			doc.Input.Act.Attempt = act.Attempt.String()
		}
	}
	return doc
}

// since is the commit with which the cell has begun to wait for its act: the newest
// one that is about it.
func (c *cells) since(ctx context.Context, v *cell.View) (*headDoc, error) {
	if v.Input == nil || v.Input.Act == nil {
		return nil, nil
	}
	// The last commits are about the act, but for changes of the lifecycle between.
	for to := v.Head.Index; ; {
		from := to - min(to, 15)
		entries, err := c.Log(ctx, v.Cell, from, int(to-from+1))
		if err != nil {
			return nil, err
		}
		for _, e := range slices.Backward(entries) {
			switch e.Entry {
			case cell.EntryAct, cell.EntryAttempt, cell.EntryOutcome:
				return &headDoc{e.Index, e.Commit.String()}, nil
			}
		}
		if from == 0 {
			return nil, nil
		}
		to = from - 1
	}
}

func (a *app) cellShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show CELL",
		Short: "Show a cell: its state, what it waits for and what is left of its budget",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var doc cellDoc
			var v cell.View
			err := a.onCell(c.Context(), args[0], func(cells *cells, of cell.Particle) (err error) {
				if v, err = cells.Inspect(c.Context(), of); err != nil {
					return err
				}
				doc = cellOf(&v)
				if doc.Input != nil {
					doc.Input.Since, err = cells.since(c.Context(), &v)
				}
				return err
			})
			if err != nil {
				return err
			}
			return a.print(doc, func() { a.showCell(&v, &doc) })
		},
	}
}

func (a *app) showCell(v *cell.View, doc *cellDoc) {
	allowed := "none: every act is denied"
	if len(doc.Allowed) > 0 {
		allowed = strings.Join(doc.Allowed, ", ")
	}
	rows := [][]string{
		{"cell", doc.Cell}, {"lifecycle", doc.Lifecycle}, {"progress", a.progressText(doc)},
		{"state", a.shown(v.State)}, {"head", fmt.Sprintf("commit %d  %s", doc.Head.Index, doc.Head.Commit)},
		{"definition", doc.Definition}, {"acts", allowed}, {"step limit", strconv.FormatUint(doc.StepLimit, 10)},
	}
	if in := doc.Input; in != nil {
		budget := fmt.Sprintf("%d charged, %d left", in.Charged, in.Left)
		if in.Reserved > 0 {
			budget += fmt.Sprintf(", %d reserved for a slice", in.Reserved)
		}
		rows = append(rows, []string{"event", in.Event}, []string{"budget", budget})
		if act := in.Act; act != nil {
			rows = append(rows, []string{"act", fmt.Sprintf("%s(%s)", act.Act, a.shown(v.Input.Act.Arguments))}, []string{"operation", act.Operation})
			if act.Attempt != "" {
				rows = append(rows, []string{"attempt", act.Attempt})
			}
			if in.Since != nil {
				rows = append(rows, []string{"since", fmt.Sprintf("commit %d", in.Since.Index)})
			}
		}
	}
	if doc.Fault != "" {
		rows = append(rows, []string{"last fault", a.style.red(line(doc.Fault))})
	}
	table(a.out, rows)
}

func (a *app) progressText(doc *cellDoc) string {
	switch doc.Progress {
	case "awaiting":
		return a.style.yellow("awaiting an attempt of its act")
	case "unknown":
		return a.style.red("an attempt is recorded and its outcome is not: `writ cell settle` tells it")
	}
	return doc.Progress
}

// logDoc is a commit in the list that `writ cell log` prints.
type logDoc struct {
	Index      uint64         `json:"index"`
	Commit     string         `json:"commit"`
	Entry      string         `json:"entry"`
	Event      *string        `json:"event"`
	Before     *string        `json:"before"`
	After      string         `json:"after"`
	Operations []string       `json:"operations"`
	Lifecycle  string         `json:"lifecycle"`
	State      string         `json:"state"`
	Input      string         `json:"input,omitempty"`
	Fault      string         `json:"fault,omitempty"`
	Records    []logRecordDoc `json:"records"`
}

// logRecordDoc is a record that a commit has made.
type logRecordDoc struct {
	Record    string  `json:"record"`
	Schema    string  `json:"schema"`
	Charged   *uint64 `json:"charged,omitempty"`
	Reserved  *uint64 `json:"reserved,omitempty"`
	Act       string  `json:"act,omitempty"`
	Arguments string  `json:"arguments,omitempty"`
	Operation string  `json:"operation,omitempty"`
	Attempt   string  `json:"attempt,omitempty"`
	Value     string  `json:"value,omitempty"`
	Reason    string  `json:"reason,omitempty"`
}

func logOf(e *cell.LogEntry) logDoc {
	doc := logDoc{
		Index: e.Index, Commit: e.Commit.String(), Entry: e.Entry, After: e.After.String(), Operations: []string{},
		Lifecycle: e.Lifecycle.String(), State: e.State.String(), Fault: e.Fault, Records: []logRecordDoc{},
	}
	if e.Index > 0 {
		event, before := e.Event.String(), e.Before.String()
		doc.Event, doc.Before = &event, &before
	}
	if e.Input != nil {
		doc.Input = e.Input.String()
	}
	for _, o := range e.Operations {
		r := logRecordDoc{Record: o.Particle.String(), Schema: o.Record.Schema(), Reason: o.Reason}
		if o.Resources != nil {
			r.Charged, r.Reserved = &o.Resources.Charged, &o.Resources.Reserved
		}
		if o.Tag != 0 {
			r.Act, r.Arguments, r.Operation = actName(o.Tag), o.Arguments.String(), o.Operation.String()
		}
		if o.Attempt != (cell.Particle{}) {
			r.Attempt = o.Attempt.String()
		}
		if o.Value != nil {
			r.Value = o.Value.String()
		}
		doc.Operations = append(doc.Operations, r.Record)
		doc.Records = append(doc.Records, r)
	}
	return doc
}

// story tells a commit in a sentence.
func (a *app) story(e *cell.LogEntry) string {
	of := func(schema string) *cell.LogOperation {
		for i := range e.Operations {
			if o := &e.Operations[i]; o.Record.Schema() == schema {
				return o
			}
		}
		return &cell.LogOperation{}
	}
	steps := func(o *cell.LogOperation) string {
		if o.Resources == nil {
			return ""
		}
		return fmt.Sprintf(" (%d steps charged)", o.Resources.Charged)
	}
	s := a.style
	switch e.Entry {
	case cell.EntryBirth:
		return "born with the state " + a.shown(e.State)
	case cell.EntryMain:
		return s.bold("input") + " " + a.shown(*e.Input)
	case cell.EntryReserve:
		if r := of("cell/continuation/1").Resources; r != nil {
			return s.faint(fmt.Sprintf("reserved %d steps", r.Reserved))
		}
		return s.faint("reserved steps")
	case cell.EntryRecover:
		return s.yellow("a settlement was lost: its reservation is charged") + steps(of("cell/continuation/1"))
	case cell.EntryYield:
		return s.faint("ran a slice" + steps(of("cell/continuation/1")))
	case cell.EntryAct:
		o := of("cell/operation/1")
		return s.bold(fmt.Sprintf("asks for %s(%s)", actName(o.Tag), a.shown(o.Arguments)))
	case cell.EntryDenied:
		o := of("cell/local-denial/1")
		return s.red(fmt.Sprintf("%s was denied: %s", actName(o.Tag), line(o.Reason)))
	case cell.EntryAttempt:
		o := of("cell/attempt/1")
		return fmt.Sprintf("%s is attempted: %v", actName(o.Tag), o.Attempt)
	case cell.EntryOutcome:
		o := of("cell/outcome/1")
		if o.Value != nil {
			return s.green(actName(o.Tag)+" has succeeded") + ": " + a.shown(*o.Value)
		}
		return s.red(actName(o.Tag)+" has failed") + ": " + line(o.Reason)
	case cell.EntryComplete:
		text := "the state is still " + a.shown(e.State)
		if before, after := e.StateBefore.String(), e.State.String(); before != after {
			text = "state " + a.shown(e.StateBefore) + " becomes " + a.shown(e.State)
		}
		return s.green("complete") + steps(of("cell/local-resources/1")) + ": " + text
	case cell.EntryFault:
		return s.red("fault: "+line(e.Fault)) + steps(of("cell/local-resources/1")) + "; the state is still " + a.shown(e.State)
	}
	return "is " + e.Entry
}

func (a *app) printLog(entries []cell.LogEntry) {
	for i := range entries {
		e := &entries[i]
		fmt.Fprintf(a.out, "%4d  %s  %s\n", e.Index, a.style.faint(e.Commit.String()[:12]), a.story(e))
	}
}

func (a *app) cellLog() *cobra.Command {
	var from uint64
	limit := 0
	c := &cobra.Command{
		Use:   "log CELL",
		Short: "Tell the history of a cell: inputs, slices, acts, outcomes and states",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 0 {
				return &usageError{errors.New("--limit: expected a positive number, or 0 for no limit")}
			}
			docs := []logDoc{}
			err := a.onCell(c.Context(), args[0], func(cells *cells, of cell.Particle) error {
				for next, left := from, limit; ; {
					page := cell.MaxHistory
					if limit > 0 {
						page = min(page, left)
					}
					if page == 0 {
						return nil
					}
					entries, err := cells.Log(c.Context(), of, next, page)
					if err != nil {
						return err
					}
					if a.json {
						for i := range entries {
							docs = append(docs, logOf(&entries[i]))
						}
					} else {
						a.printLog(entries)
					}
					if len(entries) < page {
						return nil
					}
					next, left = next+uint64(page), left-page
				}
			})
			if err != nil {
				return err
			}
			return a.print(docs, func() {})
		},
	}
	c.Flags().Uint64Var(&from, "from", 0, "begin with this commit")
	c.Flags().IntVarP(&limit, "limit", "n", 0, "how many commits (default: all)")
	return c
}

func (a *app) cellWatch() *cobra.Command {
	var from int64
	c := &cobra.Command{
		Use:   "watch CELL",
		Short: "Follow the history of a cell until Ctrl-C",
		Long: "Watch prints each commit when it is there, one line each; with --json one object a line. It lets others\n" +
			"have the store between two looks.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			next, begun := uint64(max(0, from)), from >= 0
			for {
				err := a.onCell(ctx, args[0], func(cells *cells, of cell.Particle) error {
					if !begun {
						v, err := cells.Inspect(ctx, of)
						if err != nil {
							return err
						}
						next, begun = v.Head.Index+1, true
						return nil
					}
					entries, err := cells.Log(ctx, of, next, cell.MaxHistory)
					if err != nil {
						return err
					}
					next += uint64(len(entries))
					if !a.json {
						a.printLog(entries)
						return nil
					}
					for i := range entries {
						if err := a.printLine(logOf(&entries[i])); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil && !errors.Is(err, store.ErrLocked) {
					return err
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(storePause):
				}
			}
		},
	}
	c.Flags().Int64Var(&from, "from", -1, "begin with this commit (default: the next one)")
	return c
}

// particleDoc is writ.particle.v1.
type particleDoc struct {
	Schema   string     `json:"schema"`
	Particle string     `json:"particle"`
	Kind     string     `json:"kind"`
	Record   string     `json:"record,omitempty"`
	Fields   []fieldDoc `json:"fields,omitempty"`
	Atom     string     `json:"atom,omitempty"`
	Pair     []string   `json:"pair,omitempty"`
	Bytes    *string    `json:"bytes,omitempty"`
	Text     *string    `json:"text,omitempty"`
	Noun     string     `json:"noun,omitempty"`
}

type fieldDoc struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

func (a *app) cellGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get PARTICLE",
		Short: "Show stored content: a record with its fields, an artifact, an atom, a pair or a blob",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := particleArgument("PARTICLE", args[0])
			if err != nil {
				return err
			}
			var doc particleDoc
			if err := a.withCells(c.Context(), func(cells *cells) error {
				doc, err = cells.particle(c.Context(), p)
				return err
			}); err != nil {
				return err
			}
			return a.print(doc, func() { a.showParticle(&doc) })
		},
	}
}

// particle reads content.
func (c *cells) particle(ctx context.Context, p cell.Particle) (particleDoc, error) {
	kind, b, err := c.store.Content(ctx, p)
	if err != nil {
		return particleDoc{}, err
	}
	doc := particleDoc{Schema: "writ.particle.v1", Particle: p.String(), Kind: kind.String()}
	switch kind {
	case record.KindAtom:
		doc.Atom = strconv.FormatUint(binary.LittleEndian.Uint64(b), 10)
		return doc, nil
	case record.KindBlob:
		doc.content(b)
		return doc, nil
	}
	left, right := record.Item{Bytes: b}.Pair()
	doc.Pair = []string{left.String(), right.String()}
	r := record.NewReader(ctx, record.Local(), c.store, record.ArtifactBudget)
	any, err := r.Any(p)
	if errors.Is(err, cell.ErrSchema) || errors.Is(err, cell.ErrInvalid) {
		return doc, nil // a pair that is no record
	}
	if err != nil {
		return doc, err
	}
	doc.Record = any.Schema()
	for _, f := range record.Fields(any) {
		doc.Fields = append(doc.Fields, fieldDoc{f.Name, fieldValue(f.Value)})
	}
	if any.Schema() == "cell/artifact/1" {
		data, _, err := r.Artifact(p)
		if err != nil {
			return doc, err
		}
		doc.content(data)
	}
	return doc, nil
}

// content shows bytes as a noun or a text if they are one, else in hexadecimal.
func (d *particleDoc) content(b []byte) {
	if n, err := nox.Decode(b); err == nil {
		d.Noun = n.String()
		return
	}
	if utf8.Valid(b) {
		text := string(b)
		d.Text = &text
		return
	}
	bytes := hex.EncodeToString(b)
	d.Bytes = &bytes
}

// fieldValue is a value of a record in JSON. Numbers are strings: they have 64 bits.
func fieldValue(v any) any {
	switch v := v.(type) {
	case uint64:
		return strconv.FormatUint(v, 10)
	case []uint64:
		list := make([]string, len(v))
		for i, n := range v {
			list[i] = strconv.FormatUint(n, 10)
		}
		return list
	case cell.Particle:
		return v.String()
	case []cell.Particle:
		list := make([]string, len(v))
		for i, p := range v {
			list[i] = p.String()
		}
		return list
	case []record.Entry[cell.Particle]:
		list := make([][]fieldDoc, len(v))
		for i := range v {
			for _, f := range record.Fields(&v[i]) {
				list[i] = append(list[i], fieldDoc{f.Name, fieldValue(f.Value)})
			}
		}
		return list
	case []record.Metric[cell.Particle]:
		list := make([][]string, len(v))
		for i, m := range v {
			list[i] = []string{m.Metric.String(), strconv.FormatUint(m.Limit, 10)}
		}
		return list
	}
	return v
}

func (a *app) showParticle(doc *particleDoc) {
	rows := [][]string{{"particle", doc.Particle}, {"kind", doc.Kind}}
	if doc.Record != "" {
		rows[1] = []string{"record", doc.Record}
	} else if doc.Pair != nil {
		rows = append(rows, []string{"head", doc.Pair[0]}, []string{"tail", doc.Pair[1]})
	}
	for _, f := range doc.Fields {
		rows = append(rows, []string{f.Name, fieldText(f.Value)})
	}
	switch {
	case doc.Atom != "":
		rows = append(rows, []string{"value", doc.Atom})
	case doc.Noun != "":
		rows = append(rows, []string{"noun", doc.Noun})
	case doc.Bytes != nil:
		rows = append(rows, []string{"bytes", *doc.Bytes})
	}
	table(a.out, rows)
	if doc.Text != nil {
		fmt.Fprintln(a.out)
		fmt.Fprintln(a.out, printable(*doc.Text))
	}
}

func fieldText(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		return line(v)
	case []string:
		if len(v) == 0 {
			return "-"
		}
		return strings.Join(v, " ")
	case [][]string:
		var parts []string
		for _, p := range v {
			parts = append(parts, strings.Join(p, " "))
		}
		return strings.Join(parts, ", ")
	case [][]fieldDoc:
		var parts []string
		for _, fields := range v {
			var words []string
			for _, f := range fields {
				words = append(words, f.Name+" "+fieldText(f.Value))
			}
			parts = append(parts, strings.Join(words, " "))
		}
		return strings.Join(parts, ", ")
	}
	return fmt.Sprint(v)
}

// diffDoc is writ.cell-diff.v1.
type diffDoc struct {
	Schema  string       `json:"schema"`
	From    headDoc      `json:"from"`
	To      headDoc      `json:"to"`
	Changes []changedDoc `json:"changes"`
}

type changedDoc struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

func (a *app) cellDiff() *cobra.Command {
	return &cobra.Command{
		Use:     "diff CELL FROM TO",
		Short:   "Compare a cell after two of its commits",
		Long:    "Diff compares the snapshots that two commits have led to. FROM and TO are the numbers of commits, as\n`writ cell log` shows them.",
		Example: "  writ cell diff 500c0e97 1 4",
		Args:    cobra.ExactArgs(3),
		RunE: func(c *cobra.Command, args []string) error {
			var at [2]uint64
			for i, name := range []string{"FROM", "TO"} {
				n, err := strconv.ParseUint(args[i+1], 10, 64)
				if err != nil {
					return &usageError{fmt.Errorf("%s %q: expected the number of a commit", name, line(args[i+1]))}
				}
				at[i] = n
			}
			doc := diffDoc{Schema: "writ.cell-diff.v1", Changes: []changedDoc{}}
			var states [2]string // as people read them
			err := a.onCell(c.Context(), args[0], func(cells *cells, of cell.Particle) error {
				var entries [2]cell.LogEntry
				var fields [2][]record.Field
				for i, n := range at {
					list, err := cells.Log(c.Context(), of, n, 1)
					if err != nil {
						return err
					}
					if len(list) == 0 {
						return fmt.Errorf("%w: cell %v has no commit %d", cell.ErrMissing, of, n)
					}
					entries[i] = list[0]
					var snapshot record.Snapshot[cell.Particle]
					r := record.NewReader(c.Context(), record.Local(), cells.store, record.CellBudget)
					if err := r.Record(entries[i].After, &snapshot); err != nil {
						return err
					}
					fields[i] = record.Fields(&snapshot)
				}
				states = [2]string{a.shown(entries[0].State), a.shown(entries[1].State)}
				doc.From, doc.To = headDoc{at[0], entries[0].Commit.String()}, headDoc{at[1], entries[1].Commit.String()}
				if from, to := entries[0].State.String(), entries[1].State.String(); from != to {
					doc.Changes = append(doc.Changes, changedDoc{"state", from, to})
				}
				for i, f := range fields[0] {
					if from, to := fieldText(fieldValue(f.Value)), fieldText(fieldValue(fields[1][i].Value)); from != to {
						doc.Changes = append(doc.Changes, changedDoc{f.Name, from, to})
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			return a.print(doc, func() {
				if len(doc.Changes) == 0 {
					fmt.Fprintln(a.out, "nothing differs")
				}
				for _, d := range doc.Changes {
					if d.Field == "state" {
						d.From, d.To = states[0], states[1]
					}
					fmt.Fprintf(a.out, "%s\n  %s %s\n  %s %s\n", a.style.bold(d.Field), a.style.red("-"), cut(d.From, maxShown), a.style.green("+"), cut(d.To, maxShown))
				}
			})
		},
	}
}

// schemaDoc is a schema in the list that `writ cell schema` prints.
type schemaDoc struct {
	Name     string `json:"name"`
	Particle string `json:"particle"`
}

func (a *app) cellSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the identities of the schemas of records",
		Long:  "Schema prints the name and the particle of every schema of cells, or of one. They follow from the contract\nthat this program has built in, and need no store.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			docs := []schemaDoc{}
			for _, s := range record.Local().Schemas() {
				if len(args) == 0 || args[0] == s.Name {
					docs = append(docs, schemaDoc{s.Name, s.Manifest.String()})
				}
			}
			if len(docs) == 0 {
				return fmt.Errorf("%w: no schema is named %s; `writ cell schema` lists them", cell.ErrMissing, line(args[0]))
			}
			return a.print(docs, func() {
				for _, d := range docs {
					fmt.Fprintf(a.out, "%s  %s\n", d.Particle, d.Name)
				}
			})
		},
	}
}
