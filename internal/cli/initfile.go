package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/gate/suite"
	"github.com/writ-authority/writ/gitrepo"
)

func (a *app) initFile() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use:   "init",
		Short: "Write writ.yaml with the suites that are found here",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir := a.repo
			if dir == "" {
				dir = "."
			}
			git, err := gitrepo.Open(c.Context(), dir)
			if err != nil {
				return err
			}
			top := git.Top()
			if err := git.Close(); err != nil {
				return err
			}
			if top == "" {
				return gitrepo.ErrBare
			}
			path := filepath.Join(top, suite.FileName)
			cfg := suite.Config{Version: 1}
			if cfg.Suites, err = suite.Detect(directory(top)); err != nil {
				return err
			}
			// An empty list would turn detection off for good.
			cfg.HasSuites = len(cfg.Suites) > 0
			flag := os.O_WRONLY | os.O_CREATE | os.O_EXCL
			if force {
				flag = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
			}
			f, err := os.OpenFile(path, flag, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return &usageError{fmt.Errorf("%s exists; --force replaces it", path)}
			}
			if err != nil {
				return err
			}
			_, err = f.Write(cfg.Marshal())
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
			ids := []string{}
			for _, s := range cfg.Suites {
				ids = append(ids, s.ID)
			}
			doc := map[string]any{"schema": "writ.init.v1", "path": path, "suites": ids}
			return a.print(doc, func() {
				fmt.Fprintf(a.out, "wrote %s with %s\n", path, plural(len(ids), "suite", "suites"))
				for _, s := range cfg.Suites {
					fmt.Fprintf(a.out, "  %s  %s\n", s.ID, printable(s.Run.String()))
				}
				fmt.Fprintln(a.out, "commit it: a gate takes it from the base of a change")
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return c
}

// directory lets package suite look at a folder of the file system.
type directory string

func (d directory) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (d directory) Read(path string) ([]byte, bool, error) {
	info, err := os.Lstat(filepath.Join(string(d), path))
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > suite.MaxFile) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	b, err := os.ReadFile(filepath.Join(string(d), path))
	return b, err == nil, err
}
