package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options say what a server is like. Servers are shared by those who want equal ones.
type Options struct {
	// Durable makes the server sync what it commits. Without it, it is faster, and
	// still loses nothing when its processes are killed, but a power cut would damage
	// it.
	Durable bool
	// Password is what the user writ must give; empty if nobody is asked.
	Password string
	// Settings are further ones, as "name=value name=value".
	Settings string
}

// Server is a PostgreSQL server. Its methods may be called concurrently, except that
// one goroutine at a time starts and stops it.
type Server struct {
	options Options
	bin     string
	dir     string // has data and the socket
	run     syscall.SysProcAttr

	watcher io.WriteCloser // is told the process to end when this one has ended

	mu        sync.Mutex
	process   *process
	databases int
}

// process is a running postmaster.
type process struct {
	cmd   *exec.Cmd
	log   *log
	ended chan struct{} // closed once no process of the server is left
}

// within bounds every single thing that a server is asked to do.
const within = 60 * time.Second

// superuser is who owns the databases.
const superuser = "writ"

var shared struct {
	sync.Mutex
	servers map[Options]*Server
}

// Shared is the server of this process with these options, started by whoever asks
// first. It must keep running: a test that stops its server uses Start.
func Shared(tb testing.TB, o Options) *Server {
	tb.Helper()
	bin := need(tb)
	shared.Lock()
	defer shared.Unlock()
	if s := shared.servers[o]; s != nil {
		return s
	}
	s, err := begin(bin, o)
	if err != nil {
		tb.Fatal(err)
	}
	if shared.servers == nil {
		shared.servers = map[Options]*Server{}
	}
	shared.servers[o] = s
	return s
}

// Start starts a server that ends with the test.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	s, err := begin(need(tb), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// need skips the test, or fails it, if there is no PostgreSQL.
func need(tb testing.TB) (bin string) {
	tb.Helper()
	bin, err := find()
	if err == nil {
		return bin
	}
	if os.Getenv("WRIT_REQUIRE_POSTGRES") == "1" {
		tb.Fatalf("WRIT_REQUIRE_POSTGRES is set, and there is no PostgreSQL: %v", err)
	}
	tb.Skipf("no PostgreSQL: %v", err)
	return ""
}

var find = sync.OnceValues(programs)

// begin makes a server and starts it.
func begin(bin string, o Options) (_ *Server, err error) {
	s := &Server{options: o, bin: bin}
	base := os.TempDir()
	if os.Geteuid() == 0 {
		// PostgreSQL refuses to run as root, and the user that it runs as may not
		// reach a private directory.
		base = "/tmp"
		if s.run.Credential, err = somebody(); err != nil {
			return nil, err
		}
	} else if len(base) > 60 {
		base = "/tmp" // the path of a socket has at most 103 bytes
	}
	if s.dir, err = os.MkdirTemp(base, "writpg"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if c := s.run.Credential; c != nil {
		if err := os.Chown(s.dir, int(c.Uid), int(c.Gid)); err != nil {
			return nil, err
		}
	}
	if err := s.watch(); err != nil {
		return nil, err
	}
	if err := s.initialise(); err != nil {
		return nil, err
	}
	return s, s.start()
}

// somebody is a user other than root.
func somebody() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody to run it as")
}

// watch starts a shell that outlives this process for as long as it takes to end the
// server and to remove its directory. Nothing but the other end of its input tells it
// that this process is gone. The name of the directory keeps it from what it must not
// remove.
func (s *Server) watch() error {
	const script = `
pid=0
while read -r line; do pid=$line; done
if [ "$pid" -gt 0 ]; then
	kill -QUIT "$pid"
	n=0
	while [ "$n" -lt 100 ] && kill -0 "$pid"; do sleep 0.1; n=$((n + 1)); done
	kill -KILL "$pid"
fi
case $1 in */writpg*) rm -rf "$1" ;; esac
`
	cmd := exec.Command("/bin/sh", "-c", script, "sh", s.dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends this process must not end it
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.watcher = &watcher{in, cmd}
	return nil
}

// watcher is the input of the shell; to close it is to wait for the shell's end.
type watcher struct {
	io.WriteCloser
	cmd *exec.Cmd
}

func (w *watcher) Close() error { return errors.Join(w.WriteCloser.Close(), w.cmd.Wait()) }

// initialise makes the server's files.
func (s *Server) initialise() error {
	args := []string{
		"--pgdata", s.data(), "--username", superuser, "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions",
	}
	if s.options.Password == "" {
		args = append(args, "--auth", "trust")
	} else {
		file := filepath.Join(s.dir, "password")
		if err := os.WriteFile(file, []byte(s.options.Password), 0o600); err != nil {
			return err
		}
		if c := s.run.Credential; c != nil {
			if err := os.Chown(file, int(c.Uid), int(c.Gid)); err != nil {
				return err
			}
		}
		args = append(args, "--auth", "scram-sha-256", "--pwfile", file)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := s.command(ctx, "initdb", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command is one of the server's programs.
func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	// No setting of whoever runs the tests may reach the server.
	cmd.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + s.dir}
	attributes := s.run
	cmd.SysProcAttr = &attributes
	return cmd
}

// Restart starts a server that was stopped or killed.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return errors.New("the PostgreSQL server is running already")
	}
	settings := []string{
		"listen_addresses=", "unix_socket_directories=" + s.dir, "port=" + port,
		"max_connections=400", "shared_buffers=128MB", "wal_level=replica", "log_min_messages=warning",
		"cluster_name=", "log_destination=stderr", "logging_collector=off",
	}
	if !s.options.Durable {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	settings = append(settings, strings.Fields(s.options.Settings)...)
	args := []string{"-D", s.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	p := &process{
		cmd:   s.command(context.Background(), "postgres", args...),
		log:   &log{ready: make(chan struct{})},
		ended: make(chan struct{}),
	}
	// Every process of the server holds the other end of this.
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in the log
		close(p.ended)
	}()
	s.process = p
	if err := s.tell(p.cmd.Process.Pid); err != nil {
		return err
	}
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-p.log.ready:
		return nil
	case <-p.ended:
		s.process = nil
		return fmt.Errorf("the PostgreSQL server has ended as it started:\n%s", p.log)
	case <-timeout.C:
		return fmt.Errorf("the PostgreSQL server is not ready after %s:\n%s", within, p.log)
	}
}

// port is part of the socket's name.
const port = "5432"

func (s *Server) tell(pid int) error {
	_, err := fmt.Fprintln(s.watcher, pid)
	return err
}

// Stop ends the server in good order: sessions are ended, everything is written.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.end(tb, syscall.SIGINT)
}

// Kill ends the server's main process as kill -9 does, and returns once all the others
// have ended too, which they do as soon as they notice.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.end(tb, syscall.SIGKILL)
}

func (s *Server) end(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(signal); err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) stop(signal syscall.Signal) error {
	p := s.process
	if p == nil {
		return errors.New("the PostgreSQL server is not running")
	}
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-p.ended:
		s.process = nil
		return s.tell(0)
	case <-timeout.C:
		return fmt.Errorf("the PostgreSQL server has not ended after %s:\n%s", within, p.log)
	}
}

// close ends the server and removes its directory.
func (s *Server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.process != nil {
		err = s.stop(syscall.SIGQUIT)
	}
	if s.watcher == nil {
		return errors.Join(err, os.RemoveAll(s.dir))
	}
	return errors.Join(err, s.watcher.Close())
}

// Log is the end of what the server has logged since it was started last.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return ""
	}
	return s.process.log.String()
}

// URL is that of a database of the server.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database}
	if s.options.Password != "" {
		u.User = url.UserPassword(superuser, s.options.Password)
	}
	u.RawQuery = url.Values{"host": {s.dir}, "port": {port}, "sslmode": {"disable"}}.Encode()
	return u.String()
}

// Database makes an empty database and returns its URL. It is removed when the test
// ends, whoever is connected to it.
func (s *Server) Database(tb testing.TB) (url string) {
	tb.Helper()
	s.mu.Lock()
	s.databases++
	name := fmt.Sprintf("test%d", s.databases)
	s.mu.Unlock()
	create := "CREATE DATABASE " + name
	if !s.options.Durable {
		create += " STRATEGY file_copy" // has a checkpoint, which is dear with syncs only
	}
	if err := s.exec(create); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.mu.Lock()
		running := s.process != nil
		s.mu.Unlock()
		if !running {
			return
		}
		if err := s.exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	return s.URL(name)
}

// exec runs a statement outside of the databases of tests.
func (s *Server) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// log keeps the end of what a server says, and knows when it is ready.
type log struct {
	mu    sync.Mutex
	text  []byte
	ready chan struct{} // closed once the server takes connections
	is    bool
}

// logged is how many bytes of a log are kept, at least.
const logged = 64 << 10

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if !l.is && strings.Contains(string(l.text), "database system is ready to accept") {
		l.is = true
		close(l.ready)
	}
	if len(l.text) > 2*logged {
		l.text = append(l.text[:0], l.text[len(l.text)-logged:]...)
	}
	return len(b), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
