package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxLine is the largest message on a line, in bytes.
	maxLine = 1 << 20
	// maxRunning is how many calls may run at once. The next line is read when one of
	// them has been answered.
	maxRunning = 128
	// drainTime is how long calls may go on after the input has ended.
	drainTime = 5 * time.Second
)

// Lines is a transport of one message a line, for standard input and output. A line
// that is no message is answered with an error of the protocol, and the next one is
// read; the transport of the SDK would end there. After the end of the input, calls
// that run get a little time to be answered. When the context ends, they end.
//
// The oldest revision has batches. They are taken whatever revision was agreed on.
type Lines struct {
	In  io.Reader
	Out io.Writer
}

// Connect begins to read. What reads the input goes on until the input ends, since
// nothing can interrupt it.
func (l *Lines) Connect(ctx context.Context) (sdk.Connection, error) {
	c := &lines{ctx: ctx, out: l.Out, incoming: make(chan line), closed: make(chan struct{}),
		running: map[jsonrpc.ID]*batch{}, answered: make(chan struct{}, 1)}
	go c.scan(bufio.NewReaderSize(l.In, 64<<10))
	return c, nil
}

// line is a line of the input, without its end, or what ended the input.
type line struct {
	text []byte
	long bool // it was longer than maxLine and has been passed over
	err  error
}

// batch is a batch of calls.
type batch struct {
	left    int
	answers [][]byte
}

// lines is the connection of Lines.
type lines struct {
	ctx      context.Context
	incoming chan line
	queue    []jsonrpc.Message // of a batch, for the next reads

	closing sync.Once
	closed  chan struct{}

	answered chan struct{} // has room for one: some call was answered

	mu      sync.Mutex
	out     io.Writer
	running map[jsonrpc.ID]*batch // calls that were read and are not answered; nil if in no batch
}

// scan reads lines for Read.
func (c *lines) scan(in *bufio.Reader) {
	for {
		l := line{}
		for {
			part, err := in.ReadSlice('\n')
			if l.long = l.long || len(l.text)+len(part) > maxLine; l.long {
				l.text = nil
			} else {
				l.text = append(l.text, part...)
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			l.err = err
			break
		}
		if l.err != nil && (l.long || len(bytes.TrimSpace(l.text)) > 0) { // the last line has no end
			if !c.hand(line{text: l.text, long: l.long}) {
				return
			}
		}
		if !c.hand(l) || l.err != nil {
			return
		}
	}
}

// hand gives a line to Read. It says whether the connection is still open.
func (c *lines) hand(l line) bool {
	select {
	case c.incoming <- l:
		return true
	case <-c.closed:
		return false
	}
}

// SessionID is empty: there is one session.
func (c *lines) SessionID() string { return "" }

// Close ends the connection. The input and the output stay open.
func (c *lines) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return nil
}

// Read gives the next message.
func (c *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.queue) > 0 {
			next := c.queue[0]
			c.queue = c.queue[1:]
			return next, nil
		}
		if err := c.wait(ctx, maxRunning-1, nil); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, c.ctx.Err()
		case <-c.closed:
			return nil, io.EOF
		case l := <-c.incoming:
			switch {
			case l.err != nil:
				timer := time.NewTimer(drainTime)
				defer timer.Stop()
				return nil, errors.Join(c.wait(ctx, 0, timer.C), l.err)
			case l.long:
				c.refuse(nil, jsonrpc.CodeInvalidRequest, "the message is larger than 1 MiB")
			case len(bytes.TrimSpace(l.text)) > 0:
				c.accept(l.text)
			}
		}
	}
}

// wait waits until at most so many calls run, or the time is over.
func (c *lines) wait(ctx context.Context, most int, over <-chan time.Time) error {
	for {
		c.mu.Lock()
		n := len(c.running)
		c.mu.Unlock()
		if n <= most {
			return nil
		}
		select {
		case <-c.answered:
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-c.closed:
			return io.EOF
		}
	}
}

// accept queues the messages of a line, or refuses it.
func (c *lines) accept(text []byte) {
	if message := malformed(text); message != "" {
		c.refuse(nil, jsonrpc.CodeParseError, message)
		return
	}
	all := []json.RawMessage{text}
	together := jsontext.Value(text).Kind() == '['
	if together {
		if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
			c.refuse(nil, jsonrpc.CodeInvalidRequest, "a batch must have a message")
			return
		}
	}
	b := &batch{}
	for _, one := range all {
		m, err := jsonrpc.DecodeMessage(one)
		if err != nil {
			c.refuse(one, jsonrpc.CodeInvalidRequest, "this is no JSON-RPC 2.0 message")
			continue
		}
		if call, ok := m.(*jsonrpc.Request); ok && call.IsCall() {
			c.mu.Lock()
			_, twice := c.running[call.ID]
			if !twice && together {
				c.running[call.ID] = b
				b.left++
			} else if !twice {
				c.running[call.ID] = nil
			}
			c.mu.Unlock()
			if twice {
				c.refuse(nil, jsonrpc.CodeInvalidRequest, "a call with the same id has not been answered yet")
				continue
			}
		}
		c.queue = append(c.queue, m)
	}
}

// refuse answers what is no message. If it has an id, so has the answer.
func (c *lines) refuse(message []byte, code int, why string) {
	id := json.RawMessage("null")
	var named struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(message, &named) == nil {
		if kind := jsontext.Value(named.ID).Kind(); kind == '"' || kind == '0' {
			id = named.ID
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out.Write(append(errorBody(id, code, why), '\n')) // whoever does not read answers gets none
}

// Write writes a message. The answers of a batch are written together.
func (c *lines) Write(ctx context.Context, m jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, ok := m.(*jsonrpc.Response)
	if !ok {
		_, err = c.out.Write(append(text, '\n'))
		return err
	}
	text = discreet(text)
	b := c.running[answer.ID]
	delete(c.running, answer.ID)
	if b != nil {
		b.answers = append(b.answers, text)
		if b.left--; b.left == 0 {
			text = array(b.answers)
		} else {
			text = nil
		}
	}
	if text != nil {
		_, err = c.out.Write(append(text, '\n'))
	}
	select {
	case c.answered <- struct{}{}:
	default:
	}
	return err
}

// array writes texts as a JSON array.
func array(texts [][]byte) []byte {
	return append(append([]byte("["), bytes.Join(texts, []byte(","))...), ']')
}
