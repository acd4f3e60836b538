package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// atSocket serves a server's handler at a socket and gives a client of it.
func atSocket(t *testing.T, b *bundle, token string) *client.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "writ-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	h := &http.Server{Handler: b.handler, ConnContext: connected}
	ended := make(chan struct{})
	go func() { // until Close
		defer close(ended)
		_ = h.Serve(l)
	}()
	c, err := client.New(client.Config{Socket: path, Token: token, Retry: client.Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), h.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return c
}

const local = "dev:t:o:jobs%3Aadmin"

func TestCopy(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.work.copy = func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "all of it")
		return err
	}
	read := func(want string) func(io.Reader) error {
		return func(r io.Reader) error {
			text, err := io.ReadAll(r)
			if err == nil && string(text) != want {
				t.Errorf("the copy is %q", text)
			}
			return err
		}
	}
	c := atSocket(t, b, local)
	if err := c.CopyJobs(t.Context(), read("all of it")); err != nil {
		t.Error(err)
	}
	if log := b.log.String(); !strings.Contains(log, `"route":"/local/copy"`) {
		t.Errorf("the log is\n%s", log)
	}

	// One that breaks off is never taken for the whole.
	gone := errors.New("the disk has failed")
	b.work.copy = func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "the first half")
		return errors.Join(err, gone)
	}
	if err := c.CopyJobs(t.Context(), read("")); err == nil {
		t.Error("half a copy has an end")
	}
	if log := b.log.String(); !strings.Contains(log, gone.Error()) {
		t.Errorf("the log is\n%s", log)
	}

	// Its reader's error is that of the call.
	b.work.copy = func(_ context.Context, w io.Writer) error { _, err := w.Write(nil); return err }
	if err := c.CopyJobs(t.Context(), func(io.Reader) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("the reader fails and the call says %v", err)
	}

	// Jobs that are in a database are not copied.
	b.work.copy = nil
	if err := c.CopyJobs(t.Context(), read("")); !errors.Is(err, workitem.ErrInvalidState) {
		t.Errorf("a copy of a database: %v", err)
	}
}

func TestCopyIsForThePersonWhoRunsTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.work.copy = func(context.Context, io.Writer) error { t.Error("it is copied"); return nil }
	if err := atSocket(t, b, "unknown").CopyJobs(t.Context(), nil); !errors.Is(err, workitem.ErrUnauthenticated) {
		t.Errorf("without a good token: %v", err)
	}
	// Beyond the socket there is no such route, whatever the token.
	if w := b.get(t.Context(), operation.CopyPath, "127.0.0.1:1", "Authorization", "Bearer "+local); w.Code != http.StatusNotFound {
		t.Errorf("at another listener the status is %d", w.Code)
	}
}
