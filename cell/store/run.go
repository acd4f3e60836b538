package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sort"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
)

// run is a sorted part of the index, in pages of the file. They never change.
type run struct {
	number  int64
	entries uint64
	fences  []key  // the first key of each page
	filter  []byte // of the keys; none for a run that is too long for one
	damaged bool   // a merge could not read it; of the indexer
}

// The numbers of runs and pages.
const (
	pageBits    = 24
	pageEntries = 508 // what one page of SQLite has room for, without one that overflows
	pageHead    = 12
	entrySize   = 16
	maxRun      = 1<<(63-pageBits) - 1
)

func (r *run) page(n int) int64 { return r.number<<pageBits | int64(n) }

// The shape of a page: the CRC-32C of what follows, its number, and its entries, key
// before place.
func encodePage(number int64, list []entry) []byte {
	data := make([]byte, pageHead, pageHead+len(list)*entrySize)
	binary.LittleEndian.PutUint64(data[4:], uint64(number))
	for _, e := range list {
		data = binary.LittleEndian.AppendUint64(data, uint64(e.key))
		data = binary.LittleEndian.AppendUint64(data, uint64(e.place))
	}
	binary.LittleEndian.PutUint32(data, crc32.Checksum(data[4:], castagnoli))
	return data
}

func checkPage(number int64, data []byte) error {
	if len(data) < pageHead+entrySize || (len(data)-pageHead)%entrySize != 0 || len(data) > pageHead+pageEntries*entrySize {
		return fmt.Errorf("%w: page %d of the index, of run %d, has %d bytes", cell.ErrCorrupt, number, number>>pageBits, len(data))
	}
	sum := crc32.Checksum(data[4:], castagnoli)
	if said := binary.LittleEndian.Uint32(data); said != sum {
		return fmt.Errorf("%w: page %d of the index, of run %d, has the checksum %08x, not %08x", cell.ErrCorrupt, number, number>>pageBits, sum, said)
	}
	if said := binary.LittleEndian.Uint64(data[4:]); said != uint64(number) {
		return fmt.Errorf("%w: page %d of the index, of run %d, says that it is %d", cell.ErrCorrupt, number, number>>pageBits, said)
	}
	return nil
}

func pageLen(data []byte) int { return (len(data) - pageHead) / entrySize }

func pageEntry(data []byte, i int) entry {
	b := data[pageHead+i*entrySize:]
	return entry{key(binary.LittleEndian.Uint64(b)), place(binary.LittleEndian.Uint64(b[8:]))}
}

// first is the first page that may have a key, and may says of a later one whether it
// may as well.
func (r *run) first(k key) int {
	return max(0, sort.Search(len(r.fences), func(i int) bool { return r.fences[i] >= k })-1)
}

func (r *run) may(page int, k key) bool { return page < len(r.fences) && r.fences[page] <= k }

// has is false if the run has no such key.
func (r *run) has(k key) bool { return len(r.filter) == 0 || filterHas(r.filter, k) }

// The filters: ten bits a key, of which each key sets six, so that one in a hundred
// that is not there seems to be. Digests are uniform, so that a key is its own hash.
const (
	filterBits   = 10
	filterProbes = 6
	filterMax    = 8 << 20 // keys
)

func newFilter(entries uint64) []byte {
	if entries > filterMax {
		return nil
	}
	return make([]byte, (entries*filterBits+7)/8)
}

func filterBit(filter []byte, k key, probe uint32) uint64 {
	h := uint32(k) + probe*(uint32(k>>32)|1)
	return uint64(h) * (uint64(len(filter)) * 8) >> 32
}

func filterAdd(filter []byte, k key) {
	for n := range uint32(filterProbes) {
		bit := filterBit(filter, k, n)
		filter[bit/8] |= 1 << (bit % 8)
	}
}

func filterHas(filter []byte, k key) bool {
	for n := range uint32(filterProbes) {
		bit := filterBit(filter, k, n)
		if filter[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
	}
	return true
}

// The shape of the row of a run: the CRC-32C of what follows, its number, how many
// entries and pages it has, the fences and the filter.
const runHead = 28

func (r *run) encode() []byte {
	data := make([]byte, runHead, runHead+8*len(r.fences)+len(r.filter))
	binary.LittleEndian.PutUint64(data[4:], uint64(r.number))
	binary.LittleEndian.PutUint64(data[12:], r.entries)
	binary.LittleEndian.PutUint64(data[20:], uint64(len(r.fences)))
	for _, f := range r.fences {
		data = binary.LittleEndian.AppendUint64(data, uint64(f))
	}
	data = append(data, r.filter...)
	binary.LittleEndian.PutUint32(data, crc32.Checksum(data[4:], castagnoli))
	return data
}

func decodeRun(number int64, data []byte) (*run, error) {
	if len(data) < runHead || crc32.Checksum(data[4:], castagnoli) != binary.LittleEndian.Uint32(data) ||
		binary.LittleEndian.Uint64(data[4:]) != uint64(number) {
		return nil, fmt.Errorf("%w: run %d of the index is not what was written", cell.ErrCorrupt, number)
	}
	r := &run{number: number, entries: binary.LittleEndian.Uint64(data[12:])}
	pages := binary.LittleEndian.Uint64(data[20:])
	rest := data[runHead:]
	filter := len(newFilter(r.entries))
	if pages > 1<<pageBits || r.entries > pages*pageEntries || uint64(len(rest)) != 8*pages+uint64(filter) {
		return nil, fmt.Errorf("%w: run %d of the index has %d entries, %d pages and %d bytes", cell.ErrCorrupt, number, r.entries, pages, len(data))
	}
	r.fences = make([]key, pages)
	for i := range r.fences {
		r.fences[i] = key(binary.LittleEndian.Uint64(rest[8*i:]))
	}
	if !slices.IsSorted(r.fences) {
		return nil, fmt.Errorf("%w: run %d of the index is not sorted", cell.ErrCorrupt, number)
	}
	r.filter = rest[8*pages:]
	return r, nil
}

// manifest says which runs count, and up to which pack they have everything. It is the
// row of runs with the number 0: the CRC-32C of what follows, the floor, how many packs
// there are up to it, and the numbers of the runs. Without one there are no runs, and all packs are read again.
type manifest struct {
	floor, packs int64
	runs         []int64
}

func (m *manifest) encode() []byte {
	data := binary.LittleEndian.AppendUint64(make([]byte, 4), uint64(m.floor))
	data = binary.LittleEndian.AppendUint64(data, uint64(m.packs))
	for _, n := range m.runs {
		data = binary.LittleEndian.AppendUint64(data, uint64(n))
	}
	binary.LittleEndian.PutUint32(data, crc32.Checksum(data[4:], castagnoli))
	return data
}

func decodeManifest(data []byte) (m manifest, err error) {
	if len(data) < 20 || len(data)%8 != 4 || crc32.Checksum(data[4:], castagnoli) != binary.LittleEndian.Uint32(data) {
		return m, fmt.Errorf("%w: the list of the runs of the index is not what was written", cell.ErrCorrupt)
	}
	m.floor = int64(binary.LittleEndian.Uint64(data[4:]))
	m.packs = int64(binary.LittleEndian.Uint64(data[12:]))
	for at := 20; at < len(data); at += 8 {
		m.runs = append(m.runs, int64(binary.LittleEndian.Uint64(data[at:])))
	}
	return m, nil
}

// readRuns reads the manifest and the runs that count. What is damaged of them comes in
// damaged; the packs have everything that is needed to make it again.
func readRuns(c conn) (m manifest, runs []*run, damaged []error, err error) {
	rows := map[int64][]byte{}
	err = c.query("SELECT run, data FROM runs", nil, func(q *sqlite.Stmt) error {
		rows[q.ColumnInt64(0)] = bytes(q, 1)
		return nil
	})
	if err != nil || len(rows) == 0 {
		return m, nil, nil, err
	}
	m, wrong := decodeManifest(rows[0])
	if wrong != nil {
		return manifest{}, nil, []error{wrong}, nil
	}
	for _, number := range m.runs {
		r, wrong := decodeRun(number, rows[number])
		if wrong != nil {
			damaged = append(damaged, wrong)
			continue
		}
		runs = append(runs, r)
	}
	return m, runs, damaged, nil
}
