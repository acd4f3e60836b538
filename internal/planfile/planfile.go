// Package planfile reads Plans from Markdown.
//
// The first heading of level one is the title. Each list item with a check box is an
// item of the Plan, done if the box is ticked; so is one without a box that names
// itself. Lines that are indented below an item and begin no other one belong to its
// text. An item is known across revisions by the name in braces at its end, or else by
// its text:
//
//	# Faster uploads
//
//	Uploads fail on slow links.
//
//	## Client
//
//	- [ ] Retry a failed part {#retry}
//	- [x] Show the progress
//
// The text between the title and the first heading or item is the summary. Headings
// below the title are kept with the items under them. Fenced code and HTML comments
// are passed over.
package planfile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
)

// MaxFile is the greatest length in bytes of a file that Parse takes.
const MaxFile = 4 << 20

// ErrFormat is matched by every error of Parse. The message names the line.
var ErrFormat = errors.New("not a plan")

// Plan is what a file says.
type Plan struct {
	Title    string
	Revision authority.RevisionSpec
}

var (
	heading = regexp.MustCompile(`^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$`)
	bullet  = regexp.MustCompile(`^([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+(.*)$`)
	box     = regexp.MustCompile(`^\[([ xX])\][ \t]+(.*)$`)
	name    = regexp.MustCompile(`^(.*?)[ \t]*\{#([^{}\s]+)\}$`)
	fence   = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})")
)

// parser is how far a file has been read.
type parser struct {
	plan     Plan
	headings []string // those that are open, by level from two on; "" for a level left out
	summary  []string
	begun    bool   // a heading below the title or an item was met
	fence    string // of the code block that is open
	comment  bool
	item     *draft
	lines    map[string]uint32 // of references
}

// draft is an item whose text may go on.
type draft struct {
	spec   authority.ItemSpec
	indent int
	box    bool
}

// Parse reads a Plan. path is where it was read from.
func Parse(path string, text []byte) (*Plan, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", ErrFormat, len(text), MaxFile)
	}
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%w: it is not UTF-8", ErrFormat)
	}
	sum := sha256.Sum256(text)
	p := &parser{lines: map[string]uint32{}}
	p.plan.Revision.ArtifactPath, p.plan.Revision.ArtifactBlob = path, fmt.Sprintf("BLB-%x", sum[:10])
	plain := strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n")
	for i, line := range strings.Split(plain, "\n") {
		if err := p.line(uint32(i)+1, line); err != nil {
			return nil, err
		}
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if p.plan.Title == "" {
		return nil, fmt.Errorf("%w: it has no title; begin it with a line such as `# Faster uploads`", ErrFormat)
	}
	p.plan.Revision.ArtifactHeading = p.plan.Title
	p.plan.Revision.Summary = strings.TrimSpace(strings.Join(p.summary, "\n"))
	return &p.plan, nil
}

func (p *parser) line(number uint32, line string) error {
	if p.skip(line) {
		return p.end()
	}
	if m := heading.FindStringSubmatch(line); m != nil {
		if err := p.end(); err != nil {
			return err
		}
		return p.head(number, len(m[1]), m[2])
	}
	if m := bullet.FindStringSubmatch(line); m != nil {
		if err := p.end(); err != nil {
			return err
		}
		p.begin(number, width(m[1]), m[2])
		if p.item != nil {
			return nil
		}
	} else if it := p.item; it != nil {
		text := strings.TrimLeft(line, " \t")
		if text != "" && width(line[:len(line)-len(text)]) > it.indent {
			it.spec.Text += " " + strings.TrimSpace(text)
			return nil
		}
		if err := p.end(); err != nil {
			return err
		}
	}
	if !p.begun && p.plan.Title != "" {
		p.summary = append(p.summary, line)
	}
	return nil
}

// skip reports whether a line belongs to code or a comment.
func (p *parser) skip(line string) bool {
	switch {
	case p.fence != "":
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), p.fence); ok && strings.Trim(rest, p.fence[:1]) == "" {
			p.fence = ""
		}
		return true
	case p.comment:
		p.comment = !strings.Contains(line, "-->")
		return true
	}
	if m := fence.FindStringSubmatch(line); m != nil {
		p.fence = m[1]
		return true
	}
	if text := strings.TrimSpace(line); strings.HasPrefix(text, "<!--") {
		p.comment = !strings.Contains(text, "-->")
		return true
	}
	return false
}

func (p *parser) head(number uint32, level int, text string) error {
	if strings.Trim(text, "#") == "" {
		text = "" // the closing marks of an empty heading
	}
	if p.plan.Title == "" && level == 1 {
		if text == "" {
			return fmt.Errorf("%w: line %d: the title is empty", ErrFormat, number)
		}
		p.plan.Title = text
		return nil
	}
	p.begun = true
	// A further heading of level one ends all others, as one of level two does.
	depth := max(level, 2) - 2
	for len(p.headings) < depth {
		p.headings = append(p.headings, "")
	}
	p.headings = append(p.headings[:depth], text)
	return nil
}

// begin opens an item, if the list item is one.
func (p *parser) begin(number uint32, indent int, text string) {
	it := &draft{spec: authority.ItemSpec{Line: number}, indent: indent}
	if m := box.FindStringSubmatch(text); m != nil {
		it.box, text = true, m[2]
		it.spec.State = record.PlanItemStateOpen
		if m[1] != " " {
			it.spec.State = record.PlanItemStateDone
		}
	}
	it.spec.Text = strings.TrimSpace(text)
	if !it.box && !name.MatchString(it.spec.Text) {
		return
	}
	for _, h := range p.headings {
		if h != "" {
			it.spec.Headings = append(it.spec.Headings, h)
		}
	}
	p.item, p.begun = it, true
}

// end adds the item that is open, if there is one.
func (p *parser) end() error {
	it := p.item
	if it == nil {
		return nil
	}
	p.item = nil
	it.spec.Ref = it.spec.Text
	if m := name.FindStringSubmatch(it.spec.Text); m != nil {
		it.spec.Text, it.spec.Ref = m[1], m[2]
	}
	if it.spec.Text == "" {
		return fmt.Errorf("%w: line %d: the item has no text", ErrFormat, it.spec.Line)
	}
	if other, there := p.lines[it.spec.Ref]; there {
		return fmt.Errorf("%w: line %d: the item of line %d is called %.60q too; give one of them a name of its own, as in `%s {#name}`",
			ErrFormat, it.spec.Line, other, it.spec.Ref, it.spec.Text)
	}
	p.lines[it.spec.Ref] = it.spec.Line
	it.spec.Taskable = it.spec.State == record.PlanItemStateOpen
	p.plan.Revision.Items = append(p.plan.Revision.Items, it.spec)
	return nil
}

// width is how far white space indents; a tab counts as four.
func width(space string) int {
	return len(space) + 3*strings.Count(space, "\t")
}
