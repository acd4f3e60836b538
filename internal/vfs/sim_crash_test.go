package vfs_test

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/internal/vfs"
)

// durable is a Sim with a durable file /f and a recording from there on.
func durable(t *testing.T, content string) (*vfs.Sim, vfs.File) {
	t.Helper()
	sim := vfs.NewSim()
	f := create(t, sim, "/f", content)
	must(t, f.Sync())
	must(t, sim.SyncDir("/"))
	sim.Capture()
	return sim, f
}

func sectors(letters string) string {
	var s strings.Builder
	for _, l := range letters {
		s.WriteString(strings.Repeat(string(l), 512))
	}
	return s.String()
}

// initials shortens a content to the first letter of each sector.
func initials(contents []string) []string {
	var list []string
	for _, c := range contents {
		var s strings.Builder
		for i := 0; i < len(c); i += 512 {
			switch c[i] {
			case 0:
				s.WriteByte('0')
			default:
				if c[i] >= 0x80 {
					s.WriteByte('?') // garbage
				} else {
					s.WriteByte(c[i])
				}
			}
		}
		list = append(list, s.String())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestSyncMakesWritesDurable(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, "old")
	write(t, f, "new", 0)
	want(t, outcomes(t, sim, vfs.Policy{Random: 20}, "/f"), "old", "new")
	must(t, f.Sync())
	want(t, outcomes(t, sim, vfs.Policy{Random: 20}, "/f"), "new")
	must(t, f.Truncate(1))
	want(t, outcomes(t, sim, vfs.Policy{Random: 20}, "/f"), "new", "n")
	must(t, f.Sync())
	want(t, outcomes(t, sim, vfs.Policy{Random: 20}, "/f"), "n")
}

// TestSyncOfOneFile says nothing about another.
func TestSyncOfOneFile(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, "old")
	g := create(t, sim, "/g", "g")
	write(t, f, "new", 0)
	must(t, g.Sync())
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "old", "new")
}

func TestWritesSurviveInAnySubset(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, "abc")
	write(t, f, "A", 0)
	write(t, f, "B", 1)
	write(t, f, "C", 2)
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "abc", "ABC", "aBC", "AbC", "ABc", "Abc", "aBc", "abC")
	want(t, outcomes(t, sim, vfs.Policy{Recent: 1}, "/f"), "abc", "ABC", "ABc", "abC")
}

func TestWritesTearAtSectors(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, sectors("abc"))
	write(t, f, sectors("ABC"), 0)
	want(t, initials(outcomes(t, sim, vfs.Policy{}, "/f")), "abc", "ABC", "Abc", "ABc", "aBC", "abC")
	want(t, initials(outcomes(t, sim, vfs.Policy{Tears: 1}, "/f")), "abc", "ABC", "Abc", "aBC")
	want(t, initials(outcomes(t, sim, vfs.Policy{Random: 200}, "/f")),
		"abc", "ABC", "Abc", "ABc", "aBC", "abC", "AbC", "aBc")

	// The boundaries are those of the file, not of the write.
	sim, f = durable(t, strings.Repeat("a", 1024))
	write(t, f, strings.Repeat("A", 20), 500)
	base := strings.Repeat("a", 500)
	rest := strings.Repeat("a", 504)
	head, tail := strings.Repeat("A", 12)+strings.Repeat("a", 8), strings.Repeat("a", 12)+strings.Repeat("A", 8)
	want(t, outcomes(t, sim, vfs.Policy{Random: 50}, "/f"),
		base+strings.Repeat("a", 20)+rest, base+strings.Repeat("A", 20)+rest, base+head+rest, base+tail+rest)
}

func TestLengthIsAnEventOfItsOwn(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, sectors("a"))
	write(t, f, sectors("BC"), 512)
	want(t, initials(outcomes(t, sim, vfs.Policy{Random: 100}, "/f")),
		"a",          // nothing survives, or data behind the end
		"aBC",        // everything
		"a00", "a??", // the length without the data
		"aB0", "aB?", "a0C", "a?C", // torn
		"aB", // torn, and the length only so far
	)
	must(t, f.Sync())
	must(t, f.Truncate(512))
	write(t, f, sectors("D"), 1024)
	want(t, initials(outcomes(t, sim, vfs.Policy{}, "/f")),
		"aBC", "a0D", // nothing and everything
		"aBD",             // the cut is lost
		"a", "a00", "a0?", // the growth is lost, or its data
	)
	must(t, f.Sync())
	want(t, initials(outcomes(t, sim, vfs.Policy{}, "/f")), "a0D")
}

func TestHolesReadAsZeros(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, "")
	must(t, f.Truncate(512))
	write(t, f, sectors("B"), 1024)
	for _, got := range outcomes(t, sim, vfs.Policy{Random: 50}, "/f") {
		if len(got) > 1024 {
			got = got[:1024]
		}
		if strings.Trim(got, "\x00") != "" {
			t.Errorf("a hole shows %q", got)
		}
	}
}

func TestEntriesNeedSyncDir(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	sim.Capture()
	f := create(t, sim, "/f", "abc")
	must(t, f.Sync())
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "-", "abc")
	must(t, sim.SyncDir("/"))
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "abc")

	create(t, sim, "/g", "abc")
	must(t, sim.SyncDir("/"))
	want(t, outcomes(t, sim, vfs.Policy{}, "/g"), "", "abc", "\x00\x00\x00", "\x81\x97\xaf")

	must(t, sim.Remove("/f"))
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "-", "abc")
	must(t, sim.SyncDir("/"))
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "-")

	must(t, sim.Mkdir("/d", 0o700))
	h := create(t, sim, "/d/h", "h")
	must(t, h.Sync())
	must(t, sim.SyncDir("/d"))
	want(t, outcomes(t, sim, vfs.Policy{}, "/d/h"), "-", "h") // /d itself may be lost
	must(t, sim.SyncDir("/"))
	want(t, outcomes(t, sim, vfs.Policy{}, "/d/h"), "h")
}

func TestMkdirAllIsDurable(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	sim.Capture()
	must(t, vfs.MkdirAll(sim, "/a/b/c", 0o700))
	f := create(t, sim, "/a/b/c/f", "abc")
	must(t, f.Sync())
	must(t, sim.SyncDir("/a/b/c"))
	want(t, outcomes(t, sim, vfs.Policy{}, "/a/b/c/f"), "abc")
}

func TestRenameIsAtomic(t *testing.T) {
	t.Parallel()
	sim, _ := durable(t, "old")
	first := sim.OpCount()
	must(t, vfs.WriteFileAtomic(sim, "/f", []byte("new"), 0o600))
	for cut := first; cut <= sim.OpCount(); cut++ {
		for state := range sim.CrashStates(cut, vfs.Policy{Random: 20}) {
			got := read(t, state, "/f")
			if got != "new" && (got != "old" || cut == sim.OpCount()) {
				t.Errorf("%s: content is %q", state.Origin(), got)
			}
		}
	}
}

// TestForgottenSyncsAreFound leaves out one step of an atomic replacement after
// the other; each time some state must give it away.
func TestForgottenSyncsAreFound(t *testing.T) {
	t.Parallel()
	for _, skip := range []string{"sync", "syncdir", "rename"} {
		sim, _ := durable(t, "old")
		first := sim.OpCount()
		name := "/.f.rewrite"
		if skip == "rename" { // overwrite in place, longer than a sector
			name = "/f"
		}
		f := create(t, sim, name, strings.Repeat("n", 600))
		if skip != "sync" {
			must(t, f.Sync())
		}
		if skip != "rename" {
			must(t, sim.Rename(name, "/f"))
		}
		if skip != "syncdir" {
			must(t, sim.SyncDir("/"))
		}
		torn, lost := false, false
		for cut := first; cut <= sim.OpCount(); cut++ {
			for state := range sim.CrashStates(cut, vfs.Policy{}) {
				got := read(t, state, "/f")
				torn = torn || got != "old" && got != strings.Repeat("n", 600)
				lost = lost || got == "old" && cut == sim.OpCount()
			}
		}
		if wantTorn := skip != "syncdir"; torn != wantTorn || lost != (skip == "syncdir") {
			t.Errorf("without %s: torn %v, lost %v", skip, torn, lost)
		}
	}
}

func TestRenameBetweenDirectoriesNeedsBoth(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"/a", "/b"}, {"/b", "/a"}} {
		sim := vfs.NewSim()
		must(t, vfs.MkdirAll(sim, "/a", 0o700))
		must(t, vfs.MkdirAll(sim, "/b", 0o700))
		f := create(t, sim, "/a/f", "abc")
		must(t, f.Sync())
		must(t, sim.SyncDir("/a"))
		sim.Capture()
		must(t, sim.Rename("/a/f", "/b/f"))
		must(t, sim.SyncDir(order[0]))
		places := map[string]bool{}
		for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{}) {
			a, err := vfs.Exists(state, "/a/f")
			must(t, err)
			b, err := vfs.Exists(state, "/b/f")
			must(t, err)
			if a == b {
				t.Errorf("%s: at the old place %v, at the new one %v", state.Origin(), a, b)
			}
			places[fmt.Sprint(a)] = true
		}
		if len(places) != 2 {
			t.Errorf("after syncing %s only: %v", order[0], places)
		}
		must(t, sim.SyncDir(order[1]))
		want(t, outcomes(t, sim, vfs.Policy{}, "/b/f"), "abc")
	}
}

// TestEntriesOfOneNameKeepTheirOrder: a new file under a name that was renamed
// away can't survive without the rename, which would lose the old file.
func TestEntriesOfOneNameKeepTheirOrder(t *testing.T) {
	t.Parallel()
	sim, _ := durable(t, "old")
	must(t, sim.Rename("/f", "/f.old"))
	create(t, sim, "/f", "new")
	must(t, sim.Mkdir("/independent", 0o700))
	shapes := map[string]bool{}
	for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{Random: 100}) {
		infos, err := state.ReadDir("/")
		must(t, err)
		var names []string
		for _, info := range infos {
			names = append(names, info.Name)
			if info.Links != 1 {
				t.Errorf("%s: %s has %d links", state.Origin(), info.Name, info.Links)
			}
		}
		shapes[strings.Join(names, " ")] = true
	}
	for _, shape := range []string{"f", "f.old", "f f.old"} {
		if !shapes[shape] || !shapes[shape+" independent"] {
			t.Errorf("%q is missing with or without the independent entry", shape)
		}
	}
	if len(shapes) != 6 {
		t.Errorf("directories are %v", shapes)
	}
}

func TestFailedSyncLeavesDoubt(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, "abc")
	fail := true
	sim.Fail(func(op vfs.Op) error {
		if fail && (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir) {
			return syscall.EIO
		}
		return nil
	})
	write(t, f, "A", 0)
	create(t, sim, "/g", "").Close()
	wantIs(t, f.Sync(), syscall.EIO)
	wantIs(t, sim.SyncDir("/"), syscall.EIO)
	if got := read(t, sim, "/f"); got != "Abc" {
		t.Errorf("a program reads %q after the failed sync", got)
	}
	fail = false
	write(t, f, "B", 1)
	create(t, sim, "/h", "").Close()
	must(t, f.Sync())
	must(t, sim.SyncDir("/"))
	// What came after the failure is durable, what was in doubt is not.
	want(t, outcomes(t, sim, vfs.Policy{Random: 20}, "/f"), "ABc", "aBc")
	want(t, outcomes(t, sim, vfs.Policy{Random: 20}, "/g"), "-", "")
	want(t, outcomes(t, sim, vfs.Policy{Random: 20}, "/h"), "")
	// Writing it once more settles it.
	write(t, f, "A", 0)
	must(t, f.Sync())
	want(t, outcomes(t, sim, vfs.Policy{Random: 20}, "/f"), "ABc")
}

func TestUnlinkedFileIsForgotten(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, "abc")
	must(t, sim.Remove("/f"))
	write(t, f, "A", 0)
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "-", "abc", "Abc")
	must(t, sim.SyncDir("/"))
	write(t, f, "B", 1)
	must(t, f.Sync())
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "-")
	must(t, f.Close())
	must(t, sim.SyncDir("/"))
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "-")
}

func TestRemovedTree(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	must(t, vfs.MkdirAll(sim, "/d/e", 0o700))
	must(t, vfs.WriteFileAtomic(sim, "/d/e/f", []byte("abc"), 0o600))
	sim.Capture()
	first := sim.OpCount()
	must(t, sim.RemoveAll("/d"))
	seen := map[string]bool{}
	for cut := first; cut <= sim.OpCount(); cut++ {
		for state := range sim.CrashStates(cut, vfs.Policy{}) {
			seen[strings.Join(tree(t, state, "/"), " ")] = true
		}
	}
	if len(seen) != 4 { // complete, without f, without e, nothing
		t.Errorf("trees are %v", seen)
	}
	must(t, sim.SyncDir("/"))
	for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{}) {
		if got := tree(t, state, "/"); len(got) != 0 {
			t.Errorf("%s: left are %v", state.Origin(), got)
		}
	}
}

func tree(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	infos, err := fsys.ReadDir(dir)
	must(t, err)
	var list []string
	for _, info := range infos {
		name := path.Join(dir, info.Name)
		list = append(list, name)
		if info.Mode.IsDir() {
			list = append(list, tree(t, fsys, name)...)
		}
	}
	return list
}

func TestCaptureRemembersWhatIsUnsynced(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	f := create(t, sim, "/f", "old")
	must(t, f.Sync())
	must(t, sim.SyncDir("/"))
	write(t, f, "new", 0)
	sim.Capture()
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "old", "new")
}

func TestCrashStatesPanics(t *testing.T) {
	t.Parallel()
	mustPanic := func(do func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		do()
	}
	sim := vfs.NewSim()
	mustPanic(func() { sim.CrashStates(0, vfs.Policy{}) })
	must(t, sim.Mkdir("/d", 0o700))
	sim.Capture()
	mustPanic(func() { sim.CrashStates(0, vfs.Policy{}) })
	mustPanic(func() { sim.CrashStates(2, vfs.Policy{}) })
}

// TestCrashStatesAreIndependent changes one state and looks at the others.
func TestCrashStatesAreIndependent(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, strings.Repeat("a", 9000))
	write(t, f, strings.Repeat("b", 2000), 3000)
	var states []*vfs.Sim
	var sums []uint64
	for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{Random: 5}) {
		states = append(states, state)
		sums = append(sums, state.Fingerprint())
	}
	live := sim.Fingerprint()
	for i, state := range states {
		g, err := state.OpenFile("/f", os.O_RDWR, 0)
		must(t, err)
		write(t, g, "changed", 3500)
		must(t, g.Truncate(8000))
		must(t, state.Remove("/f"))
		if state.Fingerprint() == sums[i] {
			t.Error("a change does not change the fingerprint")
		}
		for j := i + 1; j < len(states); j++ {
			if states[j].Fingerprint() != sums[j] {
				t.Fatalf("changing state %d changed state %d", i, j)
			}
		}
	}
	if sim.Fingerprint() != live {
		t.Error("changing a state changed its origin")
	}
	if slices.Sort(sums); len(slices.Compact(slices.Clone(sums))) != len(sums) {
		t.Error("a state was yielded twice")
	}
}

// TestCrashStatesRepeat: cuts may be asked for in any order, again and at the
// same time, and give the same states in the same order.
func TestCrashStatesRepeat(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, sectors("abcdefgh"))
	first := sim.OpCount()
	for i := range 100 {
		write(t, f, sectors("XY"), int64(i%8)*512)
		if i%3 == 0 {
			must(t, f.Sync())
		}
		if i%10 == 0 {
			must(t, vfs.WriteFileAtomic(sim, "/g", []byte{byte(i)}, 0o600))
		}
	}
	policy := vfs.Policy{Random: 3, Seed: 7}
	list := func(cut int) []string {
		var origins []string
		for state := range sim.CrashStates(cut, policy) {
			origins = append(origins, fmt.Sprint(state.Origin(), state.Fingerprint()))
		}
		return origins
	}
	forward := map[int][]string{}
	for cut := first; cut <= sim.OpCount(); cut++ {
		forward[cut] = list(cut)
	}
	for cut := sim.OpCount(); cut >= first; cut -= 7 {
		if !slices.Equal(list(cut), forward[cut]) {
			t.Errorf("cut %d gives other states the second time", cut)
		}
	}
	var wg sync.WaitGroup
	for part := range 3 {
		wg.Go(func() {
			for cut := first + part; cut <= sim.OpCount(); cut += 3 {
				if !slices.Equal(list(cut), forward[cut]) {
					t.Errorf("cut %d gives other states in parallel", cut)
				}
			}
		})
	}
	wg.Wait()
	for range sim.CrashStates(sim.OpCount(), policy) {
		break // stopping early is allowed
	}
}

// TestCrashStateIsADisk: a state can be recorded and cut again, as a recovery
// must survive a second power cut.
func TestCrashStateIsADisk(t *testing.T) {
	t.Parallel()
	sim, f := durable(t, "abc")
	write(t, f, "A", 0)
	if sim.Origin() != "" {
		t.Errorf("origin of a new Sim is %q", sim.Origin())
	}
	for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{}) {
		if !strings.HasPrefix(state.Origin(), "power cut after 5 write /f 0+1: ") {
			t.Errorf("origin is %q", state.Origin())
		}
		state.Capture()
		before := read(t, state, "/f")
		g := create(t, state, "/f", "xyz")
		want(t, outcomes(t, state, vfs.Policy{}, "/f"), before, "xyz")
		must(t, g.Sync())
		want(t, outcomes(t, state, vfs.Policy{}, "/f"), "xyz")
		lock, err := state.Lock(ended(), "/lock", vfs.Exclusive)
		must(t, err)
		must(t, lock.Unlock())
	}
}

// TestLocksDoNotSurvive a power cut.
func TestLocksDoNotSurvive(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	sim.Capture()
	_, err := sim.Lock(t.Context(), "/lock", vfs.Exclusive)
	must(t, err)
	for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{}) {
		_, err := state.Lock(ended(), "/lock", vfs.Exclusive)
		must(t, err)
	}
}

// TestModelProperties runs random operations. At every cut, what the program saw
// must be among the states; and once everything is synced it is the only one.
func TestModelProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		sim := vfs.NewSim()
		sim.Capture()
		dirs := []string{"/", "/a", "/b", "/a/c"}
		name := func() string {
			dir := rapid.SampledFrom(dirs).Draw(rt, "dir")
			return path.Join(dir, rapid.SampledFrom([]string{"a", "b", "c", "f", "g"}).Draw(rt, "name"))
		}
		handles := []vfs.File{}
		sums := map[int]uint64{0: sim.Fingerprint()}
		// Most operations fail because of what is there: that is part of it.
		steps := rapid.IntRange(1, 60).Draw(rt, "steps")
		for range steps {
			switch rapid.IntRange(0, 9).Draw(rt, "kind") {
			case 0:
				_ = sim.Mkdir(name(), 0o700)
			case 1, 2:
				if f, err := sim.OpenFile(name(), os.O_RDWR|os.O_CREATE, 0o600); err == nil {
					handles = append(handles, f)
				}
			case 3, 4:
				if len(handles) > 0 {
					f := rapid.SampledFrom(handles).Draw(rt, "file")
					data := bytes.Repeat([]byte{byte(rapid.IntRange(1, 100).Draw(rt, "byte"))}, rapid.IntRange(1, 1500).Draw(rt, "len"))
					_, _ = f.WriteAt(data, rapid.Int64Range(0, 6000).Draw(rt, "off"))
				}
			case 5:
				if len(handles) > 0 {
					_ = rapid.SampledFrom(handles).Draw(rt, "file").Truncate(rapid.Int64Range(0, 6000).Draw(rt, "size"))
				}
			case 6:
				if len(handles) > 0 {
					_ = rapid.SampledFrom(handles).Draw(rt, "file").Sync()
				}
			case 7:
				_ = sim.Rename(name(), name())
			case 8:
				_ = sim.Remove(name())
			case 9:
				_ = sim.SyncDir(rapid.SampledFrom(dirs).Draw(rt, "dir"))
			}
			sums[sim.OpCount()] = sim.Fingerprint()
		}
		for cut := range sim.OpCount() + 1 {
			found := false
			for state := range sim.CrashStates(cut, vfs.Policy{Random: 2, Tears: 2}) {
				found = found || state.Fingerprint() == sums[cut]
				reachable(rt, state, "/")
			}
			if !found {
				rt.Fatalf("after operation %d what the program sees is no state", cut)
			}
		}
		syncTree(rt, sim, "/")
		for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{Random: 2}) {
			if state.Fingerprint() != sim.Fingerprint() {
				rt.Fatalf("%s: differs though everything is synced", state.Origin())
			}
		}
	})
}

// reachable reads the whole tree and checks that no file has two names.
func reachable(t *rapid.T, fsys vfs.FS, dir string) {
	infos, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		name := path.Join(dir, info.Name)
		if info.Links != 1 {
			t.Fatalf("%s has %d links", name, info.Links)
		}
		if info.Mode.IsDir() {
			reachable(t, fsys, name)
		} else if _, err := vfs.ReadFile(fsys, name, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
}

// syncTree syncs everything below dir, parents last.
func syncTree(t *rapid.T, fsys vfs.FS, dir string) {
	infos, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		name := path.Join(dir, info.Name)
		if info.Mode.IsDir() {
			syncTree(t, fsys, name)
			continue
		}
		f, err := fsys.OpenFile(name, os.O_RDWR, 0)
		if err == nil {
			err = f.Sync()
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkCrashStates enumerates a database of 60 files of 64 KiB with a commit
// of a journal, two records and an append, which is what a test of the engine
// does at each cut.
func BenchmarkCrashStates(b *testing.B) {
	sim := vfs.NewSim()
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	var files []vfs.File
	for i := range 60 {
		f, err := sim.OpenFile(fmt.Sprintf("/%02d.bin", i), os.O_RDWR|os.O_CREATE, 0o600)
		check(err)
		_, err = f.WriteAt(bytes.Repeat([]byte{byte(i)}, 64<<10), 0)
		check(err)
		check(f.Sync())
		files = append(files, f)
	}
	check(sim.SyncDir("/"))
	sim.Capture()
	first := sim.OpCount()
	for i := range 20 {
		for _, step := range []struct {
			file int
			off  int64
			len  int
		}{{0, 0, 2000}, {1, int64(i) * 65, 130}, {2, int64(i) * 52, 52}, {3, 64<<10 + int64(i)*3000, 3000}} {
			_, err := files[step.file].WriteAt(bytes.Repeat([]byte{byte(i + 100)}, step.len), step.off)
			check(err)
		}
		for file := range 4 {
			check(files[file].Sync())
		}
	}
	states := 0
	for b.Loop() {
		for cut := first; cut <= sim.OpCount(); cut++ {
			for range sim.CrashStates(cut, vfs.Policy{Random: 10}) {
				states++
			}
		}
	}
	b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
	b.ReportMetric(float64(states)/float64(b.N), "states/op")
}

// A state that the caller does not want is not made, and its fingerprint is the
// one that the made state would have had.
func TestCrashStatesSkip(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	sim.Capture()
	create(t, sim, "/f", "abc")
	create(t, sim, "/g", "defg")
	var all []uint64
	for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{}) {
		all = append(all, state.Fingerprint())
	}
	var asked, made []uint64
	policy := vfs.Policy{Skip: func(sum uint64) bool {
		asked = append(asked, sum)
		return len(asked)%2 == 0
	}}
	for state := range sim.CrashStates(sim.OpCount(), policy) {
		made = append(made, state.Fingerprint())
	}
	if !slices.Equal(asked, all) {
		t.Errorf("asked about %d states, there are %d", len(asked), len(all))
	}
	if len(made) != (len(all)+1)/2 {
		t.Errorf("%d of %d states were made", len(made), len(all))
	}
	for i, sum := range made {
		if sum != all[2*i] {
			t.Errorf("state %d is another one", i)
		}
	}
}

func TestSimFork(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	must(t, vfs.MkdirAll(sim, "/d/e", 0o700))
	f := create(t, sim, "/d/f", "abc")
	copied := sim.Fork()
	if copied.Fingerprint() != sim.Fingerprint() {
		t.Error("the copy is not the same")
	}
	if _, err := f.WriteAt([]byte("X"), 0); err != nil {
		t.Fatal(err)
	}
	must(t, copied.Mkdir("/d/g", 0o700))
	if got := read(t, copied, "/d/f"); got != "abc" {
		t.Errorf("the copy has %q", got)
	}
	if found, err := vfs.Exists(sim, "/d/g"); found || err != nil {
		t.Errorf("what the copy makes is in the original: %v", err)
	}
	copied.Capture()
	want(t, outcomes(t, copied, vfs.Policy{}, "/d/f"), "abc") // durable
}

func TestFingerprintOf(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	must(t, vfs.MkdirAll(sim, "/d/e", 0o700))
	f := create(t, sim, "/d/a.bin", "abc")
	create(t, sim, "/d/b.idx", "abc")
	sum := func() uint64 {
		return sim.FingerprintOf("/d", func(name string) bool { return name == "a.bin" })
	}
	before := sum()
	create(t, sim, "/d/e/a.bin", "deeper")
	create(t, sim, "/d/c.idx", "ignored")
	if sum() != before {
		t.Error("it changed with other files")
	}
	if _, err := f.WriteAt([]byte("X"), 0); err != nil {
		t.Fatal(err)
	}
	if sum() == before {
		t.Error("it did not change with the content")
	}
	must(t, sim.Rename("/d/a.bin", "/d/b.bin"))
	if empty := sum(); empty == 0 || empty == before {
		t.Error("it did not change with the name")
	}
	if sim.FingerprintOf("/none", func(string) bool { return true }) != 0 {
		t.Error("a directory that is not there has one")
	}
}

// A directory whose entry could not be synced is not taken for durable by the
// next one who needs it.
func TestMkdirAllAfterFailedSync(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	sim.Capture()
	sim.Fail(func(op vfs.Op) error {
		if op.Kind == vfs.OpSyncDir {
			return syscall.EIO
		}
		return nil
	})
	wantIs(t, vfs.MkdirAll(sim, "/d/e", 0o700), syscall.EIO)
	sim.Fail(nil)
	must(t, vfs.MkdirAll(sim, "/d/e", 0o700))
	for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{}) {
		if ok, err := vfs.Exists(state, "/d/e"); !ok || err != nil {
			t.Errorf("%s: the directory is gone: %v", state.Origin(), err)
		}
	}
}
