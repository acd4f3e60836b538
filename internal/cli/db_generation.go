package cli

import (
	"errors"
	"fmt"
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
