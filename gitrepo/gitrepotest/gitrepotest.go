// Package gitrepotest builds real Git repositories for tests, apart from the configuration of
// whoever runs them.
package gitrepotest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var isolate = sync.OnceFunc(func() {
	os.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	os.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, name := range []string{"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL",
		"GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "EMAIL"} {
		os.Unsetenv(name)
	}
})

// Isolate sets the environment of this process so that git reads neither the user's nor the
// system's configuration. New calls it; a TestMain may call it earlier.
func Isolate() { isolate() }

// Repo is a repository under test. Its methods fail the test when git fails.
type Repo struct {
	Dir string // top of the work tree, or the bare repository

	t     testing.TB
	clock int // commits made, so that their times differ and are the same in every run
}

// Option changes what New makes.
type Option func(args *[]string)

// SHA256 makes a repository with SHA-256 object ids.
func SHA256() Option { return func(args *[]string) { *args = append(*args, "--object-format=sha256") } }

// Bare makes a repository without a work tree.
func Bare() Option { return func(args *[]string) { *args = append(*args, "--bare") } }

// New makes an empty repository with the unborn branch main and a configured user.
func New(t testing.TB, options ...Option) *Repo {
	t.Helper()
	Isolate()
	args := []string{"init", "--quiet", "--initial-branch=main"}
	for _, o := range options {
		o(&args)
	}
	// git reports paths with symbolic links resolved; so does Dir.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &Repo{Dir: filepath.Join(dir, "repo"), t: t}
	if err := os.Mkdir(r.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r.Git(args...)
	r.Git("config", "user.name", "Test User")
	r.Git("config", "user.email", "test@example.com")
	return r
}

// At returns the repository at an existing directory.
func At(t testing.TB, dir string) *Repo {
	Isolate()
	return &Repo{Dir: dir, t: t}
}

// Clone clones the repository, with the given options of git clone, into a new directory.
func (r *Repo) Clone(options ...string) *Repo {
	r.t.Helper()
	dir, err := filepath.EvalSymlinks(r.t.TempDir())
	if err != nil {
		r.t.Fatal(err)
	}
	clone := &Repo{Dir: filepath.Join(dir, "clone"), t: r.t}
	args := append([]string{"clone", "--quiet"}, options...)
	r.Git(append(args, "file://"+r.Dir, clone.Dir)...)
	clone.Git("config", "user.name", "Test User")
	clone.Git("config", "user.email", "test@example.com")
	return clone
}

// Git runs git in the repository and returns its output without the last line feed.
func (r *Repo) Git(args ...string) string {
	r.t.Helper()
	out, err := r.Try(args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// Try runs git in the repository; the error has what it printed to standard error.
func (r *Repo) Try(args ...string) (string, error) { return r.feed("", args...) }

// Feed runs git with text as its input.
func (r *Repo) Feed(input string, args ...string) string {
	r.t.Helper()
	out, err := r.feed(input, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *Repo) feed(input string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.Dir
	stamp := fmt.Sprintf("%d +0000", 1_700_000_000+r.clock)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE="+stamp, "GIT_COMMITTER_DATE="+stamp)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}

// Path returns the absolute path of a file of the work tree.
func (r *Repo) Path(name string) string { return filepath.Join(r.Dir, filepath.FromSlash(name)) }

// Write writes a file of the work tree, making its directories.
func (r *Repo) Write(name, content string) {
	r.t.Helper()
	path := r.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		r.t.Fatal(err)
	}
}

// Read returns the content of a file of the work tree.
func (r *Repo) Read(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(r.Path(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// Commit writes files, stages everything in the work tree and commits it. It returns the commit's
// id. No files and no changes make a commit with the parent's tree.
func (r *Repo) Commit(files map[string]string, message string) string {
	r.t.Helper()
	for name, content := range files {
		r.Write(name, content)
	}
	r.clock++
	r.Git("add", "--all")
	r.Git("commit", "--quiet", "--allow-empty", "-m", message)
	return r.Git("rev-parse", "HEAD")
}

// Generate makes, on branch main, the given number of files in the first commit and changes one
// file in each further one, and checks the last commit out unless the repository is bare. Files
// lie fifty to a directory, two directories deep. It takes about a second for 10,000 files and
// 5,000 commits.
func (r *Repo) Generate(files, commits int) {
	r.t.Helper()
	var b bytes.Buffer
	b.WriteString("feature done\n")
	blob := func(f, revision int) {
		content := strings.Repeat(fmt.Sprintf("file %d revision %d\n", f, revision), 1+f%20)
		fmt.Fprintf(&b, "M 100644 inline dir%02d/sub%02d/file%05d.txt\ndata %d\n%s\n", f/1000, f/50%20, f, len(content), content)
	}
	for c := range commits {
		message := fmt.Sprintf("Change %d\n\nBody of change %d.\n", c, c)
		fmt.Fprintf(&b, "commit refs/heads/main\ncommitter Test User <test@example.com> %d +0000\ndata %d\n%s", 1_600_000_000+c, len(message), message)
		if c == 0 {
			for f := range files {
				blob(f, 0)
			}
		} else {
			blob(c%files, c)
		}
	}
	b.WriteString("done\n")
	r.Feed(b.String(), "fast-import", "--quiet")
	if r.Git("rev-parse", "--is-bare-repository") == "false" {
		r.Git("reset", "--quiet", "--hard", "main")
		r.settle()
	}
}

// settle makes the checked-out files an hour old. Git reads files again and again that are as
// young as the index; in a repository that somebody works in, few are.
func (r *Repo) settle() {
	r.t.Helper()
	hourAgo := time.Now().Add(-time.Hour)
	for name := range strings.SplitSeq(r.Git("ls-files", "-z"), "\x00") {
		if name == "" {
			continue
		}
		if err := os.Chtimes(r.Path(name), hourAgo, hourAgo); err != nil {
			r.t.Fatal(err)
		}
	}
	r.Git("update-index", "--refresh")
}
