package suite_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/gate/suite"
)

// planText shows a plan: sources and flags, a line a suite, a line a note.
func planText(p *suite.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "suites %s, flags %s %02x, target %q\n", p.SuitesSource, p.FlagsSource, p.Flags, p.Target)
	for _, s := range p.Suites {
		fmt.Fprintf(&b, "%s: %s, %s, blocking %v, %v", s.ID, s.Run, s.Kind, s.Blocking, s.Timeout)
		if s.Added {
			b.WriteString(", added")
		}
		if s.Detected {
			b.WriteString(", detected")
		}
		b.WriteByte('\n')
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	return b.String()
}

func TestResolve(t *testing.T) {
	t.Parallel()
	const base = `
target: main
policy: {require_tests: true, require_lint: true}
suites:
  - {id: lint, run: make lint, kind: lint}
  - {id: unit, run: make test, kind: tests, env: {A: x}}
`
	const unit = "unit: make test, tests, blocking true, 15m0s\n"
	const lint = "lint: make lint, lint, blocking true, 15m0s\n"
	const first = `suites base, flags base 86, target "main"` + "\n"
	const later = "; this takes effect after landing\n"
	for _, tc := range []struct {
		name       string
		base, head suite.Tree
		want       string
	}{
		{"unchanged", files{"writ.yaml": base}, files{"writ.yaml": base}, first + lint + unit},
		{
			"tests suite removed", files{"writ.yaml": base}, files{"writ.yaml": strings.ReplaceAll(base, "- {id: unit,", "# ")},
			first + lint + unit + "- suite unit: the head removes it" + later,
		},
		{
			"all suites removed", files{"writ.yaml": base}, files{"writ.yaml": base[:strings.Index(base, "suites:")] + "suites: []"},
			first + lint + unit + "- suite lint: the head removes it" + later + "- suite unit: the head removes it" + later,
		},
		{
			"file removed", files{"writ.yaml": base}, files{},
			first + lint + unit + "- the head removes writ.yaml" + later +
				"- the head changes require_lint from true to false" + later +
				"- suite lint: the head removes it" + later + "- suite unit: the head removes it" + later,
		},
		{
			"list removed, others detected", files{"writ.yaml": base}, files{"writ.yaml": base[:strings.Index(base, "suites:")], "Cargo.toml": ""},
			first + "cargo-fmt: cargo fmt --check, lint, blocking true, 15m0s, added, detected\n" +
				"cargo-test: cargo test, tests, blocking true, 15m0s, added, detected\n" + lint + unit +
				"- suite lint: the head removes it" + later + "- suite unit: the head removes it" + later,
		},
		{
			"not blocking any more", files{"writ.yaml": base}, files{"writ.yaml": strings.ReplaceAll(base, "kind: tests,", "kind: tests, blocking: false,")},
			first + lint + unit + "- suite unit: the head changes blocking from true to false" + later,
		},
		{
			"runs nothing", files{"writ.yaml": base}, files{"writ.yaml": strings.ReplaceAll(base, "run: make test", "run: true")},
			first + lint + unit + `- suite unit: the head changes run from "make test" to "true"` + later,
		},
		{
			"everything changed", files{"writ.yaml": base}, files{"writ.yaml": strings.ReplaceAll(base,
				"run: make test, kind: tests, env: {A: x}", "run: [make, test], kind: other, timeout: 1s")},
			first + lint + unit + `- suite unit: the head changes run from "make test" to "make test" (without a shell), ` +
				"kind from tests to other, timeout from 15m to 1s, env" + later,
		},
		{
			"flags lowered", files{"writ.yaml": base}, files{"writ.yaml": strings.ReplaceAll(base, "require_tests: true", "require_tests: false, docs_only_relaxed_checks: true")},
			first + lint + unit + "- the head changes require_tests from true to false" + later,
		},
		{
			"flags raised", files{"writ.yaml": base}, files{"writ.yaml": strings.ReplaceAll(base, "require_lint: true", "require_lint: true, require_attestation: true")},
			first + lint + unit + "- the head changes require_attestation from false to true" + later,
		},
		{
			"target changed", files{"writ.yaml": base}, files{"writ.yaml": strings.ReplaceAll(base, "target: main", "target: mine")},
			first + lint + unit + `- the head changes target from "main" to "mine"` + later,
		},
		{
			"suite added", files{"writ.yaml": base}, files{"writ.yaml": base + "  - {id: fuzz, run: make fuzz, blocking: false}\n"},
			first + "fuzz: make fuzz, other, blocking false, 15m0s, added\n" + lint + unit,
		},
		{
			"only the head has a file", files{"go.mod": ""}, files{"go.mod": "", "writ.yaml": base},
			`suites head, flags head 86, target "main"` + "\n" + lint + unit + "- the base has no writ.yaml, so the one of the head counts\n",
		},
		{
			"only the head has a file, without suites", files{"go.mod": ""}, files{"writ.yaml": "policy: {require_tests: false}"},
			`suites detected, flags head 80, target ""` + "\ngo-test: go test ./..., tests, blocking true, 15m0s, detected\n" +
				"go-vet: go vet ./..., lint, blocking true, 15m0s, detected\n- the base has no writ.yaml, so the one of the head counts\n" +
				"- suite go-test: the head removes it" + later + "- suite go-vet: the head removes it" + later,
		},
		{
			"the base's file lists no suites", files{"writ.yaml": "policy: {require_lint: true}", "go.mod": ""},
			files{"writ.yaml": "suites: [{id: go-test, run: true, kind: tests}]", "go.mod": ""},
			`suites detected, flags base 86, target ""` + "\ngo-test: go test ./..., tests, blocking true, 15m0s, detected\n" +
				"go-vet: go vet ./..., lint, blocking true, 15m0s, detected\n" +
				"- the head changes require_lint from true to false" + later +
				`- suite go-test: the head changes run from "go test ./..." to "true"` + later + "- suite go-vet: the head removes it" + later,
		},
		{
			"no file", files{"Makefile": "test:\n"}, files{"Makefile": "test:\n", "go.mod": ""},
			`suites detected, flags repository 82, target ""` + "\ngo-test: go test ./..., tests, blocking true, 15m0s, added, detected\n" +
				"go-vet: go vet ./..., lint, blocking true, 15m0s, added, detected\nmake-test: make test, tests, blocking true, 15m0s, detected\n" +
				"- suite make-test: the head removes it" + later,
		},
		{
			"no base", nil, files{"writ.yaml": base},
			`suites head, flags head 86, target "main"` + "\n" + lint + unit +
				"- the base has no writ.yaml, so the one of the head counts\n",
		},
		{
			"no base, no file", nil, files{"go.mod": ""},
			`suites detected, flags repository 82, target ""` + "\ngo-test: go test ./..., tests, blocking true, 15m0s, detected\n" +
				"go-vet: go vet ./..., lint, blocking true, 15m0s, detected\n",
		},
		{"nothing anywhere", files{}, files{}, `suites detected, flags repository 82, target ""` + "\n"},
		{"empty file", files{"writ.yaml": ""}, files{"writ.yaml": ""}, `suites detected, flags base 82, target ""` + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, err := suite.Resolve(tc.base, tc.head, 0x82)
			if err != nil {
				t.Fatal(err)
			}
			if got := planText(p); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestResolveNamesTheSide(t *testing.T) {
	t.Parallel()
	good, bad := files{"writ.yaml": "version: 1"}, files{"writ.yaml": "version: 1\nsuite: []"}
	for _, tc := range []struct {
		base, head suite.Tree
		want       string
	}{
		{bad, good, "writ.yaml of the base tree can't be used:\nwrit.yaml:2:1: unknown member"},
		{good, bad, "writ.yaml of the head tree can't be used:\nwrit.yaml:2:1: unknown member"},
		{nil, bad, "writ.yaml of the head tree can't be used"},
		{files{"writ.yaml/x": ""}, good, "writ.yaml of the base tree can't be used:\nwrit.yaml: it is a folder"},
	} {
		_, err := suite.Resolve(tc.base, tc.head, 0)
		if !errors.Is(err, suite.ErrConfig) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
	for _, tc := range []struct {
		base, head suite.Tree
		want       string
	}{
		{broken{good, "writ.yaml"}, good, "read writ.yaml of the base tree"},
		{good, broken{good, "writ.yaml"}, "read writ.yaml of the head tree"},
		{good, broken{files{}, ""}, "list the head tree"},
		{good, broken{good, ""}, "detect the suites of the head tree"},
	} {
		_, err := suite.Resolve(tc.base, tc.head, 0)
		if !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
}

// Whatever the head does: what the base defines counts as the base defines it,
// and what the head would change about it is in the notes.
func TestResolveNeverWeakensTheBase(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawConfig(t), drawConfig(t)
		if base.HasSuites && head.HasSuites { // make collisions likely
			for i := range min(len(base.Suites), len(head.Suites)) {
				id := base.Suites[i].ID
				if rapid.Bool().Draw(t, "same id") && !slices.ContainsFunc(head.Suites, func(s suite.Suite) bool { return s.ID == id }) {
					head.Suites[i].ID = id
				}
			}
		}
		tree := files{"writ.yaml": string(base.Marshal()), "go.mod": ""}
		alone, err := suite.Resolve(tree, tree, 0x82)
		if err != nil {
			t.Fatal(err)
		}
		p, err := suite.Resolve(tree, files{"writ.yaml": string(head.Marshal())}, 0x82)
		if err != nil {
			t.Fatal(err)
		}
		if p.Flags != alone.Flags || p.Target != alone.Target {
			t.Fatalf("flags %02x target %q, the base has %02x %q", p.Flags, p.Target, alone.Flags, alone.Target)
		}
		for _, s := range alone.Suites {
			i := slices.IndexFunc(p.Suites, func(q suite.Planned) bool { return q.ID == s.ID })
			if i < 0 || !p.Suites[i].Equal(s.Suite) || p.Suites[i].Added {
				t.Fatalf("suite %s of the base does not count as it is", s.ID)
			}
			same := slices.ContainsFunc(head.Suites, func(h suite.Suite) bool { return h.Equal(s.Suite) })
			noted := slices.ContainsFunc(p.Notes, func(n suite.Note) bool { return n.Suite == s.ID })
			if same == noted {
				t.Fatalf("suite %s: the head leaves it as it is: %v; there is a note: %v", s.ID, same, noted)
			}
		}
		for i, s := range p.Suites {
			if i > 0 && p.Suites[i-1].ID >= s.ID {
				t.Fatalf("%s comes before %s", p.Suites[i-1].ID, s.ID)
			}
		}
	})
}
