package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// maxSocketPath is how long the path of a unix socket may be on every system that
// we run on, in bytes.
const maxSocketPath = 103

// SocketPath is where the server of a data directory answers its owner.
func SocketPath(data string) string { return filepath.Join(data, "runtime", "writ.sock") }

// listenTCP listens on an address that the settings allow.
func (c *Config) listenTCP(ctx context.Context) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil {
		return nil, usage("the address to listen on is malformed or unknown, expected HOST:PORT: %v", err)
	}
	// What was checked is what is listened on: no name is resolved twice.
	if err := c.checkAddress(addr); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr.String())
}

// listenSocket listens at the socket of a data directory. The caller owns the
// directory's store: so a socket at which nobody answers was left by a server that
// is gone, and is removed.
func listenSocket(ctx context.Context, data string) (net.Listener, error) {
	path := SocketPath(data)
	if len(path) > maxSocketPath {
		return nil, usage("the path of the socket %s has %d bytes, but no system takes more than %d; choose a data directory with a shorter path", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is in the way of the socket and is not one; move it away", path)
	default:
		if err := removeStale(ctx, path); err != nil {
			return nil, err
		}
	}
	// The socket must never be open to others, not even between bind and chmod.
	// Nothing else of this process makes files at this moment that others may read.
	old := syscall.Umask(0o177)
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	syscall.Umask(old)
	return l, err
}

// removeStale removes a socket at which nobody answers.
func removeStale(ctx context.Context, path string) error {
	serving, err := Answers(ctx, path)
	if err != nil {
		return err
	}
	if serving {
		return fmt.Errorf("%w: it answers at %s", ErrRunning, path)
	}
	return os.Remove(path)
}

// Answers says whether somebody answers at a socket. No socket is no answer, and
// neither is one that a killed server has left.
func Answers(ctx context.Context, path string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		return true, conn.Close()
	}
	// A path that is too long, or where no socket is, is refused when we listen.
	for _, nobody := range []error{syscall.ECONNREFUSED, syscall.ENOENT, syscall.EINVAL, syscall.ENOTSOCK, syscall.ENOTDIR} {
		if errors.Is(err, nobody) {
			return false, nil
		}
	}
	return false, fmt.Errorf("the socket %s can't be asked whether a server answers: %w", path, err)
}

// bounded closes connections above a limit as soon as they arrive: a caller sees at
// once that it must come back, instead of waiting without an end.
type bounded struct {
	net.Listener
	slots    chan struct{}
	overflow func()
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.slots <- struct{}{}:
			return &boundedConn{Conn: conn, slots: b.slots}, nil
		default:
			_ = conn.Close() // nobody has been promised anything
			b.overflow()
		}
	}
}

// boundedConn gives its slot back when it is closed.
type boundedConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

func (c *boundedConn) Close() error {
	c.once.Do(func() { <-c.slots })
	return c.Conn.Close()
}
