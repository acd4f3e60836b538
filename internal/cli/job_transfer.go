package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/server"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/transfer"
)

// transferDoc is writ.job-export.v1 and writ.job-import.v1.
type transferDoc struct {
	Schema       string         `json:"schema"`
	File         string         `json:"file"`
	Engine       string         `json:"engine"`
	EngineSchema int            `json:"engine_schema"`
	Epoch        int64          `json:"epoch"`
	At           string         `json:"at"`
	Rows         workitem.Sizes `json:"rows"`
	Bytes        int64          `json:"bytes"`
}

// newTransferDoc says what was moved.
func newTransferDoc(schema, file string, s *transfer.Summary, bytes int64) transferDoc {
	return transferDoc{Schema: schema, File: file, Engine: s.Engine, EngineSchema: s.Schema, Epoch: s.Epoch, At: s.At, Rows: s.Rows, Bytes: bytes}
}

func (a *app) jobExport() *cobra.Command {
	return &cobra.Command{
		Use:   "export [FILE|-]",
		Short: "Write all jobs of all tenants as one text, for another store",
		Long: "Export writes everything that the store has into a new file or to standard output: jobs with\n" +
			"their leases and histories, tombstones, claim request ids, turns and tokens, as hashes. It is one\n" +
			"consistent state; the store may be in use, also by a server. `writ job import` checks that it is\n" +
			"whole. What happens after the state was read is not in it: stop the server before a move.",
		Example: "  writ job export jobs.ndjson\n  writ job export - | ssh other writ job import - --data /srv/writ",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := "-"
			if len(args) == 1 {
				path = args[0]
			}
			if path == "-" && a.json {
				return &usageError{errors.New("the jobs and the JSON can't both go to standard output; name a file")}
			}
			p := a.progress()
			defer p.clear()
			var sum *transfer.Summary
			out := &counted{}
			write := func(w io.Writer) (err error) {
				out.w = w
				out.tell = func(n int64) { p.step("exporting  " + size(n)) }
				sum, err = a.exportJobs(c.Context(), out, p)
				return err
			}
			if path == "-" {
				return write(a.out)
			}
			if _, err := os.Lstat(path); err == nil {
				return fmt.Errorf("%s exists; choose another name: %w", path, fs.ErrExist)
			}
			if err := newFile(path, write); err != nil {
				return err
			}
			p.clear()
			return a.printTransfer(newTransferDoc("writ.job-export.v1", path, sum, out.n))
		},
	}
}

// exportJobs exports the store of a server, of a data directory or of a database.
func (a *app) exportJobs(ctx context.Context, w *counted, p *progress) (*transfer.Summary, error) {
	return reach(ctx, a, func(at client.Config) (_ *transfer.Summary, err error) {
		c, err := client.New(at)
		if err != nil {
			return nil, &usageError{err}
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		return c.Export(ctx, w)
	}, func(place jobsPlace, _ workitem.Principal) (_ *transfer.Summary, err error) {
		store, err := place.open(ctx, false)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		w.tell = nil
		progress := p.measured("exporting", func(n int64) string { return fmt.Sprintf("%d jobs", n) })
		return transfer.Export(ctx, store, w, transfer.Options{Progress: progress})
	})
}

func (a *app) jobImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE|-",
		Short: "Fill an empty store with what export has written",
		Long: "Import takes everything over as it was: workers go on with their leases, requests that were known\n" +
			"are known. The store must be empty. No server may have a data directory open; those that have a\n" +
			"database open refuse everything until the import has finished. One that was cut short or refused\n" +
			"leaves a store that refuses every use; import again, and it begins anew.",
		Example: "  writ job import jobs.ndjson --data /srv/writ\n  writ job import jobs.ndjson --jobs-db postgres://writ@db.internal/writ",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			in := &counted{r: a.in}
			p := a.progress()
			defer p.clear()
			in.tell = func(n int64) { p.step("importing  " + size(n)) }
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				info, err := f.Stat()
				if err != nil {
					return err
				}
				in.r = f
				if show := p.bytes("importing"); show != nil && info.Mode().IsRegular() {
					in.tell = func(n int64) { show(n, info.Size()) }
				}
			}
			in.r = &interruptible{ctx: c.Context(), in: in.r}
			place, err := a.emptyPlace(c.Context())
			if err != nil {
				return err
			}
			sum, err := transfer.Import(c.Context(), in, place.fill)
			if err != nil {
				return err
			}
			p.clear()
			return a.printTransfer(newTransferDoc("writ.job-import.v1", args[0], sum, in.n))
		},
	}
}

// emptyPlace is where an import goes to. No server may have a data directory open.
func (a *app) emptyPlace(ctx context.Context) (jobsPlace, error) {
	if a.serverURL() != "" {
		return jobsPlace{}, &usageError{errors.New("an import goes into a store and not through a server; name it with --data or --jobs-db")}
	}
	if err := a.onePlace(); err != nil {
		return jobsPlace{}, err
	}
	if url := a.database(); url != "" {
		return jobsPlace{database: url}, nil
	}
	data, err := a.dataDir(ctx)
	if err != nil {
		return jobsPlace{}, err
	}
	serving, err := server.Answers(ctx, server.SocketPath(data))
	if err == nil && serving {
		err = fmt.Errorf("%w: it answers at %s; stop it before an import", server.ErrRunning, server.SocketPath(data))
	}
	return jobsPlace{data: data}, err
}

func (a *app) printTransfer(doc transferDoc) error {
	return a.print(doc, func() {
		fmt.Fprintf(a.out, "%s: %s; %s, as of %s\n", line(doc.File), doc.Rows, size(doc.Bytes), doc.At)
	})
}

// counted counts the bytes that are read or written and tells of them.
type counted struct {
	r    io.Reader
	w    io.Writer
	n    int64
	tell func(int64) // now and then
	last time.Time
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.count(n)
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.count(n)
	return n, err
}

func (c *counted) count(n int) {
	c.n += int64(n)
	if c.tell != nil && time.Since(c.last) >= redraw {
		c.last = time.Now()
		c.tell(c.n)
	}
}
