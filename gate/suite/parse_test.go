package suite_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/writ-authority/writ/gate/suite"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestParseInvalid(t *testing.T) {
	t.Parallel()
	const file = "testdata/invalid.txtar"
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range archive.Files {
		want[f.Name] = string(f.Data)
	}
	fresh := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		name, ok := strings.CutSuffix(f.Name, ".yaml")
		if !ok {
			continue
		}
		cfg, err := suite.Parse("writ.yaml", f.Data)
		if err == nil {
			t.Errorf("%s is accepted: %+v", name, cfg)
			continue
		}
		checkConfigError(t, name, err)
		got := err.Error() + "\n"
		fresh.Files = append(fresh.Files, f, txtar.File{Name: name + ".want", Data: []byte(got)})
		if !*update && got != want[name+".want"] {
			t.Errorf("%s:\n%swant:\n%s", name, got, want[name+".want"])
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func checkConfigError(t testing.TB, name string, err error) {
	t.Helper()
	var list suite.ConfigErrors
	var one *suite.ConfigError
	if !errors.Is(err, suite.ErrConfig) || !errors.As(err, &list) || !errors.As(err, &one) || list[0] != one {
		t.Errorf("%s: %T is not the documented error", name, err)
	}
	if len(list) > 21 {
		t.Errorf("%s: %d problems are more than a person reads", name, len(list))
	}
	for i, e := range list {
		if e.Message == "" || e.File == "" {
			t.Errorf("%s: problem %d says nothing: %+v", name, i, e)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	suites := func(s ...suite.Suite) *suite.Config {
		return &suite.Config{Version: 1, Suites: s, HasSuites: true}
	}
	defaults := suite.Suite{ID: "a", Run: suite.Command{Shell: "make"}, Kind: suite.KindOther, Blocking: true, Timeout: 15 * time.Minute}
	with := func(change func(*suite.Suite)) suite.Suite {
		s := defaults
		change(&s)
		return s
	}
	for _, tc := range []struct {
		name, text string
		want       *suite.Config
	}{
		{"empty", "", &suite.Config{Version: 1}},
		{"comments", "# nothing\n\n---\n", &suite.Config{Version: 1}},
		{"byte order mark and CRLF", "\ufeffversion: 1\r\ntarget: main\r\n", &suite.Config{Version: 1, Target: "main"}},
		{"no suites at all", "suites: []", suites()},
		{"policy without members", "policy:\n  # require_tests: true\n", &suite.Config{Version: 1}},
		{"policy", "policy: {require_tests: true, require_lint: false}\n", &suite.Config{
			Version: 1, Policy: suite.PolicyOverrides{RequireTests: suite.On, RequireLint: suite.Off},
		}},
		{"JSON", `{"version": 1, "suites": [{"id": "a", "run": "make"}]}`, suites(defaults)},
		{"defaults", "suites:\n- id: a\n  run: make\n", suites(defaults)},
		{"everything", `
version: 1
target: release/2.x
suites:
  - id: a
    run: [go, test, -count, 1, ./..., ""]
    kind: tests
    blocking: false
    timeout: 1h30m
    env: {CI: 1, F: 1.10, B: true, S: "x y", HEX: 0x1f}
`, &suite.Config{Version: 1, Target: "release/2.x", HasSuites: true, Suites: []suite.Suite{{
			ID: "a", Run: suite.Command{Args: []string{"go", "test", "-count", "1", "./...", ""}},
			Kind: suite.KindTests, Timeout: 90 * time.Minute,
			Env: map[string]string{"CI": "1", "F": "1.10", "B": "true", "S": "x y", "HEX": "0x1f"},
		}}}},
		{"seconds", "suites: [{id: a, run: make, timeout: 90}]", suites(with(func(s *suite.Suite) { s.Timeout = 90 * time.Second }))},
		{"longest timeout", "suites: [{id: a, run: make, timeout: 24h}]", suites(with(func(s *suite.Suite) { s.Timeout = 24 * time.Hour }))},
		{"the command true", "suites: [{id: a, run: true}]", suites(with(func(s *suite.Suite) { s.Run.Shell = "true" }))},
		{"numeric id", "suites: [{id: 1, run: make}]", suites(with(func(s *suite.Suite) { s.ID = "1" }))},
		{"longest id", "suites: [{id: " + strings.Repeat("a", 64) + ", run: make}]", suites(with(func(s *suite.Suite) { s.ID = strings.Repeat("a", 64) }))},
		{"literal", "suites:\n- id: a\n  run: |\n    set -e\n    make\n", suites(with(func(s *suite.Suite) { s.Run.Shell = "set -e\nmake\n" }))},
		{"folded", "suites:\n- id: a\n  run: >-\n    go test\n    ./...\n", suites(with(func(s *suite.Suite) { s.Run.Shell = "go test ./..." }))},
		{"env without members", "suites: [{id: a, run: make, env: }]", suites(defaults)},
		{"anchors", "suites:\n- id: a\n  run: make\n  env: &e {A: x}\n- id: b\n  run: make\n  env: *e\n", suites(
			with(func(s *suite.Suite) { s.Env = map[string]string{"A": "x"} }),
			with(func(s *suite.Suite) { s.ID, s.Env = "b", map[string]string{"A": "x"} }),
		)},
		{"explicit key", "? target\n: main\n", &suite.Config{Version: 1, Target: "main"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := suite.Parse("writ.yaml", []byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if !sameConfig(got, tc.want) {
				t.Errorf("%+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// sameConfig treats no suites and an empty list of suites alike: HasSuites tells
// them apart.
func sameConfig(a, b *suite.Config) bool {
	x, y := *a, *b
	if len(x.Suites) == 0 && len(y.Suites) == 0 {
		x.Suites, y.Suites = nil, nil
	}
	return reflect.DeepEqual(x, y)
}

// Files whose size or shape is hostile: each must be refused, or read, soon. The
// test's own time limit is the judge.
func TestParseBounds(t *testing.T) {
	t.Parallel()
	const n = suite.MaxFile
	many := func(s string) string { return strings.Repeat(s, n/len(s)) }
	for _, tc := range []struct{ name, text, want string }{
		{"too large", many("#\n") + "#\n", "the file has 1048578 bytes, more than the 1048576 allowed"},
		{"not UTF-8", "a: \xff", "writ.yaml:1:4: this is not UTF-8"},
		{"control character", "target: main\n# \x01", "writ.yaml:2:3: the control character U+0001 is not allowed"},
		{"flow sequences", many("["), "more than 20000 elements"},
		{"nested sequences", strings.Repeat("[", 100), "nested more than 16 levels deep"},
		{"flow mappings", many("{"), "more than 20000 elements"},
		{"dashes", strings.Repeat("- ", 100), "nested more than 16 levels deep"},
		{"keys", strings.Repeat("? ", 100), "nested more than 16 levels deep"},
		{"colons", strings.Repeat("a: ", 100), "nested more than 16 levels deep"},
		{"blank lines", "a: |\n  x\n" + strings.Repeat(" \n", 2000), "more than 1000 blank lines in a row"},
		{"anchors", strings.Repeat("&a ", 100), "more than 64 anchors"},
		{"aliases", strings.Repeat("*", 1000), "more than 256 aliases"},
		{"tags", strings.Repeat("!a ", 100), `tags are not supported; write the value without "!a"`},
		{"suites", "suites:\n" + strings.Repeat("- a\n", 300), "writ.yaml:258:3: there are 300 suites, more than the 256 allowed"},
		{"arguments", "suites: [{id: a, run: [" + strings.Repeat("a,", 1100) + "]}]", "run has more than 1024 elements"},
		{"command", "suites: [{id: a, run: " + strings.Repeat("a", 70000) + "}]", "run has more than 65536 bytes"},
		{"sum of arguments", "suites: [{id: a, run: [" + strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,", 1000) + "]}]", "run has more than 65536 bytes"},
		{"problems", keys(300), "there are 280 more problems"},
		{"many keys", keys(6000), "there are 5980 more problems"},
		{"long line", "target: " + strings.Repeat("x ", n/4), "it is longer than 255 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := suite.Parse("writ.yaml", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%v, want %s", err, tc.want)
			}
			if len(err.Error()) > 8000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			checkConfigError(t, tc.name, err)
		})
	}
}

func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d: b\n", i)
	}
	return b.String()
}

// A file with a hundred aliases of one list must not grow beyond its bounds.
func TestParseAliasesMultiplyWithinBounds(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("suites:\n- {id: s0, run: &r [make" + strings.Repeat(", a", 900) + "]}\n")
	for i := 1; i < 100; i++ {
		fmt.Fprintf(&b, "- {id: s%d, run: *r}\n", i)
	}
	cfg, err := suite.Parse("writ.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Suites) != 100 || len(cfg.Suites[99].Run.Args) != 901 {
		t.Errorf("%d suites", len(cfg.Suites))
	}
}

// drawConfig makes any configuration that Parse could return.
func drawConfig(t *rapid.T) *suite.Config {
	c := &suite.Config{Version: 1, HasSuites: rapid.Bool().Draw(t, "has suites")}
	c.Target = rapid.SampledFrom([]string{"", "main", "release/1.x", "null", "1", "true", "ünder", "a#b", "don't"}).Draw(t, "target")
	override := rapid.SampledFrom([]suite.Override{suite.Unset, suite.On, suite.Off})
	v := reflect.ValueOf(&c.Policy).Elem()
	for i := range v.NumField() {
		v.Field(i).Set(reflect.ValueOf(override.Draw(t, v.Type().Field(i).Name)))
	}
	if !c.HasSuites {
		return c
	}
	// What YAML might misread: words with another type, indicators, blanks.
	text := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[ a-z:#\-?&*!|>'"%@{}\[\],\\\n\t=<0-9]{0,20}`),
		rapid.SampledFrom([]string{"go test ./...", "null", "~", "true", "1", "1e3", ".inf", "0x1", "-", "a: b", "a #b", "<<", "a:", "npm ci && npm test", "a  b", "a &b", "./x.sh", "---", "...", ". a", "Null", "NULL"}),
	).Filter(func(s string) bool { return !strings.ContainsRune(s, 0) })
	ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,10}`), 0, 4, rapid.ID[string]).Draw(t, "ids")
	for _, id := range ids {
		s := suite.Suite{
			ID:       id,
			Kind:     rapid.SampledFrom([]suite.Kind{suite.KindTests, suite.KindLint, suite.KindOther}).Draw(t, "kind"),
			Blocking: rapid.Bool().Draw(t, "blocking"),
			Timeout:  time.Duration(rapid.Int64Range(1, int64(suite.MaxTimeout)).Draw(t, "timeout")),
		}
		if rapid.Bool().Draw(t, "round") {
			s.Timeout = max(s.Timeout.Truncate(time.Minute), time.Minute)
		}
		if rapid.Bool().Draw(t, "shell") {
			s.Run.Shell = text.Filter(func(s string) bool { return strings.TrimSpace(s) != "" }).Draw(t, "run")
		} else {
			s.Run.Args = rapid.SliceOfN(text, 1, 4).Filter(func(a []string) bool { return a[0] != "" }).Draw(t, "args")
		}
		s.Env = rapid.MapOfN(rapid.StringMatching(`[A-VX-Za-z_][A-Za-z0-9_]{0,8}`), text, 0, 3).Draw(t, "env")
		if len(s.Env) == 0 {
			s.Env = nil
		}
		c.Suites = append(c.Suites, s)
	}
	return c
}

func TestMarshalSaysTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		data := c.Marshal()
		got, err := suite.Parse("writ.yaml", data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if !sameConfig(got, c) {
			t.Fatalf("%+v\nwant %+v\n%s", got, c, data)
		}
	})
}

func TestPolicyApply(t *testing.T) {
	t.Parallel()
	for bit, name := range []string{
		"require_attestation", "require_tests", "require_lint", "require_security_scan", "require_license_scan",
		"require_ai_provenance", "require_code_review_summary", "docs_only_relaxed_checks",
	} {
		for value, want := range map[string]uint8{"true": 1 << bit, "false": 0xff &^ (1 << bit)} {
			c, err := suite.Parse("writ.yaml", []byte("policy: {"+name+": "+value+"}"))
			if err != nil {
				t.Fatal(err)
			}
			var flags uint8
			if value == "false" {
				flags = 0xff
			}
			if got := c.Policy.Apply(flags); got != want {
				t.Errorf("%s: %s turns %08b into %08b, want %08b", name, value, flags, got, want)
			}
		}
	}
	if got := (suite.PolicyOverrides{}).Apply(0x82); got != 0x82 {
		t.Errorf("nothing set turns 0x82 into %#x", got)
	}
}

func TestCommandString(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]suite.Command{
		"a && b":                {Shell: "a && b"},
		"go test ./...":         {Args: []string{"go", "test", "./..."}},
		`sh -c 'it'\''s $x' ''`: {Args: []string{"sh", "-c", "it's $x", ""}},
	} {
		if got := c.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	archive, err := txtar.ParseFile("testdata/invalid.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archive.Files {
		f.Add(file.Data)
	}
	f.Add((&suite.Config{Version: 1, Target: "main", HasSuites: true, Suites: []suite.Suite{{
		ID: "a", Run: suite.Command{Args: []string{"x", "y"}}, Kind: suite.KindLint, Timeout: time.Second, Env: map[string]string{"A": "b"},
	}}}).Marshal())
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := suite.Parse("f", data)
		if err != nil {
			checkConfigError(t, "f", err)
			return
		}
		again, err := suite.Parse("f", c.Marshal())
		if err != nil {
			t.Fatalf("%v\n%s", err, c.Marshal())
		}
		if !sameConfig(c, again) {
			t.Fatalf("%+v\nbecomes %+v\n%s", c, again, c.Marshal())
		}
		if !bytes.Equal(c.Marshal(), again.Marshal()) {
			t.Fatal("Marshal is not stable")
		}
	})
}
