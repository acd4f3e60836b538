package workitem

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	failurePrefix = "repository-error:v1:"
	maxRef        = 2048 // bytes of a result or error reference (section 20)
	maxFailure    = 256  // bytes of a failure class or refusal code
)

// FailureRef composes what a row stores of a failure (section 10.6): the class or
// the code, never both, and the reference. Absent and empty parts are the same; ""
// stands for null. Its refusals name failure_class, refusal_code or error_ref.
func FailureRef(class, code, ref *string) (string, error) {
	var c, r, e string
	if class != nil {
		c = *class
	}
	if code != nil {
		r = *code
	}
	if ref != nil {
		e = *ref
	}
	if c != "" && r != "" {
		return "", invalid("refusal_code", "must not be given together with failure_class")
	}
	for _, part := range []struct{ field, text string }{{"failure_class", c}, {"refusal_code", r}} {
		if strings.Contains(part.text, ":") {
			return "", invalid(part.field, "must not have a colon")
		}
		if err := checkText(part.field, part.text, maxFailure); err != nil {
			return "", err
		}
	}
	if err := checkText("error_ref", e, maxRef); err != nil {
		return "", err
	}
	if c == "" && r == "" {
		return e, nil
	}
	return failurePrefix + c + ":" + r + ":" + e, nil
}

// SplitFailureRef reads what FailureRef has composed. What has another form is a
// plain reference.
func SplitFailureRef(stored string) (class, code, ref *string) {
	if stored == "" {
		return nil, nil, nil
	}
	if rest, composed := strings.CutPrefix(stored, failurePrefix); composed {
		c, rest, ok := strings.Cut(rest, ":")
		r, e, ok2 := strings.Cut(rest, ":")
		if ok && ok2 && (c == "" || r == "") {
			return nullable(&c), nullable(&r), nullable(&e)
		}
	}
	return nil, nil, &stored
}

// nullable gives nil for an empty text.
func nullable(s *string) *string {
	if *s == "" {
		return nil
	}
	return s
}

// CheckRef says whether a text may be a result reference: at most 2048 bytes of
// Unicode without control characters. The error is a refusal of field.
func CheckRef(field, s string) error { return checkText(field, s, maxRef) }

func checkText(field, s string, most int) error {
	if len(s) > most {
		return invalid(field, "is too long")
	}
	if !utf8.ValidString(s) {
		return invalid(field, "must be valid Unicode")
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return invalid(field, "must not have control characters")
	}
	return nil
}
