package convert

import (
	"github.com/writ-authority/writ/bindb/record"
)

// landing is the succeeded Land of a Change with the greatest ordinal.
type landing struct {
	id   record.Identity
	line string
	at   record.Seconds
}

// lands orders Lands by Change and ordinal and appends them.
func (l *legacy) lands() error {
	var rows []ranked[landRow]
	for i := range l.doc.Lands {
		row, p := &l.doc.Lands[i], l.at("lands", i)
		if err := l.repository(p, row.RepoName, row.RepoID); err != nil {
			return err
		}
		_, id, omitted, err := l.patchset(p, row.PatchsetID)
		if err != nil {
			return err
		}
		if err := l.owners(p, nil, row.ChangeID, row.ChangeRef, id); err != nil {
			return err
		}
		id = changeOf(id)
		ordinal, err := p.suffix("submission_id", row.SubmissionID, []string{"L"}, id)
		if err != nil {
			return err
		}
		if row.Seq != nil && *row.Seq != uint32(ordinal)+1 {
			return p.bad("land_seq", "is %d, want %d, as in submission_id", *row.Seq, ordinal+1)
		}
		if omitted {
			l.omit(id.Land(ordinal).String(), "its Change is left out")
			continue
		}
		rows = append(rows, ranked[landRow]{row, p, id.Land(ordinal), l.changeAt[id], ordinal})
	}
	if err := sortRanked(rows, "submission_id"); err != nil {
		return err
	}
	for i, r := range rows {
		if err := l.addLand(uint32(i), r); err != nil {
			return err
		}
	}
	return nil
}

func (l *legacy) addLand(index uint32, r ranked[landRow]) (err error) {
	row, p := r.row, r.at
	rec := record.Land{
		Ordinal: r.ordinal, ChangeOrdinal: r.id.ChangeOrdinal, Change: r.owner,
		SubmittedAt: row.CreatedAt.Seconds, UpdatedAt: row.UpdatedAt.Seconds,
	}
	if rec.Patchset, _, _, err = l.patchset(p, row.PatchsetID); err != nil {
		return err
	}
	status, err := parsed(p, "status", row.Status, record.ParseLandStatus)
	if err != nil {
		return err
	}
	rec.Meta.SetStatus(status)
	mode, err := parsed(p, "mode", row.Mode, record.ParseLandMode)
	if err != nil {
		return err
	}
	rec.Meta.SetMode(mode)
	if row.Failure != nil {
		if rec.Failure, err = parsed(p, "failure_kind", *row.Failure, record.ParseLandFailure); err != nil {
			return err
		}
		if rec.Failure != record.LandFailureNone && status != record.LandStatusBlocked && status != record.LandStatusFailed {
			return p.bad("failure_kind", "is %s, want null unless the status is blocked or failed", rec.Failure)
		}
	}
	if rec.PreTarget, err = l.optionalSnapshot(p, "pre_land_target_snapshot_id", row.PreTarget); err != nil {
		return err
	}
	rec.Meta.SetHasPreTarget(rec.PreTarget != 0)
	if rec.Landed, err = l.optionalSnapshot(p, "landed_snapshot_id", row.Landed); err != nil {
		return err
	}
	rec.Meta.SetHasLandedSnapshot(rec.Landed != 0)
	if (rec.Landed != 0) != (status == record.LandStatusSucceeded) {
		return p.bad("landed_snapshot_id", "and status disagree: a Snapshot has landed exactly when the status is succeeded, which is %s", status)
	}
	if rec.TargetLine, err = l.line(p, "target_line", row.TargetLine); err != nil {
		return err
	}
	rec.PreviousInChange = l.changeLands.join(r.owner, index, r.ordinal)
	if rec.PreviousInTask, err = l.taskLands.join(l.changes[r.owner].owner, index); err != nil {
		return p.refuse(err)
	}
	if status == record.LandStatusSucceeded {
		l.landed[r.owner] = &landing{r.id, row.TargetLine, rec.UpdatedAt}
	}
	_, err = addRecord(l, p, &rec)
	return err
}
