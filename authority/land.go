package authority

import (
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Land is one attempt to bring a Patchset onto a Line.
type Land struct {
	record.Land
	Index uint32
	ID    record.Identity
}

// Land reads one Land.
func (v *View) Land(index uint32) (Land, error) {
	rec, err := bindb.Lands.Get(v, index)
	if err != nil {
		return Land{}, err
	}
	c, err := bindb.Changes.Get(v, rec.Change)
	if err != nil {
		return Land{}, err
	}
	id := record.TaskIdentity(v.repo.namespace(), c.Task).Change(rec.ChangeOrdinal).Land(rec.Ordinal)
	return Land{rec, index, id}, nil
}

// Lands lists the Lands of a Change, oldest first.
func (v *View) Lands(change uint32) ([]Land, error) {
	row, err := bindb.ChangeLands.Get(v, change)
	if err != nil {
		return nil, err
	}
	list, err := walk(row.Latest, v.Land, func(l Land) record.Ref { return l.PreviousInChange })
	return live(list, func(l Land) bool { return l.Meta.Tombstoned() }), err
}

// RunningLand returns the Land that is under way, or nil. Lands run one at a time
// under the Repository's lock, so that only the newest can have been interrupted.
func (v *View) RunningLand() (*Land, error) {
	n, err := bindb.Lands.Count(v)
	if err != nil || n == 0 {
		return nil, err
	}
	l, err := v.Land(n - 1)
	if err != nil || l.Meta.Tombstoned() || l.Meta.Status() != record.LandStatusRunning {
		return nil, err
	}
	return &l, nil
}

// LandSpec describes a Land that is about to move a branch.
type LandSpec struct {
	Patchset   uint32
	TargetLine uint32
	PreTarget  uint32 // Snapshot that the target stands on
	Mode       record.LandMode
}

// BeginLand records a running Land of the selected Patchset, whose latest decision
// must be current and pass or waived and to which nobody objects, onto a Line that
// stands on PreTarget. It must be committed before the branch moves. One Land runs at a time: an
// interrupted one is finished or failed first.
func (tx *Tx) BeginLand(s LandSpec) (index uint32, err error) {
	p, c, err := tx.selected(s.Patchset)
	if err != nil {
		return 0, err
	}
	if err := tx.mayLand(&p); err != nil {
		return 0, err
	}
	line, err := tx.usableLine(s.TargetLine)
	if err != nil {
		return 0, err
	}
	pre, err := tx.Snapshot(s.PreTarget)
	if err != nil {
		return 0, err
	}
	if line.Head != record.RefTo(s.PreTarget) {
		return 0, statef("line %s does not stand on %s any more", line.Name, pre.Name())
	}
	rec := record.Land{PreTarget: record.RefTo(s.PreTarget), TargetLine: record.RefTo(s.TargetLine)}
	rec.Meta.SetStatus(record.LandStatusRunning)
	rec.Meta.SetHasPreTarget(true)
	rec.Meta.SetMode(s.Mode)
	defer tx.writes(&err)
	return tx.addLand(&p, &c, rec)
}

// mayLand refuses a Patchset without a current decision that lets it land, or with
// an objection, and while another Land is running.
func (tx *Tx) mayLand(p *Patchset) error {
	if running, err := tx.RunningLand(); err != nil {
		return err
	} else if running != nil {
		return statef("%s is running; it must be finished or failed first", running.ID)
	}
	d, err := tx.Decision(p)
	if err != nil {
		return err
	}
	if d == nil || p.Meta.EvaluationPending() || d.Kind() != record.DecisionKindPass && d.Kind() != record.DecisionKindWaived {
		return statef("%s has no current decision that lets it land", p.ID)
	}
	reviews, err := tx.Reviews(p)
	if err != nil {
		return err
	}
	if objections := stand(reviews).objections; len(objections) > 0 {
		return statef("%s objects to %s", objections[0].Actor, p.ID)
	}
	return nil
}

// addLand appends a Land of a Patchset; rec has what is not owner, chain or time.
func (tx *Tx) addLand(p *Patchset, c *Change, rec record.Land) (index uint32, err error) {
	if index, err = bindb.Lands.Count(tx); err != nil {
		return 0, err
	}
	if rec.PreviousInChange, rec.Ordinal, err = linkOrdinal(tx, bindb.ChangeLands, p.Change, index); err != nil {
		return 0, err
	}
	if rec.PreviousInTask, err = linkInventory(tx, bindb.TaskLands, c.Task, index); err != nil {
		return 0, err
	}
	rec.ChangeOrdinal, rec.Change, rec.Patchset = c.Ordinal, p.Change, p.Index
	rec.SubmittedAt, rec.UpdatedAt = tx.now, tx.now
	return bindb.Lands.Append(tx.tx, rec)
}

// FinishLand records that the branch has moved: the Land succeeds, the target Line
// stands on the landed Snapshot and the Change is landed, all in one batch.
func (tx *Tx) FinishLand(land, landed uint32) (err error) {
	l, err := tx.runningLand(land)
	if err != nil {
		return err
	}
	if _, err := tx.Snapshot(landed); err != nil {
		return err
	}
	defer tx.writes(&err)
	line, _ := l.TargetLine.Index()
	if err := tx.SetLineHead(line, landed); err != nil {
		return err
	}
	l.Meta.SetStatus(record.LandStatusSucceeded)
	l.Meta.SetHasLandedSnapshot(true)
	l.Landed = record.RefTo(landed)
	l.UpdatedAt = max(tx.now, l.UpdatedAt)
	if err := bindb.Lands.Put(tx.tx, land, l.Land); err != nil {
		return err
	}
	return tx.landed(l.Change)
}

// landed closes the Change of a Land that has succeeded.
func (tx *Tx) landed(change uint32) error {
	return tx.putChange(change, func(c *record.Change) {
		c.Meta.SetLifecycle(record.ChangeLifecycleLanded)
		settled(&c.Meta)
	})
}

// FailLand records that the branch did not move.
func (tx *Tx) FailLand(land uint32, why record.LandFailure) error {
	l, err := tx.runningLand(land)
	if err != nil {
		return err
	}
	l.Meta.SetStatus(record.LandStatusFailed)
	l.Failure = why
	l.UpdatedAt = max(tx.now, l.UpdatedAt)
	return bindb.Lands.Put(tx.tx, land, l.Land)
}

func (tx *Tx) runningLand(index uint32) (Land, error) {
	l, err := tx.Land(index)
	if err == nil && l.Meta.Status() != record.LandStatusRunning {
		err = statef("%s is %s", l.ID, l.Meta.Status())
	}
	return l, err
}
