package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Exists reports whether there is an entry called name; a symbolic link counts
// whatever it points to.
func Exists(fsys FS, name string) (bool, error) {
	_, err := fsys.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ReadFile returns the content of a file of at most max bytes. It returns
// ErrTooLarge for a longer one, without reading it, and io.ErrUnexpectedEOF when a
// read ends before the file does.
func ReadFile(fsys FS, name string, max int64) (data []byte, err error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			data, err = nil, cerr
		}
	}()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > max {
		return nil, pathError("read", name, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, size, max))
	}
	data = make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if int64(n) < size { // the file was cut meanwhile, or else the read was not whole
		if size, err = f.Size(); err != nil {
			return nil, err
		}
		if int64(n) < size {
			return nil, pathError("read", name, io.ErrUnexpectedEOF)
		}
	}
	return data[:n], nil
}

// WriteFileAtomic replaces name by data: after a power cut name has its old
// content or the new one, and the new one once the call has returned. The data
// is written to ".<base>.rewrite" beside it, synced, renamed and the directory
// synced. A temporary file that an interrupted call left is replaced; calls for
// the same name must exclude each other.
func WriteFileAtomic(fsys FS, name string, data []byte, perm fs.FileMode) error {
	dir := filepath.Dir(name)
	tmp := filepath.Join(dir, "."+filepath.Base(name)+".rewrite")
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeNew(fsys, tmp, data, perm); err != nil {
		return errors.Join(err, removeLeft(fsys, tmp))
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return errors.Join(err, removeLeft(fsys, tmp))
	}
	return fsys.SyncDir(dir)
}

// writeNew creates name with durable content; the entry is not yet durable.
func writeNew(fsys FS, name string, data []byte, perm fs.FileMode) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// removeLeft removes a temporary file after a failure.
func removeLeft(fsys FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MkdirAll makes a directory and its missing parents and syncs the parent of
// each one it made, so that the path is durable when it returns. A directory
// that was there already is taken as it is; one that it made and could not make
// durable is removed again, so that nobody takes it for one that was there. It
// returns fs.ErrExist or syscall.ENOTDIR if something on the way is not a directory.
func MkdirAll(fsys FS, path string, perm fs.FileMode) error {
	path = filepath.Clean(path)
	isDir, err := leadsToDir(fsys, path)
	if isDir || err != nil {
		return err
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := MkdirAll(fsys, parent, perm); err != nil {
			return err
		}
	}
	if err := fsys.Mkdir(path, perm); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		// Somebody was quicker, but may not have synced yet; or it is a link to
		// nowhere.
		if isDir, lerr := leadsToDir(fsys, path); !isDir {
			return errors.Join(err, lerr)
		}
	}
	if err := fsys.SyncDir(parent); err != nil {
		_ = fsys.Remove(path) // which fails if somebody has put something there
		return err
	}
	return nil
}

// leadsToDir reports whether path is a directory or a symbolic link to one;
// parents such as macOS's /tmp are links. Nothing there is no error.
func leadsToDir(fsys FS, path string) (bool, error) {
	info, err := fsys.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || info.Mode.IsDir() {
		return err == nil, err
	}
	if info.Mode&fs.ModeSymlink == 0 {
		return false, pathError("mkdir", path, fs.ErrExist)
	}
	info, err = fsys.Lstat(path + string(filepath.Separator) + ".") // follows it
	return err == nil && info.Mode.IsDir(), err
}
