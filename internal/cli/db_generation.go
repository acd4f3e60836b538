package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
)

func (a *app) dbBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy the whole authority to a new directory, while others work",
		Long: "Backup copies the registry and every repository to DIR, which must not exist, and checks\n" +
			"the copy before it gets that name. Others go on reading and writing meanwhile.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return a.withAuthority(c.Context(), func(au *authority.Authority) error {
				p := a.progress()
				defer p.clear()
				m, err := au.Backup(c.Context(), dir, p.bytes("backup"))
				if err != nil {
					return err
				}
				p.clear()
				return a.printBackup(dir, m, "backed up")
			})
		},
	}
}

func (a *app) dbVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every file of a backup",
		Long: "Verify compares every file of a backup with the sums in its backup.json and checks every\n" +
			"rule of the format. It writes nothing.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p := a.progress()
			defer p.clear()
			m, err := authority.Verify(c.Context(), authority.Options{}, args[0], p.bytes("verify"))
			if err != nil {
				return err
			}
			p.clear()
			return a.printBackup(args[0], m, "sound")
		},
	}
}

// backupDoc is writ.backup-report.v1.
type backupDoc struct {
	Schema       string `json:"schema"`
	Directory    string `json:"directory"`
	Installation string `json:"installation"`
	Generation   uint64 `json:"generation"`
	Epoch        uint64 `json:"epoch"`
	CreatedAt    string `json:"created_at"`
	Version      string `json:"version"`
	Repositories int    `json:"repositories"`
	Files        int    `json:"files"`
	Bytes        int64  `json:"bytes"`
}

func (a *app) printBackup(dir string, m authority.Manifest, verb string) error {
	doc := backupDoc{
		Schema: "writ.backup-report.v1", Directory: dir, Installation: m.Installation, Generation: m.Generation, Epoch: m.Epoch,
		CreatedAt: m.CreatedAt, Version: m.Version, Repositories: m.Repositories, Files: len(m.Files), Bytes: m.Bytes,
	}
	return a.print(doc, func() {
		fmt.Fprintf(a.out, "%s: %s, %d repositories, %s in %d files\n", printable(dir), verb, m.Repositories, size(m.Bytes), len(m.Files))
		fmt.Fprintf(a.out, "installation %s, generation %d, epoch %d, %s\n", m.Installation, m.Generation, m.Epoch, m.CreatedAt)
	})
}

func (a *app) dbRestore() *cobra.Command {
	var force, dropOld bool
	c := &cobra.Command{
		Use:   "restore DIR",
		Short: "Make a backup the authority",
		Long: "Restore checks the backup in DIR and makes it the authority of the data directory. With\n" +
			"--force it takes the place of one that is there, of which nobody may be using anything.\n" +
			"The epoch is raised, so that no lease from before the restore can act.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			dir, err := a.dataDir(ctx)
			if err != nil {
				return err
			}
			p := a.progress()
			defer p.clear()
			done, err := authority.Restore(ctx, authority.Options{Dir: dir}, args[0], authority.Restoration{
				Replace: force, DropOld: dropOld, Progress: p.bytes("restore"),
			})
			if errors.Is(err, authority.ErrExists) {
				err = fmt.Errorf("%w; --force puts the backup in its place", err)
			}
			if err != nil {
				return err
			}
			p.clear()
			return a.printPublished("writ.restore.v1", dir, done, "restored")
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace the authority that is there")
	c.Flags().BoolVar(&dropOld, "drop-old", false, "with --force: remove the files of the replaced authority instead of keeping them in retired/")
	return c
}

// publishedDoc is what the documents about a new generation have in common.
type publishedDoc struct {
	Schema       string `json:"schema"`
	Data         string `json:"data"`
	Installation string `json:"installation"`
	Generation   uint64 `json:"generation"`
	Epoch        uint64 `json:"epoch"`
	Old          string `json:"old,omitempty"`
}

func (a *app) printPublished(schema, dir string, done authority.Published, verb string) error {
	doc := publishedDoc{schema, dir, done.Installation, done.Generation, done.Epoch, done.Old}
	return a.print(doc, func() {
		fmt.Fprintf(a.out, "%s: %s, generation %d, epoch %d\n", printable(dir), verb, done.Generation, done.Epoch)
		a.printOld(done)
	})
}

func (a *app) printOld(done authority.Published) {
	if done.Old != "" {
		fmt.Fprintf(a.out, "the files of the replaced generation are in %s\n", printable(done.Old))
	}
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	value, name := float64(n), ""
	for _, name = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= unit; value < unit {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, name)
}

func (a *app) dbCompact() *cobra.Command {
	var keepOld bool
	c := &cobra.Command{
		Use:   "compact",
		Short: "Write the authority anew without bytes that nothing refers to",
		Long: "Compact writes every file anew, checks the result against the old files, and puts it in\n" +
			"their place. Every index, identity, field and text stays what it is. No job may be running\n" +
			"and nobody else may be using the authority.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			dir, err := a.dataDir(ctx)
			if err != nil {
				return err
			}
			p := a.progress()
			defer p.clear()
			done, err := authority.Compact(ctx, authority.Options{Dir: dir}, authority.CompactOptions{KeepOld: keepOld, Progress: p.bytes("compact")})
			if err != nil {
				return err
			}
			p.clear()
			return a.printCompaction(dir, done)
		},
	}
	c.Flags().BoolVar(&keepOld, "keep-old", false, "keep the old files in retired/")
	return c
}

// compactDoc is writ.compact.v1.
type compactDoc struct {
	publishedDoc
	BytesBefore int64         `json:"bytes_before"`
	BytesAfter  int64         `json:"bytes_after"`
	DroppedRows uint32        `json:"dropped_rows"`
	Roots       []compactRoot `json:"roots"`
}

type compactRoot struct {
	Root        string `json:"root"`
	BytesBefore int64  `json:"bytes_before"`
	BytesAfter  int64  `json:"bytes_after"`
	DroppedRows uint32 `json:"dropped_rows"`
}

func (a *app) printCompaction(dir string, done authority.Compaction) error {
	doc := compactDoc{
		publishedDoc{"writ.compact.v1", dir, done.Installation, done.Generation, done.Epoch, done.Old},
		done.Before, done.After, done.DroppedRows, []compactRoot{},
	}
	for _, r := range done.Roots {
		doc.Roots = append(doc.Roots, compactRoot{r.Name, r.Before, r.After, r.DroppedRows})
	}
	return a.print(doc, func() {
		fmt.Fprintf(a.out, "%s: compacted from %s to %s, generation %d\n", printable(dir), size(done.Before), size(done.After), done.Generation)
		a.printOld(done.Published)
	})
}

func (a *app) dbExport() *cobra.Command {
	var index string
	c := &cobra.Command{
		Use:   "export [FILE|-]",
		Short: "Write every record as a line of JSON",
		Long: "Export writes a header and then one line for each record, with its fields and its text,\n" +
			"to a new file or to standard output. What it writes is read first and written after, so\n" +
			"that a slow reader holds nobody up.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := "-"
			if len(args) == 1 {
				path = args[0]
			}
			return a.withAuthority(c.Context(), func(au *authority.Authority) error {
				var only *uint32
				if index != "" {
					i, err := repositoryIndex(c.Context(), au, index)
					if err != nil {
						return err
					}
					only = &i
				}
				return a.export(c.Context(), au, path, only)
			})
		},
	}
	c.Flags().StringVar(&index, "repository", "", "index of the only repository to export (default: all)")
	return c
}

// export writes to a file that nobody knows yet, which gets its name, or is copied
// to standard output, once it is complete.
func (a *app) export(ctx context.Context, au *authority.Authority, path string, only *uint32) (err error) {
	dir := "" // that of temporary files
	if path != "-" {
		dir = filepath.Dir(path)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s: %w: expected a name that is free", path, fs.ErrExist)
		}
	}
	f, err := os.CreateTemp(dir, ".writ-export-")
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		if rerr := os.Remove(f.Name()); err == nil && rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
	}()
	n, err := au.Export(ctx, f, only)
	if err != nil {
		return err
	}
	if path == "-" {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := io.Copy(a.out, f)
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	// A link refuses to replace what is there, which a rename would not.
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	doc := exportDoc{"writ.db-export-report.v1", path, au.Installation(), au.Epoch(), n, info.Size()}
	return a.print(doc, func() { fmt.Fprintf(a.out, "%s: %d records, %s\n", printable(path), n, size(info.Size())) })
}

// exportDoc is writ.db-export-report.v1.
type exportDoc struct {
	Schema       string `json:"schema"`
	File         string `json:"file"`
	Installation string `json:"installation"`
	Epoch        uint64 `json:"epoch"`
	Records      int64  `json:"records"`
	Bytes        int64  `json:"bytes"`
}
