package proc

import (
	"errors"
	"io"
	"os"
	"time"
)

// output carries what a command prints from a pipe to a writer.
type output struct {
	read, write *os.File
	to          io.Writer
	failed      chan struct{} // closed when to has refused a write
	done        chan struct{} // closed when copy has returned; err is set then
	err         error
}

func newOutput(to io.Writer) (*output, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if to == nil {
		to = io.Discard
	}
	return &output{read: r, write: w, to: to, failed: make(chan struct{}), done: make(chan struct{})}, nil
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
				close(o.failed)
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

// finish waits for the end of the output, at most drainWait if somebody that is
// not ours to end keeps the pipe open, and returns the first error.
func (o *output) finish() error {
	if err := o.read.SetReadDeadline(time.Now().Add(drainWait)); err != nil {
		// Without deadlines only closing ends the read.
		o.read.Close()
	}
	<-o.done
	return o.err
}
