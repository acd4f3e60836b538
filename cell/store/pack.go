package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/hemera"
)

// place says where content lies: the number of its pack, and which one of it it is.
type place uint64

const ordinalBits = 16

func placeOf(pack int64, ordinal int) place { return place(pack)<<ordinalBits | place(ordinal) }
func (p place) pack() int64                 { return int64(p >> ordinalBits) }
func (p place) ordinal() int                { return int(p & (1<<ordinalBits - 1)) }

// The bounds of packs. One that is longer than packSize has a single item.
const (
	packSize  = 32 << 10
	packItems = 512
	maxPack   = 1<<(63-ordinalBits) - 1
)

const _ = uint(1<<ordinalBits - 1 - packItems)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The shape of a pack, numbers lowest byte first: the CRC-32C of all that follows;
// how many items; for each item its kind, where its bytes end and its particle; the
// bytes of all items.
const (
	packHead  = 8
	packEntry = 1 + 4 + hemera.Size
)

// appendPacks encodes items as packs.
func appendPacks(packs []*pack, items []record.Item) []*pack {
	for len(items) > 0 {
		n, size := 0, 0
		for n < len(items) && n < packItems {
			size += len(items[n].Bytes) + packEntry
			if n > 0 && size > packSize {
				size -= len(items[n].Bytes) + packEntry
				break
			}
			n++
		}
		packs = append(packs, newPack(items[:n], size))
		items = items[n:]
	}
	return packs
}

// pack is the content of one row, and what is known of it.
type pack struct {
	data    []byte
	checked []atomic.Uint64 // a bit an item: its bytes have been compared with its name
	size    int             // bytes of its items
}

func newPack(items []record.Item, size int) *pack {
	data := make([]byte, packHead+size)
	binary.LittleEndian.PutUint32(data[4:], uint32(len(items)))
	at, end := packHead, packHead+len(items)*packEntry
	for _, it := range items {
		end += copy(data[end:], it.Bytes)
		data[at] = byte(it.Kind)
		binary.LittleEndian.PutUint32(data[at+1:], uint32(end))
		copy(data[at+5:], it.Particle[:])
		at += packEntry
	}
	p := &pack{data: data, size: size - len(items)*packEntry}
	binary.LittleEndian.PutUint32(data, p.sum())
	p.checked = make([]atomic.Uint64, (len(items)+63)/64)
	return p
}

// items is how many items the pack has, by its header.
func (p *pack) items() int { return int(binary.LittleEndian.Uint32(p.data[4:])) }

// mark is the checksum that the pack says to have.
func (p *pack) mark() uint32 { return binary.LittleEndian.Uint32(p.data) }

// particle is the name of an item.
func (p *pack) particle(i int) (name record.Particle) {
	copy(name[:], p.data[packHead+i*packEntry+5:])
	return name
}

// item returns an item, whose bytes belong to the pack.
func (p *pack) item(i int) (record.Item, error) {
	at := packHead + i*packEntry
	begin := packHead + p.items()*packEntry
	if i > 0 {
		begin = int(binary.LittleEndian.Uint32(p.data[at-packEntry+1:]))
	}
	end := int(binary.LittleEndian.Uint32(p.data[at+1:]))
	if begin > end || end > len(p.data) {
		return record.Item{}, fmt.Errorf("%w: item %d lies outside of its pack", cell.ErrCorrupt, i)
	}
	return record.Item{Particle: p.particle(i), Kind: record.Kind(p.data[at]), Bytes: p.data[begin:end:end]}, nil
}

// readPack makes sure that the table of a pack is inside of it. Whether the bytes are
// those that were written is not asked: each item proves itself.
func readPack(number int64, data []byte) (*pack, error) {
	if len(data) < packHead {
		return nil, fmt.Errorf("%w: pack %d has %d bytes", cell.ErrCorrupt, number, len(data))
	}
	n := binary.LittleEndian.Uint32(data[4:])
	if n == 0 || n > packItems || packHead+int(n)*packEntry > len(data) {
		return nil, fmt.Errorf("%w: pack %d of %d bytes can't have %d items", cell.ErrCorrupt, number, len(data), n)
	}
	return &pack{data: data, checked: make([]atomic.Uint64, (n+63)/64), size: len(data) - packHead - int(n)*packEntry}, nil
}

// sum is the checksum of the table, without which nobody knows what the pack has. Each
// item proves itself.
func (p *pack) sum() uint32 {
	return crc32.Checksum(p.data[4:packHead+p.items()*packEntry], castagnoli)
}

// sound says whether the table of the pack is the one that was written.
func (p *pack) sound(number int64) error {
	if sum := p.sum(); sum != p.mark() {
		return fmt.Errorf("%w: pack %d has the checksum %08x, not %08x", cell.ErrCorrupt, number, sum, p.mark())
	}
	return nil
}

// verified returns an item whose bytes are what its name says.
func (p *pack) verified(i int) (record.Item, error) {
	it, err := p.item(i)
	if err != nil {
		return it, err
	}
	bit := uint64(1) << (i % 64)
	if p.checked[i/64].Load()&bit != 0 {
		return it, nil
	}
	if err := it.Check(); err != nil {
		return it, err
	}
	p.checked[i/64].Or(bit)
	return it, nil
}

// trust says that all items were verified before they came here.
func (p *pack) trust() {
	for i := range p.checked {
		p.checked[i].Store(^uint64(0))
	}
}
