package workitem_test

import (
	"errors"
	"fmt"

	"github.com/writ-authority/writ/workitem"
)

// A request says which job it stands for, and a refusal which member it is about.
func ExampleParseRequest() {
	raw := []byte(`{"contract_version":"1","request_id":"req-1","idempotency_key":"idem-1","operation":"build",
		"repository":{"repository_id":"repo-a"},"base_ref":"main","base_sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"owner_id":"actor-a","session_id":"session-a","tenant_id":"tenant-a"}`)
	req, err := workitem.ParseRequest(raw, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(req.Kind, req.ID().JobID())
	fmt.Println(req.Digest)

	_, err = workitem.ParseRequest([]byte(`{"resources":{"cpu_weight":1,"cpu_weight":2}}`), false)
	var refusal *workitem.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Code, refusal.Field)
	}
	// Output:
	// repository.build rmjob:0e64e7be-8728-5c0c-839b-4ee165705a25
	// b14a97bf844ddb434826bcd72e1f2cbab9cc4d7829e630726034fedde5568794
	// invalid_request resources.cpu_weight
}
