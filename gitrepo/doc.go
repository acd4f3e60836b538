// Package gitrepo is what Writ needs of Git, and nothing more. Every answer comes from the
// git command itself; the package holds no second implementation of Git's formats beyond
// reading commit and tree objects that Git hands out.
//
// # Promises
//
// Paths are raw bytes: newlines, quotes and invalid UTF-8 pass through unchanged, because every
// command is asked for NUL-separated output. Submodules, symbolic links and executable bits keep
// their modes. SHA-1 and SHA-256 repositories, linked work trees, bare repositories (where no
// work tree is needed), a detached HEAD and a branch without a commit all work. Where a shallow
// clone hides history that a correct answer depends on, the answer is [ErrShallow], never a guess.
//
// The user's configuration decides what it should decide (identity, ignore rules, line endings
// and filters of their own work tree) and cannot change the form of any answer. Repository
// variables of the environment (GIT_DIR, GIT_INDEX_FILE and their like) are dropped, replacement
// objects and grafts are ignored, messages are in the C locale, and no hook ever runs.
//
// Writes are durable when the call returns: Git syncs the files and this package syncs the
// directories that name them. That goes for the objects and refs that the call itself writes;
// [Repo.Persist] does the same for objects that somebody else wrote.
//
// Each call takes a context. When it ends, the child process and its children get SIGTERM, so
// that Git removes its lock files, and are killed if they do not end soon. Children run in a
// process group of their own, so that an interrupt typed at a terminal reaches Writ alone, and
// Writ can still tidy up with Git.
//
// # Cost
//
// A process costs about three milliseconds. Object reads (commits, trees, files, revisions,
// refs that exist) therefore share one `git cat-file` process, started when first needed and
// ended by [Repo.Close]. A [Repo] may be used by several goroutines.
package gitrepo
