package convert

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// target is the set of roots that a conversion builds. None of them counts until
// the installation names them.
type target struct {
	roots
	// repositories are the indexes that get a directory, ascending.
	repositories []uint32
}

// roots says where roots are built. An authority.Generation is one.
type roots interface {
	Registry() bindb.Config
	Repository(index uint32) bindb.Config
}

// create makes every root with empty files.
func (t *target) create(ctx context.Context) error {
	return inParallel(ctx, len(t.repositories)+1, func(ctx context.Context, i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i == 0 {
			return bindb.Create(t.Registry())
		}
		return bindb.Create(t.Repository(t.repositories[i-1]))
	})
}

// check validates every root as a whole, and what the registry says about the
// others. It fills in the report.
func (t *target) check(ctx context.Context, rep *Report) error {
	list, err := t.readRegistry(ctx, rep)
	if err != nil {
		return err
	}
	for _, r := range list {
		if _, ok := slices.BinarySearch(t.repositories, r.Index); !ok && !r.rec.Meta.Tombstoned() {
			return sourcef(fmt.Sprintf("repositories/%d", r.Index), "is missing, but repository.bin record %d names it", r.Index)
		}
	}
	for _, i := range t.repositories {
		switch {
		case int64(i) >= int64(len(list)):
			return sourcef(fmt.Sprintf("repositories/%d", i), "belongs to no Repository: repository.bin has %d records", len(list))
		case list[i].rec.Meta.Tombstoned():
			return sourcef(fmt.Sprintf("repositories/%d", i), "belongs to a Repository that is tombstoned, which has no directory")
		}
	}
	reports := make([]RepositoryReport, len(t.repositories))
	err = inParallel(ctx, len(t.repositories), func(ctx context.Context, i int) error {
		r := list[t.repositories[i]]
		reports[i] = r.RepositoryReport
		return t.checkRepository(ctx, &reports[i], r.rec)
	})
	rep.Repositories = append(rep.Repositories, reports...)
	return err
}

// registered is one record of the registry.
type registered struct {
	RepositoryReport
	rec record.Repository
}

func (t *target) readRegistry(ctx context.Context, rep *Report) ([]registered, error) {
	var list []registered
	err := inspect(ctx, t.Registry(), func(r bindb.Reader) (err error) {
		list = nil
		return bindb.Repositories.All(r, func(i uint32, rec *record.Repository) error {
			b, err := bindb.RepositoryPayload.Read(r, rec.PayloadOffset, int(rec.PayloadLen))
			if err != nil {
				return err
			}
			var p record.RepositoryPayload
			if err := p.Decode(b); err != nil {
				return &bindb.RecordError{File: bindb.Repositories.File(), Index: i, Err: err}
			}
			list = append(list, registered{RepositoryReport{Index: i, Name: p.Name, Lifecycle: rec.Lifecycle.String(), Synthesised: []string{}}, *rec})
			return nil
		})
	})
	if err != nil {
		return nil, unsound("registry", err)
	}
	rep.Registry, err = counts(t.Registry())
	return list, err
}

// unsound says of which root of the source the records violate the format.
func unsound(root string, err error) error {
	if errors.Is(err, bindb.ErrCorrupt) && !errors.Is(err, ErrSource) {
		return fmt.Errorf("%w: %s: %w", ErrSource, root, err)
	}
	return err
}

// checkRepository validates one root. A purged Repository has given up its Jobs
// and the references to them (J06).
func (t *target) checkRepository(ctx context.Context, rep *RepositoryReport, rec record.Repository) error {
	cfg := t.Repository(rep.Index)
	err := inspect(ctx, cfg, func(r bindb.Reader) error {
		if rec.Lifecycle != record.LifecyclePurged {
			return nil
		}
		findings, err := bindb.CheckPurged(r, 1)
		if err == nil && len(findings) > 0 {
			err = sourcef(fmt.Sprintf("repositories/%d", rep.Index), "%s", findings[0])
		}
		return err
	})
	if err != nil {
		return unsound(fmt.Sprintf("repositories/%d", rep.Index), err)
	}
	rep.Families, err = counts(cfg)
	return err
}

// inspect validates all of a root and runs fn. Nothing is written for it, so that
// the new authority begins without marks and indexes.
func inspect(ctx context.Context, cfg bindb.Config, fn func(bindb.Reader) error) error {
	findings, err := bindb.Verify(ctx, cfg, fn)
	switch n := len(findings); {
	case err != nil || n == 0:
		return err
	case n == 1:
		return fmt.Errorf("%w: %s", bindb.ErrCorrupt, findings[0])
	default:
		return fmt.Errorf("%w: %s, and %d more such places", bindb.ErrCorrupt, findings[0], n-1)
	}
}

// counts lists the families of a root that are not empty.
func counts(cfg bindb.Config) ([]FamilyCount, error) {
	list := []FamilyCount{}
	for _, file := range record.Files(cfg.Kind) {
		info, err := cfg.FS.Lstat(filepath.Join(cfg.Dir, file))
		if err != nil {
			return nil, err
		}
		if info.Size <= bindb.HeaderSize {
			continue
		}
		c := FamilyCount{File: file, Bytes: info.Size}
		if l, ok := record.ByFile(file); ok {
			c.Records = uint32((info.Size - bindb.HeaderSize) / int64(l.Size))
		}
		list = append(list, c)
	}
	return list, nil
}
