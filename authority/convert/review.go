package convert

import (
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// actorKey is the identity of an Actor.
type actorKey struct {
	kind record.ActorKind
	name string
}

// reviews orders Reviews by Patchset and ordinal and appends them with their
// Actors, in the order in which they come first.
func (l *legacy) reviews() error {
	var rows []ranked[reviewRow]
	times := 0
	for i := range l.doc.Reviews {
		row, p := &l.doc.Reviews[i], l.at("reviews", i)
		if err := l.repository(p, row.RepoName, row.RepoID); err != nil {
			return err
		}
		// Either the source keeps the times of Reviews or it does not.
		if row.CreatedAt.set {
			times++
		}
		if times != 0 && times != i+1 {
			return p.bad("created_at", "is known for some Reviews and null for others, want all or none")
		}
		owner, id, omitted, err := l.patchset(p, row.PatchsetID)
		if err != nil {
			return err
		}
		if err := l.owners(p, row.TaskID, row.ChangeID, row.ChangeRef, id); err != nil {
			return err
		}
		ordinal, err := p.suffix("review_id", row.ReviewID, []string{"R"}, id, changeOf(id))
		if err != nil {
			return err
		}
		id = id.Review(ordinal)
		if omitted {
			l.omit(id.String(), "its Change is left out")
			continue
		}
		rows = append(rows, ranked[reviewRow]{row, p, id, owner, ordinal})
	}
	if err := sortRanked(rows, "review_id"); err != nil {
		return err
	}
	for i, r := range rows {
		if err := l.addReview(uint32(i), r); err != nil {
			return err
		}
	}
	return nil
}

func (l *legacy) addReview(index uint32, r ranked[reviewRow]) (err error) {
	row, p := r.row, r.at
	rec := record.Review{
		Ordinal: r.ordinal, PatchOrdinal: r.id.PatchOrdinal, ChangeOrdinal: r.id.ChangeOrdinal,
		Patchset: r.owner, CreatedAt: row.CreatedAt.Seconds,
	}
	action, err := parsed(p, "action", row.Action, record.ParseReviewAction)
	if err != nil {
		return err
	}
	rec.Meta.SetAction(action)
	rec.Meta.SetBlocking(row.Blocking)
	actor, field, err := reviewer(p, row, action)
	if err != nil {
		return err
	}
	if rec.Actor, err = l.actor(p, field, actor, rec.CreatedAt); err != nil {
		return err
	}
	text := record.ReviewPayload{}
	for _, s := range []*string{row.Comment, row.Note} {
		switch {
		case s == nil, *s == "", *s == text.Text:
		case text.Text != "":
			return p.bad("note", "and comment are both there and differ; a Review has one text")
		default:
			text.Text = *s
		}
	}
	var n int
	if rec.PayloadOffset, n, err = l.addText(p, "comment", bindb.ReviewPayload, &text); err != nil {
		return err
	}
	rec.PayloadLen = uint16(n)
	rec.PreviousInPatchset = l.patchsetReviews.join(r.owner, index, r.ordinal)
	if rec.PreviousInTask, err = l.taskReviews.join(l.taskOf(r.owner), index); err != nil {
		return p.refuse(err)
	}
	_, err = addRecord(l, p, &rec)
	return err
}

// taskOf is the Task of a Patchset.
func (l *legacy) taskOf(patchset uint32) uint32 { return l.changes[l.patchsets[patchset].owner].owner }

// reviewer says whom a Review refers to, and which field said so: its reviewer,
// or the one group that a request goes to.
func reviewer(p place, row *reviewRow, action record.ReviewAction) (actorKey, string, error) {
	if action != record.ReviewActionRequest {
		switch {
		case len(row.Groups) > 0:
			return actorKey{}, "", p.bad("requested_groups", "has %d groups, want none for %s", len(row.Groups), action)
		case row.Reviewer == nil || *row.Reviewer == "":
			return actorKey{}, "", p.bad("reviewer", "is empty, want who reviewed")
		}
		return actorKey{record.ActorKindUnknown, *row.Reviewer}, "reviewer", nil
	}
	switch {
	case len(row.Groups) != 1:
		return actorKey{}, "", p.bad("requested_groups", "has %d groups, want exactly one for a request", len(row.Groups))
	case row.Groups[0] == "":
		return actorKey{}, "", p.bad("requested_groups[0]", "is empty, want the name of a group")
	case row.Reviewer != nil && *row.Reviewer != row.Groups[0]:
		return actorKey{}, "", p.bad("reviewer", "is %.60q, want null or the requested group", *row.Reviewer)
	}
	return actorKey{record.ActorKindTeam, row.Groups[0]}, "requested_groups[0]", nil
}

// actor finds or appends an Actor and widens the span of its times.
func (l *legacy) actor(p place, field string, key actorKey, at record.Seconds) (record.Ref, error) {
	if i, ok := l.actorAt[key]; ok {
		var rec record.Actor
		if err := rec.Decode(l.im.files["actor.bin"][int(i)*record.ActorSize : int(i+1)*record.ActorSize]); err != nil {
			return 0, err
		}
		rec.CreatedAt, rec.LastSeenAt = min(rec.CreatedAt, at), max(rec.LastSeenAt, at)
		put(l.im, i, &rec)
		return record.RefTo(i), nil
	}
	rec := record.Actor{KeyHash: record.FNV1a64([]byte(key.name)), CreatedAt: at, LastSeenAt: at}
	rec.Meta.SetKind(key.kind)
	off, n, err := l.addText(p, field, bindb.ActorPayload, &record.ActorPayload{UserName: key.name})
	if err != nil {
		return 0, err
	}
	rec.PayloadOffset, rec.PayloadLen = off, uint16(n)
	i, err := addRecord(l, p, &rec)
	l.actorAt[key] = i
	return record.RefTo(i), err
}
