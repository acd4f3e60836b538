package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sources of flags and suites in a Plan.
const (
	SourceBase       = "base"       // writ.yaml of the base tree
	SourceHead       = "head"       // writ.yaml of the head tree, because the base has none
	SourceDetected   = "detected"   // found from the files that are there
	SourceRepository = "repository" // the default of the repository
)

// Planned is a suite that counts for a change.
type Planned struct {
	Suite
	Added    bool // the head adds it to those of the base
	Detected bool // no file defines it
}

// Note is something about a plan that the author of a change should know, above
// all what the head changes in vain.
type Note struct {
	Suite string // "" when it is not about one suite
	Text  string // what was tried and what comes of it
}

// String is the note as a sentence.
func (n Note) String() string {
	if n.Suite == "" {
		return n.Text
	}
	return "suite " + n.Suite + ": " + n.Text
}

const afterLanding = "this takes effect after landing"

// Plan is what a change is judged by.
type Plan struct {
	Suites       []Planned // in byte order of the ids, which are unique
	Flags        uint8     // see PolicyOverrides.Apply
	FlagsSource  string
	SuitesSource string
	Target       string // the branch that changes land on; "" if no file says
	Notes        []Note
}

// Resolve decides which suites and flags count for a change from base to head.
// flags are the repository's defaults. A nil base is the tree with nothing in it.
//
// If the base has a writ.yaml, it counts: its suites (detected in the base if it
// doesn't list any), its flags, its target. The head may only add suites.
// Otherwise the head's file is used as it is. Where no file lists suites, those
// that are detected in the base count, and those detected in the head are added.
//
// The error is one of a tree, or wraps ErrConfig and names the side.
func Resolve(base, head Tree, flags uint8) (*Plan, error) {
	b, err := newSide("base", base)
	if err != nil {
		return nil, err
	}
	h, err := newSide("head", head)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	switch {
	case b.config == nil && h.config != nil:
		p.note("", "the base has no %s, so the one of the head counts", FileName)
	case b.config != nil && h.config == nil:
		p.note("", "the head removes %s; %s", FileName, afterLanding)
	}
	p.resolveFlags(b.config, h.config, flags)
	p.resolveTarget(b.config, h.config)
	p.resolveSuites(b, h, base != nil)
	return p, nil
}

// side is one of the two trees: its file, nil if there is none, and the suites
// that would count if the other tree did not exist.
type side struct {
	config   *Config
	suites   []Suite
	detected bool
}

func newSide(name string, tree Tree) (side, error) {
	if tree == nil {
		return side{detected: true}, nil
	}
	data, ok, err := tree.Read(FileName)
	if err != nil {
		return side{}, fmt.Errorf("read %s of the %s tree: %w", FileName, name, err)
	}
	var s side
	if ok {
		if s.config, err = Parse(FileName, data); err != nil {
			return side{}, fmt.Errorf("%s of the %s tree can't be used:\n%w", FileName, name, err)
		}
		if s.config.HasSuites {
			s.suites = s.config.Suites
			return s, nil
		}
	}
	if !ok {
		// What is no regular file must not pass for a file that was never there.
		names, err := tree.List()
		if err != nil {
			return side{}, fmt.Errorf("list the %s tree: %w", name, err)
		}
		if slices.Contains(names, FileName) {
			return side{}, fmt.Errorf("%s of the %s tree can't be used:\n%w", FileName, name,
				&ConfigError{File: FileName, Message: "it is a folder, a symbolic link or a submodule, not a regular file"})
		}
	}
	s.detected = true
	if s.suites, err = Detect(tree); err != nil {
		return side{}, fmt.Errorf("detect the suites of the %s tree: %w", name, err)
	}
	return s, nil
}

func (p *Plan) note(suite, format string, args ...any) {
	p.Notes = append(p.Notes, Note{suite, fmt.Sprintf(format, args...)})
}

func (p *Plan) resolveFlags(base, head *Config, defaults uint8) {
	after := defaults
	if head != nil {
		after = head.Policy.Apply(defaults)
	}
	if base == nil {
		p.Flags, p.FlagsSource = after, SourceRepository
		if head != nil {
			p.FlagsSource = SourceHead
		}
		return
	}
	p.Flags, p.FlagsSource = base.Policy.Apply(defaults), SourceBase
	for _, f := range policyFlags {
		was, becomes := p.Flags>>f.bit&1 == 1, after>>f.bit&1 == 1
		if was != becomes {
			p.note("", "the head changes %s from %v to %v; %s", f.name, was, becomes, afterLanding)
		}
	}
}

func (p *Plan) resolveTarget(base, head *Config) {
	switch {
	case base == nil && head == nil:
	case base == nil:
		p.Target = head.Target
	default:
		p.Target = base.Target
		if head != nil && head.Target != base.Target {
			p.note("", "the head changes target from %q to %q; %s", base.Target, head.Target, afterLanding)
		}
	}
}

func (p *Plan) resolveSuites(base, head side, hasBase bool) {
	switch {
	case base.config == nil && head.config != nil && head.config.HasSuites:
		p.SuitesSource = SourceHead
		for _, s := range head.suites {
			p.Suites = append(p.Suites, Planned{Suite: s})
		}
	case !hasBase:
		p.SuitesSource = SourceDetected
		for _, s := range head.suites {
			p.Suites = append(p.Suites, Planned{Suite: s, Detected: true})
		}
	default:
		p.SuitesSource = SourceBase
		if base.detected {
			p.SuitesSource = SourceDetected
		}
		p.merge(base, head)
	}
	slices.SortFunc(p.Suites, func(a, b Planned) int { return strings.Compare(a.ID, b.ID) })
}

// merge takes the suites of the base as they are and adds those that only the
// head has.
func (p *Plan) merge(base, head side) {
	inHead := make(map[string]Suite, len(head.suites))
	for _, s := range head.suites {
		inHead[s.ID] = s
	}
	for _, s := range base.suites {
		p.Suites = append(p.Suites, Planned{Suite: s, Detected: base.detected})
		h, ok := inHead[s.ID]
		delete(inHead, s.ID)
		switch {
		case !ok:
			p.note(s.ID, "the head removes it; %s", afterLanding)
		case !h.Equal(s):
			p.note(s.ID, "the head changes %s; %s", differences(s, h), afterLanding)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(inHead)) {
		p.Suites = append(p.Suites, Planned{Suite: inHead[id], Added: true, Detected: head.detected})
	}
}

// differences says how the definition of a suite changes.
func differences(was, becomes Suite) string {
	var d []string
	add := func(what string, a, b any) {
		d = append(d, fmt.Sprintf("%s from %v to %v", what, a, b))
	}
	if !was.Run.Equal(becomes.Run) {
		add("run", describeCommand(was.Run), describeCommand(becomes.Run))
	}
	if was.Kind != becomes.Kind {
		add("kind", was.Kind, becomes.Kind)
	}
	if was.Blocking != becomes.Blocking {
		add("blocking", was.Blocking, becomes.Blocking)
	}
	if was.Timeout != becomes.Timeout {
		add("timeout", shortDuration(was.Timeout), shortDuration(becomes.Timeout))
	}
	if !maps.Equal(was.Env, becomes.Env) {
		d = append(d, "env")
	}
	return strings.Join(d, ", ")
}

func describeCommand(c Command) string {
	if len(c.Args) > 0 {
		return quoteUpTo(c.String(), 200) + " (without a shell)"
	}
	return quoteUpTo(c.String(), 200)
}
