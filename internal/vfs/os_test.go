package vfs_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-authority/writ/internal/vfs"
)

// lockChildEnv makes the test binary a process that holds a lock: the value is
// the path. It prints a line when it has the lock and ends with its input.
const lockChildEnv = "WRIT_TEST_LOCK_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(lockChildEnv); name != "" {
		os.Exit(lockChild(name))
	}
	os.Exit(m.Run())
}

func lockChild(name string) int {
	if _, err := vfs.OS.Lock(context.Background(), name, vfs.Exclusive); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	os.Stdout.WriteString("locked\n")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return 1
	}
	return 0
}

// startLockChild returns a process that holds the lock.
func startLockChild(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), lockChildEnv+"="+name)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	t.Cleanup(func() { stdin.Close() })
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "locked\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	return cmd
}

func TestLockBetweenProcesses(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	child := startLockChild(t, name)
	_, err := vfs.OS.Lock(ended(), name, vfs.Shared)
	wantIs(t, err, vfs.ErrLocked, context.Canceled)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = vfs.OS.Lock(ctx, name, vfs.Shared)
	wantIs(t, err, vfs.ErrLocked, context.DeadlineExceeded)

	// The system releases the lock of a process that is killed.
	must(t, child.Process.Kill())
	lock, err := vfs.OS.Lock(t.Context(), name, vfs.Exclusive)
	must(t, err)
	must(t, lock.Unlock())
	if err := child.Wait(); err == nil {
		t.Error("the killed child ended normally")
	}
}

// TestLockIsNotInherited: a child process started under a lock does not keep it.
func TestLockIsNotInherited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := vfs.OS.Lock(t.Context(), filepath.Join(dir, "a"), vfs.Exclusive)
	must(t, err)
	startLockChild(t, filepath.Join(dir, "b"))
	must(t, lock.Unlock())
	lock, err = vfs.OS.Lock(ended(), filepath.Join(dir, "a"), vfs.Exclusive)
	must(t, err)
	must(t, lock.Unlock())
}

func TestPipeIsRefused(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(name, 0o600))
	for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
		_, err := vfs.OS.OpenFile(name, flag, 0o600)
		wantIs(t, err, vfs.ErrNotRegular)
	}
	_, err := vfs.OS.Lock(t.Context(), name, vfs.Exclusive)
	wantIs(t, err, vfs.ErrNotRegular)
}

func TestSocketIsRefused(t *testing.T) {
	t.Parallel()
	// A short path: the address of a socket has little room.
	dir, err := os.MkdirTemp("", "writ")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	name := filepath.Join(dir, "s")
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
	_, err = vfs.OS.OpenFile(name, os.O_RDWR, 0)
	wantIs(t, err, vfs.ErrNotRegular)
}

// TestReadOnlyLock: a reader can lock a file that it may not write.
func TestReadOnlyLock(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may write everything")
	}
	name := filepath.Join(t.TempDir(), "lock")
	must(t, os.WriteFile(name, nil, 0o400))
	lock, err := vfs.OS.Lock(ended(), name, vfs.Shared)
	must(t, err)
	_, err = vfs.OS.Lock(ended(), name, vfs.Exclusive)
	wantIs(t, err, os.ErrPermission)
	must(t, lock.Unlock())
}

// TestReadOnlyMedia uses a file system that nobody may write to.
func TestReadOnlyMedia(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))
	if err := mountReadOnly(dir); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	lock, err := vfs.OS.Lock(ended(), filepath.Join(dir, "lock"), vfs.Shared)
	must(t, err)
	must(t, lock.Unlock())
	_, err = vfs.OS.Lock(ended(), filepath.Join(dir, "lock"), vfs.Exclusive)
	wantIs(t, err, syscall.EROFS)
	_, err = vfs.OS.Lock(ended(), filepath.Join(dir, "new"), vfs.Shared)
	wantIs(t, err, syscall.EROFS)
	_, err = vfs.OS.OpenFile(filepath.Join(dir, "new"), os.O_RDWR|os.O_CREATE, 0o600)
	wantIs(t, err, syscall.EROFS)
	wantIs(t, vfs.WriteFileAtomic(vfs.OS, filepath.Join(dir, "new"), nil, 0o600), syscall.EROFS)
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := mountSmall(dir); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	name := filepath.Join(dir, "f")
	must(t, vfs.WriteFileAtomic(vfs.OS, name, []byte("small"), 0o600))
	wantIs(t, vfs.WriteFileAtomic(vfs.OS, name, make([]byte, 1<<20), 0o600), syscall.ENOSPC)
	infos, err := vfs.OS.ReadDir(dir)
	must(t, err)
	if len(infos) != 1 || infos[0].Size != 5 {
		t.Errorf("after the disk was full: %+v", infos)
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kind, yes, err := vfs.Network(dir)
	must(t, err)
	if kind == "" {
		t.Error("the kind is empty")
	}
	below, belowYes, err := vfs.Network(filepath.Join(dir, "not", "yet"))
	must(t, err)
	if below != kind || belowYes != yes {
		t.Errorf("a path that does not exist yet is on %s, %v; its parent on %s, %v", below, belowYes, kind, yes)
	}
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	_, _, err = vfs.Network(filepath.Join(dir, "f", "g"))
	wantIs(t, err, syscall.ENOTDIR)
}
