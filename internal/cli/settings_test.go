package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestEverySettingOfTheServerIsDocumented compares the table in docs/server.md with
// the flags, in both directions.
func TestEverySettingOfTheServerIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "server.md"))
	if err != nil {
		t.Fatal(err)
	}
	type documented struct{ variable, value string }
	said := map[string]documented{}
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| `(WRIT_[A-Z_]+)` \\| (.*?) ?\\| ").FindAllStringSubmatch(string(text), -1) {
		said[m[1]] = documented{m[2], strings.Trim(m[3], "`")}
	}
	a := &app{}
	root := a.root()
	c, _, err := root.Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	names := serveNames(c)
	for _, name := range names {
		d, ok := said[name]
		if !ok {
			t.Errorf("docs/server.md has no row for --%s", name)
			continue
		}
		if d.variable != settingVariable(name) {
			t.Errorf("docs/server.md, --%s: the variable is %s, expected %s", name, d.variable, settingVariable(name))
		}
		if name == "data" {
			continue // its default is a sentence
		}
		want := c.Flag(name).DefValue
		if want == "[]" {
			want = ""
		}
		if d.value != want {
			t.Errorf("docs/server.md, --%s: the default is %q, expected %q", name, d.value, want)
		}
	}
	if len(said) != len(names) {
		t.Errorf("docs/server.md has %d settings, the program %d", len(said), len(names))
	}
}

// settings is a set of flags of every type that settings have.
type settings struct {
	*pflag.FlagSet
	text   string
	flag   bool
	number int
	ratio  float64
	time   time.Duration
	list   []string
	pairs  map[string]int
}

func newSettings(t *testing.T, args ...string) *settings {
	t.Helper()
	s := &settings{FlagSet: pflag.NewFlagSet("test", pflag.ContinueOnError)}
	s.StringVar(&s.text, "some-text", "", "")
	s.BoolVar(&s.flag, "flag", false, "")
	s.IntVar(&s.number, "number", 1, "")
	s.Float64Var(&s.ratio, "ratio", 1, "")
	s.DurationVar(&s.time, "time", time.Second, "")
	s.StringSliceVar(&s.list, "list", nil, "")
	s.StringToIntVar(&s.pairs, "pairs", nil, "")
	if err := s.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *settings) read(t *testing.T, yaml string, env map[string]string) error {
	t.Helper()
	file := ""
	if yaml != "" {
		file = filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return readSettings(s.FlagSet, flagNames(s.FlagSet), file, func(name string) string { return env[name] })
}

func TestSettingsComeFromTheCommandLineTheEnvironmentAndTheFile(t *testing.T) {
	t.Parallel()
	s := newSettings(t, "--number", "7")
	err := s.read(t, "number: 8\nsome-text: file\nflag: true\nratio: 0.5\ntime: 20s\nlist: [a, b]\npairs:\n  y: 2\n  x: 1\n",
		map[string]string{"WRIT_NUMBER": "9", "WRIT_SOME_TEXT": "environment"})
	if err != nil {
		t.Fatal(err)
	}
	if s.number != 7 || s.text != "environment" || !s.flag || s.ratio != 0.5 || s.time != 20*time.Second ||
		!slices.Equal(s.list, []string{"a", "b"}) || fmt.Sprint(s.pairs) != "map[x:1 y:2]" {
		t.Errorf("%+v", s)
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ yaml, env, part string }{
		{"other: 1", "", `unknown setting "other"`},
		{"some_text: x", "", `unknown setting "some_text"`},
		{"- a", "", "not a YAML map"},
		{"number: 1\nnumber: 2", "", "not a YAML map"},
		{"number: many", "", "number: expected a whole number"},
		{"number: 1.5", "", "expected a whole number"},
		{"flag: 7", "", "expected true or false"},
		{"time: 20", "", "expected a time"},
		{"some-text:", "", "expected a text"},
		{"list: ['a,b']", "", "expected a list"},
		{"pairs: {x: y}", "", "expected a map"},
		{"", "secret", "$WRIT_NUMBER: expected a whole number"},
	} {
		err := newSettings(t).read(t, x.yaml, map[string]string{"WRIT_NUMBER": x.env})
		if err == nil || !strings.Contains(err.Error(), x.part) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, expected %q", x.yaml, err, x.part)
		}
	}
	if err := readSettings(newSettings(t).FlagSet, nil, "/missing.yaml", os.Getenv); err == nil {
		t.Error("a file that is not there was passed over")
	}
}
