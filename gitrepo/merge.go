package gitrepo

import (
	"context"
	"fmt"
	"strings"
)

// MergeResult is what merging two commits gives.
type MergeResult struct {
	Tree      OID      // the merged tree; with conflicts it holds conflict markers
	Clean     bool     // no conflicts
	Conflicts []string // paths (raw bytes) that conflict, each once; a few conflicts concern no single path
}

// mergeConfig pins the merge to Git's own defaults, so that everybody computes the same tree.
var mergeConfig = []string{
	"merge.renames=true",
	"merge.directoryRenames=conflict",
	"merge.renormalize=false",
	"merge.renameLimit=7000",
	"merge.conflictStyle=merge",
	"diff.algorithm=histogram",
}

// MergeTree merges two commits without touching a ref, an index or a work tree. The objects of
// the merged tree are written. Errors: ErrUnrelated, and ErrShallow where a shallow clone hides
// what the merge base depends on.
func (r *Repo) MergeTree(ctx context.Context, ours, theirs OID) (MergeResult, error) {
	if err := r.checkOID(ours, theirs); err != nil {
		return MergeResult{}, err
	}
	if err := r.refuseCut(ctx, string(ours)+"..."+string(theirs)); err != nil {
		return MergeResult{}, fmt.Errorf("merge %s and %s: %w", ours, theirs, err)
	}
	// git merge-tree answers an unknown commit with the exit status of a conflict.
	if _, err := r.commits(ctx, []OID{ours, theirs}); err != nil {
		return MergeResult{}, err
	}
	written := r.watchObjects()
	out, code, err := r.output(ctx, command{
		args:   []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", string(ours), string(theirs)},
		config: mergeConfig,
		accept: []int{1},
	})
	if err != nil {
		if stderrHas(err, "unrelated histories") {
			return MergeResult{}, fmt.Errorf("%w: %s and %s", ErrUnrelated, ours, theirs)
		}
		return MergeResult{}, err
	}
	result, err := parseMergeTree(string(out), code == 0, r.hexLen())
	if err != nil {
		return MergeResult{}, err
	}
	return result, written.sync()
}

// parseMergeTree reads "tree NUL" and, unless clean, the conflicting paths, each ended by NUL.
func parseMergeTree(out string, clean bool, hexLen int) (MergeResult, error) {
	tree, rest, ok := strings.Cut(out, "\x00")
	if !ok || len(tree) != hexLen || !isHex(tree) {
		return MergeResult{}, fmt.Errorf("%w: answer of git merge-tree: %q", ErrBadObject, tree)
	}
	result := MergeResult{Tree: OID(tree), Clean: clean}
	for rest != "" {
		var path string
		path, rest, ok = strings.Cut(rest, "\x00")
		if !ok {
			return MergeResult{}, fmt.Errorf("%w: answer of git merge-tree is cut short at %q", ErrBadObject, path)
		}
		if path == "" {
			break // the messages come next; some versions end the list although they were not asked for them
		}
		if n := len(result.Conflicts); n == 0 || result.Conflicts[n-1] != path {
			result.Conflicts = append(result.Conflicts, path)
		}
	}
	if clean && len(result.Conflicts) > 0 {
		return MergeResult{}, fmt.Errorf("%w: git merge-tree calls a merge clean that conflicts at %q", ErrBadObject, result.Conflicts[0])
	}
	return result, nil
}
