package workitem

import (
	"bytes"
	"crypto/sha1" // UUIDs of version 5 are defined with SHA-1; nothing relies on its strength
	"encoding/hex"
)

// ID is the UUID of a job. Both handles of a job, the public job id and the durable
// work item id, are a prefix and this UUID.
type ID [16]byte

// The prefixes of the two handles (section 4.1).
const (
	jobPrefix  = "rmjob:"
	itemPrefix = "workitem:repository_manager:"
)

const uuidLen = 36

// namespace is the UUID namespace of handles (section 4.1).
var namespace = [16]byte{0xf2, 0xe0, 0x4c, 0x6d, 0x71, 0xaa, 0x4a, 0xe8, 0x8a, 0x15, 0x20, 0xa2, 0xb2, 0xfc, 0xe9, 0x4f}

// NewID derives the id that a tenant's idempotency key stands for. Both must be
// opaque strings: those have no NUL, so the join is unambiguous.
func NewID(tenant, key string) ID {
	var buf [256]byte
	b := append(buf[:0], namespace[:]...)
	b = append(b, tenant...)
	b = append(b, 0)
	b = append(b, key...)
	sum := sha1.Sum(b)
	id := ID(sum[:16])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id
}

// ParseID reads either handle of a job. The prefix must be spelt exactly; hex
// digits may have either case. The error is a refusal of job_id.
func ParseID(s string) (ID, error) {
	id, ok := parseID(s)
	if !ok {
		return ID{}, invalid("job_id", "must be rmjob: or workitem:repository_manager: and a UUID with hyphens")
	}
	return id, nil
}

func parseID(s string) (ID, bool) {
	var id ID
	switch {
	case len(s) == len(jobPrefix)+uuidLen && s[:len(jobPrefix)] == jobPrefix:
		s = s[len(jobPrefix):]
	case len(s) == len(itemPrefix)+uuidLen && s[:len(itemPrefix)] == itemPrefix:
		s = s[len(itemPrefix):]
	default:
		return id, false
	}
	for n, at := 0, 0; n < len(id); n, at = n+1, at+2 {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			if s[at] != '-' {
				return ID{}, false
			}
			at++
		}
		high, low := s[at], s[at+1]
		if !hexDigit(high) || !hexDigit(low) {
			return ID{}, false
		}
		id[n] = nibble(high)<<4 | nibble(low)
	}
	return id, true
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// JobID spells the public handle.
func (id ID) JobID() string {
	var buf [64]byte
	return string(id.appendUUID(append(buf[:0], jobPrefix...)))
}

// WorkItemID spells the durable handle.
func (id ID) WorkItemID() string {
	var buf [64]byte
	return string(id.appendUUID(append(buf[:0], itemPrefix...)))
}

func (id ID) appendUUID(b []byte) []byte {
	b = hex.AppendEncode(b, id[0:4])
	b = hex.AppendEncode(append(b, '-'), id[4:6])
	b = hex.AppendEncode(append(b, '-'), id[6:8])
	b = hex.AppendEncode(append(b, '-'), id[8:10])
	return hex.AppendEncode(append(b, '-'), id[10:16])
}

// Compare orders ids as their handles are ordered.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }
