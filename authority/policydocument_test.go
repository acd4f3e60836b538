package authority_test

import (
	"encoding/json"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
)

func TestPolicyDocument(t *testing.T) {
	t.Parallel()
	for flags, want := range map[record.PolicyFlags]string{
		0: `{"version":1,"policy_id":"prototype","defaults":{"require_attestation":false,"require_tests":false,` +
			`"require_lint":false,"require_security_scan":false,"require_license_scan":false,"require_ai_provenance":false,` +
			`"require_code_review_summary":false},"class_overrides":[]}`,
		record.DefaultPolicyFlags: `{"version":1,"policy_id":"prototype","defaults":{"require_attestation":true,"require_tests":true,` +
			`"require_lint":false,"require_security_scan":false,"require_license_scan":false,"require_ai_provenance":false,` +
			`"require_code_review_summary":false},"class_overrides":[{"when":{"content_class":"docs_only"},` +
			`"set":{"require_tests":false,"require_lint":false,"require_security_scan":false,"require_license_scan":false}}]}`,
		0x74: `{"version":1,"policy_id":"prototype","defaults":{"require_attestation":false,"require_tests":false,` +
			`"require_lint":true,"require_security_scan":false,"require_license_scan":true,"require_ai_provenance":true,` +
			`"require_code_review_summary":true},"class_overrides":[]}`,
		0x08: `{"version":1,"policy_id":"prototype","defaults":{"require_attestation":false,"require_tests":false,` +
			`"require_lint":false,"require_security_scan":true,"require_license_scan":false,"require_ai_provenance":false,` +
			`"require_code_review_summary":false},"class_overrides":[]}`,
	} {
		b, err := json.Marshal(authority.PolicyDocumentOf(flags))
		if err != nil || string(b) != want {
			t.Errorf("flags %#x: %s, %v; want %s", flags, b, err, want)
		}
	}
}
