package workitem

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// goldenRow is the stored form of the request full_resources.
func goldenRow(t testing.TB) (metadata []byte, row map[string]any, handle Handle) {
	t.Helper()
	var v struct {
		Row    json.RawMessage
		Handle Handle
	}
	vectors(t, "rows.json", "stored_row", &v)
	var raw struct{ Metadata json.RawMessage }
	if err := json.Unmarshal(v.Row, &raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(v.Row, &row); err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw.Metadata); err != nil {
		t.Fatal(err)
	}
	return compact.Bytes(), row, v.Handle
}

func TestRecordGolden(t *testing.T) {
	t.Parallel()
	want, row, handle := goldenRow(t)
	req := parse(t, goldenRequests(t)["full_resources"].Contract)
	got, err := EncodeRecord(req.Record())
	if err != nil {
		t.Fatal(err)
	}
	// The reference has spelt the deadline with an offset; ours is canonical.
	canonical := bytes.Replace(want, []byte("05+00:00"), []byte("05Z"), 1)
	if !bytes.Equal(got, canonical) {
		t.Errorf("stored\n%s, want\n%s", got, canonical)
	}
	for _, metadata := range [][]byte{want, got} {
		record, err := DecodeRecord(metadata)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(record, req.Record()) {
			t.Errorf("read\n%+v, want\n%+v", record, req.Record())
		}
	}

	for member, got := range map[string]any{
		"tenant": req.TenantID, "kind": req.Kind.String(), "payload_ref": req.ID().JobID(),
		"idempotency_key": "repository:" + ScopedKey(req.TenantID, req.IdempotencyKey).String(),
		"prio_bucket":     float64(req.Bucket()), "deadline_unix": req.Deadline.Seconds(),
		"resource_class": req.ResourceClass, "fairness_group": req.FairnessGroup,
		"correlation_id": req.CorrelationID, "created_by": req.OwnerID, "consent_required": req.Gated(),
	} {
		if got != row[member] {
			t.Errorf("%s is %v, want %v", member, got, row[member])
		}
	}
	if handle.JobID != req.ID().JobID() || handle.WorkItemID != req.ID().WorkItemID() ||
		handle.RequestID != req.RequestID || handle.InputDigest != req.Digest.String() {
		t.Errorf("the handle is %+v", handle)
	}
}

// What is stored is what the sanitiser makes of it, member names included; a string
// that is not in opaque form is found.
func TestRecordIsSanitized(t *testing.T) {
	t.Parallel()
	requests := goldenRequests(t)
	for name, c := range requests {
		metadata, err := EncodeRecord(parse(t, c.Contract).Record())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var v any
		if err := json.Unmarshal(metadata, &v); err != nil {
			t.Fatal(err)
		}
		if got := SanitizeValue(v); !reflect.DeepEqual(got, v) {
			t.Errorf("%s: sanitised it is\n%v, stored\n%v", name, got, v)
		}
	}
	record := parse(t, requests["full_resources"].Contract).Record()
	record.BaseSHA = "ops@example.com"
	if _, err := EncodeRecord(record); !errors.Is(err, ErrInternal) {
		t.Errorf("a record with an address: %v", err)
	}
}

// Every request of the vectors survives being stored.
func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	for name, c := range goldenRequests(t) {
		record := parse(t, c.Contract).Record()
		metadata, err := EncodeRecord(record)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !json.Valid(metadata) {
			t.Fatalf("%s: stored as %s", name, metadata)
		}
		got, err := DecodeRecord(metadata)
		if err != nil || !reflect.DeepEqual(got, record) {
			t.Errorf("%s: stored %+v, read %+v, %v", name, record, got, err)
		}
	}
}

func TestDecodeRecordRefusesDamage(t *testing.T) {
	t.Parallel()
	metadata, err := EncodeRecord(parse(t, goldenRequests(t)["full_resources"].Contract).Record())
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(damaged, what string) {
		t.Helper()
		_, err := DecodeRecord([]byte(damaged))
		if !errors.Is(err, ErrInternal) {
			t.Errorf("%s: %v", what, err)
		}
	}
	text := string(metadata)
	refuse("", "nothing")
	refuse("{}", "no record")
	refuse(text[:len(text)-1], "a cut record")

	// Without any one member, and with any one of another type.
	var all map[string]map[string]json.RawMessage
	if err := json.Unmarshal(metadata, &all); err != nil {
		t.Fatal(err)
	}
	record := all["repository_work_item"]
	if len(record) != recordMembers {
		t.Fatalf("the record has %d members", len(record))
	}
	for name, value := range record {
		for _, other := range []string{"", `7.5`, `[7]`, `{"a":1}`, `"opaque:v1:!"`, `-1`} {
			delete(record, name)
			if other != "" {
				record[name] = json.RawMessage(other)
			}
			damaged, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			refuse(string(damaged), name+" is "+other)
		}
		record[name] = value
	}
	for old, damage := range map[string]string{
		`"allow_push":false,`: ``, `"kind":"inventory_alias",`: `"kind":"local",`,
		`"priority":8`: `"priority":10001`, `"operation":"build"`: `"operation":"repository.build"`,
		`"risk_marker":null`: `"risk_marker":"opaque:v1:"`,
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("the record has no %s", old)
		}
		refuse(strings.Replace(text, old, damage, 1), old)
	}
}

// Rows from before the encoding have plain values, and may have lost the job id.
func TestDecodeRecordReadsOldRows(t *testing.T) {
	t.Parallel()
	req := parse(t, minimal())
	metadata, err := EncodeRecord(req.Record())
	if err != nil {
		t.Fatal(err)
	}
	hidden := string(appendHidden(nil, req.ID().JobID()))
	for stored, want := range map[string]ID{
		`"` + req.ID().JobID() + `"`:     req.ID(),
		`"rmjob:[REDACTED_CREDIT_CARD]"`: {},
	} {
		old := strings.Replace(string(metadata), hidden, stored, 1)
		old = strings.Replace(old, string(appendHidden(nil, "main")), `"main"`, 1)
		got, err := DecodeRecord([]byte(old))
		if err != nil || got.ID != want || got.BaseRef != "main" {
			t.Errorf("%s: %+v, %v", stored, got, err)
		}
	}
}

func BenchmarkEncodeRecord(b *testing.B) {
	record := parse(b, goldenRequests(b)["full_resources"].Contract).Record()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeRecord(record); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeRecord(b *testing.B) {
	metadata, err := EncodeRecord(parse(b, goldenRequests(b)["full_resources"].Contract).Record())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(metadata)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeRecord(metadata); err != nil {
			b.Fatal(err)
		}
	}
}
