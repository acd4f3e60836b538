package authority_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

var everySwitch = flag.Bool("switch.all", false, "cut and fail every switch of a generation at every operation")

// switching is a way to put another generation in place, on a simulated disk.
type switching struct {
	name string
	run  func(o authority.Options) error
	old  string // content before, "" when there is no authority
	new  string // content afterwards
}

// switchings prepares a disk with an authority in /data and a backup of it in
// /backup, which is a Task behind, and returns ways to switch, each with the
// directory that it is about.
func switchings(t *testing.T) (*vfs.Sim, map[string][]switching) {
	t.Helper()
	sim := vfs.NewSim()
	ctx := context.Background()
	o := simOptions(sim, "/data")
	a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Repository(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Update(ctx, func(tx *authority.Tx) error { _, err := tx.OpenTask("Keep", "Always"); return err }); err != nil {
			t.Fatal(err)
		}
	}
	waste(t, r)
	if _, err := a.Backup(ctx, "/backup", nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Update(ctx, func(tx *authority.Tx) error { _, err := tx.OpenTask("Later", "Too"); return err }); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	restore := func(x authority.Restoration) func(o authority.Options) error {
		return func(o authority.Options) error { _, err := authority.Restore(ctx, o, "/backup", x); return err }
	}
	compact := func(x authority.CompactOptions) func(o authority.Options) error {
		return func(o authority.Options) error { _, err := authority.Compact(ctx, o, x); return err }
	}
	all := map[string][]switching{
		"/data": {
			{name: "compact", run: compact(authority.CompactOptions{})},
			{name: "restore", run: restore(authority.Restoration{Replace: true})},
		},
		"/fresh": {
			{name: "restore", run: restore(authority.Restoration{})},
		},
	}
	if *everySwitch {
		all["/data"] = append(all["/data"],
			switching{name: "compact and keep", run: compact(authority.CompactOptions{KeepOld: true})},
			switching{name: "restore and drop", run: restore(authority.Restoration{Replace: true, DropOld: true})})
	}
	return sim, all
}

func simOptions(fsys vfs.FS, dir string) authority.Options {
	return authority.Options{Dir: dir, FS: fsys, Clock: authoritytest.NewClock().Now, Random: authoritytest.NewRandom(3)}
}

// copied is the same disk once more, with nothing unsynced.
func copied(t *testing.T, sim *vfs.Sim) *vfs.Sim {
	t.Helper()
	sim.Capture()
	for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{}) {
		return state
	}
	t.Fatal("no state")
	return nil
}

// activeContent is a digest of all files of authority of the generation that
// counts, and "" where there is none.
func activeContent(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	raw, err := vfs.ReadFile(fsys, filepath.Join(dir, "active.json"), 1<<16)
	if err != nil {
		return ""
	}
	var a struct{ Generation uint64 }
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	gen := filepath.Join(dir, "generations", fmt.Sprint(a.Generation))
	roots := []string{"registry"}
	for i := range 5 {
		roots = append(roots, fmt.Sprintf("repositories/%d", i))
	}
	for i, root := range roots {
		kind := record.RootAuthority
		if i == 0 {
			kind = record.RootRegistry
		}
		for _, file := range record.Files(kind) {
			b, err := vfs.ReadFile(fsys, filepath.Join(gen, root, file), 1<<20)
			if err != nil {
				t.Fatalf("the generation that counts: %v", err)
			}
			fmt.Fprintf(h, "%s %d\n", file, len(b))
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// works opens the authority, checks it, commits one Task, and returns what the
// files of authority hold then.
func works(t *testing.T, fsys vfs.FS, dir, where string) string {
	t.Helper()
	ctx := context.Background()
	a, err := authority.Open(ctx, simOptions(fsys, dir))
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	r, err := a.Repository(ctx, 4)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	for _, root := range []*bindb.Root{a.Registry(), r.Root()} {
		if findings, err := root.Check(ctx); err != nil || len(findings) > 0 {
			t.Fatalf("%s: %v %v", where, findings, err)
		}
	}
	if err := r.Update(ctx, func(tx *authority.Tx) error { _, err := tx.OpenTask("After", "The cut"); return err }); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	content := activeContent(t, fsys, dir)
	if err := a.Close(); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return content
}

// settledSwitch runs a switch to its end on a copy and notes what was there before
// and after.
func settledSwitch(t *testing.T, sim *vfs.Sim, dir string, s *switching) {
	t.Helper()
	whole := copied(t, sim)
	s.old = activeContent(t, whole, dir)
	if err := s.run(simOptions(whole, dir)); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	s.new = activeContent(t, whole, dir)
}

// The power is cut at every operation at which the directories change, and at a
// sample of the others. Whatever the disk kept, the old authority or the new one
// is there and works; what it acknowledges then survives another cut, although
// the switch may not have been durable before; and the next switch leaves nothing
// behind.
func TestSwitchSurvivesAnyCut(t *testing.T) {
	t.Parallel()
	authoritytest.Shared(t)
	start, all := switchings(t)
	sample, policy := 499, vfs.Policy{Tears: 1, Recent: 1}
	if *everySwitch {
		sample, policy = 1, vfs.Policy{Tears: 1, Recent: 8, Random: 2, Seed: 1}
	}
	for dir, list := range all {
		for _, s := range list {
			t.Run(dir[1:]+" "+s.name, func(t *testing.T) {
				t.Parallel()
				settledSwitch(t, start, dir, &s)
				sim := copied(t, start)
				sim.Capture()
				begin := sim.OpCount()
				if err := s.run(simOptions(sim, dir)); err != nil {
					t.Fatal(err)
				}
				ops := sim.Ops()
				seen := map[string]bool{}
				cuts, states := 0, 0
				for cut := begin; cut <= sim.OpCount(); cut++ {
					if cut != sim.OpCount() && cut%sample != 0 && (cut == begin || deepInRoot(ops[cut-1])) {
						continue
					}
					cuts++
					for disk := range sim.CrashStates(cut, policy) {
						done := cut == sim.OpCount()
						key := fmt.Sprint(disk.Fingerprint(), done)
						if seen[key] {
							continue
						}
						seen[key] = true
						states++
						s.check(t, disk, dir, done, states)
					}
				}
				t.Logf("%d of %d operations, %d states", cuts, sim.OpCount()-begin, states)
			})
		}
	}
}

// deepInRoot reports whether an operation concerns a file of a root, or one that
// accelerates it.
func deepInRoot(op vfs.Op) bool {
	return (strings.Count(op.Path, "/") > 4 || strings.Contains(op.Path, "/runtime/")) && op.Kind != vfs.OpRename && op.Kind != vfs.OpSyncDir
}

func (s *switching) check(t *testing.T, disk *vfs.Sim, dir string, done bool, states int) {
	t.Helper()
	where := disk.Origin()
	before := activeContent(t, disk, dir)
	if before != s.new && (done || before != s.old) {
		t.Fatalf("%s: neither what was there nor what was to be there", where)
	}
	if before != "" && (*everySwitch || done || states%3 == 0 || before == s.new) {
		disk.Capture()
		content := works(t, disk, dir, where)
		for later := range disk.CrashStates(disk.OpCount(), vfs.Policy{Recent: 4, Tears: 1}) {
			if got := activeContent(t, later, dir); got != content {
				t.Fatalf("%s, then %s: what was acknowledged after the first cut is gone", where, later.Origin())
			}
			if states%8 != 0 {
				break
			}
		}
	}
	if states%16 != 0 {
		return
	}
	o := simOptions(disk, dir)
	if _, err := authority.Restore(context.Background(), o, "/backup", authority.Restoration{Replace: true, DropOld: true}); err != nil {
		t.Fatalf("%s: the next switch: %v", where, err)
	}
	works(t, disk, dir, where)
	for name, most := range map[string]int{"generations": 1, "retired": 1} {
		left, err := disk.ReadDir(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range left {
			if len(left) > most || strings.Contains(e.Name, "discarded") {
				t.Fatalf("%s: the next switch leaves %v in %s", where, left, name)
			}
		}
	}
}

// Everything fails from some operation of a switch on: with a full disk, and with an
// error of the device, which is as if the process had been killed there. The old
// authority or the new one is there, the error names the cause, and once the disk
// works again so does everything. What is acknowledged then survives a power cut,
// although the switch was visible before it was durable.
func TestSwitchSurvivesAnyFault(t *testing.T) {
	t.Parallel()
	authoritytest.Shared(t)
	start, all := switchings(t)
	sample := 499
	if *everySwitch {
		sample = 1
	}
	for dir, list := range all {
		for _, s := range list {
			t.Run(dir[1:]+" "+s.name, func(t *testing.T) {
				t.Parallel()
				settledSwitch(t, start, dir, &s)
				whole := copied(t, start)
				begin := whole.OpCount()
				if err := s.run(simOptions(whole, dir)); err != nil {
					t.Fatal(err)
				}
				ops := whole.Ops()
				for n := begin + 1; n <= whole.OpCount(); n++ {
					if n%sample != 0 && deepInRoot(ops[n-1]) {
						continue
					}
					for i, fault := range []error{syscall.ENOSPC, syscall.EIO} {
						if !*everySwitch && n%2 != i {
							continue
						}
						sim := copied(t, start)
						sim.Capture()
						sim.Fail(func(op vfs.Op) error {
							if op.N >= n && op.Kind != vfs.OpUnlock && (fault == syscall.EIO || grows(op.Kind)) {
								return fault
							}
							return nil
						})
						err := s.run(simOptions(sim, dir))
						sim.Fail(nil)
						where := fmt.Sprintf("%s from %s on", fault, ops[n-1])
						if err != nil && !errors.Is(err, fault) {
							t.Errorf("%s: %v", where, err)
						}
						content := activeContent(t, sim, dir)
						if content != s.new && (err == nil || content != s.old) {
							t.Fatalf("%s: neither what was there nor what was to be there (%v)", where, err)
						}
						if content == "" {
							continue
						}
						visible := err != nil && content == s.new
						content = works(t, sim, dir, where)
						if !visible && !*everySwitch {
							continue
						}
						for later := range sim.CrashStates(sim.OpCount(), vfs.Policy{Recent: 1, Tears: 1}) {
							if got := activeContent(t, later, dir); got != content {
								t.Fatalf("%s, then %s: what was acknowledged after the fault is gone", where, later.Origin())
							}
						}
					}
				}
			})
		}
	}
}

// grows reports whether an operation needs room.
func grows(k vfs.OpKind) bool {
	return k == vfs.OpCreate || k == vfs.OpWrite || k == vfs.OpMkdir || k == vfs.OpTruncate || k == vfs.OpSync
}

// A backup has its name only when it is complete, whatever cuts or fails it; and the
// authority does not notice.
func TestBackupSurvivesAnyCutAndFault(t *testing.T) {
	t.Parallel()
	start, _ := switchings(t)
	ctx := context.Background()
	run := func(sim *vfs.Sim) error {
		a, err := authority.Open(ctx, simOptions(sim, "/data"))
		if err != nil {
			return err
		}
		_, err = a.Backup(ctx, "/again", nil)
		return errors.Join(err, a.Close())
	}
	sound := func(sim *vfs.Sim, where string, done bool) {
		t.Helper()
		there, err := vfs.Exists(sim, "/again")
		if err != nil || done && !there {
			t.Fatalf("%s: the backup is missing (%v)", where, err)
		}
		if !there {
			return
		}
		if _, err := authority.Verify(ctx, simOptions(sim, "/data"), "/again", nil); err != nil {
			t.Fatalf("%s: a backup that is not complete: %v", where, err)
		}
	}
	sample := 97
	if *everySwitch {
		sample = 1
	}
	whole := copied(t, start)
	whole.Capture()
	begin := whole.OpCount()
	if err := run(whole); err != nil {
		t.Fatal(err)
	}
	ops, named := whole.Ops(), false
	states := 0
	for n := begin + 1; n <= whole.OpCount(); n++ {
		op := ops[n-1]
		if n%sample != 0 && strings.Count(op.Path, "/") > 2 {
			continue
		}
		seen := map[uint64]bool{}
		for disk := range whole.CrashStates(n, vfs.Policy{Recent: 2, Tears: 1}) {
			if !seen[disk.Fingerprint()] {
				seen[disk.Fingerprint()] = true
				states++
				sound(disk, disk.Origin(), named)
			}
		}
		named = named || op.Kind == vfs.OpSyncDir && op.Path == "/"
		for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
			sim := copied(t, start)
			sim.Fail(func(op vfs.Op) error {
				if op.N >= n && op.Kind != vfs.OpUnlock && (fault == syscall.EIO || grows(op.Kind)) {
					return fault
				}
				return nil
			})
			err := run(sim)
			sim.Fail(nil)
			where := fmt.Sprintf("%s from %s on", fault, op)
			if err != nil && !errors.Is(err, fault) {
				t.Errorf("%s: %v", where, err)
			}
			sound(sim, where, err == nil)
			works(t, sim, "/data", where)
		}
	}
	t.Logf("%d operations, %d states", whole.OpCount()-begin, states)
}
