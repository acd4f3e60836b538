package bench

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	dto "github.com/prometheus/client_model/go"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// recordSize is the length of a Worker Job; every peer stores as much.
const recordSize = 52

var bucket = []byte("jobs")

// ticket gives each put of a peer a key of its own, ascending as Writ's are.
type ticket struct{ atomic.Uint64 }

func (t *ticket) key() []byte { return binary.BigEndian.AppendUint64(nil, t.Add(1)) }

func openBolt(b *testing.B, dir string) *bolt.DB {
	b.Helper()
	db, err := bolt.Open(filepath.Join(dir, "bolt.db"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	if err := db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return db
}

// boltUpdate puts one record in a transaction of its own.
func boltUpdate(b *testing.B, dir string) *contestant {
	db := openBolt(b, dir)
	var t ticket
	return &contestant{
		name: "bbolt-Update", durability: "defaults: fdatasync of pages, then of the meta page",
		op: func(int, int) error {
			return db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put(t.key(), make([]byte, recordSize)) })
		},
		syncs: func() float64 { return 2 * float64(t.Load()) },
	}
}

// boltBatch lets concurrent callers share a transaction. Its delay is set so that a
// batch goes as soon as all callers wait.
func boltBatch(b *testing.B, dir string, callers int) *contestant {
	db := openBolt(b, dir)
	db.MaxBatchSize, db.MaxBatchDelay = callers, 200*time.Microsecond
	var t ticket
	return &contestant{
		name: "bbolt-Batch", durability: fmt.Sprintf("as Update, MaxBatchSize %d, MaxBatchDelay %s", db.MaxBatchSize, db.MaxBatchDelay),
		op: func(int, int) error {
			key := t.key()
			return db.Batch(func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put(key, make([]byte, recordSize)) })
		},
	}
}

func pebbleSet(b *testing.B, dir string) *contestant {
	b.Helper()
	db, err := pebble.Open(filepath.Join(dir, "pebble"), &pebble.Options{Logger: quiet{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	var t ticket
	return &contestant{
		name: "pebble", durability: "Set with Sync, shared WAL syncs",
		op: func(int, int) error { return db.Set(t.key(), make([]byte, recordSize), pebble.Sync) },
		syncs: func() float64 {
			var m dto.Metric
			if err := db.Metrics().LogWriter.FsyncLatency.Write(&m); err != nil {
				return 0
			}
			return float64(m.GetHistogram().GetSampleCount())
		},
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func sqliteInsert(b *testing.B, dir string) *contestant {
	b.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(dir, "jobs.sqlite"), sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	for _, q := range []string{
		"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
		"CREATE TABLE jobs (id INTEGER PRIMARY KEY, record BLOB NOT NULL)",
	} {
		if err := sqlitex.ExecuteTransient(conn, q, nil); err != nil {
			b.Fatal(err)
		}
	}
	var mu sync.Mutex // a connection has one user at a time
	return &contestant{
		name: "sqlite", durability: "WAL, synchronous=FULL, a transaction an insert",
		op: func(int, int) error {
			mu.Lock()
			defer mu.Unlock()
			return sqlitex.Execute(conn, "INSERT INTO jobs (record) VALUES (?)", &sqlitex.ExecOptions{Args: []any{make([]byte, recordSize)}})
		},
	}
}

// raw appends a record and waits for fdatasync: what the disk gives. Concurrent
// callers share a sync.
type raw struct {
	f       *os.File
	mu      sync.Mutex
	waiting []chan error
	leader  chan struct{}
	end     int64
	synced  atomic.Int64
}

func rawAppend(b *testing.B, dir string) *contestant {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	r := &raw{f: f, leader: make(chan struct{}, 1)}
	return &contestant{
		name: "raw-append", durability: "append and fdatasync, shared by those who wait",
		op:    func(int, int) error { return r.append() },
		syncs: func() float64 { return float64(r.synced.Load()) },
	}
}

func (r *raw) append() error {
	done := make(chan error, 1)
	r.mu.Lock()
	r.waiting = append(r.waiting, done)
	r.mu.Unlock()
	select {
	case err := <-done:
		return err
	case r.leader <- struct{}{}:
	}
	r.mu.Lock()
	group := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	if len(group) > 0 {
		data := make([]byte, recordSize*len(group))
		_, err := r.f.WriteAt(data, r.end)
		if err == nil {
			err = unix.Fdatasync(int(r.f.Fd()))
		}
		r.end += int64(len(data))
		r.synced.Add(1)
		for _, c := range group {
			c <- err
		}
	}
	<-r.leader
	return <-done
}
