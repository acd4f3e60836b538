package workitem

import (
	"encoding/json"
	"reflect"
	"testing"
)

// goldenItem is the row of the request full_resources when it has just been
// admitted, 1000 seconds after the epoch, with its record.
func goldenItem(t testing.TB) (*Item, *Record) {
	t.Helper()
	req := parse(t, goldenRequests(t)["full_resources"].Contract)
	return &Item{
		ID: req.ID(), Tenant: req.TenantID, Kind: req.Kind, Status: Ready, CreatedAt: 1000e6, UpdatedAt: 1000e6,
		Repository: req.RepositoryID, Owner: req.OwnerID, FairnessGroup: req.FairnessGroup,
		ResourceClass: req.ResourceClass, Priority: req.Priority, Deadline: req.Deadline,
		MaxAttempts: 3, CorrelationID: req.CorrelationID,
	}, req.Record()
}

// members is a value as JSON members.
func members(t *testing.T, v any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func golden(t *testing.T, section string) map[string]any {
	t.Helper()
	var v struct{ Value map[string]any }
	vectors(t, "rows.json", section, &v)
	if len(v.Value) == 0 {
		t.Fatalf("%s is empty", section)
	}
	return v.Value
}

func TestViewsGolden(t *testing.T) {
	t.Parallel()
	it, record := goldenItem(t)
	check := func(section string) {
		t.Helper()
		got, want := members(t, NewView(it, record)), golden(t, section)
		for _, added := range []string{"created_at", "updated_at", "completed_at"} {
			if _, ok := got[added]; !ok {
				t.Errorf("%s lacks %s", section, added)
			}
			delete(got, added)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is\n%v, want\n%v", section, got, want)
		}
	}
	check("view_ready")

	it.Status, it.Attempt, it.LeaseOwner, it.LeaseEpoch, it.FencingToken = Leased, 1, "worker-1", 1, 1
	it.HeartbeatAt, it.LeaseExpiresAt = 1002e6, 1062e6
	check("view_leased")

	claim, want := members(t, NewClaim(it)), golden(t, "claim")
	delete(want, "_native") // a mark of the reference, no part of the contract
	if claim["lease_expires_at"] != 1062.0 {
		t.Errorf("the claim's lease runs out at %v", claim["lease_expires_at"])
	}
	delete(claim, "lease_expires_at")
	if !reflect.DeepEqual(claim, want) {
		t.Errorf("the claim is\n%v, want\n%v", claim, want)
	}

	running := golden(t, "view_running")
	lease := running["lease"].(map[string]any)
	it.Status, it.Checkpoint = Running, "checkpoint:after-feedback"
	it.HeartbeatAt, it.LeaseExpiresAt = Instant(lease["heartbeat_at"].(float64)*1e6), Instant(lease["expires_at"].(float64)*1e6)
	check("view_running")

	it.Status, it.LeaseOwner, it.LeaseExpiresAt, it.ResultRef, it.CompletedAt = Succeeded, "", 0, "artifact:v1:build", 1010e6
	check("view_succeeded")
	if got, want := members(t, NewResult(it, record)), golden(t, "result_succeeded"); !reflect.DeepEqual(got, want) {
		t.Errorf("the result is\n%v, want\n%v", got, want)
	}
}

func TestViewShowsTimesParentsAndFailures(t *testing.T) {
	t.Parallel()
	it, record := goldenItem(t)
	parent := NewID("tenant-a", "parent")
	record.Dependencies = []ID{parent}
	it.UpdatedAt, it.CompletedAt, it.Status = 1001_500_000, 1002e6, DeadLetter
	it.ErrorRef = "repository-error:v1:internal_error::log:a:b"
	it.LeaseOwner = "w" // a row that was repaired by hand: no attempt, no heartbeat
	v := NewView(it, record)
	if v.CreatedAt != "1970-01-01T00:16:40Z" || v.UpdatedAt != "1970-01-01T00:16:41.500000Z" || v.CompletedAt == nil || *v.CompletedAt != "1970-01-01T00:16:42Z" {
		t.Errorf("times %s, %s, %v", v.CreatedAt, v.UpdatedAt, v.CompletedAt)
	}
	if !reflect.DeepEqual(v.Dependencies, []string{parent.WorkItemID()}) || v.State != "dead-letter" {
		t.Errorf("dependencies %v, state %s", v.Dependencies, v.State)
	}
	if v.ErrorRef == nil || *v.ErrorRef != it.ErrorRef {
		t.Errorf("the view shows the error %v", v.ErrorRef)
	}
	if v.Lease == nil || v.Lease.Attempt != 1 || v.Lease.HeartbeatAt != nil || v.Lease.ExpiresAt != nil {
		t.Errorf("the lease is %+v", v.Lease)
	}
	r := NewResult(it, record)
	if r.FailureClass == nil || *r.FailureClass != "internal_error" || r.RefusalCode != nil || r.ErrorRef == nil || *r.ErrorRef != "log:a:b" {
		t.Errorf("the result shows %v, %v, %v", r.FailureClass, r.RefusalCode, r.ErrorRef)
	}
}

func BenchmarkView(b *testing.B) {
	it, record := goldenItem(b)
	b.ReportAllocs()
	for b.Loop() {
		if v := NewView(it, record); v.State != "ready" {
			b.Fatal(v.State)
		}
	}
}
