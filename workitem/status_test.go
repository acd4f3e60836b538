package workitem

import (
	"errors"
	"testing"
)

func TestStatusSpellings(t *testing.T) {
	t.Parallel()
	for s := Submitted; s <= DeadLetter; s++ {
		for _, text := range []string{s.String(), s.State()} {
			if got, err := ParseState(text); err != nil || got != s {
				t.Errorf("%q gives %v, %v", text, got, err)
			}
		}
	}
	if DeadLetter.String() != "dead_letter" || DeadLetter.State() != "dead-letter" {
		t.Errorf("a dead letter is stored as %s and shown as %s", DeadLetter, DeadLetter.State())
	}
	for _, text := range []string{"", "Ready", "done", "dead letter"} {
		if got, err := ParseState(text); !errors.Is(err, ErrInvalidRequest) || got != 0 {
			t.Errorf("%q gives %v, %v", text, got, err)
		}
	}
	if Status(0).String() != "" || Status(9).String() != "" {
		t.Error("a status outside the table has a name")
	}
}

func TestTerminalAndHeld(t *testing.T) {
	t.Parallel()
	for s := Status(0); s <= 9; s++ {
		terminal := s == Succeeded || s == Failed || s == StatusCancelled || s == DeadLetter
		if s.Terminal() != terminal {
			t.Errorf("%v: terminal is %v", s, s.Terminal())
		}
		if s.Held() != (s == Leased || s == Running) {
			t.Errorf("%v: held is %v", s, s.Held())
		}
	}
}
