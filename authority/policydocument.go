package authority

import "github.com/writ-authority/writ/bindb/record"

// PolicyDocument is the policy of a Repository as other software reads it
// (section 20.5). It is made from the flags; nothing of it is stored.
type PolicyDocument struct {
	Version        int             `json:"version"`
	PolicyID       string          `json:"policy_id"`
	Defaults       PolicyDefaults  `json:"defaults"`
	ClassOverrides []ClassOverride `json:"class_overrides"`
}

// PolicyDefaults says what a Change needs unless an override says otherwise.
type PolicyDefaults struct {
	Attestation       bool `json:"require_attestation"`
	Tests             bool `json:"require_tests"`
	Lint              bool `json:"require_lint"`
	SecurityScan      bool `json:"require_security_scan"`
	LicenseScan       bool `json:"require_license_scan"`
	AIProvenance      bool `json:"require_ai_provenance"`
	CodeReviewSummary bool `json:"require_code_review_summary"`
}

// ClassOverride replaces some defaults for Changes of one class.
type ClassOverride struct {
	When ClassCondition   `json:"when"`
	Set  ClassRequirement `json:"set"`
}

// ClassCondition selects Changes.
type ClassCondition struct {
	ContentClass string `json:"content_class"`
}

// ClassRequirement is what an override says about the checks that it is for.
type ClassRequirement struct {
	Tests        bool `json:"require_tests"`
	Lint         bool `json:"require_lint"`
	SecurityScan bool `json:"require_security_scan"`
	LicenseScan  bool `json:"require_license_scan"`
}

// The policy that every Repository has; its flags are all that differs.
const (
	policyID      = "prototype"
	policyVersion = 1
)

// PolicyDocumentOf says what the flags of a Repository mean.
func PolicyDocumentOf(f record.PolicyFlags) PolicyDocument {
	d := PolicyDocument{
		Version: policyVersion, PolicyID: policyID,
		Defaults: PolicyDefaults{
			Attestation: f.RequireAttestation(), Tests: f.RequireTests(), Lint: f.RequireLint(),
			SecurityScan: f.RequireSecurityScan(), LicenseScan: f.RequireLicenseScan(),
			AIProvenance: f.RequireAIProvenance(), CodeReviewSummary: f.RequireCodeReviewSummary(),
		},
		ClassOverrides: []ClassOverride{},
	}
	if f.DocsOnlyRelaxedChecks() {
		d.ClassOverrides = append(d.ClassOverrides, ClassOverride{When: ClassCondition{DocsOnly.String()}})
	}
	return d
}
