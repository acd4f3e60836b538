package record

// Ref is an optional reference to a record of the same root, stored as index
// plus one so that zero means none (Binary DB v0, section 2.5).
type Ref uint32

// RefTo refers to the record with the given index, which is below MaxTargets.
func RefTo(index uint32) Ref { return Ref(index + 1) }

// Index is the index referred to, and false for none.
func (r Ref) Index() (uint32, bool) { return uint32(r) - 1, r != 0 }
