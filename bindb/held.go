package bindb

import (
	"context"
	"errors"

	"github.com/writ-authority/writ/internal/vfs"
)

// Held is a root whose locks are held exclusively from outside of any batch, so
// that it can be replaced by another one. Nobody else can read or write it.
type Held struct {
	r     *Root
	locks fileLocks
}

// Hold takes the locks of a root without opening it, so that a damaged one can be
// held too. The error is ErrBusy while somebody uses the root.
func Hold(ctx context.Context, cfg Config) (*Held, error) {
	cfg.Own = false // nothing of it is needed in memory
	r := newRoot(cfg)
	locks, err := r.lock(ctx, vfs.Exclusive)
	if err != nil {
		return nil, err
	}
	return &Held{r, locks}, nil
}

// Check finishes or takes back an interrupted batch and validates everything. The
// error is that of the first violation.
func (h *Held) Check(ctx context.Context) error {
	defer func() { _ = h.r.closeFiles() }() // only read, or already synced
	entries, err := h.r.FS.ReadDir(h.r.Dir)
	if err != nil {
		return err
	}
	if err := firstOf(h.r.closure(entries), nil); err != nil {
		return err
	}
	if _, err := h.r.recover(); err != nil {
		return err
	}
	v := h.r.newView()
	return h.r.validate(ctx, v, nil)
}

// View reads the root. Check must have succeeded before.
func (h *Held) View(fn func(Reader) error) error {
	defer func() { _ = h.r.closeFiles() }() // only read
	v := h.r.newView()
	return fn(v)
}

// Release gives the locks back.
func (h *Held) Release() error {
	h.r.closed.Store(true)
	err := h.r.closeFiles()
	h.locks.unlock()
	return err
}

// Verify checks the files in cfg.Dir as a whole root, without a lock and without
// writing anything: they belong to nobody, as those of a backup. It returns every
// violation, at most 1000. fn, if not nil, then reads a root that is sound.
func Verify(ctx context.Context, cfg Config, fn func(Reader) error) (findings []Finding, err error) {
	cfg.Own = false
	r := newRoot(cfg)
	defer func() { err = errors.Join(err, r.closeFiles()) }()
	entries, err := r.FS.ReadDir(r.Dir)
	if err != nil {
		return nil, err
	}
	if findings = r.closure(entries); len(findings) > 0 {
		return findings, nil
	}
	v := r.newView()
	findings, err = check(ctx, v, nil, maxFindings)
	if err != nil || len(findings) > 0 || fn == nil {
		return findings, err
	}
	return nil, fn(v)
}
