package cli

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/server"
)

// maxKeyFile bounds the file with the keys of signed tokens, in bytes.
const maxKeyFile = 256 << 10

// serveSettings are the settings of writ serve as they are written.
type serveSettings struct {
	server                server.Config
	config                string
	jwtKeys               string
	logLevel, logFormat   string
	order                 string
	fair                  bool
	retryBase, retryFloor float64
}

func (a *app) serve() *cobra.Command {
	var s serveSettings
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the work item authority as a server",
		Long: "Serve answers workers and submitters over HTTP, and the commands of this machine at a socket\n" +
			"in the data directory. An interrupt or SIGTERM stops it: running requests finish, leases stay.\n" +
			"SIGHUP reads the certificate again.\n\n" +
			"Every setting is a flag, an environment variable (WRIT_LISTEN for --listen) or a member of the\n" +
			"YAML file --config (listen: …); the first of these that says something counts.\n" +
			"docs/server.md explains them.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := readSettings(c.Flags(), serveNames(c), s.config, os.Getenv); err != nil {
				return err
			}
			cfg, err := s.resolve(a, c)
			if err != nil {
				return err
			}
			// The signal that ends every other command has another meaning here.
			signal.Reset(syscall.SIGHUP)
			reload, hangup := make(chan struct{}, 1), make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			go func() { // until the command ends, and with it the process
				for {
					select {
					case <-hangup:
						select {
						case reload <- struct{}{}:
						default: // one is waiting: it will read what is there then
						}
					case <-c.Context().Done():
						return
					}
				}
			}()
			cfg.Reload = reload
			if os.Getenv("GOGC") == "" {
				// What lives is small beside what requests leave behind: collecting
				// less often costs little memory and saves processor time.
				debug.SetGCPercent(400)
			}
			return server.Run(c.Context(), cfg)
		},
	}
	f := c.Flags()
	f.StringVar(&s.config, "config", "", "YAML file with settings")
	f.StringVar(&s.server.JobsDB, "jobs-db", "", "PostgreSQL database with the jobs, postgres://…; better in $"+databaseVariable+", where other users do not see it")
	f.StringVar(&s.server.Listen, "listen", server.DefaultListen, "TCP address, or none for the socket alone")
	f.BoolVar(&s.server.InsecureListen, "insecure-listen", false, "speak plain HTTP beyond this machine: something else protects the connection")
	f.StringVar(&s.server.TLSCert, "tls-cert", "", "file with the certificate, PEM")
	f.StringVar(&s.server.TLSKey, "tls-key", "", "file with the key of the certificate, PEM")
	f.BoolVar(&s.server.DevTokens, "dev-tokens", false, "take development tokens, which prove nothing, on a loopback address")
	f.StringVar(&s.jwtKeys, "jwt-keys", "", "file with the keys of signed tokens: JWKS, or public keys in PEM")
	f.StringVar(&s.server.JWT.URL, "jwt-url", "", "URL of a JWKS with the keys of signed tokens")
	f.StringVar(&s.server.JWT.Issuer, "jwt-issuer", "", "issuer that signed tokens must name")
	f.StringVar(&s.server.JWT.Audience, "jwt-audience", "", "audience that signed tokens must name")
	f.StringSliceVar(&s.server.Origins, "origin", nil, "web origin whose pages may call (repeatable)")
	f.BoolVar(&s.server.MetricsPublic, "metrics-public", false, "show /metrics to everybody who can connect")
	f.IntVar(&s.server.MaxRequests, "max-requests", server.DefaultMaxRequests, "requests at once, long polls included")
	f.IntVar(&s.server.MaxPerConnection, "max-per-connection", server.DefaultMaxPerConnection, "requests at once of one connection")
	f.IntVar(&s.server.MaxConnections, "max-connections", server.DefaultMaxConnections, "open connections")
	f.DurationVar(&s.server.Grace, "grace", server.DefaultGrace, "how long running requests may take to finish after a stop")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&s.logFormat, "log-format", "json", "json or text")
	f.StringVar(&s.order, "claim-order", "priority", "priority: larger priorities first; native: smaller buckets first, without priorities")
	f.BoolVar(&s.fair, "claim-fairness", true, "fairness groups take turns")
	f.StringToIntVar(&s.server.Work.Weights, "claim-fairness-weights", nil, "jobs of a group in one turn, GROUP=N (repeatable; default 1)")
	f.IntVar(&s.server.Work.Quota, "max-tenant-in-flight", 64, "live leases of one tenant, 1 to 4096")
	f.Float64Var(&s.retryBase, "retry-base-s", 30, "seconds before the first retry of a job that does not say")
	f.Float64Var(&s.retryFloor, "retry-floor-s", 1, "least seconds before any retry")
	f.DurationVar(&s.server.Work.ConsentTTL, "consent-default-ttl", 0, "how long a new consent lasts; 0 is without end")
	f.BoolVar(&s.server.Work.Strict, "contract-strict", false, "enforce the rules that span members of a request")
	f.BoolVar(&s.server.Work.Sweep, "deadline-sweep", false, "cancel jobs whose deadline has passed while they waited")
	return c
}

// serveNames are the settings that may come from the environment or the file: the
// flags of the command, and --data.
func serveNames(c *cobra.Command) []string {
	names := []string{"data"}
	for _, name := range flagNames(c.LocalNonPersistentFlags()) {
		if name != "config" && name != "help" {
			names = append(names, name)
		}
	}
	return names
}

// serveDoc is writ.serve.v1.
type serveDoc struct {
	Schema  string `json:"schema"`
	URL     string `json:"url"`
	Socket  string `json:"socket"`
	Version string `json:"version"`
}

// resolve turns what is written into the configuration of a server.
func (s *serveSettings) resolve(a *app, c *cobra.Command) (cfg server.Config, err error) {
	cfg = s.server
	if cfg.Data, err = a.dataDir(c.Context()); err != nil {
		return cfg, err
	}
	if s.jwtKeys != "" {
		if cfg.JWT.Keys, err = readKeys(s.jwtKeys); err != nil {
			return cfg, err
		}
	} else if cfg.JWT.URL == "" && (cfg.JWT.Issuer != "" || cfg.JWT.Audience != "") {
		return cfg, &usageError{fmt.Errorf("--jwt-issuer and --jwt-audience are checked in signed tokens only; give their keys with --jwt-keys or --jwt-url")}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return cfg, &usageError{fmt.Errorf("--log-level %q: expected debug, info, warn or error", s.logLevel)}
	}
	options := &slog.HandlerOptions{Level: level}
	switch s.logFormat {
	case "json":
		cfg.Log = slog.New(slog.NewJSONHandler(a.err, options))
	case "text":
		cfg.Log = slog.New(slog.NewTextHandler(a.err, options))
	default:
		return cfg, &usageError{fmt.Errorf("--log-format %q: expected json or text", s.logFormat)}
	}
	switch s.order {
	case "priority":
	case "native":
		cfg.Work.Native = true
	default:
		return cfg, &usageError{fmt.Errorf("--claim-order %q: expected priority or native", s.order)}
	}
	cfg.Work.Unfair = !s.fair
	// In the configuration of a server 0 is the default; whoever writes 0 means it.
	for name, n := range map[string]int{"max-tenant-in-flight": cfg.Work.Quota, "max-requests": cfg.MaxRequests,
		"max-per-connection": cfg.MaxPerConnection, "max-connections": cfg.MaxConnections} {
		if n < 1 {
			return cfg, &usageError{fmt.Errorf("--%s: expected at least 1", name)}
		}
	}
	if cfg.Grace == 0 {
		cfg.Grace = time.Nanosecond
	}
	if cfg.Work.RetryBase, err = secondsOf("retry-base-s", s.retryBase); err != nil {
		return cfg, err
	}
	if cfg.Work.RetryFloor, err = secondsOf("retry-floor-s", s.retryFloor); err != nil {
		return cfg, err
	}
	cfg.Getenv, cfg.Version = os.Getenv, version()
	cfg.Ready = func(at server.Addresses) {
		// Whoever reads it has nothing to say to a server that goes on.
		_ = a.print(serveDoc{Schema: "writ.serve.v1", URL: at.URL, Socket: at.Socket, Version: version()}, func() {
			if at.URL != "" {
				fmt.Fprintf(a.out, "%s  %s\n", a.style.bold(at.URL), "serving "+cfg.Data)
			} else {
				fmt.Fprintf(a.out, "%s  %s\n", a.style.bold(at.Socket), "serving "+cfg.Data)
			}
		})
	}
	return cfg, nil
}

// secondsOf reads a number of seconds within a day.
func secondsOf(name string, s float64) (*time.Duration, error) {
	if !(s >= 0 && s <= 86400) {
		return nil, &usageError{fmt.Errorf("--%s: expected 0 to 86400 seconds", name)}
	}
	d := time.Duration(s * float64(time.Second))
	return &d, nil
}
