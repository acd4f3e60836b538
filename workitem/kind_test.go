package workitem

import (
	"errors"
	"slices"
	"testing"
)

func TestRegistryGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Entries []KindEntry
		Unknown []string `json:"unknown_rejected"`
	}
	vectors(t, "identity.json", "kind_registry", &v)
	if !slices.Equal(Registry(), v.Entries) {
		t.Fatalf("the registry is\n%v, want\n%v", Registry(), v.Entries)
	}
	for i, e := range v.Entries {
		k, err := ParseOperation(e.Operation)
		again, err2 := ParseKind(e.Kind)
		if err != nil || err2 != nil || k != again || int(k) != i+1 || k.String() != e.Kind || k.Operation() != e.Operation {
			t.Errorf("%v: operation gives %v (%v), kind gives %v (%v)", e, k, err, again, err2)
		}
	}
	for _, s := range v.Unknown {
		if _, err := ParseOperation(s); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("operation %q: %v", s, err)
		}
	}
	if _, err := ParseKind("build"); !errors.Is(err, ErrInvalidRequest) {
		t.Errorf("kind build: %v", err)
	}
	for _, k := range []Kind{0, 15, 255} {
		if k.Valid() || k.String() != "" || k.Operation() != "" {
			t.Errorf("kind %d is %q, valid %v", k, k, k.Valid())
		}
	}
}

func TestKindsWithRulesAreWhatTheyAreCalled(t *testing.T) {
	t.Parallel()
	for kind, operation := range map[Kind]string{
		kindLaneAllocate: "lane.allocate", kindRelease: "release", kindCandidateSubmit: "candidate.submit",
		kindGenerationCertify: "generation.certify", kindBranchLand: "branch.land",
		kindWorkspacePush: "workspace.push", kindRepair: "repair",
	} {
		if kind.Operation() != operation {
			t.Errorf("kind %d is %s, want %s", kind, kind.Operation(), operation)
		}
	}
}
