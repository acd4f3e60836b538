package convert_test

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/convert"
	"github.com/writ-authority/writ/internal/vfs"
)

// crashed is a source on a disk with the options that convert it and the bytes that
// come out.
type crashed struct {
	sim  *vfs.Sim
	opt  convert.Options
	want map[string][]byte
}

// few draws as little as there can be.
func few(int, string) int { return 0 }

func sources(t *testing.T) map[string]crashed {
	t.Helper()
	all := map[string]crashed{}
	sim := vfs.NewSim()
	source := filled(t, sim, "/first", few)
	want := bins(t, sim, generation("/first"))
	if err := sim.RemoveAll("/first"); err != nil {
		t.Fatal(err)
	}
	all["u32-time-v0"] = crashed{sim, convert.Options{From: convert.FromU32Time, Source: source}, want}
	done, _, err := newRows(t).convert(nil)
	if err != nil {
		t.Fatal(err)
	}
	sim = vfs.NewSim()
	newRows(t).write(sim, "/source")
	all["legacy-rows"] = crashed{sim, convert.Options{From: convert.FromLegacyRows, Source: "/source"}, bins(t, done, generation("/data"))}
	return all
}

// run converts the source that lies on fsys.
func (c crashed) run(fsys vfs.FS) error {
	c.opt.FS = fsys
	_, err := convert.Convert(context.Background(), c.opt, target(fsys))
	return err
}

// TestPowerCuts cuts the power during a conversion. Whatever the disk has kept,
// there is no authority or the whole of it, and a conversion can begin again.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	for name, c := range sources(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := vfs.NewSim()
			if err := copySim(sim, c); err != nil { // durably
				t.Fatal(err)
			}
			sim.Capture()
			begin := sim.OpCount()
			if err := c.run(sim); err != nil {
				t.Fatal(err)
			}
			end := sim.OpCount()
			equalBins(t, bins(t, sim, generation("/data")), c.want)
			// All of the publication, and a sample of what was built before it.
			step := 1 + (end-begin)/60
			seen := map[uint64]bool{}
			states, none, whole := 0, 0, 0
			for cut := begin; cut <= end; cut++ {
				if cut < end-120 && (cut-begin)%step != 0 {
					continue
				}
				for s := range sim.CrashStates(cut, vfs.Policy{Random: 2, Seed: uint64(cut), Tears: 1, Recent: 4}) {
					if f := s.Fingerprint(); seen[f] {
						continue
					} else {
						seen[f] = true
					}
					states++
					there := c.look(t, s)
					if there {
						whole++
					} else {
						none++
						if cut == end {
							t.Errorf("%s: the conversion was acknowledged", s.Origin())
						}
					}
					if !there && states%40 == 0 {
						if err := c.run(s); err != nil {
							t.Errorf("%s: again: %v", s.Origin(), err)
						} else if !c.look(t, s) {
							t.Errorf("%s: nothing is there after the second conversion", s.Origin())
						}
					}
				}
			}
			if none == 0 || whole == 0 {
				t.Errorf("%d states without an authority, %d with one", none, whole)
			}
			t.Logf("%d operations, %d states: %d without an authority, %d with one", end-begin, states, none, whole)
		})
	}
}

// look opens what is there and compares all of it.
func (c crashed) look(t *testing.T, s *vfs.Sim) bool {
	t.Helper()
	opt := target(s)
	a, err := authority.Open(context.Background(), opt)
	if errors.Is(err, authority.ErrNoAuthority) {
		return false
	}
	if err != nil {
		t.Errorf("%s: %v", s.Origin(), err)
		return false
	}
	list, err := s.ReadDir(filepath.Join(opt.Dir, "generations"))
	if err != nil || len(list) == 0 {
		t.Errorf("%s: generations: %v, %v", s.Origin(), list, err)
		return false
	}
	equalBins(t, bins(t, s, filepath.Join(opt.Dir, "generations", list[len(list)-1].Name)), c.want)
	if err := a.Close(); err != nil {
		t.Errorf("%s: %v", s.Origin(), err)
	}
	return true
}

// TestFullDisk lets the disk fill up at each write, truncation, creation and sync
// of the target in turn. The conversion fails, nothing is published, and it can be
// done once there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, c := range sources(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := vfs.NewSim()
			if err := copySim(count, c); err != nil {
				t.Fatal(err)
			}
			begin := count.OpCount()
			if err := c.run(count); err != nil {
				t.Fatal(err)
			}
			operations := count.OpCount() - begin
			failed := 0
			for at := 1; at < operations; at += 1 + operations/25 {
				s := vfs.NewSim()
				if err := copySim(s, c); err != nil {
					t.Fatal(err)
				}
				first := s.OpCount()
				s.Fail(func(op vfs.Op) error {
					switch op.Kind {
					case vfs.OpWrite, vfs.OpTruncate, vfs.OpCreate, vfs.OpSync, vfs.OpMkdir, vfs.OpSyncDir:
						if op.N-first >= at {
							return syscall.ENOSPC
						}
					}
					return nil
				})
				err := c.run(s)
				s.Fail(nil)
				if err == nil {
					// What follows the publication is disposable.
					if !c.look(t, s) {
						t.Errorf("operation %d: done, but nothing is there", at)
					}
					continue
				}
				failed++
				if !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("operation %d: error %v, want %v", at, err, syscall.ENOSPC)
				}
				if c.look(t, s) {
					continue // only the last step of the replacement had failed
				}
				if err := c.run(s); err != nil {
					t.Errorf("operation %d: again: %v", at, err)
				}
				if !c.look(t, s) {
					t.Errorf("operation %d: nothing is there", at)
				}
			}
			if failed < 15 {
				t.Errorf("only %d conversions failed", failed)
			}
		})
	}
}

// copySim copies the source of c to an empty disk.
func copySim(to *vfs.Sim, c crashed) error {
	var walk func(dir string) error
	walk = func(dir string) error {
		if err := vfs.MkdirAll(to, dir, 0o700); err != nil {
			return err
		}
		list, err := c.sim.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range list {
			path := filepath.Join(dir, e.Name)
			if e.Mode.IsDir() {
				if err := walk(path); err != nil {
					return err
				}
				continue
			}
			b, err := vfs.ReadFile(c.sim, path, 1<<30)
			if err != nil {
				return err
			}
			if err := vfs.WriteFileAtomic(to, path, b, 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(c.opt.Source)
}
