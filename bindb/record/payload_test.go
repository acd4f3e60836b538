package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

// payloads makes one empty payload of each type.
var payloads = []func() record.Payload{
	func() record.Payload { return new(record.RepositoryPayload) },
	func() record.Payload { return new(record.PatchsetSummary) },
	func() record.Payload { return new(record.ActorPayload) },
	func() record.Payload { return new(record.ReviewPayload) },
	func() record.Payload { return new(record.WaiverPayload) },
	func() record.Payload { return new(record.TaskPayload) },
	func() record.Payload { return new(record.ChangePayload) },
	func() record.Payload { return new(record.SnapshotLinkPayload) },
	func() record.Payload { return new(record.SnapshotPayload) },
	func() record.Payload { return new(record.LineNamePayload) },
	func() record.Payload { return new(record.TreeNamePayload) },
	func() record.Payload { return new(record.PlanPayload) },
	func() record.Payload { return new(record.PlanRevisionPayload) },
	func() record.Payload { return new(record.PlanItemPayload) },
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		payload record.Payload
		want    string
	}{
		{&record.RepositoryPayload{Name: "ait-core"}, "\x08\x00ait-core"},
		{&record.PatchsetSummary{Text: "fix ümlaut"}, "fix ümlaut"},
		{&record.ActorPayload{UserName: "alice", UserID: "7", Email: "a@b", Memo: "m"}, "\x05\x01\x03alice7a@bm"},
		{&record.ReviewPayload{}, ""},
		{&record.WaiverPayload{Reason: "why"}, "why"},
		{&record.TaskPayload{Title: "t", Intent: "in"}, "\x01\x00tin"},
		{&record.ChangePayload{Title: "t"}, "t"},
		{
			&record.SnapshotLinkPayload{WorktreeName: "w", LineName: "main", TaskID: "T", ChangeID: "C", AuthorMode: "agent", ModelName: "m"},
			"\x01\x00\x04\x00\x01\x00\x01\x00\x05\x00wmainTCagentm",
		},
		{&record.SnapshotLinkPayload{}, strings.Repeat("\x00", 10)},
		{&record.SnapshotPayload{Message: "m", LineName: "main"}, "\x01\x00mmain"},
		{&record.SnapshotPayload{}, "\x00\x00"},
		{&record.LineNamePayload{Name: "main"}, "main"},
		{&record.TreeNamePayload{Name: "a.go"}, "a.go"},
		{&record.PlanPayload{Title: "p"}, "p"},
		{
			&record.PlanRevisionPayload{TitleSnapshot: "t", Summary: "s", ArtifactPath: "p", ArtifactSelector: "q", ArtifactHeading: "h", ArtifactBlobID: "b"},
			"\x01\x00\x01\x00\x01\x00\x01\x00\x01\x00tspqhb",
		},
		{&record.PlanItemPayload{Ref: "r", Text: "tx", Headings: []string{"a", "", "bc"}}, "\x01\x00\x02\x00\x03\x00rtx\x01\x00a\x00\x00\x02\x00bc"},
		{&record.PlanItemPayload{}, "\x00\x00\x00\x00\x00\x00"},
	} {
		b, err := c.payload.Encode()
		if err != nil || string(b) != c.want {
			t.Errorf("%T: got %q, %v, want %q", c.payload, b, err, c.want)
		}
		got := reflect.New(reflect.TypeOf(c.payload).Elem()).Interface().(record.Payload)
		if err := got.Decode([]byte(c.want)); err != nil || !reflect.DeepEqual(got, c.payload) {
			t.Errorf("%T: got %+v, %v", c.payload, got, err)
		}
	}
}

func TestPayloadsAtTheirBounds(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		payload record.Payload
		want    error
		text    string
	}{
		{&record.RepositoryPayload{Name: x(65535)}, nil, ""},
		{&record.RepositoryPayload{Name: x(65536)}, record.ErrTooLong, "Repository name has 65536 bytes, the format has room for 65535"},
		{&record.RepositoryPayload{}, record.ErrMalformed, "name is empty"},
		{&record.PatchsetSummary{Text: x(65535)}, nil, ""},
		{&record.PatchsetSummary{Text: x(65536)}, record.ErrTooLong, "Patchset payload has 65536 bytes"},
		{&record.PatchsetSummary{Text: "\xff"}, record.ErrMalformed, "summary is not UTF-8"},
		{&record.ActorPayload{UserName: x(255)}, nil, ""},
		{&record.ActorPayload{UserName: x(256)}, record.ErrTooLong, "user name has 256 bytes, the format has room for 255"},
		{&record.ActorPayload{UserName: "a", Email: x(256)}, record.ErrTooLong, "email has 256 bytes"},
		{&record.ActorPayload{UserName: "a", Memo: x(65531)}, nil, ""},
		{&record.ActorPayload{UserName: "a", Memo: x(65532)}, record.ErrTooLong, "Actor payload has 65536 bytes"},
		{&record.ActorPayload{Email: "a"}, record.ErrMalformed, "user name is empty"},
		{&record.TaskPayload{Title: "t"}, record.ErrMalformed, "intent is empty"},
		{&record.TaskPayload{Title: x(65536), Intent: "i"}, record.ErrTooLong, "title has 65536 bytes"},
		{&record.SnapshotLinkPayload{WorktreeName: x(40000), LineName: x(40000)}, record.ErrTooLong, "Snapshot link payload has 80010 bytes"},
		{&record.TreeNamePayload{Name: x(255)}, nil, ""},
		{&record.TreeNamePayload{Name: x(256)}, record.ErrTooLong, "Tree entry payload has 256 bytes"},
		{&record.TreeNamePayload{Name: ".."}, record.ErrMalformed, "no single path element"},
		{&record.TreeNamePayload{Name: "a/b"}, record.ErrMalformed, "no single path element"},
		{&record.TreeNamePayload{Name: `a\b`}, record.ErrMalformed, "no single path element"},
		{&record.TreeNamePayload{Name: "a\x00b"}, record.ErrMalformed, "no single path element"},
		{&record.PlanItemPayload{Headings: make([]string, 32764)}, nil, ""},
		{&record.PlanItemPayload{Headings: make([]string, 32765)}, record.ErrTooLong, "Plan item payload has 65536 bytes"},
		{&record.PlanItemPayload{Headings: []string{"a", "\xff"}}, record.ErrMalformed, "heading 2 is not UTF-8"},
	} {
		b, err := c.payload.Encode()
		if c.want == nil {
			if err != nil {
				t.Errorf("%T: %v", c.payload, err)
			}
			continue
		}
		if b != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%T: got %v, want %v with %q", c.payload, err, c.want, c.text)
		}
	}
}

func TestPayloadsRefuse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		payload record.Payload
		bytes   string
		want    string
	}{
		{&record.RepositoryPayload{}, "", "ends early"},
		{&record.RepositoryPayload{}, "\x00\x00", "name is empty"},
		{&record.RepositoryPayload{}, "\x03\x00ab", "its name takes 3 bytes, 2 are left"},
		{&record.RepositoryPayload{}, "\x01\x00ab", "1 bytes behind its name"},
		{&record.RepositoryPayload{}, "\x01\x00\xff", "name is not UTF-8"},
		{&record.PatchsetSummary{}, "", "summary is empty"},
		{&record.PatchsetSummary{}, strings.Repeat("x", 65536), "more than 65535"},
		{&record.ActorPayload{}, "\x00\x00\x00", "user name is empty"},
		{&record.ActorPayload{}, "\x01\x01\x00a", "its user id takes 1 bytes, 0 are left"},
		{&record.TaskPayload{}, "\x01\x00t", "intent is empty"},
		{&record.SnapshotPayload{}, "", "length of message takes 2 bytes"},
		{&record.SnapshotLinkPayload{}, strings.Repeat("\x00", 9), "ends early"},
		{&record.TreeNamePayload{}, ".", "no single path element"},
		{&record.PlanItemPayload{}, "\x00\x00\x00\x00\x00", "ends early"},
		{&record.PlanItemPayload{}, "\x00\x00\x00\x00\xff\xff", "its headings takes 131070 bytes, 0 are left"},
		{&record.PlanItemPayload{}, "\x00\x00\x00\x00\x01\x00\x01\x00", "its heading 1 takes 1 bytes, 0 are left"},
		{&record.PlanItemPayload{}, "\x00\x00\x00\x00\x02\x00\x01\x00a\x00", "its heading 2 takes 2 bytes, 1 are left"},
		{&record.PlanItemPayload{}, "\x00\x00\x00\x00\x00\x00x", "1 bytes behind its last heading"},
		{&record.PlanItemPayload{}, strings.Repeat("\x00", 65536), "more than 65535"},
	} {
		if err := c.payload.Decode([]byte(c.bytes)); !errors.Is(err, record.ErrMalformed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%T %.20q: got %v, want an error with %q", c.payload, c.bytes, err, c.want)
		}
	}
}

func TestPayloadFlags(t *testing.T) {
	t.Parallel()
	var actor record.ActorMeta
	actor.SetKind(record.ActorKindTeam)
	(&record.ActorPayload{UserName: "a", Email: "e"}).SetMeta(&actor)
	if actor != 0x11 {
		t.Errorf("Actor: got %#02x", uint8(actor))
	}
	for _, c := range []struct {
		name      string
		good, bad error
	}{
		{"Actor", (&record.ActorPayload{UserName: "a", UserID: "i"}).CheckMeta(0x0a), (&record.ActorPayload{UserName: "a"}).CheckMeta(0x08)},
		{"Snapshot", (&record.SnapshotPayload{Message: "m"}).CheckMeta(0x14), (&record.SnapshotPayload{}).CheckMeta(0x08)},
		{"link", (&record.SnapshotLinkPayload{ModelName: "m"}).CheckMeta(0x26), (&record.SnapshotLinkPayload{LineName: "l"}).CheckMeta(0x00)},
	} {
		var fe *record.FieldError
		if c.good != nil || !errors.As(c.bad, &fe) {
			t.Errorf("%s: got %v and %v, want acceptance and a refusal", c.name, c.good, c.bad)
		}
	}
}

func FuzzPayload(f *testing.F) {
	for i := range payloads {
		f.Add(uint8(i), []byte("\x01\x00\x01\x00\x01\x00\x01\x00\x01\x00abcdef"))
		f.Add(uint8(i), []byte("main"))
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		p := payloads[int(which)%len(payloads)]()
		if err := p.Decode(b); err != nil {
			if !errors.Is(err, record.ErrMalformed) {
				t.Fatalf("%T: %v does not match ErrMalformed", p, err)
			}
			return
		}
		out, err := p.Encode()
		if err != nil || !bytes.Equal(b, out) {
			t.Fatalf("%T: %q encodes back to %q, %v", p, b, out, err)
		}
	})
}

// Every payload file has its payload, whose parts have names in JSON.
func TestNewPayload(t *testing.T) {
	t.Parallel()
	for _, p := range record.PayloadFiles() {
		payload, ok := record.NewPayload(p.File)
		if !ok {
			t.Errorf("%s has no payload", p.File)
			continue
		}
		b, err := json.Marshal(payload)
		if err != nil || !regexp.MustCompile(`^\{("[a-z_]+":(""|null),?)+\}$`).Match(b) {
			t.Errorf("%s: %s, %v", p.File, b, err)
		}
	}
	if _, ok := record.NewPayload("task.bin"); ok {
		t.Error("task.bin has a payload")
	}
}
