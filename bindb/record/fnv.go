package record

// FNV1a64 hashes b with 64-bit FNV-1a. It narrows the search for an Actor by its
// exact user name bytes (Binary DB v0, section 5.5) and for a Line by its name.
func FNV1a64(b []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range b {
		h = (h ^ uint64(c)) * 0x00000100000001b3
	}
	return h
}
