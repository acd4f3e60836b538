package authority

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// checkDirectories compares the directories of the Repositories with the registry
// (section 17.3): exactly one real directory, named by its index, for each record
// that is not tombstoned. One named by the next index may be left of an
// interrupted registration: it is never used, and left reports it.
func (a *Authority) checkDirectories(ctx context.Context) (left bool, err error) {
	parent := a.repositoriesDir()
	err = a.registry.View(ctx, func(r bindb.Reader) error {
		entries, err := a.opt.FS.ReadDir(parent)
		if err != nil {
			return err
		}
		count, err := bindb.Repositories.Count(r)
		if err != nil {
			return err
		}
		there := make(map[uint32]bool, len(entries))
		for _, e := range entries {
			index, err := strconv.ParseUint(e.Name, 10, 32)
			if err != nil || strconv.FormatUint(index, 10) != e.Name || index > uint64(count) {
				return fmt.Errorf("%w: D02 %s: expected the index of a repository, 0 to %d", bindb.ErrCorrupt, filepath.Join(parent, e.Name), count-1)
			}
			if !e.Mode.IsDir() {
				return fmt.Errorf("%w: D02 %s is not a real directory", bindb.ErrCorrupt, filepath.Join(parent, e.Name))
			}
			there[uint32(index)] = true
		}
		left = there[count]
		return bindb.Repositories.Scan(r, 0, count, func(i uint32, rec *record.Repository) error {
			if there[i] == rec.Meta.Tombstoned() {
				return fmt.Errorf("%w: D03 repository %d: its record and the directory %s do not agree", bindb.ErrCorrupt, i,
					filepath.Join(parent, strconv.FormatUint(uint64(i), 10)))
			}
			return nil
		})
	})
	return left, err
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
