package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/workitem"
)

func TestAnswerHasTheSchemaBeforeTheBody(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body any
		want string
	}{
		{workitem.Settled{Status: "a<b"}, `{"schema":"writ.x.v1","status":"a<b"}`},
		{struct{}{}, `{"schema":"writ.x.v1"}`},
		{&workitem.RetryHandle{Handle: workitem.Handle{ContractVersion: "1"}, RetryOf: "r"}, `{"schema":"writ.x.v1","contract_version":"1","job_id":"","work_item_id":"",` +
			`"request_id":"","state":"","input_digest":"","deduplicated":false,"retry_of":"r","adopted":0}`},
	} {
		got, err := answerDoc{"writ.x.v1", test.body}.MarshalJSON()
		if err != nil || string(got) != test.want {
			t.Errorf("%+v: %s, %v, want %s", test.body, got, err, test.want)
		}
	}
	if got, err := (answerDoc{"writ.x.v1", 7}).MarshalJSON(); err == nil {
		t.Errorf("a number became %s", got)
	}
}

func TestClaimIsReadFromEveryForm(t *testing.T) {
	t.Parallel()
	claim := workitem.Claim{
		WorkItemID: itemID(1), JobID: publicID(itemID(1)), Tenant: "t", LeaseOwner: "w", LeaseEpoch: 3, FenceToken: 3, FencingToken: 4, LeaseExpiresAt: 1.5,
	}
	tuple, err := json.Marshal(claim)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := answerDoc{"writ.job-claim.v1", workitem.ClaimAnswer{Claimed: true, Reason: "claimed", Claim: &claim}}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "claim.json")
	if err := os.WriteFile(file, answer, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ from, in string }{
		"the tuple":      {string(tuple), ""},
		"the answer":     {string(answer), ""},
		"a file":         {file, ""},
		"standard input": {"-", string(tuple)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &app{in: strings.NewReader(test.in)}
			id, fence, err := a.readClaim(test.from)
			if err != nil || id != itemID(1) || fence != claim.Fence() {
				t.Errorf("%s, %+v, %v; want %+v", id, fence, err, claim.Fence())
			}
		})
	}
}

func TestClaimThatIsNoneIsWrongUse(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"":                                   "expected the file",
		"{}":                                 "work_item_id is missing",
		"{":                                  "it is no claim",
		`{"claim":7}`:                        "it is no claim",
		`{"lease_epoch":"x"}`:                "it is no claim",
		`{"claim":null,"reason":"empty"}`:    "nothing was claimed there: empty",
		`{"schema":"writ.job-view.v1"}`:      "work_item_id is missing",
		`{"claim":{"lease_owner":"worker"}}`: "work_item_id is missing",
	} {
		_, _, err := (&app{}).readClaim(from)
		if u := (*usageError)(nil); !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want wrong use: %s", from, err, want)
		}
	}
}

func TestAgoRoundsToOneUnit(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 2, 15, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0:                          "0 s ago",
		59400 * time.Millisecond:   "59 s ago",
		59600 * time.Millisecond:   "1 min ago",
		89 * time.Second:           "1 min ago",
		3569 * time.Second:         "59 min ago",
		3599 * time.Second:         "1 h ago",
		47 * time.Hour:             "47 h ago",
		48 * time.Hour:             "2 days ago",
		-30 * time.Second:          "in 30 s",
		-599900 * time.Millisecond: "in 10 min",
		-100 * 24 * time.Hour:      "in 100 days",
	} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%s before: %q, want %q", d, got, want)
		}
	}
}

func TestPastFlagTakesTimesAndDurations(t *testing.T) {
	t.Parallel()
	const exact = "2026-12-02T15:04:05.25+01:00"
	if got, err := pastFlag("created-after", exact); err != nil || got != exact {
		t.Errorf("%q, %v", got, err)
	}
	before := time.Now()
	got, err := pastFlag("created-after", "90m")
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339Nano, got)
	if err != nil || at.Before(before.Add(-90*time.Minute)) || at.After(time.Now().Add(-90*time.Minute)) {
		t.Errorf("90m is %s, %v", got, err)
	}
	for _, wrong := range []string{"yesterday", "-5m", "2026-12-02", "2026-12-02T15:04:05"} {
		if _, err := pastFlag("created-after", wrong); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
}

func TestDuplicateAdviceSaysWhatDiffers(t *testing.T) {
	t.Parallel()
	for differs, want := range map[string]string{
		"operation": "the operation differs; another job", "projection": "what it asks for differs; another job",
		"source_only": "only how it was written differs", "": "another job needs another",
	} {
		err := fmt.Errorf("no: %w", &workitem.Error{Code: workitem.DuplicateRequest, Differs: differs})
		if got := adviceOf(err); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", differs, got, want)
		}
	}
}

func TestRequestAdviceNamesCommandsAndFlags(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"operation": "writ job kinds", "kind": "writ job kinds", "consent.allow_push": "--allow-push",
		"consent.allow_destructive_cleanup": "--allow-destructive-cleanup",
	} {
		err := fmt.Errorf("no: %w", &workitem.Error{Code: workitem.InvalidRequest, Field: field})
		if got := adviceOf(err); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", field, got, want)
		}
	}
	if got := adviceOf(&workitem.Error{Code: workitem.InvalidRequest, Field: "priority"}); got != "" {
		t.Errorf("priority: %q", got)
	}
}
