package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/writ-authority/writ/gate/suite"
)

// progress shows the suite that runs: one live line on a terminal, one line a
// result elsewhere. With --json it is silent except on a terminal.
type progress struct {
	a    *app
	mu   sync.Mutex
	live bool // a line without an end is on the screen
	last time.Time
	wait bool
}

func (a *app) progress() *progress { return &progress{a: a} }

// redraw is how often the live line changes.
const redraw = 100 * time.Millisecond

func (p *progress) event(e suite.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.a.errStyle
	if !s.terminal {
		switch {
		case p.a.json:
		case e.State == suite.StateFinished && e.Result != nil:
			fmt.Fprintf(p.a.err, "suite %s: %s in %s\n", e.Suite, e.Result.Status, e.Elapsed.Round(time.Millisecond))
		}
		return
	}
	if e.State == suite.StateOutput && time.Since(p.last) < redraw {
		return
	}
	p.last = time.Now()
	text := fmt.Sprintf("suite %d/%d %s  %s", e.Number, e.Count, e.Suite, e.Elapsed.Round(time.Second))
	switch {
	case e.State == suite.StateFinished && e.Result != nil:
		text = fmt.Sprintf("suite %d/%d %s  %s", e.Number, e.Count, e.Suite, e.Result.Status)
	case e.LastLine != "":
		text += "  " + line(e.LastLine)
	}
	if r := []rune(text); len(r) > 110 {
		text = string(r[:109]) + "…"
	}
	fmt.Fprintf(p.a.err, "\r\x1b[2K%s", s.faint(strings.TrimRight(text, " ")))
	p.live = true
}

// waiting says once that somebody else runs the checks.
func (p *progress) waiting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wait && !p.a.json {
		p.wait = true
		fmt.Fprintln(p.a.err, "another command runs these checks; waiting for it")
	}
}

// bytes shows how far a long piece of work has come that is measured in bytes.
func (p *progress) bytes(what string) func(done, total int64) { return p.measured(what, size) }

// records does the same for work that is measured in records.
func (p *progress) records(what string) func(done, total int64) {
	return p.measured(what, func(n int64) string { return fmt.Sprintf("%d records", n) })
}

// measured returns what shows how far a long piece of work has come, on a terminal
// only.
func (p *progress) measured(what string, amount func(int64) string) func(done, total int64) {
	if !p.a.errStyle.terminal {
		return nil
	}
	return func(done, total int64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if time.Since(p.last) < redraw {
			return
		}
		p.last = time.Now()
		text := fmt.Sprintf("%s  %s of %s  %d %%", what, amount(done), amount(total), 100*done/max(total, 1))
		fmt.Fprintf(p.a.err, "\r\x1b[2K%s", p.a.errStyle.faint(text))
		p.live = true
	}
}

// step shows what is under way, on a terminal only.
func (p *progress) step(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.a.errStyle.terminal {
		fmt.Fprintf(p.a.err, "\r\x1b[2K%s", p.a.errStyle.faint(line(what)))
		p.live = true
	}
}

// clear takes the live line off the screen.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		fmt.Fprint(p.a.err, "\r\x1b[2K")
		p.live = false
	}
}
