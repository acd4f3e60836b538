package workitem

import (
	"testing"
	"time"
)

func TestParseInstant(t *testing.T) {
	t.Parallel()
	at := Instant(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC).UnixMicro())
	for _, c := range []struct {
		text, canonical string
		at              Instant
	}{
		{"2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z", at},
		{"2030-01-02t03:04:05z", "2030-01-02T03:04:05Z", at},
		{"2030-01-02T03:04:05+00:00", "2030-01-02T03:04:05Z", at},
		{"2030-01-02T03:04:05-00:00", "2030-01-02T03:04:05Z", at},
		{"2030-01-02T05:04:05+02:00", "2030-01-02T05:04:05+02:00", at},
		{"2030-01-01T21:34:05-05:30", "2030-01-01T21:34:05-05:30", at},
		{"2030-01-02T03:04:05.5Z", "2030-01-02T03:04:05.500000Z", at + 500_000},
		{"2030-01-02T03:04:05.0Z", "2030-01-02T03:04:05Z", at},
		{"2030-01-02T03:04:05.000000Z", "2030-01-02T03:04:05Z", at},
		{"2030-01-02T03:04:05.000001Z", "2030-01-02T03:04:05.000001Z", at + 1},
		{"2030-01-02T03:04:05.1234567899+01:00", "2030-01-02T03:04:05.123456+01:00", at - 3600e6 + 123456},
		{"2030-01-02T03:04:05.0000009Z", "2030-01-02T03:04:05Z", at},
		{"2028-02-29T00:00:00Z", "2028-02-29T00:00:00Z", InstantOf(time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC))},
		{"1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.500000Z", -500_000},
	} {
		got, canonical, err := ParseInstant(c.text)
		if err != nil || got != c.at || canonical != c.canonical {
			t.Errorf("%s: %d %q %v, want %d %q", c.text, got, canonical, err, c.at, c.canonical)
			continue
		}
		if again, same, err := ParseInstant(canonical); err != nil || again != got || same != canonical {
			t.Errorf("%s: its canonical spelling %s gives %d %q %v", c.text, canonical, again, same, err)
		}
	}
}

func TestParseInstantRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "2030-01-02", "2030-01-02T03:04:05", "2030-01-02 03:04:05Z", "2030-1-2T03:04:05Z",
		"2030-13-02T03:04:05Z", "2030-00-02T03:04:05Z", "2030-02-30T03:04:05Z", "2029-02-29T03:04:05Z",
		"2100-02-29T00:00:00Z", "2030-01-00T03:04:05Z", "2030-01-02T24:00:00Z", "2030-01-02T03:60:05Z",
		"2030-01-02T03:04:60Z", "2030-01-02T03:04:05.Z", "2030-01-02T03:04:05,5Z", "2030-01-02T03:04:05+0200",
		"2030-01-02T03:04:05+24:00", "2030-01-02T03:04:05+02:60", "2030-01-02T03:04:05Z ", " 2030-01-02T03:04:05Z",
		"0000-01-02T03:04:05Z", "2030-01-02T03:04:05Zulu", "2030-01-02T03:04:05.5", "1893553445", "+030-01-02T03:04:05Z",
	} {
		if at, _, err := ParseInstant(text); err == nil {
			t.Errorf("%q was read as %d", text, at)
		}
	}
}

func TestInstantSpellings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at            Instant
		text, seconds string
	}{
		{0, "1970-01-01T00:00:00Z", "0.0"},
		{1, "1970-01-01T00:00:00.000001Z", "0.000001"},
		{-1, "1969-12-31T23:59:59.999999Z", "-0.000001"},
		{1_754_730_000_250_000, "2025-08-09T09:00:00.250000Z", "1754730000.25"},
		{1_754_730_000_000_000, "2025-08-09T09:00:00Z", "1754730000.0"},
		{-1_500_000, "1969-12-31T23:59:58.500000Z", "-1.5"},
	} {
		if got := c.at.RFC3339(); got != c.text {
			t.Errorf("%d: %s, want %s", c.at, got, c.text)
		}
		if got := string(c.at.appendSeconds(nil)); got != c.seconds {
			t.Errorf("%d: %s, want %s", c.at, got, c.seconds)
		}
		if again, _, err := ParseInstant(c.text); err != nil || again != c.at {
			t.Errorf("%s: %d %v", c.text, again, err)
		}
	}
	if got := Instant(1_500_000).Seconds(); got != 1.5 {
		t.Errorf("seconds are %v", got)
	}
	if got := Instant(5).Add(time.Second + time.Nanosecond); got != 1_000_005 {
		t.Errorf("a second later is %d", got)
	}
}
