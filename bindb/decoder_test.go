package bindb_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// The table in testdata/layout.json was not made from the declarations of package
// record. A decoder that is driven by it alone, and knows nothing else of the
// format, must read the same from every record as the generated ones.
type layoutTable struct {
	Header struct {
		Size  int
		Value uint32
	}
	Records []tableRecord
	Vectors []struct {
		Record string
		Fields map[string]any
		Hex    string
	}
}

type tableRecord struct {
	Name, File, Root, Kind string
	Size                   int
	Fields                 []tableField
}

type tableField struct {
	Name          string
	Offset, Width int
	Type          string
}

func readTable(t *testing.T) *layoutTable {
	t.Helper()
	raw, err := os.ReadFile("testdata/layout.json")
	if err != nil {
		t.Fatal(err)
	}
	var table layoutTable
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // hashes need all 64 bits
	if err := d.Decode(&table); err != nil {
		t.Fatal(err)
	}
	return &table
}

func (l *layoutTable) byFile(file string) *tableRecord {
	if i := slices.IndexFunc(l.Records, func(r tableRecord) bool { return r.File == file }); i >= 0 {
		return &l.Records[i]
	}
	return nil
}

// value is a number, or hexadecimal digits for bytes.
func (f tableField) value(b []byte) any {
	b = b[f.Offset : f.Offset+f.Width]
	if f.Type != fmt.Sprintf("u%d", 8*f.Width) {
		return hex.EncodeToString(b)
	}
	n := uint64(0)
	for i := f.Width - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n
}

// productDecoders decode a record of each file and give its fields in the order
// of their offsets; reserved ones are nil.
var productDecoders = declareDecoders()

type decoders map[string]func([]byte) ([]any, error)

func decodes[T any, P record.Codec[T]](all decoders, file string) {
	all[file] = func(b []byte) ([]any, error) {
		var rec T
		if err := P(&rec).Decode(b); err != nil {
			return nil, err
		}
		v := reflect.ValueOf(rec)
		var fields []any
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case v.Type().Field(i).Name == "_":
				fields = append(fields, nil)
			case f.Kind() == reflect.Array:
				raw := make([]byte, f.Len())
				for j := range raw {
					raw[j] = byte(f.Index(j).Uint())
				}
				fields = append(fields, hex.EncodeToString(raw))
			default:
				fields = append(fields, f.Uint())
			}
		}
		return fields, nil
	}
}

func declareDecoders() decoders {
	all := decoders{}
	decodes[record.Repository](all, "repository.bin")
	decodes[record.NamespaceIndex](all, "repository_namespace.idx")
	decodes[record.Task](all, "task.bin")
	decodes[record.Change](all, "change.bin")
	decodes[record.Patchset](all, "patchset.bin")
	decodes[record.Attestation](all, "attest.bin")
	decodes[record.Actor](all, "actor.bin")
	decodes[record.ActorLookupIndex](all, "actor_lookup.idx")
	decodes[record.Review](all, "review.bin")
	decodes[record.PolicyDecision](all, "policy.bin")
	decodes[record.PolicyCheck](all, "policy_check.bin")
	decodes[record.Waiver](all, "waiver.bin")
	decodes[record.Land](all, "land.bin")
	decodes[record.SnapshotLink](all, "snapshot_link.bin")
	decodes[record.Plan](all, "plan.bin")
	decodes[record.PlanRevision](all, "plan_revision.bin")
	decodes[record.PlanItem](all, "plan_item.bin")
	decodes[record.Line](all, "line.bin")
	decodes[record.LineNameIndex](all, "line_name.idx")
	decodes[record.Snapshot](all, "snapshot.bin")
	decodes[record.SnapshotIDIndex](all, "snapshot_id.idx")
	decodes[record.ManifestHashIndex](all, "manifest_hash.idx")
	decodes[record.SnapshotParentEdge](all, "snapshot_parent_edge.bin")
	decodes[record.SnapshotParentChildIndex](all, "snapshot_parent_child.idx")
	decodes[record.Blob](all, "blob.bin")
	decodes[record.BlobIDIndex](all, "blob_id.idx")
	decodes[record.ObjectPack](all, "object_pack.bin")
	decodes[record.ObjectPackMember](all, "object_pack_member.bin")
	decodes[record.ObjectPackIDIndex](all, "object_pack_id.idx")
	decodes[record.TreePack](all, "tree_pack.bin")
	decodes[record.TreePackIDIndex](all, "tree_pack_id.idx")
	decodes[record.Tree](all, "tree.bin")
	decodes[record.TreeIDIndex](all, "tree_id.idx")
	decodes[record.TreeEntryRange](all, "tree_entry_range.bin")
	decodes[record.TreeEntry](all, "tree_entry.bin")
	decodes[record.WorkerJob](all, "worker_job.bin")
	decodes[record.WorkerReadyIndex](all, "worker_ready.idx")
	decodes[record.WorkerStateIndex](all, "worker_state.idx")
	for _, c := range record.Chains() {
		if c.Ordinal {
			decodes[record.OrdinalChain](all, c.File)
		} else {
			decodes[record.InventoryChain](all, c.File)
		}
	}
	return all
}

// agree compares the two decoders on one record.
func agree(t *testing.T, rec *tableRecord, b []byte) {
	t.Helper()
	l, ok := record.ByFile(rec.File)
	if !ok || l.Size != rec.Size || len(l.Fields) != len(rec.Fields) || l.Name != rec.Name {
		t.Fatalf("%s: the product declares %+v", rec.File, l)
	}
	fields, err := productDecoders[rec.File](b)
	if err != nil {
		t.Errorf("%s % x: %v", rec.File, b, err)
		return
	}
	for i, f := range rec.Fields {
		if l.Fields[i].Name != f.Name {
			t.Errorf("%s: field %d is called %s, in the table %s", rec.File, i, l.Fields[i].Name, f.Name)
		}
		want := f.value(b)
		if i < len(fields) && fields[i] == nil {
			// Reserved: decoding has succeeded, so that it must be zero.
			if n, ok := want.(uint64); ok && n != 0 {
				t.Errorf("%s: the product takes %d for the reserved field %s", rec.File, n, f.Name)
			}
			continue
		}
		if i >= len(fields) || fields[i] != want {
			t.Errorf("%s: %s is %v, by the table %v", rec.File, f.Name, fields[i], want)
		}
	}
}

func TestDecodersAgreeOnEveryRecord(t *testing.T) {
	t.Parallel()
	table := readTable(t)
	check := func(sim *vfs.Sim, cfg bindb.Config) {
		r := open(t, cfg)
		reindex(t, r)
		closeRoot(t, r)
		for _, file := range slices.Concat(record.Files(cfg.Kind), record.IndexFiles(cfg.Kind)) {
			raw := disk{t, sim, cfg}.read(file)
			if head := []byte{byte(table.Header.Value), 0, 0, 0}; !bytes.Equal(raw[:table.Header.Size], head) {
				t.Errorf("%s begins with % x", file, raw[:table.Header.Size])
			}
			rec := table.byFile(file)
			if rec == nil {
				continue // a payload file
			}
			body := raw[table.Header.Size:]
			if len(body) == 0 || len(body)%rec.Size != 0 {
				t.Errorf("%s holds %d bytes of records of %d", file, len(body), rec.Size)
			}
			for b := range slices.Chunk(body, rec.Size) {
				agree(t, rec, b)
			}
		}
	}
	sim, cfg := fullRoot(t)
	// One more Job, so that the index of those that wait has a row.
	r := open(t, cfg)
	update(t, r, func(w *writer) { w.enqueue(0) })
	closeRoot(t, r)
	check(sim, cfg)
	check(registryRoot(t))
	for _, rec := range table.Records {
		if productDecoders[rec.File] == nil {
			t.Errorf("the product has no decoder for %s", rec.File)
		}
	}
}

// The vectors say what the fields of a record are; those that are not named are
// zero.
func TestDecodersAgreeOnVectors(t *testing.T) {
	t.Parallel()
	table := readTable(t)
	for _, v := range table.Vectors {
		i := slices.IndexFunc(table.Records, func(r tableRecord) bool { return r.Name == v.Record })
		if i < 0 {
			t.Errorf("the table has no record %s", v.Record)
			continue
		}
		rec := &table.Records[i]
		b, err := hex.DecodeString(v.Hex)
		if err != nil || len(b) != rec.Size {
			t.Errorf("%s: %d bytes, %v", v.Record, len(b), err)
			continue
		}
		agree(t, rec, b)
		for _, f := range rec.Fields {
			want, named := v.Fields[f.Name]
			got := f.value(b)
			switch want := want.(type) {
			case json.Number:
				if fmt.Sprint(got) != want.String() {
					t.Errorf("%s: %s is %v, want %v", v.Record, f.Name, got, want)
				}
			case string:
				if got != want {
					t.Errorf("%s: %s is %v, want %v", v.Record, f.Name, got, want)
				}
			default:
				if n, ok := got.(uint64); named || ok && n != 0 {
					t.Errorf("%s: %s is %v, want nothing", v.Record, f.Name, got)
				}
			}
		}
	}
	if len(table.Vectors) < 15 {
		t.Errorf("only %d vectors", len(table.Vectors))
	}
}
