package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Head is what HEAD stands for.
type Head struct {
	Branch string // short name of the branch, "" when detached
	Commit OID    // "" when the branch has no commit yet
}

// Head returns the branch that is checked out and its commit.
func (r *Repo) Head(ctx context.Context) (Head, error) {
	out, code, err := r.output(ctx, command{args: []string{"symbolic-ref", "-q", "HEAD"}, accept: []int{1}})
	if err != nil {
		return Head{}, err
	}
	if code == 1 {
		id, err := r.ResolveCommit(ctx, "HEAD")
		if err != nil {
			return Head{}, err
		}
		return Head{Commit: id}, nil
	}
	ref := strings.TrimSuffix(string(out), "\n")
	id, _, err := r.Ref(ctx, ref)
	if err != nil {
		return Head{}, err
	}
	branch, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok {
		// HEAD may point at any ref, but only those below refs/heads/ are branches.
		if id == "" {
			return Head{}, fmt.Errorf("%w: HEAD names %s, which does not exist", ErrUnknownRevision, ref)
		}
		return Head{Commit: id}, nil
	}
	return Head{Branch: branch, Commit: id}, nil
}

// checkRefName refuses names that could stand for something else than one full ref name. Git
// checks the rest.
func checkRefName(name string) error {
	if !strings.HasPrefix(name, "refs/") || strings.HasSuffix(name, "/") || strings.Contains(name, "..") ||
		strings.Contains(name, "//") || strings.Contains(name, "@{") || strings.Contains(name, "/.") ||
		strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f || strings.ContainsRune(`~^:?*[\`, c) }) {
		return fmt.Errorf("%w: %q, want a full name such as refs/heads/main", ErrBadRefName, name)
	}
	return nil
}

// Ref returns the object that a ref names (an annotated tag itself, not what it points at), and
// false when there is no ref of exactly this full name. Its cost does not depend on the number
// of refs.
func (r *Repo) Ref(ctx context.Context, name string) (OID, bool, error) {
	if err := checkRefName(name); err != nil {
		return "", false, err
	}
	// cat-file resolves abbreviated names too: refs/heads/x could be found as
	// refs/tags/refs/heads/x. So its answer counts only if none of the longer names exists.
	requests := []request{{name: name}}
	for _, form := range []string{"refs/%s", "refs/tags/%s", "refs/heads/%s", "refs/remotes/%s", "refs/remotes/%s/HEAD"} {
		requests = append(requests, request{name: fmt.Sprintf(form, name)})
	}
	var id OID
	sure := !looksDescribed(name)
	err := r.objects.ask(ctx, requests, func(i int, info objectInfo, _ io.Reader) error {
		if i == 0 {
			id = info.id
		} else if info.found {
			sure = false
		}
		return nil
	})
	if err != nil {
		return "", false, fmt.Errorf("read ref %s: %w", name, err)
	}
	if id != "" && sure {
		return id, true, nil
	}
	return r.verifyRef(ctx, name)
}

// looksDescribed reports whether Git could take a name for the output of `git describe`, which
// names an object by the digits after "-g".
func looksDescribed(name string) bool {
	i := strings.LastIndex(name, "-g")
	return i >= 0 && isHex(strings.ToLower(name[i+2:]))
}

// verifyRef asks for exactly one ref in a process of its own.
func (r *Repo) verifyRef(ctx context.Context, name string) (OID, bool, error) {
	for try := 0; ; try++ {
		id, err := r.oidOutput(ctx, command{args: []string{"show-ref", "--verify", "--hash", "--", name}})
		if err == nil {
			return id, true, nil
		}
		if !stderrHas(err, "not a valid ref") {
			if stderrHas(err, "bad ref") {
				err = fmt.Errorf("%w %s: %w", ErrBrokenRef, name, err)
			}
			return "", false, err
		}
		// The same message covers a ref that does not exist and one that can't be read.
		data, readErr := os.ReadFile(filepath.Join(r.common, filepath.FromSlash(name)))
		if readErr != nil || strings.HasPrefix(string(data), "ref:") {
			return "", false, nil
		}
		if try > 0 { // once more, since the ref may have been made in between
			return "", false, fmt.Errorf("%w %s: its file holds %.80q", ErrBrokenRef, name, data)
		}
	}
}

// Upstream returns the full name of the ref that a branch (short name) follows, and false when
// none is configured or the ref does not exist.
func (r *Repo) Upstream(ctx context.Context, branch string) (string, bool, error) {
	name := "refs/heads/" + branch
	if err := checkRefName(name); err != nil {
		return "", false, err
	}
	out, _, err := r.output(ctx, command{args: []string{"for-each-ref", "--format=%(refname)%00%(upstream)", "--", name}})
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(out)) {
		ref, upstream, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		if ref != name || upstream == "" {
			continue
		}
		if _, ok, err := r.Ref(ctx, upstream); err != nil || !ok {
			return "", false, err
		}
		return upstream, true, nil
	}
	return "", false, nil
}

// DefaultBranch returns the short name of the local branch that changes usually go to: main,
// else master, else the one that init.defaultBranch or the remote origin's HEAD names. It is
// false when none of them exists.
func (r *Repo) DefaultBranch(ctx context.Context) (string, bool, error) {
	exists := func(branch string) (bool, error) {
		_, ok, err := r.Ref(ctx, "refs/heads/"+branch)
		if errors.Is(err, ErrBadRefName) {
			return false, nil
		}
		return ok, err
	}
	for _, branch := range []string{"main", "master"} {
		if ok, err := exists(branch); err != nil || ok {
			return branch, ok, err
		}
	}
	configured, ok, err := r.Config(ctx, "init.defaultBranch")
	if err != nil {
		return "", false, err
	}
	if ok {
		if ok, err := exists(configured); err != nil || ok {
			return configured, ok, err
		}
	}
	out, code, err := r.output(ctx, command{args: []string{"symbolic-ref", "-q", "refs/remotes/origin/HEAD"}, accept: []int{1}})
	if err != nil || code == 1 {
		return "", false, err
	}
	if branch, ok := strings.CutPrefix(strings.TrimSuffix(string(out), "\n"), "refs/remotes/origin/"); ok {
		if ok, err := exists(branch); err != nil || ok {
			return branch, ok, err
		}
	}
	return "", false, nil
}

// AnyOID as the Old of a RefUpdate means that the present value does not matter.
const AnyOID OID = "*"

// RefUpdate is one ref of a transaction.
type RefUpdate struct {
	Name string // full name
	New  OID    // "" deletes the ref
	Old  OID    // expected value; "" expects that the ref does not exist; AnyOID expects nothing
}

// UpdateRefs moves all refs or none, in one transaction, durably. When a ref did not have its
// expected value the error is a *RefMovedError (ErrRefMoved). Refs below refs/writ/ get no reflog,
// whatever the configuration says; other refs get message in theirs as configured.
func (r *Repo) UpdateRefs(ctx context.Context, message string, updates ...RefUpdate) error {
	if len(updates) == 0 {
		return nil
	}
	var stdin strings.Builder
	zero := strings.Repeat("0", r.hexLen())
	names := make([]string, 0, len(updates))
	ours, others := false, false
	for _, u := range updates {
		if err := checkRefName(u.Name); err != nil {
			return err
		}
		if u.New != "" {
			if err := r.checkOID(u.New); err != nil {
				return fmt.Errorf("new value of %s: %w", u.Name, err)
			}
		}
		old := string(u.Old)
		switch u.Old {
		case "":
			old = zero
		case AnyOID:
			old = "" // git's form of "missing"
		default:
			if err := r.checkOID(u.Old); err != nil {
				return fmt.Errorf("expected value of %s: %w", u.Name, err)
			}
		}
		switch {
		case u.New == "" && u.Old == "":
			return fmt.Errorf("update of %s: a deletion needs the expected value or AnyOID", u.Name)
		case u.New == "":
			fmt.Fprintf(&stdin, "delete %s\x00%s\x00", u.Name, old)
		default:
			fmt.Fprintf(&stdin, "update %s\x00%s\x00%s\x00", u.Name, u.New, old)
		}
		if strings.HasPrefix(u.Name, "refs/writ/") {
			ours = true
		} else {
			others = true
		}
		names = append(names, u.Name)
	}
	c := command{args: []string{"update-ref", "--stdin", "-z"}, stdin: strings.NewReader(stdin.String())}
	if message = oneLine(message); message != "" {
		c.args = append(c.args, "-m", message)
	}
	switch {
	case ours && !others:
		c.config = []string{"core.logAllRefUpdates=false"}
	case ours:
		// "always" would log Writ's refs too; "true" logs branches and leaves Writ's alone.
		setting, _, err := r.Config(ctx, "core.logAllRefUpdates")
		if err != nil {
			return err
		}
		if strings.EqualFold(setting, "always") {
			c.config = []string{"core.logAllRefUpdates=true"}
		}
	}
	if _, err := r.run(ctx, c); err != nil {
		return r.explainRefs(ctx, updates, err)
	}
	return r.syncRefs(names)
}

// oneLine keeps a reflog message, which ends at a line feed, in one line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\x00", " ")), " ")
}

// explainRefs finds out whether a failed transaction failed for an unexpected value. Looking at
// the refs again tells more, and more reliably, than git's message.
func (r *Repo) explainRefs(ctx context.Context, updates []RefUpdate, failure error) error {
	if ctx.Err() != nil {
		return failure
	}
	for _, u := range updates {
		if u.Old == AnyOID {
			continue
		}
		have, _, err := r.Ref(ctx, u.Name)
		if err != nil {
			return errors.Join(failure, err)
		}
		if have != u.Old {
			return &RefMovedError{Name: u.Name, Want: u.Old, Have: have}
		}
	}
	return failure
}
