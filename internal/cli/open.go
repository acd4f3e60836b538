package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/gate"
	"github.com/writ-authority/writ/gitrepo"
)

// dataDir is the data directory that a command without a checkout works on: what
// --data names, else the one inside the Git directory.
func (a *app) dataDir(ctx context.Context) (string, error) {
	if a.data != "" {
		return filepath.Abs(a.data)
	}
	git, err := gitrepo.Open(ctx, a.directory())
	if err != nil {
		return "", err
	}
	return gate.DefaultData(git), git.Close()
}

func (a *app) directory() string {
	if a.repo == "" {
		return "."
	}
	return a.repo
}

// withAuthority opens the installation, runs fn and closes it. It needs no Git
// repository when --data is given.
func (a *app) withAuthority(ctx context.Context, fn func(*authority.Authority) error) error {
	dir, err := a.dataDir(ctx)
	if err != nil {
		return err
	}
	au, err := authority.Open(ctx, authority.Options{Dir: dir})
	if err != nil {
		return err
	}
	return errors.Join(fn(au), au.Close())
}

// repositoryFlag adds --repository to a command and to those below it.
func repositoryFlag(c *cobra.Command, index *string) {
	c.PersistentFlags().StringVar(index, "repository", "", "index of the repository in the authority (default: that of the Git repository)")
}

// withRepository opens one Repository of the installation, runs fn and closes it.
// index is what --repository said. Without it, it is the Repository that stands
// for the Git repository, or the only one a user has made.
func (a *app) withRepository(ctx context.Context, index string, fn func(*authority.Repository) error) error {
	if index == "" {
		err := a.with(ctx, false, func(w *gate.Workspace) error { return fn(w.Repo) })
		if a.data == "" || !errors.Is(err, gitrepo.ErrNotRepository) {
			return err
		}
	}
	return a.withAuthority(ctx, func(au *authority.Authority) error {
		i, err := repositoryIndex(ctx, au, index)
		if err != nil {
			return err
		}
		r, err := au.Repository(ctx, i)
		if err != nil {
			return err
		}
		return fn(r)
	})
}

// repositoryIndex reads a canonical index; "" is the only Repository of the user.
func repositoryIndex(ctx context.Context, au *authority.Authority, s string) (uint32, error) {
	if s != "" {
		i, ok := parseIndex(s)
		if !ok {
			return 0, &usageError{fmt.Errorf("--repository %q: expected the index of a repository, such as 4", s)}
		}
		return i, nil
	}
	list, err := au.Repositories(ctx)
	if err != nil {
		return 0, err
	}
	if n := len(list) - authority.FirstRepository; n != 1 {
		return 0, &usageError{fmt.Errorf("%w: there are %d repositories; choose one with --repository", bindb.ErrInvalid, n)}
	}
	return authority.FirstRepository, nil
}

// parseIndex reads an index in its only form: no sign, no leading zero.
func parseIndex(s string) (uint32, bool) {
	i, err := strconv.ParseUint(s, 10, 32)
	return uint32(i), err == nil && strconv.FormatUint(i, 10) == s
}
