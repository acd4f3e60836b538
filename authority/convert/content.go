package convert

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// content reads the content and Plan families of a root that is being built. They
// came in binary form and have not been validated yet.
type content struct {
	cfg   bindb.Config
	files map[string]vfs.File

	lines     map[string]uint32 // live, by name
	snapshots map[uint64]found  // by public identity
}

// found is what an identity names.
type found struct {
	index     uint32
	dead      bool // tombstoned
	ambiguous bool // another one has the same identity
}

func openContent(cfg bindb.Config) (*content, error) {
	c := &content{cfg: cfg, files: map[string]vfs.File{}, lines: map[string]uint32{}, snapshots: map[uint64]found{}}
	err := c.readLines()
	if err == nil {
		err = scan(c, func(i uint32, s *record.Snapshot) error {
			_, twice := c.snapshots[s.Hash48]
			c.snapshots[s.Hash48] = found{i, s.Meta.Tombstoned(), twice}
			return nil
		})
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *content) readLines() error {
	twice := map[string]bool{}
	err := scan(c, func(i uint32, l *record.Line) error {
		if l.Meta.Tombstoned() {
			return nil
		}
		var p record.LineNamePayload
		if err := c.text(bindb.LineNamePayload.File(), l.NameOffset, int(l.NameLen), &p); err != nil {
			return &bindb.RecordError{File: bindb.Lines.File(), Index: i, Err: err}
		}
		if _, ok := c.lines[p.Name]; ok {
			twice[p.Name] = true
		}
		c.lines[p.Name] = i
		return nil
	})
	for name := range twice {
		delete(c.lines, name)
	}
	return err
}

func (c *content) close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Close()) // only read
	}
	return errors.Join(errs...)
}

func (c *content) file(name string) (vfs.File, error) {
	if f, ok := c.files[name]; ok {
		return f, nil
	}
	f, err := c.cfg.FS.OpenFile(filepath.Join(c.cfg.Dir, name), os.O_RDONLY, 0)
	if err == nil {
		c.files[name] = f
	}
	return f, err
}

// read fills b from a file.
func (c *content) read(name string, b []byte, off int64) error {
	f, err := c.file(name)
	if err != nil {
		return err
	}
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s: %d bytes at %d lie outside of the file", bindb.ErrCorrupt, name, len(b), off)
	}
	return err
}

// text reads and decodes variable bytes.
func (c *content) text(file string, off uint64, n int, p record.Payload) error {
	if off > 1<<62 {
		return fmt.Errorf("%w: %s has no byte %d", bindb.ErrCorrupt, file, off)
	}
	b := make([]byte, n)
	if err := c.read(file, b, int64(off)); err != nil {
		return err
	}
	return p.Decode(b)
}

// get reads one record.
func get[T any, P record.Codec[T]](c *content, i uint32) (rec T, err error) {
	l := P(&rec).Layout()
	b := make([]byte, l.Size)
	if err := c.read(l.File, b, bindb.HeaderSize+int64(i)*int64(l.Size)); err != nil {
		return rec, err
	}
	if err := P(&rec).Decode(b); err != nil {
		return rec, &bindb.RecordError{File: l.File, Index: i, Err: err}
	}
	return rec, nil
}

// list reads records that follow one another.
func list[T any, P record.Codec[T]](c *content, first, count uint32) ([]T, error) {
	var rec T
	l := P(&rec).Layout()
	n, err := size[T, P](c)
	if err != nil {
		return nil, err
	}
	if first > n || count > n-first {
		return nil, fmt.Errorf("%w: %s has no records %d+%d", bindb.ErrCorrupt, l.File, first, count)
	}
	b := make([]byte, int(count)*l.Size)
	if err := c.read(l.File, b, bindb.HeaderSize+int64(first)*int64(l.Size)); err != nil {
		return nil, err
	}
	recs := make([]T, count)
	for i := range recs {
		if err := P(&recs[i]).Decode(b[i*l.Size : (i+1)*l.Size]); err != nil {
			return nil, &bindb.RecordError{File: l.File, Index: first + uint32(i), Err: err}
		}
	}
	return recs, nil
}

// size is the number of records of a family.
func size[T any, P record.Codec[T]](c *content) (uint32, error) {
	var rec T
	l := P(&rec).Layout()
	f, err := c.file(l.File)
	if err != nil {
		return 0, err
	}
	n, err := f.Size()
	return uint32((n - bindb.HeaderSize) / int64(l.Size)), err
}

// scan goes through all records of a family.
func scan[T any, P record.Codec[T]](c *content, fn func(uint32, *T) error) error {
	const about = 4096
	n, err := size[T, P](c)
	if err != nil {
		return err
	}
	for first := uint32(0); first < n; first += about {
		recs, err := list[T, P](c, first, min(about, n-first))
		if err != nil {
			return err
		}
		for i := range recs {
			if err := fn(first+uint32(i), &recs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
