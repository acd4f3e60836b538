package authority

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// checkDirectories compares the directories of the Repositories with the registry
// (section 17.3): exactly one real directory, named by its index, for each record
// that is not tombstoned. One named by the next index may be left of an
// interrupted registration; it is never used and the next registration replaces it.
func (a *Authority) checkDirectories(ctx context.Context) error {
	parent := filepath.Join(a.opt.generation(a.active.Generation), "repositories")
	return a.registry.View(ctx, func(r bindb.Reader) error {
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
		return bindb.Repositories.Scan(r, 0, count, func(i uint32, rec *record.Repository) error {
			if there[i] == rec.Meta.Tombstoned() {
				return fmt.Errorf("%w: D03 repository %d: its record and the directory %s do not agree", bindb.ErrCorrupt, i,
					filepath.Join(parent, strconv.FormatUint(uint64(i), 10)))
			}
			return nil
		})
	})
}
