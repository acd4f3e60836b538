package gitrepo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// statusLimit is the number of entries that Status lists; the others are counted.
const statusLimit = 20

// Status is the state of the work tree. Ignored files do not count.
type Status struct {
	Dirty   bool          // something is staged, changed or untracked
	Entries []StatusEntry // the first 20
	More    int           // how many were left out of Entries

	// Operation is what is under way: "merge", "rebase", "am", "cherry-pick", "revert" or
	// "bisect"; "" when nothing is.
	Operation string
}

// StatusEntry is one path that is not as in HEAD.
type StatusEntry struct {
	Path      string // raw bytes; an untracked directory ends in '/'
	Staged    byte   // difference between HEAD and index: '.', or A, D, M, T, U; '?' when untracked
	Unstaged  byte   // difference between index and work tree, likewise
	Unmerged  bool
	Submodule bool
}

// Untracked reports whether Git does not know the path.
func (e StatusEntry) Untracked() bool { return e.Staged == '?' }

// Status looks at the work tree that the repository was opened in. A submodule with other
// content than recorded counts as a change, new commits alone included.
func (r *Repo) Status(ctx context.Context) (Status, error) {
	if err := r.needWorktree(); err != nil {
		return Status{}, err
	}
	var s Status
	err := r.status(ctx, r.top, []string{"--untracked-files=normal", "--ignore-submodules=none"}, func(e StatusEntry) error {
		s.Dirty = true
		if len(s.Entries) < statusLimit {
			s.Entries = append(s.Entries, e)
		} else {
			s.More++
		}
		return nil
	})
	if err != nil {
		return Status{}, err
	}
	s.Operation, err = operation(r.gitDir)
	return s, err
}

// status runs `git status` at the top of a work tree and calls each for every entry.
func (r *Repo) status(ctx context.Context, top string, options []string, each func(StatusEntry) error) error {
	_, err := r.run(ctx, command{
		dir:  top,
		args: append([]string{"status", "--porcelain=v2", "-z", "--no-renames"}, options...),
		read: func(out *bufio.Reader) error { return parseStatus(out, each) },
	})
	return err
}

// parseStatus reads `git status --porcelain=v2 -z`.
func parseStatus(out *bufio.Reader, each func(StatusEntry) error) error {
	for {
		record, err := out.ReadString(0)
		if err == io.EOF && record == "" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: answer of git status: %w", ErrBadObject, err)
		}
		record = strings.TrimSuffix(record, "\x00")
		kind, rest, _ := strings.Cut(record, " ")
		var fields int // between kind and path
		e := StatusEntry{}
		switch kind {
		case "#", "!":
			continue
		case "?":
			e.Path, e.Staged, e.Unstaged = rest, '?', '?'
		case "1":
			fields = 7
		case "2":
			fields = 8
		case "u":
			fields, e.Unmerged = 9, true
		default:
			return fmt.Errorf("%w: answer of git status: %q", ErrBadObject, record)
		}
		if fields > 0 {
			f := strings.SplitN(rest, " ", fields+1)
			if len(f) != fields+1 || len(f[0]) != 2 || len(f[1]) != 4 {
				return fmt.Errorf("%w: answer of git status: %q", ErrBadObject, record)
			}
			e.Path, e.Staged, e.Unstaged, e.Submodule = f[fields], f[0][0], f[0][1], f[1][0] == 'S'
		}
		if kind == "2" {
			// A rename, which --no-renames rules out, has its old path as a record of its own.
			if _, err := out.ReadString(0); err != nil {
				return fmt.Errorf("%w: answer of git status: %w", ErrBadObject, err)
			}
		}
		if e.Path == "" {
			return fmt.Errorf("%w: answer of git status: %q", ErrBadObject, record)
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

// operation returns what is under way in a work tree, by the files that Git keeps for it in the
// work tree's Git directory.
func operation(gitDir string) (string, error) {
	for _, o := range []struct{ file, name string }{
		{"rebase-merge", "rebase"},
		{"rebase-apply/applying", "am"},
		{"rebase-apply", "rebase"},
		{"MERGE_HEAD", "merge"},
		{"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"},
		{"sequencer", "cherry-pick"},
		{"BISECT_LOG", "bisect"},
	} {
		_, err := os.Lstat(filepath.Join(gitDir, filepath.FromSlash(o.file)))
		if err == nil {
			return o.name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look for an operation in progress: %w", err)
		}
	}
	return "", nil
}

// WorktreeCommit writes a commit of the present work tree, tracked and untracked files but not
// ignored ones, with the given parent ("" for none). It works on a copy of the index: no branch
// moves and the user's index stays as it is. Files outside a sparse checkout count as the index
// has them. Errors: ErrUnmerged, ErrNoIdentity, ErrEmptyMessage, ErrBare.
func (r *Repo) WorktreeCommit(ctx context.Context, parent OID, message string) (id OID, err error) {
	if err := r.needWorktree(); err != nil {
		return "", err
	}
	unmerged, _, err := r.output(ctx, command{args: []string{"ls-files", "--unmerged", "-z"}})
	if err != nil {
		return "", err
	}
	if len(unmerged) > 0 {
		return "", ErrUnmerged
	}
	dir, err := os.MkdirTemp("", "writ-index-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	index := filepath.Join(dir, "index")
	if err := r.copyIndex(index); err != nil {
		return "", err
	}
	written := r.watchObjects()
	env := []string{"GIT_INDEX_FILE=" + index}
	// Splitting the index would leave files in the user's Git directory.
	config := []string{"core.splitIndex=false", "advice.addEmbeddedRepo=false"}
	if _, err := r.run(ctx, command{env: env, config: config, args: []string{"add", "--all", "--sparse"}}); err != nil {
		return "", err
	}
	tree, err := r.oidOutput(ctx, command{env: env, config: config, args: []string{"write-tree"}})
	if err != nil {
		return "", err
	}
	spec := CommitSpec{Tree: tree, Message: message}
	if parent != "" {
		spec.Parents = []OID{parent}
	}
	id, err = r.commitTree(ctx, spec)
	if err != nil {
		return "", err
	}
	return id, written.sync()
}

// copyIndex copies the index, with what it knows about unchanged files; without one there is
// nothing to copy.
func (r *Repo) copyIndex(to string) error {
	src, err := os.Open(filepath.Join(r.gitDir, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copy the index: %w", err)
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return fmt.Errorf("copy the index: %w", err)
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copy the index: %w", err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return fmt.Errorf("copy the index: %w", err)
	}
	if err := dst.Close(); err != nil {
		return fmt.Errorf("copy the index: %w", err)
	}
	// Git reads a file's content again if the file is as young as the index. A copy that looked
	// younger than the original would hide changes made within the same clock tick.
	if err := os.Chtimes(to, info.ModTime(), info.ModTime()); err != nil {
		return fmt.Errorf("copy the index: %w", err)
	}
	return nil
}
