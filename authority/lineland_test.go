package authority_test

import (
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

func landOnLine(b *authoritytest.Bundle, s authority.LineLandSpec) (l authority.Land) {
	b.TB.Helper()
	b.Update(func(tx *authority.Tx) (err error) { l, err = tx.LandOnLine(s); return err })
	return l
}

func lands(b *authoritytest.Bundle, change uint32) (n int) {
	b.TB.Helper()
	b.View(func(v *authority.View) error {
		list, err := v.Lands(change)
		n = len(list)
		return err
	})
	return n
}

func head(b *authoritytest.Bundle, line uint32) (ref record.Ref) {
	b.TB.Helper()
	b.View(func(v *authority.View) error {
		l, err := v.Line(line)
		ref = l.Head
		return err
	})
	return ref
}

func TestLandOnLine(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	var above, merge, apart uint32
	for name, at := range map[string]func(p authoritytest.Published) (head record.Ref, status record.LandStatus, after record.Ref){
		"on the base": func(p authoritytest.Published) (record.Ref, record.LandStatus, record.Ref) {
			return record.RefTo(p.Base), record.LandStatusSucceeded, record.RefTo(p.Revision)
		},
		"on the revision": func(p authoritytest.Published) (record.Ref, record.LandStatus, record.Ref) {
			return record.RefTo(p.Revision), record.LandStatusSucceeded, record.RefTo(p.Revision)
		},
		"above the revision": func(authoritytest.Published) (record.Ref, record.LandStatus, record.Ref) {
			return record.RefTo(above), record.LandStatusSucceeded, record.RefTo(above)
		},
		"on a merge of the revision": func(authoritytest.Published) (record.Ref, record.LandStatus, record.Ref) {
			return record.RefTo(merge), record.LandStatusSucceeded, record.RefTo(merge)
		},
		"elsewhere": func(authoritytest.Published) (record.Ref, record.LandStatus, record.Ref) {
			return record.RefTo(apart), record.LandStatusBlocked, record.RefTo(apart)
		},
		"nowhere": func(authoritytest.Published) (record.Ref, record.LandStatus, record.Ref) {
			return 0, record.LandStatusBlocked, 0
		},
	} {
		p := landable(b)
		var line uint32
		b.Update(func(tx *authority.Tx) (err error) {
			if line, err = tx.AddLine(name); err != nil {
				return err
			}
			add := func(number uint64, parents ...uint32) (index uint32) {
				s := authoritytest.Snapshot(number, line)
				s.Parents = parents
				if err == nil {
					index, err = tx.AddSnapshot(s)
				}
				return index
			}
			apart = add(1)
			above = add(2, p.Revision)
			merge = add(3, apart, above)
			if at, _, _ := at(p); at != 0 && err == nil {
				i, _ := at.Index()
				err = tx.SetLineHead(line, i)
			}
			return err
		})
		before, status, after := at(p)
		spec := authority.LineLandSpec{Change: p.Change, TargetLine: line, Mode: record.LandModeFFOnly, ExpectedHead: before}
		l := landOnLine(b, spec)
		landed := status == record.LandStatusSucceeded
		if l.Meta.Status() != status || l.PreTarget != before || l.Patchset != p.Patchset || l.Meta.Mode() != record.LandModeFFOnly ||
			landed && l.Landed != after || (l.Failure == record.LandFailureBaseStale) == landed {
			t.Errorf("%s: %+v", name, l)
		}
		if head(b, line) != after {
			t.Errorf("%s: the line stands on %v, want %v", name, head(b, line), after)
		}
		c := change(b, p.Change)
		if (c.Meta.Lifecycle() == record.ChangeLifecycleLanded) != landed || c.Meta.Blocked() == landed || c.Meta.ReadyToLand() {
			t.Errorf("%s: change %+v", name, c)
		}
		// Once more, as after an answer that was lost: nothing is recorded.
		spec.ExpectedHead = 0
		if again := landOnLine(b, spec); again.Index != l.Index || lands(b, p.Change) != 1 || head(b, line) != after {
			t.Errorf("%s, repeated: %+v", name, again)
		}
		if got := task(b, p.Task); !got.Open() {
			t.Errorf("%s: the task was closed", name)
		}
	}
}

func TestLandOnLineAndCompleteTask(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := landable(b)
	spec := authority.LineLandSpec{Change: p.Change, Patchset: record.RefTo(p.Patchset), TargetLine: p.Main, CompleteTask: true}
	review(b, p.Patchset, "ann", record.ReviewActionComment)
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { _, err := tx.LandOnLine(spec); return err })
	decide(b, p.Patchset, 0)
	// A pending request keeps a Change from being ready, although the policy passes.
	b.Update(func(tx *authority.Tx) error { _, err := tx.RequestReview(p.Patchset, "painters", ""); return err })
	decide(b, p.Patchset, 0)
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { _, err := tx.LandOnLine(spec); return err })
	review(b, p.Patchset, "ann", record.ReviewActionApprove)
	decide(b, p.Patchset, 0)
	if l := landOnLine(b, spec); l.Meta.Status() != record.LandStatusSucceeded || l.ID.String() != "T-0001/C-01/L-01" {
		t.Errorf("land %+v", l)
	}
	if got := task(b, p.Task); got.Status() != "completed" || got.ClosedAt == 0 {
		t.Errorf("task %+v", got)
	}
}

func TestLandOnLineRefuses(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p, q := landable(b), landable(b)
	undecided := b.Publish()
	objected := landable(b)
	review(b, objected.Patchset, "ann", record.ReviewActionRequestChanges)
	decide(b, objected.Patchset, 0)
	next := b.Next(b.Publish()) // selected, undecided
	landed := landable(b)
	var archived, side uint32
	b.Update(func(tx *authority.Tx) (err error) {
		if archived, err = tx.AddLine("archived"); err != nil {
			return err
		}
		if side, err = tx.AddLine("side"); err != nil {
			return err
		}
		if err := tx.SetLineHead(p.Main, landed.Base); err != nil {
			return err
		}
		if _, err := tx.LandOnLine(authority.LineLandSpec{Change: landed.Change, TargetLine: p.Main}); err != nil {
			return err
		}
		return tx.ArchiveLine(archived)
	})
	b.Update(func(tx *authority.Tx) error { return tx.SetLineHead(p.Main, p.Base) })
	for name, c := range map[string]struct {
		want error
		s    authority.LineLandSpec
	}{
		"unknown change":       {bindb.ErrNotFound, authority.LineLandSpec{Change: 99, TargetLine: p.Main}},
		"unknown line":         {bindb.ErrNotFound, authority.LineLandSpec{Change: p.Change, TargetLine: 99}},
		"unknown patchset":     {bindb.ErrNotFound, authority.LineLandSpec{Change: p.Change, TargetLine: p.Main, Patchset: record.RefTo(99)}},
		"of another change":    {bindb.ErrInvalid, authority.LineLandSpec{Change: p.Change, TargetLine: p.Main, Patchset: record.RefTo(q.Patchset)}},
		"unknown mode":         {bindb.ErrInvalid, authority.LineLandSpec{Change: p.Change, TargetLine: p.Main, Mode: 3}},
		"archived line":        {authority.ErrState, authority.LineLandSpec{Change: p.Change, TargetLine: archived}},
		"wrong expected head":  {authority.ErrState, authority.LineLandSpec{Change: p.Change, TargetLine: p.Main, ExpectedHead: record.RefTo(q.Base)}},
		"no decision":          {authority.ErrState, authority.LineLandSpec{Change: undecided.Change, TargetLine: p.Main}},
		"an objection":         {authority.ErrState, authority.LineLandSpec{Change: objected.Change, TargetLine: p.Main}},
		"not the selected one": {authority.ErrState, authority.LineLandSpec{Change: next.Change, TargetLine: p.Main, Patchset: record.RefTo(next.Patchset - 1)}},
		"landed elsewhere":     {authority.ErrState, authority.LineLandSpec{Change: landed.Change, TargetLine: side}},
	} {
		t.Log(name)
		wantErr(t, b.Repo, c.want, func(tx *authority.Tx) error { _, err := tx.LandOnLine(c.s); return err })
		if n := lands(b, p.Change); n != 0 {
			t.Fatalf("%d lands are recorded", n)
		}
	}
	// Nor beside another Land.
	b.Update(func(tx *authority.Tx) error { _, err := begin(tx, p); return err })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error {
		_, err := tx.LandOnLine(authority.LineLandSpec{Change: q.Change, TargetLine: p.Main})
		return err
	})
}

// TestBlockedLandsEndAt64: each one onto another head is an attempt of its own.
func TestBlockedLandsEndAt64(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := landable(b)
	attempt := func(tx *authority.Tx) error {
		s, err := tx.AddSnapshot(authoritytest.Snapshot(7, p.Main))
		if err != nil {
			return err
		}
		if err := tx.SetLineHead(p.Main, s); err != nil {
			return err
		}
		_, err = tx.LandOnLine(authority.LineLandSpec{Change: p.Change, TargetLine: p.Main})
		return err
	}
	b.Update(func(tx *authority.Tx) error {
		for range 64 {
			if err := attempt(tx); err != nil {
				return err
			}
		}
		return nil
	})
	wantErr(t, b.Repo, bindb.ErrCapacity, attempt)
}
