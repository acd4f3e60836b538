package gate

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
)

// Standing is how a requirement stands.
type Standing string

// The standings of a requirement.
const (
	Satisfied     Standing = "satisfied"
	Failed        Standing = "failed"
	Pending       Standing = "pending"
	Waived        Standing = "waived"
	NotApplicable Standing = "not_applicable"
	// Informational results never decide anything.
	Informational Standing = "informational"
)

// Requirement is one rule of the decision: how it stands, what made it so, and
// what would move it.
type Requirement struct {
	Name     string   `json:"name"`
	Suite    string   `json:"suite,omitempty"`
	Standing Standing `json:"standing"`
	// Status is the check's status as it is stored.
	Status string `json:"status"`
	Why    string `json:"why"`
	// Next is what would move it, "" when nothing needs to.
	Next string `json:"next,omitempty"`
}

func hexString(b []byte) string { return hex.EncodeToString(b) }

func standingOf(s record.CheckStatus) Standing {
	switch s {
	case record.CheckStatusPass:
		return Satisfied
	case record.CheckStatusHardFail, record.CheckStatusSoftFail:
		return Failed
	case record.CheckStatusWaived:
		return Waived
	case record.CheckStatusNotRequired:
		return NotApplicable
	case record.CheckStatusOptionalFail:
		return Informational
	}
	return Pending
}

// explain gives every check of an evaluation its reason and its remedy, and adds
// the objections, which no check of the format shows while no review is required.
func explain(s *subject, p *authority.Patchset) []Requirement {
	x := explainer{s, p}
	list := []Requirement{}
	for _, c := range s.eval.Checks {
		r := Requirement{Name: c.Kind.String(), Status: c.Status.String(), Standing: standingOf(c.Status)}
		if w, ok := s.eval.Waived[c.Kind]; ok {
			r.Why = fmt.Sprintf("%s waives it: %s", w.ID, w.Reason)
			if w.ExpiresAt != 0 {
				r.Why += fmt.Sprintf(" (until %s)", w.ExpiresAt)
			}
		} else {
			r.Why, r.Next = x.check(c)
		}
		if c.Kind == record.CheckKindCIPatchsetSuite {
			r.Suite = s.rules.Suites[c.Subject-1].ID
		}
		if w := c.Kind.Rule(); r.Next != "" && w.Waivable() && (r.Standing == Failed || r.Standing == Pending) {
			r.Next += fmt.Sprintf("; or `writ waiver add %s --reason TEXT`", c.Kind)
		}
		list = append(list, r)
	}
	for _, o := range s.eval.Objections {
		list = append(list, Requirement{
			Name: "no_open_objection", Status: "objection", Standing: Failed,
			Why:  fmt.Sprintf("%s by %s: %s", o.ID, o.Actor, firstLine(o.Text)),
			Next: fmt.Sprintf("%s can withdraw it with `writ review approve` or `writ review dismiss`", o.Actor.Name),
		})
	}
	return list
}

type explainer struct {
	s *subject
	p *authority.Patchset
}

func (x explainer) check(c record.PolicyCheck) (why, next string) {
	if c.Status == record.CheckStatusNotRequired && c.Kind <= record.CheckKindRequiredHumanReview {
		return x.notRequired(c.Kind), ""
	}
	f := &x.s.eval.Facts
	switch c.Kind {
	case record.CheckKindRequireAttestation:
		switch {
		case f.Attestation == nil:
			return "nobody has attested this patchset", "`writ attest`"
		case c.Status == record.CheckStatusHardFail:
			return fmt.Sprintf("%s says that the verification failed", f.Attestation.ID), "attest again with `writ attest --verification pass`"
		}
		return fmt.Sprintf("%s, %s", f.Attestation.ID, f.Attestation.CreatedAt), ""
	case record.CheckKindAIProvenance:
		switch {
		case c.Status == record.CheckStatusPass && x.p.Meta.AuthorMode() == record.AuthorModeHumanOnly:
			return fmt.Sprintf("the author mode is %s", x.p.Meta.AuthorMode()), ""
		case c.Status == record.CheckStatusPass:
			return "a snapshot link names session, checkpoint and model", ""
		}
		return fmt.Sprintf("the author mode is %s and no snapshot link names session, checkpoint and model", x.p.Meta.AuthorMode()),
			fmt.Sprintf("`writ task link %s %s --model NAME --session --checkpoint`", x.p.ID.Task(), x.p.ID)
	case record.CheckKindCodeReviewSummary:
		if c.Status == record.CheckStatusPass {
			return "a code review summary is there", ""
		}
		return "no review sums the change up", "`writ review comment --summary --message TEXT`"
	case record.CheckKindTests:
		return x.evidence(c, "tests", x.p.CIStatus.Tests())
	case record.CheckKindLint:
		return x.evidence(c, "lint", x.p.CIStatus.Lint())
	case record.CheckKindSecurityScan, record.CheckKindLicenseScan:
		return "the authority keeps no evidence of such scans", "run the scan as a blocking suite and drop the flag from writ.yaml"
	case record.CheckKindCIRolloutPhase:
		return fmt.Sprintf("the phase is %d", c.Subject), ""
	case record.CheckKindCIPatchsetSuite:
		return x.suite(c)
	case record.CheckKindRequiredHumanReview:
		return x.review(c)
	}
	return "", ""
}

func (x explainer) notRequired(k record.CheckKind) string {
	relaxed := x.s.eval.Class == authority.DocsOnly && x.s.eval.Flags.DocsOnlyRelaxedChecks()
	switch k {
	case record.CheckKindTests, record.CheckKindLint, record.CheckKindSecurityScan, record.CheckKindLicenseScan:
		if relaxed {
			return "only documentation changes"
		}
	}
	return "no policy flag or attestation asks for it"
}

// evidence explains a rule that the CI run of the Patchset decides.
func (x explainer) evidence(c record.PolicyCheck, kind string, got record.CIStatus) (why, next string) {
	var ids []string
	for _, s := range x.s.rules.Suites {
		if string(s.Kind) == kind && s.Blocking {
			ids = append(ids, s.ID)
		}
	}
	names := strings.Join(ids, ", ")
	switch {
	case len(ids) == 0 && c.Status == record.CheckStatusPending:
		return fmt.Sprintf("no blocking suite of kind %s exists, so the requirement can't be met", kind),
			fmt.Sprintf("add one to writ.yaml (`writ init` begins the file), or set require_%s to false there on the target branch", kind)
	case x.p.CICompletedAt == 0:
		return fmt.Sprintf("run %d of the checks has not completed", x.p.CIRunSeq), "`writ gate` runs them"
	case c.Status == record.CheckStatusPass:
		return fmt.Sprintf("%s passed", names), ""
	case c.Status == record.CheckStatusOptionalFail:
		return fmt.Sprintf("%s failed, but is not required", names), ""
	case got == record.CIStatusFail:
		return fmt.Sprintf("%s failed", strings.Join(x.failed(kind), ", ")), "fix it and run `writ gate` on the new commit"
	case got == record.CIStatusError:
		return fmt.Sprintf("%s could not be run to its end", strings.Join(x.failed(kind), ", ")), "see its log, then `writ gate --rerun`"
	case x.p.CIBlockingFailures > 0:
		return fmt.Sprintf("%d blocking suites failed", x.p.CIBlockingFailures), "fix them and run `writ gate` on the new commit"
	}
	return "the run gave no result for it", "`writ gate --rerun`"
}

// failed lists the blocking suites of a kind that did not pass.
func (x explainer) failed(kind string) []string {
	var ids []string
	for _, s := range x.s.rules.Suites {
		if string(s.Kind) == kind && s.Blocking && resultOf(x.p, s, x.s.run.results) != record.CIStatusPass {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func (x explainer) suite(c record.PolicyCheck) (why, next string) {
	s := x.s.rules.Suites[c.Subject-1]
	got := resultOf(x.p, s, x.s.run.results)
	role := "blocking"
	if !s.Blocking {
		role = "informational"
	}
	why = fmt.Sprintf("%s, `%s`", role, firstLine(s.Run.String()))
	switch {
	case got == record.CIStatusNone:
		return why + " has no result", "`writ gate` runs it"
	case got == record.CIStatusPass:
		return why + " passed", ""
	}
	for _, r := range x.s.run.results {
		if r.ID != s.ID {
			continue
		}
		verdict := "failed"
		if got == record.CIStatusError {
			verdict = "gave no verdict"
		}
		why += " " + verdict + ": " + r.Reason
		next = "see " + r.Log
	}
	if !s.Blocking {
		return why, ""
	}
	return why, next
}

func (x explainer) review(c record.PolicyCheck) (why, next string) {
	e := x.s.eval
	switch {
	case c.Status == record.CheckStatusPass:
		names := make([]string, len(e.Approvals))
		for i, a := range e.Approvals {
			names[i] = fmt.Sprintf("%s (%s)", a.Actor, a.ID)
		}
		return "approved by " + strings.Join(names, ", "), ""
	case len(e.Objections) > 0:
		return "an objection is open", "settle it"
	}
	return fmt.Sprintf("%s asks for one approval and there is none", e.Facts.Attestation.ID), "a reviewer runs `writ review approve`"
}

func firstLine(text string) string {
	line, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if line == "" {
		return "(no text)"
	}
	if more {
		line += " …"
	}
	return line
}
