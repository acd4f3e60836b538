package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/hemera"
)

func (a *app) hash() *cobra.Command {
	check := false
	c := &cobra.Command{
		Use:   "hash [FILE…|-]",
		Short: "Hash files with Hemera, or check what was hashed",
		Long: "Hash prints a line for each file: its Hemera digest, two spaces and its name. Without a file, or\n" +
			"where the name is -, it reads standard input. A name with a line break or a backslash has them\n" +
			"as \\n, \\r and \\\\, and its line begins with a backslash.\n\n" +
			"With --check the files are such lists. Every file that they name is hashed again; the exit code\n" +
			"is 1 if one differs or cannot be read.",
		Example: "  writ hash *.tar >sums\n  writ hash --check sums",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"-"}
			}
			if check {
				return a.checkHashes(c.Context(), args)
			}
			return a.printHashes(c.Context(), args)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "read lists and check the files that they name")
	return c
}

// hashDoc is writ.hash.v1.
type hashDoc struct {
	Schema string       `json:"schema"`
	Files  []hashedFile `json:"files"`
}

type hashedFile struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
}

func (a *app) printHashes(ctx context.Context, names []string) error {
	doc := hashDoc{Schema: "writ.hash.v1", Files: []hashedFile{}}
	for _, name := range names {
		digest, n, err := a.hashFile(ctx, name)
		if err != nil {
			return err
		}
		if !a.json {
			fmt.Fprintln(a.out, hashLine(digest, name))
		}
		doc.Files = append(doc.Files, hashedFile{name, digest.String(), n})
	}
	return a.print(doc, func() {})
}

// hashCheckDoc is writ.hash-check.v1.
type hashCheckDoc struct {
	Schema string        `json:"schema"`
	Sound  bool          `json:"sound"`
	Files  []checkedFile `json:"files"`
}

type checkedFile struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Expected string `json:"expected"`
	Digest   string `json:"digest"`
	Error    string `json:"error"`
}

// The states of a checked file.
const (
	hashSame       = "same"
	hashDiffers    = "differs"
	hashUnreadable = "unreadable"
)

func (a *app) checkHashes(ctx context.Context, lists []string) error {
	doc := hashCheckDoc{Schema: "writ.hash-check.v1", Sound: true, Files: []checkedFile{}}
	for _, list := range lists {
		err := a.eachHashLine(list, func(expected hemera.Digest, name string) error {
			file := checkedFile{Name: name, State: hashSame, Expected: expected.String()}
			digest, _, err := a.hashFile(ctx, name)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				file.State, file.Error = hashUnreadable, err.Error()
			case digest != expected:
				file.State, file.Digest = hashDiffers, digest.String()
			default:
				file.Digest = digest.String()
			}
			doc.Sound = doc.Sound && file.State == hashSame
			doc.Files = append(doc.Files, file)
			if !a.json {
				a.printChecked(file)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := a.print(doc, func() {}); err != nil {
		return err
	}
	if !doc.Sound {
		return errBlocked
	}
	return nil
}

func (a *app) printChecked(file checkedFile) {
	state := a.style.green(file.State)
	switch file.State {
	case hashDiffers:
		state = a.style.red(file.State)
	case hashUnreadable:
		state = a.style.red(file.State) + ": " + line(file.Error)
	}
	fmt.Fprintf(a.out, "%s: %s\n", line(file.Name), state)
}

// eachHashLine reads what printHashes has written. A list without a line is refused:
// checking nothing must not look like success.
func (a *app) eachHashLine(list string, each func(expected hemera.Digest, name string) error) error {
	in, title := a.in, "standard input"
	if list != "-" {
		f, err := os.Open(list)
		if err != nil {
			return err
		}
		defer f.Close()
		in, title = f, list
	}
	lines := bufio.NewScanner(in)
	n := 0
	for lines.Scan() {
		n++
		expected, name, err := parseHashLine(lines.Text())
		if err != nil {
			return &usageError{fmt.Errorf("%s line %d: %w", title, n, err)}
		}
		if err := each(expected, name); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s line %d: %w", title, n+1, err)
	}
	if n == 0 {
		return &usageError{fmt.Errorf("%s has no line, expected what `writ hash` prints", title)}
	}
	return nil
}

var (
	escapeName   = strings.NewReplacer("\\", "\\\\", "\n", "\\n", "\r", "\\r")
	unescapeName = strings.NewReplacer("\\\\", "\\", "\\n", "\n", "\\r", "\r")
)

func hashLine(digest hemera.Digest, name string) string {
	if escaped := escapeName.Replace(name); escaped != name {
		return fmt.Sprintf("\\%s  %s", digest, escaped)
	}
	return fmt.Sprintf("%s  %s", digest, name)
}

func parseHashLine(text string) (hemera.Digest, string, error) {
	text, escaped := strings.CutPrefix(text, "\\")
	hex, name, ok := strings.Cut(text, "  ")
	if !ok || name == "" {
		return hemera.Digest{}, "", errors.New("expected a digest, two spaces and a name")
	}
	digest, err := hemera.ParseDigest(hex)
	if err != nil {
		return hemera.Digest{}, "", err
	}
	if escaped {
		name = unescapeName.Replace(name)
	}
	return digest, name, nil
}

func (a *app) hashFile(ctx context.Context, name string) (hemera.Digest, int64, error) {
	r := &hashReader{ctx: ctx, in: a.in, a: a, name: name}
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return hemera.Digest{}, 0, err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil {
			return hemera.Digest{}, 0, err
		} else if info.IsDir() {
			return hemera.Digest{}, 0, &usageError{&fs.PathError{Op: "hash", Path: name, Err: errors.New("is a directory")}}
		}
		r.in = f
	}
	defer r.clear()
	return hemera.SumReader(r)
}

// hashReader ends with the context, and shows on a terminal how far it is.
type hashReader struct {
	ctx  context.Context
	in   io.Reader
	a    *app
	name string
	n    int64
	last time.Time
	live bool // the line is on the screen
}

func (r *hashReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.in.Read(b)
	r.n += int64(n)
	if now := time.Now(); r.a.errStyle.terminal && !r.a.json {
		if r.last.IsZero() {
			r.last = now
		}
		if now.Sub(r.last) >= redraw {
			r.last, r.live = now, true
			fmt.Fprintf(r.a.err, "\r\x1b[2K%s", r.a.errStyle.faint(line(r.name)+": "+size(r.n)))
		}
	}
	return n, err
}

func (r *hashReader) clear() {
	if r.live {
		fmt.Fprint(r.a.err, "\r\x1b[2K")
	}
}
