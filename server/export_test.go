package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/server/auth"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/transfer"
)

const adminToken = "Bearer dev:acme:lovelace:jobs:admin"

func TestWhoMayExport(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var asked []string
	b.export = func(_ context.Context, w io.Writer, o transfer.Options) error {
		asked = append(asked, o.Tenant)
		_, err := io.WriteString(w, "everything\n")
		return err
	}
	get := func(ctx context.Context, method, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(ctx, method, transfer.Path, nil)
		if token != "" {
			r.Header.Set("Authorization", token)
		}
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		return w
	}
	for _, c := range []struct {
		method, token string
		status        int
	}{
		{http.MethodGet, "", 401},
		{http.MethodGet, devToken, 403},
		{http.MethodPost, adminToken, 405},
		{http.MethodGet, adminToken, 200},
	} {
		if w := get(t.Context(), c.method, c.token); w.Code != c.status {
			t.Errorf("%s with %q: %d %s, expected %d", c.method, c.token, w.Code, w.Body, c.status)
		}
	}
	w := get(auth.Local(t.Context()), http.MethodGet, adminToken)
	if w.Body.String() != "everything\n" || w.Header().Get("Content-Type") != transfer.ContentType {
		t.Errorf("the answer is %q of type %q", w.Body, w.Header().Get("Content-Type"))
	}
	if strings.Join(asked, ",") != "acme," {
		t.Errorf("exported for the tenants %q, expected acme and then everything", asked)
	}
	if log := b.log.String(); !strings.Contains(log, `"route":"/export"`) || !strings.Contains(log, `"subject":"lovelace"`) {
		t.Errorf("the log says\n%s", log)
	}
	b.export = func(context.Context, io.Writer, transfer.Options) error {
		return &workitem.Error{Code: workitem.UnauthorizedTarget}
	}
	if w := get(t.Context(), http.MethodGet, adminToken); w.Code != 403 || !strings.Contains(w.Body.String(), "unauthorized_target") {
		t.Errorf("of a store with other tenants: %d %s", w.Code, w.Body)
	}
}

// exporting is a client of the bundle's server, over a real connection.
func (b *bundle) exporting(t *testing.T) *client.Client {
	t.Helper()
	h := httptest.NewUnstartedServer(b.handler)
	h.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return ctx }
	h.Start()
	t.Cleanup(h.Close)
	c, err := client.New(client.Config{URL: h.URL, Token: strings.TrimPrefix(adminToken, "Bearer "), Retry: client.Retry{Attempts: 1}})
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

// What fails in the middle does not look like the end.
func TestExportIsBrokenOff(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.export = func(_ context.Context, w io.Writer, _ transfer.Options) error {
		const begin = `{"header":{"format":"writ.jobs","version":1,"engine":"sqlite","schema":1,"epoch":0,"at":"2026-12-02T00:00:00Z"}}` + "\n"
		if _, err := io.WriteString(w, begin+strings.Repeat("x\n", 64<<10)); err != nil {
			return err
		}
		return errors.New("the disk is broken")
	}
	_, err := b.exporting(t).Export(t.Context(), io.Discard)
	if !errors.Is(err, workitem.ErrAuthorityUnavailable) || !strings.Contains(err.Error(), "broken the export off") {
		t.Errorf("got %v", err)
	}
	if log := b.log.String(); !strings.Contains(log, "the disk is broken") {
		t.Errorf("the log says\n%s", log)
	}
}

// One export at a time: each keeps a view of the store open.
func TestOneExportAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	begun := make(chan struct{})
	b.export = func(ctx context.Context, _ io.Writer, _ transfer.Options) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	c := b.exporting(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := c.Export(ctx, io.Discard)
		first <- err
	}()
	<-begun
	if _, err := c.Export(t.Context(), io.Discard); !errors.Is(err, &workitem.Error{Code: workitem.TooManyRequests}) {
		t.Errorf("a second export: %v", err)
	}
	cancel()
	if err := <-first; err == nil {
		t.Error("an export that was given up has succeeded")
	}
}
