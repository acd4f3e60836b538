package authority_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
)

func TestDirectoriesAgreeWithTheRegistry(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(parent string) error
		check  string // "": it opens
	}{
		"as made":         {func(string) error { return nil }, ""},
		"left of staging": {func(p string) error { return os.Mkdir(filepath.Join(p, "5"), 0o700) }, ""},
		"beyond the next": {func(p string) error { return os.Mkdir(filepath.Join(p, "6"), 0o700) }, "D02"},
		"an alias":        {func(p string) error { return os.Mkdir(filepath.Join(p, "04"), 0o700) }, "D02"},
		"a name":          {func(p string) error { return os.Mkdir(filepath.Join(p, "mine"), 0o700) }, "D02"},
		"a file":          {func(p string) error { return os.WriteFile(filepath.Join(p, "5"), nil, 0o600) }, "D02"},
		"a link":          {func(p string) error { return os.Symlink("4", filepath.Join(p, "5")) }, "D02"},
		"one is gone":     {func(p string) error { return os.RemoveAll(filepath.Join(p, "2")) }, "D03"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			o := authority.Options{Dir: filepath.Join(t.TempDir(), "data")}
			a, err := authority.Create(ctx, o, "mine", authority.DefaultFlags)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.change(filepath.Join(o.Dir, "generations", "1", "repositories")); err != nil {
				t.Fatal(err)
			}
			a, err = authority.Open(ctx, o)
			if c.check == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = a.Close()
				return
			}
			if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), c.check) {
				t.Errorf("got %v, expected %s", err, c.check)
			}
		})
	}
}
