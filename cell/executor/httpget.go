package executor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/nox"
)

// The bounds of HTTPGet.
const (
	MaxURL       = 2048    // bytes
	MaxBody      = 1 << 20 // bytes of an answer
	maxHeader    = 64 << 10
	maxRedirects = 5
)

// HTTPOptions are the terms of an HTTPGet.
type HTTPOptions struct {
	// Hosts are those that may be asked, with scheme and port: `example.org` and
	// `https://example.org` are port 443 over TLS, `http://example.org:8080` is port
	// 8080 without. Listing a host says that a GET changes nothing there.
	Hosts []string
	// Private allows hosts whose names lead to addresses that are not public. Without
	// it those are reached only by a host that is such an address itself, or
	// localhost.
	Private bool
	// Timeout ends a request with all its redirects; 0 is DefaultTimeout.
	Timeout time.Duration
	// Roots are the authorities whose certificates count; nil is those of the system.
	Roots *x509.CertPool
}

// HTTPGet answers ["http-get" PART … 0] with [status [size pieces]]. The parts are
// texts that together are the URL. The reply has the status, also where that is an
// error, and the body as it came.
//
// It fails where the request is another one, the URL or a redirect leads to a host that
// is not listed, there are more than 5 redirects, the name leads to an address that is
// not public (see HTTPOptions.Private), the body is longer than MaxBody, or no whole
// answer comes in time. A failure after the request was sent is definite because a GET
// asks for nothing to be done. Only the end of this program leaves a request unknown;
// repeating it is safe, but whether a server got it can't be looked up.
//
// What is compared is scheme, host name in lower case, and port. The address is checked
// when the connection is made, so that no name can lead elsewhere meanwhile; proxies of
// the environment are not used for the same reason. There are no cookies, no
// credentials and no referrer, and each request has a connection of its own and is sent once.
type HTTPGet struct {
	client   *http.Client
	origins  []string // sorted
	private  bool
	timeout  time.Duration
	resolver *net.Resolver // nil is that of the system
}

// NewHTTPGet checks the options. The error wraps ErrConfig.
func NewHTTPGet(o HTTPOptions) (*HTTPGet, error) {
	if o.Timeout < 0 {
		return nil, fmt.Errorf("%w: a timeout of %v", ErrConfig, o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	a := &HTTPGet{timeout: o.Timeout, private: o.Private}
	for _, host := range o.Hosts {
		text := host
		if !strings.Contains(host, "://") {
			text = "https://" + host
		}
		u, err := url.Parse(text)
		if err == nil && (u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "") {
			err = errors.New("it has more than a scheme, a name and a port")
		}
		var at string
		if err == nil {
			at, err = origin(u)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: host %q: %w", ErrConfig, host, err)
		}
		a.origins = append(a.origins, at)
	}
	slices.Sort(a.origins)
	a.origins = slices.Compact(a.origins)
	a.client = &http.Client{
		Transport: &http.Transport{
			DialContext:            a.dial,
			TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true, // nothing is sent twice, and nothing stays open
			DisableCompression:     true, // the body as it came
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			r.Header.Del("Referer") // a host learns nothing of what another was asked
			if len(via) > maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			return a.check(r.URL)
		},
	}
	return a, nil
}

// Usage implements Adapter.
func (a *HTTPGet) Usage() string { return `["http-get" URL 0]` }

// Performs implements cell.Chooser: another process may allow a host that is not
// allowed here.
func (a *HTTPGet) Performs(r cell.Request) bool {
	parts, err := texts(r.Arguments, MaxURL)
	if err != nil {
		return true // for Do to refuse
	}
	u, err := url.Parse(strings.Join(parts, ""))
	if err != nil {
		return true
	}
	at, err := origin(u)
	if err != nil {
		return true
	}
	_, ok := slices.BinarySearch(a.origins, at)
	return ok
}

// Do implements cell.Executor.
func (a *HTTPGet) Do(ctx context.Context, r cell.Request) (cell.Result, error) {
	parts, err := texts(r.Arguments, MaxURL)
	if err != nil {
		return failed("%s: %v", a.Usage(), err)
	}
	u, err := url.Parse(strings.Join(parts, ""))
	if err != nil {
		// The text of url.Error has the whole URL, and with it what may be a secret.
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return failed("http-get: not a URL: %v", err)
	}
	if err := a.check(u); err != nil {
		return failed("http-get: %v", err)
	}
	stopping := ctx
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return failed("http-get: not a URL that can be asked for")
	}
	request.Header.Set("User-Agent", "writ")
	body := kept{}
	answer, err := a.client.Do(request)
	if err == nil {
		defer answer.Body.Close()
		_, err = io.Copy(&body, io.LimitReader(answer.Body, MaxBody+1))
	}
	switch {
	case err != nil && errors.Is(stopping.Err(), context.Canceled):
		return cell.Result{}, fmt.Errorf("http-get from %s: %w", u.Host, context.Cause(stopping))
	case err != nil && ctx.Err() != nil:
		return failed("http-get: no whole answer from %s in time", strconv.QuoteToASCII(u.Host))
	case err != nil:
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return failed("http-get: no answer from %s: %v", strconv.QuoteToASCII(u.Host), err)
	case body.size > MaxBody:
		return failed("http-get: the answer of %s is longer than %d bytes", strconv.QuoteToASCII(u.Host), MaxBody)
	}
	return succeeded(nox.Pair(nox.Atom(uint64(answer.StatusCode)), body.noun()))
}

// dial connects to a host that is listed.
func (a *HTTPGet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Resolver: a.resolver}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	// An address and localhost were listed for what they are.
	if !a.private && !isAddress(host) && !strings.EqualFold(host, "localhost") {
		dialer.Control = refusePrivate
	}
	return dialer.DialContext(ctx, network, address)
}

// check refuses URLs of which the host is not listed.
func (a *HTTPGet) check(u *url.URL) error {
	if u.User != nil {
		return errors.New("a URL with a user name or a password is not asked for")
	}
	at, err := origin(u)
	if err != nil {
		return err
	}
	if _, ok := slices.BinarySearch(a.origins, at); !ok {
		allowed := "none"
		if len(a.origins) > 0 {
			allowed = strings.Join(a.origins, ", ")
		}
		return fmt.Errorf("%s is not allowed; allowed are: %s", strconv.QuoteToASCII(at), allowed)
	}
	return nil
}

// origin is scheme, host and port of a URL in the one form that is compared.
func origin(u *url.URL) (string, error) {
	if u.Scheme != "https" && u.Scheme != "http" {
		return "", fmt.Errorf("the scheme %s is neither https nor http", strconv.QuoteToASCII(u.Scheme))
	}
	name := strings.ToLower(u.Hostname())
	if name == "" || u.Opaque != "" {
		return "", errors.New("a URL without a host")
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Zone() != "" {
			return "", errors.New("an address with a zone")
		}
		name = addr.String()
	} else {
		for _, c := range []byte(name) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
				return "", errors.New("a host name of other characters than letters, digits, hyphens, underscores and dots")
			}
		}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("the port %s is not a number from 1 to 65535", strconv.QuoteToASCII(port))
	} else {
		port = strconv.FormatUint(n, 10)
	}
	return u.Scheme + "://" + net.JoinHostPort(name, port), nil
}

// isAddress reports whether a host is an address itself.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// refusePrivate lets connections be made to public addresses only.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !public(at.Addr()) {
		return errors.New("the name leads to an address that is not public")
	}
	return nil
}

// notPublic are the addresses that no public server has, beside those that netip
// tells: IANA's special-purpose registries, and the ranges that embed an IPv4 address
// and would lead to it.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared by carriers
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), // embeds IPv4
	netip.MustParsePrefix("3fff::/20"),
}

// global are the IPv6 addresses that are given out to public networks. The rest has the
// forms that embed or translate IPv4, private ranges, and what nobody uses yet.
var global = netip.MustParsePrefix("2000::/3")

// public reports whether an address is one of the public internet.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if a.Zone() != "" || a.Is6() && !global.Contains(a) ||
		a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}
