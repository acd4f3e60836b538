package authority_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// waste appends payload bytes that no record refers to, and rows behind the last
// decision.
func waste(t testing.TB, r *authority.Repository) {
	t.Helper()
	err := r.Root().Update(context.Background(), func(tx *bindb.Tx) error {
		if _, err := bindb.TaskPayload.Append(tx, make([]byte, 5000)); err != nil {
			return err
		}
		_, err := bindb.PolicyChecks.Append(tx, record.PolicyCheck{Kind: record.CheckKindTests, Status: record.CheckStatusPass})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCompact(t *testing.T) {
	t.Parallel()
	authoritytest.Shared(t)
	b := authoritytest.Setup(t)
	ctx := context.Background()
	p := b.Publish()
	b.Update(func(tx *authority.Tx) error { return authoritytest.Run(tx, p.Patchset, authoritytest.Passed) })
	waste(t, b.Repo)
	p = b.Next(b.Publish())
	queued := enqueue(b, p.Patchset)
	_, before := backup(t, b.Authority)
	var done, total int64
	c, err := authority.Compact(ctx, b.Options, authority.CompactOptions{Progress: func(d, of int64) { done, total = d, of }})
	if err != nil {
		t.Fatal(err)
	}
	if c.Generation != 2 || c.Epoch != 1 || c.Installation != b.Authority.Installation() || c.Old != "" {
		t.Errorf("published %+v", c.Published)
	}
	if c.Before != before.Bytes || c.After != c.Before-5000-8 || c.DroppedRows != 1 || len(c.Roots) != 6 || done != c.Before || total != c.Before {
		t.Errorf("compaction %+v, progress %d of %d, backup %d", c, done, total, before.Bytes)
	}
	if err := b.Repo.View(ctx, func(*authority.View) error { return nil }); !errors.Is(err, authority.ErrGeneration) {
		t.Errorf("the old generation: %v", err)
	}
	b.Reopen()
	_, after := backup(t, b.Authority)
	for i, f := range before.Files {
		same := after.Files[i] == f
		want := f.Path != "repositories/4/task.bin" && f.Path != "repositories/4/task_payload.bin" && f.Path != "repositories/4/policy_check.bin"
		if same != want {
			t.Errorf("%s: the same %v, want %v", f.Path, same, want)
		}
	}
	b.View(func(v *authority.View) error {
		task, err := v.Task(p.Task)
		if err != nil || task.ID.String() != "T-0002" || task.Title != "Paint the widgets" {
			t.Errorf("task %+v, %v", task, err)
		}
		return nil
	})
	if l := claim(b, queued); l.Attempt != 1 {
		t.Errorf("lease %+v", l)
	}
}

// Nobody may be at work: neither a Job nor another command.
func TestCompactIsOffline(t *testing.T) {
	t.Parallel()
	authoritytest.Shared(t)
	b := authoritytest.Setup(t)
	ctx := context.Background()
	p := b.Publish()
	l := claim(b, enqueue(b, p.Patchset))
	before := tree(t, filepath.Join(b.Options.Dir, "generations"))
	_, err := authority.Compact(ctx, b.Options, authority.CompactOptions{})
	if !errors.Is(err, authority.ErrState) || !strings.Contains(err.Error(), "job 4/0 is running") {
		t.Errorf("compaction under a running job: %v", err)
	}
	if tree(t, filepath.Join(b.Options.Dir, "generations")) != before {
		t.Error("a refused compaction has changed something")
	}
	b.Update(func(tx *authority.Tx) error { _, err := tx.CompleteCI(l, authoritytest.Passed); return err })
	o := b.Options
	o.LockWait = 20 * time.Millisecond
	err = b.Repo.View(ctx, func(*authority.View) error {
		_, err := authority.Compact(ctx, o, authority.CompactOptions{})
		return err
	})
	if !errors.Is(err, bindb.ErrBusy) {
		t.Errorf("compaction under a reader: %v", err)
	}
	o.Dir = t.TempDir()
	if _, err := authority.Compact(ctx, o, authority.CompactOptions{}); !errors.Is(err, authority.ErrNoAuthority) {
		t.Errorf("compaction of nothing: %v", err)
	}
	c, err := authority.Compact(ctx, b.Options, authority.CompactOptions{KeepOld: true})
	if err != nil || c.Old != filepath.Join(b.Options.Dir, "retired", "1") || c.Before != c.After {
		t.Errorf("%+v, %v", c, err)
	}
	b.Reopen()
}

// A damaged authority is not compacted, whatever is wrong with it.
func TestCompactRefusesDamage(t *testing.T) {
	t.Parallel()
	authoritytest.Shared(t)
	b := authoritytest.Setup(t)
	b.Publish()
	b.Reopen()
	dst, _ := backup(t, b.Authority)
	flipByte(t, filepath.Join(b.Options.Dir, "generations", "1", "repositories", "4", "snapshot.bin"), bindb.HeaderSize+40)
	_, err := authority.Compact(context.Background(), b.Options, authority.CompactOptions{})
	if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "snapshot.bin") {
		t.Errorf("compaction of a flipped manifest hash: %v", err)
	}
	if _, err := authority.Restore(context.Background(), b.Options, dst, authority.Restoration{Replace: true}); err != nil {
		t.Fatal(err)
	}
	b.Reopen()
}
