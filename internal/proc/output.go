package proc

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// streams are the pipes of a command.
type streams struct {
	stdout, stderr, side *output // stderr is stdout if there is one pipe for both; side may be nil
	input                *input  // nil for /dev/null
	failed               chan struct{}
}

func openStreams(c Command) (*streams, error) {
	s := &streams{failed: make(chan struct{}, 3)} // every output says it at most once
	var err error
	if s.stdout, err = newOutput(c.Stdout, s.failed); err != nil {
		return nil, err
	}
	s.stderr = s.stdout
	if c.Stderr != nil {
		if s.stderr, err = newOutput(c.Stderr, s.failed); err != nil {
			s.close()
			return nil, err
		}
	}
	if c.Side != nil {
		if s.side, err = newOutput(c.Side, s.failed); err != nil {
			s.close()
			return nil, err
		}
	}
	if c.Input != nil {
		if s.input, err = newInput(c.Input); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// outputs are the pipes from the command, each once.
func (s *streams) outputs() []*output {
	all := []*output{s.stdout}
	if s.stderr != nil && s.stderr != s.stdout {
		all = append(all, s.stderr)
	}
	if s.side != nil {
		all = append(all, s.side)
	}
	return all
}

// attach gives the command its ends of the pipes.
func (s *streams) attach(cmd *exec.Cmd) {
	cmd.Stdout, cmd.Stderr = s.stdout.write, s.stderr.write
	if s.side != nil {
		cmd.ExtraFiles = []*os.File{s.side.write}
	}
	if s.input != nil {
		cmd.Stdin = s.input.read
	}
}

// run carries what the pipes have, after the command was started. Its ends are no
// longer needed here.
func (s *streams) run() {
	for _, o := range s.outputs() {
		o.write.Close()
		go o.copy()
	}
	if s.input != nil {
		s.input.read.Close()
		go s.input.copy()
	}
}

// finish waits for what the pipes still have, for a bounded time, and returns the
// first error of an output.
func (s *streams) finish() error {
	if s.input != nil {
		s.input.finish()
	}
	var first error
	until := time.Now().Add(drainWait)
	for _, o := range s.outputs() {
		if err := o.finish(until); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// close closes all ends that are still open.
func (s *streams) close() {
	for _, o := range s.outputs() {
		o.read.Close()
		o.write.Close()
	}
	if s.input != nil {
		s.input.read.Close()
		s.input.write.Close()
	}
}

// input carries bytes to a command that may not read all of them.
type input struct {
	read, write *os.File
	from        []byte
	done        chan struct{} // closed when copy has returned
}

func newInput(from []byte) (*input, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &input{read: r, write: w, from: from, done: make(chan struct{})}, nil
}

func (i *input) copy() {
	defer close(i.done)
	// A command that ends before it has read everything is none that failed.
	_, _ = i.write.Write(i.from)
	i.write.Close()
}

// finish ends copy, also if somebody that is not ours to end keeps the reading end
// open and does not read.
func (i *input) finish() {
	i.write.Close()
	<-i.done
}

// output carries what a command prints from a pipe to a writer.
type output struct {
	read, write *os.File
	to          io.Writer
	failed      chan<- struct{} // is told when to has refused a write
	done        chan struct{}   // closed when copy has returned; err is set then
	err         error
}

func newOutput(to io.Writer, failed chan<- struct{}) (*output, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if to == nil {
		to = io.Discard
	}
	return &output{read: r, write: w, to: to, failed: failed, done: make(chan struct{})}, nil
}

// copy runs until the last holder of the pipe has closed it or finish has had
// enough. After a refused write it reads on, so that nothing blocks in a write.
func (o *output) copy() {
	defer close(o.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := o.read.Read(buf)
		if n > 0 && o.err == nil {
			if _, werr := o.to.Write(buf[:n]); werr != nil {
				o.err = werr
				o.failed <- struct{}{}
			}
		}
		if err != nil {
			if o.err == nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
				o.err = err
			}
			return
		}
	}
}

// finish waits for the end of the output, at most until the given time if somebody
// that is not ours to end keeps the pipe open, and returns the first error.
func (o *output) finish(until time.Time) error {
	if err := o.read.SetReadDeadline(until); err != nil {
		// Without deadlines only closing ends the read.
		o.read.Close()
	}
	<-o.done
	return o.err
}
