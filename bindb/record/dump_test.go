package record_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

func dump(t *testing.T, layout string, raw []byte) (record.Dumped, string) {
	t.Helper()
	d := record.Dump(byName(t, layout).layout, 3, raw)
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return d, string(b)
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("dump lacks %s:\n%s", p, text)
		}
	}
}

func TestDump(t *testing.T) {
	t.Parallel()
	_, text := dump(t, "OperationalRepositoryRecord", unhex("00016163 550a0000 00040000 00000000 00640000 00000000 00650000 00000000 00"))
	contains(t, text,
		`"index":3`,
		`{"name":"lifecycle_kind","value":1,"meaning":"active"}`,
		`{"name":"namespace_ascii","value":"6163","meaning":"ac"}`,
		`{"name":"require_attestation","value":1}`,
		`{"name":"created_at_s","value":100,"meaning":"1970-01-01T00:01:40Z"}`,
	)
	if strings.Contains(text, "problem") {
		t.Errorf("a good record has a problem:\n%s", text)
	}
	_, text = dump(t, "ServerWorkerJobRecord", unhex(queuedJob))
	contains(t, text,
		`{"name":"job_kind","value":7,"meaning":"patchset.ci"}`,
		`{"name":"patchset_index_plus1","value":8,"meaning":"patchset.bin record 7"}`,
		`{"name":"snapshot_index_plus1","value":0,"meaning":"none"}`,
		`{"name":"locked_at_s","value":0}`,
	)
	_, text = dump(t, "ActorRecord", unhex("00000800 04000000 00000000 0739a065 bb2a8b50 be32746a 00000000 be32746a 00000000"))
	contains(t, text, `{"name":"actor_key_hash","value":"508b2abb65a03907"}`, `{"name":"kind","value":0,"meaning":"unknown"}`)
}

func TestDumpMarksWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := unhex(queuedJob)
	b[0], b[1], b[10] = 0x01, 1, 2
	d, text := dump(t, "ServerWorkerJobRecord", b)
	contains(t, text,
		`reserved bits 0x1, want zero`,
		`"value":1,"problem":"1 has no meaning"`,
		`{"name":"reserved0","value":2,"problem":"reserved, want zero"}`,
	)
	if len(d.Fields) != 14 || d.Problem == "" {
		t.Errorf("got %d fields and problem %q", len(d.Fields), d.Problem)
	}
	d, text = dump(t, "ServerWorkerJobRecord", b[:5])
	if len(d.Fields) != 4 || d.Raw != "0101010000" {
		t.Errorf("a cut record shows as %s", text)
	}
	contains(t, text, `record length is 5, want 52 bytes (F03)`)
	// Problems that only Check sees.
	b = unhex(queuedJob)
	b[28] = 1
	d, _ = dump(t, "ServerWorkerJobRecord", b)
	contains(t, d.Problem, "locked_at_s is 1", "J03")
	_, text = dump(t, "ServerPatchsetRecord", append([]byte{0xfc}, make([]byte, 64)...))
	contains(t, text, `publish_state: 3 has no meaning`)
	_, text = dump(t, "OperationalNamespaceIndexRecord", unhex("00010000 01000000"))
	contains(t, text, `"value":"0001","meaning":"\"\\x00\\x01\""`)
	_, text = dump(t, "OperationalNamespaceIndexRecord", make([]byte, 8))
	contains(t, text, `"meaning":"empty"`)
}

func TestDumpHidesTokens(t *testing.T) {
	t.Parallel()
	for _, n := range []int{76, 75, 40} {
		b := make([]byte, n)
		for i := range 16 {
			b[12+i] = 0xee
		}
		if _, text := dump(t, "RuntimeLeaseReplicaEntry", b); strings.Contains(text, "eeee") {
			t.Errorf("the token shows:\n%s", text)
		}
	}
}

func TestDumpAnyBytes(t *testing.T) {
	t.Parallel()
	for _, c := range codecs {
		for _, fill := range []byte{0, 0xff} {
			for n := range c.size + 2 {
				raw := make([]byte, n)
				for i := range raw {
					raw[i] = fill
				}
				if _, err := json.Marshal(record.Dump(c.layout, 0, raw)); err != nil {
					t.Fatalf("%s with %d bytes: %v", c.layout.Name, n, err)
				}
			}
		}
	}
}

func TestLayoutJSON(t *testing.T) {
	t.Parallel()
	l, _ := record.ByFile("policy_check.bin")
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(b), `"root":"authority"`, `"kind":"record"`, `"size":8`, `{"name":"check_kind","type":"u8","offset":0,"width":1,`, `"name":"ci_rollout_phase"`)
}
