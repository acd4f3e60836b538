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
	return tx.ensureActor(record.ActorKindUnknown, record.ActorPayload{UserName: name, Email: email})
}

// EnsureTeam does the same for the team with exactly this name.
func (tx *Tx) EnsureTeam(name string) (index uint32, err error) {
	return tx.ensureActor(record.ActorKindTeam, record.ActorPayload{UserName: name})
}

func (tx *Tx) ensureActor(kind record.ActorKind, want record.ActorPayload) (index uint32, err error) {
	var found Actor
	var ok bool
	err = bindb.ActorsByName(tx, want.UserName, func(i uint32) (bool, error) {
		a, err := bindb.Actors.Get(tx, i)
		if err != nil || a.Meta.Tombstoned() || a.Meta.Kind() != kind {
			return true, err
		}
		var p record.ActorPayload
		if err := readPayload(tx, bindb.ActorPayload, a.PayloadOffset, a.PayloadLen, &p); err != nil {
			return false, err
		}
		if p == want {
			found, ok = Actor{a, i, want.UserName, want.Email}, true
		}
		return !ok, nil
	})
	if err != nil {
		return 0, err
	}
	if ok {
		return found.Index, tx.seen(found)
	}
	defer tx.writes(&err)
	off, n, err := addPayload(tx, bindb.ActorPayload, &want)
	if err != nil {
		return 0, err
	}
	rec := record.Actor{
		PayloadOffset: off, PayloadLen: n, KeyHash: record.FNV1a64([]byte(want.UserName)), CreatedAt: tx.now, LastSeenAt: tx.now,
	}
	rec.Meta.SetKind(kind)
	want.SetMeta(&rec.Meta)
	return bindb.Actors.Append(tx.tx, rec)
}

// seen brings the last-seen time of an Actor up to now.
func (tx *Tx) seen(a Actor) error {
	if a.LastSeenAt >= tx.now {
		return nil
	}
	if a.CreatedAt == 0 {
		a.CreatedAt = tx.now
	}
	a.LastSeenAt = tx.now
	return bindb.Actors.Put(tx.tx, a.Index, a.Actor)
}
