package workitem

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// goldenRequest is one request of the vectors with its digests.
type goldenRequest struct {
	Name       string
	Contract   json.RawMessage
	Canonical  string `json:"canonical_contract"`
	Source     string `json:"source_input_digest"`
	Projection string `json:"projection_canonical"`
	Digest     string `json:"immutable_input_digest"`
	JobID      string `json:"job_id"`
}

func goldenRequests(t testing.TB) map[string]goldenRequest {
	t.Helper()
	var v struct{ Cases []goldenRequest }
	vectors(t, "requests.json", "digests", &v)
	if len(v.Cases) != 18 {
		t.Fatalf("the vectors have %d requests", len(v.Cases))
	}
	byName := map[string]goldenRequest{}
	for _, c := range v.Cases {
		byName[c.Name] = c
	}
	return byName
}

func parse(t testing.TB, raw []byte) *Request {
	t.Helper()
	req, err := ParseRequest(raw, false)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return req
}

func TestRequestDigestsGolden(t *testing.T) {
	t.Parallel()
	for name, c := range goldenRequests(t) {
		req, err := ParseRequest(c.Contract, false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		doc, refusal := parseJSON(c.Contract)
		if refusal != nil {
			t.Fatal(refusal)
		}
		if got := string(doc.appendCanonical(nil, 0)); got != c.Canonical {
			t.Errorf("%s: canonical form\n%s, want\n%s", name, got, c.Canonical)
		}
		if got := string(req.appendProjection(nil, req.Source)); got != c.Projection {
			t.Errorf("%s: projection\n%s, want\n%s", name, got, c.Projection)
		}
		if req.Source != c.Source || req.Digest.String() != c.Digest {
			t.Errorf("%s: digests %s and %s, want %s and %s", name, req.Source, req.Digest, c.Source, c.Digest)
		}
		if got := req.ID().JobID(); got != c.JobID {
			t.Errorf("%s: job %s, want %s", name, got, c.JobID)
		}
	}
}

func TestDigestRelationsGolden(t *testing.T) {
	t.Parallel()
	requests := goldenRequests(t)
	var v struct {
		Cases []struct {
			A, B string
			Same bool `json:"same_immutable_digest"`
		}
	}
	vectors(t, "requests.json", "digest_relations", &v)
	if len(v.Cases) != 4 {
		t.Fatalf("the vectors have %d relations", len(v.Cases))
	}
	for _, c := range v.Cases {
		a, b := parse(t, requests[c.A].Contract), parse(t, requests[c.B].Contract)
		if (a.Digest == b.Digest) != c.Same {
			t.Errorf("%s and %s: equal is %v, want %v", c.A, c.B, a.Digest == b.Digest, c.Same)
		}
	}
	// What differs in spelling only has one loose digest; another instant has not.
	loose := func(name string) Digest { return parse(t, requests[name].Contract).Loose }
	if a, b := loose("minimal_nested"), loose("minimal_explicit_null_lane"); a != b {
		t.Error("an explicit null changes the loose digest")
	}
	if a, b := loose("minimal_nested"), loose("deadline_z"); a == b {
		t.Error("a deadline does not change the loose digest")
	}
}

func TestFrozenContractDumpGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Contract json.RawMessage
		Source   string `json:"source_input_digest"`
		Digest   string `json:"immutable_input_digest"`
		Expected struct {
			Priority      int
			FairnessGroup string   `json:"fairness_group"`
			HostLabels    []string `json:"host_labels"`
			Stages        []string `json:"validation_stages"`
		}
	}
	vectors(t, "requests.json", "frozen_contract_dump", &v)
	for _, strict := range []bool{false, true} {
		req, err := ParseRequest(v.Contract, strict)
		if err != nil {
			t.Fatalf("strict %v: %v", strict, err)
		}
		if req.Source != v.Source || req.Digest.String() != v.Digest {
			t.Errorf("digests %s and %s, want %s and %s", req.Source, req.Digest, v.Source, v.Digest)
		}
		if req.Priority != v.Expected.Priority || req.FairnessGroup != v.Expected.FairnessGroup ||
			!reflect.DeepEqual(req.HostLabels, v.Expected.HostLabels) || !reflect.DeepEqual(req.Stages, v.Expected.Stages) {
			t.Errorf("read %+v, want %+v", req.Facts, v.Expected)
		}
	}
}

func TestRejectedRequestsGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Cases []struct {
			Name     string
			Contract json.RawMessage
		}
	}
	vectors(t, "requests.json", "rejected_requests", &v)
	fields := map[string]string{
		"unsupported_version": "contract_version", "missing_operation": "operation", "unknown_operation": "operation",
		"short_sha": "base_sha", "upper_sha": "base_sha", "blank_owner": "owner_id", "padded_ref": "base_ref",
		"control_char": "session_id", "priority_string": "priority", "priority_bool": "priority",
		"priority_float": "priority", "priority_high": "priority", "priority_null": "priority",
		"cpu_zero": "resources.cpu_weight", "cpu_high": "resources.cpu_weight", "memory_high": "resources.memory_mib",
		"disk_high": "resources.disk_mib", "slots_high": "resources.process_slots",
		"watermarks_inverted": "resources.disk_low_watermark_mib", "watermark_negative": "resources.disk_low_watermark_mib",
		"deadline_naive": "resources.queue_deadline", "labels_string": "resources.host_labels",
		"alias_on_local": "target.alias", "alias_missing": "target.alias", "alias_connection": "target.alias",
		"alias_slash": "target.alias", "target_kind_unknown": "target.kind",
		"release_without_push": "consent.allow_push", "push_without_push": "consent.allow_push",
		"push_without_ack": "consent.risk_acknowledged", "push_without_marker": "consent.risk_marker",
		"cleanup_without_ack": "consent.risk_acknowledged", "marker_without_ack": "consent.risk_acknowledged",
		"consent_unknown_field": "consent.allow_force", "consent_string_bool": "consent.allow_push",
		"digest_short": "config_digest", "digest_upper": "config_digest",
	}
	if len(v.Cases) != len(fields) {
		t.Fatalf("the vectors have %d requests", len(v.Cases))
	}
	for _, c := range v.Cases {
		_, err := ParseRequest(c.Contract, false)
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Code != InvalidRequest || refusal.Field != fields[c.Name] {
			t.Errorf("%s: %v, want a refusal of %s", c.Name, err, fields[c.Name])
		}
	}
}

// minimal is the smallest request, with members replaced or added: each change is
// the name and JSON of a member, or the name alone to leave it out.
func minimal(changes ...string) []byte {
	members := map[string]json.RawMessage{
		"request_id": json.RawMessage(`"req-1"`), "idempotency_key": json.RawMessage(`"idem-1"`),
		"operation": json.RawMessage(`"build"`), "repository_id": json.RawMessage(`"repo-a"`),
		"base_ref": json.RawMessage(`"main"`), "base_sha": json.RawMessage(`"` + strings.Repeat("a", 40) + `"`),
		"owner_id": json.RawMessage(`"actor-a"`), "session_id": json.RawMessage(`"session-a"`),
		"tenant_id": json.RawMessage(`"tenant-a"`),
	}
	for _, change := range changes {
		name, value, set := strings.Cut(change, "=")
		delete(members, name)
		if set {
			members[name] = json.RawMessage(value)
		}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return raw
}

func TestRequestRefuses(t *testing.T) {
	t.Parallel()
	const id = "rmjob:c7ef0d7d-a304-5d60-97da-72926b90da3f"
	many := func(n int, entry string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + "]"
	}
	for _, c := range []struct{ raw, field string }{
		{``, ""}, {`[]`, ""}, {`"x"`, ""}, {`{`, ""}, {`{}x`, ""}, {"{\"a\":\"\xff\"}", ""},
		{string(minimal("request_id")), "request_id"},
		{string(minimal("request_id=null")), "request_id"},
		{string(minimal(`request_id=""`)), "request_id"},
		{string(minimal(`request_id=5`)), "request_id"},
		{string(minimal(`id=1.5`)), "request_id"},
		{string(minimal("idempotency_key")), "idempotency_key"},
		{string(minimal("tenant_id")), "tenant_id"},
		{string(minimal("repository_id")), "repository_id"},
		{string(minimal("repository_id", `repository={}`)), "repository_id"},
		{string(minimal("repository_id", `repository={"repository_id":" a"}`)), "repository_id"},
		{string(minimal(`repository={"path":"/x"}`)), "repository.path"},
		{string(minimal(`repository={"origin":{"a":1.5}}`)), "repository.origin"},
		{string(minimal(`repository={"configured_roots":[1]}`)), "repository.configured_roots[0]"},
		{string(minimal(`repository=[]`)), "repository"},
		{string(minimal("contract_version=null")), "contract_version"},
		{string(minimal("contract_version=1")), "contract_version"},
		{string(minimal(`target={"contract_version":"2"}`)), "target.contract_version"},
		{string(minimal(`nonsense=1`)), "nonsense"},
		{string(minimal(`resources={"cores":1}`)), "resources.cores"},
		{string(minimal(`resources={"preferred_target":{"host":"x"}}`)), "resources.preferred_target.host"},
		{string(minimal(`resources={"required_target":{"kind":"inventory_alias"}}`)), "resources.required_target.alias"},
		{string(minimal(`resources={"required_target":{"kind":null}}`)), "resources.required_target.kind"},
		{string(minimal(`target={"kind":"inventory_alias","alias":"a:b"}`)), "target.alias"},
		{string(minimal(`target={"kind":"inventory_alias","alias":"a\\b"}`)), "target.alias"},
		{string(minimal(`validation_policy={"stage":[]}`)), "validation_policy.stage"},
		{string(minimal(`validation_policy={"differential":null}`)), "validation_policy.differential"},
		{string(minimal(`resources={"cpu_weight":null}`)), "resources.cpu_weight"},
		{string(minimal(`resources={"priority":1e1}`)), "resources.priority"},
		{string(minimal(`priority=1`, `resources={"priority":10001}`)), "resources.priority"},
		{string(minimal(`priority=99999999999999999999`)), "priority"},
		{string(minimal(`resources={"disk_low_watermark_mib":99999999999999999999}`)), "resources.disk_low_watermark_mib"},
		{string(minimal(`resources={"queue_deadline":1893553445}`)), "resources.queue_deadline"},
		{string(minimal(`dependencies="` + id + `"`)), "dependencies"},
		{string(minimal(`dependencies=["` + id + `","x"]`)), "dependencies[1]"},
		{string(minimal(`depends_on=["` + id + `",null]`)), "depends_on[1]"},
		{string(minimal(`dependencies=` + many(1025, `"`+id+`"`))), "dependencies"},
		{string(minimal(`resources={"host_labels":` + many(257, `"a"`) + `}`)), "resources.host_labels"},
		{string(minimal(`resources={"host_labels":["a",""]}`)), "resources.host_labels[1]"},
		{string(minimal(`lane_id=""`)), "lane_id"},
		{string(minimal(`lane_id="` + strings.Repeat("a", 1025) + `"`)), "lane_id"},
		{string(minimal(`consent={"allow_push":null}`)), "consent.allow_push"},
		{string(minimal(`input_digest="x"`)), "input_digest"},
		{string(minimal(`base_sha=""`)), "base_sha"},
		{string(minimal(`base_sha=null`)), "base_sha"},
		{`{"consent":{"allow_push":true,"allow_push":true}}`, "consent.allow_push"},
		{`{"a":[1,{"b":{"c":1,"d":2,"c":3}}]}`, "a[1].b.c"},
		{`{"lane_id":"\ud83d"}`, "lane_id"},
		{`{"lane_id":"\ud83d\u0041"}`, "lane_id"},
		{`{"lane_id":"\udd11\ud83d"}`, "lane_id"},
	} {
		_, err := ParseRequest([]byte(c.raw), false)
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Code != InvalidRequest || refusal.Field != c.field {
			t.Errorf("%.200s: %v, want a refusal of %q", c.raw, err, c.field)
		}
	}
	large := minimal(`lane_id="` + strings.Repeat("a", maxRequest) + `"`)
	if _, err := ParseRequest(large, false); !errors.Is(err, &Error{Code: PayloadTooLarge}) {
		t.Errorf("a request of %d bytes: %v", len(large), err)
	}
}

// Refusals show names of members, but never what the sender put into them.
func TestRefusalsShowNoValues(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-value"
	for _, raw := range [][]byte{
		minimal(`operation="` + secret + `"`), minimal(`base_sha="` + secret + `"`),
		minimal(`target={"kind":"` + secret + `"}`), minimal(`dependencies=["` + secret + `"]`),
		minimal(`resources={"queue_deadline":"` + secret + `"}`), minimal(`lane_id=" ` + secret + `"`),
		minimal(`contract_version="` + secret + `"`), []byte(`{"lane_id":"` + secret + `\x"}`),
		minimal(`target={"kind":"remote","alias":"` + secret + `@x"}`), []byte(`{"lane_id":` + secret + `}`),
		minimal(strings.Repeat("n", 65) + secret + "=1"),
	} {
		_, err := ParseRequest(raw, false)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestRequestPrecedence(t *testing.T) {
	t.Parallel()
	const a, b = "rmjob:c7ef0d7d-a304-5d60-97da-72926b90da3f", "workitem:repository_manager:C7EF0D7D-A304-5D60-97DA-72926B90DA3F"
	for name, c := range map[string]struct {
		raw  []byte
		want func(r *Request) bool
	}{
		"alias of the request id":      {minimal("request_id", `id="x"`), func(r *Request) bool { return r.RequestID == "x" }},
		"main name wins":               {minimal(`id="x"`), func(r *Request) bool { return r.RequestID == "req-1" }},
		"null main name does not":      {minimal(`request_id=null`, `id="x"`), func(r *Request) bool { return r.RequestID == "x" }},
		"empty main name does not":     {minimal(`tenant_id=""`, `tenant="x"`), func(r *Request) bool { return r.TenantID == "x" }},
		"nested repository wins":       {minimal(`repository={"repository_id":"x"}`), func(r *Request) bool { return r.RepositoryID == "x" }},
		"null repository":              {minimal(`repository=null`), func(r *Request) bool { return r.RepositoryID == "repo-a" }},
		"top fairness wins":            {minimal(`fairness_group="x"`, `resources={"fairness_group":"y"}`), func(r *Request) bool { return r.FairnessGroup == "x" }},
		"nested fairness":              {minimal(`fairness_group=null`, `resources={"fairness_group":"y"}`), func(r *Request) bool { return r.FairnessGroup == "y" }},
		"nested class wins":            {minimal(`resource_class="x"`, `resources={"resource_class":"y"}`), func(r *Request) bool { return r.ResourceClass == "y" }},
		"empty nested class":           {minimal(`resource_class="x"`, `resources={"resource_class":""}`), func(r *Request) bool { return r.ResourceClass == "x" }},
		"flat concurrency":             {minimal(`concurrency_key="x"`), func(r *Request) bool { return r.ConcurrencyKey == "x" && r.ResourceClass == "light-check" }},
		"top priority 0 wins":          {minimal(`priority=0`, `resources={"priority":7}`), func(r *Request) bool { return r.Priority == 0 && r.Bucket() == 0 }},
		"nested priority":              {minimal(`resources={"priority":7}`), func(r *Request) bool { return r.Priority == 7 && r.Bucket() == 3 }},
		"minus zero":                   {minimal(`priority=-0`), func(r *Request) bool { return r.Priority == 0 }},
		"remote":                       {minimal(`target={"kind":"remote","target_alias":"h"}`), func(r *Request) bool { return r.TargetKind == "inventory_alias" && r.TargetAlias == "h" }},
		"empty alias of local":         {minimal(`target={"alias":""}`), func(r *Request) bool { return r.TargetKind == "local" && r.TargetAlias == "" }},
		"null required target":         {minimal(`resources={"required_target":null}`), func(r *Request) bool { return r.Required == nil }},
		"empty required target":        {minimal(`resources={"required_target":{}}`), func(r *Request) bool { return r.Required != nil && r.Required.Kind == "local" }},
		"both handles are one parent":  {minimal(`dependencies=["` + b + `","` + a + `"]`), func(r *Request) bool { return len(r.Dependencies) == 2 && len(r.Parents) == 1 }},
		"empty dependencies and alias": {minimal(`dependencies=[]`, `depends_on=["`+a+`"]`), func(r *Request) bool { return len(r.Parents) == 1 }},
		"dependencies win":             {minimal(`dependencies=["`+a+`"]`, `depends_on=["`+b+`"]`), func(r *Request) bool { return len(r.Dependencies) == 1 && r.Dependencies[0] == a }},
		"empty digest":                 {minimal(`config_digest=""`), func(r *Request) bool { return r.ConfigDigest == "" }},
		"empty source digest":          {minimal(`input_digest=""`), func(r *Request) bool { return r.Source == "" && r.Digest == r.Loose }},
		"null source digest":           {minimal(`input_digest=null`), func(r *Request) bool { return r.Source != "" && r.Digest != r.Loose }},
		"deadline at the epoch":        {minimal(`resources={"queue_deadline":"1970-01-01T00:00:00Z"}`), func(r *Request) bool { return r.Deadline == -1 && r.QueueDeadline == "1970-01-01T00:00:00Z" }},
		"equal ids":                    {minimal(`request_id="idem-1"`), func(r *Request) bool { return r.RequestID == r.IdempotencyKey }},
		"repair intent":                {minimal(`repair_intent_digest="` + strings.Repeat("0", 64) + `"`), func(r *Request) bool { return r.RequestID == "req-1" }},
		"escaped string":               {minimal(`lane_id="a\ud83d\udd11\/\u00e9"`), func(r *Request) bool { return r.LaneID == "a🔑/é" }},
	} {
		req, err := ParseRequest(c.raw, false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !c.want(req) {
			t.Errorf("%s: read %+v", name, req)
		}
	}
}

func TestStrictRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw   []byte
		field string
	}{
		{minimal(), ""},
		{minimal(`request_id="idem-1"`), "request_id"},
		{minimal(`operation="lane.allocate"`, `generation_id="g"`), "generation_id"},
		{minimal(`operation="lane.allocate"`), ""},
		{minimal(`operation="candidate.submit"`), "lane_id"},
		{minimal(`operation="candidate.submit"`, `lane_id="l"`), ""},
		{minimal(`operation="generation.certify"`), "generation_id"},
		{minimal(`operation="branch.land"`), "generation_id"},
		{minimal(`operation="branch.land"`, `generation_id="g"`), ""},
		{minimal(`base_ref="HEAD"`), "base_ref"},
		{minimal(`base_ref="` + strings.Repeat("A", 40) + `"`), "base_ref"},
		{minimal(`base_ref="a..b"`), "base_ref"},
		{minimal(`base_ref="a//b"`), "base_ref"},
		{minimal(`base_ref="a/.b"`), "base_ref"},
		{minimal(`base_ref="a.lock"`), "base_ref"},
		{minimal(`base_ref="a b"`), "base_ref"},
		{minimal(`base_ref="a~1"`), "base_ref"},
		{minimal(`base_ref="-a"`), "base_ref"},
		{minimal(`base_ref="feature/ü"`), ""},
		{minimal(`validation_policy={"differential":true}`), "validation_policy.differential"},
		{minimal(`validation_policy={"differential":true,"changed_paths":["a"]}`), ""},
		{minimal(`validation_policy={"stages":["a","a"]}`), "validation_policy.stages"},
		{minimal(`validation_policy={"stages":["b","a"]}`), ""},
	} {
		if _, err := ParseRequest(c.raw, false); err != nil {
			t.Errorf("%s is refused without the strict rules: %v", c.raw, err)
		}
		_, err := ParseRequest(c.raw, true)
		var refusal *Error
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &refusal) || refusal.Field != c.field) {
			t.Errorf("%s: %v, want a refusal of %q", c.raw, err, c.field)
		}
	}
}

func TestPriorityGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Bucket []struct {
			Priority int
			Bucket   int `json:"prio_bucket"`
		}
		Rejected []json.RawMessage
	}
	vectors(t, "requests.json", "priority", &v)
	if len(v.Bucket) != 10 || len(v.Rejected) != 6 {
		t.Fatalf("the vectors have %d and %d cases", len(v.Bucket), len(v.Rejected))
	}
	for _, c := range v.Bucket {
		raw, err := json.Marshal(c.Priority)
		if err != nil {
			t.Fatal(err)
		}
		req := parse(t, minimal("priority="+string(raw)))
		if req.Priority != c.Priority || req.Bucket() != c.Bucket {
			t.Errorf("priority %d is %d in bucket %d, want %d", c.Priority, req.Priority, req.Bucket(), c.Bucket)
		}
	}
	for _, raw := range v.Rejected {
		if _, err := ParseRequest(minimal("priority="+string(raw)), false); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("priority %s: %v", raw, err)
		}
	}
}

func TestDependencyNormalizationGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Cases []struct {
			Input  json.RawMessage
			Stored []string
		}
	}
	vectors(t, "identity.json", "dependency_normalization", &v)
	if len(v.Cases) != 2 {
		t.Fatalf("the vectors have %d cases", len(v.Cases))
	}
	for _, c := range v.Cases {
		req := parse(t, minimal("dependencies="+string(c.Input)))
		got := []string{}
		for _, id := range req.Record().Dependencies {
			got = append(got, id.WorkItemID())
		}
		if !reflect.DeepEqual(got, c.Stored) {
			t.Errorf("%s: %v, want %v", c.Input, got, c.Stored)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	for _, c := range goldenRequests(f) {
		f.Add([]byte(c.Contract))
	}
	f.Add(minimal(`lane_id="a\ud83d\udd11"`, `dependencies=["rmjob:c7ef0d7d-a304-5d60-97da-72926b90da3f"]`))
	f.Add(minimal(`resources={"disk_low_watermark_mib":-0,"required_target":{"kind":"remote","alias":"x"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		req, err := ParseRequest(raw, false)
		if err != nil {
			return
		}
		record := req.Record()
		metadata, err := EncodeRecord(record)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		got, err := DecodeRecord(metadata)
		if err != nil {
			t.Fatalf("%q: %s: %v", raw, metadata, err)
		}
		if !reflect.DeepEqual(got, record) {
			t.Fatalf("%q: stored\n%+v, read\n%+v", raw, record, got)
		}
	})
}

func BenchmarkParseRequest(b *testing.B) {
	raw := minimal(`contract_version="1"`, `lane_id="lane-17"`, `correlation_id="corr-2026-09-01"`,
		`resources={"cpu_weight":4,"memory_mib":2048,"host_labels":["linux","amd64"]}`, `priority=5`,
		`target={"kind":"local"}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseRequest(raw, false); err != nil {
			b.Fatal(err)
		}
	}
}
