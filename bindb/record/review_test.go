package record_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

func TestReviewActions(t *testing.T) {
	t.Parallel()
	want := map[record.ReviewAction]string{}
	for _, line := range facts(t, "facts.txt") {
		var v record.ReviewAction
		var name string
		if strings.HasPrefix(line, "enum ReviewAction ") {
			if _, err := fmt.Sscanf(line, "enum ReviewAction %d %s", &v, &name); err != nil {
				t.Fatal(err)
			}
			want[v] = name
		}
	}
	if len(want) != 11 {
		t.Fatalf("%d actions, want 11", len(want))
	}
	for m := range 256 {
		meta := record.ReviewMeta(m)
		a, err := meta.Action()
		name, ok := want[record.ReviewAction(m)&0x77]
		if (err == nil) != ok {
			t.Errorf("%#02x: got %v, %v, want %q", m, a, err, name)
			continue
		}
		if !ok {
			var fe *record.FieldError
			if !errors.As(err, &fe) || fe.Check != "R01" {
				t.Errorf("%#02x: got %v, want R01", m, err)
			}
			continue
		}
		if a.String() != name {
			t.Errorf("%#02x: got %s, want %s", m, a, name)
		}
		if p, err := record.ParseReviewAction(name); p != a || err != nil {
			t.Errorf("ParseReviewAction(%q) = %v, %v", name, p, err)
		}
		// SetAction touches neither blocking nor tombstoned.
		other := record.ReviewMeta(0xff)
		other.SetAction(a)
		if back, err := other.Action(); back != a || err != nil || !other.Blocking() || !other.Tombstoned() {
			t.Errorf("SetAction(%s): got %#02x", a, uint8(other))
		}
		if a.Base() != meta.Base() {
			t.Errorf("%s: base %s, want %s", a, a.Base(), meta.Base())
		}
	}
	if _, err := record.ParseReviewAction("Approve"); !errors.Is(err, record.ErrSyntax) || !strings.Contains(err.Error(), "task_request_changes") {
		t.Errorf("got %v, want a list of the actions", err)
	}
}

func TestWaiver(t *testing.T) {
	t.Parallel()
	w := record.Waiver{CreatedAt: 5, ExpiresAt: 10}
	if !w.ActiveAt(9) || w.ActiveAt(10) {
		t.Error("a Waiver ends at the second of its expiry")
	}
	w.ExpiresAt = 0
	if !w.ActiveAt(1 << 63) {
		t.Error("a Waiver without expiry ends")
	}
	w.Meta.SetRevoked(true)
	if w.ActiveAt(9) {
		t.Error("a revoked Waiver is active")
	}
	w.Meta.SetRevoked(false)
	w.Meta.SetTombstoned(true)
	if w.ActiveAt(9) {
		t.Error("a tombstoned Waiver is active")
	}
	for k := record.CheckKind(0); k.Valid(); k++ {
		rule := k.Rule()
		if back, ok := rule.CheckKind(); !ok || back != k || rule.String() != k.String() {
			t.Errorf("%s: rule %s names %s", k, rule, back)
		}
		want := k != record.CheckKindTests && k != record.CheckKindCIRolloutPhase && k != record.CheckKindCIPatchsetSuite
		if rule.Waivable() != want {
			t.Errorf("%s: waivable %v, want %v", rule, !want, want)
		}
	}
	for _, c := range []record.RuleCode{0, 11} {
		if _, ok := c.CheckKind(); ok || c.Waivable() {
			t.Errorf("rule %d has a meaning", c)
		}
	}
}

func TestPolicyFlags(t *testing.T) {
	t.Parallel()
	got := strings.Join(record.DefaultPolicyFlags.Names(), " ")
	if want := "require_attestation require_tests docs_only_relaxed_checks"; got != want {
		t.Errorf("default flags: got %s, want %s", got, want)
	}
	var all record.PolicyFlags
	for _, name := range record.PolicyFlags(0xff).Names() {
		f, err := record.ParsePolicyFlag(name)
		if err != nil {
			t.Error(err)
		}
		all |= f
	}
	if all != 0xff {
		t.Errorf("all flags: got %#02x", uint8(all))
	}
	if _, err := record.ParsePolicyFlag("tests"); !errors.Is(err, record.ErrSyntax) {
		t.Errorf("got %v, want ErrSyntax", err)
	}
	if n := record.PolicyFlags(0).Names(); n == nil || len(n) != 0 {
		t.Errorf("no flags: got %v, want an empty list", n)
	}
}

// Setting a part of a metadata byte leaves the others alone.
func TestBitsAreIndependent(t *testing.T) {
	t.Parallel()
	for m := range 256 {
		p := record.PatchsetMeta(m)
		p.SetAuthorMode(record.AuthorModeAgent)
		if p.AuthorMode() != record.AuthorModeAgent || p&^0x1c != record.PatchsetMeta(m)&^0x1c {
			t.Fatalf("SetAuthorMode on %#02x gives %#02x", m, uint8(p))
		}
		p = record.PatchsetMeta(m)
		p.SetWithdrawn(true)
		p.SetInvalidated(false)
		if !p.Withdrawn() || p.Invalidated() || p&^3 != record.PatchsetMeta(m)&^3 {
			t.Fatalf("SetWithdrawn on %#02x gives %#02x", m, uint8(p))
		}
	}
}
