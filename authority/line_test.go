package authority_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

func TestLines(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	var first, second uint32
	b.Update(func(tx *authority.Tx) (err error) { first, err = tx.AddLine("release"); return err })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { _, err := tx.AddLine("release"); return err })
	b.Update(func(tx *authority.Tx) error { return tx.ArchiveLine(first) })
	b.Update(func(tx *authority.Tx) error { return tx.ArchiveLine(first) }) // nothing to do
	for name, verb := range map[string]func(*authority.Tx) error{
		"move":         func(tx *authority.Tx) error { return tx.SetLineHead(first, p.Base) },
		"base":         func(tx *authority.Tx) error { _, err := tx.OpenChange(p.Task, "c", first, 0); return err },
		"archive main": func(tx *authority.Tx) error { return tx.ArchiveLine(p.Main) },
		"remove main":  func(tx *authority.Tx) error { return tx.RemoveLine(p.Main) },
	} {
		t.Log(name)
		wantErr(t, b.Repo, authority.ErrState, verb)
	}
	b.Update(func(tx *authority.Tx) (err error) {
		second, err = tx.AddLine("release") // its name is free
		if second == first {
			t.Error("the archived line came back")
		}
		return err
	})
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.UnarchiveLine(first) })
	b.Update(func(tx *authority.Tx) error { return tx.RemoveLine(second) })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.RemoveLine(second) })
	b.Update(func(tx *authority.Tx) error { return tx.UnarchiveLine(first) })
	b.Update(func(tx *authority.Tx) error { return tx.UnarchiveLine(first) }) // nothing to do
	b.View(func(v *authority.View) error {
		list, err := v.Lines()
		var names []string
		for _, l := range list {
			names = append(names, l.Name)
		}
		if !slices.Equal(names, []string{"main", "paint", "release"}) {
			t.Errorf("lines %q", names)
		}
		l, ok, err2 := v.FindLine("release")
		if !ok || l.Index != first || l.ArchivedAt != 0 {
			t.Errorf("found %+v", l)
		}
		return errors.Join(err, err2)
	})
	for _, verb := range []func(*authority.Tx) error{
		func(tx *authority.Tx) error { return tx.ArchiveLine(99) },
		func(tx *authority.Tx) error { return tx.UnarchiveLine(99) },
		func(tx *authority.Tx) error { return tx.RemoveLine(99) },
	} {
		wantErr(t, b.Repo, bindb.ErrNotFound, verb)
	}
}

// TestRemoveLineInUse: each kind of live reference keeps a Line.
func TestRemoveLineInUse(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	add := func(name string) (line uint32) {
		b.Update(func(tx *authority.Tx) (err error) { line, err = tx.AddLine(name); return err })
		return line
	}
	base, author, target := add("base"), add("author"), add("target")
	b.Update(func(tx *authority.Tx) error {
		_, err := tx.OpenChange(p.Task, "c", base, 0)
		if err != nil {
			return err
		}
		if _, err := tx.AddSnapshot(authoritytest.Snapshot(7, author)); err != nil {
			return err
		}
		if err := tx.SetLineHead(target, p.Base); err != nil {
			return err
		}
		if _, _, err := tx.Decide(p.Patchset, authority.PolicyInput{}); err != nil {
			return err
		}
		land, err := tx.BeginLand(authority.LandSpec{Patchset: p.Patchset, TargetLine: target, PreTarget: p.Base})
		if err != nil {
			return err
		}
		return tx.FailLand(land, record.LandFailureConflict)
	})
	for _, line := range []uint32{base, author, target} {
		wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.RemoveLine(line) })
	}
}

func TestSnapshotParents(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	var merge, plain uint32
	b.Update(func(tx *authority.Tx) (err error) {
		s := authoritytest.Snapshot(7, p.Main)
		if plain, err = tx.AddSnapshot(s); err != nil {
			return err
		}
		s.Parents = []uint32{p.Revision, p.Base, plain}
		merge, err = tx.AddSnapshot(s)
		return err
	})
	b.View(func(v *authority.View) error {
		for index, want := range map[uint32][]uint32{merge: {p.Revision, p.Base, plain}, plain: nil, p.Revision: {p.Base}} {
			s, err := v.Snapshot(index)
			if err != nil {
				return err
			}
			got, err := v.Parents(&s)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("parents of %d: %v, %v, want %v", index, got, err, want)
			}
		}
		return nil
	})
	many := make([]uint32, record.MaxParents+1)
	for name, c := range map[string]struct {
		parents []uint32
		want    error
	}{
		"unknown":  {[]uint32{p.Base, 99}, bindb.ErrNotFound},
		"itself":   {[]uint32{merge + 1}, bindb.ErrNotFound},
		"twice":    {[]uint32{p.Base, p.Base}, bindb.ErrInvalid},
		"too many": {many, bindb.ErrCapacity},
	} {
		t.Log(name)
		wantErr(t, b.Repo, c.want, func(tx *authority.Tx) error {
			s := authoritytest.Snapshot(8, p.Main)
			s.Parents = c.parents
			_, err := tx.AddSnapshot(s)
			return err
		})
	}
}
