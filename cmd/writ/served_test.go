package main_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/workitem"
)

// served is a data directory and the process that serves its jobs.
type served struct {
	dir     string
	flags   []string       // of writ serve, beside those that all have
	failing bool           // what the server depends on fails too, which it says in its log
	client  *client.Client // an admin of the tenant local, at the socket
	cmd     *exec.Cmd
	said    *strings.Builder
	exited  chan error
}

// newServed makes a data directory. Its path is short enough for a socket.
func newServed(t *testing.T, flags ...string) *served {
	t.Helper()
	dir, err := os.MkdirTemp("", "writ-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	v := &served{dir: dir, flags: flags}
	v.client = v.as(t, "dev:local:tester:jobs%3Aadmin")
	return v
}

// as is the server for the bearer of a token, at the socket.
func (v *served) as(t *testing.T, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Socket: filepath.Join(v.dir, "runtime", "writ.sock"),
		Token: token, Retry: client.Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// atPort lets the server also listen at a free port, with development tokens, and
// gives its URL.
func (v *served) atPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v.flags = append(v.flags, "--listen", l.Addr().String(), "--dev-tokens") // the last --listen counts
	return "http://" + l.Addr().String()
}

// start starts the server and waits until it answers.
func (v *served) start(t *testing.T) {
	t.Helper()
	v.cmd = exec.Command("writ", append([]string{"--data", v.dir, "serve", "--listen", "none", "--max-tenant-in-flight", "4096"}, v.flags...)...)
	v.said, v.exited = &strings.Builder{}, make(chan error, 1)
	v.cmd.Stdout, v.cmd.Stderr = v.said, v.said
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, exited := v.cmd, v.exited
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test has failed
	end := time.After(30 * time.Second)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err := v.client.Kinds(t.Context(), &workitem.NoInput{}); err == nil {
			return
		}
		select {
		case err := <-v.exited:
			t.Fatalf("the server has ended: %v\n%s", err, v.said)
		case <-end:
			t.Fatal("the server does not answer")
		case <-again.C:
		}
	}
}

// kill ends the server with SIGKILL.
func (v *served) kill(t *testing.T) {
	t.Helper()
	if err := v.cmd.Process.Kill(); err != nil {
		t.Fatalf("the server had ended before it was killed: %v", err)
	}
	<-v.exited
	if said := v.said.String(); strings.Contains(said, "panic") || !v.failing && strings.Contains(said, `"level":"ERROR"`) {
		t.Errorf("the server reports an error:\n%s", v.said)
	}
}

// stop asks the server to end, and wants it to do so without complaint.
func (v *served) stop(t *testing.T) {
	t.Helper()
	if err := v.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-v.exited; err != nil {
		t.Errorf("the server was stopped and ends with %v\n%s", err, v.said)
	}
}
