package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/internal/backup"
	"github.com/writ-authority/writ/server"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

func (a *app) backup() *cobra.Command {
	return group("backup", "Back up and restore everything in a data directory", a.backupCreate(), a.backupVerify(), a.backupRestore())
}

func (a *app) backupCreate() *cobra.Command {
	return &cobra.Command{
		Use:   "create DEST",
		Short: "Copy the whole data directory to a new directory, while others work",
		Long: "Create copies the work items, the cells and the authority of the data directory to DEST, which must\n" +
			"not exist, and checks the copy before it gets that name. A server that has the data directory\n" +
			"open goes on, and so do gates; commands about cells wait while the cells are copied.",
		Example: "  writ backup create /backups/writ-$(date +%F) --data /var/lib/writ",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			dest, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			data, err := a.dataDir(ctx)
			if err != nil {
				return err
			}
			p := a.progress()
			defer p.clear()
			m, err := backup.Create(ctx, backup.Source{
				Data: data, Version: version(), Patience: storeTimeout, Progress: p.bytes("backup"),
				Jobs: func(ctx context.Context, read func(io.Reader) error) error { return a.copyJobs(ctx, data, read) },
			}, dest)
			if err != nil {
				return err
			}
			p.clear()
			return a.printDataBackup(dest, m, "backed up")
		},
	}
}

// copyJobs has read read a copy of the jobs of a data directory: from the server that
// has them open, else from the store, which is opened for the time.
func (a *app) copyJobs(ctx context.Context, data string, read func(io.Reader) error) error {
	tenant, owner, err := a.caller()
	if err != nil {
		return err
	}
	// A server that is just starting holds the store before it answers, and another
	// command may have it open.
	for last := time.Now().Add(storeTimeout); ; {
		socket := server.SocketPath(data)
		serving, err := server.Answers(ctx, socket)
		if err != nil {
			return err
		}
		if serving {
			c, err := client.New(client.Config{Socket: socket, Token: localToken(tenant, owner)})
			if err != nil {
				return err
			}
			err = errors.Join(c.CopyJobs(ctx, read), c.Close())
			if errors.Is(err, workitem.ErrInvalidState) {
				err = backup.ErrElsewhere
				fmt.Fprintln(a.err, "the server has its jobs in a database, which its own tools back up; work.db is left out")
			}
			return err
		}
		patience, cancel := context.WithTimeout(ctx, lockTimeout)
		store, err := sqlite.Open(patience, sqlite.Options{Path: server.StorePath(data)})
		cancel()
		if errors.Is(err, sqlite.ErrLocked) && time.Now().Before(last) {
			continue
		}
		if err != nil {
			return err
		}
		return errors.Join(pipe(ctx, store, read), store.Close())
	}
}

// pipe has read read what the store copies.
func pipe(ctx context.Context, store *sqlite.Store, read func(io.Reader) error) error {
	r, w := io.Pipe()
	sent := make(chan struct{})
	go func() { // until everything was sent, or nobody reads any more
		defer close(sent)
		w.CloseWithError(store.Copy(ctx, w))
	}()
	err := read(r)
	_ = r.Close() // it never fails, and ends the sender
	<-sent
	return err
}

func (a *app) backupVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify SRC",
		Short: "Check every byte of a backup",
		Long: "Verify compares every file of a backup with the sums in its manifest.json, and checks that the\n" +
			"work items, the cells and the authority in it are sound. It writes nothing.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p := a.progress()
			defer p.clear()
			m, err := backup.Verify(c.Context(), args[0], p.bytes("verify"))
			if err != nil {
				return err
			}
			p.clear()
			return a.printDataBackup(args[0], m, "sound")
		},
	}
}

// dataBackupDoc is writ.data-backup-report.v1.
type dataBackupDoc struct {
	Schema    string            `json:"schema"`
	Directory string            `json:"directory"`
	CreatedAt string            `json:"created_at"`
	Version   string            `json:"version"`
	Files     int               `json:"files"`
	Bytes     int64             `json:"bytes"`
	Jobs      *backup.Jobs      `json:"jobs"`
	Cells     *backup.Cells     `json:"cells"`
	Authority *backup.Authority `json:"authority"`
}

func (a *app) printDataBackup(dir string, m *backup.Manifest, verb string) error {
	doc := dataBackupDoc{
		Schema: "writ.data-backup-report.v1", Directory: dir, CreatedAt: m.CreatedAt, Version: m.Version,
		Files: len(m.Files), Bytes: m.Bytes, Jobs: m.Jobs, Cells: m.Cells, Authority: m.Authority,
	}
	return a.print(doc, func() {
		fmt.Fprintf(a.out, "%s: %s, %s in %s, begun at %s\n", printable(dir), verb, size(m.Bytes), plural(len(m.Files), "file", "files"), m.CreatedAt)
		a.printParts(m)
	})
}

// printParts says what is in a backup, and so what is not.
func (a *app) printParts(m *backup.Manifest) {
	rows := [][]string{{"  work items", "none"}, {"  cells", "none"}, {"  authority", "none"}}
	if m.Jobs != nil {
		rows[0][1] = fmt.Sprintf("%s, epoch %d", plural(m.Jobs.Jobs, "job", "jobs"), m.Jobs.Epoch)
	}
	if m.Cells != nil {
		rows[1][1] = "there"
	}
	if m.Authority != nil {
		rows[2][1] = fmt.Sprintf("%s, generation %d, epoch %d", plural(m.Authority.Repositories, "repository", "repositories"), m.Authority.Generation, m.Authority.Epoch)
	}
	table(a.out, rows)
}

func (a *app) backupRestore() *cobra.Command {
	return &cobra.Command{
		Use:   "restore SRC",
		Short: "Make a new data directory of a backup",
		Long: "Restore checks the backup in SRC and makes the data directory of it that --data names, which must\n" +
			"not exist or be empty: it is there whole, or not at all. The authority epochs are raised, so that no\n" +
			"lease from before can act: jobs that somebody held can be claimed at once, by a new lease.",
		Example: "  writ backup restore /backups/writ-2026-12-02 --data /var/lib/writ",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			data, err := a.dataDir(c.Context())
			if err != nil {
				return err
			}
			p := a.progress()
			defer p.clear()
			r, err := backup.Restore(c.Context(), args[0], data, p.bytes("restore"))
			if err != nil {
				return err
			}
			p.clear()
			return a.printDataRestore(data, r)
		},
	}
}

// dataRestoreDoc is writ.data-restore.v1.
type dataRestoreDoc struct {
	Schema         string  `json:"schema"`
	Data           string  `json:"data"`
	CreatedAt      string  `json:"created_at"`
	Cells          bool    `json:"cells"`
	JobsEpoch      *int64  `json:"jobs_epoch"`
	AuthorityEpoch *uint64 `json:"authority_epoch"`
}

func (a *app) printDataRestore(data string, r *backup.Restored) error {
	doc := dataRestoreDoc{Schema: "writ.data-restore.v1", Data: data, CreatedAt: r.CreatedAt, Cells: r.Cells != nil}
	if r.Jobs != nil {
		doc.JobsEpoch = &r.JobsEpoch
	}
	if r.Authority != nil {
		doc.AuthorityEpoch = &r.AuthorityEpoch
	}
	return a.print(doc, func() {
		fmt.Fprintf(a.out, "%s: restored, as it was at %s or shortly after\n", printable(data), r.CreatedAt)
		a.printParts(r.Manifest)
		if r.Jobs != nil {
			fmt.Fprintf(a.out, "the authority epoch of the work items is %d now: leases, cursors and claim request ids from before are refused\n", r.JobsEpoch)
		}
		if r.Authority != nil {
			fmt.Fprintf(a.out, "the epoch of the authority is %d now: leases from before are refused\n", r.AuthorityEpoch)
		}
	})
}
