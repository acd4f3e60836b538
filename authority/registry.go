package authority

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

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
	b, err := (&record.RepositoryPayload{Name: name}).Encode()
	if err != nil {
		return 0, fmt.Errorf("repository name: %w: %w", bindb.ErrInvalid, err)
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

// Repositories lists the registry in order of index.
func (a *Authority) Repositories(ctx context.Context) ([]RepositoryInfo, error) {
	var list []RepositoryInfo
	err := a.registry.View(ctx, func(r bindb.Reader) error {
		list = nil
		n, err := bindb.Repositories.Count(r)
		if err != nil {
			return err
		}
		return bindb.Repositories.Scan(r, 0, n, func(i uint32, rec *record.Repository) error {
			name, err := repositoryName(r, i, rec)
			list = append(list, RepositoryInfo{i, name, *rec})
			return err
		})
	})
	return list, err
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

// AddRepository registers one more Repository and returns its index. Its
// directory is complete and durable before the record that commits it. A live one
// with the same name, flags and namespace is returned instead, unless the
// namespace is empty: such a registration always makes a new one. The error is
// bindb.ErrInvalid for a malformed name or namespace and for a namespace that
// another live Repository has.
func (a *Authority) AddRepository(ctx context.Context, name string, ns record.Namespace, flags record.PolicyFlags) (uint32, error) {
	if _, err := record.ParseNamespace(ns.String()); err != nil {
		return 0, fmt.Errorf("repository %q: %w: %w", name, bindb.ErrInvalid, err)
	}
	if _, err := (&record.RepositoryPayload{Name: name}).Encode(); err != nil {
		return 0, fmt.Errorf("repository name: %w: %w", bindb.ErrInvalid, err)
	}
	var index uint32
	there := false
	err := a.registry.Exclusive(ctx, func(s *bindb.Session) error {
		err := s.View(func(r bindb.Reader) error {
			count, err := bindb.Repositories.Count(r)
			index = count
			if err != nil || ns == (record.Namespace{}) {
				return err
			}
			return bindb.Repositories.Scan(r, 0, count, func(i uint32, rec *record.Repository) error {
				if rec.Namespace != ns || rec.Lifecycle == record.LifecyclePurged || rec.Meta.Tombstoned() {
					return nil
				}
				has, err := repositoryName(r, i, rec)
				if err != nil {
					return err
				}
				if has != name || rec.PolicyFlags != flags {
					return fmt.Errorf("repository %q: %w: namespace %s belongs to repository %d", name, bindb.ErrInvalid, ns, i)
				}
				index, there = i, true
				return nil
			})
		})
		if err != nil || there {
			return err
		}
		cfg := a.opt.config(a.active, record.RootAuthority, strconv.FormatUint(uint64(index), 10))
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
		return s.Update(ctx, func(tx *bindb.Tx) error {
			_, err := appendRepository(tx, name, ns, flags, a.opt.now())
			return err
		})
	})
	return index, err
}
