package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, _, err := openRegular(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f}, nil
}

// openRegular opens a regular file and describes what it has opened.
func openRegular(name string, flag int, perm fs.FileMode) (*os.File, Info, error) {
	if err := checkFlags(name, flag); err != nil {
		return nil, Info{}, err
	}
	// O_NONBLOCK: a pipe under this name must be refused, not waited for.
	f, err := os.OpenFile(name, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, Info{}, refusal(name, err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = pathError("open", name, ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, Info{}, err
	}
	return f, infoOf(st), nil
}

// refusal turns the system's answers for things that are not regular files into
// the sentinels of this package.
func refusal(name string, err error) error {
	var sentinel error
	switch {
	case errors.Is(err, syscall.ELOOP):
		// ELOOP also reports a loop further up in the path.
		if st, lerr := os.Lstat(name); lerr != nil || st.Mode()&fs.ModeSymlink == 0 {
			return err
		}
		sentinel = ErrSymlink
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EOPNOTSUPP):
		// A directory opened for writing; a socket on Linux and on macOS.
		sentinel = ErrNotRegular
	default:
		return err
	}
	return pathError("open", name, sentinel)
}

func (osFS) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }

func (osFS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) RemoveAll(name string) error { return os.RemoveAll(name) }

func (osFS) ReadDir(name string) ([]Info, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since the directory was read
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, infoOf(st))
	}
	return infos, nil
}

func (osFS) Lstat(name string) (Info, error) {
	st, err := os.Lstat(name)
	if err != nil {
		return Info{}, err
	}
	info := infoOf(st)
	info.Name = filepath.Base(name)
	return info, nil
}

func (osFS) SyncDir(name string) error {
	d, err := os.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	// A full fsync: fdatasync of a directory may leave out its entries on some
	// file systems.
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func infoOf(st fs.FileInfo) Info {
	info := Info{Name: st.Name(), Mode: st.Mode(), Size: st.Size()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		info.Links = uint64(sys.Nlink)
		info.ID = FileID{Dev: uint64(sys.Dev), Ino: sys.Ino}
	}
	return info
}

// onHandle calls do with f's descriptor, again while a signal interrupts it.
func onHandle(f *os.File, op string, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var derr error
	err = conn.Control(func(fd uintptr) {
		derr = do(int(fd))
		for derr == syscall.EINTR {
			derr = do(int(fd))
		}
	})
	if err != nil {
		derr = fs.ErrClosed // Control has no other reason to refuse
	}
	return pathError(op, f.Name(), derr)
}

// osFile hides what os.File can do beyond File, above all a position and
// O_APPEND writes.
type osFile struct {
	f *os.File
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error)  { return f.f.ReadAt(p, off) }
func (f *osFile) WriteAt(p []byte, off int64) (int, error) { return f.f.WriteAt(p, off) }
func (f *osFile) Truncate(size int64) error                { return f.f.Truncate(size) }
func (f *osFile) Sync() error                              { return syncData(f.f) }
func (f *osFile) Close() error                             { return f.f.Close() }

func (f *osFile) Size() (int64, error) {
	st, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *osFile) ID() (FileID, error) {
	st, err := f.f.Stat()
	if err != nil {
		return FileID{}, err
	}
	return infoOf(st).ID, nil
}
