package record_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/writ-authority/writ/bindb/record"
)

func TestParseSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]record.Seconds{
		"1970-01-01T00:00:00Z":           0,
		"1970-01-01T00:00:00.999Z":       0,
		"1970-01-01T01:00:00+01:00":      0,
		"2026-08-06T06:26:40Z":           1785997600,
		"2026-08-06t06:26:40z":           1785997600,
		"2026-08-06T06:26:40.5+00:00":    1785997600,
		"2026-08-06T11:56:40+05:30":      1785997600,
		"9999-12-31T23:59:59.999999999Z": 253402300799,
	} {
		if got, err := record.ParseSeconds(text); err != nil || got != want {
			t.Errorf("ParseSeconds(%q) = %d, %v, want %d", text, uint64(got), err, uint64(want))
		}
	}
	for _, text := range []string{
		"", "now", "2026-08-06", "2026-08-06T06:26:40", "2026-08-06 06:26:40Z", "2026-08-06T6:26:40Z",
		"2026-08-06T06:26:60Z", "2026-12-31T23:59:60Z", "2026-08-06T06:26:40,5Z", "2026-08-06T06:26:40.Z",
		"2026-08-06T06:26:40+0530", "2026-08-06T06:26:40+24:00", "2026-08-06T06:26:40+05:60", "2026-08-06T24:00:00Z",
		"2026-02-30T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:59:59+01:00", "1970-01-01T00:00:00Z ", "0000-00-00T00:00:00Z",
		"12026-08-06T06:26:40Z", "-2026-08-06T06:26:40Z",
	} {
		if got, err := record.ParseSeconds(text); !errors.Is(err, record.ErrSyntax) {
			t.Errorf("ParseSeconds(%q) = %d, %v, want ErrSyntax", text, uint64(got), err)
		}
	}
}

func TestSecondsString(t *testing.T) {
	t.Parallel()
	for s, want := range map[record.Seconds]string{
		0:              "1970-01-01T00:00:00Z",
		1785997600:     "2026-08-06T06:26:40Z",
		253402300799:   "9999-12-31T23:59:59Z",
		253402300800:   "253402300800",
		math.MaxUint64: "18446744073709551615",
	} {
		if got := s.String(); got != want {
			t.Errorf("%d: got %s, want %s", uint64(s), got, want)
		}
	}
	if got, err := record.SecondsOf(time.Unix(7, 999)); got != 7 || err != nil {
		t.Errorf("SecondsOf: got %d, %v", uint64(got), err)
	}
	if _, err := record.SecondsOf(time.Unix(0, -1)); !errors.Is(err, record.ErrSyntax) {
		t.Errorf("SecondsOf before 1970: got %v, want ErrSyntax", err)
	}
	if got := record.Seconds(7).Time(); !got.Equal(time.Unix(7, 0)) {
		t.Errorf("Time: got %v", got)
	}
	if got := record.Seconds(math.MaxUint64).Time(); got.Before(record.Seconds(1 << 40).Time()) {
		t.Errorf("the greatest Seconds lie at %v", got)
	}
}

func FuzzParseSeconds(f *testing.F) {
	f.Add("2026-08-06T06:26:40.25+05:30")
	f.Add("1970-01-01T00:00:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := record.ParseSeconds(text)
		if err != nil {
			return
		}
		if again, err := record.ParseSeconds(s.String()); s <= 253402300799 && (err != nil || again != s) {
			t.Fatalf("%q reads as %d, written %s, read again %d, %v", text, uint64(s), s, uint64(again), err)
		}
	})
}
