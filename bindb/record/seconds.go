package record

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Seconds is a time in whole Unix seconds. Zero means absent where a time is
// optional (Binary DB v0, section 10.2).
type Seconds uint64

// maxRFC3339 is 9999-12-31T23:59:59Z, the last second that RFC 3339 can write.
const maxRFC3339 = 253402300799

// SecondsOf drops the fraction of t. Times before 1970 are refused with an error
// that matches ErrSyntax.
func SecondsOf(t time.Time) (Seconds, error) {
	s := t.Unix()
	if s < 0 {
		return 0, fmt.Errorf("%w: time %s lies before 1970", ErrSyntax, t.UTC().Format(time.RFC3339))
	}
	return Seconds(s), nil
}

// ParseSeconds reads an RFC 3339 time, normalises it to UTC and drops the
// fraction. Leap seconds, times before 1970 and everything else that is not
// exactly RFC 3339 are refused with an error that matches ErrSyntax.
func ParseSeconds(text string) (Seconds, error) {
	const want = "an RFC 3339 time such as 2026-08-06T10:00:00Z"
	bad := func() (Seconds, error) {
		return 0, fmt.Errorf("%w: %.40q is not %s", ErrSyntax, text, want)
	}
	// time.Parse is more liberal than RFC 3339: it takes a comma before the
	// fraction, one-digit hours and offsets out of range.
	const date = "2006-01-02T15:04:05"
	if len(text) < len(date)+1 {
		return bad()
	}
	for i := range date {
		if digit(date[i]) {
			if !digit(text[i]) {
				return bad()
			}
		} else if text[i] != date[i] && !(date[i] == 'T' && text[i] == 't') {
			return bad()
		}
	}
	if text[17:19] == "60" {
		return 0, fmt.Errorf("%w: %.40q is a leap second, which a time in seconds cannot hold", ErrSyntax, text)
	}
	rest := text[len(date):]
	if rest[0] == '.' {
		n := 1
		for n < len(rest) && digit(rest[n]) {
			n++
		}
		if n == 1 {
			return bad()
		}
		rest = rest[n:]
	}
	switch {
	case rest == "Z" || rest == "z":
		rest = "Z"
	case len(rest) == 6 && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':' &&
		digit(rest[1]) && digit(rest[2]) && digit(rest[4]) && digit(rest[5]) &&
		rest[1:3] <= "23" && rest[4:6] <= "59":
	default:
		return bad()
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(text[:len(date)])+rest)
	if err != nil {
		return bad()
	}
	if t.Unix() < 0 {
		return 0, fmt.Errorf("%w: %.40q lies before 1970", ErrSyntax, text)
	}
	return Seconds(t.Unix()), nil
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// String writes RFC 3339 in UTC up to the year 9999, and the plain number of
// seconds beyond.
func (s Seconds) String() string {
	if s > maxRFC3339 {
		return strconv.FormatUint(uint64(s), 10)
	}
	return time.Unix(int64(s), 0).UTC().Format(time.RFC3339)
}

// Time converts to a time in UTC. Seconds beyond the reach of time.Time give its
// greatest whole second.
func (s Seconds) Time() time.Time {
	const reach = math.MaxInt64 - 62135596800 // Unix seconds of year 1 are negative
	return time.Unix(int64(min(s, reach)), 0).UTC()
}
