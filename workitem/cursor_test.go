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
		if got := EncodeCursor(c.Tenant, 0, Place{created, id}); got != c.Cursor {
			t.Errorf("%+v: %s", c, got)
		}
		epoch, last, err := DecodeCursor(c.Tenant, c.Cursor)
		if err != nil || epoch != 0 || last != (Place{created, id}) {
			t.Errorf("%s: %d, %v, %v", c.Cursor, epoch, last, err)
		}
		if _, _, err := DecodeCursor("tenant-c", c.Cursor); !errors.Is(err, ErrUnauthorizedTarget) {
			t.Errorf("%s read by another tenant: %v", c.Cursor, err)
		}
	}
}

func TestDecodeCursorRefuses(t *testing.T) {
	t.Parallel()
	good := EncodeCursor("t", 0, Place{5, NewID("t", "k")})
	item, tenant := NewID("t", "k").WorkItemID(), Digest(sha256.Sum256([]byte("t"))).String()
	encode := func(json string) string { return cursorPrefix + base64.RawURLEncoding.EncodeToString([]byte(json)) }
	if _, _, err := DecodeCursor("t", encode(`{"created_at":5.0,"id":"`+item+`","tenant":"`+tenant+`","v":1}`)); err != nil {
		t.Fatal(err)
	}
	later := encode(`{"created_at":5.0,"epoch":2097151,"id":"` + item + `","tenant":"` + tenant + `","v":1}`)
	if epoch, last, err := DecodeCursor("t", later); err != nil || epoch != LastEpoch || later != EncodeCursor("t", epoch, last) {
		t.Fatal(epoch, last, err)
	}
	for _, cursor := range []string{
		"", "x", cursorPrefix, good[1:], good + "=", good + "\n", good[:len(good)-4], cursorPrefix + "!!!!", encode("[]"), encode("{}"),
		encode(`{"created_at":"5.0","id":"` + item + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5e1,"id":"` + item + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5.1234567,"id":"` + item + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5.0,"id":"` + NewID("t", "k").JobID() + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5.0,"epoch":0,"id":"` + item + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5.0,"epoch":-1,"id":"` + item + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5.0,"epoch":2097152,"id":"` + item + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5.0,"epoch":"1","id":"` + item + `","tenant":"` + tenant + `","v":1}`),
		encode(`{"created_at":5.0,"epoch":1,"id":"` + item + `","tenant":"` + tenant + `"}`),
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
	f.Add("tenant-a", int64(0), int64(1_754_730_000_250_000), []byte("0123456789abcdef"), "rmpage:v1:e30")
	f.Add("", int64(7), int64(-1), []byte("x"), "")
	f.Fuzz(func(t *testing.T, tenant string, epoch, micros int64, raw []byte, cursor string) {
		epoch = max(0, min(epoch, LastEpoch))
		last := Place{CreatedAt: Instant(micros % 1e18)}
		copy(last.ID[:], raw)
		again, same, err := DecodeCursor(tenant, EncodeCursor(tenant, epoch, last))
		if err != nil || again != epoch || same != last {
			t.Fatalf("%d %v of %q: %d %v %v", epoch, last, tenant, again, same, err)
		}
		if epoch, last, err := DecodeCursor(tenant, cursor); err == nil {
			if again, same, err := DecodeCursor(tenant, EncodeCursor(tenant, epoch, last)); err != nil || again != epoch || same != last {
				t.Fatalf("%q is read as %d %v, which is read as %d %v %v", cursor, epoch, last, again, same, err)
			}
		}
	})
}
