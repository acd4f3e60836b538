package bindb

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// Other implementations of the format leave recovery files of their own in a
// root when they are interrupted (sections 12.3 to 12.5 and 17.6). Open finishes
// what they describe, under the exclusive lock and before anything is validated:
//
//   - a single-record journal: a replacement that is complete on disk is kept, a
//     torn one is put back, one with a wrong digest has touched nothing;
//   - an append intent: less than one record behind the length it names is cut;
//   - a rollback journal: its mutation is taken back as a whole;
//   - files that were to be renamed into place: removed.
//
// All of them are read before the first byte changes, and what cannot be
// understood is left alone with an error. The recovery files go last, after what
// they describe is durable, so that an interrupted recovery begins again. The
// files of an unfinished purge concern the registry too and are not ours.

// Recovery is one thing that opening a root has finished or taken back.
type Recovery struct {
	File string // that described it: a recovery file in the root, or "journal"
	What string // a sentence
}

// String begins with the file.
func (r Recovery) String() string { return r.File + ": " + r.What }

// Recoveries lists what has been recovered since Open began.
func (r *Root) Recoveries() []Recovery {
	r.rw.RLock()
	defer r.rw.RUnlock()
	return slices.Clone(r.recovered)
}

const (
	updateJournalSuffix = ".update-journal"
	appendIntentSuffix  = ".append-intent"
	purgePrefix         = ".repository-purge."
	maxForm             = 2 * maxJournal
	rollbackHeader      = "ait-binary-db-rollback-journal-v1"
)

func matters(form string) bool { return !disposable(form) }

// disposable reports whether a temporary is only the new content of a file that
// was not put in place.
func disposable(name string) bool {
	switch filepath.Ext(name) {
	case ".rewrite", ".rebuild", ".update-staging":
		return true
	}
	return false
}

// formsOf lists the recovery files among the entries of a root.
func formsOf(kind record.Root, entries []vfs.Info) []string {
	var forms []string
	names := record.Temporaries(kind)
	for _, e := range entries {
		if slices.Contains(names, e.Name) && !strings.HasPrefix(e.Name, purgePrefix) && e.Mode.IsRegular() && e.Links == 1 {
			forms = append(forms, e.Name)
		}
	}
	return forms
}

// recoverForms finishes what other implementations have left and reports whether
// there was anything. forms are the recovery files that were seen without a
// lock; on read-only media those that matter to nobody may stay.
func (r *Root) recoverForms(ctx context.Context, forms []string) (found bool, err error) {
	r.rw.Lock()
	defer r.rw.Unlock()
	locks, err := r.lock(ctx, vfs.Exclusive)
	if err != nil {
		if err = unwritable(err); errors.Is(err, errUnwritable) && !slices.ContainsFunc(forms, matters) {
			return false, nil
		}
		return false, err
	}
	defer locks.unlock()
	// Only now, since their writer may have been at work.
	entries, err := r.FS.ReadDir(r.Dir)
	if err != nil {
		return false, err
	}
	if r.batch, err = r.latestBatch(); err != nil { // which the mark goes away with
		return false, err
	}
	p := &formPlan{r: r, files: map[*family]*formFile{}}
	if err := p.read(formsOf(r.Kind, entries)); err != nil {
		return false, err
	}
	if err := p.carryOut(); err != nil {
		return false, unwritable(err)
	}
	r.recovered = append(r.recovered, p.done...)
	return len(p.forms) > 0, nil
}

var errUnwritable = errors.New("an interrupted batch must be recovered, but the authority cannot be written")

// unwritable explains why a root that needs recovery could not be opened.
func unwritable(err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: %w", errUnwritable, err)
	}
	return err
}

// formPlan is what the recovery files of a root ask for.
type formPlan struct {
	r       *Root
	files   map[*family]*formFile
	shown   []formRange
	indexes []string // to be removed: they are not restored but rebuilt
	forms   []string // to be removed at last
	done    []Recovery
}

// formFile is what becomes of one file.
type formFile struct {
	form   string // the recovery file that names it
	images []formImage
	length int64 // to cut it to; -1: as it is
}

type formImage struct {
	off int64
	b   []byte
}

// formRange is what stays in a file as it is seen. Whoever wrote it may have been
// killed before it was durable, and its recovery file must not go before that. An
// empty range stands for the length of the file.
type formRange struct {
	f        *family
	from, to int64
}

func (p *formPlan) touches() bool { return len(p.files)+len(p.indexes) > 0 }

// read plans the recovery and changes nothing.
func (p *formPlan) read(forms []string) error {
	for _, name := range forms {
		var err error
		switch {
		case disposable(name):
			p.note(name, "was not put in place by its writer and has been removed")
		case strings.HasSuffix(name, updateJournalSuffix):
			err = p.readUpdateJournal(name)
		case strings.HasSuffix(name, appendIntentSuffix):
			err = p.readAppendIntent(name)
		default:
			err = p.readRollbackJournal(name)
		}
		if err != nil {
			return err
		}
		p.forms = append(p.forms, name)
	}
	if !p.touches() {
		return nil
	}
	h, err := p.r.journalHead()
	if err == nil && h.interrupted() {
		return corruptf("%s stands in the root and the batch of %s is unfinished too, so that it cannot be told which came first; keep a copy of both, then remove the one that does not count",
			strings.Join(forms, ", "), p.r.journalPath())
	}
	return err
}

func (p *formPlan) note(form, format string, args ...any) {
	p.done = append(p.done, Recovery{form, fmt.Sprintf(format, args...)})
}

// claim registers a file for one recovery file, which must be the only one that
// names it: the order of two would matter.
func (p *formPlan) claim(form string, f *family) (*formFile, error) {
	if other := p.files[f]; other != nil {
		return nil, corruptf("%s and %s both describe an interrupted change of %s", other.form, form, f.file)
	}
	ff := &formFile{form: form, length: -1}
	p.files[f] = ff
	return ff, nil
}

func (p *formPlan) open(f *family) (vfs.File, int64, error) {
	file, err := p.r.file(f)
	if err != nil {
		return nil, 0, err
	}
	size, err := file.Size()
	return file, size, err
}

// readUpdateJournal follows the table of section 12.2.
func (p *formPlan) readUpdateJournal(name string) error {
	f, magic := mustFamily("worker_job.bin"), record.WorkerJobUpdateJournalMagic
	if p.r.Kind == record.RootRegistry {
		f, magic = mustFamily("repository.bin"), record.RepositoryUpdateJournalMagic
	}
	raw, err := vfs.ReadFile(p.r.FS, filepath.Join(p.r.Dir, name), maxForm)
	if err != nil {
		return err
	}
	body := len(magic) + 4 + 2*f.size
	if len(raw) != body+sha256.Size || sha256.Sum256(raw[:body]) != [32]byte(raw[body:]) {
		p.note(name, "is torn or was taken back by its writer, so that no record was touched")
		return nil
	}
	d := decoder{b: raw[:body]}
	if m := d.bytes(len(magic)); string(m) != magic {
		return corruptf("%s has the magic %q, want %q", name, m, magic)
	}
	index, before, after := d.u32(), d.bytes(f.size), d.bytes(f.size)
	file, size, err := p.open(f)
	if err != nil {
		return err
	}
	if count := (size - HeaderSize) / int64(f.size); int64(index) >= count {
		return corruptf("%s names record %d of %s, which has %d records", name, index, f.file, count)
	}
	now := make([]byte, f.size)
	if err := readFull(file, f.file, now, f.offset(index)); err != nil {
		return err
	}
	if bytes.Equal(now, before) && !bytes.Equal(now, after) {
		p.shown = append(p.shown, formRange{f, f.offset(index), f.offset(index) + int64(f.size)})
		p.note(name, "the replacement of %s record %d had not begun", f.file, index)
		return nil
	}
	ff, err := p.claim(name, f)
	if err != nil {
		return err
	}
	if bytes.Equal(now, after) {
		// Written once more, since a failed sync may have left it in memory only.
		ff.images = []formImage{{f.offset(index), after}}
		p.note(name, "the replacement of %s record %d was complete and has been kept", f.file, index)
	} else {
		ff.images = []formImage{{f.offset(index), before}}
		p.note(name, "%s record %d was half replaced and has been put back", f.file, index)
	}
	return nil
}

// readAppendIntent follows section 17.6.
func (p *formPlan) readAppendIntent(name string) error {
	f := mustFamily("worker_job.bin")
	if p.r.Kind == record.RootRegistry {
		f = mustFamily("repository.bin")
	}
	raw, err := vfs.ReadFile(p.r.FS, filepath.Join(p.r.Dir, name), maxForm)
	if err != nil {
		return err
	}
	var intent record.AppendIntent
	if intent.Decode(raw) != nil || intent.Digest != sha256.Sum256(raw[:8]) {
		p.note(name, "is torn, so that no append had begun")
		return nil
	}
	_, size, err := p.open(f)
	if err != nil {
		return err
	}
	old := int64(min(intent.Length, 1<<62))
	if _, err := f.count(old); err != nil {
		return corruptf("%s gives %s a length of %d bytes, which is no whole number of records", name, f.file, intent.Length)
	}
	switch {
	case size < old:
		return corruptf("%s has %d bytes; %s says that %d were committed", f.file, size, name, old)
	case size == old:
		p.shown = append(p.shown, formRange{f, old, old})
		p.note(name, "the append to %s had not begun", f.file)
	case size-old < int64(f.size):
		ff, err := p.claim(name, f)
		if err != nil {
			return err
		}
		ff.length = old
		p.note(name, "%d bytes of a record that was being appended to %s have been cut", size-old, f.file)
	default:
		p.shown = append(p.shown, formRange{f, old, size})
		p.note(name, "the append to %s was complete and has been kept", f.file)
	}
	return nil
}

// readRollbackJournal follows section 12.5. A line is trusted only when its
// newline is there: its file is changed after the line is durable.
func (p *formPlan) readRollbackJournal(name string) error {
	raw, err := vfs.ReadFile(p.r.FS, filepath.Join(p.r.Dir, name), maxForm)
	if errors.Is(err, vfs.ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return err
	}
	lines := strings.Split(string(raw), "\n")
	lines = lines[:len(lines)-1] // behind the last newline: nothing, or an unsynced tail
	if len(lines) == 0 {
		p.note(name, "says nothing yet, so that no file was changed")
		return nil
	}
	malformed := func(n int, format string, args ...any) error {
		return corruptf("%s line %d: %s; nothing of it has been taken back", name, n+1, fmt.Sprintf(format, args...))
	}
	if lines[0] != rollbackHeader {
		return malformed(0, "is %.60q, want %q", lines[0], rollbackHeader)
	}
	named := map[string]*formFile{}
	for n, line := range lines[1:] {
		n++
		part := strings.Split(line, "\t")
		if len(part) != 4 {
			return malformed(n, "has %d parts between tabs, want 4", len(part))
		}
		path := part[3]
		f, fixed := byFile[path]
		fixed = fixed && f.root == p.r.Kind
		if !fixed && !slices.Contains(record.IndexFiles(p.r.Kind), path) {
			return malformed(n, "names %.60q, which is no file of this root", path)
		}
		switch part[0] {
		case "file":
			length, err := canonical(part[2])
			switch {
			case named[path] != nil:
				return malformed(n, "names %s a second time", path)
			case err != nil:
				return malformed(n, "gives the length %.60q", part[2])
			case part[1] != "0" && part[1] != "1", part[1] == "0" && length != 0:
				return malformed(n, "says %.60q with the length %d, want 0 for a file that was not there or 1", part[1], length)
			}
			ff := &formFile{length: length}
			if fixed {
				if part[1] == "0" {
					return malformed(n, "says that %s was not there, which every root has", path)
				}
				if _, err := f.count(length); err != nil {
					return malformed(n, "gives %s the length %d, which is no whole number of records", path, length)
				}
				if ff, err = p.claim(name, f); err != nil {
					return err
				}
				ff.length = length
			} else {
				p.indexes = append(p.indexes, path)
			}
			named[path] = ff
		case "before":
			ff := named[path]
			if ff == nil {
				return malformed(n, "has bytes of %s before the line that gives its length", path)
			}
			off, err := canonical(part[1])
			if err != nil {
				return malformed(n, "gives the offset %.60q", part[1])
			}
			b, err := hex.DecodeString(part[2])
			if err != nil || len(b) == 0 {
				return malformed(n, "has malformed bytes")
			}
			if off > ff.length || int64(len(b)) > ff.length-off {
				return malformed(n, "has %d bytes of %s at %d, outside of the %d that it had", len(b), path, off, ff.length)
			}
			if head := min(int64(len(b)), HeaderSize-off); head > 0 && !bytes.Equal(b[:head], header[off:off+head]) {
				return malformed(n, "would give %s another header", path)
			}
			ff.images = append(ff.images, formImage{off, b})
		default:
			return malformed(n, "begins with %.60q, want \"file\" or \"before\"", part[0])
		}
	}
	for _, ff := range named {
		slices.Reverse(ff.images) // the last change is taken back first
	}
	for f, ff := range p.files {
		if ff.form != name {
			continue
		}
		_, size, err := p.open(f)
		if err != nil {
			return err
		}
		if missing := ff.uncovered(size); missing >= 0 {
			return corruptf("%s has %d bytes; %s says that it had %d, and does not hold the byte at %d", f.file, size, name, ff.length, missing)
		}
	}
	p.note(name, "a mutation of %d files has been taken back", len(named))
	return nil
}

// canonical reads an offset or a length.
func canonical(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && strconv.FormatInt(n, 10) != s || n < 0 {
		err = strconv.ErrSyntax
	}
	return n, err
}

// uncovered returns the first byte from size up to the length that no image
// holds, or -1.
func (ff *formFile) uncovered(size int64) int64 {
	list := slices.Clone(ff.images)
	slices.SortFunc(list, func(a, b formImage) int { return cmp.Compare(a.off, b.off) })
	at := size
	for _, img := range list {
		if img.off <= at {
			at = max(at, img.off+int64(len(img.b)))
		}
	}
	if at < ff.length {
		return at
	}
	return -1
}

// carryOut changes the files durably, then removes the recovery files.
func (p *formPlan) carryOut() error {
	r := p.r
	if len(p.forms) > 0 {
		// Somebody else has written here since the clean stop, whatever is left
		// of it, so that everything is to be validated again.
		if _, err := r.breakSeal(); err != nil {
			return err
		}
		if err := r.FS.Remove(r.markPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := r.syncSeal(); err != nil {
			return err
		}
		if err := r.FS.SyncDir(filepath.Dir(r.markPath())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var dirty []vfs.File
	for _, s := range p.shown {
		file, _, err := p.open(s.f)
		if err == nil {
			err = r.writable(s.f)
		}
		if err == nil {
			err = rewrite(file, s.f.file, s.from, s.to)
		}
		if err != nil {
			return err
		}
		dirty = append(dirty, file)
	}
	for _, f := range families {
		ff := p.files[f]
		if ff == nil {
			continue
		}
		file, size, err := p.open(f)
		if err != nil {
			return err
		}
		if err := r.writable(f); err != nil {
			return err
		}
		for _, img := range ff.images {
			if _, err := file.WriteAt(img.b, img.off); err != nil {
				return err
			}
		}
		if ff.length >= 0 && size > ff.length {
			if err := file.Truncate(ff.length); err != nil {
				return err
			}
		}
		dirty = append(dirty, file)
	}
	if len(dirty) > 0 {
		if err := syncAll(dirty); err != nil {
			return err
		}
	}
	for _, name := range slices.Concat(p.indexes, p.forms) {
		if err := r.FS.Remove(filepath.Join(r.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return r.FS.SyncDir(r.Dir)
}
