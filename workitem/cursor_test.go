package workitem

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"testing"
)

func TestCursorGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Cases []struct {
			Tenant  string  `json:"tenant_id"`
			Created float64 `json:"created_at"`
			Item    string  `json:"work_item_id"`
			Cursor  string
		}
	}
	vectors(t, "identity.json", "list_cursor", &v)
	if len(v.Cases) != 3 {
		t.Fatalf("the vectors have %d cases", len(v.Cases))
	}
	for _, c := range v.Cases {
		id, err := ParseID(c.Item)
		if err != nil {
			t.Fatal(err)
		}
		created := Instant(c.Created * 1e6)
		if got := EncodeCursor(c.Tenant, created, id); got != c.Cursor {
			t.Errorf("%+v: %s", c, got)
		}
		at, same, err := DecodeCursor(c.Tenant, c.Cursor)
		if err != nil || at != created || same != id {
			t.Errorf("%s: %d, %s, %v", c.Cursor, at, same.JobID(), err)
		}
		if _, _, err := DecodeCursor("tenant-c", c.Cursor); !errors.Is(err, ErrUnauthorizedTarget) {
			t.Errorf("%s read by another tenant: %v", c.Cursor, err)
		}
	}
}

func TestDecodeCursorRefuses(t *testing.T) {
	t.Parallel()
	good := EncodeCursor("t", 5, NewID("t", "k"))
	item, tenant := NewID("t", "k").WorkItemID(), Digest(sha256.Sum256([]byte("t"))).String()
	encode := func(json string) string { return cursorPrefix + base64.RawURLEncoding.EncodeToString([]byte(json)) }
	if _, _, err := DecodeCursor("t", encode(`{"created_at":5.0,"id":"`+item+`","tenant":"`+tenant+`","v":1}`)); err != nil {
		t.Fatal(err)
	}
	for _, cursor := range []string{
		"", "x", cursorPrefix, good[1:], good + "=", good + "\n", good[:len(good)-4], cursorPrefix + "!!!!", encode("[]"), encode("{}"),
		encode(`{"created_at":"5.0","id":"` + item + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5e1,"id":"` + item + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5.1234567,"id":"` + item + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5.0,"id":"` + NewID("t", "k").JobID() + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5.0,"id":"` + item + `","tenant":"t","v":1}`),
		encode(`{"created_at":5.0,"id":"` + item + `","tenant":"` + tenant + `","v":2}`),
		encode(`{"created_at":5.0,"id":"` + item + `","tenant":"` + tenant + `"}`),
		encode(`{"created_at":5.0,"id":"` + item + `","tenant":"` + tenant + `","v":1,"w":1}`),
	} {
		var refusal *Error
		if _, _, err := DecodeCursor("t", cursor); !errors.As(err, &refusal) || refusal.Code != InvalidRequest || refusal.Field != "cursor" {
			t.Errorf("%q: %v", cursor, err)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add("tenant-a", int64(1_754_730_000_250_000), []byte("0123456789abcdef"), "rmpage:v1:e30")
	f.Add("", int64(-1), []byte("x"), "")
	f.Fuzz(func(t *testing.T, tenant string, micros int64, raw []byte, cursor string) {
		var id ID
		copy(id[:], raw)
		created := Instant(micros % 1e18)
		at, same, err := DecodeCursor(tenant, EncodeCursor(tenant, created, id))
		if err != nil || at != created || same != id {
			t.Fatalf("%d %s of %q: %d %s %v", created, id.JobID(), tenant, at, same.JobID(), err)
		}
		if created, id, err := DecodeCursor(tenant, cursor); err == nil {
			if at, same, err := DecodeCursor(tenant, EncodeCursor(tenant, created, id)); err != nil || at != created || same != id {
				t.Fatalf("%q is read as %d %s, which is read as %d %s %v", cursor, created, id.JobID(), at, same.JobID(), err)
			}
		}
	})
}
