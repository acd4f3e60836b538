package convert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// image is the content of files that are built in memory before they are written
// as a whole.
type image struct {
	files map[string][]byte // by file name, without headers
}

func newImage() *image { return &image{map[string][]byte{}} }

// count is the number of records of a family so far.
func (im *image) count(l *record.Layout) uint32 { return uint32(len(im.files[l.File]) / l.Size) }

// add appends a record, which must satisfy what it can show by itself.
func add[T any, P record.Codec[T]](im *image, rec P) (uint32, error) {
	return addTo(im, rec.Layout(), rec)
}

// addTo is add for the chain rows, whose files share a type.
func addTo[T any, P record.Codec[T]](im *image, l *record.Layout, rec P) (uint32, error) {
	if c, ok := any(rec).(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return 0, err
		}
	}
	n := im.count(l)
	if n >= record.MaxTargets {
		return 0, fmt.Errorf("%w: %s holds %d records", bindb.ErrCapacity, l.File, n)
	}
	b := im.files[l.File]
	b = append(b, make([]byte, l.Size)...)
	rec.Encode(b[len(b)-l.Size:])
	im.files[l.File] = b
	return n, nil
}

// text appends variable bytes and gives their locator.
func (im *image) text(p bindb.Payload, text record.Payload) (off uint64, n int, err error) {
	b, err := text.Encode()
	if err != nil {
		return 0, 0, err
	}
	off = uint64(bindb.HeaderSize + len(im.files[p.File()]))
	im.files[p.File()] = append(im.files[p.File()], b...)
	return off, len(b), nil
}

// write puts the files into the root that bindb.Create has made and makes them
// durable.
func (im *image) write(ctx context.Context, cfg bindb.Config) error {
	syncs := newSyncs()
	err := func() error {
		for _, file := range record.Files(cfg.Kind) {
			b := im.files[file]
			if len(b) == 0 {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			f, err := cfg.FS.OpenFile(filepath.Join(cfg.Dir, file), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			if _, err := f.WriteAt(b, bindb.HeaderSize); err != nil {
				return errors.Join(err, f.Close())
			}
			syncs.add(f)
		}
		return nil
	}()
	return errors.Join(err, syncs.wait())
}

// ordinals are the rows of one chain whose members have ordinals. Members join in
// the order of their ordinals.
type ordinals struct {
	file string
	rows []record.OrdinalChain
}

// inventories are the rows of one chain in the order of records.
type inventories struct {
	file string
	rows []record.InventoryChain
}

// owner adds the empty row of a new owner.
func (o *ordinals) owner() { o.rows = append(o.rows, record.OrdinalChain{}) }

func (o *inventories) owner() { o.rows = append(o.rows, record.InventoryChain{}) }

// join links a member and gives the one before it.
func (o *ordinals) join(owner, member uint32, ordinal uint8) (previous record.Ref) {
	r := &o.rows[owner]
	previous = r.Latest
	r.Latest, r.Count, r.Next = record.RefTo(member), r.Count+1, ordinal+1
	return previous
}

// join links a member and gives the one before it.
func (o *inventories) join(owner, member uint32) (previous record.Ref, err error) {
	r := &o.rows[owner]
	if r.Count == math.MaxUint16 {
		return 0, fmt.Errorf("%w: %s counts at most %d members of one owner", bindb.ErrCapacity, o.file, math.MaxUint16)
	}
	previous = r.Latest
	r.Latest, r.Count = record.RefTo(member), r.Count+1
	return previous, nil
}

func (o *ordinals) add(im *image) error { return addRows(im, o.file, o.rows) }

func (o *inventories) add(im *image) error { return addRows(im, o.file, o.rows) }

func addRows[T any, P record.Codec[T]](im *image, file string, rows []T) error {
	l, _ := record.ByFile(file)
	for i := range rows {
		if _, err := addTo(im, l, P(&rows[i])); err != nil {
			return fmt.Errorf("%s record %d: %w", file, i, err)
		}
	}
	return nil
}
