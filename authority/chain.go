package authority

import (
	"fmt"
	"math"
	"slices"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

type (
	ordinalTable   = bindb.Table[record.OrdinalChain, *record.OrdinalChain]
	inventoryTable = bindb.Table[record.InventoryChain, *record.InventoryChain]
)

// linkOrdinal makes member the newest of owner's chain. It returns the member's
// previous reference and its ordinal, which is never given out again.
func linkOrdinal(tx *Tx, t ordinalTable, owner, member uint32) (record.Ref, uint8, error) {
	row, err := t.Get(tx, owner)
	if err != nil {
		return 0, 0, err
	}
	if row.Next >= record.MaxOrdinals {
		return 0, 0, fmt.Errorf("%s row %d: %w: all %d ordinals are used", t.File(), owner, bindb.ErrCapacity, record.MaxOrdinals)
	}
	if row.Count == math.MaxUint16 {
		return 0, 0, fmt.Errorf("%s row %d: %w: it counts %d", t.File(), owner, bindb.ErrCapacity, row.Count)
	}
	previous, ordinal := row.Latest, row.Next
	row.Latest = record.RefTo(member)
	row.Count++
	row.Next++
	return previous, ordinal, t.Put(tx.tx, owner, row)
}

// linkInventory makes member the newest of owner's inventory and returns the
// member's previous reference.
func linkInventory(tx *Tx, t inventoryTable, owner, member uint32) (record.Ref, error) {
	row, err := t.Get(tx, owner)
	if err != nil {
		return 0, err
	}
	if row.Count == math.MaxUint16 {
		return 0, fmt.Errorf("%s row %d: %w: it counts %d", t.File(), owner, bindb.ErrCapacity, row.Count)
	}
	previous := row.Latest
	row.Latest = record.RefTo(member)
	row.Count++
	return previous, t.Put(tx.tx, owner, row)
}

// addRows appends the empty chain rows of a new owner.
func addRows(tx *Tx, ordinal []ordinalTable, inventory []inventoryTable) error {
	for _, t := range ordinal {
		if _, err := t.Append(tx.tx, record.OrdinalChain{}); err != nil {
			return err
		}
	}
	for _, t := range inventory {
		if _, err := t.Append(tx.tx, record.InventoryChain{}); err != nil {
			return err
		}
	}
	return nil
}

// payload is what the record package gives for every payload grammar.
type payload interface{ Encode() ([]byte, error) }

// addPayload appends an encoded payload and returns its locator.
func addPayload(tx *Tx, file bindb.Payload, p payload) (uint64, uint16, error) {
	b, err := p.Encode()
	if err != nil {
		return 0, 0, bindb.Invalid(err)
	}
	if len(b) > math.MaxUint16 {
		return 0, 0, fmt.Errorf("%s: %w: %d bytes, at most %d fit", file.File(), bindb.ErrInvalid, len(b), math.MaxUint16)
	}
	off, err := file.Append(tx.tx, b)
	return off, uint16(len(b)), err
}

// readPayload decodes the payload of one record into p.
func readPayload(r bindb.Reader, file bindb.Payload, offset uint64, length uint16, p interface{ Decode([]byte) error }) error {
	b, err := file.Read(r, offset, int(length))
	if err != nil {
		return err
	}
	if err := p.Decode(b); err != nil {
		return fmt.Errorf("%s at %d: %w: %w", file.File(), offset, bindb.ErrCorrupt, err)
	}
	return nil
}

// walk follows a chain from its newest member and returns the members oldest
// first. One with more members than any chain counts is refused, so that the walk
// ends.
func walk[T any](latest record.Ref, get func(uint32) (T, error), previous func(T) record.Ref) ([]T, error) {
	var list []T
	for ref := latest; ref != 0; {
		i, _ := ref.Index()
		m, err := get(i)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
		next := previous(m)
		if len(list) > math.MaxUint16 || next == ref {
			return nil, fmt.Errorf("%w: the chain through record %d does not end", bindb.ErrCorrupt, i)
		}
		ref = next
	}
	slices.Reverse(list)
	return list, nil
}
