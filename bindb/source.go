package bindb

import "github.com/writ-authority/writ/bindb/record"

// source is what files are read from: a Reader, or files that somebody may be
// writing to.
type source interface {
	size(f *family) (int64, error)
	readAt(f *family, p []byte, off int64) error
}

// familiesOf lists the files of a root.
func familiesOf(kind record.Root) []*family { return familiesByRoot[kind] }

var familiesByRoot = func() map[record.Root][]*family {
	lists := map[record.Root][]*family{}
	for _, f := range families {
		lists[f.root] = append(lists[f.root], f)
	}
	return lists
}()

// pieces calls fn for the bytes from..to-1 of a file, step of them at a time and
// the rest in the end. What fn gets is used again.
func pieces(src source, f *family, from, to int64, step int, fn func(at int64, b []byte) error) error {
	if from >= to {
		return nil
	}
	buf := make([]byte, min(int64(step), to-from))
	for at := from; at < to; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), to-at)]
		if err := src.readAt(f, buf, at); err != nil {
			return err
		}
		if err := fn(at, buf); err != nil {
			return err
		}
	}
	return nil
}

// wholeRecords is a step of about n bytes for pieces that end with a record.
func (f *family) wholeRecords(n int) int { return max(n/f.size, 1) * f.size }

// eachRecord calls fn for the records from..to-1 in order, which it reads in large
// pieces.
func eachRecord(src source, f *family, from, to uint32, fn func(i uint32, raw []byte) error) error {
	const piece = 64 << 10
	return pieces(src, f, f.offset(from), f.offset(to), f.wholeRecords(piece), func(at int64, b []byte) error {
		for i := f.index(at); len(b) > 0; i++ {
			if err := fn(i, b[:f.size:f.size]); err != nil {
				return err
			}
			b = b[f.size:]
		}
		return nil
	})
}
