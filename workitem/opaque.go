package workitem

import (
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
