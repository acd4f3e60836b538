package workitem

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest is a SHA-256 digest.
type Digest [32]byte

// String spells the digest as 64 lower-case hex digits.
func (d Digest) String() string {
	var b [64]byte
	hex.Encode(b[:], d[:])
	return string(b[:])
}

// ParseDigest reads 64 lower-case hex digits (section 3.4). The error is a refusal
// without a field.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if !isHex(s, 64) {
		return d, invalid("", "must be 64 characters of 0-9 and a-f")
	}
	for i := range d {
		d[i] = nibble(s[2*i])<<4 | nibble(s[2*i+1])
	}
	return d, nil
}

// isHex says whether s is n lower-case hex digits.
func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

// nibble is the value of a hex digit of either case that was checked before.
func nibble(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// ScopedKey is the digest that stands for an idempotency key of a tenant in the
// row's own key, which is "repository:" and this digest (section 4.4).
func ScopedKey(tenant, key string) Digest {
	b := make([]byte, 0, 512)
	b = append(b, `{"idempotency_key":`...)
	b = appendString(b, key)
	b = append(b, `,"tenant_id":`...)
	b = appendString(b, tenant)
	b = append(b, '}')
	return sha256.Sum256(b)
}

// scopeDigest is the digest of the tenant's name as a JSON string literal.
func scopeDigest(tenant string) Digest {
	var buf [256]byte
	return sha256.Sum256(appendString(buf[:0], tenant))
}
