package bindb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// Config names one authority root and the runtime folder that serves it.
type Config struct {
	// FS is the file system; nil means the real one.
	FS vfs.FS
	// Dir is the root directory.
	Dir string
	// Kind says which inventory of files the root has.
	Kind record.Root
	// Label names the root's files below Runtime: "registry", or the decimal
	// repository index.
	Label string
	// Runtime is a folder outside of every root for journals, marks and
	// derived indexes. It holds no authority.
	Runtime string
	// Identity tells this root from every other one, so that a journal is never
	// applied to a root it does not describe.
	Identity [32]byte
	// LockWait bounds the wait for a lock; zero means 20 seconds.
	LockWait time.Duration
	// Guard, if set, is asked each time the root's locks were taken, before
	// anything is read. Its error means that the root is no longer the one to
	// use, and is returned in place of everything else.
	Guard func() error
	// Own makes the process the owner of the root while it is open: it holds the
	// file locks from Open to Close and keeps the records in memory, so that
	// views take no lock and wait for nobody. Other processes get ErrBusy.
	Own bool
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.OS
	}
	if c.LockWait == 0 {
		c.LockWait = 20 * time.Second
	}
	return c
}

func (c Config) journalPath() string { return filepath.Join(c.Runtime, "journal", c.Label) }
func (c Config) markPath() string    { return filepath.Join(c.Runtime, "mark", c.Label) }
func (c Config) indexDir() string    { return filepath.Join(c.Runtime, "index", c.Label) }

// Root is one open authority root. It is safe for concurrent use. Open gives
// it, Close ends it.
type Root struct {
	Config

	filesMu sync.Mutex
	files   []vfs.File // by family number, opened on first use
	locked  []error    // by family number: why a file could be opened for reading only

	// queue holds the mutations that wait for the next batch; whoever holds the
	// leader token applies them.
	queueMu    sync.Mutex
	queue      []*pending
	led        bool // the first in the queue leads, or has the token already
	leader     chan struct{}
	maxJournal int // bytes

	// What the owner of the root has. image is the latest durable batch, nil
	// for everybody else.
	owned fileLocks
	loads []load // by family number
	image atomic.Pointer[image]

	stats counters

	// rw keeps the views of this process from polling the file locks against
	// its own writer.
	rw sync.RWMutex

	failed atomic.Pointer[failure] // the failed sync, once there was one
	closed atomic.Bool

	// Written by the leader only, with rw held unless the root is owned.
	answered     int    // mutations in the last batch
	encoded      []byte // the last journal; its memory is used again
	journal      vfs.File
	journalID    vfs.FileID
	journalSize  int64
	journalNamed bool   // its directory entry is durable
	sealOwed     bool   // it was broken, which is not durable yet
	unsealed     bool   // it is durable that it was broken
	batch        uint64 // number of the latest batch of any process
	known        uint64 // number of the latest batch that this root has settled
	wrote        bool
	unseen       bool // there are records that neither a batch has written nor an open validated

	// sums are those of the batch that they name; they count only if it is the
	// latest one. The leader changes them with rw held. sumsDue asks for a clean
	// stop that writes them.
	sums    atomic.Pointer[sums]
	sumsDue atomic.Bool
	// sealed are those that an owner found. Of a file that was not loaded yet they
	// are true to the end, since a batch loads what it writes to.
	sealed *sums

	recovered []Recovery // changed with rw held

	jobs queueCache

	indexMu sync.Mutex // guards the map
	indexes map[*indexSpec]*index
	marked  *mark
}

// Create makes the directory of an empty root: every required file with its
// header, durable. The parent directory is not synced. It fails when Dir
// exists.
func Create(cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.FS.Mkdir(cfg.Dir, 0o700); err != nil {
		return err
	}
	var files []vfs.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // already synced, or already failed
		}
	}()
	for _, name := range record.Files(cfg.Kind) {
		f, err := cfg.FS.OpenFile(filepath.Join(cfg.Dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		files = append(files, f)
		if _, err := f.WriteAt(header[:], 0); err != nil {
			return err
		}
	}
	// The lock files too, so that a root that nobody has written to yet can be
	// read where nothing can be made.
	for _, path := range cfg.lockPaths() {
		if err := vfs.MkdirAll(cfg.FS, filepath.Dir(path), 0o700); err != nil {
			return err
		}
		f, err := cfg.FS.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := syncAll(files); err != nil {
		return err
	}
	return cfg.FS.SyncDir(cfg.Dir)
}

// Open opens a root, finishes or takes back an interrupted batch, and validates
// what no clean stop has vouched for. The error is ErrLayout, ErrCorrupt (with
// file, record and field), ErrForeign, ErrBusy or an I/O error.
func Open(ctx context.Context, cfg Config) (*Root, error) {
	r := newRoot(cfg)
	if err := r.open(ctx); err != nil {
		r.closeFiles()
		if r.Guard != nil {
			if gerr := r.Guard(); gerr != nil {
				err = gerr
			}
		}
		return nil, fmt.Errorf("open %s: %w", cfg.Dir, err)
	}
	return r, nil
}

func newRoot(cfg Config) *Root {
	cfg = cfg.withDefaults()
	return &Root{
		Config:     cfg,
		files:      make([]vfs.File, len(families)),
		locked:     make([]error, len(families)),
		loads:      make([]load, len(families)),
		leader:     make(chan struct{}, 1),
		maxJournal: maxJournal,
		indexes:    map[*indexSpec]*index{},
	}
}

func (r *Root) open(ctx context.Context) error {
	info, err := r.FS.Lstat(r.Dir)
	if err != nil {
		return err
	}
	if !info.Mode.IsDir() {
		return firstOf([]Finding{r.notDirectory()}, nil)
	}
	entries, err := r.FS.ReadDir(r.Dir)
	if err != nil {
		return err
	}
	foreign := false
	if forms := formsOf(r.Kind, entries); len(forms) > 0 {
		if foreign, err = r.recoverForms(ctx, forms); err != nil {
			return err
		}
		if entries, err = r.FS.ReadDir(r.Dir); err != nil {
			return err
		}
	}
	if err := firstOf(r.closure(entries), nil); err != nil {
		return err
	}
	if r.Own {
		return r.own(ctx, foreign)
	}
	h, err := r.journalHead()
	if err != nil {
		return err
	}
	reverted := false
	if h.interrupted() { // or its writer is at work, which the lock will show
		if reverted, err = r.settle(ctx); err != nil {
			return err
		}
	}
	r.takeMark(reverted || foreign)
	return r.View(ctx, func(rd Reader) error {
		// Once more, since another writer may have died before the lock was free.
		entries, err := r.FS.ReadDir(r.Dir)
		if err != nil {
			return err
		}
		if err := firstOf(r.closure(entries), nil); err != nil {
			return err
		}
		if err := r.validate(ctx, rd, r.marked); err != nil || r.marked != nil {
			return err
		}
		return r.sumAll(rd)
	})
}

// own takes the locks for good and makes the first image.
func (r *Root) own(ctx context.Context, foreign bool) error {
	var err error
	if r.owned, err = r.lock(ctx, vfs.Exclusive); err != nil {
		return err
	}
	reverted, err := r.recover()
	if err != nil {
		return err
	}
	r.takeMark(reverted || foreign)
	entries, err := r.FS.ReadDir(r.Dir)
	if err != nil {
		return err
	}
	// Once more, since another writer may have died before the lock was free.
	if err := firstOf(r.closure(entries), nil); err != nil {
		return err
	}
	for _, e := range entries {
		if f, ok := byFile[e.Name]; ok {
			r.loads[f.no].size = e.Size
		}
	}
	if r.sealed = r.currentSums(r.batch); r.sealed != nil {
		r.sums.Store(r.sealed)
	}
	img := &image{r: r, files: make([]*fileImage, len(families))}
	r.image.Store(img)
	if err := r.validate(ctx, img, r.marked); err != nil || r.marked != nil {
		return err
	}
	return r.sumAll(img)
}

// takeMark goes on with the numbers of the last clean stop, and with what it
// vouches for unless something was taken back since.
func (r *Root) takeMark(reverted bool) {
	m := r.readMark()
	if m == nil {
		return
	}
	r.batch = max(r.batch, m.Batch)
	if !reverted {
		r.marked = m
	}
}

// file returns the open file of a family.
func (r *Root) file(f *family) (vfs.File, error) {
	r.filesMu.Lock()
	defer r.filesMu.Unlock()
	if file := r.files[f.no]; file != nil {
		return file, nil
	}
	if f.root != r.Kind {
		panic("bindb: " + f.file + " is no file of the " + r.Kind.String() + " root")
	}
	if r.closed.Load() {
		return nil, ErrClosed
	}
	// A root on read-only media is opened for reading.
	path := filepath.Join(r.Dir, f.file)
	file, err := r.FS.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		r.locked[f.no] = err
		file, err = r.FS.OpenFile(path, os.O_RDONLY, 0)
	}
	if err != nil {
		return nil, err
	}
	if file, err = checkHeader(file, f.file); err != nil {
		return nil, err
	}
	r.files[f.no] = file
	return file, nil
}

// writable returns the error of opening a file for writing.
func (r *Root) writable(f *family) error {
	if _, err := r.file(f); err != nil {
		return err
	}
	r.filesMu.Lock()
	defer r.filesMu.Unlock()
	return r.locked[f.no]
}

// checkHeader closes a file of another layout.
func checkHeader(file vfs.File, name string) (vfs.File, error) {
	var h [HeaderSize]byte
	if err := readFull(file, name, h[:], 0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if h != header {
		err := fmt.Errorf("%s: %w: header % x, expected % x", name, ErrLayout, h, header)
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Close ends the use of the root, after the mutations and views that are under
// way. After a clean run it leaves the mark that lets the next open skip what was
// validated, refreshes indexes that have fallen behind, and removes the journal.
// None of that is authority, so that a failure of it is not an error.
func (r *Root) Close() error {
	r.leader <- struct{}{}
	defer func() { <-r.leader }()
	r.rw.Lock()
	defer r.rw.Unlock()
	if r.closed.Load() {
		return ErrClosed
	}
	if r.failed.Load() == nil {
		r.leaveClean()
	}
	r.closed.Store(true)
	return r.closeFiles()
}

func (r *Root) closeFiles() error {
	r.filesMu.Lock()
	defer r.filesMu.Unlock()
	var errs []error
	for i, f := range r.files {
		if f != nil {
			errs = append(errs, f.Close())
			r.files[i] = nil
		}
	}
	if r.journal != nil {
		errs = append(errs, r.journal.Close())
		r.journal = nil
	}
	r.owned.unlock()
	r.owned = nil
	return errors.Join(errs...)
}

// syncAll makes files durable side by side, so that the disk sees them as one
// group.
func syncAll(files []vfs.File) error {
	const width = 8
	if len(files) == 1 {
		return files[0].Sync()
	}
	errs := make([]error, len(files))
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(width, len(files)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(files) {
					return
				}
				errs[i] = files[i].Sync()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// CreateWith makes an empty root and commits fn's writes as its first batch, for
// a root that is not valid while empty. It leaves the root closed.
func CreateWith(ctx context.Context, cfg Config, fn func(*Tx) error) error {
	if err := Create(cfg); err != nil {
		return err
	}
	cfg.Own = false
	r := newRoot(cfg)
	r.sums.Store(r.emptySums())
	if err := r.Update(ctx, fn); err != nil {
		return errors.Join(err, r.closeFiles())
	}
	return r.Close()
}
