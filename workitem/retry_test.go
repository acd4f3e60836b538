package workitem

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestRetryAndRepairIdentityGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Retry struct {
			JobID     string `json:"job_id"`
			Next      int    `json:"next_attempt"`
			RequestID string `json:"request_id"`
			Key       string `json:"idempotency_key"`
			Derived   string `json:"derived_job_id"`
		}
		Repair struct {
			Intent struct {
				Source          string `json:"source_job_id"`
				Classifications []string
			}
			Digest    string `json:"repair_digest"`
			ID        string `json:"repair_id"`
			Key       string `json:"idempotency_key"`
			RequestID string `json:"request_id"`
			Derived   string `json:"derived_job_id"`
		}
	}
	vectors(t, "identity.json", "retry_and_repair_identity", &v)

	it, record := goldenItem(t)
	id, err := ParseID(v.Retry.JobID)
	if err != nil {
		t.Fatal(err)
	}
	it.ID = id
	req, err := RetryRequest(record, it, v.Retry.Next)
	if err != nil {
		t.Fatal(err)
	}
	if req.IdempotencyKey != v.Retry.Key || req.RequestID != v.Retry.RequestID || req.ID().JobID() != v.Retry.Derived {
		t.Errorf("the retry has the key %s, the request id %s and the job %s", req.IdempotencyKey, req.RequestID, req.ID().JobID())
	}

	source, err := ParseID(v.Repair.Intent.Source)
	if err != nil {
		t.Fatal(err)
	}
	findings := v.Repair.Intent.Classifications
	if len(findings) != 2 {
		t.Fatalf("the vector has the findings %v", findings)
	}
	for _, findings := range [][]string{findings, {findings[1], findings[0], findings[1]}} {
		got := NewRepairIdentity(source, findings)
		if got.Digest.String() != v.Repair.Digest || got.RepairID != v.Repair.ID || got.IdempotencyKey != v.Repair.Key || got.RequestID != v.Repair.RequestID {
			t.Errorf("the repair of %v is %+v", findings, got)
		}
		if derived := NewID("tenant-a", got.IdempotencyKey).JobID(); derived != v.Repair.Derived {
			t.Errorf("the repair's job is %s, want %s", derived, v.Repair.Derived)
		}
	}
}

func TestRetryRequestCopies(t *testing.T) {
	t.Parallel()
	it, record := goldenItem(t)
	record.Dependencies = []ID{NewID("tenant-a", "parent")}
	record.RetryClass = ""
	req, err := RetryRequest(record, it, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := record.Facts
	want.RequestID, want.RetryClass, want.Source = req.IdempotencyKey+":request", "manual", record.Digest.String()
	if !reflect.DeepEqual(req.Facts, want) {
		t.Errorf("copied\n%+v, want\n%+v", req.Facts, want)
	}
	if req.TenantID != it.Tenant || req.CorrelationID != it.ID.JobID() || req.Deadline != it.Deadline || len(req.Parents) != 0 || len(req.Dependencies) != 0 {
		t.Errorf("the retry is %+v", req)
	}
	// Its digests are those of the same submission that somebody sends.
	target, err := json.Marshal(req.Preferred)
	if err != nil {
		t.Fatal(err)
	}
	required, err := json.Marshal(req.Required)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) string { return string(appendString(nil, s)) }
	list := func(s []string) string { return string(appendStrings(nil, s)) }
	sent := parse(t, minimal(
		"request_id="+text(req.RequestID), "idempotency_key="+text(req.IdempotencyKey), "operation="+text(req.Kind.Operation()),
		"repository_id="+text(req.RepositoryID), "base_ref="+text(req.BaseRef), "base_sha="+text(req.BaseSHA),
		"owner_id="+text(req.OwnerID), "session_id="+text(req.SessionID), "tenant_id="+text(req.TenantID),
		"fairness_group="+text(req.FairnessGroup), "priority=8", "lane_id="+text(req.LaneID),
		"candidate_id="+text(req.CandidateID), "generation_id="+text(req.GenerationID), "retry_class="+text("manual"),
		"correlation_id="+text(it.ID.JobID()), "input_digest="+text(record.Digest.String()),
		`target={"kind":"inventory_alias","alias":`+text(req.TargetAlias)+`}`,
		`resources={"resource_class":`+text(req.ResourceClass)+`,"concurrency_key":`+text(req.ConcurrencyKey)+
			`,"cpu_weight":7,"memory_mib":2048,"disk_mib":4096,"process_slots":3,"host_labels":`+list(req.HostLabels)+
			`,"anti_affinity":`+list(req.AntiAffinity)+`,"preferred_target":`+string(target)+`,"required_target":`+string(required)+
			`,"queue_deadline":`+text(req.QueueDeadline)+`,"disk_low_watermark_mib":100,"disk_high_watermark_mib":1000}`))
	if sent.Digest != req.Digest || sent.Loose != req.Loose || sent.ID() != req.ID() {
		t.Errorf("digest %s, want %s", req.Digest, sent.Digest)
	}
	again, err := RetryRequest(record, it, 2)
	if err != nil || !reflect.DeepEqual(again, req) {
		t.Errorf("a repeated retry is %+v, %v", again, err)
	}
	if other, err := RetryRequest(record, it, 3); err != nil || other.ID() == req.ID() {
		t.Errorf("the next retry is %+v, %v", other, err)
	}
}
