package workitem

import (
	"errors"
	"testing"
)

func TestNewIDGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Cases []struct {
			Scope string
			Key   string `json:"idempotency_key"`
			Job   string `json:"job_id"`
			Item  string `json:"work_item_id"`
		}
		Invalid []struct {
			Scope string
			Key   string `json:"idempotency_key"`
		}
	}
	vectors(t, "identity.json", "id_derivation", &v)
	if len(v.Cases) < 10 || len(v.Invalid) < 8 {
		t.Fatalf("the vectors have %d and %d cases", len(v.Cases), len(v.Invalid))
	}
	for _, c := range v.Cases {
		id := NewID(c.Scope, c.Key)
		if id.JobID() != c.Job || id.WorkItemID() != c.Item {
			t.Errorf("tenant %q key %q: %s and %s, want %s and %s", c.Scope, c.Key, id.JobID(), id.WorkItemID(), c.Job, c.Item)
		}
		if CheckOpaque("tenant_id", c.Scope, maxOpaque) != nil || CheckOpaque("idempotency_key", c.Key, maxOpaque) != nil {
			t.Errorf("tenant %q key %q are not taken as opaque strings", c.Scope, c.Key)
		}
	}
	for _, c := range v.Invalid {
		if CheckOpaque("tenant_id", c.Scope, maxOpaque) == nil && CheckOpaque("idempotency_key", c.Key, maxOpaque) == nil {
			t.Errorf("tenant %q and key %q are both taken as opaque strings", c.Scope, c.Key)
		}
	}
}

func TestParseIDGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Cases []struct {
			Input    string
			Accepted bool
			Job      string `json:"job_id"`
			Item     string `json:"work_item_id"`
		}
	}
	vectors(t, "identity.json", "identifier_parsing", &v)
	if len(v.Cases) != 13 {
		t.Fatalf("the vectors have %d cases", len(v.Cases))
	}
	for _, c := range v.Cases {
		id, err := ParseID(c.Input)
		if c.Accepted {
			if err != nil || id.JobID() != c.Job || id.WorkItemID() != c.Item {
				t.Errorf("%q: %s, %s, %v", c.Input, id.JobID(), id.WorkItemID(), err)
			}
			continue
		}
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Code != InvalidRequest || refusal.Field != "job_id" {
			t.Errorf("%q: %v, want a refusal of job_id", c.Input, err)
		}
		if id != (ID{}) {
			t.Errorf("%q: refused with the id %s", c.Input, id.JobID())
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("rmjob:c7ef0d7d-a304-5d60-97da-72926b90da3f")
	f.Add("workitem:repository_manager:C7EF0D7D-A304-5D60-97DA-72926B90DA3F")
	f.Add("rmjob:c7ef0d7da3045d6097da72926b90da3f----")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			return
		}
		for _, handle := range []string{id.JobID(), id.WorkItemID()} {
			again, err := ParseID(handle)
			if err != nil || again != id {
				t.Fatalf("%q gives %s, which gives %v", s, handle, err)
			}
		}
	})
}
