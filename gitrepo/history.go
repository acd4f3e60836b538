package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// boundary returns the commits at which a shallow clone is cut off: they are present, their
// parents are not. It is empty for a whole history.
func (r *Repo) boundary() (map[OID]bool, error) {
	data, err := os.ReadFile(r.shallowFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read where the shallow clone is cut off: %w", err)
	}
	cut := make(map[OID]bool)
	for line := range strings.Lines(string(data)) {
		id := OID(strings.TrimSuffix(line, "\n"))
		if err := r.checkOID(id); err != nil {
			return nil, fmt.Errorf("%s: %w", r.shallowFile(), err)
		}
		cut[id] = true
	}
	return cut, nil
}

// refuseCut returns ErrShallow when the commits that rev-list finds for revs include one at which
// the history is cut off.
func (r *Repo) refuseCut(ctx context.Context, revs ...string) error {
	cut, err := r.boundary()
	if err != nil || len(cut) == 0 {
		return err
	}
	return r.revList(ctx, append([]string{"rev-list"}, revs...), func(id OID) error {
		if cut[id] {
			return fmt.Errorf("%w (the history ends at commit %s)", ErrShallow, id)
		}
		return nil
	})
}

// MergeBase returns the best common ancestor of a and b, and false when their histories share
// nothing. Where a shallow clone hides commits that could be a better one, it is ErrShallow:
// that is so when the history of one side is cut off before it meets the other.
func (r *Repo) MergeBase(ctx context.Context, a, b OID) (OID, bool, error) {
	if err := r.checkOID(a, b); err != nil {
		return "", false, err
	}
	if a == b {
		_, err := r.Commit(ctx, a)
		return a, err == nil, err
	}
	out, code, err := r.output(ctx, command{args: []string{"merge-base", string(a), string(b)}, accept: []int{1}})
	if err != nil {
		return "", false, missingObject(err)
	}
	if err := r.refuseCut(ctx, string(a)+"..."+string(b)); err != nil {
		return "", false, fmt.Errorf("merge base of %s and %s: %w", a, b, err)
	}
	if code == 1 {
		return "", false, nil
	}
	id := OID(strings.TrimSuffix(string(out), "\n"))
	if err := r.checkOID(id); err != nil {
		return "", false, fmt.Errorf("answer of git merge-base: %w", err)
	}
	return id, true, nil
}

// IsAncestor reports whether b contains a: whether a is b or one of its ancestors. A "no" that
// a shallow clone can't be sure of is ErrShallow.
func (r *Repo) IsAncestor(ctx context.Context, a, b OID) (bool, error) {
	if err := r.checkOID(a, b); err != nil {
		return false, err
	}
	if a == b {
		_, err := r.Commit(ctx, a)
		return err == nil, err
	}
	code, err := r.run(ctx, command{args: []string{"merge-base", "--is-ancestor", string(a), string(b)}, accept: []int{1}})
	if err != nil {
		return false, missingObject(err)
	}
	if code == 0 {
		return true, nil
	}
	if err := r.refuseCut(ctx, string(b), "^"+string(a)); err != nil {
		return false, fmt.Errorf("whether %s contains %s: %w", b, a, err)
	}
	return false, nil
}

// missingObject marks git's complaint about an absent commit as ErrNoObject.
func missingObject(err error) error {
	if stderrHas(err, "Not a valid commit name", "bad object", "not a tree object", "is not a valid object", "invalid reference", "not a valid object name", "Not a valid object name") {
		return fmt.Errorf("%w: %w", ErrNoObject, err)
	}
	return err
}
