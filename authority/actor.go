package authority

import (
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Actor is somebody who reviews: a person, an agent or a team.
type Actor struct {
	record.Actor
	Index uint32
	Name  string
	Email string
}

// String shows the Actor as Git shows a person.
func (a Actor) String() string {
	if a.Email == "" {
		return a.Name
	}
	return a.Name + " <" + a.Email + ">"
}

// Actor reads one Actor.
func (v *View) Actor(index uint32) (Actor, error) {
	rec, err := bindb.Actors.Get(v, index)
	if err != nil {
		return Actor{}, err
	}
	if rec.Meta.Tombstoned() {
		return Actor{}, fmt.Errorf("actor %d: %w: it was removed", index, bindb.ErrNotFound)
	}
	var p record.ActorPayload
	if err := readPayload(v, bindb.ActorPayload, rec.PayloadOffset, rec.PayloadLen, &p); err != nil {
		return Actor{}, err
	}
	return Actor{rec, index, p.UserName, p.Email}, nil
}

// EnsureActor returns the Actor with exactly this name and address, of kind
// unknown, and creates it when there is none. Its last-seen time becomes now.
func (tx *Tx) EnsureActor(name, email string) (index uint32, err error) {
	want := record.ActorPayload{UserName: name, Email: email}
	var found Actor
	var ok bool
	err = bindb.ActorsByName(tx, name, func(i uint32) (bool, error) {
		a, err := bindb.Actors.Get(tx, i)
		if err != nil || a.Meta.Tombstoned() || a.Meta.Kind() != record.ActorKindUnknown {
			return true, err
		}
		var p record.ActorPayload
		if err := readPayload(tx, bindb.ActorPayload, a.PayloadOffset, a.PayloadLen, &p); err != nil {
			return false, err
		}
		if p == want {
			found, ok = Actor{a, i, name, email}, true
		}
		return !ok, nil
	})
	if err != nil {
		return 0, err
	}
	if ok {
		if found.CreatedAt == 0 {
			found.CreatedAt = tx.now
		}
		found.LastSeenAt = max(found.LastSeenAt, tx.now)
		return found.Index, bindb.Actors.Put(tx.tx, found.Index, found.Actor)
	}
	defer tx.writes(&err)
	off, n, err := addPayload(tx, bindb.ActorPayload, &want)
	if err != nil {
		return 0, err
	}
	rec := record.Actor{
		PayloadOffset: off, PayloadLen: n, KeyHash: record.FNV1a64([]byte(name)), CreatedAt: tx.now, LastSeenAt: tx.now,
	}
	want.SetMeta(&rec.Meta)
	return bindb.Actors.Append(tx.tx, rec)
}
