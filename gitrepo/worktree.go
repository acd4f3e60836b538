package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Worktree is one work tree of the repository, or the bare repository itself.
type Worktree struct {
	Path     string // absolute; of the Git directory when Bare
	Head     OID    // "" when the branch has no commit yet, or Bare
	Branch   string // full ref name, "" when detached
	Bare     bool
	Locked   bool
	Prunable bool // its directory is gone
}

// Worktrees returns all work trees; the main one, or the bare repository, comes first.
func (r *Repo) Worktrees(ctx context.Context) ([]Worktree, error) {
	out, err := r.worktreeCommand(ctx, command{args: []string{"worktree", "list", "--porcelain", "-z"}})
	if err != nil {
		return nil, err
	}
	list, err := parseWorktrees(string(out), r.hexLen())
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: git worktree list printed nothing", ErrBadObject)
	}
	if !r.bare && r.gitDir == r.common {
		// git derives the main work tree's path from that of the Git directory, which is wrong
		// for submodules and for a Git directory that was put elsewhere.
		list[0].Path = r.top
	}
	return list, nil
}

// worktreeCommand runs a `git worktree` command, again if need be: each reads the records of all
// work trees, takes no lock, and gives up, with nothing changed, at a record that another process
// is writing or removing at that moment.
func (r *Repo) worktreeCommand(ctx context.Context, c command) ([]byte, error) {
	for delay := time.Millisecond; ; delay *= 2 {
		out, _, err := r.output(ctx, c)
		passing := stderrHas(err, "worktrees/") && stderrHas(err, "failed to read", "Invalid path", "could not create directory")
		if !passing || delay > time.Second {
			return out, err
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, fmt.Errorf("git worktree: %w", context.Cause(ctx))
		}
	}
}

// parseWorktrees reads `git worktree list --porcelain -z`: attributes ended by NUL, and one more
// NUL after each work tree.
func parseWorktrees(out string, hexLen int) ([]Worktree, error) {
	var list []Worktree
	open := false
	for out != "" {
		attribute, rest, ok := strings.Cut(out, "\x00")
		if !ok {
			return nil, fmt.Errorf("%w: answer of git worktree list is cut short", ErrBadObject)
		}
		out = rest
		key, value, _ := strings.Cut(attribute, " ")
		switch {
		case key == "":
			open = false
			continue
		case key == "worktree" && !open && value != "":
			list = append(list, Worktree{Path: value})
			open = true
			continue
		case key == "worktree" || !open:
			return nil, fmt.Errorf("%w: answer of git worktree list: %q", ErrBadObject, attribute)
		}
		w := &list[len(list)-1]
		switch key {
		case "HEAD":
			if len(value) != hexLen || !isHex(value) {
				return nil, fmt.Errorf("%w: answer of git worktree list: %q", ErrBadObject, attribute)
			}
			if strings.Trim(value, "0") != "" {
				w.Head = OID(value)
			}
		case "branch":
			w.Branch = value
		case "bare":
			w.Bare = true
		case "locked":
			w.Locked = true
		case "prunable":
			w.Prunable = true
		}
	}
	return list, nil
}

// CheckedOut returns the paths of the work trees that have a branch (short name) checked out, or
// that are in the middle of rebasing or bisecting it. Work trees whose directory is gone do not
// count.
func (r *Repo) CheckedOut(ctx context.Context, branch string) ([]string, error) {
	ref := "refs/heads/" + branch
	if err := checkRefName(ref); err != nil {
		return nil, err
	}
	list, err := r.Worktrees(ctx)
	if err != nil {
		return nil, err
	}
	dirs, err := r.worktreeDirs()
	if err != nil {
		return nil, err
	}
	if !list[0].Bare {
		dirs[list[0].Path] = r.common
	}
	var paths []string
	for _, w := range list {
		if w.Bare || w.Prunable {
			continue
		}
		held := w.Branch == ref
		if dir, ok := dirs[w.Path]; ok && !held {
			if held, err = operatesOn(dir, ref); err != nil {
				return nil, err
			}
		}
		if held {
			paths = append(paths, w.Path)
		}
	}
	return paths, nil
}

// worktreeDirs maps the paths of the linked work trees to their Git directories.
func (r *Repo) worktreeDirs() (map[string]string, error) {
	root := filepath.Join(r.common, "worktrees")
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	dirs := make(map[string]string)
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		data, err := os.ReadFile(filepath.Join(dir, "gitdir"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // being made or removed just now
		}
		if err != nil {
			return nil, err
		}
		path := strings.TrimRight(string(data), "\n")
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		dirs[filepath.Dir(path)] = dir
	}
	return dirs, nil
}

// operatesOn reports whether a rebase or bisection that is under way in a work tree's Git
// directory will come back to ref.
func operatesOn(gitDir, ref string) (bool, error) {
	short := strings.TrimPrefix(ref, "refs/heads/")
	for _, s := range []struct{ file, names string }{
		{"rebase-merge/head-name", ref},
		{"rebase-apply/head-name", ref},
		{"rebase-merge/update-refs", ref}, // the name on a line of its own among others
		{"BISECT_START", short},
	} {
		data, err := os.ReadFile(filepath.Join(gitDir, filepath.FromSlash(s.file)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		if slices.Contains(strings.Split(string(data), "\n"), s.names) {
			return true, nil
		}
	}
	return false, nil
}

// inWorktree makes sure that path is the top of a work tree of this repository. Git would look
// for a repository in the directories above otherwise, and work on that.
func (r *Repo) inWorktree(ctx context.Context, path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotWorktree, err)
	}
	out, _, err := r.output(ctx, command{dir: real,
		args: []string{"rev-parse", "--path-format=absolute", "--show-toplevel", separator, "--git-common-dir"}})
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrNotWorktree, path, err)
	}
	top, common, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n"+separator+"\n")
	if top != real || common != r.common {
		return "", fmt.Errorf("%w: %s", ErrNotWorktree, path)
	}
	return real, nil
}

// WorktreeClean reports whether the index of the work tree at path is exactly tree (or a commit's
// tree) and the files are exactly the index. Untracked files do not count; UpdateWorktree refuses
// those that are in its way.
func (r *Repo) WorktreeClean(ctx context.Context, path string, tree OID) (bool, error) {
	if err := r.checkOID(tree); err != nil {
		return false, err
	}
	top, err := r.inWorktree(ctx, path)
	if err != nil {
		return false, err
	}
	code, err := r.run(ctx, command{dir: top, accept: []int{1},
		args: []string{"diff-index", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=none", string(tree)}})
	if err != nil || code == 1 {
		return false, missingObject(err)
	}
	clean := true
	err = r.status(ctx, top, []string{"--untracked-files=no", "--ignore-submodules=untracked"}, func(e StatusEntry) error {
		if e.Unmerged || e.Unstaged != '.' {
			clean = false
			return errStop
		}
		return nil
	})
	return clean, err
}

// UpdateWorktree brings the index and the files of the work tree at path from one tree (or
// commit) to another; HEAD is not touched. Local changes to files that the update leaves alone
// stay. Where local changes or untracked files stand in the way it is ErrWouldOverwrite and
// nothing is touched.
func (r *Repo) UpdateWorktree(ctx context.Context, path string, from, to OID) error {
	if err := r.checkOID(from, to); err != nil {
		return err
	}
	top, err := r.inWorktree(ctx, path)
	if err != nil {
		return err
	}
	// read-tree takes a file whose time stamp changed for a changed file, unless the index is
	// refreshed first. Exit status 1 says that some files really did change.
	if _, err := r.run(ctx, command{dir: top, args: []string{"update-index", "-q", "--refresh"}, accept: []int{1}}); err != nil {
		return err
	}
	_, err = r.run(ctx, command{dir: top, args: []string{"read-tree", "-m", "-u", string(from), string(to)}})
	if stderrHas(err, "Cannot merge", "would be overwritten", "would lose untracked", "not uptodate", "would be removed", "resolve your current index") {
		return fmt.Errorf("%w in %s: %w", ErrWouldOverwrite, path, err)
	}
	return missingObject(err)
}

// checkoutConfig makes a new work tree hold the whole tree as the commit has it, not as the user
// likes to see it.
var checkoutConfig = []string{
	"core.autocrlf=false",
	"core.eol=lf",
	"core.sparseCheckout=false",
}

// AddWorktree makes a work tree at path with exactly the files of commit, HEAD detached there.
// Directories above path are made. Several calls may run at once. Hooks do not run; filters named
// by .gitattributes do. If it fails nothing is left behind, a directory that was not empty before
// excepted.
func (r *Repo) AddWorktree(ctx context.Context, path string, commit OID) error {
	if err := r.checkOID(commit); err != nil {
		return err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	_, err = r.worktreeCommand(ctx, command{config: checkoutConfig,
		args: []string{"worktree", "add", "--quiet", "--force", "--detach", "--", path, string(commit)}})
	return missingObject(err)
}

// RemoveWorktree removes a linked work tree with everything in it, changed and untracked files
// included, and forgets it. It also works when the directory is gone or damaged, and does
// nothing when there is neither a directory nor a record of it. Other work trees' records are
// never touched. A directory that is no linked work tree of this repository is ErrNotWorktree.
func (r *Repo) RemoveWorktree(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	registered, err := r.registered(ctx, path)
	if err != nil {
		return err
	}
	if registered == "" {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("%w: %s", ErrNotWorktree, path)
	}
	remove := command{args: []string{"worktree", "remove", "--force", "--force", "--", registered}}
	if _, err := r.worktreeCommand(ctx, remove); err == nil || ctx.Err() != nil {
		return err
	}
	// Git stops at directories without write permission and at a .git file that is missing.
	if err := removeAll(registered); err != nil {
		return fmt.Errorf("remove work tree: %w", err)
	}
	if still, err := r.registered(ctx, path); err != nil || still == "" {
		return err
	}
	_, err = r.worktreeCommand(ctx, remove)
	return err
}

// registered returns the path under which Git knows the linked work tree at path, "" if it
// knows none.
func (r *Repo) registered(ctx context.Context, path string) (string, error) {
	list, err := r.Worktrees(ctx)
	if err != nil {
		return "", err
	}
	real := resolve(path)
	for _, w := range list[1:] {
		if w.Path == path || w.Path == real {
			return w.Path, nil
		}
	}
	return "", nil
}

// resolve follows symbolic links in the part of an absolute path that exists.
func resolve(path string) string {
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// removeAll removes a directory, also where its directories are read-only.
func removeAll(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			// WalkDir calls this before it reads the directory, and again if that failed.
			if chmodErr := os.Chmod(path, 0o700); chmodErr != nil {
				return chmodErr
			}
			return nil
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}
