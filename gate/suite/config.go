package suite

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// FileName is where the configuration is, at the top of the repository.
const FileName = "writ.yaml"

// Limits and defaults of the file.
const (
	MaxFile        = 1 << 20        // bytes
	MaxSuites      = 256            // in one file
	MaxTimeout     = 24 * time.Hour // of one suite
	DefaultTimeout = 15 * time.Minute
)

// Kind says which requirement of the policy a suite is evidence for.
type Kind string

// The kinds of a suite.
const (
	KindTests Kind = "tests"
	KindLint  Kind = "lint"
	KindOther Kind = "other"
)

// Command is what a suite runs: a line for a shell, or a program with its
// arguments. Exactly one of the two is set.
type Command struct {
	Shell string
	Args  []string
}

// String returns the command as a person would type it.
func (c Command) String() string {
	if len(c.Args) == 0 {
		return c.Shell
	}
	quoted := make([]string, len(c.Args))
	for i, a := range c.Args {
		if a == "" || strings.ContainsFunc(a, shellSpecial) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		quoted[i] = a
	}
	return strings.Join(quoted, " ")
}

func shellSpecial(r rune) bool {
	return r <= ' ' || strings.ContainsRune("\"'`$\\&|;<>()*?[]{}~#!^", r)
}

// Equal reports whether both run the same in the same way.
func (c Command) Equal(d Command) bool {
	return c.Shell == d.Shell && slices.Equal(c.Args, d.Args)
}

// Suite is one check as it is defined.
type Suite struct {
	ID       string // 1..64 bytes of a-z 0-9 . _ -, begins with a letter or digit
	Run      Command
	Kind     Kind
	Blocking bool              // whether it must pass
	Timeout  time.Duration     // positive, at most MaxTimeout
	Env      map[string]string // added to the environment; nil if there is none
}

// Equal reports whether both define the same check.
func (s Suite) Equal(t Suite) bool {
	return s.ID == t.ID && s.Run.Equal(t.Run) && s.Kind == t.Kind && s.Blocking == t.Blocking &&
		s.Timeout == t.Timeout && maps.Equal(s.Env, t.Env)
}

// Config is the content of a writ.yaml.
type Config struct {
	Version   int    // 1
	Target    string // the branch that changes land on; "" if the file doesn't say
	Policy    PolicyOverrides
	Suites    []Suite // in the order of the file
	HasSuites bool    // whether the file has the member suites; without it they are detected
}

// Override is a policy flag in a file: on, off, or left as it is.
type Override int8

// The values of an Override. The zero value leaves the flag as it is.
const (
	Unset Override = iota
	On
	Off
)

// PolicyOverrides are the policy flags that a file sets.
type PolicyOverrides struct {
	RequireAttestation       Override
	RequireTests             Override
	RequireLint              Override
	RequireSecurityScan      Override
	RequireLicenseScan       Override
	RequireAIProvenance      Override
	RequireCodeReviewSummary Override
	DocsOnlyRelaxedChecks    Override
}

// policyFlag describes one flag: its bit in the policy byte of a repository
// (Binary DB v0, section 8), its name in the file and what it means.
type policyFlag struct {
	bit   uint
	name  string
	help  string
	field func(*PolicyOverrides) *Override
}

var policyFlags = []policyFlag{
	{0, "require_attestation", "the author vouches for the change", func(p *PolicyOverrides) *Override { return &p.RequireAttestation }},
	{1, "require_tests", "the blocking suites of kind tests pass", func(p *PolicyOverrides) *Override { return &p.RequireTests }},
	{2, "require_lint", "the blocking suites of kind lint pass", func(p *PolicyOverrides) *Override { return &p.RequireLint }},
	{3, "require_security_scan", "a security scan", func(p *PolicyOverrides) *Override { return &p.RequireSecurityScan }},
	{4, "require_license_scan", "a licence scan", func(p *PolicyOverrides) *Override { return &p.RequireLicenseScan }},
	{5, "require_ai_provenance", "which model wrote it, unless a person did", func(p *PolicyOverrides) *Override { return &p.RequireAIProvenance }},
	{6, "require_code_review_summary", "a review that sums the change up", func(p *PolicyOverrides) *Override { return &p.RequireCodeReviewSummary }},
	{7, "docs_only_relaxed_checks", "a change of nothing but *.md needs no tests, lint and scans", func(p *PolicyOverrides) *Override { return &p.DocsOnlyRelaxedChecks }},
}

// Apply returns flags with what the file sets changed. Bit 0 is
// require_attestation, then tests, lint, security scan, license scan, AI
// provenance, code review summary; bit 7 is docs_only_relaxed_checks.
func (p PolicyOverrides) Apply(flags uint8) uint8 {
	for _, f := range policyFlags {
		switch *f.field(&p) {
		case On:
			flags |= 1 << f.bit
		case Off:
			flags &^= 1 << f.bit
		}
	}
	return flags
}
