package server

import (
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/writ-authority/writ/server/auth"
	"github.com/writ-authority/writ/workitem"
)

// Config is how a server runs. The zero value of a member is its default.
type Config struct {
	// Data is the data directory. It is made if it is not there.
	Data string
	// JobsDB, if it is not empty, is the URL of the PostgreSQL database that has the
	// jobs instead of the data directory.
	JobsDB string
	// Listen is the TCP address, or ListenNone. Default DefaultListen.
	Listen string
	// InsecureListen lets a listener that is not on loopback speak plain HTTP.
	InsecureListen bool
	// TLSCert and TLSKey are files in PEM. With them the TCP listener speaks TLS.
	TLSCert, TLSKey string
	// DevTokens takes development tokens at the TCP listener.
	DevTokens bool
	// JWT says which signed tokens are taken; without keys none are.
	JWT auth.JWTConfig
	// Origins are the web origins whose pages may call.
	Origins []string
	// MetricsPublic shows /metrics to everybody who can connect.
	MetricsPublic bool
	// MaxRequests is how many requests may run at once, long polls included,
	// MaxPerConnection how many of one connection, MaxConnections how many
	// connections may be open.
	MaxRequests, MaxPerConnection, MaxConnections int
	// Grace is how long running requests may take to finish after a stop.
	Grace time.Duration
	// Work are the settings of the authority; its Observer is the server's own.
	Work workitem.Config
	// Version is the version that MCP clients are told.
	Version string
	// Log gets what the server has to say. Default is slog's.
	Log *slog.Logger
	// Reload, if not nil, is told when the certificate must be read again, also if
	// its files do not look changed.
	Reload <-chan struct{}
	// Ready, if not nil, is called once requests are taken.
	Ready func(Addresses)
	// Getenv reads the environment variables of OpenTelemetry; nil reads none.
	Getenv func(string) string
}

// Addresses are where a server answers.
type Addresses struct {
	URL    string // of the TCP listener; empty without one
	Socket string // path of the unix socket
}

const (
	// DefaultListen is the TCP address that is listened on.
	DefaultListen = "127.0.0.1:8440"
	// ListenNone is a Config.Listen without a TCP listener.
	ListenNone = "none"

	DefaultMaxRequests      = 4096
	DefaultMaxPerConnection = 128
	DefaultMaxConnections   = 4096
	DefaultGrace            = 20 * time.Second
)

const (
	headerTimeout  = 10 * time.Second
	readTimeout    = 90 * time.Second  // above the longest long poll: its end would break one off
	writeTimeout   = 120 * time.Second // from the end of the header to the end of the answer
	idleTimeout    = 120 * time.Second
	maxHeaderBytes = 16 << 10
)

// withDefaults checks what can be checked without touching anything, and fills in
// defaults.
func (c Config) withDefaults() (Config, error) {
	if c.Data == "" {
		return c, usage("a data directory is needed")
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return c, usage("TLS needs both files: the certificate and its key")
	}
	for _, limit := range []struct {
		name  string
		value *int
		usual int
	}{
		{"the limit of requests", &c.MaxRequests, DefaultMaxRequests},
		{"the limit of requests of a connection", &c.MaxPerConnection, DefaultMaxPerConnection},
		{"the limit of connections", &c.MaxConnections, DefaultMaxConnections},
	} {
		if *limit.value == 0 {
			*limit.value = limit.usual
		}
		if *limit.value < 1 || *limit.value > 1<<20 {
			return c, usage("%s is %d, expected 1 to %d", limit.name, *limit.value, 1<<20)
		}
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Grace < 0 || c.Grace > time.Hour {
		return c, usage("the time to finish requests is %s, expected 0s to 1h", c.Grace)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Getenv == nil {
		c.Getenv = func(string) string { return "" }
	}
	return c, nil
}

// checkAddress refuses a TCP address that the settings are too lax for.
func (c *Config) checkAddress(addr *net.TCPAddr) error {
	ip, _ := netip.AddrFromSlice(addr.IP)
	if ip.Unmap().IsLoopback() {
		return nil
	}
	if c.DevTokens {
		return usage("development tokens prove nothing, so they are taken on a loopback address only; listen on 127.0.0.1, or leave them out and make tokens with `writ token create`")
	}
	if c.TLSCert == "" && !c.InsecureListen {
		return usage("plain HTTP on %s would show every token to the network; give a certificate with --tls-cert and --tls-key, listen on 127.0.0.1, or say with --insecure-listen that something else protects the connection", addr)
	}
	return nil
}
