package gitrepo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// OID is an object id: 40 (SHA-1) or 64 (SHA-256) lower-case hexadecimal digits. The empty OID
// stands for "none" where a call says so.
type OID string

// Repo is an open repository. It may be used by several goroutines.
type Repo struct {
	git    string   // path of the git command
	env    []string // environment of every command
	dir    string   // where commands run: the top of the work tree, or the bare repository
	top    string
	gitDir string // this work tree's Git directory
	common string
	format string
	bare   bool

	objects *objectReader

	emptyMu   sync.Mutex
	emptyTree OID // "" until EmptyTree has written it
}

// separator stands between the answers of one rev-parse call. rev-parse prints options it does
// not know as they are.
const separator = "--writ-separator"

// Open opens the repository that contains dir: a directory anywhere inside a work tree, or a
// bare repository. Errors: ErrNoGit, ErrOldGit, ErrNotRepository, or a *CommandError when Git
// refuses the repository (for instance for its owner).
func Open(ctx context.Context, dir string) (*Repo, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, ErrNoGit
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	if info, err := os.Stat(abs); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("open %s: %w: it is not a directory", dir, ErrNotRepository)
	}
	r := &Repo{git: git, env: environment(os.Environ()), dir: abs}

	versionErr := make(chan error, 1)
	go func() { versionErr <- r.checkVersion(ctx) }()
	out, code, err := r.output(ctx, command{
		args: []string{"rev-parse", "--path-format=absolute",
			"--is-bare-repository", "--show-object-format", separator,
			"--git-common-dir", separator, "--absolute-git-dir", separator, "--show-toplevel"},
		accept: []int{128},
	})
	if verr := <-versionErr; verr != nil {
		return nil, verr
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	parts := strings.Split(string(out), separator+"\n")
	if len(parts) != 4 {
		// rev-parse gave up before it printed anything: ask again for the reason alone.
		_, _, err := r.output(ctx, command{args: []string{"rev-parse", "--git-dir"}})
		if stderrHas(err, "not a git repository") {
			return nil, fmt.Errorf("%w: %s; run `git init` there, or name another directory", ErrNotRepository, abs)
		}
		if err == nil {
			err = fmt.Errorf("%w: answer of git rev-parse", ErrBadObject)
		}
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	facts := strings.Fields(parts[0])
	if len(facts) != 2 {
		return nil, fmt.Errorf("open %s: %w: answer of git rev-parse", dir, ErrBadObject)
	}
	r.bare = facts[0] == "true"
	r.format = facts[1]
	if r.format != "sha1" && r.format != "sha256" {
		return nil, fmt.Errorf("open %s: object format %q is not known; Writ knows sha1 and sha256", dir, r.format)
	}
	r.common = strings.TrimSuffix(parts[1], "\n")
	r.gitDir = strings.TrimSuffix(parts[2], "\n")
	switch {
	case r.bare:
		r.dir = r.gitDir
	case code != 0:
		return nil, fmt.Errorf("%w: %s lies inside the Git directory; name a directory of the work tree", ErrNotRepository, abs)
	default:
		r.top = strings.TrimSuffix(parts[3], "\n")
		r.dir = r.top
	}
	r.objects = newObjectReader(r)
	return r, nil
}

// checkVersion returns ErrOldGit, with the version found, for a Git before 2.38.
func (r *Repo) checkVersion(ctx context.Context) error {
	out, _, err := r.output(ctx, command{args: []string{"version"}})
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(out))
	major, minor, ok := parseVersion(text)
	if !ok {
		return fmt.Errorf("%w: found %q", ErrOldGit, text)
	}
	if major < 2 || major == 2 && minor < 38 {
		return fmt.Errorf("%w: found %s", ErrOldGit, strings.TrimPrefix(text, "git version "))
	}
	return nil
}

// parseVersion reads "git version 2.39.5 (Apple Git-154)" and its relatives.
func parseVersion(text string) (major, minor int, ok bool) {
	rest, ok := strings.CutPrefix(text, "git version ")
	if !ok {
		return 0, 0, false
	}
	parts := strings.SplitN(rest, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil || major < 0 {
		return 0, 0, false
	}
	digits := parts[1]
	if i := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' }); i >= 0 {
		digits = digits[:i]
	}
	minor, err = strconv.Atoi(digits)
	if err != nil {
		return 0, 0, false
	}
	return major, minor, true
}

// Close ends the process that reads objects. Other calls go on working; reads of objects return
// ErrClosed.
func (r *Repo) Close() error { return r.objects.close() }

// Top is the absolute path of the top of the work tree, "" when the repository is bare.
func (r *Repo) Top() string { return r.top }

// CommonDir is the absolute path of the common Git directory, which all linked work trees share.
func (r *Repo) CommonDir() string { return r.common }

// ObjectFormat is "sha1" or "sha256".
func (r *Repo) ObjectFormat() string { return r.format }

// Bare reports whether the repository has no work tree.
func (r *Repo) Bare() bool { return r.bare }

// Shallow reports whether history is cut off now; `git fetch` can change that at any time.
func (r *Repo) Shallow() bool {
	info, err := os.Stat(r.shallowFile())
	return err == nil && info.Size() > 0
}

func (r *Repo) shallowFile() string { return filepath.Join(r.common, "shallow") }

// hexLen is the length of an object id in digits.
func (r *Repo) hexLen() int {
	if r.format == "sha256" {
		return 64
	}
	return 40
}

// checkOID refuses what is not a full object id of this repository, so that an id can stand
// among the arguments of a command.
func (r *Repo) checkOID(ids ...OID) error {
	for _, id := range ids {
		if len(id) != r.hexLen() || !isHex(string(id)) {
			return fmt.Errorf("%w: %q, want %d lower-case hexadecimal digits", ErrBadOID, string(id), r.hexLen())
		}
	}
	return nil
}

func isHex[S string | []byte](s S) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// needWorktree returns ErrBare in a bare repository.
func (r *Repo) needWorktree() error {
	if r.bare {
		return ErrBare
	}
	return nil
}
