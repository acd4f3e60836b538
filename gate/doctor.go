package gate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate/suite"
	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/internal/vfs"
)

// Health is how one thing that Writ depends on is.
type Health struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warning or failure
	What   string `json:"what"`
	Advice string `json:"advice,omitempty"`
}

// The statuses of a Health.
const (
	HealthOK      = "ok"
	HealthWarning = "warning"
	HealthFailure = "failure"
)

// examination collects what a doctor finds.
type examination struct{ list []Health }

func (x *examination) add(name, status, advice, format string, args ...any) {
	x.list = append(x.list, Health{name, status, fmt.Sprintf(format, args...), advice})
}

// Doctor looks at everything that Writ depends on here: Git, the data directory,
// the authority with a complete validation, the refs that keep its commits, and
// what killed commands have left. It repairs nothing.
func Doctor(ctx context.Context, o OpenOptions) []Health {
	x := &examination{}
	if o.Dir == "" {
		o.Dir = "."
	}
	git, err := gitrepo.Open(ctx, o.Dir)
	if err != nil {
		x.add("git", HealthFailure, "run it inside a Git repository, with Git 2.38 or later", "%v", err)
		return x.list
	}
	shallow := ""
	if git.Shallow() {
		shallow = ", shallow"
	}
	x.add("git", HealthOK, "", "%s%s, %s", git.CommonDir(), shallow, git.ObjectFormat())
	data := o.Data
	if data == "" {
		data = DefaultData(git)
	}
	x.directory(data)
	if err := git.Close(); err != nil {
		x.add("git", HealthFailure, "", "%v", err)
	}
	o.Create = false
	w, err := Open(ctx, o)
	switch {
	case errors.Is(err, authority.ErrNoAuthority):
		x.add("authority", HealthWarning, "`writ gate` makes it", "there is none in %s yet", data)
		return x.list
	case err != nil:
		x.add("authority", HealthFailure, "", "%v", err)
		return x.list
	}
	x.authority(ctx, w)
	x.refs(ctx, w)
	x.leftovers(ctx, w)
	x.configuration(ctx, w)
	if err := w.Close(); err != nil {
		x.add("authority", HealthFailure, "", "closing it failed: %v", err)
	}
	return x.list
}

func (x *examination) directory(data string) {
	if kind, remote, err := vfs.Network(data); err == nil && remote {
		x.add("data directory", HealthFailure, "put it on a local disk with --data", "%s lies on a network file system (%s)", data, kind)
		return
	}
	info, err := os.Lstat(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		x.add("data directory", HealthFailure, "", "%v", err)
		return
	case !info.IsDir():
		x.add("data directory", HealthFailure, "", "%s is not a real directory", data)
		return
	}
	probe, err := os.CreateTemp(filepath.Join(data, "runtime"), "probe-")
	if err == nil {
		_, err = probe.WriteString("writable")
		err = errors.Join(err, probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		x.add("data directory", HealthWarning, "nothing can be recorded until it can be written", "%v", err)
		return
	}
	x.add("data directory", HealthOK, "", "%s can be written", data)
}

func (x *examination) authority(ctx context.Context, w *Workspace) {
	checks := map[string]func(context.Context) ([]bindb.Finding, error){"registry": w.Authority.Registry().Check}
	order := []string{"registry"}
	list, err := w.Authority.Repositories(ctx)
	if err != nil {
		x.add("registry", HealthFailure, "", "%v", err)
		return
	}
	for _, info := range list {
		name := fmt.Sprintf("repository %d (%s)", info.Index, info.Name)
		if info.Meta.Tombstoned() {
			continue // it has no directory
		}
		r, err := w.Authority.Repository(ctx, info.Index)
		if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
			// Its locks are made when it is used for the first time.
			x.add(name, HealthWarning, "make the data directory writable and look again", "it cannot be looked at: %v", err)
			continue
		}
		if err != nil {
			x.add(name, HealthFailure, "", "%v", err)
			continue
		}
		checks[name] = r.Check
		order = append(order, name)
	}
	for _, name := range order {
		findings, err := checks[name](ctx)
		switch {
		case err != nil:
			x.add(name, HealthFailure, "", "%v", err)
		case len(findings) > 0:
			for _, f := range findings[:min(len(findings), 10)] {
				x.add(name, HealthFailure, "restore a backup; nothing is repaired by guessing", "%s", f)
			}
		default:
			x.add(name, HealthOK, "", "every record is valid")
		}
	}
}

// refs verifies that Git still has what the Snapshots stand for.
func (x *examination) refs(ctx context.Context, w *Workspace) {
	lost := []string{}
	total := uint32(0)
	err := w.Repo.View(ctx, func(v *authority.View) error {
		var err error
		if total, err = bindb.Snapshots.Count(v); err != nil {
			return err
		}
		return bindb.Snapshots.Scan(v, 0, total, func(i uint32, s *record.Snapshot) error {
			if s.Meta.Tombstoned() {
				return nil
			}
			_, ok, err := w.Git.Ref(ctx, w.snapshotRef(i))
			if err == nil && !ok {
				lost = append(lost, record.SnapshotName(s.Hash48))
			}
			return err
		})
	})
	switch {
	case err != nil:
		x.add("refs", HealthFailure, "", "%v", err)
	case len(lost) > 0:
		x.add("refs", HealthWarning, "`writ show` on a patchset finds its commits again by their hash, if Git still has them",
			"%d of %d snapshots have no ref, first of all %s", len(lost), total, lost[0])
	default:
		x.add("refs", HealthOK, "", "all %d snapshots have their commit", total)
	}
}

func (x *examination) leftovers(ctx context.Context, w *Workspace) {
	left, err := os.ReadDir(filepath.Dir(w.note(0)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.add("checkouts", HealthFailure, "", "%v", err)
	}
	if len(left) > 0 {
		x.add("checkouts", HealthWarning, "the next `writ gate` removes those that nobody uses", "%d checkouts of suites exist", len(left))
	}
	land, err := w.runningLand(ctx)
	switch {
	case err != nil:
		x.add("lands", HealthFailure, "", "%v", err)
	case land != nil:
		x.add("lands", HealthWarning, "the next `writ gate` finishes or fails it", "%s was interrupted", land.ID)
	}
}

func (x *examination) configuration(ctx context.Context, w *Workspace) {
	head, err := w.Git.Head(ctx)
	if err != nil || head.Commit == "" {
		return
	}
	b, ok, err := w.Git.ReadFile(ctx, head.Commit, suite.FileName, suite.MaxFile)
	switch {
	case err != nil:
		x.add(suite.FileName, HealthFailure, "", "%v", err)
	case !ok:
		x.add(suite.FileName, HealthWarning, "`writ init` writes one", "HEAD has none; suites are detected")
	default:
		if _, err := suite.Parse(suite.FileName, b); err != nil {
			x.add(suite.FileName, HealthFailure, "", "%v", err)
			return
		}
		x.add(suite.FileName, HealthOK, "", "it can be read")
	}
}
