package rest

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
)

// maxRequestID bounds a request id that a caller gives.
const maxRequestID = 128

type requestIDKey struct{}

// RequestID gives the id of the call that a context belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// Identify gives a request its id, in its context and in the header of the answer:
// the caller's X-Request-Id if that is 1 to 128 of A-Z a-z 0-9 . _ : -, else a
// random one. A request that has an id keeps it.
func Identify(w http.ResponseWriter, r *http.Request) *http.Request {
	if RequestID(r.Context()) != "" {
		return r
	}
	id := r.Header.Get("X-Request-Id")
	if !isRequestID(id) {
		id = NewRequestID()
	}
	w.Header()["X-Request-Id"] = []string{id}
	return r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
}

// NewRequestID gives a random id.
func NewRequestID() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	return hex.EncodeToString(b[:])
}

func isRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
