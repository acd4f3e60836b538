package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
)

// errUnsound ends a check that has said what is wrong.
var errUnsound = errors.New("unsound")

// errFound ends a check at the first violation.
var errFound = errors.New("a violation was found")

func (a *app) dbCheck() *cobra.Command {
	all := false
	c := &cobra.Command{
		Use:   "check",
		Short: "Validate every record of the registry and of every repository",
		Long: "Check validates everything, whatever a clean stop has vouched for: the structure of each\n" +
			"file, every record and reference, and the checksums of all pages where they are known. It\n" +
			"names file, record and field of the first violation, or of all of them with --all, and ends\n" +
			"with exit code 7 when there is one. It works also where nothing else does because the\n" +
			"authority cannot be opened. What was interrupted is recovered first, as by every command.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			doc, err := a.examine(c.Context(), "writ.db-check.v1", all)
			if err != nil {
				return err
			}
			return a.printCheck(doc, func(r *checkRoot) {
				for _, x := range r.Recovered {
					fmt.Fprintf(a.out, "  recovered: %s: %s\n", printable(x.File), printable(x.What))
				}
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "report every violation, at most 1000 of each repository")
	return c
}

func (a *app) dbRecover() *cobra.Command {
	return &cobra.Command{
		Use:   "recover",
		Short: "Finish or take back what was interrupted, then validate everything",
		Long: "Recover opens every root, which ends the batch that a crash may have interrupted, says what\n" +
			"was finished or taken back, and validates everything. Every other command recovers what it\n" +
			"opens in the same way; this one opens all of it and tells.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			doc, err := a.examine(c.Context(), "writ.db-recover.v1", true)
			if err != nil {
				return err
			}
			recovered := 0
			err = a.printCheck(doc, func(r *checkRoot) {
				for _, x := range r.Recovered {
					recovered++
					fmt.Fprintf(a.out, "  %s: %s\n", printable(x.File), printable(x.What))
				}
			})
			if !a.json && recovered == 0 {
				fmt.Fprintln(a.out, "nothing was interrupted")
			}
			return err
		},
	}
}

// checkDoc is writ.db-check.v1 and writ.db-recover.v1.
type checkDoc struct {
	Schema   string      `json:"schema"`
	Data     string      `json:"data"`
	Sound    bool        `json:"sound"`
	Complete bool        `json:"complete"`
	Roots    []checkRoot `json:"roots"`

	unread error // of the first root that could not be looked at
}

type checkRoot struct {
	Root         string         `json:"root"`
	Index        *uint32        `json:"index,omitempty"`
	Name         string         `json:"name,omitempty"`
	Sound        bool           `json:"sound"`
	Records      uint64         `json:"records"`
	Bytes        uint64         `json:"bytes"`
	Findings     []checkFinding `json:"findings"`
	Recovered    []recovered    `json:"recovered"`
	StaleIndexes []string       `json:"stale_indexes"`
	Error        string         `json:"error,omitempty"`

	title string
}

type checkFinding struct {
	Check   string  `json:"check"`
	File    string  `json:"file,omitempty"`
	Record  *uint32 `json:"record,omitempty"`
	Field   string  `json:"field,omitempty"`
	Message string  `json:"message"`

	text string
}

type recovered struct {
	File string `json:"file"`
	What string `json:"what"`
}

// examine looks at all roots, or at those up to the first violation.
func (a *app) examine(ctx context.Context, schema string, all bool) (*checkDoc, error) {
	dir, err := a.dataDir(ctx)
	if err != nil {
		return nil, err
	}
	doc := &checkDoc{Schema: schema, Data: dir, Sound: true, Complete: true, Roots: []checkRoot{}}
	p := a.progress()
	defer p.clear()
	begin := func(name authority.RootName) { p.step("checking " + name.String()) }
	err = authority.Examine(ctx, authority.Options{Dir: dir}, begin, func(r authority.RootReport) error {
		root := newCheckRoot(r)
		if !all && len(root.Findings) > 1 {
			root.Findings = root.Findings[:1]
		}
		doc.Roots = append(doc.Roots, root)
		doc.Sound = doc.Sound && root.Sound
		if r.Err != nil && doc.unread == nil {
			doc.unread = fmt.Errorf("%s: %w", r.Root, r.Err)
		}
		if !all && !root.Sound {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		doc.Complete = false
		err = nil
	}
	return doc, err
}

func newCheckRoot(r authority.RootReport) checkRoot {
	root := checkRoot{
		Root: r.Root.Kind, Name: r.Root.Name, title: r.Root.String(), Sound: r.Err == nil && len(r.Findings) == 0,
		Records: r.Records, Bytes: r.Bytes,
		Findings: []checkFinding{}, Recovered: []recovered{}, StaleIndexes: []string{},
	}
	if r.Root.Kind == "repository" {
		root.Index = &r.Root.Index
	}
	for _, f := range r.Findings {
		x := checkFinding{Check: f.Check, File: f.File, Field: f.Field, Message: f.Message, text: f.String()}
		if f.HasIndex {
			x.Record = &f.Index
		}
		root.Findings = append(root.Findings, x)
	}
	for _, x := range r.Recovered {
		root.Recovered = append(root.Recovered, recovered{x.File, x.What})
	}
	for _, x := range r.Indexes {
		if x.State == bindb.IndexStale {
			root.StaleIndexes = append(root.StaleIndexes, x.File)
		}
	}
	if r.Err != nil {
		root.Error = r.Err.Error()
	}
	return root
}

// printCheck shows the report and returns what the command ends with.
func (a *app) printCheck(doc *checkDoc, details func(*checkRoot)) error {
	err := a.print(doc, func() {
		for i := range doc.Roots {
			r := &doc.Roots[i]
			state := a.style.green("sound")
			switch {
			case r.Error != "":
				state = a.style.red("could not be looked at: " + line(r.Error))
			case len(r.Findings) == 1:
				state = a.style.red("unsound")
			case len(r.Findings) > 0:
				state = a.style.red(fmt.Sprintf("%d violations", len(r.Findings)))
			}
			if r.Bytes > 0 {
				state += fmt.Sprintf(", %d records in %s", r.Records, size(int64(r.Bytes)))
			}
			fmt.Fprintf(a.out, "%s: %s\n", printable(r.title), state)
			details(r)
			for _, f := range r.Findings {
				fmt.Fprintf(a.out, "  %s\n", line(f.text))
			}
			for _, file := range r.StaleIndexes {
				fmt.Fprintf(a.out, "  note: %s does not agree with the records, which is harmless; `writ db reindex` writes it anew\n", file)
			}
		}
		if !doc.Complete {
			fmt.Fprintln(a.out, "stopped at the first violation; --all looks at everything")
		}
		if !doc.Sound && doc.unread == nil {
			fmt.Fprintln(a.out, "nothing is repaired by guessing: see docs/binary-db.md for what to do")
		}
	})
	switch {
	case err != nil:
		return err
	case doc.Sound:
		return nil
	}
	for _, r := range doc.Roots {
		if len(r.Findings) > 0 {
			return errUnsound
		}
	}
	return doc.unread
}

func (a *app) dbReindex() *cobra.Command {
	return &cobra.Command{
		Use:   "reindex",
		Short: "Write every index file anew from the records",
		Long: "Reindex rebuilds all .idx files of the registry and of every repository. No index is ever\n" +
			"needed: a missing or stale one costs time, and is passed over. Other implementations of the\n" +
			"format may expect all of them.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			return a.withAuthority(ctx, func(au *authority.Authority) error {
				doc := reindexDoc{Schema: "writ.db-reindex.v1", Data: au.Dir(), Roots: []reindexRoot{}}
				p := a.progress()
				defer p.clear()
				list, err := au.Repositories(ctx)
				if err != nil {
					return err
				}
				p.step("registry")
				root, err := reindexOne(ctx, au.Registry())
				if err != nil {
					return fmt.Errorf("registry: %w", err)
				}
				root.Root, root.title = "registry", "registry"
				doc.Roots = append(doc.Roots, root)
				for _, info := range list {
					if info.Meta.Tombstoned() {
						continue
					}
					name := authority.RootName{Kind: "repository", Index: info.Index, Name: info.Name}
					p.step(name.String())
					r, err := au.Repository(ctx, info.Index)
					if err == nil {
						root, err = reindexOne(ctx, r.Root())
					}
					if err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
					root.Root, root.Index, root.Name, root.title = "repository", &info.Index, info.Name, name.String()
					doc.Roots = append(doc.Roots, root)
				}
				p.clear()
				return a.print(doc, func() {
					for _, r := range doc.Roots {
						changed := 0
						for _, x := range r.Indexes {
							if x.Was != string(bindb.IndexCurrent) {
								changed++
							}
						}
						fmt.Fprintf(a.out, "%s: %d index files, %d of them changed\n", printable(r.title), len(r.Indexes), changed)
						for _, x := range r.Indexes {
							if x.Was == string(bindb.IndexStale) {
								fmt.Fprintf(a.out, "  %s did not agree with the records\n", x.File)
							}
						}
					}
				})
			})
		},
	}
}

// reindexDoc is writ.db-reindex.v1.
type reindexDoc struct {
	Schema string        `json:"schema"`
	Data   string        `json:"data"`
	Roots  []reindexRoot `json:"roots"`
}

type reindexRoot struct {
	Root    string         `json:"root"`
	Index   *uint32        `json:"index,omitempty"`
	Name    string         `json:"name,omitempty"`
	Indexes []reindexedDoc `json:"indexes"`

	title string
}

type reindexedDoc struct {
	File string `json:"file"`
	Was  string `json:"was"`
	Rows int    `json:"rows"`
}

func reindexOne(ctx context.Context, r *bindb.Root) (root reindexRoot, err error) {
	root.Indexes = []reindexedDoc{}
	before, err := r.Indexes(ctx)
	if err != nil {
		return root, err
	}
	for _, x := range before {
		root.Indexes = append(root.Indexes, reindexedDoc{x.File, string(x.State), x.Rows})
	}
	return root, r.Reindex(ctx)
}
