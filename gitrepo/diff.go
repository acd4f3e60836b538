package gitrepo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// FileChange is one path that differs between two trees.
type FileChange struct {
	Path    string // raw bytes
	Status  byte   // 'A' added, 'D' deleted, 'M' content or mode changed, 'T' became another kind of thing
	OldMode string // six octal digits, "000000" when added
	NewMode string
	OldID   OID // all zeros when added
	NewID   OID // all zeros when deleted
}

// Diff returns the paths that differ between two trees, or two commits' trees, sorted by path
// bytes. A renamed file is one deletion and one addition.
func (r *Repo) Diff(ctx context.Context, a, b OID) ([]FileChange, error) {
	if err := r.checkOID(a, b); err != nil {
		return nil, err
	}
	var changes []FileChange
	_, err := r.run(ctx, command{
		args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff",
			"--ignore-submodules=none", string(a), string(b)},
		read: func(out *bufio.Reader) (err error) {
			changes, err = parseRawDiff(out, r.hexLen())
			return err
		},
	})
	if err != nil {
		return nil, missingObject(err)
	}
	slices.SortFunc(changes, func(x, y FileChange) int { return strings.Compare(x.Path, y.Path) })
	return changes, nil
}

// parseRawDiff reads `git diff-tree -r -z --raw`:
// ":oldmode SP newmode SP oldid SP newid SP status NUL path NUL".
func parseRawDiff(out *bufio.Reader, hexLen int) ([]FileChange, error) {
	var changes []FileChange
	for {
		head, err := out.ReadString(0)
		if err == io.EOF && head == "" {
			return changes, nil
		}
		var path string
		if err == nil {
			path, err = out.ReadString(0)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: answer of git diff-tree: %w", ErrBadObject, err)
		}
		path = strings.TrimSuffix(path, "\x00")
		f := strings.Split(strings.TrimSuffix(head, "\x00"), " ")
		if len(f) != 5 || len(f[0]) != 7 || f[0][0] != ':' || len(f[1]) != 6 ||
			len(f[2]) != hexLen || !isHex(f[2]) || len(f[3]) != hexLen || !isHex(f[3]) ||
			len(f[4]) != 1 || !strings.Contains("ADMT", f[4]) || path == "" {
			return nil, fmt.Errorf("%w: answer of git diff-tree: %q", ErrBadObject, head)
		}
		changes = append(changes, FileChange{
			Path: path, Status: f[4][0],
			OldMode: f[0][1:], NewMode: f[1], OldID: OID(f[2]), NewID: OID(f[3]),
		})
	}
}
