package executor

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/nox"
)

// get is a registry with an HTTPGet.
func get(t *testing.T, o HTTPOptions) *Registry {
	t.Helper()
	a, err := NewHTTPGet(o)
	if err != nil {
		t.Fatal(err)
	}
	return NewRegistry(map[string]Adapter{"http-get": a})
}

func TestHTTPGet(t *testing.T) {
	t.Parallel()
	requests := atomic.Int64{}
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Method != http.MethodGet || len(r.Cookies()) > 0 || r.Header.Get("Authorization") != "" || r.Referer() != "" {
			t.Errorf("%s with %v", r.Method, r.Header)
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.URL.RawQuery+"\xff\x00")
	})
	for i, from := range []string{"/moved", "/moved2", "/moved3", "/moved4", "/moved5", "/moved6"} {
		to := "/page?moved"
		if i > 0 {
			to = []string{"/moved", "/moved2", "/moved3", "/moved4", "/moved5"}[i-1]
		}
		mux.Handle(from, http.RedirectHandler(to, http.StatusFound))
	}
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.Handle("/away", http.RedirectHandler("http://example.org/?secret", http.StatusFound))
	mux.Handle("/file", http.RedirectHandler("file:///etc/passwd", http.StatusFound))
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, MaxBody+1))
	})
	mux.HandleFunc("/whole", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, MaxBody))
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
	})
	mux.HandleFunc("/header", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Long", strings.Repeat("a", 2*maxHeader))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	g := get(t, HTTPOptions{Hosts: []string{s.URL}})
	for _, x := range []struct {
		path, body string
		size       uint64
	}{
		{"/page?asked#here", "asked\xff\x00", 7},
		{"/moved5", "moved\xff\x00", 7},
		{"/whole", strings.Repeat("\x00", MaxBytes), MaxBody},
	} {
		reply := mustDo(t, g, host(t, `["http-get", "`+s.URL+`", "`+x.path+`", 0]`))
		status := uint64(http.StatusTeapot)
		if x.path == "/whole" {
			status = http.StatusOK
		}
		if size, body := bytesOf(t, reply.Tail()); reply.Head().Value() != status || size != x.size || body != x.body {
			t.Errorf("%s: status %s, %d bytes %q", x.path, reply.Head(), size, body)
		}
	}
	for path, want := range map[string]string{
		"/loop":   "more than 5 redirects",
		"/moved6": "more than 5 redirects",
		"/away":   `"http://example.org:80" is not allowed; allowed are: http://127.0.0.1:`,
		"/file":   `the scheme "file"`,
		"/large":  "is longer than 1048576 bytes",
		"/cut":    "unexpected EOF",
		"/header": "exceeded",
	} {
		reason := mustFail(t, g, host(t, `["http-get", "`+s.URL+path+`", 0]`))
		if !strings.Contains(reason, want) || strings.Contains(reason, "secret") {
			t.Errorf("%s: %q does not say %q", path, reason, want)
		}
	}
	if n := requests.Load(); n != 3 {
		t.Errorf("%d requests for pages, want each once", n)
	}
	if got, err := g.Find(t.Context(), host(t, `["http-get", "`+s.URL+`/page", 0]`)); err == nil || got.Outcome != cell.OutcomeUnknown {
		t.Errorf("find: %v %v", got.Outcome, err)
	}
	s.Close() // whoever connects before its last Accept returns is cut off
	if reason := mustFail(t, g, host(t, `["http-get", "`+s.URL+`/page", 0]`)); !strings.Contains(reason, "refused") && !strings.Contains(reason, "reset") {
		t.Errorf("reason %q", reason)
	}
}

func TestHTTPGetOverTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	r := host(t, `["http-get", "`+s.URL+`/", 0]`)
	if reason := mustFail(t, get(t, HTTPOptions{Hosts: []string{s.URL}}), r); !strings.Contains(reason, "certificate") {
		t.Errorf("reason %q", reason)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	reply := mustDo(t, get(t, HTTPOptions{Hosts: []string{s.URL}, Roots: roots}), r)
	if _, body := bytesOf(t, reply.Tail()); body != "ok" {
		t.Errorf("body %q", body)
	}
}

func TestHTTPGetRefuses(t *testing.T) {
	t.Parallel()
	g := get(t, HTTPOptions{Hosts: []string{"Example.org", "http://example.org:8080", "https://[2001:DB8::0:1]:8443"}})
	for _, x := range []struct{ url, want string }{
		{"", "the scheme \"\""},
		{"example.org/", "the scheme \"\""},
		{"http://example.org/", `"http://example.org:80" is not allowed; allowed are: http://example.org:8080, https://[2001:db8::1]:8443, https://example.org:443`},
		{"https://example.org:8443/", "is not allowed"},
		{"https://example.org./", "is not allowed"},
		{"https://example.org.evil/", "is not allowed"},
		{"https://evil/@example.org", "is not allowed"},
		{"https://user:secret@example.org/", "a user name or a password"},
		{"https://example.org:0/", "port"},
		{"https://example.org:65536/", "port"},
		{"https://example.org:x/", "not a URL"},
		{"https://exämple.org/", "other characters"},
		{"https://example%2eorg/", "not a URL"},
		{"https://[2001:db8::2]:8443/", "is not allowed"},
		{"https://[fe80::1%25eth0]:8443/", "zone"},
		{"https://2130706433/", "is not allowed"},
		{"ftp://example.org/", "the scheme \"ftp\""},
		{"https:example.org", "without a host"},
		{"https:///etc", "without a host"},
	} {
		reason := mustFail(t, g, host(t, `["http-get", "`+x.url+`", 0]`))
		if !strings.Contains(reason, x.want) || strings.Contains(reason, "secret") {
			t.Errorf("%s: %q does not say %q", x.url, reason, x.want)
		}
	}
	for _, x := range []struct{ request, want string }{
		{`["http-get", [104, 0, 116, 0], 0]`, "not a URL"},
		{`["http-get", "https://example.org/"]`, "text 1 of the list is not a text"},
		{`["http-get", 0]`, "the scheme"},
	} {
		if reason := mustFail(t, g, host(t, x.request)); !strings.Contains(reason, x.want) {
			t.Errorf("%s: %q does not say %q", x.request, reason, x.want)
		}
	}
	long := nox.Atom(0)
	for range MaxURL/PieceBytes + 1 {
		long = nox.Pair(list([]byte(strings.Repeat("a", PieceBytes))), long)
	}
	a, err := NewHTTPGet(HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if reason := mustFail(t, a, cell.Request{Arguments: long}); !strings.Contains(reason, "longer") {
		t.Errorf("reason %q", reason)
	}
	if reason := mustFail(t, a, cell.Request{Arguments: noun(t, `["https://example.org/", 0]`)}); !strings.Contains(reason, "allowed are: none") {
		t.Errorf("reason %q", reason)
	}
	for _, o := range []HTTPOptions{
		{Hosts: []string{""}},
		{Hosts: []string{"ftp://example.org"}},
		{Hosts: []string{"https://example.org/path"}},
		{Hosts: []string{"https://me@example.org"}},
		{Hosts: []string{"example.org:port"}},
		{Hosts: []string{"*.example.org"}},
		{Timeout: -1},
	} {
		if _, err := NewHTTPGet(o); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestHTTPGetTimes(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		asked <- struct{}{}
		<-r.Context().Done() // when the client has gone
	}))
	defer s.Close()
	r := host(t, `["http-get", "`+s.URL+`/", 0]`)
	if reason := mustFail(t, get(t, HTTPOptions{Hosts: []string{s.URL}, Timeout: 100 * time.Millisecond}), r); !strings.Contains(reason, "in time") {
		t.Errorf("reason %q", reason)
	}
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if got, err := get(t, HTTPOptions{Hosts: []string{s.URL}}).Do(ctx, r); got.Outcome != cell.OutcomeUnknown || !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v %v", got.Outcome, err)
	}
}

func TestHTTPGetIPv6(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "six")
	}))
	s.Listener.Close()
	s.Listener = listener
	s.Start()
	defer s.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	g := get(t, HTTPOptions{Hosts: []string{"http://[::1]:" + port}})
	// However the address is written.
	reply := mustDo(t, g, host(t, `["http-get", "http://[0:0::0001]:`+port+`/", 0]`))
	if _, body := bytesOf(t, reply.Tail()); body != "six" {
		t.Errorf("body %q", body)
	}
	if reason := mustFail(t, g, host(t, `["http-get", "http://[::ffff:127.0.0.1]:`+port+`/", 0]`)); !strings.Contains(reason, "is not allowed") {
		t.Errorf("reason %q", reason)
	}
}

// TestHTTPGetPrivate asks hosts whose names lead to this machine.
func TestHTTPGetPrivate(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, get(t, HTTPOptions{Hosts: []string{"http://localhost:" + port}}), host(t, `["http-get", "http://LOCALHOST:`+port+`/", 0]`))
	// The same by a name that leads here.
	for _, private := range []bool{true, false} {
		a, err := NewHTTPGet(HTTPOptions{Hosts: []string{"http://intern.example:" + port}, Private: private})
		if err != nil {
			t.Fatal(err)
		}
		a.resolver = here(t)
		r := cell.Request{Arguments: noun(t, `["http://intern.example:`+port+`/", 0]`)}
		if private {
			mustDo(t, a, r)
		} else if reason := mustFail(t, a, r); !strings.Contains(reason, "an address that is not public") {
			t.Errorf("reason %q", reason)
		}
	}
	for address, want := range map[string]bool{
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false,
		"100.64.0.1": false, "0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false, "198.18.0.1": false,
		"::1": false, "::": false, "fe80::1": false, "fd00::1": false, "ff02::1": false, "::ffff:10.0.0.1": false,
		"64:ff9b::a00:1": false, "2002:a00:1::1": false, "2001:db8::1": false, "::10.0.0.1": false, "fec0::1": false,
		"8.8.8.8": true, "::ffff:8.8.8.8": true, "2606:4700::1111": true, "172.32.0.1": true, "100.128.0.1": true,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is public: %v", address, got)
		}
		err := refusePrivate("tcp", netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), nil)
		if (err == nil) != want {
			t.Errorf("connecting to %s: %v", address, err)
		}
	}
	if err := refusePrivate("tcp", "no address", nil); err == nil {
		t.Error("what is no address was let through")
	}
}

// here is a resolver for which every name is 127.0.0.1.
func here(t *testing.T) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() { // until the test closes the server
		q := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(q)
			if err != nil {
				return
			}
			end := 12 + bytes.IndexByte(q[12:n], 0) + 5 // of the question
			a := slices.Concat(q[:2], []byte{0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end])
			if q[end-3] == 1 { // it asks for IPv4
				a[7] = 1
				a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
			}
			_, _ = server.WriteTo(a, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}
