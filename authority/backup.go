package authority

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

const (
	backupSchema = "writ.backup.v1"
	backupFile   = "backup.json"
	// maxManifest bounds backup.json, in bytes. A Repository takes some 8 KiB.
	maxManifest = 512 << 20
)

// Manifest is the content of backup.json: what a backup is of, and every file in
// it. A backup has the authority files only; all the rest can be made from them.
type Manifest struct {
	Schema       string         `json:"schema"`
	LayoutID     int            `json:"layout_id"`
	Version      string         `json:"version"` // of the program that made it
	CreatedAt    string         `json:"created_at"`
	Installation string         `json:"installation"`
	Generation   uint64         `json:"generation"`
	Epoch        uint64         `json:"epoch"`
	Repositories int            `json:"repositories"` // directories, purged ones included
	Bytes        int64          `json:"bytes"`        // of all files
	Files        []ManifestFile `json:"files"`
	// Digest is the SHA-256 of this document with an empty digest.
	Digest string `json:"digest"`
}

// ManifestFile is one file of a backup.
type ManifestFile struct {
	Path   string `json:"path"` // below the backup, with slashes
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

func (m Manifest) digest() (string, error) {
	m.Digest = ""
	b, err := json.Marshal(m)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

// counter adds up the bytes of a long piece of work.
type counter struct {
	done, total int64
	tell        func(done, total int64)
}

func (c *counter) add(n int64) {
	c.done += n
	if c.tell != nil {
		c.tell(min(c.done, c.total), c.total)
	}
}

// Backup writes a copy of the whole installation to the directory dst, which must
// not exist, while others go on working. The registry is held for the time, so
// that no Repository is added and no lifecycle changes; a Repository's writers
// wait for what they themselves have changed since the copy of it began.
//
// The copy is validated completely and durable before it gets its name. A failed
// one leaves nothing behind, a killed one a directory ".<name>.partial-…" beside
// dst. progress, if not nil, is told how many bytes were copied.
func (a *Authority) Backup(ctx context.Context, dst string, progress func(done, total int64)) (Manifest, error) {
	m, err := a.backup(ctx, filepath.Clean(dst), progress)
	if err != nil {
		return Manifest{}, fmt.Errorf("backup to %s: %w", dst, err)
	}
	return m, nil
}

func (a *Authority) backup(ctx context.Context, dst string, progress func(done, total int64)) (m Manifest, err error) {
	fsys := a.opt.FS
	if there, err := vfs.Exists(fsys, dst); err != nil {
		return m, err
	} else if there {
		return m, fmt.Errorf("%w: expected a name that is free", fs.ErrExist)
	}
	if err := a.outside(filepath.Dir(dst)); err != nil {
		return m, err
	}
	suffix := make([]byte, 8)
	if _, err := io.ReadFull(a.opt.Random, suffix); err != nil {
		return m, err
	}
	temp := filepath.Join(filepath.Dir(dst), fmt.Sprintf(".%s.partial-%x", filepath.Base(dst), suffix))
	if err := fsys.Mkdir(temp, 0o700); err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, fsys.RemoveAll(temp))
		}
	}()
	m = Manifest{
		Schema: backupSchema, LayoutID: bindb.LayoutID, Version: programVersion(),
		CreatedAt:    a.opt.Clock().UTC().Format(time.RFC3339),
		Installation: a.active.Installation, Generation: a.active.Generation, Epoch: a.active.Epoch,
	}
	if err := a.holdRegistry(ctx, func(r bindb.Reader) error { return a.copyRoots(ctx, r, temp, &m, progress) }); err != nil {
		return m, err
	}
	for _, f := range m.Files {
		m.Bytes += f.Size
	}
	if m.Digest, err = m.digest(); err != nil {
		return m, err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return m, err
	}
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(temp, backupFile), append(b, '\n'), 0o600); err != nil {
		return m, err
	}
	if _, err := verifyRoots(ctx, a.opt, temp, m); err != nil {
		return m, fmt.Errorf("the copy is not sound: %w", err)
	}
	if err := fsys.SyncDir(temp); err != nil {
		return m, err
	}
	if err := fsys.Rename(temp, dst); err != nil {
		return m, err
	}
	if err := fsys.SyncDir(filepath.Dir(dst)); err != nil {
		return m, errors.Join(err, fsys.Rename(dst, temp)) // it is complete, if it must stay
	}
	return m, nil
}

// outside refuses a directory inside the data directory, and one that is not
// there.
func (a *Authority) outside(dir string) error {
	data, err := a.opt.FS.Lstat(a.opt.Dir)
	if err != nil {
		return err
	}
	for at := dir; ; at = filepath.Dir(at) {
		// With a dot behind it a symbolic link is followed.
		info, err := a.opt.FS.Lstat(at + string(filepath.Separator) + ".")
		if err != nil {
			return err
		}
		if info.ID == data.ID {
			return fmt.Errorf("%w: a backup must lie outside of the data directory %s", ErrUnsuitable, a.opt.Dir)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// holdRegistry runs fn with no registration and no change of lifecycle in between,
// after interrupted purges have been ended.
func (a *Authority) holdRegistry(ctx context.Context, fn func(bindb.Reader) error) error {
	if err := a.settlePurges(ctx); err != nil {
		return err
	}
	if a.opt.Own { // a view alone would hold nobody
		return a.registry.Exclusive(ctx, func(s *bindb.Session) error { return s.View(fn) })
	}
	return a.registry.View(ctx, fn)
}

// copyRoots copies the registry and every Repository that has a directory.
func (a *Authority) copyRoots(ctx context.Context, reg bindb.Reader, dir string, m *Manifest, progress func(done, total int64)) error {
	fsys := a.opt.FS
	list, err := listRepositories(reg)
	if err != nil {
		return err
	}
	list = withDirectory(list)
	total, err := sizeOf(fsys, a.registry.Dir)
	if err != nil {
		return err
	}
	for _, info := range list {
		n, err := sizeOf(fsys, a.authorityConfig(info.Index).Dir)
		if err != nil {
			return err
		}
		total += n
	}
	c := &counter{total: total, tell: progress}
	write := func(name string, copyTo func(dir string) ([]bindb.FileSum, error)) error {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := fsys.Mkdir(to, 0o700); err != nil {
			return err
		}
		sums, err := copyTo(to)
		if err != nil {
			return err
		}
		for _, s := range sums {
			m.Files = append(m.Files, ManifestFile{name + "/" + s.Name, s.Size, hex.EncodeToString(s.SHA256[:])})
		}
		return nil
	}
	err = write("registry", func(to string) ([]bindb.FileSum, error) { return bindb.CopyView(ctx, reg, fsys, to, c.add) })
	if err != nil {
		return err
	}
	if err := fsys.Mkdir(filepath.Join(dir, "repositories"), 0o700); err != nil {
		return err
	}
	for _, info := range list {
		err := write("repositories/"+label(info.Index), func(to string) (sums []bindb.FileSum, err error) {
			err = a.withRoot(ctx, info.Index, func(root *bindb.Root) (err error) {
				sums, err = root.Copy(ctx, fsys, to, c.add)
				return err
			})
			return sums, err
		})
		if err != nil {
			return err
		}
	}
	m.Repositories = len(list)
	return fsys.SyncDir(filepath.Join(dir, "repositories"))
}

// withRoot runs fn on the root of a Repository, which may be purged. One that is
// not open is open for the time only: there may be very many of them.
func (a *Authority) withRoot(ctx context.Context, index uint32, fn func(*bindb.Root) error) (err error) {
	// No purge begins while the registry is held, but the process of one may have
	// died after they were ended.
	if left, err := bindb.PurgeLeft(a.authorityConfig(index)); err != nil {
		return err
	} else if left {
		return fmt.Errorf("repository %d: %w: a purge of it was interrupted a moment ago; try again", index, bindb.ErrBusy)
	}
	a.mu.Lock()
	open := a.repos[index]
	a.mu.Unlock()
	if open != nil {
		return fn(open.root)
	}
	root, err := bindb.Open(ctx, a.authorityConfig(index))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return fn(root)
}

// sizeOf is the number of bytes in the authority files of a root at the moment.
func sizeOf(fsys vfs.FS, dir string) (int64, error) {
	list, err := fsys.ReadDir(dir)
	total := int64(0)
	for _, e := range list {
		if filepath.Ext(e.Name) == ".bin" {
			total += e.Size
		}
	}
	return total, err
}

// programVersion is the version of the module that this program was built from.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return cmp.Or(info.Main.Version, "unknown")
}

// Verify reads a backup and checks all of it: that exactly the files of backup.json
// are there, with their sizes and sums, and that the roots satisfy every rule of
// the format. It writes nothing. The error is ErrNoBackup when dir is no
// backup, ErrNewerFormat, or bindb.ErrCorrupt with what was found first.
func Verify(ctx context.Context, o Options, dir string, progress func(done, total int64)) (Manifest, error) {
	o = o.withDefaults()
	m, err := verify(ctx, o, dir, progress)
	if errors.Is(err, bindb.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrDamagedBackup, err)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("backup %s: %w", dir, err)
	}
	return m, nil
}

func verify(ctx context.Context, o Options, dir string, progress func(done, total int64)) (Manifest, error) {
	m, err := readManifest(o.FS, dir)
	if err != nil {
		return m, err
	}
	c := &counter{total: m.Bytes, tell: progress}
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		sum, err := bindb.Sum(o.FS, filepath.Join(dir, filepath.FromSlash(f.Path)), f.Size)
		if err != nil {
			return m, missingIsCorrupt(err)
		}
		if hex.EncodeToString(sum[:]) != f.SHA256 {
			return m, fmt.Errorf("%w: %s has another SHA-256 than %s says", bindb.ErrCorrupt, f.Path, backupFile)
		}
		c.add(f.Size)
	}
	_, err = verifyRoots(ctx, o, dir, m)
	return m, err
}

// missingIsCorrupt is for files that a manifest promises.
func missingIsCorrupt(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", bindb.ErrCorrupt, err)
	}
	return err
}

// readManifest reads backup.json and checks it by itself.
func readManifest(fsys vfs.FS, dir string) (m Manifest, err error) {
	info, err := fsys.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%w: there is no such directory", ErrNoBackup)
	}
	if err != nil {
		return m, err
	}
	if !info.Mode.IsDir() {
		return m, fmt.Errorf("%w: expected a directory with %s", ErrUnsuitable, backupFile)
	}
	raw, err := vfs.ReadFile(fsys, filepath.Join(dir, backupFile), maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%w: expected %s in it", ErrNoBackup, backupFile)
	}
	if err != nil {
		return m, err
	}
	bad := func(format string, args ...any) (Manifest, error) {
		return Manifest{}, fmt.Errorf("%s: %w: %s", backupFile, bindb.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	var head struct {
		Schema   string `json:"schema"`
		LayoutID int    `json:"layout_id"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return bad("%v", err)
	}
	if head.Schema != backupSchema || head.LayoutID != bindb.LayoutID {
		return m, fmt.Errorf("%s: %w: schema %q, layout %d; this program knows %q, layout %d",
			backupFile, ErrNewerFormat, head.Schema, head.LayoutID, backupSchema, bindb.LayoutID)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return bad("%v", err)
	}
	want, err := m.digest()
	if err != nil {
		return m, err
	}
	if m.Digest != want {
		return bad("its digest is not that of its content")
	}
	if err := (active{Installation: m.Installation, Generation: m.Generation, Epoch: m.Epoch}).check(); err != nil {
		return bad("%v", err)
	}
	return m, nil
}

// verifyRoots checks the files of a backup as a registry and Repositories, and
// that there are no others. It returns the indexes of the Repositories.
func verifyRoots(ctx context.Context, o Options, dir string, m Manifest) ([]uint32, error) {
	bad := func(format string, args ...any) ([]uint32, error) {
		return nil, fmt.Errorf("%w: %s", bindb.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	root := func(kind record.Root, name string) bindb.Config {
		return bindb.Config{FS: o.FS, Dir: filepath.Join(dir, filepath.FromSlash(name)), Kind: kind, Label: name}
	}
	var indexes []uint32
	purged := map[uint32]bool{}
	sound := func(kind record.Root, name string, fn func(bindb.Reader) error) error {
		findings, err := bindb.Verify(ctx, root(kind, name), fn)
		if err != nil {
			return missingIsCorrupt(err)
		}
		if len(findings) > 0 {
			return fmt.Errorf("%w: %s/%s", bindb.ErrCorrupt, name, findings[0])
		}
		return nil
	}
	err := sound(record.RootRegistry, "registry", func(r bindb.Reader) error {
		list, err := listRepositories(r)
		for _, info := range list {
			if !info.Meta.Tombstoned() {
				indexes = append(indexes, info.Index)
				purged[info.Index] = info.Lifecycle == record.LifecyclePurged
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var want []string
	names := []string{"registry"}
	for _, f := range record.Files(record.RootRegistry) {
		want = append(want, "registry/"+f)
	}
	for _, i := range indexes {
		name := "repositories/" + label(i)
		err := sound(record.RootAuthority, name, func(r bindb.Reader) error {
			if !purged[i] {
				return nil
			}
			findings, err := bindb.CheckPurged(r, 1)
			if err == nil && len(findings) > 0 {
				err = fmt.Errorf("%w: %s/%s", bindb.ErrCorrupt, name, findings[0])
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		names = append(names, name)
		for _, f := range record.Files(record.RootAuthority) {
			want = append(want, name+"/"+f)
		}
	}
	var has []string
	for _, f := range m.Files {
		has = append(has, f.Path)
	}
	slices.Sort(want)
	slices.Sort(has)
	if !slices.Equal(has, want) {
		return bad("%s does not list exactly the files of the registry and its %d repositories", backupFile, len(indexes))
	}
	for _, d := range []struct {
		name    string
		entries int
	}{{".", 3}, {"repositories", len(indexes)}} {
		list, err := o.FS.ReadDir(filepath.Join(dir, d.name))
		if err != nil {
			return nil, err
		}
		if len(list) != d.entries {
			return bad("%s has %d entries, want %d", filepath.Join(dir, d.name), len(list), d.entries)
		}
	}
	for _, name := range names {
		list, err := o.FS.ReadDir(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if _, found := slices.BinarySearch(has, name+"/"+e.Name); !found {
				return bad("%s/%s is not listed in %s", name, e.Name, backupFile)
			}
		}
	}
	return indexes, nil
}

// Restoration says what Restore may do.
type Restoration struct {
	// Replace allows an authority to be in the data directory already.
	Replace bool
	// DropOld removes the replaced generation instead of leaving it in
	// DATA/retired.
	DropOld bool
	// Progress, if not nil, is told how many bytes were verified and copied.
	Progress func(done, total int64)
}

// Restore makes the backup in dir the installation in o.Dir, under the id that it
// had, with everything as it was. The epoch is raised above that of the backup and
// of the authority that it replaces, so that leases and cursors given out by
// either are refused; a Job that was running then has no lease and is given to
// somebody else. The backup is verified before anything is touched. The errors
// are those of Verify and Publish.
func Restore(ctx context.Context, o Options, dir string, r Restoration) (Published, error) {
	o = o.withDefaults()
	half := func(from int64) func(done, total int64) {
		if r.Progress == nil {
			return nil
		}
		return func(done, total int64) { r.Progress(from*total+done, 2*total) }
	}
	m, err := Verify(ctx, o, dir, half(0))
	if err != nil {
		return Published{}, err
	}
	if !r.Replace {
		// Said before the work, and again under the lock.
		if there, err := vfs.Exists(o.FS, o.activePath()); err != nil {
			return Published{}, err
		} else if there {
			return Published{}, fmt.Errorf("restore into %s: %w", o.Dir, ErrExists)
		}
	}
	p := Publication{Installation: m.Installation, Epoch: m.Epoch, Replace: r.Replace, KeepOld: !r.DropOld}
	return Publish(ctx, o, p, func(g *Generation) error {
		c := &counter{total: m.Bytes, tell: half(1)}
		made := map[string]bool{}
		for _, f := range m.Files {
			if err := ctx.Err(); err != nil {
				return err
			}
			to := filepath.Join(g.Dir(), filepath.FromSlash(f.Path))
			if at := filepath.Dir(to); !made[at] {
				if err := o.FS.Mkdir(at, 0o700); err != nil {
					return err
				}
				made[at] = true
			}
			if err := copyFile(o.FS, filepath.Join(dir, filepath.FromSlash(f.Path)), to, f, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyFile copies one file of a backup and compares what it copies with what the
// manifest says.
func copyFile(fsys vfs.FS, from, to string, f ManifestFile, c *counter) (err error) {
	src, err := fsys.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := fsys.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	sum := sha256.New()
	buf := make([]byte, min(f.Size, 1<<20))
	for at := int64(0); at < f.Size; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), f.Size-at)]
		if n, err := src.ReadAt(buf, at); n < len(buf) {
			return fmt.Errorf("%w: %s ended at %d bytes: %w", bindb.ErrCorrupt, from, at+int64(n), err)
		}
		sum.Write(buf)
		if _, err := dst.WriteAt(buf, at); err != nil {
			return err
		}
		c.add(int64(len(buf)))
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w: %s has changed since it was verified", bindb.ErrCorrupt, from)
	}
	return nil
}
