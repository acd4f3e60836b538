package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// objectLimit bounds commits and trees that are read whole, in bytes.
const objectLimit = 128 << 20

// batchSize is the number of requests sent before the answers are read. git collects them until
// the flush command, so the requests of one batch never meet a full pipe in both directions.
const batchSize = 256

// objectReader is the one long-lived `git cat-file --batch-command` process.
type objectReader struct {
	repo *Repo
	turn chan struct{} // holds one token; whoever has it owns the fields below

	closed bool
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
}

func newObjectReader(r *Repo) *objectReader {
	o := &objectReader{repo: r, turn: make(chan struct{}, 1)}
	o.turn <- struct{}{}
	return o
}

// objectInfo is one answer's head.
type objectInfo struct {
	found     bool
	ambiguous bool // not found because a short id fits several objects
	id        OID
	kind      string // commit, tree, blob or tag
	size      int64
}

// request asks for one object by name.
type request struct {
	name     string // object id or revision: no NUL, no line feed
	contents bool
}

// errDied is wrapped with the *CommandError when the process ended in the middle of a request.
var errDied = errors.New("git cat-file ended")

// ask sends the requests and calls answer for each in order. body is the object's content, nil
// unless contents was asked for and the object exists; what answer leaves unread is skipped. An
// error of answer ends the call after the answers that are under way were skipped.
func (o *objectReader) ask(ctx context.Context, requests []request, answer func(i int, info objectInfo, body io.Reader) error) error {
	for _, q := range requests {
		if q.name == "" || strings.ContainsAny(q.name, "\x00\n") {
			return fmt.Errorf("%w: %q", ErrUnknownRevision, q.name)
		}
	}
	select {
	case <-o.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { o.turn <- struct{}{} }()
	if o.closed {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for start := 0; start < len(requests); start += batchSize {
		batch := requests[start:min(start+batchSize, len(requests))]
		offset := start
		fresh := o.cmd == nil
		answered, err := o.batch(ctx, batch, func(i int, info objectInfo, body io.Reader) error {
			return answer(offset+i, info, body)
		})
		if errors.Is(err, errDied) && !fresh && !answered && ctx.Err() == nil {
			// The process had been idle; whatever ended it need not concern this request.
			_, err = o.batch(ctx, batch, func(i int, info objectInfo, body io.Reader) error {
				return answer(offset+i, info, body)
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// batch runs one batch; answered is false when no answer had arrived.
func (o *objectReader) batch(ctx context.Context, batch []request, answer func(i int, info objectInfo, body io.Reader) error) (answered bool, err error) {
	if err := o.start(); err != nil {
		return false, err
	}
	process := o.cmd.Process
	unwatch := context.AfterFunc(ctx, func() { process.Kill() })
	defer unwatch()
	fail := func(err error) (bool, error) {
		unwatch()
		died := o.stop()
		if ctx.Err() != nil {
			return answered, context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) {
			return answered, fmt.Errorf("%w: %w", errDied, died)
		}
		return answered, err
	}

	var b bytes.Buffer
	for _, q := range batch {
		if q.contents {
			b.WriteString("contents ")
		} else {
			b.WriteString("info ")
		}
		b.WriteString(q.name)
		b.WriteByte(0)
	}
	b.WriteString("flush\x00")
	if _, err := o.in.Write(b.Bytes()); err != nil {
		return fail(err)
	}
	var refused error
	for i, q := range batch {
		line, err := o.out.ReadString('\n')
		if err != nil {
			return fail(err)
		}
		info, err := parseInfo(strings.TrimSuffix(line, "\n"), q.name, o.repo.hexLen())
		if err != nil {
			return fail(err)
		}
		answered = true
		var body *io.LimitedReader
		if q.contents && info.found {
			body = &io.LimitedReader{R: o.out, N: info.size}
		}
		if refused == nil {
			if body != nil {
				refused = answer(i, info, body)
			} else {
				refused = answer(i, info, nil)
			}
		}
		if body != nil {
			if _, err := io.Copy(io.Discard, body); err != nil {
				return fail(err)
			}
			if body.N > 0 {
				return fail(io.ErrUnexpectedEOF)
			}
			end, err := o.out.ReadByte()
			if err != nil {
				return fail(err)
			}
			if end != '\n' {
				return fail(fmt.Errorf("%w: no line feed after the object in the answer of git cat-file", ErrBadObject))
			}
		}
	}
	if ctx.Err() != nil {
		return fail(context.Cause(ctx))
	}
	return answered, refused
}

// parseInfo reads the first line of an answer: "<id> <type> <size>", or the request's name
// followed by "missing" or "ambiguous".
func parseInfo(line, name string, hexLen int) (objectInfo, error) {
	switch line {
	case name + " missing":
		return objectInfo{}, nil
	case name + " ambiguous":
		return objectInfo{ambiguous: true}, nil
	}
	fields := strings.Split(line, " ")
	if len(fields) == 2 && len(fields[0]) == hexLen && isHex(fields[0]) && fields[1] == "submodule" {
		return objectInfo{}, nil // newer versions say why a path's object is not there
	}
	if len(fields) == 3 && len(fields[0]) == hexLen && isHex(fields[0]) {
		size, err := strconv.ParseInt(fields[2], 10, 64)
		switch fields[1] {
		case "commit", "tree", "blob", "tag":
			if err == nil && size >= 0 && strconv.FormatInt(size, 10) == fields[2] {
				return objectInfo{found: true, id: OID(fields[0]), kind: fields[1], size: size}, nil
			}
		}
	}
	return objectInfo{}, fmt.Errorf("%w: answer of git cat-file: %q", ErrBadObject, line)
}

// start starts the process if there is none.
func (o *objectReader) start() error {
	if o.cmd != nil {
		return nil
	}
	c := command{args: []string{"cat-file", "--batch-command", "-z", "--buffer"}}
	cmd := exec.Command(o.repo.git)
	o.repo.prepare(cmd, c)
	stderr := new(tail)
	cmd.Stderr = stderr
	// A descendant that holds the standard error open must not hold up Close.
	cmd.WaitDelay = killDelay
	in, err := cmd.StdinPipe()
	if err != nil {
		return startError(c, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return startError(c, err)
	}
	if err := cmd.Start(); err != nil {
		return startError(c, err)
	}
	o.cmd, o.in, o.stderr = cmd, in, stderr
	o.out = bufio.NewReaderSize(out, 64<<10)
	return nil
}

// stop ends the process, if there is one, and returns how it ended.
func (o *objectReader) stop() error {
	if o.cmd == nil {
		return nil
	}
	cmd, stderr := o.cmd, o.stderr
	o.in.Close() // git cat-file ends when its input does
	kill := time.AfterFunc(killDelay, func() { cmd.Process.Kill() })
	// Unread output must not block the process on its way out.
	io.Copy(io.Discard, o.out)
	cmd.Wait()
	kill.Stop()
	o.cmd, o.in, o.out, o.stderr = nil, nil, nil, nil
	return &CommandError{Args: []string{"cat-file", "--batch-command"}, ExitCode: cmd.ProcessState.ExitCode(), Stderr: stderr.String()}
}

func (o *objectReader) close() error {
	<-o.turn
	defer func() { o.turn <- struct{}{} }()
	o.closed = true
	o.stop()
	return nil
}

// object reads one object whole. name may be any revision without control characters.
func (r *Repo) object(ctx context.Context, name, kind string, limit int64) (objectInfo, []byte, error) {
	var info objectInfo
	var data []byte
	err := r.objects.ask(ctx, []request{{name: name, contents: true}}, func(_ int, got objectInfo, body io.Reader) error {
		info = got
		if !got.found {
			return fmt.Errorf("%w: %s", ErrNoObject, name)
		}
		if got.kind != kind {
			return fmt.Errorf("%w: %s is a %s, want a %s", ErrBadObject, name, got.kind, kind)
		}
		if got.size > limit {
			return fmt.Errorf("%w: %s %s has %d bytes, at most %d are read", ErrTooLarge, kind, name, got.size, limit)
		}
		data = make([]byte, got.size)
		_, err := io.ReadFull(body, data)
		return err
	})
	return info, data, err
}

// ResolveCommit returns the commit that rev names; annotated tags are peeled. Of Git's forms the
// search through everything, ":/text", is not taken. A name that names no commit, or that starts
// with '-', is ErrUnknownRevision with the name in the message.
func (r *Repo) ResolveCommit(ctx context.Context, rev string) (OID, error) {
	unknown := func(why string) error {
		return fmt.Errorf("%w: %q%s", ErrUnknownRevision, rev, why)
	}
	if rev == "" || strings.HasPrefix(rev, "-") {
		return "", unknown(" cannot be the name of a commit")
	}
	if strings.ContainsFunc(rev, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "", unknown(" has control characters")
	}
	// The name alone tells a short id that fits several objects from one that fits none.
	var found, alone objectInfo
	err := r.objects.ask(ctx, []request{{name: rev + "^{commit}"}, {name: rev}}, func(i int, info objectInfo, _ io.Reader) error {
		if i == 0 {
			found = info
		} else {
			alone = info
		}
		return nil
	})
	var ce *CommandError
	if errors.Is(err, errDied) && errors.As(err, &ce) && ce.ExitCode == 128 {
		// Names such as main@{upstream} end the process when there is no upstream.
		return "", unknown(": " + ce.lastLine())
	}
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", rev, err)
	}
	if !found.found {
		if alone.ambiguous {
			return "", fmt.Errorf("%w: %q: %w", ErrUnknownRevision, rev, ErrAmbiguous)
		}
		if r.Shallow() {
			return "", unknown(" (the clone is shallow; the commit may lie in the history that is cut off)")
		}
		return "", unknown("")
	}
	return found.id, nil
}
