package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writ-authority/writ/bindb/record"
)

const (
	phaseCheck  = "ci_rollout_phase"
	suitePrefix = "ci_patchset_suite_"
	// policyID is the only policy that there is.
	policyID = "prototype"
)

// decisions orders Policy decisions by Patchset and ordinal and appends them with
// their checks.
func (l *legacy) decisions() error {
	var rows []ranked[decisionRow]
	for i := range l.doc.PolicyDecisions {
		row, p := &l.doc.PolicyDecisions[i], l.at("policy_decisions", i)
		if err := l.repository(p, row.RepoName, row.RepoID); err != nil {
			return err
		}
		if err := p.same("policy_id", row.PolicyID, policyID); err != nil {
			return err
		}
		owner, id, omitted, err := l.patchset(p, row.PatchsetID)
		if err != nil {
			return err
		}
		ordinal, err := p.suffix("policy_decision_id", row.DecisionID, []string{"K", "POL"}, id, changeOf(id))
		if err != nil {
			return err
		}
		id = id.PolicyDecision(ordinal)
		if omitted {
			l.omit(id.String(), "its Change is left out")
			continue
		}
		rows = append(rows, ranked[decisionRow]{row, p, id, owner, ordinal})
	}
	if err := sortRanked(rows, "policy_decision_id"); err != nil {
		return err
	}
	for i, r := range rows {
		if err := l.addDecision(uint32(i), r); err != nil {
			return err
		}
	}
	return nil
}

func (l *legacy) addDecision(index uint32, r ranked[decisionRow]) (err error) {
	row, p := r.row, r.at
	rec := record.PolicyDecision{
		Ordinal: r.ordinal, PatchOrdinal: r.id.PatchOrdinal, ChangeOrdinal: r.id.ChangeOrdinal,
		Patchset: r.owner, CreatedAt: row.EvaluatedAt.Seconds,
	}
	kind, err := parsed(p, "decision", row.Decision, record.ParseDecisionKind)
	if err != nil {
		return err
	}
	rec.Meta.SetDecision(kind)
	checks, err := policyChecks(p, row.Checks)
	if err != nil {
		return err
	}
	for i := range checks {
		at, err := addRecord(l, p, &checks[i])
		if err != nil {
			return err
		}
		if i == 0 {
			rec.FirstCheck = record.RefTo(at)
		}
	}
	rec.CheckCount = uint16(len(checks))
	rec.PreviousInPatchset = l.patchsetPolicies.join(r.owner, index, r.ordinal)
	if rec.PreviousInTask, err = l.taskPolicies.join(l.taskOf(r.owner), index); err != nil {
		return p.refuse(err)
	}
	l.kinds[r.owner] = kind
	_, err = addRecord(l, p, &rec)
	return err
}

// policyChecks converts the checks of one decision in their order. Those of the
// rollout have to be exactly one of the ten known projections.
func policyChecks(p place, rows []checkRow) ([]record.PolicyCheck, error) {
	if len(rows) > 1<<16-1 {
		return nil, p.bad("checks", "has %d rows, want at most %d", len(rows), 1<<16-1)
	}
	tuple, err := policyTuple(p, rows)
	if err != nil {
		return nil, err
	}
	checks := make([]record.PolicyCheck, len(rows))
	seen := map[string]bool{}
	for i, row := range rows {
		field := func(name string) string { return checkField(i, name) }
		c := &checks[i]
		if seen[row.Name] {
			return nil, p.bad(field("name"), "is %.60q, which an earlier check has too", row.Name)
		}
		seen[row.Name] = true
		if c.Status, err = parsed(p, field("status"), row.Status, record.ParseCheckStatus); err != nil {
			return nil, err
		}
		if suite, ok := strings.CutPrefix(row.Name, suitePrefix); ok {
			c.Kind = record.CheckKindCIPatchsetSuite
			c.Subject, c.Detail, _ = tuple.Suite(suite) // the suites are the catalog
		} else if c.Kind, err = parsed(p, field("name"), row.Name, record.ParseCheckKind); err != nil {
			return nil, err
		} else if c.Kind == record.CheckKindCIPatchsetSuite {
			return nil, p.bad(field("name"), "names no suite, want %sID", suitePrefix)
		}
		// Where the source states place and role, they have to agree.
		if s := row.Subject; s != nil && *s != c.Subject {
			return nil, p.bad(field("subject_ordinal"), "is %d, want %d", *s, c.Subject)
		}
		if d := row.Detail; d != nil && *d != uint32(c.Detail) {
			return nil, p.bad(field("detail_flags"), "is %d, want %d", *d, uint32(c.Detail))
		}
	}
	return checks, nil
}

func checkField(i int, name string) string { return fmt.Sprintf("checks[%d].%s", i, name) }

// policyTuple finds the projection of a decision with a phase or a suite.
func policyTuple(p place, rows []checkRow) (record.PolicyTuple, error) {
	phase, suites := -1, []string{}
	for i, row := range rows {
		if row.Name == phaseCheck {
			if phase >= 0 {
				return record.PolicyTuple{}, p.bad(checkField(i, "name"), "is %s a second time", phaseCheck)
			}
			phase = i
		}
		if suite, ok := strings.CutPrefix(row.Name, suitePrefix); ok {
			if slices.Contains(suites, suite) {
				return record.PolicyTuple{}, p.bad(checkField(i, "name"), "is %.60q a second time", row.Name)
			}
			suites = append(suites, suite)
		}
	}
	switch {
	case phase < 0 && len(suites) == 0:
		return record.PolicyTuple{}, nil
	case phase < 0:
		return record.PolicyTuple{}, p.bad("checks", "has suites without the check %s", phaseCheck)
	case rows[phase].Message == nil:
		return record.PolicyTuple{}, p.bad(checkField(phase, "message"), "is null, want the message of one of the ten known projections")
	}
	tuple, ok := record.MatchTuple(*rows[phase].Message, suites)
	if !ok {
		slices.Sort(suites)
		return tuple, p.bad("checks", "has the suites %s with the message %.200q, which is none of the ten known projections", strings.Join(suites, ", "), *rows[phase].Message)
	}
	return tuple, nil
}
