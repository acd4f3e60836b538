package suite

import (
	"fmt"
	"slices"
	"strings"
)

// Sources of flags and suites in a Plan.
const (
	SourceBase       = "base"       // writ.yaml of the base
	SourceHead       = "head"       // writ.yaml of the head, because the base has none
	SourceDetected   = "detected"   // found from the files that are there
	SourceRepository = "repository" // the default of the repository
)

// Planned is a suite that counts for a change.
type Planned struct {
	Suite
	Added    bool // the head adds it
	Detected bool // no file defines it
}

// Note is something about the plan that the author of a change should know.
type Note struct {
	Suite string // "" when it is not about one suite
	Text  string
}

// String is the note as a sentence.
func (n Note) String() string {
	if n.Suite == "" {
		return n.Text
	}
	return "suite " + n.Suite + ": " + n.Text
}

// Plan is what a change is judged by.
type Plan struct {
	Suites       []Planned // in byte order of the ids
	Flags        uint8
	FlagsSource  string
	SuitesSource string
	Target       string // the branch to land on, "" when no file says so
	Notes        []Note
}

const afterLanding = "it takes effect after landing"

// Resolve finds the suites and policy flags that count for a change from base to
// head. What the base has counts as the base has it; the head may add suites. A
// base without writ.yaml lets the head's file count as it is. A nil base is the
// empty tree. A malformed file on either side is an ErrConfig that names the side.
func Resolve(base, head Tree, flags uint8) (*Plan, error) {
	baseFile, err := read(base, "base")
	if err != nil {
		return nil, err
	}
	headFile, err := read(head, "head")
	if err != nil {
		return nil, err
	}
	p := &Plan{Flags: flags, FlagsSource: SourceRepository}
	switch {
	case baseFile != nil:
		p.Flags, p.FlagsSource, p.Target = baseFile.Policy.Apply(flags), SourceBase, baseFile.Target
		p.compareFlags(headFile, flags)
	case headFile != nil:
		p.Flags, p.FlagsSource, p.Target = headFile.Policy.Apply(flags), SourceHead, headFile.Target
		p.note("", "the base has no %s, so the head's own file counts", FileName)
	}
	baseSuites, baseSource, err := suitesOf(base, baseFile, SourceBase)
	if err != nil {
		return nil, err
	}
	headSuites, headSource, err := suitesOf(head, headFile, SourceHead)
	if err != nil {
		return nil, err
	}
	if baseFile == nil && headFile != nil && headFile.HasSuites || base == nil {
		p.SuitesSource = headSource
		for _, s := range headSuites {
			p.Suites = append(p.Suites, Planned{Suite: s, Detected: headSource == SourceDetected})
		}
	} else {
		p.SuitesSource = baseSource
		p.merge(baseSuites, headSuites, baseSource == SourceDetected, headSource == SourceDetected)
	}
	slices.SortFunc(p.Suites, func(a, b Planned) int { return strings.Compare(a.ID, b.ID) })
	return p, nil
}

func read(t Tree, side string) (*Config, error) {
	if t == nil {
		return nil, nil
	}
	data, ok, err := t.Read(FileName)
	if err != nil || !ok {
		return nil, err
	}
	return Parse(FileName+" of the "+side, data)
}

func suitesOf(t Tree, c *Config, source string) ([]Suite, string, error) {
	if c != nil && c.HasSuites {
		return c.Suites, source, nil
	}
	if t == nil {
		return nil, SourceDetected, nil
	}
	list, err := Detect(t)
	return list, SourceDetected, err
}

// merge keeps every suite of the base as it is and adds those that only the head
// has.
func (p *Plan) merge(base, head []Suite, baseDetected, headDetected bool) {
	for _, b := range base {
		p.Suites = append(p.Suites, Planned{Suite: b, Detected: baseDetected})
		i := slices.IndexFunc(head, func(h Suite) bool { return h.ID == b.ID })
		switch {
		case i < 0:
			p.note(b.ID, "the head removes it; %s", afterLanding)
		case !head[i].Equal(b):
			p.note(b.ID, "the head changes %s; %s", differences(b, head[i]), afterLanding)
		}
	}
	for _, h := range head {
		if !slices.ContainsFunc(base, func(b Suite) bool { return b.ID == h.ID }) {
			p.Suites = append(p.Suites, Planned{Suite: h, Added: true, Detected: headDetected})
		}
	}
}

func differences(a, b Suite) string {
	var names []string
	for _, d := range []struct {
		name string
		is   bool
	}{
		{"run", !a.Run.Equal(b.Run)}, {"kind", a.Kind != b.Kind}, {"blocking", a.Blocking != b.Blocking}, {"timeout", a.Timeout != b.Timeout},
	} {
		if d.is {
			names = append(names, d.name)
		}
	}
	if len(names) == 0 {
		return "env"
	}
	return strings.Join(names, ", ")
}

// compareFlags tells of flags that the head's file sets otherwise.
func (p *Plan) compareFlags(head *Config, flags uint8) {
	after := flags
	if head != nil {
		after = head.Policy.Apply(flags)
	}
	for _, f := range policyFlags {
		was, is := p.Flags>>f.bit&1, after>>f.bit&1
		if was != is {
			p.note("", "the head sets %s to %v; %s", f.name, is == 1, afterLanding)
		}
	}
}

func (p *Plan) note(suite, format string, args ...any) {
	p.Notes = append(p.Notes, Note{suite, fmt.Sprintf(format, args...)})
}
