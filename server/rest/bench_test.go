package rest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
)

// benchRequest is a submission of about 512 bytes.
const benchRequest = `{"contract_version":"1","request_id":"req-000000001","idempotency_key":"idem-000000001","operation":"build",` +
	`"repository":{"repository_id":"repo-a"},"base_ref":"main","base_sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","owner_id":"actor-a",` +
	`"session_id":"session-a","tenant_id":"tenant-a","priority":5,"resources":{"cpu_weight":2,"memory_mib":512,"host_labels":["linux"]},` +
	`"validation_policy":{"stages":["feedback"]},"config_digest":"b14a97bf844ddb434826bcd72e1f2cbab9cc4d7829e630726034fedde5568794"}`

const (
	benchJob   = "rmjob:0e64e7be-8728-5c0c-839b-4ee165705a25"
	benchFence = `{"work_item_id":"workitem:repository_manager:0e64e7be-8728-5c0c-839b-4ee165705a25","job_id":"rmjob:0e64e7be-8728-5c0c-839b-4ee165705a25",` +
		`"kind":"repository.build","tenant":"tenant-a","payload_ref":"rmjob:0e64e7be-8728-5c0c-839b-4ee165705a25","depends_on":[],"lease_owner":"worker-1",` +
		`"lease_epoch":1,"fence_token":1,"fencing_token":1,"attempt":1,"max_attempts":3,"lease_expires_at":1767225660.0}`
)

// nowhere is a ResponseWriter that throws everything away.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}

// still is a Jobs that answers at once with what was made before.
type still struct {
	operation.Jobs
	handle  *workitem.Handle
	answer  *workitem.ClaimAnswer
	settled *workitem.Settled
	renewal *workitem.Renewal
	view    *workitem.View
}

func (s *still) Submit(context.Context, *workitem.SubmitInput) (*workitem.Handle, error) {
	return s.handle, nil
}
func (s *still) ClaimNext(context.Context, *workitem.ClaimNextInput) (*workitem.ClaimAnswer, error) {
	return s.answer, nil
}
func (s *still) Commit(context.Context, *workitem.CommitInput) (*workitem.Settled, error) {
	return s.settled, nil
}
func (s *still) Heartbeat(context.Context, *workitem.HeartbeatInput) (*workitem.Renewal, error) {
	return s.renewal, nil
}
func (s *still) Get(context.Context, *workitem.GetInput) (*workitem.View, error) { return s.view, nil }

// BenchmarkHandler measures what the handler adds to net/http and to the
// authority in each of the calls that a busy server gets most.
func BenchmarkHandler(b *testing.B) {
	jobs := &still{handle: resttest.Sample[workitem.Handle](), answer: resttest.Sample[workitem.ClaimAnswer](),
		settled: resttest.Sample[workitem.Settled](), renewal: resttest.Sample[workitem.Renewal](), view: resttest.Sample[workitem.View]()}
	handler := rest.New(rest.Config{Authenticate: func(*http.Request) (operation.Jobs, workitem.Principal, error) {
		return jobs, caller, nil
	}})
	for _, bm := range []struct{ name, method, path, body string }{
		{"submit", "POST", "/v1/jobs", benchRequest},
		{"claim-next", "POST", "/v1/claims", `{"kind":"repository.build","worker":"worker-1","lease_ttl_s":60,"claim_request_id":"c-1"}`},
		{"commit", "POST", "/v1/jobs/" + benchJob + "/commit", `{"claim":` + benchFence + `,"outcome":"succeeded","result_ref":"result:1"}`},
		{"heartbeat", "POST", "/v1/jobs/" + benchJob + "/heartbeat", `{"claim":` + benchFence + `,"lease_ttl_s":60}`},
		{"get", "GET", "/v1/jobs/" + benchJob, ""},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			w := &nowhere{header: http.Header{}}
			u, err := url.Parse(bm.path)
			if err != nil {
				b.Fatal(err)
			}
			body := bytes.NewReader([]byte(bm.body))
			header := http.Header{"Content-Type": {"application/json"}}
			for b.Loop() {
				body.Reset([]byte(bm.body))
				clear(w.header)
				r := &http.Request{Method: bm.method, URL: u, Header: header, Body: io.NopCloser(body), ContentLength: int64(len(bm.body))}
				handler.ServeHTTP(w, r)
			}
		})
	}
}
