package bindb

import (
	"context"
	"errors"
	"strings"
)

// Inspection is everything that can be said about one root.
type Inspection struct {
	// Findings are all violations, at most 1000. A sound root has none.
	Findings []Finding
	// Recovered is what was interrupted and has been finished or taken back.
	Recovered []Recovery
	// Indexes describes the index files of a sound root.
	Indexes []IndexInfo
	// Records and Bytes are what the .bin files of the root hold.
	Records, Bytes uint64
}

// openCheck is the name of the finding for a root that cannot be opened for a
// reason that no rule has a name for, such as a journal that is not understood.
const openCheck = "OPEN"

// Inspect opens the root that cfg names, also one that is unsound, recovers what
// was interrupted, validates everything and closes it. The error is about
// reading, not about what was read: ErrBusy, ErrForeign or one of input or output.
func Inspect(ctx context.Context, cfg Config) (Inspection, error) {
	var in Inspection
	cfg.Own = false // nothing is read often enough to be kept in memory
	r, err := Open(ctx, cfg)
	switch {
	case err == nil:
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrLayout):
		return inspectUnsound(ctx, cfg, err)
	default:
		return in, err
	}
	if in.Findings, err = r.Check(ctx); err == nil && len(in.Findings) == 0 {
		in.Indexes, err = r.Indexes(ctx)
	}
	in.Recovered = r.Recoveries()
	if err == nil {
		err = r.View(ctx, func(rd Reader) error {
			in.measure(rd)
			return nil
		})
	}
	return in, errors.Join(err, r.Close())
}

// inspectUnsound finds out all that is wrong with a root that Open has refused.
func inspectUnsound(ctx context.Context, cfg Config, refused error) (Inspection, error) {
	r := newRoot(cfg)
	defer func() { _ = r.closeFiles() }() // only read, or already synced
	var in Inspection
	info, err := r.FS.Lstat(r.Dir)
	if err != nil {
		return in, err
	}
	if !info.Mode.IsDir() {
		in.Findings = []Finding{r.notDirectory()}
		return in, nil
	}
	entries, err := r.FS.ReadDir(r.Dir)
	if err != nil {
		return in, err
	}
	if in.Findings = r.closure(entries); len(in.Findings) == 0 {
		err = r.View(ctx, func(rd Reader) error {
			in.Findings, err = check(ctx, rd, nil, maxFindings)
			in.measure(rd)
			return err
		})
	}
	in.Recovered = r.Recoveries()
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrLayout) {
		return in, err
	}
	text := refused.Error()
	for _, f := range in.Findings {
		if strings.Contains(text, f.Message) {
			return in, nil
		}
	}
	in.Findings = append([]Finding{{Check: openCheck, Message: text, cause: refused}}, in.Findings...)
	return in, nil
}

// measure adds up the files that can be measured.
func (in *Inspection) measure(rd Reader) {
	in.Records, in.Bytes = 0, 0
	for _, f := range familiesOf(rd.root().Kind) {
		n, err := rd.size(f)
		if err != nil {
			continue // which has been found already
		}
		in.Bytes += uint64(n)
		if count, err := f.count(n); err == nil && f.fixed {
			in.Records += uint64(count)
		}
	}
}
