package convert_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/authority/convert"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// TestWidthsOfThePredecessor compares what is derived from the layouts with the
// table of section 19.2.
func TestWidthsOfThePredecessor(t *testing.T) {
	t.Parallel()
	type widths struct {
		old, size int
		offsets   map[string]int
	}
	want := map[string]widths{
		"repository.bin":    {25, 33, map[string]int{"created_at_s": 17, "updated_at_s": 21}},
		"task.bin":          {40, 60, map[string]int{"created_at_s": 20, "updated_at_s": 24, "plan_linked_at_s": 28, "fetched_at_s": 32, "closed_at_s": 36}},
		"change.bin":        {52, 68, map[string]int{"created_at_s": 32, "updated_at_s": 36, "fetched_at_s": 40, "archived_at_s": 48}},
		"patchset.bin":      {57, 65, map[string]int{"created_at_s": 24, "ci_completed_at_s": 28}},
		"attest.bin":        {20, 24, map[string]int{"created_at_s": 16}},
		"actor.bin":         {28, 36, map[string]int{"created_at_s": 20, "last_seen_at_s": 24}},
		"review.bin":        {36, 40, map[string]int{"created_at_s": 32}},
		"policy.bin":        {28, 32, map[string]int{"created_at_s": 24}},
		"waiver.bin":        {36, 44, map[string]int{"created_at_s": 28, "expires_at_s": 32}},
		"land.bin":          {40, 48, map[string]int{"submitted_at_s": 28, "updated_at_s": 32}},
		"snapshot_link.bin": {36, 40, map[string]int{"created_at_s": 32}},
		"plan.bin":          {36, 48, map[string]int{"created_at_s": 24, "updated_at_s": 28, "published_at_s": 32}},
		"plan_revision.bin": {48, 56, map[string]int{"created_at_s": 40, "published_at_s": 44}},
		"line.bin":          {28, 40, map[string]int{"created_at_s": 16, "updated_at_s": 20, "archived_at_s": 24}},
		"snapshot.bin":      {84, 88, map[string]int{"created_at_s": 80}},
		"blob.bin":          {56, 64, map[string]int{"created_at_s": 16, "pruned_at_s": 20}},
		"object_pack.bin":   {28, 32, map[string]int{"created_at_s": 24}},
		"tree_pack.bin":     {28, 32, map[string]int{"created_at_s": 24}},
		"worker_job.bin":    {36, 52, map[string]int{"available_at_s": 20, "locked_at_s": 24, "created_at_s": 28, "updated_at_s": 32}},
		"worker_ready.idx":  {8, 12, map[string]int{"available_at_s": 0}},
	}
	for _, l := range record.Layouts() {
		if l.Kind == record.KindHelper {
			continue
		}
		w, ok := want[l.File]
		if !ok {
			w = widths{l.Size, l.Size, map[string]int{}}
		}
		delete(want, l.File)
		old, offsets := convert.Widths(l)
		if old != w.old || l.Size != w.size || !maps.Equal(offsets, w.offsets) {
			t.Errorf("%s: %d to %d bytes, times at %v; want %d to %d, %v", l.File, old, l.Size, offsets, w.old, w.size, w.offsets)
		}
		for _, f := range l.Fields {
			if _, ok := offsets[f.Name]; ok != f.Time {
				t.Errorf("%s: %s widens: %v, is a time: %v", l.File, f.Name, ok, f.Time)
			}
		}
	}
	for file := range want {
		t.Errorf("%s is not declared", file)
	}
}

// predecessor writes the generation in dir, in the layout of the predecessor, to
// a new directory on the same file system.
func predecessor(t testing.TB, fsys vfs.FS, generation, dir string) {
	t.Helper()
	var walk func(from, to string)
	walk = func(from, to string) {
		if err := vfs.MkdirAll(fsys, to, 0o700); err != nil {
			t.Fatal(err)
		}
		list, err := fsys.ReadDir(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.Mode.IsDir() {
				walk(filepath.Join(from, e.Name), filepath.Join(to, e.Name))
				continue
			}
			b := read(t, fsys, filepath.Join(from, e.Name))
			if l, ok := record.ByFile(e.Name); ok {
				old, ok := convert.Narrow(l, b[bindb.HeaderSize:])
				if !ok {
					t.Fatalf("%s has times that need more than four bytes", e.Name)
				}
				b = append(b[:bindb.HeaderSize:bindb.HeaderSize], old...)
			}
			write(t, fsys, filepath.Join(to, e.Name), b)
		}
	}
	walk(generation, dir)
}

func read(t testing.TB, fsys vfs.FS, path string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fsys, path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, fsys vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// somewhere is where roots are built that are not published.
type somewhere struct {
	fs  vfs.FS
	dir string
}

func (s somewhere) Registry() bindb.Config {
	return bindb.Config{FS: s.fs, Dir: filepath.Join(s.dir, "registry"), Kind: record.RootRegistry, Label: "registry", Runtime: filepath.Join(s.dir, "runtime")}
}

func (s somewhere) Repository(index uint32) bindb.Config {
	label := strconv.FormatUint(uint64(index), 10)
	return bindb.Config{FS: s.fs, Dir: filepath.Join(s.dir, "repositories", label), Kind: record.RootAuthority, Label: label, Runtime: filepath.Join(s.dir, "runtime")}
}

// below gives roots in a directory.
func below(t testing.TB, fsys vfs.FS, dir string) somewhere {
	t.Helper()
	if err := vfs.MkdirAll(fsys, filepath.Join(dir, "repositories"), 0o700); err != nil {
		t.Fatal(err)
	}
	return somewhere{fsys, dir}
}

// bins reads every .bin file of a generation by relative path.
func bins(t testing.TB, fsys vfs.FS, generation string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	dirs := []string{"registry"}
	list, err := fsys.ReadDir(filepath.Join(generation, "repositories"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		dirs = append(dirs, "repositories/"+e.Name)
	}
	for _, dir := range dirs {
		list, err := fsys.ReadDir(filepath.Join(generation, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if filepath.Ext(e.Name) == ".bin" {
				all[dir+"/"+e.Name] = read(t, fsys, filepath.Join(generation, dir, e.Name))
			}
		}
	}
	return all
}

func equalBins(t testing.TB, got, want map[string][]byte) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		b, ok := got[path]
		if !ok {
			t.Errorf("%s is missing", path)
		} else if !bytes.Equal(b, want[path]) {
			t.Errorf("%s differs:\n got % x\nwant % x", path, b, want[path])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
}

// intn draws a number below n.
type intn func(n int, what string) int

// fill runs random verbs in two user Repositories of a new installation.
func fill(t testing.TB, opt authority.Options, clock *authoritytest.Clock, draw intn) {
	t.Helper()
	ctx := context.Background()
	a, err := authority.Create(ctx, opt, "widgets", authority.DefaultFlags)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := a.AddRepository(ctx, "gadgets", record.Namespace{'S', 'E'}, record.PolicyFlags(draw(256, "flags")))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []uint32{authority.FirstRepository, second, 1} {
		r, err := a.Repository(ctx, i)
		if err != nil {
			t.Fatal(err)
		}
		number := uint64(0)
		for range draw(4, "tasks") {
			clock.Advance(time.Duration(draw(1_000_000, "seconds")) * time.Second)
			if err := r.Update(ctx, func(tx *authority.Tx) error { return fillTask(tx, draw, &number) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func fillTask(tx *authority.Tx, draw intn, number *uint64) error {
	snapshot := func(line uint32) (uint32, error) {
		*number++
		return tx.AddSnapshot(authoritytest.Snapshot(*number, line))
	}
	task, err := tx.OpenTask("Paint the widgets", "They are grey.")
	if err != nil {
		return err
	}
	main, err := tx.EnsureLine(authority.MainLine)
	if err != nil {
		return err
	}
	base, err := snapshot(main)
	if err != nil {
		return err
	}
	if err := tx.SetLineHead(main, base); err != nil {
		return err
	}
	for range draw(3, "changes") {
		change, err := tx.OpenChange(task, "Paint ☂", main, record.RefTo(base))
		if err != nil {
			return err
		}
		for range draw(4, "patchsets") {
			if err := fillPatchset(tx, draw, change, base, main, snapshot); err != nil {
				return err
			}
		}
	}
	return nil
}

func fillPatchset(tx *authority.Tx, draw intn, change, base, main uint32, snapshot func(uint32) (uint32, error)) error {
	revision, err := snapshot(main)
	if err != nil {
		return err
	}
	p, err := tx.Publish(authority.PatchsetSpec{Change: change, Base: base, Revision: revision, Summary: strings.Repeat("Blue ", 1+draw(20, "summary"))})
	if err != nil {
		return err
	}
	if err := tx.SelectPatchset(p); err != nil {
		return err
	}
	actor, err := tx.EnsureActor("ann"+strconv.Itoa(draw(3, "actor")), "ann@example.org")
	if err != nil {
		return err
	}
	actions := []record.ReviewAction{
		record.ReviewActionComment, record.ReviewActionApprove, record.ReviewActionTaskComment,
		record.ReviewActionRequestChanges, record.ReviewActionDismiss, record.ReviewActionCodeReviewSummary,
	}
	for range draw(3, "reviews") {
		action := actions[draw(len(actions), "action")]
		_, err := tx.AddReview(authority.ReviewSpec{
			Patchset: p, Actor: actor, Action: action,
			Blocking: action != record.ReviewActionDismiss && action != record.ReviewActionApprove && draw(2, "blocking") == 1, Text: strings.Repeat("x", draw(9, "text")),
		})
		if err != nil {
			return err
		}
	}
	if draw(2, "attest") == 1 {
		if _, err := tx.Attest(authority.AttestSpec{Patchset: p, Verification: record.VerificationStatePass, RequireLint: true}); err != nil {
			return err
		}
	}
	if draw(2, "waive") == 1 {
		expires := record.Seconds(0)
		if draw(2, "expires") == 1 {
			expires = tx.Now() + 1 + record.Seconds(draw(1000, "expiry"))
		}
		if _, err := tx.Waive(authority.WaiverSpec{Patchset: p, Rule: record.RuleCodeLint, Reason: "No linter", ExpiresAt: expires}); err != nil {
			return err
		}
	}
	switch draw(4, "ci") {
	case 1:
		if _, _, err := tx.EnqueueCI(p); err != nil {
			return err
		}
	case 2:
		if err := authoritytest.Run(tx, p, authoritytest.Failed); err != nil {
			return err
		}
	case 3:
		if err := authoritytest.Run(tx, p, authoritytest.Passed); err != nil {
			return err
		}
	}
	if draw(2, "decide") == 1 {
		if _, _, err := tx.Decide(p, authority.PolicyInput{Flags: authority.DefaultFlags}); err != nil {
			return err
		}
	}
	return nil
}

// generation is the directory that an installation of tests counts in.
func generation(dir string) string { return filepath.Join(dir, "generations", "1") }

// filled makes an installation in dir and its predecessor beside it, at a path
// that is returned.
func filled(t testing.TB, fsys vfs.FS, dir string, draw intn) (source string) {
	t.Helper()
	clock := authoritytest.NewClock()
	fill(t, authority.Options{Dir: dir, FS: fsys, Clock: clock.Now, Random: authoritytest.NewRandom(7)}, clock, draw)
	source = filepath.Join(filepath.Dir(dir), "source")
	predecessor(t, fsys, generation(dir), source)
	return source
}

// most draws what gives the most records.
func most(n int, _ string) int { return n - 1 }

func build(t testing.TB, fsys vfs.FS, source string) (string, *convert.Report, error) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(source), "target")
	rep, err := convert.BuildU32Time(context.Background(), fsys, source, below(t, fsys, dir))
	return dir, rep, err
}

// TestPredecessorBecomesTheOriginal narrows random installations and converts
// them back.
func TestPredecessorBecomesTheOriginal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		sim := vfs.NewSim()
		draw := func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(rt, what) }
		source := filled(t, sim, "/data", draw)
		dir, rep, err := build(t, sim, source)
		if err != nil {
			rt.Fatal(err)
		}
		equalBins(t, bins(t, sim, dir), bins(t, sim, generation("/data")))
		if len(rep.Repositories) != 6 || rep.Repositories[5].Name != "gadgets" || len(rep.Warnings) != 0 {
			rt.Errorf("report %+v", rep)
		}
	})
}

func TestReportOfAPredecessor(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	source := filled(t, sim, "/data", most)
	if err := sim.Rename(filepath.Join(source, "registry"), filepath.Join(source, "global")); err != nil {
		t.Fatal(err)
	}
	write(t, sim, filepath.Join(source, "generation.json"), []byte("{}"))
	write(t, sim, filepath.Join(source, "repositories/4/worker_state.idx"), []byte("stale"))
	for _, empty := range []string{"plan.bin", "plan_payload.bin", "blob.bin"} {
		if err := sim.Remove(filepath.Join(source, "repositories/4", empty)); err != nil {
			t.Fatal(err)
		}
	}
	before := sim.OpCount()
	dir, rep, err := build(t, sim, source)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range sim.Ops()[before:] {
		if strings.HasPrefix(op.Path, source) {
			t.Errorf("the source was touched: %s", op)
		}
	}
	equalBins(t, bins(t, sim, dir), bins(t, sim, generation("/data")))
	four := rep.Repositories[4]
	if want := []string{"plan.bin", "blob.bin", "plan_payload.bin"}; !slices.Equal(four.Synthesised, want) {
		t.Errorf("synthesised %v, want %v", four.Synthesised, want)
	}
	records := map[string]uint32{}
	for _, f := range four.Families {
		records[f.File] = f.Records
	}
	// 3 Tasks of 2 Changes of 3 Patchsets with 2 Reviews each.
	if records["task.bin"] != 3 || records["patchset.bin"] != 18 || records["review.bin"] != 36 {
		t.Errorf("families %+v", four.Families)
	}
	if four.Name != "widgets" || four.Lifecycle != "active" || rep.From != "u32-time-v0" || rep.Schema != "writ.db-conversion.v1" {
		t.Errorf("report %+v", rep)
	}
	if rep.Registry[0] != (convert.FamilyCount{File: "repository.bin", Records: 6, Bytes: 4 + 6*33}) {
		t.Errorf("registry %+v", rep.Registry)
	}
	// The digest is about the source: another byte in a file that is left behind
	// changes it.
	write(t, sim, filepath.Join(source, "repositories/4/worker_state.idx"), []byte("stalf"))
	if err := sim.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, again, err := build(t, sim, source)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := rep.Inventory, again.Inventory; a.SHA256 == b.SHA256 || a.Files != b.Files || a.Bytes != b.Bytes {
		t.Errorf("inventories %+v and %+v", a, b)
	}
}

// TestRefusedPredecessors breaks the source in one place each.
func TestRefusedPredecessors(t *testing.T) {
	t.Parallel()
	const four = "repositories/4/"
	add := func(path string) func(*testing.T, *vfs.Sim, string) {
		return func(t *testing.T, sim *vfs.Sim, dir string) {
			write(t, sim, filepath.Join(dir, path), []byte{1, 0, 0, 0})
		}
	}
	edit := func(path string, fn func([]byte) []byte) func(*testing.T, *vfs.Sim, string) {
		return func(t *testing.T, sim *vfs.Sim, dir string) {
			write(t, sim, filepath.Join(dir, path), fn(read(t, sim, filepath.Join(dir, path))))
		}
	}
	remove := func(path string) func(*testing.T, *vfs.Sim, string) {
		return func(t *testing.T, sim *vfs.Sim, dir string) {
			if err := sim.RemoveAll(filepath.Join(dir, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*testing.T, *vfs.Sim, string)
		is     error
		says   string
	}{
		{"foreign file", add("notes.txt"), convert.ErrSource, "notes.txt"},
		{"foreign file in a root", add(four + "notes.bin"), convert.ErrSource, four + "notes.bin"},
		{"forbidden name", add(four + "job.bin"), convert.ErrSource, "forbids"},
		{"forbidden suffix", add(four + "line_head.bin"), convert.ErrSource, "forbids"},
		{"registry of jobs", add("registry/worker_job.bin"), convert.ErrSource, "registry/worker_job.bin"},
		{"foreign lock", add(four + ".locks/binary-db/other.lock"), convert.ErrSource, "other.lock"},
		{"interrupted replacement", add(four + ".worker_job.bin.update-journal"), convert.ErrSource, "interrupted"},
		{"interrupted append", add("registry/.repository.bin.append-intent"), convert.ErrSource, "interrupted"},
		{"rollback journal", add(four + "server-land.write.journal"), convert.ErrSource, "interrupted"},
		{"directory in a root", func(t *testing.T, sim *vfs.Sim, dir string) {
			if err := sim.Mkdir(filepath.Join(dir, four+"task.bin.d"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, convert.ErrSource, "is a directory"},
		{"alias of an index", func(t *testing.T, sim *vfs.Sim, dir string) {
			if err := sim.Mkdir(filepath.Join(dir, "repositories/04"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, convert.ErrSource, "repositories/04"},
		{"two registries", func(t *testing.T, sim *vfs.Sim, dir string) {
			if err := sim.Mkdir(filepath.Join(dir, "global"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, convert.ErrSource, "both there"},
		{"no registry", remove("registry"), convert.ErrSource, "neither"},
		{"symbolic link", func(t *testing.T, sim *vfs.Sim, dir string) {
			remove(four+"task.bin")(t, sim, dir)
			if err := sim.Symlink("/data/generations/1/"+four+"task.bin", filepath.Join(dir, four+"task.bin")); err != nil {
				t.Fatal(err)
			}
		}, convert.ErrSource, four + "task.bin is no regular file"},
		{"linked directory", func(t *testing.T, sim *vfs.Sim, dir string) {
			remove(four)(t, sim, dir)
			if err := sim.Symlink("/data/generations/1/repositories/4", filepath.Join(dir, "repositories/4")); err != nil {
				t.Fatal(err)
			}
		}, convert.ErrSource, "repositories/4 is no regular file"},
		{"hard link", func(t *testing.T, sim *vfs.Sim, dir string) {
			if err := sim.Link(filepath.Join(dir, four+"task.bin"), "/elsewhere"); err != nil {
				t.Fatal(err)
			}
		}, convert.ErrSource, four + "task.bin has 2 hard links"},
		{"short file", edit(four+"task.bin", func([]byte) []byte { return []byte{1, 0} }), convert.ErrSource, four + "task.bin is 2 bytes long"},
		{"torn record", edit(four+"task.bin", func(b []byte) []byte { return b[:len(b)-1] }), convert.ErrSource, "no multiple of the 40 bytes"},
		{"other layout", edit(four+"task.bin", func(b []byte) []byte { return append([]byte{2, 0, 0, 0}, b[4:]...) }), convert.ErrSource, "begins with 02 00 00 00"},
		{"this layout", edit(four+"worker_job.bin", func(b []byte) []byte { return append(b[:4:4], make([]byte, 52)...) }), convert.ErrSource, "no multiple of the 36 bytes"},
		{"lost records", remove(four + "task.bin"), convert.ErrSource, four + "task.bin is missing, but " + four + "task_payload.bin has"},
		{"lost chain", remove(four + "task_change_index.bin"), bindb.ErrCorrupt, "C01"},
		{"lost jobs", remove(four + "worker_job.bin"), bindb.ErrCorrupt, "P06"},
		{"lost payload", remove(four + "task_payload.bin"), bindb.ErrCorrupt, "task.bin"},
		{"lost repository", remove("repositories/2"), convert.ErrSource, "repositories/2 is missing"},
		{"lost repositories", remove("repositories"), convert.ErrSource, "repositories/0 is missing"},
		{"repository without a record", func(t *testing.T, sim *vfs.Sim, dir string) {
			if err := sim.Mkdir(filepath.Join(dir, "repositories/6"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, convert.ErrSource, "repositories/6 belongs to no Repository"},
		{"tombstoned repository", edit("registry/repository.bin", func(b []byte) []byte { b[4+4*25] = 0x80; return b }), convert.ErrSource, "tombstoned"},
		{"purged repository with jobs", edit("registry/repository.bin", func(b []byte) []byte { b[4+4*25+1] = 3; return b }), convert.ErrSource, "J06"},
		{"lost registry", remove("registry/repository.bin"), convert.ErrSource, "registry/repository.bin is missing"},
		{"malformed record", edit(four+"task.bin", func(b []byte) []byte { b[4+1] = 0xff; return b }), bindb.ErrCorrupt, "remote_meta"},
		{"malformed registry", edit("registry/repository.bin", func(b []byte) []byte { b[4+1] = 9; return b }), bindb.ErrCorrupt, "lifecycle_kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sim := vfs.NewSim()
			source := filled(t, sim, "/data", most)
			c.change(t, sim, source)
			_, _, err := build(t, sim, source)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v\nwant %v with %q", err, c.is, c.says)
			}
		})
	}
}

func TestSourceThatIsNoDirectory(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	if _, _, err := build(t, sim, "/nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want %v", err, fs.ErrNotExist)
	}
	write(t, sim, "/file", nil)
	if _, _, err := build(t, sim, "/file"); !errors.Is(err, convert.ErrSource) {
		t.Errorf("error %v, want %v", err, convert.ErrSource)
	}
}

// drifting is a file system in which something happens just before a file below
// the source is opened for the n-th time.
type drifting struct {
	vfs.FS
	path string
	at   int
	do   func()

	opened chan int // holds how often it was opened
}

func (d *drifting) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if name == d.path {
		n := <-d.opened + 1
		if n == d.at {
			d.do()
		}
		d.opened <- n
	}
	return d.FS.OpenFile(name, flag, perm)
}

// TestDrift changes the source while it is converted.
func TestDrift(t *testing.T) {
	t.Parallel()
	const four = "/source/repositories/4/"
	flip := func(path string) func(*testing.T, *vfs.Sim) {
		return func(t *testing.T, sim *vfs.Sim) {
			b := read(t, sim, path)
			b[len(b)-1] ^= 0x40
			write(t, sim, path, b)
		}
	}
	for _, c := range []struct {
		name     string
		path     string // before it is opened
		at       int    // for this time
		do       func(*testing.T, *vfs.Sim)
		says     string
		filename string
	}{
		{"byte of a record", four + "snapshot_payload.bin", 2, flip(four + "snapshot_payload.bin"), "other content", "snapshot_payload.bin"},
		{"byte of a record of another size", four + "task.bin", 2, flip(four + "task.bin"), "other content", "task.bin"},
		{"byte of an index", four + "worker_state.idx", 2, flip(four + "worker_state.idx"), "other content", "worker_state.idx"},
		{"longer before the first reading", four + "task.bin", 1, func(t *testing.T, sim *vfs.Sim) {
			write(t, sim, four+"task.bin", append(read(t, sim, four+"task.bin"), make([]byte, 40)...))
		}, "had", "task.bin"},
		{"longer", four + "task.bin", 2, func(t *testing.T, sim *vfs.Sim) {
			write(t, sim, four+"task.bin", append(read(t, sim, four+"task.bin"), make([]byte, 40)...))
		}, "had", "task.bin"},
		{"shorter", four + "task.bin", 2, func(t *testing.T, sim *vfs.Sim) { write(t, sim, four+"task.bin", read(t, sim, four+"task.bin")[:44]) }, "had", "task.bin"},
		{"replaced", four + "task.bin", 2, func(t *testing.T, sim *vfs.Sim) {
			write(t, sim, "/new", read(t, sim, four+"task.bin"))
			if err := sim.Rename("/new", four+"task.bin"); err != nil {
				t.Error(err)
			}
		}, "replaced by another file", "task.bin"},
		{"removed", "/source/registry/repository.bin", 2, func(t *testing.T, sim *vfs.Sim) {
			if err := sim.Remove(four + "worker-queue.lock"); err != nil {
				t.Error(err)
			}
		}, "was removed", "worker-queue.lock"},
		{"turned into a link", "/source/registry/repository.bin", 2, func(t *testing.T, sim *vfs.Sim) {
			if err := sim.Link(four+"worker-queue.lock", "/elsewhere"); err != nil {
				t.Error(err)
			}
		}, "2 hard links", "worker-queue.lock"},
		{"added", "/source/registry/repository.bin", 2, func(t *testing.T, sim *vfs.Sim) { write(t, sim, four+"blob_id.idx", []byte{1, 0, 0, 0}) }, "was added", "blob_id.idx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sim := vfs.NewSim()
			filled(t, sim, "/data", most)
			write(t, sim, four+"worker_state.idx", []byte("stale"))
			d := &drifting{FS: sim, path: c.path, at: c.at, do: func() { c.do(t, sim) }, opened: make(chan int, 1)}
			d.opened <- 0
			_, err := convert.BuildU32Time(context.Background(), d, "/source", below(t, sim, "/target"))
			if !errors.Is(err, convert.ErrDrift) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.filename) {
				t.Errorf("error %v, want a drift of %s that %q", err, c.filename, c.says)
			}
		})
	}
}

func TestCanceledConversion(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	source := filled(t, sim, "/data", most)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := convert.BuildU32Time(ctx, sim, source, below(t, sim, "/target")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// TestFaults lets each reading of the source and each sync of the target fail.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, kind := range []vfs.OpKind{vfs.OpRead, vfs.OpWrite, vfs.OpSync, vfs.OpOpen} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			sim := vfs.NewSim()
			source := filled(t, sim, "/data", most)
			sim.Fail(func(op vfs.Op) error {
				if op.Kind == kind && strings.HasSuffix(op.Path, "repositories/4/task.bin") {
					return io.ErrUnexpectedEOF
				}
				return nil
			})
			if _, _, err := build(t, sim, source); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("error %v, want %v", err, io.ErrUnexpectedEOF)
			}
		})
	}
}
