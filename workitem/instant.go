package workitem

import (
	"strconv"
	"time"
)

// Instant is a point in time in microseconds since the Unix epoch; 0 is none.
type Instant int64

// InstantOf gives the Instant of t, cut to microseconds.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Time gives the instant as a UTC time.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)).UTC() }

// Add gives the instant d later, cut to microseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d/time.Microsecond) }

// Seconds gives the instant as seconds since the Unix epoch, as the wire format
// has it in numbers.
func (i Instant) Seconds() float64 { return float64(i) / 1e6 }

// RFC3339 spells the instant in UTC: a fraction of six digits only if it is not
// zero, then Z (section 3.5).
func (i Instant) RFC3339() string {
	var buf [32]byte
	return string(i.appendRFC3339(buf[:0]))
}

func (i Instant) appendRFC3339(b []byte) []byte {
	if i%1e6 == 0 {
		return i.Time().AppendFormat(b, "2006-01-02T15:04:05Z")
	}
	return i.Time().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
}

// appendSeconds writes the instant as the shortest decimal number of seconds that
// has a digit after the point.
func (i Instant) appendSeconds(b []byte) []byte {
	n := uint64(i)
	if i < 0 {
		b = append(b, '-')
		n = -n
	}
	b = strconv.AppendUint(b, n/1e6, 10)
	b = append(b, '.')
	var fraction [6]byte
	for at, rest := 5, n%1e6; at >= 0; at, rest = at-1, rest/10 {
		fraction[at] = byte('0' + rest%10)
	}
	digits := 6
	for digits > 1 && fraction[digits-1] == '0' {
		digits--
	}
	return append(b, fraction[:digits]...)
}

// ParseInstant reads an RFC 3339 date and time with an offset, and gives its
// canonical spelling too: fractions are cut to microseconds and have six digits or
// are left out, an offset of zero is Z, any other stays as it was given (section
// 3.5). The error is a refusal without a field.
func ParseInstant(text string) (Instant, string, error) {
	at, canonical, ok := parseInstant(text)
	if !ok {
		return 0, "", invalid("", "must be an RFC 3339 date and time with an offset, like 2030-01-02T03:04:05Z")
	}
	return at, canonical, nil
}

// parseInstant is ParseInstant for a caller that words the refusal. It allocates
// only if the canonical spelling is not the given one.
func parseInstant(s string) (Instant, string, bool) {
	const shortest = len("2006-01-02T15:04:05Z")
	if len(s) < shortest || s[4] != '-' || s[7] != '-' || (s[10] != 'T' && s[10] != 't') ||
		s[13] != ':' || s[16] != ':' {
		return 0, "", false
	}
	year, ok1 := number(s[0:4])
	month, ok2 := number(s[5:7])
	day, ok3 := number(s[8:10])
	hour, ok4 := number(s[11:13])
	minute, ok5 := number(s[14:16])
	second, ok6 := number(s[17:19])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || year < 1 || month < 1 || month > 12 ||
		day < 1 || day > monthDays(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, "", false
	}
	rest, micros, given := s[19:], 0, 0
	if rest[0] == '.' {
		rest = rest[1:]
		for given < len(rest) && rest[given] >= '0' && rest[given] <= '9' {
			if given < 6 {
				micros = micros*10 + int(rest[given]-'0')
			}
			given++
		}
		if given == 0 {
			return 0, "", false
		}
		for d := given; d < 6; d++ {
			micros *= 10
		}
		rest = rest[given:]
	}
	zone := 0 // minutes east of UTC
	switch {
	case rest == "Z" || rest == "z":
	case len(rest) == 6 && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':':
		h, okh := number(rest[1:3])
		m, okm := number(rest[4:6])
		if !okh || !okm || h > 23 || m > 59 {
			return 0, "", false
		}
		zone = h*60 + m
		if rest[0] == '-' {
			zone = -zone
		}
	default:
		return 0, "", false
	}
	at := time.Date(year, time.Month(month), day, hour, minute, second, micros*1000, time.UTC).UnixMicro() - int64(zone)*60e6

	canonical := s
	if s[10] != 'T' || (zone == 0 && rest != "Z") || (given > 0 && (given != 6 || micros == 0)) {
		b := make([]byte, 0, len("2006-01-02T15:04:05.000000+00:00"))
		b = append(append(append(b, s[:10]...), 'T'), s[11:19]...)
		if micros != 0 {
			b = append(b, '.')
			for scale := 100_000; scale > 0; scale /= 10 {
				b = append(b, byte('0'+micros/scale%10))
			}
		}
		if zone == 0 {
			b = append(b, 'Z')
		} else {
			b = append(b, rest...)
		}
		canonical = string(b)
	}
	return Instant(at), canonical, true
}

// number reads a fixed count of decimal digits.
func number(s string) (n int, ok bool) {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

func monthDays(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}
