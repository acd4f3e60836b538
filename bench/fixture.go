package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
)

// Tenant and Person are who submits the jobs of a Fixture.
const (
	Tenant = "acme-platform"
	Person = "agent-07"
)

// Operation and Kind are the operation of every job of a Fixture that does not say
// otherwise, and the kind that its workers claim.
const (
	Operation = "build"
	Kind      = "repository.build"
)

// A Fixture makes the submissions of one benchmark: requests of about 512 bytes as
// an agent would send them, each with a request id and an idempotency key of its own.
// Two Fixtures with different runs never make the same job.
type Fixture struct {
	// Run is 0 to 9999.
	Run int
	// Spread gives the jobs different repositories, lanes, candidates and
	// correlations, as a listing wants to tell them apart: 1,000 repositories, 2,000
	// lanes (of every second job), and 50 jobs a correlation. Otherwise they are
	// those of one repository and fairness group.
	Spread bool
	// Tenant is whose jobs they are; empty is the Tenant of this package.
	Tenant string
	// Deadline is the queue deadline of all jobs, in RFC 3339; empty is none.
	Deadline string
}

// Request is the body of submission n. parent is the job identifier of a parent, or
// empty; operation and owner are those of the fixture if they are empty.
func (f Fixture) Request(n int, operation, owner, parent string) []byte {
	if operation == "" {
		operation = Operation
	}
	if owner == "" {
		owner = Person
	}
	repository, group, lane, correlation := 1, 1, 0, 0
	if f.Spread {
		repository, group, correlation = n%1000, n%8, n/50
		if n%2 == 1 {
			lane = 1 + n/2%2000
		}
	}
	b := make([]byte, 0, 640)
	text := func(name string) { b = append(append(append(b, '"'), name...), `":"`...) }
	end := func() { b = append(b, `",`...) }
	digits := func(v, width int) { b = pad(b, v, width) }

	b = append(b, '{')
	text("contract_version")
	b = append(b, '1')
	end()
	text("request_id")
	b = append(b, "req-7f3a-"...)
	digits(f.Run, 4)
	b = append(b, '-')
	digits(n, 10)
	end()
	text("idempotency_key")
	b = append(b, "ci/payments-api/"...)
	digits(f.Run, 4)
	b = append(b, '/')
	digits(n, 10)
	end()
	text("operation")
	b = append(b, operation...)
	end()
	b = append(b, `"repository":{"repository_id":"payments-api-`...)
	digits(repository, 4)
	b = append(b, `"},`...)
	text("base_ref")
	b = append(b, "refs/heads/main"...)
	end()
	text("base_sha")
	b = append(b, "9c1f3d5a7b2e4f60"...)
	digits(f.Run, 4)
	digits(n, 20)
	end()
	text("owner_id")
	b = append(b, owner...)
	end()
	text("session_id")
	b = append(b, "session-2026-0412-"...)
	digits(n/100, 6)
	end()
	text("tenant_id")
	b = append(b, cmp.Or(f.Tenant, Tenant)...)
	end()
	text("fairness_group")
	b = append(b, "team-"...)
	digits(group, 2)
	end()
	text("correlation_id")
	b = append(b, "change-"...)
	digits(correlation, 8)
	end()
	if lane > 0 {
		text("lane_id")
		b = append(b, "lane-"...)
		digits(lane, 4)
		end()
	}
	if parent != "" {
		b = append(append(append(b, `"dependencies":["`...), parent...), `"],`...)
	}
	b = append(b, `"priority":10,"resources":{"resource_class":"build-large","cpu_weight":4,"memory_mib":4096`...)
	if f.Deadline != "" {
		b = append(append(append(b, `,"queue_deadline":"`...), f.Deadline...), '"')
	}
	return append(b, `}}`...)
}

// pad appends v in decimal with at least width digits.
func pad(b []byte, v, width int) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], int64(v), 10)
	for range width - len(text) {
		b = append(b, '0')
	}
	return append(b, text...)
}

// Describe checks that a request of the fixture is JSON and says how long it is.
func (f Fixture) Describe() (string, error) {
	body := f.Request(12345, "", "", "")
	if !json.Valid(body) {
		return "", fmt.Errorf("the request of the fixture is no JSON: %s", body)
	}
	return fmt.Sprintf("request body %d bytes", len(body)), nil
}
