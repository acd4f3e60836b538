package workitem

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxOpaque is the longest opaque string in bytes (section 3.1).
const maxOpaque = 1024

// CheckOpaque says whether s is an opaque string of at most max bytes: not empty, no
// white space at either end, no character below U+0020, valid Unicode (section
// 3.1). The error is a refusal of field.
func CheckOpaque(field, s string, max int) error {
	if fault := opaqueFault(s, max); fault != "" {
		return invalid(field, fault)
	}
	return nil
}

// opaqueFault says what keeps s from being an opaque string, or nothing.
func opaqueFault(s string, max int) string {
	if s == "" {
		return "must not be empty"
	}
	if len(s) > max {
		return "is too long"
	}
	ascii := true
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 {
			return "must not have control characters"
		}
		ascii = ascii && s[i] < utf8.RuneSelf
	}
	if s[0] == ' ' || s[len(s)-1] == ' ' {
		return "must not begin or end with white space"
	}
	if ascii {
		return ""
	}
	if !utf8.ValidString(s) {
		return "must be valid Unicode"
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	if unicode.IsSpace(first) || unicode.IsSpace(last) {
		return "must not begin or end with white space"
	}
	return ""
}

// opaquePrefix marks an encoded opaque string.
const opaquePrefix = "opaque:v1:"

const base64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// appendOpaque writes the encoded form of an opaque string: base64 with the
// alphabet of URLs and padding, cut into groups of three characters that dots join
// (section 7.4). In that form it looks like nothing that the sanitiser removes.
func appendOpaque(b []byte, s string) []byte {
	b = append(b, opaquePrefix...)
	var quad [4]byte
	for column := 0; len(s) > 0; {
		quad[2], quad[3] = '=', '='
		quad[0] = base64URL[s[0]>>2]
		switch len(s) {
		case 1:
			quad[1] = base64URL[s[0]<<4&0x3f]
			s = ""
		case 2:
			quad[1] = base64URL[s[0]<<4&0x3f|s[1]>>4]
			quad[2] = base64URL[s[1]<<2&0x3f]
			s = ""
		default:
			quad[1] = base64URL[s[0]<<4&0x3f|s[1]>>4]
			quad[2] = base64URL[s[1]<<2&0x3f|s[2]>>6]
			quad[3] = base64URL[s[2]&0x3f]
			s = s[3:]
		}
		// The dot comes before the character that would be a group's fourth.
		switch column {
		case 0:
			b = append(b, quad[0], quad[1], quad[2], '.', quad[3])
			column = 1
		case 1:
			b = append(b, quad[0], quad[1], '.', quad[2], quad[3])
			column = 2
		case 2:
			b = append(b, quad[0], '.', quad[1], quad[2], quad[3])
			column = 3
		case 3:
			b = append(b, '.', quad[0], quad[1], quad[2], '.', quad[3])
			column = 1
		}
	}
	return b
}

// base64Value has the value of each character of base64URL, 64 for the dot, and 65
// for all others.
var base64Value = func() (values [256]byte) {
	for i := range values {
		values[i] = 65
	}
	values['.'] = 64
	for i := range len(base64URL) {
		values[base64URL[i]] = byte(i)
	}
	return values
}()

// decodeOpaque appends what appendOpaque has encoded. A value without the prefix was
// stored before there was an encoding, and is what it is. If s is damaged, b is
// given back as it was.
func decodeOpaque(b []byte, s string) ([]byte, bool) {
	s, hidden := strings.CutPrefix(s, opaquePrefix)
	if !hidden {
		return append(b, s...), true
	}
	padding := 0
	for len(s) > 0 && (s[len(s)-1] == '=' || s[len(s)-1] == '.') {
		if s[len(s)-1] == '=' {
			padding++
		}
		s = s[:len(s)-1]
	}
	start := len(b)
	bits, held, count := uint32(0), 0, 0
	for i := 0; i < len(s); i++ {
		v := base64Value[s[i]]
		if v >= 64 {
			if v == 64 {
				continue
			}
			return b[:start], false
		}
		count++
		bits, held = bits<<6|uint32(v), held+6
		if held >= 8 {
			held -= 8
			b = append(b, byte(bits>>held))
			bits &= 1<<held - 1
		}
	}
	if count == 0 || count%4 == 1 || padding > (4-count%4)%4 || bits != 0 || !utf8.Valid(b[start:]) {
		return b[:start], false
	}
	return b, true
}
