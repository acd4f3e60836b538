package suite

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestMakeTargets(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"plain", "test:\n\tgo test ./...\n", "test"},
		{"dependencies", "test: build lint\nlint:;golint", "lint test"},
		{"several targets", "all test check: x", "check test"},
		{"double colon", "test::\n\tx", "test"},
		{"grouped targets", "test lint &: x", "lint test"},
		{"blanks", "  test  :  x", "test"},
		{"CRLF", "test:\r\n\tx\r\n", "test"},
		{"continued", "all \\\n  test: x\n", "test"},
		{"last line", "a:\ntest:", "test"},
		{"comment", "# test:\nlint: # check:\n", "lint"},
		{"recipe", "a:\n\ttest: x\n", ""},
		{"only phony", ".PHONY: test lint\n", ""},
		{"longer name", "unit-test:\ntests:\ntest/x:\nx.test:\n", ""},
		{"assignments", "test := x\nlint ::= x\ncheck :::= x\nA = test: x\n", ""},
		{"variable of a target", "test: FLAGS = -v\nlint: export X := 1\n", ""},
		{"rule beside a variable of the target", "test: FLAGS = -v\ntest: build\n", "test"},
		{"equals sign in an inline recipe", "test: build; A=1 go test\n", "test"},
		{"define", "define x\ntest:\nendef\nlint:\n", "lint"},
		{"expansion", "$(T)test: x\n$(eval test: x)\n", ""},
		{"pattern", "%test: x\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(slices.Sorted(maps.Keys(makeTargets([]byte(tc.text), "test", "check", "lint"))), " ")
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func FuzzMakeTargets(f *testing.F) {
	f.Add([]byte("test: x\n\ty\ndefine a\nlint:\nendef\ncheck \\\n :: z"))
	f.Add([]byte("test: A = b\r\n.PHONY: test\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := makeTargets(data, "test", "lint")
		for name := range got {
			if name != "test" && name != "lint" {
				t.Fatalf("target %q was not asked for", name)
			}
			if !strings.Contains(string(data), name) {
				t.Fatalf("target %q is not in %q", name, data)
			}
		}
		// What follows a comment sign never matters.
		with := makeTargets(append([]byte("# lint:\n"), data...), "test", "lint")
		if !maps.Equal(got, with) {
			t.Fatalf("a comment before the file changes %v to %v", got, with)
		}
	})
}
