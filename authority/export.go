package authority

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

const exportSchema = "writ.db-export.v1"

// ExportHeader is the first line of an export.
type ExportHeader struct {
	Schema       string `json:"schema"`
	LayoutID     int    `json:"layout_id"`
	Installation string `json:"installation"`
	Generation   uint64 `json:"generation"`
	Epoch        uint64 `json:"epoch"`
	// Repository is set when the export is of one Repository only.
	Repository *uint32 `json:"repository,omitempty"`
}

// ExportRecord is every other line of an export.
type ExportRecord struct {
	// Root is "registry", or "repositories/" and the index of the Repository.
	Root  string `json:"root"`
	File  string `json:"file"`
	Index uint32 `json:"index"`
	// Fields has the fields in the order in which they are stored: integers, and
	// hexadecimal text for hashes and bytes.
	Fields json.RawMessage `json:"fields"`
	// Decoded says what fields stand for: the name of a value, a time, text, the
	// record that is referred to, or the parts of a metadata field. The fields
	// that stand for nothing else are left out.
	Decoded json.RawMessage `json:"decoded,omitempty"`
	// Payload has the texts of the record by name.
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Export writes every record as one line of JSON: the header, the registry, then
// each Repository that has a directory, in order; or only the registry's record
// and the records of one Repository. What it writes depends on the records alone.
// All of it is one state of the registry, and each Repository one state of its
// own; its writers wait while it is read, so that w should not be slow. It returns
// the number of records.
func (a *Authority) Export(ctx context.Context, w io.Writer, only *uint32) (int64, error) {
	e := &exporter{ctx: ctx, out: bufio.NewWriterSize(w, 1<<16)}
	err := a.holdRegistry(ctx, func(reg bindb.Reader) error { return a.export(ctx, e, reg, only) })
	if err == nil {
		err = e.out.Flush()
	}
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	return e.records, nil
}

func (a *Authority) export(ctx context.Context, e *exporter, reg bindb.Reader, only *uint32) error {
	list, err := listRepositories(reg)
	if err != nil {
		return err
	}
	if only != nil && (uint64(*only) >= uint64(len(list)) || list[*only].Meta.Tombstoned()) {
		return fmt.Errorf("repository %d: %w", *only, bindb.ErrNotFound)
	}
	head := ExportHeader{exportSchema, bindb.LayoutID, a.active.Installation, a.active.Generation, a.active.Epoch, only}
	if err := e.line(head); err != nil {
		return err
	}
	if err := e.root("registry", reg, func(r *bindb.RawRecord) bool { return only == nil || r.Index == *only }); err != nil {
		return err
	}
	for _, info := range list {
		if info.Meta.Tombstoned() || only != nil && info.Index != *only {
			continue
		}
		err := a.withRoot(ctx, info.Index, func(root *bindb.Root) error {
			return root.View(ctx, func(r bindb.Reader) error {
				return e.root("repositories/"+label(info.Index), r, func(*bindb.RawRecord) bool { return true })
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// exporter writes the lines.
type exporter struct {
	ctx     context.Context
	out     *bufio.Writer
	records int64
}

func (e *exporter) line(v any) error {
	b, err := marshal(v)
	if err != nil {
		return err
	}
	_, err = e.out.Write(append(b, '\n'))
	return err
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func (e *exporter) root(name string, r bindb.Reader, want func(*bindb.RawRecord) bool) error {
	return bindb.Records(e.ctx, r, func(raw *bindb.RawRecord) error {
		if !want(raw) {
			return nil
		}
		fields, decoded, err := exportFields(record.Dump(raw.Layout, int(raw.Index), raw.Bytes))
		if err != nil {
			return err
		}
		var payload json.RawMessage
		if len(raw.Payload) > 0 {
			p, ok := record.NewPayload(raw.PayloadFile)
			if !ok {
				return fmt.Errorf("%w: %s has no grammar", bindb.ErrInvalid, raw.PayloadFile)
			}
			if err := p.Decode(raw.Payload); err != nil {
				return &bindb.RecordError{File: raw.Layout.File, Index: raw.Index, Err: err}
			}
			if payload, err = marshal(p); err != nil {
				return err
			}
		}
		e.records++
		return e.record(name, raw, fields, decoded, payload)
	})
}

// record writes the line of an ExportRecord.
func (e *exporter) record(root string, raw *bindb.RawRecord, fields, decoded, payload json.RawMessage) error {
	var line object
	for _, m := range []struct {
		name  string
		value any
	}{
		{"root", root}, {"file", raw.Layout.File}, {"index", uint64(raw.Index)},
		{"fields", fields}, {"decoded", decoded}, {"payload", payload},
	} {
		if b, ok := m.value.(json.RawMessage); ok && b == nil {
			continue
		}
		if err := line.add(m.name, m.value); err != nil {
			return err
		}
	}
	_, err := e.out.Write(append(line.end(), '\n'))
	return err
}

// object is a JSON object whose members have an order. An export has many, which
// encoding/json would take most of its time for.
type object struct{ b []byte }

func (o *object) add(name string, value any) error {
	sep := byte(',')
	if o.b == nil {
		sep = '{'
	}
	o.b = append(append(append(o.b, sep, '"'), name...), '"', ':')
	switch v := value.(type) {
	case uint64:
		o.b = strconv.AppendUint(o.b, v, 10)
		return nil
	case json.RawMessage:
		o.b = append(o.b, v...)
		return nil
	case string:
		if plain(v) {
			o.b = append(append(append(o.b, '"'), v...), '"')
			return nil
		}
	}
	b, err := marshal(value)
	o.b = append(o.b, b...)
	return err
}

// plain reports whether a text is the same in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// end returns the object, or nil when it has no member.
func (o *object) end() json.RawMessage {
	if o.b == nil {
		return nil
	}
	return append(o.b, '}')
}

func exportFields(d record.Dumped) (fields, decoded json.RawMessage, err error) {
	var all, said object
	for _, f := range d.Fields {
		if err := all.add(f.Name, f.Value); err != nil {
			return nil, nil, err
		}
		var meaning any = f.Meaning
		switch {
		case f.Bits != nil:
			var bits object
			for _, b := range f.Bits {
				var value any = b.Value
				if b.Meaning != "" {
					value = b.Meaning
				}
				if err := bits.add(b.Name, value); err != nil {
					return nil, nil, err
				}
			}
			meaning = bits.end()
		case f.Meaning == "":
			continue
		}
		if err := said.add(f.Name, meaning); err != nil {
			return nil, nil, err
		}
	}
	return all.end(), said.end(), nil
}
