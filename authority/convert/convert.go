package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/internal/vfs"
)

// Options say what is converted and which rules may be set aside.
type Options struct {
	// From is the kind of the source: FromU32Time or FromLegacyRows.
	From string
	// Source is the directory.
	Source string
	// FS is the file system of the source and the order document; nil means the
	// real one.
	FS vfs.FS
	// Gates are the rules that are set aside. They are for rows only.
	Gates []Gate
	// Salvage leaves out Changes of which a revision Snapshot is lost. It is for
	// rows only.
	Salvage bool
	// Order is a document that fixes the indexes of Repositories; empty is their
	// order by id. It is for rows only.
	Order string
	// DryRun builds and validates everything in the data directory of the target
	// and takes it away again.
	DryRun bool
	// Progress, if not nil, is told how many bytes of the source were read, of how
	// many: each is read twice. Calls come from several goroutines.
	Progress func(read, all int64)
}

// Kinds lists the kinds of source.
func Kinds() []string { return []string{FromU32Time, FromLegacyRows} }

// errDry ends the construction of a generation that nobody wants to keep.
var errDry = errors.New("dry run")

// Convert makes a new installation of a source. Nothing exists in the data
// directory of the target until all of it was validated and is durable; what an
// interruption leaves there is removed by the next one. The report says what was
// converted. The error is ErrSource, ErrDrift or ErrChoice, authority.ErrExists when
// there is an authority already, bindb.ErrCorrupt with file, record and field for
// records that violate the format, or another one of package authority.
func Convert(ctx context.Context, o Options, target authority.Options) (*Report, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if !slices.Contains(Kinds(), o.From) {
		return nil, fmt.Errorf("%w: source %.60q, want one of %s", ErrChoice, o.From, strings.Join(Kinds(), ", "))
	}
	if o.From != FromLegacyRows && (len(o.Gates) > 0 || o.Salvage || o.Order != "") {
		return nil, fmt.Errorf("%w: gates, salvage and an order are for %s only", ErrChoice, FromLegacyRows)
	}
	if _, err := o.FS.Lstat(o.Source); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("source %s: %w", o.Source, bindb.ErrNotFound)
	}
	order, err := o.readOrder()
	if err != nil {
		return nil, err
	}
	rep := newReport(o.From, o.Source)
	rep.DryRun = o.DryRun
	published, err := authority.Publish(ctx, target, authority.Publication{Verified: true}, func(g *authority.Generation) error {
		if err := o.build(ctx, g, rep, order); err != nil {
			return err
		}
		if o.DryRun {
			return errDry
		}
		return nil
	})
	if o.DryRun && errors.Is(err, errDry) {
		return rep, nil
	}
	if err != nil {
		return nil, err
	}
	rep.Target, rep.Installation, rep.Generation = target.Dir, published.Installation, published.Generation
	return rep, nil
}

// build makes the roots of the target.
func (o Options) build(ctx context.Context, r roots, rep *Report, order *repositoryOrder) error {
	s, t := source{fs: o.FS, dir: o.Source, progress: o.Progress}, &target{roots: r}
	if o.From == FromU32Time {
		return (&u32Time{source: s, target: t, rep: rep}).run(ctx)
	}
	rows := &legacyRows{source: s, target: t, rep: rep, gates: o.Gates, salvage: o.Salvage, order: order, orderPath: filepath.Base(o.Order)}
	return rows.run(ctx)
}

func (o Options) readOrder() (*repositoryOrder, error) {
	if o.Order == "" {
		return nil, nil
	}
	raw, err := vfs.ReadFile(o.FS, o.Order, maxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("order %s: %w", o.Order, bindb.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	order := &repositoryOrder{}
	return order, decodeDocument(filepath.Base(o.Order), raw, order)
}

// counter tells the caller how far both passes have come.
type counter struct {
	read atomic.Int64
	all  int64
	fn   func(read, all int64)
}

func (c *counter) add(n int) {
	if c.fn != nil {
		c.fn(c.read.Add(int64(n)), c.all)
	}
}
