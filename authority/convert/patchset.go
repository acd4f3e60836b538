package convert

import (
	"slices"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// rankPatchsets orders Patchsets by Change and ordinal.
func (l *legacy) rankPatchsets() error {
	for i := range l.doc.Patchsets {
		row, p := &l.doc.Patchsets[i], l.at("patchsets", i)
		if err := l.repository(p, row.RepoName, row.RepoID); err != nil {
			return err
		}
		id, err := l.identity(p, "patchset_id", row.PatchsetID, record.ObjectPatchset)
		if err != nil {
			return err
		}
		if row.Number != uint32(id.PatchOrdinal)+1 {
			return p.bad("patchset_number", "is %d, want %d, as in patchset_id", row.Number, id.PatchOrdinal+1)
		}
		if err := l.owners(p, nil, row.ChangeID, row.ChangeRef, id); err != nil {
			return err
		}
		if l.lost[changeOf(id)] {
			l.omit(id.String(), "its Change is left out")
			continue
		}
		owner, ok := l.changeAt[changeOf(id)]
		if !ok {
			return p.bad("patchset_id", "is %s, whose Change no row of changes has", id)
		}
		l.patchsets = append(l.patchsets, ranked[patchsetRow]{row, p, id, owner, id.PatchOrdinal})
	}
	if err := sortRanked(l.patchsets, "patchset_id"); err != nil {
		return err
	}
	for i, r := range l.patchsets {
		l.patchsetAt[r.id] = uint32(i)
	}
	return nil
}

func (l *legacy) addPatchsets() error {
	for i, r := range l.patchsets {
		if err := l.addPatchset(uint32(i), r); err != nil {
			return err
		}
	}
	return nil
}

func (l *legacy) addPatchset(index uint32, r ranked[patchsetRow]) (err error) {
	row, p := r.row, r.at
	rec := record.Patchset{Ordinal: r.ordinal, ChangeOrdinal: r.id.ChangeOrdinal, Change: r.owner, CIJob: l.locators[index]}
	mode, err := authorMode(p, row.AuthorMode)
	if err != nil {
		return err
	}
	rec.Meta.SetAuthorMode(mode)
	rec.Meta.SetWithdrawn(row.Withdrawn)
	rec.Meta.SetInvalidated(row.Invalidated)
	switch row.Publish {
	case "published", "selected_for_landing":
		rec.Meta.SetPublishState(record.PublishStatePublished)
	case "superseded":
		rec.Meta.SetPublishState(record.PublishStateSuperseded)
	default:
		return p.bad("publish_state", "is %.40q, want published, superseded or selected_for_landing", row.Publish)
	}
	if err := l.evaluation(index, p, row, &rec); err != nil {
		return err
	}
	if rec.BaseSnapshot, err = l.snapshot(p, "base_snapshot_id", row.Base); err != nil {
		return err
	}
	if rec.RevisionSnapshot, err = l.snapshot(p, "revision_snapshot_id", row.Revision); err != nil {
		return err
	}
	if err := l.diffStats(r, &rec); err != nil {
		return err
	}
	if err := evidence(p, row, &rec); err != nil {
		return err
	}
	if rec.CreatedAt, err = p.required("created_at", row.CreatedAt); err != nil {
		return err
	}
	var n int
	if rec.SummaryOffset, n, err = l.addText(p, "summary", bindb.PatchsetSummary, &record.PatchsetSummary{Text: row.Summary}); err != nil {
		return err
	}
	rec.SummaryLen = uint16(n)
	rec.PreviousInChange = l.changePatchsets.join(r.owner, index, r.ordinal)
	if rec.PreviousInTask, err = l.taskPatchsets.join(l.changes[r.owner].owner, index); err != nil {
		return p.refuse(err)
	}
	_, err = addRecord(l, p, &rec)
	return err
}

// evaluation compares the state with the latest decision.
func (l *legacy) evaluation(index uint32, p place, row *patchsetRow, rec *record.Patchset) error {
	kind, err := parsed(p, "evaluation_state", row.Evaluation, record.ParseDecisionKind)
	if err != nil {
		return err
	}
	if kind == record.DecisionKindPending {
		rec.Meta.SetEvaluationPending(true)
		return nil
	}
	latest, ok := l.kinds[index]
	switch {
	case !ok:
		return p.bad("evaluation_state", "is %s, but the Patchset has no decision", kind)
	case latest != kind:
		return p.bad("evaluation_state", "is %s, but the latest decision is %s", kind, latest)
	}
	return nil
}

// diffStats compares supplied statistics with the Trees.
func (l *legacy) diffStats(r ranked[patchsetRow], rec *record.Patchset) error {
	s, p := r.row.DiffStats, r.at
	if s == nil {
		return nil
	}
	d, ok, err := l.content.compareTrees(rec.BaseSnapshot, rec.RevisionSnapshot)
	switch {
	case err != nil:
		return p.refuse(err)
	case !ok:
		return p.bad("diff_stats", "cannot be compared, since a Snapshot has no Tree; leave it out")
	case d.matches(s):
		return nil
	}
	zero := s.Added|s.Deleted|s.Modified|s.Changed == 0 && d.changed() > 0
	if zero && slices.Contains(zeroDiffStats, "R"+r.id.String()) {
		if l.open(GateZeroDiffStats, r.id) {
			return nil
		}
		return p.bad("diff_stats", "is all zero, but %d files differ (the gate %s allows it for this Patchset)", d.changed(), GateZeroDiffStats)
	}
	if d.differs(s) {
		return p.bad("diff_stats", "has %d added, %d deleted, %d modified, %d changed, but the Trees give %d, %d, %d, %d",
			s.Added, s.Deleted, s.Modified, s.Changed, len(d.added), len(d.deleted), len(d.modified), d.changed())
	}
	return p.bad("diff_stats.paths", "differs from the paths that the Trees give")
}

// evidence copies the compact result of CI.
func evidence(p place, row *patchsetRow, rec *record.Patchset) (err error) {
	ci := row.CI
	if ci == nil {
		ci = &ciRow{}
	}
	if s := row.CIRunSeq; s != nil && *s != ci.RunSeq {
		return p.bad("ci_run_seq", "is %d, but ci.run_seq is %d", *s, ci.RunSeq)
	}
	if s := row.CICompletedAt; s != nil && *s != uint64(ci.CompletedAt.Seconds) {
		return p.bad("ci_completed_at_s", "is %d, but ci.completed_at is %d", *s, uint64(ci.CompletedAt.Seconds))
	}
	rec.CICompletedAt, rec.CIRunSeq = ci.CompletedAt.Seconds, ci.RunSeq
	rec.CISelectedSuites, rec.CISuiteResults, rec.CIBlockingFailures = ci.Selected, ci.Results, ci.Blocking
	for _, s := range []struct {
		field string
		text  *string
		set   func(record.CIStatus)
	}{
		{"ci.overall_status", ci.Overall, rec.CIStatus.SetOverall},
		{"ci.tests_status", ci.Tests, rec.CIStatus.SetTests},
		{"ci.lint_status", ci.Lint, rec.CIStatus.SetLint},
	} {
		if s.text == nil {
			continue
		}
		status, err := parsed(p, s.field, *s.text, record.ParseCIStatus)
		if err != nil {
			return err
		}
		s.set(status)
	}
	return nil
}
