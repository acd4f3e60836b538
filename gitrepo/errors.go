package gitrepo

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoGit is returned by Open when there is no git command on the PATH.
	ErrNoGit = errors.New("the git command was not found; install Git 2.38 or later")

	// ErrOldGit is returned by Open when the git command is older than 2.38; the message
	// around it names the version found.
	ErrOldGit = errors.New("this Git is too old; Writ needs 2.38 or later")

	// ErrNotRepository is returned by Open when the directory lies in no Git repository, or
	// inside the Git directory of a repository that has a work tree.
	ErrNotRepository = errors.New("not a Git repository")

	// ErrBare is returned by calls that need a work tree when the repository has none.
	ErrBare = errors.New("the repository is bare: there is no work tree")

	// ErrUnknownRevision is returned when a name stands for no commit.
	ErrUnknownRevision = errors.New("unknown revision")

	// ErrNoObject is returned when an object id names nothing in the repository.
	ErrNoObject = errors.New("object not found")

	// ErrBadOID is returned when an object id does not have the form the repository uses.
	ErrBadOID = errors.New("malformed object id")

	// ErrBadObject is returned when an object, or an answer of git, cannot be understood; a
	// tree whose entries are out of order counts.
	ErrBadObject = errors.New("malformed Git data")

	// ErrBadRefName is returned when a ref name is not a full name below refs/, or has bytes
	// that no ref name may have.
	ErrBadRefName = errors.New("malformed ref name")

	// ErrBrokenRef is returned when a ref exists but its content names no object.
	ErrBrokenRef = errors.New("broken ref")

	// ErrRefMoved is what a *RefMovedError matches: a ref did not have the expected value.
	ErrRefMoved = errors.New("ref moved")

	// ErrAmbiguous is returned by ResolveCommit for an abbreviated object id that fits several
	// commits. It comes with ErrUnknownRevision.
	ErrAmbiguous = errors.New("the abbreviated object id is ambiguous; give more digits")

	// ErrShallow is returned when the answer depends on history that a shallow clone does not
	// have.
	ErrShallow = errors.New("the clone is shallow and the history needed here is cut off; run `git fetch --unshallow`")

	// ErrUnrelated is returned by MergeTree for two commits without a common ancestor.
	ErrUnrelated = errors.New("the commits have no common ancestor")

	// ErrTooLarge is returned when an object is larger than the caller's or the package's bound.
	ErrTooLarge = errors.New("object too large")

	// ErrNotRegular is returned by ReadFile when the path is a directory, a symbolic link or a
	// submodule.
	ErrNotRegular = errors.New("not a regular file")

	// ErrNoIdentity is returned when Git knows no name or no e-mail address for the user.
	ErrNoIdentity = errors.New("no name or e-mail address is configured; run `git config --global user.name \"Your Name\"` and `git config --global user.email you@example.com`")

	// ErrEmptyMessage is returned by CommitTree for a message without text.
	ErrEmptyMessage = errors.New("the commit message is empty")

	// ErrUnmerged is returned by WorktreeCommit while the index has unresolved conflicts.
	ErrUnmerged = errors.New("the work tree has unresolved merge conflicts; resolve them and `git add` the files")

	// ErrNotWorktree is returned when a path is not the top of a work tree of this repository.
	ErrNotWorktree = errors.New("not a work tree of this repository")

	// ErrWouldOverwrite is returned by UpdateWorktree when local changes or untracked files
	// stand in the way; nothing was touched.
	ErrWouldOverwrite = errors.New("local changes would be overwritten")

	// ErrClosed is returned by object reads after Close.
	ErrClosed = errors.New("the repository handle is closed")
)

// CommandError is a git command that ended with an exit status that means failure.
type CommandError struct {
	Args     []string // the subcommand and its arguments, without Writ's fixed options
	ExitCode int      // -1 when a signal ended the process
	Stderr   string   // the last 8 KiB of its standard error, trimmed
}

func (e *CommandError) Error() string {
	name := "git"
	if len(e.Args) > 0 {
		name += " " + e.Args[0]
	}
	if e.Stderr == "" {
		return fmt.Sprintf("%s failed with exit status %d", name, e.ExitCode)
	}
	return fmt.Sprintf("%s failed with exit status %d: %s", name, e.ExitCode, strings.TrimPrefix(e.Stderr, "fatal: "))
}

// RefMovedError says which ref of an UpdateRefs call did not have the expected value. It
// matches ErrRefMoved.
type RefMovedError struct {
	Name string
	Want OID // "" when the ref was expected not to exist
	Have OID // "" when the ref does not exist
}

func (e *RefMovedError) Error() string {
	switch {
	case e.Want == "":
		return fmt.Sprintf("ref %s was expected not to exist but is %s", e.Name, e.Have)
	case e.Have == "":
		return fmt.Sprintf("ref %s was expected to be %s but does not exist", e.Name, e.Want)
	}
	return fmt.Sprintf("ref %s was expected to be %s but is %s", e.Name, e.Want, e.Have)
}

// Is makes errors.Is(err, ErrRefMoved) true.
func (e *RefMovedError) Is(target error) bool { return target == ErrRefMoved }
