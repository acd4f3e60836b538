package bindb

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// closure compares the entries of the root directory with the inventory
// (sections 2.7, 2.8, 3.3 and 3.4). It opens nothing but a journal that another
// implementation left.
func (r *Root) closure() ([]Finding, error) {
	entries, err := r.FS.ReadDir(r.Dir)
	if err != nil {
		return nil, err
	}
	known, undeclared := "F01", "F02"
	if r.Kind == record.RootRegistry {
		known, undeclared = "G02", "G02"
	}
	var findings []Finding
	bad := func(id, file, format string, args ...any) {
		findings = append(findings, Finding{Check: id, File: file, Message: fmt.Sprintf(format, args...)})
	}
	indexes, locks := record.IndexFiles(r.Kind), lockNames(r.Kind)
	temporaries, forbidden := record.Temporaries(r.Kind), record.Forbidden(r.Kind)
	seen := map[string]bool{}
	for _, e := range entries {
		f, required := byFile[e.Name]
		required = required && f.root == r.Kind
		switch {
		case required, slices.Contains(indexes, e.Name), slices.Contains(locks, e.Name):
			seen[e.Name] = true
			if !e.Mode.IsRegular() {
				bad(known, e.Name, "is no regular file but %s", e.Mode)
			} else if e.Links != 1 {
				bad(known, e.Name, "has %d hard links, want one: under its other name somebody else may change it", e.Links)
			}
		case e.Name == record.LockDir && r.Kind == record.RootAuthority:
			if !e.Mode.IsDir() {
				bad(known, e.Name, "is no real directory but %s", e.Mode)
			}
		case slices.Contains(temporaries, e.Name):
			if what, err := r.interrupted(e); err != nil {
				return nil, err
			} else if what != "" {
				bad(undeclared, e.Name, "%s; another implementation of the format was interrupted, and recovery of that form is needed before this root can be opened here", what)
			}
		case slices.Contains(forbidden, e.Name), r.Kind == record.RootAuthority && strings.HasSuffix(e.Name, record.ForbiddenSuffix):
			bad(undeclared, e.Name, "is a name that the format forbids in the root of %s", article(r.Kind))
		default:
			bad(undeclared, e.Name, "is not declared in the inventory of %s", article(r.Kind))
		}
	}
	for _, file := range record.Files(r.Kind) {
		if !seen[file] {
			bad(known, file, "is missing; an empty family is a file of %d bytes", HeaderSize)
		}
	}
	return findings, nil
}

func article(kind record.Root) string {
	if kind == record.RootRegistry {
		return "a registry"
	}
	return "a Repository authority"
}

func lockNames(kind record.Root) []string {
	if kind == record.RootRegistry {
		return []string{record.RegistryLock}
	}
	return []string{record.QueueLock}
}

// interrupted says what a temporary file holds that recovery would need, and
// nothing for one that can be ignored (sections 12.3 to 12.5 and 17.6).
func (r *Root) interrupted(e vfs.Info) (string, error) {
	suffix := filepath.Ext(e.Name)
	switch {
	case suffix == ".rewrite", suffix == ".rebuild", suffix == ".update-staging":
		return "", nil // it was not put in place, so nothing refers to it
	case !e.Mode.IsRegular():
		return fmt.Sprintf("is no regular file but %s", e.Mode), nil
	case slices.Contains(record.WriteJournals(), e.Name):
		return fmt.Sprintf("is a standing rollback journal of %d bytes, whose files may be half changed", e.Size), nil
	case strings.HasPrefix(e.Name, ".repository-purge."):
		return fmt.Sprintf("belongs to a purge that was not finished (%d bytes)", e.Size), nil
	}
	const most = 4 << 10
	raw, err := vfs.ReadFile(r.FS, filepath.Join(r.Dir, e.Name), most)
	if errors.Is(err, vfs.ErrTooLarge) {
		return fmt.Sprintf("has %d bytes, too many for a journal of one record", e.Size), nil
	}
	if err != nil {
		return "", err
	}
	switch suffix {
	case ".append-intent":
		var intent record.AppendIntent
		if err := intent.Decode(raw); err != nil || intent.Digest != sha256.Sum256(raw[:8]) {
			return fmt.Sprintf("is a torn append intent of %d bytes", e.Size), nil
		}
		return fmt.Sprintf("says that an append behind byte %d was begun", intent.Length), nil
	default:
		if n := len(raw) - sha256.Size; n < 12 || sha256.Sum256(raw[:n]) != [32]byte(raw[n:]) {
			return fmt.Sprintf("is a torn update journal of %d bytes", e.Size), nil
		}
		d := decoder{b: raw[8:12]}
		return fmt.Sprintf("holds the images of record %d, whose replacement was begun", d.u32()), nil
	}
}
