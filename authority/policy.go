package authority

import (
	"github.com/writ-authority/writ/bindb/record"
)

// ContentClass says what kind of files a Patchset changes (section 16.2).
type ContentClass uint8

const (
	// CodeChange is every change that is not DocsOnly.
	CodeChange ContentClass = iota
	// DocsOnly changes at least one path, and every one ends in .md.
	DocsOnly
)

func (c ContentClass) String() string {
	if c == DocsOnly {
		return "docs_only"
	}
	return "code_change"
}

// SuiteRow is one suite of the catalogue that a decision is made with, in byte
// order of the suite ids.
type SuiteRow struct {
	Blocking bool
	// Result is none when the selected run has no result for the suite.
	Result record.CIStatus
}

// PolicyInput is what a decision depends on besides the Patchset's own records.
type PolicyInput struct {
	Flags record.PolicyFlags
	Class ContentClass
	// Suites is the catalogue; with it the decision gets the rollout row, of
	// phase 0, and one row a suite. Nil means that no configuration is given.
	Suites []SuiteRow
}

// Facts are the records that a decision about one Patchset depends on.
type Facts struct {
	Patchset    Patchset
	Attestation *Attestation // the current one, or nil
	Reviews     []Review     // live ones by ordinal
	Waivers     []Waiver     // active ones
	Provenance  bool         // a link of the revision names session, checkpoint and model
}

// Evaluation is a decision with what it rests on.
type Evaluation struct {
	Decision   record.DecisionKind
	Checks     []record.PolicyCheck
	Class      ContentClass
	Flags      record.PolicyFlags
	Facts      Facts
	Approvals  []Review
	Objections []Review
	// Waived tells which Waiver took effect on which check.
	Waived map[record.CheckKind]Waiver
}

// Landable reports whether the Patchset may land as far as policy decides: it
// passes or is waived, and nobody objects.
func (e *Evaluation) Landable() bool {
	return (e.Decision == record.DecisionKindPass || e.Decision == record.DecisionKindWaived) && len(e.Objections) == 0
}

// requirements are the rules that apply (section 16.3).
type requirements struct {
	attestation, provenance, summary, tests, lint, security, license, human bool
}

func require(in PolicyInput, att *Attestation) requirements {
	relaxed := in.Flags.DocsOnlyRelaxedChecks() && in.Class == DocsOnly
	r := requirements{
		attestation: in.Flags.RequireAttestation(),
		provenance:  in.Flags.RequireAIProvenance(),
		summary:     in.Flags.RequireCodeReviewSummary(),
		security:    !relaxed && in.Flags.RequireSecurityScan(),
		license:     !relaxed && in.Flags.RequireLicenseScan(),
	}
	r.tests = !relaxed && (in.Flags.RequireTests() || att != nil && att.Meta.RequireTestsPass())
	r.lint = !relaxed && (in.Flags.RequireLint() || att != nil && att.Meta.RequireLintPass())
	r.human = att != nil && att.Meta.RequireHumanReview()
	return r
}

// Evaluate decides. It is a pure function of its arguments (section 16).
func Evaluate(in PolicyInput, f Facts) *Evaluation {
	st := stand(f.Reviews)
	req := require(in, f.Attestation)
	e := &Evaluation{
		Class: in.Class, Flags: in.Flags, Facts: f,
		Approvals: st.approvals, Objections: st.objections, Waived: map[record.CheckKind]Waiver{},
	}
	add := func(kind record.CheckKind, status record.CheckStatus) {
		if status == record.CheckStatusPending || status == record.CheckStatusHardFail {
			for _, w := range f.Waivers {
				if w.Rule == kind.Rule() && w.Rule.Waivable() {
					status, e.Waived[kind] = record.CheckStatusWaived, w
				}
			}
		}
		e.Checks = append(e.Checks, record.PolicyCheck{Kind: kind, Status: status})
	}
	add(record.CheckKindRequireAttestation, attestationStatus(req.attestation, f.Attestation))
	add(record.CheckKindAIProvenance, met(req.provenance,
		f.Patchset.Meta.AuthorMode() == record.AuthorModeHumanOnly || f.Provenance))
	add(record.CheckKindCodeReviewSummary, met(req.summary, hasSummary(f.Reviews)))
	add(record.CheckKindTests, testsStatus(req.tests, &f.Patchset))
	add(record.CheckKindLint, lintStatus(req.lint, &f.Patchset))
	add(record.CheckKindSecurityScan, met(req.security, false))
	add(record.CheckKindLicenseScan, met(req.license, false))
	if in.Suites != nil {
		add(record.CheckKindCIRolloutPhase, record.CheckStatusPass)
		for i, s := range in.Suites {
			row := record.PolicyCheck{Kind: record.CheckKindCIPatchsetSuite, Status: s.status(), Subject: uint16(i + 1)}
			row.Detail.SetBlocking(s.Blocking)
			row.Detail.SetInformational(!s.Blocking)
			e.Checks = append(e.Checks, row)
		}
	}
	add(record.CheckKindRequiredHumanReview, met(req.human, len(st.approvals) > 0 && len(st.objections) == 0))
	e.Decision = decide(e.Checks)
	return e
}

func met(required, satisfied bool) record.CheckStatus {
	switch {
	case !required:
		return record.CheckStatusNotRequired
	case satisfied:
		return record.CheckStatusPass
	}
	return record.CheckStatusPending
}

func attestationStatus(required bool, a *Attestation) record.CheckStatus {
	if required && a != nil && a.Meta.VerificationState() == record.VerificationStateFail {
		return record.CheckStatusHardFail
	}
	return met(required, a != nil)
}

func hasSummary(reviews []Review) bool {
	for _, r := range reviews {
		if r.Meta.CodeReviewSummary() {
			return true
		}
	}
	return false
}

// optional is how evidence counts for a rule that does not apply.
func optional(s record.CIStatus) record.CheckStatus {
	switch s {
	case record.CIStatusPass:
		return record.CheckStatusPass
	case record.CIStatusFail:
		return record.CheckStatusOptionalFail
	}
	return record.CheckStatusNotRequired
}

func testsStatus(required bool, p *Patchset) record.CheckStatus {
	tests, overall := p.CIStatus.Tests(), p.CIStatus.Overall()
	switch {
	case !required:
		return optional(tests)
	case p.CICompletedAt == 0:
		return record.CheckStatusPending
	case tests == record.CIStatusFail || overall == record.CIStatusFail || p.CIBlockingFailures > 0:
		return record.CheckStatusHardFail
	case tests == record.CIStatusPass && overall == record.CIStatusPass && p.CISuiteResults > 0:
		return record.CheckStatusPass
	}
	return record.CheckStatusPending
}

func lintStatus(required bool, p *Patchset) record.CheckStatus {
	lint := p.CIStatus.Lint()
	switch {
	case !required:
		return optional(lint)
	case p.CICompletedAt != 0 && lint == record.CIStatusPass:
		return record.CheckStatusPass
	case lint == record.CIStatusFail:
		return record.CheckStatusHardFail
	}
	return record.CheckStatusPending
}

// status judges one suite. A blocking one whose run broke off, for example at its
// time limit, has failed; without any result it is pending.
func (s SuiteRow) status() record.CheckStatus {
	switch {
	case s.Result == record.CIStatusPass:
		return record.CheckStatusPass
	case s.Blocking && s.Result == record.CIStatusNone:
		return record.CheckStatusPending
	case s.Blocking:
		return record.CheckStatusHardFail
	case s.Result == record.CIStatusNone:
		return record.CheckStatusNotRequired
	}
	return record.CheckStatusOptionalFail
}

// decide sums the checks up (section 16.6).
func decide(checks []record.PolicyCheck) record.DecisionKind {
	kind := record.DecisionKindPass
	rank := func(k record.DecisionKind) int {
		switch k {
		case record.DecisionKindHardFail:
			return 4
		case record.DecisionKindPending:
			return 3
		case record.DecisionKindSoftFail:
			return 2
		case record.DecisionKindWaived:
			return 1
		}
		return 0
	}
	for _, c := range checks {
		k := record.DecisionKindPass
		switch c.Status {
		case record.CheckStatusHardFail:
			k = record.DecisionKindHardFail
		case record.CheckStatusPending, record.CheckStatusAbsent:
			k = record.DecisionKindPending
		case record.CheckStatusSoftFail:
			k = record.DecisionKindSoftFail
		case record.CheckStatusWaived:
			k = record.DecisionKindWaived
		}
		if rank(k) > rank(kind) {
			kind = k
		}
	}
	return kind
}
