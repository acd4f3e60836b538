package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/cell"
)

// findingDoc is something that is wrong with the cells.
type findingDoc struct {
	Cell    string  `json:"cell,omitempty"`
	Index   *uint64 `json:"index,omitempty"`
	Problem string  `json:"problem"`
}

// cellVerifyDoc is writ.cell-verify.v1.
type cellVerifyDoc struct {
	Schema   string       `json:"schema"`
	Sound    bool         `json:"sound"`
	Cells    uint64       `json:"cells"`
	Commits  uint64       `json:"commits"`
	Items    uint64       `json:"items"`
	Findings []findingDoc `json:"findings"`
}

func (a *app) cellVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Check the store of cells: every hash, every history, every request",
		Long: "Verify reads everything that is stored and walks from the birth of every cell to its head. It computes\n" +
			"each hash again and changes nothing. It exits with 7 if anything is wrong.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			doc := cellVerifyDoc{Schema: "writ.cell-verify.v1", Findings: []findingDoc{}}
			p := a.progress()
			defer p.clear()
			err := a.withCells(c.Context(), func(cells *cells) error {
				physical, err := cells.store.Verify(c.Context(), func(done, total uint64) {
					p.step(fmt.Sprintf("%d of %d pieces of the store", done, total))
				})
				if err != nil {
					return err
				}
				for _, f := range physical {
					doc.Findings = append(doc.Findings, findingDoc{Problem: f.String()})
				}
				findings, v, err := cells.Engine.Verify(c.Context(), func(v cell.Verification) {
					p.step(fmt.Sprintf("%s, %d commits", plural(int(v.Cells), "cell", "cells"), v.Commits))
				})
				if err != nil {
					return err
				}
				for _, f := range findings {
					doc.Findings = append(doc.Findings, findingDoc{f.Cell.String(), &f.Index, f.Err.Error()})
				}
				doc.Cells, doc.Commits, doc.Items = v.Cells, v.Commits, v.Items
				return nil
			})
			if err != nil {
				return err
			}
			p.clear()
			doc.Sound = len(doc.Findings) == 0
			if err := a.print(doc, func() { a.showFindings(&doc) }); err != nil {
				return err
			}
			if !doc.Sound {
				return errUnsound
			}
			return nil
		},
	}
}

func (a *app) showFindings(doc *cellVerifyDoc) {
	for _, f := range doc.Findings {
		if f.Cell != "" {
			fmt.Fprintf(a.out, "%s cell %s, commit %d: %s\n", a.style.red("wrong"), f.Cell, *f.Index, line(f.Problem))
			continue
		}
		fmt.Fprintf(a.out, "%s %s\n", a.style.red("wrong"), line(f.Problem))
	}
	what := fmt.Sprintf("%s, %s, %s", plural(int(doc.Cells), "cell", "cells"), plural(int(doc.Commits), "commit", "commits"), plural(int(doc.Items), "item", "items"))
	if doc.Sound {
		fmt.Fprintf(a.out, "%s: %s\n", a.style.green("sound"), what)
		return
	}
	fmt.Fprintf(a.out, "%s: %s\n", a.style.red(plural(len(doc.Findings), "finding", "findings")), what)
}

// cellReplayDoc is writ.cell-replay.v1.
type cellReplayDoc struct {
	Schema string        `json:"schema"`
	Same   bool          `json:"same"`
	Cells  []replayedDoc `json:"cells"`
}

type replayedDoc struct {
	Cell    string      `json:"cell"`
	Commits uint64      `json:"commits"`
	Head    headDoc     `json:"head"`
	Finding *findingDoc `json:"finding"`
}

func (a *app) cellReplay() *cobra.Command {
	return &cobra.Command{
		Use:   "replay [CELL…]",
		Short: "Run cells again from their birth and compare every commit",
		Long: "Replay runs every input again and takes outcomes and decisions from the history; all cells if none is\n" +
			"named. Each commit must be the very same. It changes nothing, and exits with 7 if a commit differs.",
		RunE: func(c *cobra.Command, args []string) error {
			doc := cellReplayDoc{Schema: "writ.cell-replay.v1", Same: true, Cells: []replayedDoc{}}
			p := a.progress()
			defer p.clear()
			err := a.withCells(c.Context(), func(cells *cells) error {
				list, err := cells.named(c.Context(), args)
				if err != nil {
					return err
				}
				for i, of := range list {
					r, err := cells.Replay(c.Context(), of, func(done, total uint64) {
						p.step(fmt.Sprintf("cell %d of %d: %d of %d commits", i+1, len(list), done, total))
					})
					if err != nil {
						return err
					}
					d := replayedDoc{Cell: of.String(), Commits: r.Commits, Head: headOf(r.Head)}
					if f := r.Finding; f != nil {
						doc.Same = false
						d.Finding = &findingDoc{f.Cell.String(), &f.Index, f.Err.Error()}
					}
					doc.Cells = append(doc.Cells, d)
				}
				return nil
			})
			if err != nil {
				return err
			}
			p.clear()
			if err := a.print(doc, func() {
				for _, d := range doc.Cells {
					if f := d.Finding; f != nil {
						fmt.Fprintf(a.out, "%s  %s at commit %d: %s\n", d.Cell[:12], a.style.red("differs"), *f.Index, line(f.Problem))
						continue
					}
					fmt.Fprintf(a.out, "%s  %s  %s\n", d.Cell[:12], a.style.green("same"), plural(int(d.Commits), "commit", "commits"))
				}
				if len(doc.Cells) == 0 {
					fmt.Fprintln(a.out, "no cells")
				}
			}); err != nil {
				return err
			}
			if !doc.Same {
				return errUnsound
			}
			return nil
		},
	}
}

// cellExportDoc is writ.cell-export.v1, of an export or an import.
type cellExportDoc struct {
	Schema  string `json:"schema"`
	Cell    string `json:"cell"`
	Commits uint64 `json:"commits"`
	Items   uint64 `json:"items"`
	File    string `json:"file"`
}

func (a *app) cellExport() *cobra.Command {
	return &cobra.Command{
		Use:   "export CELL FILE",
		Short: "Write a cell with its history as one file",
		Long: "Export writes the commits of a cell and all that they refer to into a new file, - for standard output. The\n" +
			"cell stays: retire it before another store takes it, since two stores that go on with one cell have two\n" +
			"histories.",
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			path := args[1]
			if path == "-" && a.json {
				return &usageError{errors.New("the cell and the JSON can't both go to standard output; name a file")}
			}
			doc := cellExportDoc{Schema: "writ.cell-export.v1", File: path}
			err := a.onCell(c.Context(), args[0], func(cells *cells, of cell.Particle) error {
				doc.Cell = of.String()
				write := func(to io.Writer) (err error) {
					doc.Commits, doc.Items, err = cells.Export(c.Context(), of, to)
					return err
				}
				if path == "-" {
					return write(a.out)
				}
				return newFile(path, write)
			})
			if err != nil || path == "-" {
				return err
			}
			return a.print(doc, func() {
				fmt.Fprintf(a.out, "%s: cell %s, %s, %s\n", line(path), doc.Cell[:12], plural(int(doc.Commits), "commit", "commits"), plural(int(doc.Items), "item", "items"))
			})
		},
	}
}

// newFile writes a file that must not exist: all of it, durably, or nothing.
func newFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".writ-export-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = write(f)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	err = os.Link(f.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; choose another name: %w", path, fs.ErrExist)
	}
	return err
}

func (a *app) cellImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Take a cell out of what export has written",
		Long: "Import checks every hash and the whole history before the cell exists here. A cell that exists already is\n" +
			"never touched. FILE is - for standard input.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in := a.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			return a.withNewCells(c.Context(), func(cells *cells) error {
				made, head, err := cells.Import(c.Context(), bufio.NewReader(in))
				if err != nil {
					return err
				}
				return a.printHead(made, "", head)
			})
		},
	}
}

// cellCollectDoc is writ.cell-collect.v1.
type cellCollectDoc struct {
	Schema string `json:"schema"`
	Items  int64  `json:"items"`
	Bytes  int64  `json:"bytes"`
}

func (a *app) cellCollect() *cobra.Command {
	return &cobra.Command{
		Use:   "collect",
		Short: "Remove stored content that no cell refers to",
		Long:  "Collect walks from every cell and removes what it has not met, such as what a\nrefused import has left, and what is stored more than once.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			doc := cellCollectDoc{Schema: "writ.cell-collect.v1"}
			err := a.withCells(c.Context(), func(cells *cells) error {
				done, err := cells.store.Collect(c.Context(), func(visit func(cell.Particle) error) error {
					return cells.Reachable(c.Context(), visit)
				})
				doc.Items, doc.Bytes = done.Particles, done.Bytes
				return err
			})
			if err != nil {
				return err
			}
			return a.print(doc, func() {
				fmt.Fprintf(a.out, "removed %s, %s\n", plural(int(doc.Items), "item", "items"), size(doc.Bytes))
			})
		},
	}
}
