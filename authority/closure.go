package authority

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// directories are what lies in the parent directory of the Repositories.
type directories struct {
	present  []uint32 // indexes with a real directory, ascending
	left     bool     // one of them is the next index
	findings []bindb.Finding
}

// readDirectories compares the directories of the Repositories with the registry
// (section 17.3): exactly one real directory, named by its index, for each record
// that is not tombstoned. One named by the next index may be left of an
// interrupted registration: it is never used. live has an element for each record;
// nil means that the records are not known.
func readDirectories(fsys vfs.FS, parent string, live []bool) (d directories, err error) {
	bad := func(check, name, format string, args ...any) {
		d.findings = append(d.findings, bindb.Finding{Check: check, File: name, Message: fmt.Sprintf(format, args...)})
	}
	info, err := fsys.Lstat(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	if err != nil || !info.Mode.IsDir() {
		bad("D01", parent, "is not a real directory")
		return d, nil
	}
	entries, err := fsys.ReadDir(parent)
	if err != nil {
		return d, err
	}
	most := uint64(len(live))
	if live == nil {
		most = record.MaxTargets
	}
	for _, e := range entries {
		path := filepath.Join(parent, e.Name)
		index, err := strconv.ParseUint(e.Name, 10, 32)
		switch {
		case err != nil, strconv.FormatUint(index, 10) != e.Name, index > most:
			bad("D02", path, "is not the index of a repository, 0 to %d", max(most, 1)-1)
		case !e.Mode.IsDir():
			bad("D02", path, "is not a real directory")
		default:
			d.present = append(d.present, uint32(index))
			d.left = d.left || live != nil && index == most
		}
	}
	slices.Sort(d.present)
	for i, want := range live {
		if _, there := slices.BinarySearch(d.present, uint32(i)); there != want {
			what := "is there, but the record of the repository is tombstoned"
			if want {
				what = "is missing or no real directory, but the registry has a record of the repository"
			}
			bad("D03", filepath.Join(parent, strconv.Itoa(i)), "%s", what)
		}
	}
	return d, nil
}

// liveRepositories says of each record whether it has a directory.
func liveRepositories(r bindb.Reader) ([]bool, error) {
	live := []bool{} // not nil: they are known
	err := bindb.Repositories.All(r, func(_ uint32, rec *record.Repository) error {
		live = append(live, !rec.Meta.Tombstoned())
		return nil
	})
	return live, err
}

// checkDirectories refuses directories that do not agree with the registry. left
// reports one that an interrupted registration has left behind.
func (a *Authority) checkDirectories(ctx context.Context) (left bool, err error) {
	d, err := a.directories(ctx)
	if err == nil && len(d.findings) > 0 {
		err = fmt.Errorf("%w: %s", bindb.ErrCorrupt, d.findings[0])
	}
	return d.left, err
}

func (a *Authority) directories(ctx context.Context) (d directories, err error) {
	err = a.registry.View(ctx, func(r bindb.Reader) error {
		live, err := liveRepositories(r)
		if err != nil {
			return err
		}
		d, err = readDirectories(a.opt.FS, a.repositoriesDir(), live)
		return err
	})
	return d, err
}

func (a *Authority) repositoriesDir() string {
	return filepath.Join(a.opt.generation(a.active.Generation), "repositories")
}

// sweepWait bounds the wait for the registry's lock to remove what nobody misses.
const sweepWait = 50 * time.Millisecond

// sweep removes the directory that an interrupted registration left behind (D04).
// It gives up quietly: on read-only media the directory stays, and while somebody
// else has the registry's lock it may be the begin of a Repository.
func (a *Authority) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepWait)
	defer cancel()
	_ = a.registry.Exclusive(ctx, func(s *bindb.Session) error {
		var count uint32
		err := s.View(func(r bindb.Reader) (err error) {
			count, err = bindb.Repositories.Count(r)
			return err
		})
		if err != nil {
			return err
		}
		if err := a.opt.FS.RemoveAll(a.authorityConfig(count).Dir); err != nil {
			return err
		}
		return a.opt.FS.SyncDir(a.repositoriesDir())
	})
}
