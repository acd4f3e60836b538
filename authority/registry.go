package authority

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// RepositoryInfo is one Repository of the registry.
type RepositoryInfo struct {
	Index uint32
	Name  string
	record.Repository
}

func appendRepository(tx *bindb.Tx, name string, ns record.Namespace, flags record.PolicyFlags, now record.Seconds) (uint32, error) {
	b, err := namePayload(name)
	if err != nil {
		return 0, err
	}
	off, err := bindb.RepositoryPayload.Append(tx, b)
	if err != nil {
		return 0, err
	}
	return bindb.Repositories.Append(tx, record.Repository{
		Lifecycle: record.LifecycleActive, Namespace: ns, PolicyFlags: flags,
		PayloadLen: uint32(len(b)), PayloadOffset: off, CreatedAt: now, UpdatedAt: now,
	})
}

// namePayload is the payload of a name, which must be one.
func namePayload(name string) ([]byte, error) {
	b, err := (&record.RepositoryPayload{Name: name}).Encode()
	if err != nil {
		err = fmt.Errorf("repository name %.40q: %w: expected 1 to 65535 bytes of UTF-8", name, bindb.ErrInvalid)
	}
	return b, err
}

// Repositories lists the registry in order of index.
func (a *Authority) Repositories(ctx context.Context) ([]RepositoryInfo, error) {
	var list []RepositoryInfo
	err := a.registry.View(ctx, func(r bindb.Reader) (err error) {
		list, err = listRepositories(r)
		return err
	})
	return list, err
}

func listRepositories(r bindb.Reader) ([]RepositoryInfo, error) {
	var list []RepositoryInfo
	err := bindb.Repositories.All(r, func(i uint32, rec *record.Repository) error {
		name, err := repositoryName(r, i, rec)
		list = append(list, RepositoryInfo{i, name, *rec})
		return err
	})
	return list, err
}

// withDirectory keeps the Repositories that have a directory, in list: all but the
// tombstoned ones.
func withDirectory(list []RepositoryInfo) []RepositoryInfo {
	return slices.DeleteFunc(list, func(r RepositoryInfo) bool { return r.Meta.Tombstoned() })
}

// RepositoryInfo reads one entry of the registry, tombstoned ones too. The error
// is bindb.ErrNotFound when there is none.
func (a *Authority) RepositoryInfo(ctx context.Context, index uint32) (RepositoryInfo, error) {
	var info RepositoryInfo
	err := a.registry.View(ctx, func(r bindb.Reader) (err error) {
		info, err = repositoryInfo(r, index)
		return err
	})
	return info, err
}

// RepositoryByNamespace finds the active or retiring Repository with a namespace.
// Purged ones do not count, though they keep theirs. The error is
// bindb.ErrNotFound when there is none, and bindb.ErrInvalid for the empty
// namespace, which any number of Repositories may have.
func (a *Authority) RepositoryByNamespace(ctx context.Context, ns record.Namespace) (RepositoryInfo, error) {
	if ns == (record.Namespace{}) {
		return RepositoryInfo{}, fmt.Errorf("%w: the empty namespace names no repository", bindb.ErrInvalid)
	}
	var info RepositoryInfo
	err := a.registry.View(ctx, func(r bindb.Reader) error {
		index, found, err := namespaceOwner(r, ns)
		if err == nil && !found {
			err = fmt.Errorf("namespace %s: %w", ns, bindb.ErrNotFound)
		}
		if err == nil {
			info, err = repositoryInfo(r, index)
		}
		return err
	})
	return info, err
}

func repositoryInfo(r bindb.Reader, index uint32) (RepositoryInfo, error) {
	if err := named(r, bindb.Repositories, index); err != nil {
		return RepositoryInfo{}, fmt.Errorf("repository %d: %w", index, err)
	}
	rec, err := bindb.Repositories.Get(r, index)
	if err != nil {
		return RepositoryInfo{}, err
	}
	name, err := repositoryName(r, index, &rec)
	return RepositoryInfo{index, name, rec}, err
}

// namespaceOwner finds the only live Repository that may have a namespace.
func namespaceOwner(r bindb.Reader, ns record.Namespace) (index uint32, found bool, err error) {
	err = bindb.RepositoriesByNamespace(r, ns, func(i uint32, rec *record.Repository) (bool, error) {
		found = !rec.Meta.Tombstoned() && rec.Lifecycle != record.LifecyclePurged
		index = i
		return !found, nil
	})
	return index, found, err
}

func repositoryName(r bindb.Reader, index uint32, rec *record.Repository) (string, error) {
	b, err := bindb.RepositoryPayload.Read(r, rec.PayloadOffset, int(rec.PayloadLen))
	if err != nil {
		return "", err
	}
	var p record.RepositoryPayload
	if err := p.Decode(b); err != nil {
		return "", &bindb.RecordError{File: bindb.Repositories.File(), Index: index, Err: err}
	}
	return p.Name, nil
}

// AddRepository registers one more Repository. Its directory is complete and
// durable before the record that commits it. A live one with the same name, flags
// and namespace is returned instead, with created false, unless the namespace is
// empty: such a registration always makes a new one. The error is ErrConflict for
// a namespace that another live Repository has, bindb.ErrInvalid for a malformed
// name or namespace, and bindb.ErrCapacity when no index is left.
func (a *Authority) AddRepository(ctx context.Context, name string, ns record.Namespace, flags record.PolicyFlags) (index uint32, created bool, err error) {
	if err := validNamespace(ns); err != nil {
		return 0, false, fmt.Errorf("repository %q: %w", name, err)
	}
	if _, err := namePayload(name); err != nil {
		return 0, false, err
	}
	err = a.registry.Exclusive(ctx, func(s *bindb.Session) error {
		there := false
		err := s.View(func(r bindb.Reader) (err error) {
			if ns != (record.Namespace{}) {
				if index, there, err = namespaceOwner(r, ns); err != nil {
					return err
				}
			}
			if !there {
				index, err = bindb.Repositories.Count(r)
				return err
			}
			has, err := repositoryInfo(r, index)
			if err == nil && (has.Name != name || has.PolicyFlags != flags) {
				err = fmt.Errorf("repository %q: %w: namespace %s belongs to repository %d, %q", name, ErrConflict, ns, index, has.Name)
			}
			return err
		})
		if err != nil || there {
			return err
		}
		if index >= bindb.MaxTargets {
			return fmt.Errorf("repository %q: %w: the registry holds %d", name, bindb.ErrCapacity, index)
		}
		cfg := a.authorityConfig(index)
		// What an interrupted registration left is unreachable staging.
		if err := a.opt.FS.RemoveAll(cfg.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := bindb.Create(cfg); err != nil {
			return err
		}
		if err := a.opt.FS.SyncDir(filepath.Dir(cfg.Dir)); err != nil {
			return err
		}
		err = s.Update(ctx, func(tx *bindb.Tx) error {
			_, err := appendRepository(tx, name, ns, flags, a.opt.now())
			return err
		})
		created = err == nil
		if created && ns != (record.Namespace{}) {
			indexNamespaces(ctx, s)
		}
		return err
	})
	return index, created, err
}

func validNamespace(ns record.Namespace) error {
	if n, err := record.ParseNamespace(ns.String()); err != nil || n != ns {
		return fmt.Errorf("%w: namespace %q: expected none, one or two of A-Z a-z 0-9 _ -", bindb.ErrInvalid, ns[:])
	}
	return nil
}
