package record

// Actor is a person, team or program that reviews. Kind and payload bytes are
// its identity; the hash only narrows the search (Binary DB v0, section 5.5).
//
//bindb:record file=actor.bin root=authority family=workflow kind=record size=36 name=ActorRecord const=ACTOR_RECORD_SIZE
type Actor struct {
	Meta          ActorMeta `bin:"actor_meta"`                                // kind, and which parts the payload has
	_             uint8     `bin:"reserved0"`                                 // zero
	PayloadLen    uint16    `bin:"payload_len"`                               // at least 4
	PayloadOffset uint64    `bin:"payload_offset" target:"actor_payload.bin"` // user name and further identification
	KeyHash       uint64    `bin:"actor_key_hash" show:"hex"`                 // FNV-1a-64 of the user name
	CreatedAt     Seconds   `bin:"created_at_s"`                              // both times are zero when they are unknown
	LastSeenAt    Seconds   `bin:"last_seen_at_s"`                            // time of the latest Review, never before created_at_s
}

// ActorMeta is the metadata byte of an Actor (section 7.5). The has bits agree
// with the lengths in the payload.
//
//bindb:bits kind=0..2:ActorKind has_user_id=3 has_email=4 has_memo=5 tombstoned=7
type ActorMeta uint8

// ActorKind says what an Actor is (section 7.5). Native writers use unknown and
// team; the names of the others are for display.
//
//bindb:enum
type ActorKind uint8

const (
	ActorKindUnknown ActorKind = 0 // unknown
	ActorKindTeam    ActorKind = 1 // team
	ActorKindHuman   ActorKind = 2 // human: read only
	ActorKindAgent   ActorKind = 3 // agent: read only
	ActorKindService ActorKind = 4 // service: read only
	ActorKindSystem  ActorKind = 5 // system: read only
)

// ActorLookupIndex finds Actors by the hash of their user name. Candidates are
// compared by kind and payload (section 11.2).
//
//bindb:record file=actor_lookup.idx root=authority family=workflow kind=index size=12 name=ActorLookupIndexRecord
type ActorLookupIndex struct {
	KeyHash uint64 `bin:"actor_key_hash" show:"hex"`            // FNV-1a-64 of the user name
	Actor   Ref    `bin:"actor_index_plus1" target:"actor.bin"` // required
}

// Check verifies the invariants that the record alone can show, U03 among them.
func (r *Actor) Check() error {
	switch {
	case r.PayloadLen < 4:
		return fieldError("U01", "payload_len", r.PayloadLen, "at least 4")
	case r.PayloadOffset < HeaderSize:
		return fieldError("F04", "payload_offset", r.PayloadOffset, "at least 4")
	case r.CreatedAt == 0 && r.LastSeenAt != 0:
		return fieldError("U03", "created_at_s", r.CreatedAt, "a time, since last_seen_at_s is one")
	case r.LastSeenAt < r.CreatedAt:
		return fieldError("U03", "last_seen_at_s", r.LastSeenAt, "a time not before created_at_s")
	}
	return nil
}

// Check verifies that the row names an Actor.
func (r *ActorLookupIndex) Check() error { return requireRef("actor_index_plus1", r.Actor) }
