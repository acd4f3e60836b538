package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/writ-authority/writ/internal/vfs"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/postgres"
	"github.com/writ-authority/writ/workitem/sqlite"
	"github.com/writ-authority/writ/workitem/transfer"
)

// storePatience is how long a start waits for a command that has the store open.
const storePatience = 5 * time.Second

// StorePath is where the jobs of a data directory are.
func StorePath(data string) string { return filepath.Join(data, "work.db") }

// Run opens the job store of a data directory, making both if they are not there, or
// that of a database, and serves it until ctx ends. It returns once everything that was
// begun has ended and the store is closed.
//
// Wrong settings are an ErrUsage. A data directory that another process has open is an
// ErrRunning or a sqlite.ErrLocked; nothing of it is touched.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return err
	}
	if cfg.Data, err = filepath.Abs(cfg.Data); err != nil {
		return err
	}
	var cert *certificate
	if cfg.TLSCert != "" {
		if cert, err = loadCertificate(cfg.TLSCert, cfg.TLSKey, cfg.Log, time.Now); err != nil {
			return err
		}
	}
	if err := vfs.MkdirAll(vfs.OS, cfg.Data, 0o700); err != nil {
		return err
	}
	if err := refuseSecond(ctx, cfg.Data); err != nil {
		return err
	}
	m := newMetrics()
	store, err := openStore(ctx, &cfg, m)
	if err != nil {
		return err
	}
	cfg.Work.Observer = m
	a, err := workitem.New(store, cfg.Work)
	if err != nil {
		if e := (*workitem.Error)(nil); errors.As(err, &e) && e.Code == workitem.InvalidRequest {
			err = usage("the setting %s %s", strings.NewReplacer(".", "-", "_", "-").Replace(e.Field), e.Message)
		}
		return errors.Join(err, store.Close())
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	w := work{
		as:     func(p workitem.Principal) operation.Jobs { return a.As(p) },
		tokens: a,
		health: a.Health,
		totals: func(ctx context.Context) (totals, error) { return readTotals(ctx, store) },
		export: func(ctx context.Context, w io.Writer, o transfer.Options) error {
			_, err := transfer.Export(ctx, store, w, o)
			return err
		},
		release: a.Release,
	}
	if local, ok := store.(*sqlite.Store); ok {
		w.copy = local.Copy
	}
	s, err := newServer(ctx, cfg, w, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.listen(ctx, cert)
}

// openStore opens the store that the settings name.
func openStore(ctx context.Context, cfg *Config, m *metrics) (workitem.Store, error) {
	patience, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	if cfg.JobsDB == "" {
		return sqlite.Open(patience, sqlite.Options{Path: StorePath(cfg.Data), Batch: m.Batch})
	}
	// The socket of the data directory is for one server, whose jobs are elsewhere.
	lock, err := vfs.OS.Lock(patience, StorePath(cfg.Data)+".lock", vfs.Exclusive)
	if errors.Is(err, vfs.ErrLocked) {
		err = sqlite.ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", StorePath(cfg.Data), err)
	}
	if there, err := vfs.Exists(vfs.OS, StorePath(cfg.Data)); err != nil || there {
		cfg.Log.Warn("the jobs of the data directory are not served, since a database has the jobs", "path", StorePath(cfg.Data))
	}
	store, err := postgres.Open(ctx, postgres.Options{URL: cfg.JobsDB, Batch: m.Batch, Log: cfg.Log})
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return &elsewhere{Store: store, lock: lock}, nil
}

// elsewhere is a store of jobs that is not in the data directory, which is locked as
// long as the store is open.
type elsewhere struct {
	workitem.Store
	lock vfs.Lock
}

func (s *elsewhere) Close() error { return errors.Join(s.Store.Close(), s.lock.Unlock()) }

// refuseSecond refuses to start beside a server that answers, without waiting for
// its store.
func refuseSecond(ctx context.Context, data string) error {
	serving, err := Answers(ctx, SocketPath(data))
	if err != nil {
		return err
	}
	if serving {
		return fmt.Errorf("%w: it answers at %s", ErrRunning, SocketPath(data))
	}
	return nil
}

// listen opens the listeners, says that it is ready, and serves.
func (s *Server) listen(ctx context.Context, cert *certificate) error {
	socket, err := listenSocket(ctx, s.cfg.Data)
	if err != nil {
		return err
	}
	at := Addresses{Socket: SocketPath(s.cfg.Data)}
	if s.cfg.Listen == ListenNone {
		return s.ready(ctx, at, nil, socket, nil)
	}
	tcp, err := s.cfg.listenTCP(ctx)
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	at.URL = "http://" + tcp.Addr().String()
	if cert != nil {
		at.URL = strings.Replace(at.URL, "http", "https", 1)
	}
	return s.ready(ctx, at, tcp, socket, cert)
}
