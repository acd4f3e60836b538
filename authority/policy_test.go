package authority_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
)

const (
	flagAttestation record.PolicyFlags = 1 << iota
	flagTests
	flagLint
	flagSecurity
	flagLicense
	flagProvenance
	flagSummary
	flagRelaxed
)

// status is what Evaluate gives for one kind of check.
func status(t testing.TB, e *authority.Evaluation, kind record.CheckKind) record.CheckStatus {
	t.Helper()
	for _, c := range e.Checks {
		if c.Kind == kind {
			return c.Status
		}
	}
	t.Fatalf("no check %s", kind)
	return 0
}

type factsOption func(*authority.Facts)

func facts(options ...factsOption) authority.Facts {
	var f authority.Facts
	f.Patchset.Meta.SetAuthorMode(record.AuthorModeAIOnlyExperimental)
	for _, o := range options {
		o(&f)
	}
	return f
}

func attested(v record.VerificationState, tests, lint, human bool) factsOption {
	return func(f *authority.Facts) {
		f.Attestation = &authority.Attestation{}
		f.Attestation.Meta.SetVerificationState(v)
		f.Attestation.Meta.SetRequireTestsPass(tests)
		f.Attestation.Meta.SetRequireLintPass(lint)
		f.Attestation.Meta.SetRequireHumanReview(human)
	}
}

func reviewed(actor uint32, a record.ReviewAction, blocking ...bool) factsOption {
	return func(f *authority.Facts) {
		r := authority.Review{Index: uint32(len(f.Reviews))}
		r.Ordinal = uint8(len(f.Reviews))
		r.Review.Actor = record.RefTo(actor)
		r.Meta.SetAction(a)
		r.Meta.SetBlocking(len(blocking) > 0)
		f.Reviews = append(f.Reviews, r)
	}
}

func waived(rule record.RuleCode) factsOption {
	return func(f *authority.Facts) {
		w := authority.Waiver{Index: uint32(len(f.Waivers))}
		w.Rule = rule
		f.Waivers = append(f.Waivers, w)
	}
}

func ran(overall, tests, lint record.CIStatus, results, blocking uint16) factsOption {
	return func(f *authority.Facts) {
		p := &f.Patchset
		p.CIRunSeq, p.CICompletedAt = 1, 5
		p.CISelectedSuites, p.CISuiteResults, p.CIBlockingFailures = results, results, blocking
		p.CIStatus.SetOverall(overall)
		p.CIStatus.SetTests(tests)
		p.CIStatus.SetLint(lint)
	}
}

func authored(m record.AuthorMode) factsOption {
	return func(f *authority.Facts) { f.Patchset.Meta.SetAuthorMode(m) }
}

func linked(f *authority.Facts) { f.Provenance = true }

// TestChecks has a case for every cell of the table of checks (Binary DB v0,
// section 16.4) and for every waivable rule (section 16.5).
func TestChecks(t *testing.T) {
	t.Parallel()
	const (
		none, pass, fail, broke = record.CIStatusNone, record.CIStatusPass, record.CIStatusFail, record.CIStatusError

		notRequired, pending, passes = record.CheckStatusNotRequired, record.CheckStatusPending, record.CheckStatusPass
		hard, waivedStatus, optional = record.CheckStatusHardFail, record.CheckStatusWaived, record.CheckStatusOptionalFail

		attestation, provenance, summary = record.CheckKindRequireAttestation, record.CheckKindAIProvenance, record.CheckKindCodeReviewSummary
		tests, lint, human               = record.CheckKindTests, record.CheckKindLint, record.CheckKindRequiredHumanReview
		security, license                = record.CheckKindSecurityScan, record.CheckKindLicenseScan

		docs = authority.DocsOnly
		code = authority.CodeChange
	)
	type opts = []factsOption
	cases := []struct {
		name  string
		kind  record.CheckKind
		flags record.PolicyFlags
		class authority.ContentClass
		facts opts
		want  record.CheckStatus
	}{
		{"attestation not required", attestation, 0, code, nil, notRequired},
		{"attestation not required and failed", attestation, 0, code, opts{attested(record.VerificationStateFail, false, false, false)}, notRequired},
		{"attestation missing", attestation, flagAttestation, code, nil, pending},
		{"attestation failed", attestation, flagAttestation, code, opts{attested(record.VerificationStateFail, false, false, false)}, hard},
		{"attestation unknown", attestation, flagAttestation, code, opts{attested(record.VerificationStateUnknown, false, false, false)}, passes},
		{"attestation pending", attestation, flagAttestation, code, opts{attested(record.VerificationStatePending, false, false, false)}, passes},
		{"attestation passed", attestation, flagAttestation, code, opts{attested(record.VerificationStatePass, false, false, false)}, passes},
		{"attestation is not relaxed", attestation, flagAttestation | flagRelaxed, docs, nil, pending},
		{"attestation missing, waived", attestation, flagAttestation, code, opts{waived(record.RuleCodeRequireAttestation)}, waivedStatus},
		{"attestation failed, waived", attestation, flagAttestation, code, opts{attested(record.VerificationStateFail, false, false, false), waived(record.RuleCodeRequireAttestation)}, waivedStatus},
		{"attestation satisfied, waived", attestation, flagAttestation, code, opts{attested(record.VerificationStatePass, false, false, false), waived(record.RuleCodeRequireAttestation)}, passes},
		{"attestation not required, waived", attestation, 0, code, opts{waived(record.RuleCodeRequireAttestation)}, notRequired},

		{"provenance not required", provenance, 0, code, nil, notRequired},
		{"provenance missing", provenance, flagProvenance, code, nil, pending},
		{"provenance by a human", provenance, flagProvenance, code, opts{authored(record.AuthorModeHumanOnly)}, passes},
		{"provenance by a human with an AI", provenance, flagProvenance, code, opts{authored(record.AuthorModeHumanWithAIAssist)}, pending},
		{"provenance linked", provenance, flagProvenance, code, opts{linked}, passes},
		{"provenance is not relaxed", provenance, flagProvenance | flagRelaxed, docs, nil, pending},
		{"provenance waived", provenance, flagProvenance, code, opts{waived(record.RuleCodeAIProvenance)}, waivedStatus},

		{"summary not required", summary, 0, code, nil, notRequired},
		{"summary missing", summary, flagSummary, code, opts{reviewed(1, record.ReviewActionApprove)}, pending},
		{"summary there", summary, flagSummary, code, opts{reviewed(1, record.ReviewActionCodeReviewSummary)}, passes},
		{"summary is not relaxed", summary, flagSummary | flagRelaxed, docs, nil, pending},
		{"summary waived", summary, flagSummary, code, opts{waived(record.RuleCodeCodeReviewSummary)}, waivedStatus},

		{"tests not required, not run", tests, 0, code, nil, notRequired},
		{"tests not required, passed", tests, 0, code, opts{ran(pass, pass, none, 1, 0)}, passes},
		{"tests not required, failed", tests, 0, code, opts{ran(fail, fail, none, 1, 1)}, optional},
		{"tests not required, broke", tests, 0, code, opts{ran(broke, broke, none, 1, 1)}, notRequired},
		{"tests not run", tests, flagTests, code, nil, pending},
		{"tests passed", tests, flagTests, code, opts{ran(pass, pass, none, 1, 0)}, passes},
		{"tests failed", tests, flagTests, code, opts{ran(pass, fail, none, 1, 0)}, hard},
		{"tests passed, the run failed", tests, flagTests, code, opts{ran(fail, pass, none, 1, 0)}, hard},
		{"tests passed, a blocking suite failed", tests, flagTests, code, opts{ran(pass, pass, none, 2, 1)}, hard},
		{"tests passed, the run broke", tests, flagTests, code, opts{ran(broke, pass, none, 1, 0)}, pending},
		{"tests broke", tests, flagTests, code, opts{ran(pass, broke, none, 1, 0)}, pending},
		{"no tests", tests, flagTests, code, opts{ran(pass, none, pass, 1, 0)}, pending},
		{"tests passed without results", tests, flagTests, code, opts{ran(pass, pass, none, 0, 0)}, pending},
		{"tests relaxed", tests, flagTests | flagRelaxed, docs, nil, notRequired},
		{"tests relaxed for documents only", tests, flagTests | flagRelaxed, code, nil, pending},
		{"tests without relaxation", tests, flagTests, docs, nil, pending},
		{"tests by attestation", tests, 0, code, opts{attested(record.VerificationStatePass, true, false, false)}, pending},
		{"tests by attestation, relaxed", tests, flagRelaxed, docs, opts{attested(record.VerificationStatePass, true, false, false)}, notRequired},
		{"tests stay required", tests, flagTests, code, opts{attested(record.VerificationStatePass, false, false, false)}, pending},
		{"tests cannot be waived", tests, flagTests, code, opts{waived(record.RuleCodeTests)}, pending},
		{"failed tests cannot be waived", tests, flagTests, code, opts{ran(fail, fail, none, 1, 1), waived(record.RuleCodeTests)}, hard},

		{"lint not required, not run", lint, 0, code, nil, notRequired},
		{"lint not required, passed", lint, 0, code, opts{ran(pass, none, pass, 1, 0)}, passes},
		{"lint not required, failed", lint, 0, code, opts{ran(fail, none, fail, 1, 1)}, optional},
		{"lint not run", lint, flagLint, code, nil, pending},
		{"lint passed", lint, flagLint, code, opts{ran(fail, fail, pass, 2, 1)}, passes},
		{"lint failed", lint, flagLint, code, opts{ran(fail, pass, fail, 2, 1)}, hard},
		{"lint broke", lint, flagLint, code, opts{ran(broke, pass, broke, 2, 1)}, pending},
		{"no lint", lint, flagLint, code, opts{ran(pass, pass, none, 1, 0)}, pending},
		{"lint relaxed", lint, flagLint | flagRelaxed, docs, nil, notRequired},
		{"lint by attestation", lint, 0, code, opts{attested(record.VerificationStatePass, false, true, false)}, pending},
		{"lint waived", lint, flagLint, code, opts{waived(record.RuleCodeLint)}, waivedStatus},
		{"failed lint waived", lint, flagLint, code, opts{ran(fail, pass, fail, 2, 1), waived(record.RuleCodeLint)}, waivedStatus},

		{"security not required", security, 0, code, nil, notRequired},
		{"security", security, flagSecurity, code, opts{ran(pass, pass, pass, 3, 0)}, pending},
		{"security relaxed", security, flagSecurity | flagRelaxed, docs, nil, notRequired},
		{"security waived", security, flagSecurity, code, opts{waived(record.RuleCodeSecurityScan)}, waivedStatus},
		{"license not required", license, 0, code, nil, notRequired},
		{"license", license, flagLicense, code, nil, pending},
		{"license relaxed", license, flagLicense | flagRelaxed, docs, nil, notRequired},
		{"license waived", license, flagLicense, code, opts{waived(record.RuleCodeLicenseScan)}, waivedStatus},

		{"human not required", human, 0, code, opts{reviewed(1, record.ReviewActionApprove)}, notRequired},
		{"human missing", human, 0, code, opts{attested(record.VerificationStatePass, false, false, true)}, pending},
		{"human approved", human, 0, code, opts{attested(record.VerificationStatePass, false, false, true), reviewed(1, record.ReviewActionApprove)}, passes},
		{"human not relaxed", human, flagRelaxed, docs, opts{attested(record.VerificationStatePass, false, false, true)}, pending},
		{"human with an objection", human, 0, code, opts{attested(record.VerificationStatePass, false, false, true), reviewed(1, record.ReviewActionApprove), reviewed(2, record.ReviewActionRequestChanges)}, pending},
		{"human waived", human, 0, code, opts{attested(record.VerificationStatePass, false, false, true), waived(record.RuleCodeRequiredHumanReview)}, waivedStatus},
		{"a waiver of another rule", human, 0, code, opts{attested(record.VerificationStatePass, false, false, true), waived(record.RuleCodeLint)}, pending},
		{"a waiver of an unknown rule", human, 0, code, opts{attested(record.VerificationStatePass, false, false, true), waived(99)}, pending},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := authority.Evaluate(authority.PolicyInput{Flags: c.flags, Class: c.class}, facts(c.facts...))
			if got := status(t, e, c.kind); got != c.want {
				t.Errorf("%s is %s, want %s", c.kind, got, c.want)
			}
			if _, took := e.Waived[c.kind]; took != (c.want == waivedStatus) {
				t.Errorf("waiver took effect: %t", took)
			}
		})
	}
}

func TestSuiteRows(t *testing.T) {
	t.Parallel()
	const none, pass, fail, broke = record.CIStatusNone, record.CIStatusPass, record.CIStatusFail, record.CIStatusError
	in := authority.PolicyInput{Suites: []authority.SuiteRow{
		{true, pass}, {true, none}, {true, fail}, {true, broke},
		{false, pass}, {false, none}, {false, fail}, {false, broke},
	}}
	want := []record.CheckStatus{
		record.CheckStatusPass, record.CheckStatusPending, record.CheckStatusHardFail, record.CheckStatusHardFail,
		record.CheckStatusPass, record.CheckStatusNotRequired, record.CheckStatusOptionalFail, record.CheckStatusOptionalFail,
	}
	e := authority.Evaluate(in, facts(waived(record.RuleCodeCIPatchsetSuite), waived(record.RuleCodeCIRolloutPhase)))
	var kinds []record.CheckKind
	var got []record.CheckStatus
	for _, c := range e.Checks {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		if c.Kind != record.CheckKindCIPatchsetSuite {
			kinds = append(kinds, c.Kind)
			continue
		}
		got = append(got, c.Status)
		if int(c.Subject) != len(got) || c.Detail.Blocking() != in.Suites[len(got)-1].Blocking {
			t.Errorf("row %+v stands at place %d", c, len(got))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("suites are %v, want %v", got, want)
	}
	// Suites follow the rollout row, and the human review ends the list.
	if want := []record.CheckKind{0, 1, 2, 3, 4, 5, 6, 8, 7}; !slices.Equal(kinds, want) {
		t.Errorf("order %v, want %v", kinds, want)
	}
	if e := authority.Evaluate(authority.PolicyInput{Suites: []authority.SuiteRow{}}, facts()); len(e.Checks) != 9 {
		t.Errorf("an empty catalogue gives %d checks, want 9 with the rollout row", len(e.Checks))
	}
	if e := authority.Evaluate(authority.PolicyInput{}, facts()); len(e.Checks) != 8 {
		t.Errorf("no catalogue gives %d checks, want 8", len(e.Checks))
	}
}

func TestDecisionOrder(t *testing.T) {
	t.Parallel()
	attest := attested(record.VerificationStateFail, false, false, false)
	for _, c := range []struct {
		name  string
		flags record.PolicyFlags
		facts []factsOption
		want  record.DecisionKind
		lands bool
	}{
		{"nothing is required", 0, nil, record.DecisionKindPass, true},
		{"failures that nobody requires", 0, []factsOption{ran(record.CIStatusFail, record.CIStatusFail, record.CIStatusFail, 2, 2)}, record.DecisionKindPass, true},
		{"waived", flagLint, []factsOption{waived(record.RuleCodeLint)}, record.DecisionKindWaived, true},
		{"pending before waived", flagLint | flagTests, []factsOption{waived(record.RuleCodeLint)}, record.DecisionKindPending, false},
		{"failed before pending", flagAttestation | flagTests, []factsOption{attest}, record.DecisionKindHardFail, false},
		{"failed before waived", flagAttestation | flagLint, []factsOption{attest, waived(record.RuleCodeLint)}, record.DecisionKindHardFail, false},
		{"an objection does not fail the checks", 0, []factsOption{reviewed(1, record.ReviewActionRequestChanges)}, record.DecisionKindPass, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := authority.Evaluate(authority.PolicyInput{Flags: c.flags}, facts(c.facts...))
			if e.Decision != c.want || e.Landable() != c.lands {
				t.Errorf("%s, landable %t; want %s, %t", e.Decision, e.Landable(), c.want, c.lands)
			}
		})
	}
}

// TestStanding weighs sequences of reviews, each given by its actor and action; a
// ! makes it blocking.
func TestStanding(t *testing.T) {
	t.Parallel()
	const (
		approve, taskApprove = record.ReviewActionApprove, record.ReviewActionTaskApprove
		changes, taskChanges = record.ReviewActionRequestChanges, record.ReviewActionTaskRequestChanges
		dismiss, comment     = record.ReviewActionDismiss, record.ReviewActionComment
		deferring, taskDefer = record.ReviewActionDefer, record.ReviewActionTaskDefer
	)
	type opts = []factsOption
	for _, c := range []struct {
		name                  string
		facts                 opts
		approvals, objections []uint32 // review indexes
	}{
		{"nothing", nil, nil, nil},
		{"an approval", opts{reviewed(1, approve)}, []uint32{0}, nil},
		{"two of one actor", opts{reviewed(1, approve), reviewed(1, approve)}, []uint32{1}, nil},
		{"two lanes of one actor", opts{reviewed(1, approve), reviewed(1, taskApprove)}, []uint32{0}, nil},
		{"two actors", opts{reviewed(1, approve), reviewed(2, approve)}, []uint32{0, 1}, nil},
		{"an objection", opts{reviewed(1, changes)}, nil, []uint32{0}},
		{"settled by approval", opts{reviewed(1, changes), reviewed(1, approve)}, []uint32{1}, nil},
		{"settled by dismissal", opts{reviewed(1, changes), reviewed(1, dismiss)}, nil, nil},
		{"settled by deferral", opts{reviewed(1, changes), reviewed(1, deferring)}, nil, nil},
		{"not settled by a comment", opts{reviewed(1, changes), reviewed(1, comment)}, nil, []uint32{0}},
		{"not settled by somebody else", opts{reviewed(1, changes), reviewed(2, approve)}, []uint32{1}, []uint32{0}},
		{"not settled in another lane", opts{reviewed(1, taskChanges), reviewed(1, approve)}, []uint32{1}, []uint32{0}},
		{"settled in its lane", opts{reviewed(1, taskChanges), reviewed(1, taskApprove)}, []uint32{1}, nil},
		{"deferred in its lane", opts{reviewed(1, taskChanges), reviewed(1, taskDefer)}, nil, nil},
		{"deferred in another lane", opts{reviewed(1, taskChanges), reviewed(1, deferring)}, nil, []uint32{0}},
		{"approval withdrawn", opts{reviewed(1, approve), reviewed(1, dismiss)}, nil, nil},
		{"approval turned", opts{reviewed(1, approve), reviewed(1, changes)}, nil, []uint32{1}},
		{"approval deferred", opts{reviewed(1, approve), reviewed(1, deferring)}, nil, nil},
		{"a comment blocks", opts{reviewed(1, comment, true)}, nil, []uint32{0}},
		{"a blocking comment settled in any lane", opts{reviewed(1, comment, true), reviewed(1, taskApprove)}, []uint32{1}, nil},
		{"a blocking comment dismissed", opts{reviewed(1, comment, true), reviewed(1, dismiss)}, nil, nil},
		{"a blocking comment not settled by deferral", opts{reviewed(1, comment, true), reviewed(1, deferring)}, nil, []uint32{0}},
		{"a blocking comment after the approval", opts{reviewed(1, approve), reviewed(1, comment, true)}, []uint32{0}, []uint32{1}},
		{"a blocking request for changes counts once", opts{reviewed(1, changes, true)}, nil, []uint32{0}},
		{"a blocking request for changes outlives a deferral", opts{reviewed(1, changes, true), reviewed(1, deferring)}, nil, []uint32{0}},
		{"a blocking comment and then changes deferred", opts{reviewed(1, comment, true), reviewed(1, changes), reviewed(1, deferring)}, nil, []uint32{0}},
		{"a blocking defer", opts{reviewed(1, deferring, true)}, nil, []uint32{0}},
		{"a blocking request", opts{reviewed(1, record.ReviewActionRequest, true)}, nil, []uint32{0}},
		{"a blocking summary", opts{reviewed(1, record.ReviewActionCodeReviewSummary, true)}, nil, []uint32{0}},
		{"a request is no approval", opts{reviewed(1, record.ReviewActionRequest)}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := authority.Evaluate(authority.PolicyInput{}, facts(c.facts...))
			indexes := func(list []authority.Review) (out []uint32) {
				for _, r := range list {
					out = append(out, r.Index)
				}
				return out
			}
			if got := indexes(e.Approvals); !slices.Equal(got, c.approvals) {
				t.Errorf("approvals %v, want %v", got, c.approvals)
			}
			if got := indexes(e.Objections); !slices.Equal(got, c.objections) {
				t.Errorf("objections %v, want %v", got, c.objections)
			}
		})
	}
}

func drawInput(t *rapid.T) (authority.PolicyInput, authority.Facts) {
	status := rapid.SampledFrom([]record.CIStatus{0, 1, 2, 3})
	in := authority.PolicyInput{
		Flags: record.PolicyFlags(rapid.Byte().Draw(t, "flags")),
		Class: rapid.SampledFrom([]authority.ContentClass{authority.CodeChange, authority.DocsOnly}).Draw(t, "class"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "suites") {
		in.Suites = append(in.Suites, authority.SuiteRow{Blocking: rapid.Bool().Draw(t, "blocking"), Result: status.Draw(t, "result")})
	}
	o := []factsOption{authored(record.AuthorMode(rapid.IntRange(0, 3).Draw(t, "mode")))}
	if rapid.Bool().Draw(t, "attested") {
		o = append(o, attested(record.VerificationState(rapid.IntRange(0, 3).Draw(t, "state")),
			rapid.Bool().Draw(t, "tests"), rapid.Bool().Draw(t, "lint"), rapid.Bool().Draw(t, "human")))
	}
	if rapid.Bool().Draw(t, "ran") {
		results := rapid.Uint16Range(0, 3).Draw(t, "results")
		o = append(o, ran(status.Draw(t, "overall"), status.Draw(t, "tests"), status.Draw(t, "lint"),
			results, rapid.Uint16Range(0, results).Draw(t, "failures")))
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "reviews") {
		var block []bool
		if rapid.Bool().Draw(t, fmt.Sprint("blocks", i)) {
			block = []bool{true}
		}
		o = append(o, reviewed(rapid.Uint32Range(1, 3).Draw(t, "actor"), rapid.SampledFrom(reviewActions).Draw(t, "action"), block...))
	}
	for range rapid.IntRange(0, 2).Draw(t, "waivers") {
		o = append(o, waived(record.RuleCode(rapid.Uint16Range(0, 12).Draw(t, "rule"))))
	}
	f := facts(o...)
	f.Provenance = rapid.Bool().Draw(t, "linked")
	return in, f
}

var reviewActions = []record.ReviewAction{
	record.ReviewActionRequest, record.ReviewActionComment, record.ReviewActionTaskComment,
	record.ReviewActionCodeReviewSummary, record.ReviewActionDefer, record.ReviewActionTaskDefer,
	record.ReviewActionApprove, record.ReviewActionTaskApprove, record.ReviewActionRequestChanges,
	record.ReviewActionTaskRequestChanges, record.ReviewActionDismiss,
}

// rank orders statuses from the worst for a land to the best.
func rank(s record.CheckStatus) int {
	return slices.Index([]record.CheckStatus{
		record.CheckStatusHardFail, record.CheckStatusPending, record.CheckStatusWaived,
		record.CheckStatusOptionalFail, record.CheckStatusNotRequired, record.CheckStatusPass,
	}, s)
}

func extended(f authority.Facts, o factsOption) authority.Facts {
	f.Reviews, f.Waivers = slices.Clone(f.Reviews), slices.Clone(f.Waivers)
	o(&f)
	return f
}

func TestEvaluateProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, f := drawInput(t)
		e := authority.Evaluate(in, f)
		again := authority.Evaluate(in, f)
		if !slices.Equal(e.Checks, again.Checks) || e.Decision != again.Decision {
			t.Fatal("the same input gave another decision")
		}
		better := func(what string, next *authority.Evaluation) {
			for i, c := range next.Checks {
				if rank(c.Status) < rank(e.Checks[i].Status) {
					t.Fatalf("%s turned %s from %s to %s", what, c.Kind, e.Checks[i].Status, c.Status)
				}
			}
			if e.Landable() && !next.Landable() {
				t.Fatalf("%s made it impossible to land", what)
			}
		}
		action := rapid.SampledFrom([]record.ReviewAction{record.ReviewActionApprove, record.ReviewActionTaskApprove}).Draw(t, "approval")
		actor := rapid.Uint32Range(1, 4).Draw(t, "approver")
		better("an approval", authority.Evaluate(in, extended(f, reviewed(actor, action))))
		better("a waiver", authority.Evaluate(in, extended(f, waived(record.RuleCode(rapid.Uint16Range(1, 10).Draw(t, "waive"))))))

		relaxed := in
		relaxed.Flags &= record.PolicyFlags(rapid.Byte().Draw(t, "mask")) | flagRelaxed
		for i, c := range authority.Evaluate(relaxed, f).Checks {
			if was := e.Checks[i].Status; was == record.CheckStatusNotRequired && c.Status == record.CheckStatusPending {
				t.Fatalf("fewer flags made %s pending", c.Kind)
			}
		}

		objected := authority.Evaluate(in, extended(f, reviewed(actor, record.ReviewActionRequestChanges)))
		if objected.Landable() {
			t.Fatal("it lands although somebody objects")
		}
		// An Attestation adds requirements and takes none away.
		bare := f
		bare.Attestation = nil
		without := authority.Evaluate(in, bare)
		for i, c := range without.Checks {
			required := c.Status == record.CheckStatusPending || c.Status == record.CheckStatusHardFail
			if required && e.Checks[i].Status == record.CheckStatusNotRequired {
				t.Fatalf("the attestation took the requirement %s away", c.Kind)
			}
		}
	})
}
