package authority

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// Options say where an authority lives and what it takes from its surroundings.
type Options struct {
	// Dir is the data directory.
	Dir string
	// FS is the file system; nil means the real one.
	FS vfs.FS
	// Clock is the only clock that counts; nil means time.Now.
	Clock func() time.Time
	// Random gives tokens and ids; nil means crypto/rand.
	Random io.Reader
	// LockWait bounds the wait for a lock; zero means 20 seconds.
	LockWait time.Duration
	// Lease is how long a claim or a heartbeat holds; zero means 60 seconds.
	Lease time.Duration
	// RetryDelay is how long a failed Job waits; zero means 15 seconds.
	RetryDelay time.Duration
	// Own makes this process the owner of the registry and of every Repository
	// that it opens, see bindb.Config.
	Own bool
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.LockWait == 0 {
		o.LockWait = 20 * time.Second
	}
	if o.Lease == 0 {
		o.Lease = 60 * time.Second
	}
	if o.RetryDelay == 0 {
		o.RetryDelay = 15 * time.Second
	}
	return o
}

// now is the clock in whole seconds, never zero.
func (o Options) now() record.Seconds {
	return record.Seconds(max(o.Clock().Unix(), 1))
}

// FirstRepository is the index of a user's first Repository.
const FirstRepository = 4

// DefaultFlags are the requirements of a new user Repository: tests, relaxed for
// changes that touch documentation only.
const DefaultFlags record.PolicyFlags = 0x82

const (
	activeFamily = "writ.active.v"
	activeSchema = activeFamily + "1"
)

// active is the content of active.json, which names the generation that counts.
type active struct {
	Schema       string `json:"schema"`
	LayoutID     int    `json:"layout_id"`
	Generation   uint64 `json:"generation"`
	Installation string `json:"installation"`
	Epoch        uint64 `json:"epoch"`

	// guard tells an open authority that it was replaced; nil asks nothing.
	guard func() error
}

// Authority is one open installation. It is safe for concurrent use.
type Authority struct {
	opt    Options
	active active
	watch  *watch

	registry  *bindb.Root
	purgeStep uint32 // records
	requests  requestGate

	mu    sync.Mutex
	repos map[uint32]*Repository
}

func (o Options) generation(n uint64) string {
	return filepath.Join(o.Dir, "generations", strconv.FormatUint(n, 10))
}

func (o Options) runtime() string { return filepath.Join(o.Dir, "runtime") }

// rootRuntime is where the roots of a generation have their journals, marks and
// indexes. Each generation has its own, so that those of another one are never
// found. The first has the one that was there before there were others.
func (o Options) rootRuntime(n uint64) string {
	if n == 1 {
		return o.runtime()
	}
	return filepath.Join(o.runtime(), "generation-"+strconv.FormatUint(n, 10))
}

func (o Options) config(a active, kind record.Root, label string) bindb.Config {
	dir := filepath.Join(o.generation(a.Generation), "registry")
	if kind == record.RootAuthority {
		dir = filepath.Join(o.generation(a.Generation), "repositories", label)
	}
	return bindb.Config{
		FS: o.FS, Dir: dir, Kind: kind, Label: label, Runtime: o.rootRuntime(a.Generation), LockWait: o.LockWait, Guard: a.guard, Own: o.Own,
		Identity: sha256.Sum256(fmt.Appendf(nil, "writ root %s/%d/%s", a.Installation, a.Generation, label)),
	}
}

// Create makes an installation in o.Dir with the four reserved Repositories and
// one user Repository, at index 4, and opens it. Everything is durable before
// active.json names it; what an interrupted creation left is replaced. The error
// is ErrExists when there is one already, bindb.ErrBusy while somebody else is
// making it, and bindb.ErrCorrupt when active.json is missing but there are
// records that it must have named: those are left alone.
func Create(ctx context.Context, o Options, name string, flags record.PolicyFlags) (*Authority, error) {
	return CreateNamespaced(ctx, o, name, record.Namespace{}, flags)
}

// CreateNamespaced is Create with a namespace for the Repository.
func CreateNamespaced(ctx context.Context, o Options, name string, ns record.Namespace, flags record.PolicyFlags) (*Authority, error) {
	o = o.withDefaults()
	if err := create(ctx, o, name, ns, flags); err != nil {
		return nil, fmt.Errorf("create the authority in %s: %w", o.Dir, err)
	}
	return Open(ctx, o)
}

func create(ctx context.Context, o Options, name string, ns record.Namespace, flags record.PolicyFlags) error {
	if err := validNamespace(ns); err != nil {
		return err
	}
	if err := suitable(o); err != nil {
		return err
	}
	if err := vfs.MkdirAll(o.FS, o.Dir, 0o700); err != nil {
		return err
	}
	lock, err := o.lockLifecycle(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }()
	if there, err := vfs.Exists(o.FS, o.activePath()); err != nil {
		return err
	} else if there {
		return ErrExists
	}
	if _, err := namePayload(name); err != nil {
		return err
	}
	if err := o.clear(); err != nil {
		return err
	}
	id := make([]byte, 16)
	if _, err := io.ReadFull(o.Random, id); err != nil {
		return err
	}
	a := active{Schema: activeSchema, LayoutID: bindb.LayoutID, Generation: 1, Installation: hex.EncodeToString(id), Epoch: 1}
	gen := o.generation(1)
	repos := filepath.Join(gen, "repositories")
	for _, dir := range []string{repos, o.runtime()} {
		if err := vfs.MkdirAll(o.FS, dir, 0o700); err != nil {
			return err
		}
	}
	if err := o.markUnpublished(a.Generation); err != nil {
		return err
	}
	names := append(append([]string(nil), record.ReservedRepositories[:]...), name)
	errs := make([]error, len(names)+1)
	var wg sync.WaitGroup
	for i := range names {
		wg.Go(func() {
			errs[i] = bindb.Create(o.config(a, record.RootAuthority, strconv.Itoa(i)))
		})
	}
	wg.Go(func() {
		errs[len(names)] = bindb.CreateWith(ctx, o.config(a, record.RootRegistry, "registry"), func(tx *bindb.Tx) error {
			for i, n := range names {
				in, f := record.Namespace{}, record.DefaultPolicyFlags
				if i >= FirstRepository {
					in, f = ns, flags
				}
				if _, err := appendRepository(tx, n, in, f, o.now()); err != nil {
					return err
				}
			}
			return nil
		})
	})
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err // the others have the same cause
		}
	}
	for _, dir := range []string{repos, gen, filepath.Dir(gen), o.Dir} {
		if err := o.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := o.writeActive(a); err != nil {
		return err
	}
	o.unmarkPublished(a.Generation)
	return nil
}

// lockLifecycle takes the lock under which active.json is written.
func (o Options) lockLifecycle(ctx context.Context) (vfs.Lock, error) {
	wait, cancel := context.WithTimeout(ctx, o.LockWait)
	defer cancel()
	lock, err := o.FS.Lock(wait, filepath.Join(o.Dir, "lifecycle.lock"), vfs.Exclusive)
	if err == nil {
		return lock, nil
	}
	if cerr := ctx.Err(); cerr != nil {
		return nil, cerr
	}
	if errors.Is(err, vfs.ErrLocked) {
		err = fmt.Errorf("%w: %w", bindb.ErrBusy, err)
	}
	return nil, err
}

func (o Options) activePath() string { return filepath.Join(o.Dir, "active.json") }

func (o Options) writeActive(a active) error {
	b, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(o.FS, o.activePath(), append(b, '\n'), 0o600)
}

// clear removes what an interrupted creation left, and nothing else: o.Dir may be
// any directory, and active.json may have been lost.
func (o Options) clear() error {
	if err := o.discardStaging(0); err != nil {
		return err
	}
	generations := filepath.Dir(o.generation(1))
	list, err := readDir(o.FS, generations)
	if err != nil {
		return err
	}
	lost := func(path string) error {
		return fmt.Errorf("%w: active.json is missing, but %s is there; put active.json back", bindb.ErrCorrupt, path)
	}
	for _, g := range list {
		if g.Name != "1" {
			return lost(filepath.Join(generations, g.Name))
		}
	}
	repos := filepath.Join(o.generation(1), "repositories")
	if file, err := o.firstContent(1); err != nil {
		return err
	} else if file != "" {
		return lost(file)
	}
	left := []string{repos, filepath.Join(o.generation(1), "registry")}
	// Journals, marks and leases of the roots that are removed belong to nobody.
	for _, name := range []string{"journal", "mark", "sums", "index", "staging", "leases"} {
		left = append(left, filepath.Join(o.runtime(), name))
	}
	for _, path := range left {
		if err := o.FS.RemoveAll(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if rest, err := readDir(o.FS, o.generation(1)); err != nil || len(rest) > 0 {
		return err
	}
	if err := o.FS.Remove(o.generation(1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// firstContent returns a file of a generation's Repositories that holds more than
// its header, or "".
func (o Options) firstContent(n uint64) (string, error) {
	repos := filepath.Join(o.generation(n), "repositories")
	list, err := readDir(o.FS, repos)
	if err != nil {
		return "", err
	}
	for _, r := range list {
		files, err := readDir(o.FS, filepath.Join(repos, r.Name))
		if err != nil {
			return "", err
		}
		for _, f := range files {
			if filepath.Ext(f.Name) == ".bin" && f.Size > bindb.HeaderSize {
				return filepath.Join(repos, r.Name, f.Name), nil
			}
		}
	}
	return "", nil
}

// readDir takes a directory that does not exist for an empty one.
func readDir(fsys vfs.FS, dir string) ([]vfs.Info, error) {
	list, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// Open opens the installation in o.Dir. The error is ErrNoAuthority when there is
// none, ErrNewerFormat, or one of package bindb's.
func Open(ctx context.Context, o Options) (*Authority, error) {
	o = o.withDefaults()
	if err := suitable(o); err != nil {
		return nil, err
	}
	const tries = 3
	for try := 1; ; try++ {
		a, err := open(ctx, o)
		// Somebody else may have put another generation in place meanwhile.
		if err == nil || !errors.Is(err, ErrGeneration) || try == tries {
			return a, err
		}
	}
}

func open(ctx context.Context, o Options) (*Authority, error) {
	if err := o.settleSwitch(ctx); err != nil {
		return nil, err
	}
	w, err := newWatch(o)
	if err != nil {
		return nil, err
	}
	au := &Authority{opt: o, active: w.active, watch: w, purgeStep: defaultPurgeStep, repos: map[uint32]*Repository{}}
	au.active.guard = w.check
	au.registry, err = bindb.Open(ctx, o.config(au.active, record.RootRegistry, "registry"))
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	left, err := au.checkDirectories(ctx)
	if err != nil {
		return nil, errors.Join(err, au.registry.Close(), w.close())
	}
	if left {
		au.sweep(ctx)
	}
	return au, nil
}

// suitable refuses a data directory whose locks or syncs cannot be relied on.
func suitable(o Options) error {
	info, err := o.FS.Lstat(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !info.Mode.IsDir() {
		return fmt.Errorf("%w: %s is not a real directory", ErrUnsuitable, o.Dir)
	}
	if o.FS != vfs.OS {
		return nil
	}
	kind, remote, err := vfs.Network(o.Dir)
	if err == nil && remote {
		err = fmt.Errorf("%w: %s lies on a network file system (%s)", ErrUnsuitable, o.Dir, kind)
	}
	return err
}

func readActive(o Options) (active, error) {
	path := o.activePath()
	raw, err := vfs.ReadFile(o.FS, path, maxActive)
	return decodeActive(path, raw, err)
}

// maxActive bounds active.json, in bytes.
const maxActive = 64 << 10

// decodeActive takes what reading active.json gave.
func decodeActive(path string, raw []byte, err error) (active, error) {
	var a active
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s %w: %w", bindb.ErrCorrupt, path, ErrDamagedActive, fmt.Errorf(format, args...))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return a, fmt.Errorf("%w: %s does not exist", ErrNoAuthority, path)
	}
	if errors.Is(err, vfs.ErrTooLarge) {
		return a, damaged("%w", err)
	}
	if err != nil {
		return a, err
	}
	// The schema comes first: a newer one may give the other fields other types.
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return a, damaged("%w", err)
	}
	if !strings.HasPrefix(head.Schema, activeFamily) {
		return a, damaged("schema is %q, want %q", head.Schema, activeSchema)
	}
	if err := json.Unmarshal(raw, &a); err != nil && head.Schema == activeSchema {
		return a, damaged("%w", err)
	}
	a.Schema = head.Schema
	if a.Schema != activeSchema || a.LayoutID != bindb.LayoutID {
		return a, fmt.Errorf("%s: %w: schema %q, layout %d; this program knows %q, layout %d",
			path, ErrNewerFormat, a.Schema, a.LayoutID, activeSchema, bindb.LayoutID)
	}
	if err := a.check(); err != nil {
		return a, damaged("%w", err)
	}
	return a, nil
}

// same reports whether both name one generation of one installation.
func (a active) same(b active) bool {
	return a.Installation == b.Installation && a.Generation == b.Generation && a.Epoch == b.Epoch
}

func (a active) check() error {
	if id, err := hex.DecodeString(a.Installation); err != nil || len(id) != 16 || a.Epoch == 0 || a.Generation == 0 {
		return errors.New("installation, epoch or generation is malformed")
	}
	return nil
}

// Close closes every root.
func (a *Authority) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	errs := []error{a.registry.Close()}
	for _, r := range a.repos {
		errs = append(errs, r.root.Close(), r.closeLeases())
	}
	a.repos = map[uint32]*Repository{}
	errs = append(errs, a.watch.close())
	return errors.Join(errs...)
}

// Dir is the data directory.
func (a *Authority) Dir() string { return a.opt.Dir }

// Installation is the random id of the installation, 32 hexadecimal digits.
func (a *Authority) Installation() string { return a.active.Installation }

// Epoch counts restores. Leases and cursors of an earlier epoch are void.
func (a *Authority) Epoch() uint64 { return a.active.Epoch }

// Registry is the Binary DB root of the registry, for checks and dumps.
func (a *Authority) Registry() *bindb.Root { return a.registry }
