package workitem

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

const cursorPrefix = "rmpage:v1:"

// EncodeCursor names the last row that a listing has consumed (section 13). It is
// bound to the tenant and to the authority epoch, which is left out while it is 0.
func EncodeCursor(tenant string, epoch int64, last Place) string {
	b := make([]byte, 0, 192)
	b = last.CreatedAt.appendSeconds(append(b, `{"created_at":`...))
	if epoch > 0 {
		b = strconv.AppendInt(append(b, `,"epoch":`...), epoch, 10)
	}
	b = append(append(b, `,"id":"`...), itemPrefix...)
	b = last.ID.appendUUID(b)
	b = append(append(b, `","tenant":"`...), Digest(sha256.Sum256([]byte(tenant))).String()...)
	b = append(b, `","v":1}`...)
	return cursorPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// DecodeCursor reads a cursor of EncodeCursor. One of another tenant is
// unauthorized_target, anything else that is not one is invalid_request.
func DecodeCursor(tenant, cursor string) (epoch int64, last Place, err error) {
	epoch, last, owner, ok := readCursor(cursor)
	if !ok {
		return 0, Place{}, invalid("cursor", "must be the next_cursor of a page")
	}
	if owner != sha256.Sum256([]byte(tenant)) {
		return 0, Place{}, &Error{Code: UnauthorizedTarget, Field: "cursor", Message: "belongs to a listing of another tenant"}
	}
	return epoch, last, nil
}

func readCursor(cursor string) (epoch int64, last Place, tenant Digest, ok bool) {
	// Cursors are about 270 bytes long.
	encoded, ok := strings.CutPrefix(cursor, cursorPrefix)
	if !ok || len(encoded) > 512 {
		return 0, last, tenant, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return 0, last, tenant, false
	}
	doc, refusal := parseJSON(raw)
	if refusal != nil {
		return 0, last, tenant, false
	}
	defer doc.release()
	if doc.values[0].kind != jsonObject {
		return 0, last, tenant, false
	}
	seen := 0
	for c := doc.values[0].first; c != 0; c = doc.values[c].next {
		v := &doc.values[c]
		good := false
		switch v.name {
		case "created_at":
			if v.kind == jsonDecimal || v.kind == jsonInteger {
				last.CreatedAt, good = parseSeconds(v.text)
			}
		case "epoch":
			if v.kind == jsonInteger {
				epoch, err = strconv.ParseInt(v.text, 10, 64)
				good = err == nil && epoch > 0 && epoch <= LastEpoch
			}
		case "id":
			if v.kind == jsonString && strings.HasPrefix(v.text, itemPrefix) {
				last.ID, good = parseID(v.text)
			}
		case "tenant":
			if v.kind == jsonString {
				tenant, err = ParseDigest(v.text)
				good = err == nil
			}
		case "v":
			good = v.kind == jsonInteger && v.text == "1"
		}
		if !good {
			return 0, last, tenant, false
		}
		if v.name != "epoch" {
			seen++
		}
	}
	return epoch, last, tenant, seen == 4
}

// parseSeconds reads a decimal number of seconds of at most six digits after the
// point, exactly.
func parseSeconds(s string) (Instant, bool) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(whole) > 12 || len(fraction) > 6 {
		return 0, false
	}
	n, ok1 := number(whole)
	micros, ok2 := number(fraction + "000000"[len(fraction):])
	if !ok1 || !ok2 {
		return 0, false
	}
	at := Instant(n)*1e6 + Instant(micros)
	if negative {
		at = -at
	}
	return at, true
}
