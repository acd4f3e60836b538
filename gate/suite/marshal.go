package suite

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Marshal returns the file that says the same as c, with comments for the person
// who opens it. Parse returns an equal Config for it, provided that c obeys the
// rules that Parse enforces.
func (c *Config) Marshal() []byte {
	var b strings.Builder
	b.WriteString("# What is checked before a change may land. `writ gate` reads this file from the\n" +
		"# commit that a change is based on: what a change alters here counts after it has\n" +
		"# landed; suites that it adds count at once.\n" +
		"version: 1\n\n")
	if c.Target != "" {
		fmt.Fprintf(&b, "# The branch that changes land on.\ntarget: %s\n\n", yamlString(c.Target))
	} else {
		b.WriteString("# The branch that changes land on, if it is not main or master.\n# target: develop\n\n")
	}
	c.marshalPolicy(&b)
	c.marshalSuites(&b)
	return []byte(b.String())
}

func (c *Config) marshalPolicy(b *strings.Builder) {
	policy := c.Policy
	b.WriteString("# What a change needs. A flag that is not set keeps the repository's default.\n")
	set := policy != PolicyOverrides{}
	if set {
		b.WriteString("policy:\n")
	} else {
		b.WriteString("# policy:\n")
	}
	for _, f := range policyFlags {
		switch *f.field(&policy) {
		case On:
			fmt.Fprintf(b, "  %s: true # %s\n", f.name, f.help)
		case Off:
			fmt.Fprintf(b, "  %s: false # %s\n", f.name, f.help)
		default:
			fmt.Fprintf(b, "#   %s: true # %s\n", f.name, f.help)
		}
	}
	b.WriteByte('\n')
}

func (c *Config) marshalSuites(b *strings.Builder) {
	b.WriteString("# The checks. Each runs in a clean checkout of the change, one after another in\n" +
		"# the order of their ids. Without this member they are detected from what is there.\n")
	switch {
	case !c.HasSuites:
		b.WriteString("# suites:\n#   - id: unit\n#     run: make test\n#     kind: tests # tests, lint or other\n")
		return
	case len(c.Suites) == 0:
		b.WriteString("suites: []\n")
		return
	}
	b.WriteString("suites:\n")
	for i, s := range c.Suites {
		comment := func(text string) string {
			if i > 0 {
				return ""
			}
			return " # " + text
		}
		fmt.Fprintf(b, "  - id: %s\n", yamlString(s.ID))
		if len(s.Run.Args) > 0 {
			args := make([]string, len(s.Run.Args))
			for i, a := range s.Run.Args {
				args[i] = quoteYAML(a)
			}
			fmt.Fprintf(b, "    run: [%s]%s\n", strings.Join(args, ", "), comment("run without a shell"))
		} else {
			fmt.Fprintf(b, "    run: %s\n", yamlString(s.Run.Shell))
		}
		fmt.Fprintf(b, "    kind: %s%s\n", s.Kind, comment("tests, lint or other"))
		fmt.Fprintf(b, "    blocking: %v%s\n", s.Blocking, comment("false: reported, but not required"))
		fmt.Fprintf(b, "    timeout: %s\n", shortDuration(s.Timeout))
		if len(s.Env) > 0 {
			b.WriteString("    env:\n")
			for _, name := range slices.Sorted(maps.Keys(s.Env)) {
				fmt.Fprintf(b, "      %s: %s\n", yamlString(name), quoteYAML(s.Env[name]))
			}
		}
	}
}

// plain matches texts that YAML reads as themselves without quotes, whatever
// surrounds them.
var plain = regexp.MustCompile(`^[A-Za-z./][A-Za-z0-9 ./_=@+&-]*[A-Za-z0-9./_=@+-]$`)

// yamlString writes a text as a YAML scalar, without quotes where that is safe.
func yamlString(s string) string {
	if plain.MatchString(s) && !strings.EqualFold(s, "null") {
		return s
	}
	return quoteYAML(s)
}

// quoteYAML writes a text in double quotes, on one line.
func quoteYAML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80 && unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// shortDuration writes 15m0s as 15m and 1h0m0s as 1h.
func shortDuration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0 && d < time.Hour:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	return d.String()
}
