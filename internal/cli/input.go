package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// interruptible reads from another reader until the context ends, even while that one
// blocks: nobody can make a terminal or a pipe answer. A read that was given up goes on
// in the background, so what it still gets is lost.
type interruptible struct {
	ctx  context.Context
	in   io.Reader
	rest []byte // what was read and has not been handed on
	err  error  // that came with it
}

func (r *interruptible) Read(b []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		type chunk struct {
			data []byte
			err  error
		}
		read := make(chan chunk, 1)
		go func() {
			data := make([]byte, 32<<10)
			n, err := r.in.Read(data)
			read <- chunk{data[:n], err}
		}()
		select {
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		case c := <-read:
			r.rest, r.err = c.data, c.err
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	if len(r.rest) > 0 {
		return n, nil
	}
	return n, r.err
}

// readInput reads standard input for -, else a file, up to a number of bytes.
func (a *app) readInput(ctx context.Context, path string, limit int64) ([]byte, error) {
	in := a.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, &usageError{&fs.PathError{Op: "read", Path: path, Err: errors.New("is a directory; expected a file, or - for standard input")}}
		}
		in = f
	}
	return io.ReadAll(io.LimitReader(&interruptible{ctx: ctx, in: in}, limit))
}
