package vfs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/writ-authority/writ/internal/vfs"
)

// bundle is an implementation under test with an empty directory in it.
type bundle struct {
	vfs.FS
	dir     string
	symlink func(target, name string) error
	link    func(oldname, newname string) error
}

func (b *bundle) path(elements ...string) string {
	return filepath.Join(append([]string{b.dir}, elements...)...)
}

func osBundle(t *testing.T) *bundle {
	return &bundle{FS: vfs.OS, dir: t.TempDir(), symlink: os.Symlink, link: os.Link}
}

func simBundle(t *testing.T) *bundle {
	sim := vfs.NewSim()
	must(t, sim.Mkdir("/d", 0o700))
	return &bundle{FS: sim, dir: "/d", symlink: sim.Symlink, link: sim.Link}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error is %v, want %v", err, target)
		}
	}
}

// create makes a file with content.
func create(t *testing.T, fsys vfs.FS, name, content string) vfs.File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	write(t, f, content, 0)
	return f
}

func write(t *testing.T, f vfs.File, content string, off int64) {
	t.Helper()
	n, err := f.WriteAt([]byte(content), off)
	must(t, err)
	if n != len(content) {
		t.Fatalf("WriteAt wrote %d bytes of %d", n, len(content))
	}
}

// read returns a file's content.
func read(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name, 1<<20)
	must(t, err)
	return string(data)
}

// ended is a context that has ended: Lock then only tries once.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestConformance(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		run  func(t *testing.T, b *bundle)
	}{
		{"read and write", readAndWrite},
		{"flags", flags},
		{"refused files", refusedFiles},
		{"closed file", closedFile},
		{"identity", identity},
		{"truncate", truncate},
		{"directories", directories},
		{"rename", rename},
		{"rename refused", renameRefused},
		{"remove", remove},
		{"unlinked file", unlinkedFile},
		{"path through a link", pathThroughLink},
		{"lock modes", lockModes},
		{"lock wait", lockWait},
		{"lock refused", lockRefused},
		{"lock replaced", lockReplaced},
		{"read file", readFile},
		{"write file", writeFile},
		{"mkdir all", mkdirAll},
		{"exists", exists},
	}
	for _, c := range cases {
		t.Run(c.name+"/os", func(t *testing.T) {
			t.Parallel()
			c.run(t, osBundle(t))
		})
		t.Run(c.name+"/sim", func(t *testing.T) {
			t.Parallel()
			c.run(t, simBundle(t))
		})
	}
}

func readAndWrite(t *testing.T, b *bundle) {
	f := create(t, b, b.path("f"), "hello")
	write(t, f, "X", 9000) // leaves a hole over a page
	size, err := f.Size()
	must(t, err)
	if size != 9001 {
		t.Errorf("size is %d, want 9001", size)
	}
	buf := make([]byte, 10)
	n, err := f.ReadAt(buf, 8995)
	if n != 6 || err != io.EOF || string(buf[:n]) != "\x00\x00\x00\x00\x00X" {
		t.Errorf("ReadAt across the end: %d, %v, %q", n, err, buf[:n])
	}
	if n, err := f.ReadAt(buf, 9001); n != 0 || err != io.EOF {
		t.Errorf("ReadAt at the end: %d, %v", n, err)
	}
	if n, err := f.ReadAt(nil, 20000); n != 0 || err != nil {
		t.Errorf("ReadAt of nothing: %d, %v", n, err)
	}
	if n, err := f.WriteAt(nil, 20000); n != 0 || err != nil {
		t.Errorf("WriteAt of nothing: %d, %v", n, err)
	}
	want := "hello" + strings.Repeat("\x00", 8995) + "X"
	if got := read(t, b, b.path("f")); got != want {
		t.Errorf("content differs: %d bytes, want %d", len(got), len(want))
	}
	if _, err := f.ReadAt(buf, -1); err == nil {
		t.Error("ReadAt at a negative offset succeeded")
	}
	if _, err := f.WriteAt(buf, -1); err == nil {
		t.Error("WriteAt at a negative offset succeeded")
	}
	must(t, f.Sync())
	must(t, f.Close())
}

func flags(t *testing.T, b *bundle) {
	_, err := b.OpenFile(b.path("none"), os.O_RDWR, 0)
	wantIs(t, err, fs.ErrNotExist)
	_, err = b.OpenFile(b.path("none", "f"), os.O_RDWR|os.O_CREATE, 0o600)
	wantIs(t, err, fs.ErrNotExist)
	create(t, b, b.path("f"), "abc")
	_, err = b.OpenFile(b.path("f"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	wantIs(t, err, fs.ErrExist)
	_, err = b.OpenFile(b.path("f", "g"), os.O_RDONLY, 0)
	wantIs(t, err, syscall.ENOTDIR)
	for _, flag := range []int{os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_RDWR | os.O_TRUNC} {
		_, err = b.OpenFile(b.path("f"), flag, 0)
		wantIs(t, err, syscall.EINVAL)
	}
	var perr *fs.PathError
	if !errors.As(err, &perr) || perr.Path != b.path("f") {
		t.Errorf("%v is not a PathError for f", err)
	}
	f, err := b.OpenFile(b.path("f"), os.O_RDONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), 0)
	wantIs(t, err, syscall.EBADF)
	wantIs(t, f.Truncate(0), syscall.EINVAL)
	if got := read(t, b, b.path("f")); got != "abc" {
		t.Errorf("content is %q", got)
	}
}

func refusedFiles(t *testing.T, b *bundle) {
	create(t, b, b.path("f"), "abc")
	must(t, b.Mkdir(b.path("sub"), 0o700))
	must(t, b.symlink("f", b.path("link")))
	must(t, b.symlink("nowhere", b.path("dangling")))
	for _, name := range []string{"link", "dangling"} {
		for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
			_, err := b.OpenFile(b.path(name), flag, 0o600)
			wantIs(t, err, vfs.ErrSymlink)
		}
		_, err := b.OpenFile(b.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		wantIs(t, err, fs.ErrExist)
	}
	for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
		_, err := b.OpenFile(b.path("sub"), flag, 0o600)
		wantIs(t, err, vfs.ErrNotRegular)
	}
	if ok, err := vfs.Exists(b, b.path("nowhere")); ok || err != nil {
		t.Errorf("the target of a dangling link was made: %v, %v", ok, err)
	}
}

func closedFile(t *testing.T, b *bundle) {
	f := create(t, b, b.path("f"), "abc")
	must(t, f.Close())
	_, err := f.ReadAt(make([]byte, 1), 0)
	wantIs(t, err, fs.ErrClosed)
	_, err = f.WriteAt(make([]byte, 1), 0)
	wantIs(t, err, fs.ErrClosed)
	_, err = f.Size()
	wantIs(t, err, fs.ErrClosed)
	_, err = f.ID()
	wantIs(t, err, fs.ErrClosed)
	wantIs(t, f.Truncate(0), fs.ErrClosed)
	wantIs(t, f.Sync(), fs.ErrClosed)
	wantIs(t, f.Close(), fs.ErrClosed)
}

func identity(t *testing.T, b *bundle) {
	f, g := create(t, b, b.path("f"), "abc"), create(t, b, b.path("g"), "")
	fid, err := f.ID()
	must(t, err)
	gid, err := g.ID()
	must(t, err)
	if fid == gid {
		t.Errorf("two files have the identity %v", fid)
	}
	must(t, b.link(b.path("f"), b.path("hard")))
	info, err := b.Lstat(b.path("hard"))
	must(t, err)
	if info.ID != fid || info.Links != 2 || info.Size != 3 || info.Name != "hard" || !info.Mode.IsRegular() {
		t.Errorf("second name of f: %+v, want identity %v, 2 links, 3 bytes", info, fid)
	}
	must(t, b.Remove(b.path("f")))
	info, err = b.Lstat(b.path("hard"))
	must(t, err)
	if info.Links != 1 {
		t.Errorf("%d links after removing one of two names", info.Links)
	}
}

func truncate(t *testing.T, b *bundle) {
	f := create(t, b, b.path("f"), strings.Repeat("a", 10000))
	must(t, f.Truncate(4100))
	must(t, f.Truncate(5000))
	want := strings.Repeat("a", 4100) + strings.Repeat("\x00", 900)
	if got := read(t, b, b.path("f")); got != want {
		t.Error("content after cutting and growing is not data and zeros")
	}
	must(t, f.Truncate(1<<33)) // costs no space
	size, err := f.Size()
	must(t, err)
	if size != 1<<33 {
		t.Errorf("size is %d", size)
	}
	must(t, f.Truncate(0))
	if got := read(t, b, b.path("f")); got != "" {
		t.Errorf("%d bytes after cutting to none", len(got))
	}
	wantIs(t, f.Truncate(-1), syscall.EINVAL)
}

func directories(t *testing.T, b *bundle) {
	wantIs(t, b.Mkdir(b.dir, 0o700), fs.ErrExist)
	wantIs(t, b.Mkdir(b.path("a", "b"), 0o700), fs.ErrNotExist)
	must(t, b.Mkdir(b.path("z"), 0o700))
	create(t, b, b.path("B"), "12")
	create(t, b, b.path("a"), "")
	must(t, b.symlink("B", b.path("m")))
	wantIs(t, b.Mkdir(b.path("a"), 0o700), fs.ErrExist)
	wantIs(t, b.Mkdir(b.path("m"), 0o700), fs.ErrExist)
	infos, err := b.ReadDir(b.dir)
	must(t, err)
	var list []string
	for _, info := range infos {
		list = append(list, info.Name+" "+info.Mode.Type().String())
		if lst, err := b.Lstat(b.path(info.Name)); err != nil || lst != info {
			t.Errorf("Lstat says %+v, %v; ReadDir %+v", lst, err, info)
		}
	}
	if got, want := strings.Join(list, ", "), "B ----------, a ----------, m L---------, z d---------"; got != want {
		t.Errorf("entries are %s, want %s", got, want)
	}
	_, err = b.ReadDir(b.path("a"))
	wantIs(t, err, syscall.ENOTDIR)
	_, err = b.ReadDir(b.path("none"))
	wantIs(t, err, fs.ErrNotExist)
	must(t, b.SyncDir(b.path("z")))
	wantIs(t, b.SyncDir(b.path("a")), syscall.ENOTDIR)
	wantIs(t, b.SyncDir(b.path("none")), fs.ErrNotExist)
	_, err = b.Lstat(b.path("a", "x"))
	wantIs(t, err, syscall.ENOTDIR)
}

func rename(t *testing.T, b *bundle) {
	create(t, b, b.path("f"), "new")
	create(t, b, b.path("g"), "old")
	must(t, b.Mkdir(b.path("sub"), 0o700))
	must(t, b.Rename(b.path("f"), b.path("g")))
	if got := read(t, b, b.path("g")); got != "new" {
		t.Errorf("replaced file holds %q", got)
	}
	must(t, b.Rename(b.path("g"), b.path("sub", "h")))
	must(t, b.Rename(b.path("sub"), b.path("moved")))
	if got := read(t, b, b.path("moved", "h")); got != "new" {
		t.Errorf("moved file holds %q", got)
	}
	infos, err := b.ReadDir(b.dir)
	must(t, err)
	if len(infos) != 1 {
		t.Errorf("old names are left: %+v", infos)
	}
	must(t, b.Rename(b.path("moved", "h"), b.path("moved", "h")))
	must(t, b.link(b.path("moved", "h"), b.path("other")))
	must(t, b.Rename(b.path("moved", "h"), b.path("other")))
	if got := read(t, b, b.path("moved", "h")) + read(t, b, b.path("other")); got != "newnew" {
		t.Errorf("renaming one name of a file to the other: %q", got)
	}
	must(t, b.symlink("other", b.path("link")))
	must(t, b.Rename(b.path("moved", "h"), b.path("link")))
	info, err := b.Lstat(b.path("link"))
	must(t, err)
	if !info.Mode.IsRegular() {
		t.Error("renaming onto a symbolic link did not replace it")
	}
}

func renameRefused(t *testing.T, b *bundle) {
	create(t, b, b.path("f"), "")
	must(t, b.Mkdir(b.path("a"), 0o700))
	must(t, b.Mkdir(b.path("a", "b"), 0o700))
	must(t, b.Mkdir(b.path("c"), 0o700))
	err := b.Rename(b.path("none"), b.path("f"))
	wantIs(t, err, fs.ErrNotExist)
	var lerr *os.LinkError
	if !errors.As(err, &lerr) || lerr.Old != b.path("none") || lerr.New != b.path("f") {
		t.Errorf("%v is not a LinkError with both names", err)
	}
	wantIs(t, b.Rename(b.path("f"), b.path("none", "f")), fs.ErrNotExist)
	wantIs(t, b.Rename(b.path("f"), b.path("c")), fs.ErrExist)
	wantIs(t, b.Rename(b.path("a"), b.path("c")), fs.ErrExist)
	wantIs(t, b.Rename(b.path("a"), b.path("f")), syscall.ENOTDIR)
	wantIs(t, b.Rename(b.path("a"), b.path("a", "b", "x")), syscall.EINVAL)
}

func remove(t *testing.T, b *bundle) {
	wantIs(t, b.Remove(b.path("none")), fs.ErrNotExist)
	must(t, b.RemoveAll(b.path("none")))
	must(t, b.Mkdir(b.path("keep"), 0o700))
	create(t, b, b.path("keep", "f"), "abc")
	must(t, b.Mkdir(b.path("sub"), 0o700))
	must(t, b.Mkdir(b.path("sub", "deep"), 0o700))
	create(t, b, b.path("sub", "deep", "f"), "")
	must(t, b.symlink(b.path("keep"), b.path("sub", "link")))
	wantIs(t, b.Remove(b.path("sub")), syscall.ENOTEMPTY)
	must(t, b.RemoveAll(b.path("sub")))
	if ok, err := vfs.Exists(b, b.path("sub")); ok || err != nil {
		t.Errorf("sub exists after RemoveAll: %v, %v", ok, err)
	}
	if got := read(t, b, b.path("keep", "f")); got != "abc" {
		t.Error("RemoveAll followed a symbolic link")
	}
	must(t, b.RemoveAll(b.path("keep", "f")))
	must(t, b.Remove(b.path("keep")))
}

func unlinkedFile(t *testing.T, b *bundle) {
	f := create(t, b, b.path("f"), "abc")
	must(t, b.Remove(b.path("f")))
	must(t, b.SyncDir(b.dir))
	write(t, f, "d", 3)
	must(t, f.Sync())
	buf := make([]byte, 4)
	_, err := f.ReadAt(buf, 0)
	must(t, err)
	if string(buf) != "abcd" {
		t.Errorf("the handle of an unlinked file reads %q", buf)
	}
	create(t, b, b.path("f"), "new")
	if got := read(t, b, b.path("f")); got != "new" {
		t.Errorf("the new file under the old name holds %q", got)
	}
}

func pathThroughLink(t *testing.T, b *bundle) {
	must(t, b.Mkdir(b.path("sub"), 0o700))
	create(t, b, b.path("sub", "f"), "abc")
	must(t, b.symlink("sub", b.path("relative")))
	must(t, b.symlink(b.path("sub"), b.path("absolute")))
	must(t, b.symlink("../sub/f", b.path("sub", "self")))
	for _, name := range []string{"relative", "absolute"} {
		if got := read(t, b, b.path(name, "f")); got != "abc" {
			t.Errorf("through %s: %q", name, got)
		}
		infos, err := b.ReadDir(b.path(name))
		must(t, err)
		if len(infos) != 2 {
			t.Errorf("through %s: %d entries", name, len(infos))
		}
	}
	must(t, b.symlink("loop", b.path("loop")))
	_, err := b.OpenFile(b.path("loop", "f"), os.O_RDONLY, 0)
	wantIs(t, err, syscall.ELOOP)
	if errors.Is(err, vfs.ErrSymlink) {
		t.Errorf("a loop further up is reported as %v", err)
	}
	if got := read(t, b, b.dir+"/sub/../relative/./f"); got != "abc" {
		t.Errorf("with dots: %q", got)
	}
}

func lockModes(t *testing.T, b *bundle) {
	name := b.path("lock")
	lock := func(mode vfs.LockMode) (vfs.Lock, error) { return b.Lock(ended(), name, mode) }
	first, err := lock(vfs.Shared)
	must(t, err)
	info, err := b.Lstat(name)
	must(t, err)
	if info.Mode != 0o600 || info.Size != 0 {
		t.Errorf("lock file is %+v", info)
	}
	second, err := lock(vfs.Shared)
	must(t, err)
	_, err = lock(vfs.Exclusive)
	wantIs(t, err, vfs.ErrLocked, context.Canceled)
	must(t, first.Unlock())
	_, err = lock(vfs.Exclusive)
	wantIs(t, err, vfs.ErrLocked)
	must(t, second.Unlock())
	third, err := lock(vfs.Exclusive)
	must(t, err)
	for _, mode := range []vfs.LockMode{vfs.Shared, vfs.Exclusive} {
		_, err = lock(mode)
		wantIs(t, err, vfs.ErrLocked)
	}
	// Another handle of the file changes nothing.
	must(t, create(t, b, name, "").Close())
	_, err = lock(vfs.Shared)
	wantIs(t, err, vfs.ErrLocked)
	must(t, third.Unlock())
	wantIs(t, third.Unlock(), fs.ErrClosed)
	fourth, err := lock(vfs.Shared)
	must(t, err)
	must(t, fourth.Unlock())
}

func lockWait(t *testing.T, b *bundle) {
	name := b.path("lock")
	held, err := b.Lock(t.Context(), name, vfs.Exclusive)
	must(t, err)
	got := make(chan error)
	go func() {
		lock, err := b.Lock(t.Context(), name, vfs.Shared)
		if err == nil {
			err = lock.Unlock()
		}
		got <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := b.Lock(ctx, name, vfs.Shared)
		got <- err
	}()
	cancel()
	wantIs(t, <-got, vfs.ErrLocked, context.Canceled)
	must(t, held.Unlock())
	must(t, <-got)
}

func lockRefused(t *testing.T, b *bundle) {
	create(t, b, b.path("f"), "")
	must(t, b.Mkdir(b.path("sub"), 0o700))
	must(t, b.symlink("f", b.path("link")))
	must(t, b.link(b.path("f"), b.path("hard")))
	for name, want := range map[string]error{
		"link": vfs.ErrSymlink, "sub": vfs.ErrNotRegular, "hard": vfs.ErrLinks, "f": vfs.ErrLinks, "none/lock": fs.ErrNotExist,
	} {
		for _, mode := range []vfs.LockMode{vfs.Shared, vfs.Exclusive} {
			_, err := b.Lock(t.Context(), b.path(name), mode)
			wantIs(t, err, want)
		}
	}
}

// lockReplaced: the holder of the old file under a name excludes nobody from
// the new one, and who waits for the old one gets the new one.
func lockReplaced(t *testing.T, b *bundle) {
	name := b.path("lock")
	old, err := b.Lock(t.Context(), name, vfs.Exclusive)
	must(t, err)
	type result struct {
		lock vfs.Lock
		err  error
	}
	got := make(chan result)
	go func() {
		lock, err := b.Lock(t.Context(), name, vfs.Exclusive)
		got <- result{lock, err}
	}()
	create(t, b, b.path("new"), "")
	must(t, b.Rename(b.path("new"), name))
	r := <-got
	must(t, r.err)
	_, err = b.Lock(ended(), name, vfs.Shared)
	wantIs(t, err, vfs.ErrLocked)
	must(t, old.Unlock())
	_, err = b.Lock(ended(), name, vfs.Shared)
	wantIs(t, err, vfs.ErrLocked)
	must(t, b.Remove(name))
	fresh, err := b.Lock(ended(), name, vfs.Exclusive)
	must(t, err)
	must(t, r.lock.Unlock())
	must(t, fresh.Unlock())
}

func readFile(t *testing.T, b *bundle) {
	create(t, b, b.path("f"), "12345")
	data, err := vfs.ReadFile(b, b.path("f"), 5)
	must(t, err)
	if string(data) != "12345" {
		t.Errorf("content is %q", data)
	}
	_, err = vfs.ReadFile(b, b.path("f"), 4)
	wantIs(t, err, vfs.ErrTooLarge)
	_, err = vfs.ReadFile(b, b.path("none"), 4)
	wantIs(t, err, fs.ErrNotExist)
}

func writeFile(t *testing.T, b *bundle) {
	name := b.path("f")
	must(t, vfs.WriteFileAtomic(b, name, []byte("one"), 0o600))
	must(t, b.symlink("f", b.path(".f.rewrite"))) // left over, and a trap
	must(t, vfs.WriteFileAtomic(b, name, bytes.Repeat([]byte("2"), 9000), 0o600))
	if got := read(t, b, name); got != strings.Repeat("2", 9000) {
		t.Errorf("content is %d bytes", len(got))
	}
	must(t, b.Mkdir(b.path("sub"), 0o700))
	if err := vfs.WriteFileAtomic(b, b.path("sub"), []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	infos, err := b.ReadDir(b.dir)
	must(t, err)
	if len(infos) != 2 {
		t.Errorf("a temporary file is left: %+v", infos)
	}
}

func mkdirAll(t *testing.T, b *bundle) {
	must(t, vfs.MkdirAll(b, b.dir, 0o700))
	must(t, vfs.MkdirAll(b, b.path("a", "b", "c"), 0o700))
	must(t, vfs.MkdirAll(b, b.path("a", "b", "c"), 0o700))
	must(t, b.symlink("a", b.path("link")))
	must(t, vfs.MkdirAll(b, b.path("link"), 0o700))
	must(t, vfs.MkdirAll(b, b.path("link", "b", "d"), 0o700))
	infos, err := b.ReadDir(b.path("a", "b"))
	must(t, err)
	if len(infos) != 2 {
		t.Errorf("entries are %+v", infos)
	}
	create(t, b, b.path("f"), "")
	wantIs(t, vfs.MkdirAll(b, b.path("f"), 0o700), fs.ErrExist)
	wantIs(t, vfs.MkdirAll(b, b.path("f", "g"), 0o700), syscall.ENOTDIR)
	must(t, b.symlink("nowhere", b.path("dangling")))
	wantIs(t, vfs.MkdirAll(b, b.path("dangling"), 0o700), fs.ErrNotExist)
}

func exists(t *testing.T, b *bundle) {
	must(t, b.symlink("nowhere", b.path("dangling")))
	for name, want := range map[string]bool{"": true, "dangling": true, "none": false, "none/f": false} {
		if got, err := vfs.Exists(b, b.path(name)); got != want || err != nil {
			t.Errorf("Exists(%q) is %v, %v", name, got, err)
		}
	}
}
