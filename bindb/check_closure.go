package bindb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// closure compares the entries of the root directory with the inventory
// (sections 2.7, 2.8, 3.3 and 3.4). It opens nothing.
func (r *Root) closure(entries []vfs.Info) []Finding {
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
			if what := standing(e); what != "" {
				bad(undeclared, e.Name, "%s", what)
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
	return findings
}

// notDirectory is the finding for a root that is a link or a file.
func (r *Root) notDirectory() Finding {
	id := "D02"
	if r.Kind == record.RootRegistry {
		id = "G01"
	}
	return Finding{Check: id, File: r.Dir, Message: "is not a real directory"}
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

// standing says what is wrong with a recovery file that Open has not removed, and
// nothing for one that can be ignored (sections 12.3 to 12.5 and 17.6).
func standing(e vfs.Info) string {
	switch {
	case !e.Mode.IsRegular():
		return fmt.Sprintf("is no regular file but %s", e.Mode)
	case e.Links != 1:
		return fmt.Sprintf("has %d hard links, want one: under its other name somebody else may change it", e.Links)
	case strings.HasPrefix(e.Name, purgePrefix):
		return fmt.Sprintf("belongs to a purge that was not finished (%d bytes), which the registry decides about", e.Size)
	case disposable(e.Name):
		return "" // it was not put in place, so nothing refers to it
	}
	return "was left by another implementation of the format that was interrupted, and has not been recovered"
}
