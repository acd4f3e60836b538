package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	fetchTimeout = 5 * time.Second
	maxRedirects = 3

	// fetchPause is the least time between two fetches once there are keys,
	// firstPause as long as there are none.
	fetchPause = time.Minute
	firstPause = 5 * time.Second

	minAge     = time.Minute
	defaultAge = 15 * time.Minute
	maxAge     = 24 * time.Hour
)

// remote keeps the keys of a JWKS URL. They are fetched when the first token asks
// for one, when their age says so, and when a token names a key that is not among
// them, but never more often than once in fetchPause. What was fetched last counts
// until something newer was.
type remote struct {
	url    string
	client *http.Client
	now    func() time.Time

	mu      sync.Mutex
	keys    keySet
	stale   time.Time // when the keys should be fetched again
	next    time.Time // before which nothing is fetched
	flight  chan struct{}
	failure error // of the last fetch
}

// newRemote checks the URL. client is nil but for tests.
func newRemote(text string, client *http.Client, now func() time.Time) (*remote, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the JWKS URL is malformed")
	}
	if err := checkURL(u); err != nil {
		return nil, err
	}
	if client == nil {
		client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	c := *client
	c.Timeout = fetchTimeout
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		return checkURL(r.URL)
	}
	return &remote{url: text, client: &c, now: now}, nil
}

// checkURL takes https, and http to this machine.
func checkURL(u *url.URL) error {
	switch {
	case u.Host == "" || u.User != nil:
		return errors.New("the JWKS URL needs a host, and can't have a user or a password")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http":
		if host := u.Hostname(); host == "localhost" || net.ParseIP(host).IsLoopback() {
			return nil
		}
	}
	return errors.New("the JWKS URL must be https; http is taken only on a loopback address")
}

// get gives the keys for a token with that header.
func (r *remote) get(ctx context.Context, alg jose.SignatureAlgorithm, kid string) (keySet, error) {
	r.mu.Lock()
	now := r.now()
	known := r.keys.has(alg, kid)
	if r.flight == nil && !now.Before(r.next) && (!known || !now.Before(r.stale)) {
		r.flight = make(chan struct{})
		go r.fetch() // ends within fetchTimeout; no caller's context ends it
	}
	keys, failure, flight := r.keys, r.failure, r.flight
	r.mu.Unlock()
	if known || flight == nil {
		return found(keys, failure)
	}
	select {
	case <-flight:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return found(r.keys, r.failure)
}

func found(keys keySet, failure error) (keySet, error) {
	if keys == nil {
		return nil, unavailable("the keys for signed tokens can't be fetched now", failure)
	}
	return keys, nil
}

func (r *remote) fetch() {
	keys, age, err := r.load()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.failure = err
	if err == nil {
		r.keys, r.stale = keys, now.Add(age)
	}
	r.next = now.Add(fetchPause)
	if r.keys == nil {
		r.next = now.Add(firstPause)
	}
	close(r.flight)
	r.flight = nil
}

// load fetches the keys and says for how long they are fresh.
func (r *remote) load() (_ keySet, age time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("JWKS URL: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("JWKS URL: the answer has the status %d, expected 200", resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxKeyFile+1))
	if err != nil {
		return nil, 0, fmt.Errorf("JWKS URL: %w", err)
	}
	if len(b) > maxKeyFile {
		return nil, 0, fmt.Errorf("JWKS URL: the answer has more than %d bytes", maxKeyFile)
	}
	keys, err := parseJWKS(b, false)
	if err != nil {
		return nil, 0, fmt.Errorf("JWKS URL: the answer %w", err)
	}
	return keys, ageOf(resp.Header), nil
}

// ageOf reads max-age of Cache-Control, within minAge and maxAge.
func ageOf(h http.Header) time.Duration {
	for _, v := range h.Values("Cache-Control") {
		for part := range strings.SplitSeq(v, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if !strings.EqualFold(name, "max-age") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err != nil {
				return minAge
			}
			return min(max(time.Duration(n)*time.Second, minAge), maxAge)
		}
	}
	return defaultAge
}
