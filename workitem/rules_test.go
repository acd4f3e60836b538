package workitem

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestCheckpointsGolden(t *testing.T) {
	t.Parallel()
	var v struct{ Valid, Invalid []string }
	vectors(t, "rules.json", "checkpoint_ids", &v)
	if len(v.Valid) != 3 || len(v.Invalid) != 6 {
		t.Fatalf("the vectors have %d and %d cases", len(v.Valid), len(v.Invalid))
	}
	longest := "checkpoint:" + strings.Repeat("z", 240)
	for _, s := range append(v.Valid, longest, "checkpoint:a_.:-0") {
		if err := CheckCheckpoint(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range append(v.Invalid, longest+"z", "", "checkpoint:a\n", "Checkpoint:a", "checkpoint:é") {
		if CheckCheckpoint(s) == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

func TestConsentGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Admission []struct {
			Operation string
			Consent   json.RawMessage
			Gate      struct {
				Required bool     `json:"consent_required"`
				Scope    string   `json:"consent_scope"`
				Subject  string   `json:"consent_subject"`
				Basis    string   `json:"consent_basis"`
				Granted  *float64 `json:"consent_granted_at"`
			}
		} `json:"admission_at_42"`
		States []struct {
			Required bool
			Granted  any `json:"granted_at"`
			Expires  any `json:"expires_at"`
			Now      float64
			State    string
		}
	}
	vectors(t, "rules.json", "consent", &v)
	if len(v.Admission) != 10 || len(v.States) != 8 {
		t.Fatalf("the vectors have %d and %d cases", len(v.Admission), len(v.States))
	}
	for _, c := range v.Admission {
		req := parse(t, minimal(`operation="`+c.Operation+`"`, "consent="+string(c.Consent)))
		scope, subject, basis := req.Gate()
		if req.Gated() != c.Gate.Required || scope != c.Gate.Scope || subject != c.Gate.Subject || basis != c.Gate.Basis {
			t.Errorf("%s %s: gated %v for %q, %q, %q, want %+v", c.Operation, c.Consent, req.Gated(), scope, subject, basis, c.Gate)
		}
		if req.Gated() != (c.Gate.Granted != nil) {
			t.Errorf("%s %s: granted at %v", c.Operation, c.Consent, c.Gate.Granted)
		}
	}
	// An instant that can't be read is no grant, and a past expiry.
	instant := func(v any, unreadable Instant) Instant {
		switch v := v.(type) {
		case float64:
			return Instant(v * 1e6)
		case string:
			return unreadable
		}
		return 0
	}
	for _, c := range v.States {
		got := ConsentStateAt(c.Required, instant(c.Granted, 0), instant(c.Expires, -1), Instant(c.Now*1e6))
		if got != c.State {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestRetryDelayGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Cases []struct {
			Base    float64 `json:"backoff_base_s"`
			Attempt int
			Delay   float64 `json:"delay_s"`
		}
	}
	vectors(t, "rules.json", "backoff", &v)
	if len(v.Cases) != 7 {
		t.Fatalf("the vectors have %d cases", len(v.Cases))
	}
	for _, c := range v.Cases {
		base := time.Duration(c.Base * float64(time.Second))
		if got := RetryDelay(base, time.Second, c.Attempt); got.Seconds() != c.Delay {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if got := RetryDelay(0, 0, 7); got != 0 {
		t.Errorf("without base and floor: %v", got)
	}
	if got := RetryDelay(time.Second, 0, 0); got != time.Second {
		t.Errorf("before any attempt: %v", got)
	}
	if got := RetryDelay(24*time.Hour, time.Second, 100); got != math.MaxInt64 {
		t.Errorf("beyond the longest duration: %v", got)
	}
}

func TestTaskStatesGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		States  map[string]string
		Pending map[string]string `json:"pending_input_overrides"`
	}
	vectors(t, "rules.json", "tasks_projection", &v)
	if len(v.States) != 8 || len(v.Pending) != 1 {
		t.Fatalf("the vectors have %d and %d cases", len(v.States), len(v.Pending))
	}
	for state, want := range v.States {
		s, err := ParseState(state)
		if err != nil {
			t.Fatal(err)
		}
		if got := TaskState(s, false); got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
		if override, ok := v.Pending[want]; ok {
			want = override
		}
		if got := TaskState(s, true); got != want {
			t.Errorf("%s that waits for input: %s, want %s", state, got, want)
		}
	}
}
