package bindb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// A purge replaces so many records that no single batch can hold them, and it is
// committed by the registry, which is another root. So it keeps a copy of the two
// files that it changes beside them until the registry has spoken (section 13.3):
//
//  1. both files are copied, and the copies are durable;
//  2. the journal, which names their lengths and hashes, is put in place;
//  3. batches, as many as it takes, change the records;
//  4. the registry commits;
//  5. the journal goes first, then the copies.
//
// A standing journal therefore means that records may have been changed, and the
// registry says which way out is the right one. Copies without a journal mean
// that nothing was. Both ways out go through batches, so that checksums, indexes
// and readers never see a byte that no batch has written.
const (
	purgeJournal = ".repository-purge.journal.json"
	purgeSchema  = "ait.server.repository-purge-journal.v1"
	maxPurge     = 64 << 10
	// purgeBatch is how many records one batch of a restoration replaces.
	purgeBatch = 1 << 16
)

// purgeCopies are the files that a purge changes, and what their copies are called.
var purgeCopies = []struct {
	family *family
	copy   string
}{
	{Patchsets.f, ".repository-purge.patchset.before"},
	{WorkerJobs.f, ".repository-purge.worker-job.before"},
}

// purgeHeader is the content of the journal.
type purgeHeader struct {
	Schema    string    `json:"schema"`
	Patchset  purgeFile `json:"patchset"`
	WorkerJob purgeFile `json:"worker_job"`
}

type purgeFile struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func (h *purgeHeader) files() []*purgeFile { return []*purgeFile{&h.Patchset, &h.WorkerJob} }

func (c Config) purgePath(name string) string { return filepath.Join(c.Dir, name) }

// PurgeStands reports whether a purge of the root was begun and neither finished
// nor taken back, as far as the directory shows. Without the root's locks it may
// also be under way.
func PurgeStands(cfg Config) (bool, error) {
	return vfs.Exists(cfg.withDefaults().FS, cfg.purgePath(purgeJournal))
}

// PurgeLeft reports whether a purge has left anything behind, be it only copies
// that nobody needs.
func PurgeLeft(cfg Config) (bool, error) {
	cfg = cfg.withDefaults()
	for _, name := range append([]string{purgeJournal}, purgeCopies[0].copy, purgeCopies[1].copy) {
		if there, err := vfs.Exists(cfg.FS, cfg.purgePath(name)); there || err != nil {
			return there, err
		}
	}
	return false, nil
}

// RecoverPurge ends an interrupted purge of a root that is not open, since Open
// refuses it. The caller holds the registry's lock and says what the registry
// says: with restore the records come back as they were before the purge, without
// it they stay. Either way the root must be valid then; otherwise everything that
// the purge has left stays in place and the error is ErrCorrupt.
func RecoverPurge(ctx context.Context, cfg Config, restore bool) error {
	cfg.Own = false // only for as long as it takes
	r := newRoot(cfg)
	err := r.Exclusive(ctx, func(s *Session) error {
		// Another implementation may have written without batches.
		if _, err := r.breakSeal(); err != nil {
			return err
		}
		if err := r.syncSeal(); err != nil {
			return err
		}
		if restore {
			if err := s.RestorePurge(ctx); err != nil {
				return err
			}
		}
		v := r.newView()
		if err := firstOf(check(ctx, v, nil, 1)); err != nil {
			return err
		}
		return s.DiscardPurge()
	})
	if err = errors.Join(err, r.closeFiles()); err != nil {
		return fmt.Errorf("recover the interrupted purge of %s: %w", cfg.Dir, err)
	}
	return nil
}

// PreservePurge copies the files that a purge changes and makes the copies and
// their journal durable.
func (s *Session) PreservePurge(ctx context.Context) error {
	r := s.r
	h := purgeHeader{Schema: purgeSchema}
	for i, c := range purgeCopies {
		var err error
		if *h.files()[i], err = r.copyFile(ctx, c.family, r.purgePath(c.copy)); err != nil {
			return err
		}
	}
	body, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	// The copies are durable before the journal can be, and the journal comes
	// whole or not at all.
	staging := filepath.Join(r.Runtime, "staging")
	if err := vfs.MkdirAll(r.FS, staging, 0o700); err != nil {
		return err
	}
	temp := filepath.Join(staging, r.Label+"-purge")
	if err := r.writeSynced(temp, append(body, '\n')); err != nil {
		return err
	}
	if err := r.FS.SyncDir(r.Dir); err != nil {
		return err
	}
	if err := r.FS.Rename(temp, r.purgePath(purgeJournal)); err != nil {
		return err
	}
	return errors.Join(r.FS.SyncDir(r.Dir), r.FS.SyncDir(staging))
}

// copyFile copies a file of the root as the latest batch has left it.
func (r *Root) copyFile(ctx context.Context, f *family, path string) (purgeFile, error) {
	v := r.latest()
	size, err := v.size(f)
	if err != nil {
		return purgeFile{}, err
	}
	if err := r.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return purgeFile{}, err
	}
	out, err := r.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return purgeFile{}, err
	}
	sum := sha256.New()
	at := int64(0)
	write := func(b []byte) error {
		sum.Write(b)
		_, err := out.WriteAt(b, at)
		at += int64(len(b))
		return errors.Join(err, ctx.Err())
	}
	err = write(header[:])
	if err == nil {
		err = pieces(v, f, HeaderSize, size, copyPiece, func(_ int64, b []byte) error { return write(b) })
	}
	if err == nil {
		err = out.Sync()
	}
	return purgeFile{size, hex.EncodeToString(sum.Sum(nil))}, errors.Join(err, out.Close())
}

// writeSynced writes a file of which an interrupted try may have left something.
// Its directory entry is not synced.
func (r *Root) writeSynced(path string, data []byte) error {
	if err := writeWhole(r.FS, path, data); err != nil {
		return err
	}
	f, err := r.FS.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// RestorePurge brings the records back to what they were when PreservePurge
// copied them. Without a standing journal there is nothing to do. The copies are
// verified before the first record is touched; the error is ErrCorrupt when they
// are not what the journal says. They stay until DiscardPurge.
func (s *Session) RestorePurge(ctx context.Context) error {
	h, err := s.r.readPurge()
	if h == nil || err != nil {
		return err
	}
	for i, c := range purgeCopies {
		if err := s.verifyCopy(ctx, c.family, c.copy, h.files()[i]); err != nil {
			return err
		}
	}
	for _, c := range purgeCopies {
		if err := s.restoreFile(ctx, c.family, c.copy); err != nil {
			return err
		}
	}
	return nil
}

// readPurge returns nil when no journal stands.
func (r *Root) readPurge() (*purgeHeader, error) {
	raw, err := vfs.ReadFile(r.FS, r.purgePath(purgeJournal), maxPurge)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, vfs.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return nil, err
	}
	h := &purgeHeader{}
	if err := json.Unmarshal(raw, h); err != nil || h.Schema != purgeSchema {
		return nil, corruptf("%s is no journal of a purge: schema %q, want %q", purgeJournal, h.Schema, purgeSchema)
	}
	return h, nil
}

// verifyCopy compares a copy with the journal, and its length with the file's: a
// purge appends nothing.
func (s *Session) verifyCopy(ctx context.Context, f *family, name string, want *purgeFile) error {
	sum := sha256.New()
	err := s.r.eachPiece(ctx, name, 1, func(_ int64, b []byte) error {
		_, err := sum.Write(b)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return corruptf("%s is missing, but %s counts on it", name, purgeJournal)
	}
	if err != nil {
		return err
	}
	now, err := s.r.latest().size(f)
	if err != nil {
		return err
	}
	if got := hexSum(sum); got != want.SHA256 {
		return corruptf("%s has the SHA-256 %s; %s says %s", name, got, purgeJournal, want.SHA256)
	}
	if now != want.Size {
		return corruptf("%s has %d bytes, and had %d when %s was made", f.file, now, want.Size, name)
	}
	return nil
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// eachPiece reads a file beside the root's own in pieces that end with a whole
// record behind the header.
func (r *Root) eachPiece(ctx context.Context, name string, record int, fn func(off int64, b []byte) error) error {
	in, err := r.FS.OpenFile(r.purgePath(name), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	size, err := in.Size()
	if err != nil {
		return err
	}
	step := int64(1<<20/record) * int64(record)
	buf := make([]byte, step)
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(step, size-at)]
		if at == 0 {
			b = buf[:min(HeaderSize, size)]
		}
		if err := readFull(in, name, b, at); err != nil {
			return err
		}
		if err := fn(at, b); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}

// restoreFile replaces the records that differ from the copy.
func (s *Session) restoreFile(ctx context.Context, f *family, name string) error {
	var offs []int64
	var images [][]byte
	flush := func() error {
		if len(offs) == 0 {
			return nil
		}
		err := s.Update(ctx, func(tx *Tx) error {
			for i, off := range offs {
				if err := tx.replace(f, off, images[i]); err != nil {
					return err
				}
			}
			return nil
		})
		offs, images = nil, nil
		return err
	}
	err := s.r.eachPiece(ctx, name, f.size, func(off int64, b []byte) error {
		if off < HeaderSize {
			return nil
		}
		now := make([]byte, len(b))
		if err := s.r.latest().readAt(f, now, off); err != nil {
			return err
		}
		for at := 0; at+f.size <= len(b); at += f.size {
			if was := b[at : at+f.size]; !bytes.Equal(was, now[at:at+f.size]) {
				offs, images = append(offs, off+int64(at)), append(images, bytes.Clone(was))
			}
		}
		if len(offs) < purgeBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// DiscardPurge removes what a purge has left: the journal durably before the
// copies, so that no journal ever counts on a copy that is not there.
func (s *Session) DiscardPurge() error {
	remove := func(names ...string) error {
		gone := false
		for _, name := range names {
			err := s.r.FS.Remove(s.r.purgePath(name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			gone = gone || err == nil
		}
		if !gone {
			return nil
		}
		return s.r.FS.SyncDir(s.r.Dir)
	}
	if err := remove(purgeJournal); err != nil {
		return err
	}
	return remove(purgeCopies[0].copy, purgeCopies[1].copy)
}

// CheckPurged verifies what a purge promises (J06): every Job is tombstoned and
// no Patchset refers to one. It reports at most limit violations.
func CheckPurged(r Reader, limit int) ([]Finding, error) {
	var findings []Finding
	bad := func(f *family, i uint32, field, format string, args ...any) error {
		findings = append(findings, Finding{
			Check: "J06", File: f.file, Index: i, HasIndex: true, Field: field, Message: fmt.Sprintf(format, args...),
		})
		if len(findings) >= limit {
			return errStop
		}
		return nil
	}
	err := WorkerJobs.All(r, func(i uint32, j *record.WorkerJob) error {
		if j.Meta.Tombstoned() {
			return nil
		}
		return bad(WorkerJobs.f, i, "job_meta", "is not tombstoned, though the Repository was purged")
	})
	if err == nil {
		err = Patchsets.All(r, func(i uint32, p *record.Patchset) error {
			if p.CIJob == 0 {
				return nil
			}
			return bad(Patchsets.f, i, "ci_worker_job_index_plus1", "is %d, though the Repository was purged; want 0", uint32(p.CIJob))
		})
	}
	if errors.Is(err, errStop) {
		err = nil
	}
	return findings, err
}
