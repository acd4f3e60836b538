package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeCertificate makes a certificate for a name.
func writeCertificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestACertificateIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, "first.test")
	now := time.Now()
	log := &lines{}
	c, err := loadCertificate(cert, key, slog.New(slog.NewJSONHandler(log, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when, name string) {
		t.Helper()
		pair, err := c.get(nil)
		if err != nil || pair.Leaf.Subject.CommonName != name {
			t.Errorf("%s: %v, %v; expected %s", when, pair.Leaf.Subject, err, name)
		}
	}
	touch := func(seconds int) {
		for _, file := range []string{cert, key} {
			at := time.Now().Add(time.Duration(seconds) * time.Second)
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect("at first", "first.test")
	writeCertificate(t, dir, "second.test")
	touch(10)
	expect("before it is looked at again", "first.test")
	now = now.Add(certificateCheck)
	expect("after a second", "second.test")
	if err := os.WriteFile(cert, []byte("half a certif"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(certificateCheck)
	expect("a broken file", "second.test")
	writeCertificate(t, dir, "third.test")
	c.reload()
	expect("after a signal", "third.test")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	now = now.Add(certificateCheck)
	expect("a missing file", "third.test")
	if _, err := loadCertificate(cert, key, slog.Default(), time.Now); !errors.Is(err, ErrUsage) {
		t.Errorf("a start without a key: %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := writeCertificate(t, t.TempDir(), "writ.test")
	c, err := loadCertificate(cert, key, slog.Default(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := setup(t, func(c *Config) { c.MaxPerConnection = 2 }).listen(t, c)
	arrived, letGo := s.hold()
	defer letGo()
	for range 2 {
		go func() { _, _, _ = s.ask(t.Context(), "/v1/jobs") }() // ends with letGo
		<-arrived
	}
	// HTTP/2: all requests share one connection.
	status, body, err := s.ask(t.Context(), "/v1/jobs")
	if status != http.StatusTooManyRequests {
		t.Errorf("a third request of one connection: %d %s %v", status, body, err)
	}
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}
	if conn, err := tls.Dial("tcp", s.url[len("https://"):], old); err == nil {
		t.Errorf("TLS 1.1 was taken: %v", conn.Close())
	}
}
