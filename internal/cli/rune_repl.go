package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

const replHelp = `An expression is evaluated: its value is shown with the steps that it took, and
that of a pair with its nodes and levels, of which a state has 65536 and 128 at most.
  let NAME = EXPRESSION   gives the value a name; rebind changes it only within one entry
  :mem EXPRESSION         sets the state, ~mem; without an expression, shows it
  :lower EXPRESSION       shows the formula, and evaluates nothing
  :names                  shows all names with their values
  :help, :quit
An entry that is not finished goes on in the next line; an empty line ends it.
Ctrl-C gives up what is being typed, Ctrl-D ends the session.
What an entry asks its host for is shown, and you are asked for the reply.
`

func (a *app) runeREPL() *cobra.Command {
	var state string
	var steps uint64
	c := &cobra.Command{
		Use:   "repl",
		Short: "Evaluate expressions as they are typed",
		Long: "Repl reads expressions of Rune and shows their values, with the steps that they took. On a terminal\n" +
			"lines can be edited and earlier ones come back with the arrow keys. Nothing is kept when it ends.\n\n" + replHelp,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.json {
				return &usageError{errors.New("--json: repl is for people; use `writ rune run --json`")}
			}
			if steps == 0 || steps > machine.MaxSteps {
				return &usageError{fmt.Errorf("--steps: an entry may make 1 to %d steps", machine.MaxSteps)}
			}
			mem, err := nounFlag("state", state)
			if err != nil {
				return err
			}
			console, restore, err := a.console(c.Context())
			if err != nil {
				return err
			}
			r := &repl{console: console, mem: mem, steps: steps}
			return errors.Join(r.loop(), restore())
		},
	}
	c.Flags().StringVar(&state, "state", "0", "the state, ~mem, as an expression")
	c.Flags().Uint64Var(&steps, "steps", 100_000, "how many steps one entry may make")
	return c
}

// console reads lines and shows text.
type console interface {
	io.Writer
	SetPrompt(prompt string)
	// ReadLine gives one line, or io.EOF, or errGivenUp for Ctrl-C.
	ReadLine() (string, error)
}

// errGivenUp is what a person means who types Ctrl-C: forget this line.
var errGivenUp = errors.New("given up")

// console gives the terminal, with line editing, or else standard input and output as
// they are. The terminal must be restored.
func (a *app) console(ctx context.Context) (console, func() error, error) {
	in := &interruptible{ctx: ctx, in: a.in}
	f, ok := a.in.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) || !a.style.terminal {
		return &plainConsole{bufio.NewReader(in), a.out}, func() error { return nil }, nil
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, nil, err
	}
	t := newEditor(in, a.out)
	if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		_ = t.SetSize(width, height) // without it, long lines are only drawn badly
	}
	return t, func() error { return term.Restore(int(f.Fd()), before) }, nil
}

// editor is a console whose lines can be edited.
type editor struct{ *term.Terminal }

func newEditor(in io.Reader, out io.Writer) editor {
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&keys{in: in}, out}, "")
	t.History = history{t.History}
	return editor{t}
}

// givenUpLine is what keys makes of a line in which Ctrl-C was typed. No entry can
// have this text.
const givenUpLine = "^C"

func (t editor) ReadLine() (string, error) {
	line, err := t.Terminal.ReadLine()
	if err != nil {
		fmt.Fprintln(t) // what follows does not belong to this line
	}
	if line == givenUpLine {
		err = errGivenUp
	}
	return line, err
}

// keys makes other keys of Ctrl-C, at which a [term.Terminal] would end: to the end of
// the line, erase it, and enter [givenUpLine].
type keys struct {
	in      io.Reader
	pending []byte
	err     error // that came with the last of them
}

func (k *keys) Read(b []byte) (int, error) {
	if len(k.pending) == 0 && k.err == nil {
		typed := make([]byte, 256)
		n, err := k.in.Read(typed)
		k.pending = bytes.ReplaceAll(typed[:n], []byte("\x03"), []byte("\x05\x15"+givenUpLine+"\r"))
		k.err = err
	}
	n := copy(b, k.pending)
	k.pending = k.pending[n:]
	if len(k.pending) > 0 {
		return n, nil
	}
	return n, k.err
}

// history keeps the lines that somebody may want to have again.
type history struct{ term.History }

func (h history) Add(line string) {
	if strings.TrimSpace(line) == "" || line == givenUpLine || h.Len() > 0 && h.At(0) == line {
		return
	}
	h.History.Add(line)
}

// plainConsole is for input that is no terminal: nothing is prompted for.
type plainConsole struct {
	in  *bufio.Reader
	out io.Writer
}

func (p *plainConsole) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p *plainConsole) SetPrompt(string)            {}

// ReadLine keeps of a line one byte more than a source may have, so that a longer one
// is refused as a source.
func (p *plainConsole) ReadLine() (string, error) {
	var line []byte
	for {
		part, more, err := p.in.ReadLine()
		if err != nil {
			return "", err
		}
		line = append(line, part[:min(len(part), rune.MaxSource+1-len(line))]...)
		if !more {
			return string(line), nil
		}
	}
}

// repl is a session.
type repl struct {
	console console
	mem     nox.Noun
	steps   uint64
	names   []string // of variables, in the order in which they were made
	values  []nox.Noun
}

func (r *repl) say(format string, args ...any) {
	fmt.Fprintf(r.console, "%s\n", strings.TrimRight(printable(fmt.Sprintf(format, args...)), "\n"))
}

// loop reads entries until the input ends.
func (r *repl) loop() error {
	for {
		entry, err := r.read()
		if errors.Is(err, errGivenUp) {
			if entry == "" {
				r.say("Ctrl-D or :quit ends the session")
			}
			continue
		}
		if err != nil {
			return ended(err)
		}
		command, rest, _ := strings.Cut(strings.TrimSpace(entry), " ")
		switch command {
		case "":
		case ":quit", ":q":
			return nil
		case ":help", ":h", "?":
			r.say("%s", replHelp)
		case ":names":
			for i, name := range r.names {
				r.say("%s = %s", name, r.values[i])
			}
		case ":mem":
			if rest == "" {
				r.say("%s", r.mem)
				continue
			}
			v, ok, err := r.evaluate(rest)
			if err != nil {
				return ended(err)
			}
			if ok {
				r.mem = v
			}
		case ":lower":
			if v, err := r.compileValue(rest); err != nil {
				r.complain(err)
			} else {
				r.say("%s", v.Formula())
			}
		default:
			if strings.HasPrefix(command, ":") {
				r.say("there is no command %s; :help shows all", command)
				continue
			}
			if err := r.enter(entry); err != nil {
				return ended(err)
			}
		}
	}
}

// ended makes nothing of the end of the input.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// read takes one entry. Lines are added as long as the text is wrong only at its end.
// Of one that was given up, the lines before that are given beside the error.
func (r *repl) read() (string, error) {
	r.console.SetPrompt("> ")
	entry, err := r.console.ReadLine()
	if errors.Is(err, errGivenUp) {
		return "", err
	}
	for err == nil && !strings.HasPrefix(strings.TrimSpace(entry), ":") && r.unfinished(entry) {
		r.console.SetPrompt(". ")
		var more string
		more, err = r.console.ReadLine()
		if errors.Is(err, io.EOF) || err == nil && strings.TrimSpace(more) == "" {
			return entry, nil
		}
		if err == nil {
			entry += "\n" + more
		}
	}
	return entry, err
}

// unfinished reports whether more text could make sense of an entry.
func (r *repl) unfinished(entry string) bool {
	if strings.TrimSpace(entry) == "" {
		return false
	}
	_, _, err := r.compile(entry)
	var refused *rune.Error
	return errors.As(err, &refused) && refused.Span.Start.Offset == len(entry) && len(entry) < rune.MaxSource
}

// binding is a let without an expression behind it.
var binding = regexp.MustCompile(`^\s*let\s+([A-Za-z_][A-Za-z0-9_]*)\s*=`)

// scoped is an expression with the values of its variables, outermost first.
type scoped struct {
	*rune.Value
	values []nox.Noun
}

var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// compileValue compiles an expression with those variables only that it may use: each
// one on the subject pushes the others and ~mem further away, and makes it deeper.
func (r *repl) compileValue(text string) (*scoped, error) {
	var names []string
	var values []nox.Noun
	words := word.FindAllString(text, -1)
	for i, name := range r.names {
		if slices.Contains(words, name) {
			names, values = append(names, name), append(values, r.values[i])
		}
	}
	v, err := rune.CompileValue([]byte(text), names...)
	if err == nil {
		return &scoped{v, values}, nil
	}
	if _, better := rune.CompileValue([]byte(text), r.names...); better != nil {
		err = better // which knows all names that may be meant
	}
	return nil, err
}

// compile compiles an expression, or the value of a let that gives it a name.
func (r *repl) compile(entry string) (v *scoped, name string, err error) {
	v, err = r.compileValue(entry)
	if m := binding.FindStringSubmatch(entry); err != nil && m != nil {
		// Blanks keep the columns of errors.
		value := strings.Repeat(" ", len(m[0])) + strings.TrimSuffix(strings.TrimRight(entry[len(m[0]):], " \t\n"), ";")
		if named, nameErr := r.compileValue(value); nameErr == nil {
			return named, m[1], nil
		} else if !strings.Contains(value, ";") {
			err = nameErr
		}
	}
	return v, "", err
}

// enter evaluates an entry and shows or names its value.
func (r *repl) enter(entry string) error {
	v, name, err := r.compile(entry)
	if err != nil {
		r.complain(err)
		return nil
	}
	value, used, err := r.run(v)
	if err != nil {
		return r.faulted(err)
	}
	shown := fmt.Sprintf("%s    (%s)", value, cost(value, used))
	if name == "" {
		r.say("%s", shown)
		return nil
	}
	r.say("%s = %s", name, shown)
	for i, one := range r.names {
		if one == name {
			r.values[i] = value
			return nil
		}
	}
	r.names, r.values = append(r.names, name), append(r.values, value)
	return nil
}

// cost says what a value has taken to make, and what a pair takes to keep.
func cost(value nox.Noun, steps uint64) string {
	made := plural(int(steps), "step", "steps")
	if value.IsAtom() {
		return made
	}
	return fmt.Sprintf("%s; %d nodes, %s", made, value.Size(), plural(int(value.Depth()), "level", "levels"))
}

// evaluate gives the value of an expression, or shows what is wrong with it.
func (r *repl) evaluate(text string) (nox.Noun, bool, error) {
	v, err := r.compileValue(text)
	if err != nil {
		r.complain(err)
		return nox.Noun{}, false, nil
	}
	value, _, err := r.run(v)
	if err != nil {
		return nox.Noun{}, false, r.faulted(err)
	}
	return value, true, nil
}

// complain shows an error of the source.
func (r *repl) complain(err error) {
	var refused *rune.Error
	if errors.As(err, &refused) {
		r.say("%v\n%s", refused, refused.Excerpt())
		return
	}
	r.say("%v", err)
}

// faulted shows a fault, or that the reply to an act was given up; other errors end
// the session.
func (r *repl) faulted(err error) error {
	if errors.Is(err, errGivenUp) {
		r.say("given up; nothing is changed")
		return nil
	}
	var f *machine.Fault
	if !errors.As(err, &f) {
		return err
	}
	r.say("fault: %v\n%s", f, f.Excerpt())
	return nil
}

// run evaluates, and asks for the replies to what is asked for. The error is a fault
// or one of reading.
func (r *repl) run(v *scoped) (nox.Noun, uint64, error) {
	subject := machine.Input{State: r.mem}.Base()
	for _, value := range v.values {
		subject = nox.Pair(value, subject)
	}
	m, err := machine.Start(subject, v.Formula(), r.steps)
	if err != nil {
		return nox.Noun{}, 0, err
	}
	m.Trace(v.Map)
	for {
		result, err := m.Run(r.steps + 1)
		if err != nil || result.Status == machine.Done {
			return result.Value, m.Used(), err
		}
		r.say("%s asks for %s, after %s", rune.ActName(result.Tag), result.Arguments, plural(int(m.Used()), "step", "steps"))
		reply, err := r.reply()
		if err != nil {
			return nox.Noun{}, 0, err
		}
		if err := m.Resume(reply); err != nil {
			return nox.Noun{}, 0, err
		}
	}
}

// reply reads the reply to an act.
func (r *repl) reply() (nox.Noun, error) {
	for {
		r.console.SetPrompt("reply> ")
		text, err := r.console.ReadLine()
		if err != nil {
			return nox.Noun{}, err
		}
		n, err := machine.Eval([]byte(text))
		if err == nil {
			return n, nil
		}
		r.complain(err)
	}
}
