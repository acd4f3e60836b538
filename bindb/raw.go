package bindb

import (
	"context"

	"github.com/writ-authority/writ/bindb/record"
)

// RawRecord is one record as it lies in its file, with the bytes of its payload.
// Both are valid inside the function that got them.
type RawRecord struct {
	Layout      *record.Layout
	Index       uint32
	Bytes       []byte
	PayloadFile string // empty for a family without payload
	Payload     []byte
}

// Records calls fn for every record of the root: file after file in the order of
// the inventory, and in each one in the order of the index.
func Records(ctx context.Context, rd Reader, fn func(*RawRecord) error) error {
	for _, layout := range record.Layouts() {
		f, ok := byFile[layout.File]
		if !ok || f.root != rd.root().Kind || layout.Kind == record.KindHelper {
			continue
		}
		count, err := rd.count(f)
		if err != nil {
			return err
		}
		raw := RawRecord{Layout: layout}
		loc, hasPayload := locators[f]
		var text payloadReader
		if hasPayload {
			raw.PayloadFile, text = loc.payload.file, payloadReader{src: rd, f: loc.payload}
		}
		err = pieces(rd, f, HeaderSize, f.offset(count), f.wholeRecords(copyPiece), func(at int64, b []byte) error {
			for raw.Index = f.index(at); len(b) > 0; raw.Index++ {
				raw.Bytes, b = b[:f.size], b[f.size:]
				if hasPayload {
					raw.Payload = nil
					if off, n := loc.get(raw.Bytes); n > 0 {
						if raw.Payload, err = text.bytes(off, n); err != nil {
							return &RecordError{f.file, raw.Index, err}
						}
					}
				}
				if err := fn(&raw); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}
