package authority

import (
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Review is one statement of an Actor about a Patchset.
type Review struct {
	record.Review
	Index uint32
	ID    record.Identity
	Actor Actor
	Text  string
}

// Action is the wire spelling of the review, such as approve.
func (r *Review) Action() record.ReviewAction {
	a, _ := r.Meta.Action() // Decode and Check have refused every other combination
	return a
}

// Reviews lists the live Reviews of a Patchset in order of ordinal.
func (v *View) Reviews(p *Patchset) ([]Review, error) {
	row, err := bindb.PatchsetReviews.Get(v, p.Index)
	if err != nil {
		return nil, err
	}
	list, err := walk(row.Latest, func(i uint32) (Review, error) { return v.review(p, i) },
		func(r Review) record.Ref { return r.PreviousInPatchset })
	return live(list, func(r Review) bool { return r.Meta.Tombstoned() }), err
}

func (v *View) review(p *Patchset, index uint32) (Review, error) {
	rec, err := bindb.Reviews.Get(v, index)
	if err != nil {
		return Review{}, err
	}
	i, ok := rec.Actor.Index()
	if !ok {
		return Review{}, &bindb.RecordError{File: bindb.Reviews.File(), Index: index, Err: fmt.Errorf("it names no actor")}
	}
	actor, err := v.Actor(i)
	if err != nil {
		return Review{}, err
	}
	var text record.ReviewPayload
	if err := readPayload(v, bindb.ReviewPayload, rec.PayloadOffset, rec.PayloadLen, &text); err != nil {
		return Review{}, err
	}
	return Review{rec, index, p.ID.Review(rec.Ordinal), actor, text.Text}, nil
}

// ReviewSpec describes a new Review.
type ReviewSpec struct {
	Patchset uint32
	Action   record.ReviewAction
	Blocking bool
	Text     string // may be empty
	Actor    uint32
}

// AddReview records a Review of the selected Patchset of an open Change. A comment
// or a request for changes may block; nothing could lift a request that blocks.
func (tx *Tx) AddReview(s ReviewSpec) (index uint32, err error) {
	p, c, err := tx.selected(s.Patchset)
	if err != nil {
		return 0, err
	}
	actor, err := tx.Actor(s.Actor)
	if err != nil {
		return 0, err
	}
	if !s.Action.Valid() {
		return 0, fmt.Errorf("review: %w: %#x is none of the eleven actions", bindb.ErrInvalid, uint8(s.Action))
	}
	if base := s.Action.Base(); s.Blocking && base != record.ReviewBaseComment && base != record.ReviewBaseRequestChanges {
		return 0, fmt.Errorf("review: %w: %s cannot block", bindb.ErrInvalid, s.Action)
	}
	if (s.Action == record.ReviewActionRequest) != (actor.Meta.Kind() == record.ActorKindTeam) {
		return 0, fmt.Errorf("review: %w: a request names exactly one team, every other action a reviewer", bindb.ErrInvalid)
	}
	index, err = bindb.Reviews.Count(tx)
	if err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	inPatchset, ordinal, err := linkOrdinal(tx, bindb.PatchsetReviews, s.Patchset, index)
	if err != nil {
		return 0, err
	}
	inTask, err := linkInventory(tx, bindb.TaskReviews, c.Task, index)
	if err != nil {
		return 0, err
	}
	if err := tx.seen(actor); err != nil {
		return 0, err
	}
	off, n, err := addPayload(tx, bindb.ReviewPayload, &record.ReviewPayload{Text: s.Text})
	if err != nil {
		return 0, err
	}
	rec := record.Review{
		Ordinal: ordinal, PatchOrdinal: p.Ordinal, ChangeOrdinal: p.ChangeOrdinal, Actor: record.RefTo(s.Actor),
		Patchset: s.Patchset, PreviousInTask: inTask, PreviousInPatchset: inPatchset,
		PayloadOffset: off, PayloadLen: n, CreatedAt: tx.now,
	}
	rec.Meta.SetAction(s.Action)
	rec.Meta.SetBlocking(s.Blocking)
	if _, err := bindb.Reviews.Append(tx.tx, rec); err != nil {
		return 0, err
	}
	return index, tx.touched(p, func(c *record.Change) {
		switch rec.Meta.Base() {
		case record.ReviewBaseRequest, record.ReviewBaseRequestChanges:
			c.Meta.SetReviewPending(true)
		case record.ReviewBaseApprove, record.ReviewBaseDismiss:
			c.Meta.SetReviewPending(false)
		}
	})
}

// RequestReview asks exactly one team, which is made known when it is not yet, for
// a Review of the selected Patchset of an open Change. The note may be empty.
func (tx *Tx) RequestReview(patchset uint32, team, note string) (index uint32, err error) {
	if team == "" {
		return 0, fmt.Errorf("review: %w: a request names exactly one team", bindb.ErrInvalid)
	}
	if _, _, err := tx.selected(patchset); err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	actor, err := tx.EnsureTeam(team)
	if err != nil {
		return 0, err
	}
	return tx.AddReview(ReviewSpec{Patchset: patchset, Action: record.ReviewActionRequest, Text: note, Actor: actor})
}

// standing is what the Reviews of a Patchset amount to.
type standing struct {
	approvals  []Review // one an Actor
	objections []Review
}

// stand weighs Reviews as section 16.4 says: for each Actor and lane the last
// approve, request_changes, dismiss or defer counts; a blocking Review objects
// until the same Actor approves or dismisses.
func stand(reviews []Review) standing {
	type seat struct {
		actor uint32
		lane  bool
	}
	last := map[seat]Review{}
	blocks := map[uint32]uint32{} // the latest open blocking Review of an Actor
	var order []seat
	for _, r := range reviews {
		actor, _ := r.Review.Actor.Index()
		base := r.Meta.Base()
		if base == record.ReviewBaseApprove || base == record.ReviewBaseDismiss {
			delete(blocks, actor)
		}
		if r.Meta.Blocking() {
			blocks[actor] = r.Index
		}
		decides := base == record.ReviewBaseApprove || base == record.ReviewBaseRequestChanges ||
			base == record.ReviewBaseDismiss || r.Meta.Defer()
		if !decides {
			continue
		}
		s := seat{actor, r.Meta.TaskLane()}
		if _, seen := last[s]; !seen {
			order = append(order, s)
		}
		last[s] = r
	}
	var st standing
	approved, objects := map[uint32]bool{}, map[uint32]bool{}
	for _, s := range order {
		r := last[s]
		switch r.Meta.Base() {
		case record.ReviewBaseApprove:
			if !approved[s.actor] && r.Actor.Meta.Kind() != record.ActorKindTeam {
				approved[s.actor] = true
				st.approvals = append(st.approvals, r)
			}
		case record.ReviewBaseRequestChanges:
			objects[r.Index] = true
			st.objections = append(st.objections, r)
		}
	}
	for _, r := range reviews {
		actor, _ := r.Review.Actor.Index()
		if i, open := blocks[actor]; open && i == r.Index && !objects[i] {
			st.objections = append(st.objections, r)
		}
	}
	return st
}
