package server

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateCheck is how often the files are looked at, at most.
const certificateCheck = time.Second

// certificate is a certificate in files that are read again when they change. If
// what they hold then is no good, the last good one stays.
type certificate struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]fileStamp
	checked time.Time
}

type fileStamp struct {
	modified time.Time
	size     int64
}

func loadCertificate(cert, key string, log *slog.Logger, now func() time.Time) (*certificate, error) {
	c := &certificate{cert: cert, key: key, log: log, now: now, checked: now()}
	c.stamp = c.look()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, usage("the certificate can't be used: %v", err)
	}
	c.current = &pair
	return c, nil
}

// look says what the files are now; a file that is not there has the zero stamp.
func (c *certificate) look() (s [2]fileStamp) {
	for i, name := range []string{c.cert, c.key} {
		if info, err := os.Stat(name); err == nil {
			s[i] = fileStamp{modified: info.ModTime(), size: info.Size()}
		}
	}
	return s
}

// get gives the certificate for a handshake.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.checked) >= certificateCheck {
		c.checked = now
		if c.look() != c.stamp {
			c.read()
		}
	}
	return c.current, nil
}

// reload reads the files whether they look changed or not.
func (c *certificate) reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
}

func (c *certificate) read() {
	stamp := c.look()
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		// The one of the two files that comes later changes the stamp again.
		c.stamp = stamp
		c.log.Error("the new certificate can't be used; the last one stays", "error", err.Error())
		return
	}
	c.current, c.stamp = &pair, stamp
	c.log.Info("the certificate was read again")
}

// config is the TLS of the TCP listener.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get, NextProtos: []string{"h2", "http/1.1"}}
}
