package bindb

import (
	"github.com/writ-authority/writ/bindb/record"
)

// HeaderSize is the length in bytes of the header of every .bin and .idx file:
// the little-endian u32 layout id (Binary DB v0, section 2.1).
const HeaderSize = record.HeaderSize

// LayoutID is the only layout that this package reads and writes.
const LayoutID = record.LayoutID

// MaxTargets is the greatest number of records in one family, so that index
// plus one always fits a u32 (section 18.1).
const MaxTargets = record.MaxTargets

var header = [HeaderSize]byte{LayoutID, 0, 0, 0}

// stage orders the writes of one batch. All files of a stage are written and
// synced before the first byte of the next stage is written (section 13.1).
type stage uint8

const (
	stagePayload stage = iota // variable bytes, nothing refers to them yet
	stageDetail               // records that a committing record refers to
	stageRecord               // the records and chain rows that commit
	stageJob                  // job states, after the results they acknowledge
	stageCount
)

// family is one .bin file of a root.
type family struct {
	no      int // position in families
	file    string
	root    record.Root
	size    int  // bytes a record; 1 for a payload file
	shift   uint // of a chunk in memory, see image
	fixed   bool
	append  stage
	replace stage
}

// detail names the families whose new records others refer to in the same
// batch.
var detail = map[string]bool{
	"actor.bin": true, "line.bin": true, "snapshot.bin": true,
	"snapshot_parent_edge.bin": true, "policy_check.bin": true,
	"plan_item.bin": true, "plan_revision.bin": true, "worker_job.bin": true,
}

var families, byFile = declareFamilies()

func declareFamilies() ([]*family, map[string]*family) {
	var list []*family
	byFile := map[string]*family{}
	add := func(f *family) {
		f.no = len(list)
		list = append(list, f)
		byFile[f.file] = f
	}
	for _, l := range record.Layouts() {
		if l.Kind != record.KindRecord && l.Kind != record.KindChain {
			continue
		}
		f := &family{file: l.File, root: l.Root, size: l.Size, shift: recordShift, fixed: true, append: stageRecord, replace: stageRecord}
		if detail[l.File] {
			f.append = stageDetail
		}
		if l.File == "worker_job.bin" {
			f.replace = stageJob
		}
		add(f)
	}
	for _, p := range record.PayloadFiles() {
		add(&family{file: p.File, root: p.Root, size: 1, shift: payloadShift, append: stagePayload, replace: stagePayload})
	}
	return list, byFile
}

func mustFamily(file string) *family {
	f, ok := byFile[file]
	if !ok {
		panic("bindb: no family " + file)
	}
	return f
}

// count is the number of records in a file of the given length.
func (f *family) count(length int64) (uint32, error) {
	body := length - HeaderSize
	if body < 0 {
		return 0, shortFile(f, length)
	}
	if body%int64(f.size) != 0 {
		return 0, corruptf("%s: %d bytes behind the header are not a multiple of the record size %d", f.file, body, f.size)
	}
	n := body / int64(f.size)
	if n > MaxTargets {
		return 0, corruptf("%s holds %d records, more than %d", f.file, n, int64(MaxTargets))
	}
	return uint32(n), nil
}

func (f *family) offset(index uint32) int64 {
	return HeaderSize + int64(index)*int64(f.size)
}

// index is the record that begins at off.
func (f *family) index(off int64) uint32 { return uint32((off - HeaderSize) / int64(f.size)) }

// shortFile is the error for a file that cannot hold its header.
func shortFile(f *family, size int64) error {
	return corruptf("%s is %d bytes long, shorter than its %d byte header", f.file, size, HeaderSize)
}

// outside is the error for a range that does not lie in the file.
func outside(f *family, n int, off int64) error {
	return corruptf("%s: read of %d bytes at %d is outside of the file", f.file, n, off)
}
