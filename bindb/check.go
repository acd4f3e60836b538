package bindb

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/writ-authority/writ/bindb/record"
)

// maxFindings bounds what Check reports.
const maxFindings = 1000

// Finding is one violation of the format, at one place.
type Finding struct {
	Check    string // the check that failed, such as "P04" (Binary DB v0, section 17)
	File     string // name in the root, empty for the root as a whole
	Index    uint32 // record, when HasIndex is set
	HasIndex bool
	Field    string // name in the format, empty when it concerns no single field
	Message  string // what was found and what was expected

	cause error // what a caller may ask the error of Open for
}

// String is a sentence that begins with the place.
func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.HasIndex {
		fmt.Fprintf(&b, " record %d", f.Index)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if f.Field != "" {
		b.WriteString(f.Field + " ")
	}
	fmt.Fprintf(&b, "%s (%s)", f.Message, f.Check)
	return b.String()
}

// Check validates the whole root, whatever a clean stop has vouched for, and
// returns every violation, at most 1000 of them. A sound root has none. The
// error is about reading, not about what was read. Mutations wait until it has
// finished; the readers of an owned root do not.
func (r *Root) Check(ctx context.Context) ([]Finding, error) {
	info, err := r.FS.Lstat(r.Dir)
	if err != nil {
		return nil, err
	}
	if !info.Mode.IsDir() {
		return []Finding{r.notDirectory()}, nil
	}
	entries, err := r.FS.ReadDir(r.Dir)
	if err != nil {
		return nil, err
	}
	findings := r.closure(entries)
	if len(findings) > 0 {
		return findings, nil
	}
	if r.Own {
		return r.checkFiles(ctx)
	}
	err = r.View(ctx, func(rd Reader) error {
		findings, err = r.checkAll(ctx, rd)
		return err
	})
	return findings, err
}

// checkAll validates the files and compares them with their checksums.
func (r *Root) checkAll(ctx context.Context, rd Reader) ([]Finding, error) {
	findings, err := check(ctx, rd, nil, maxFindings)
	if err != nil {
		return nil, err
	}
	bad, err := r.checkSums(rd, len(findings) == 0)
	return append(findings, bad...), err
}

// checkSums compares every page with its checksum. Where the checksums are not
// known and the root is sound, they are those of what is there.
func (r *Root) checkSums(rd Reader, sound bool) ([]Finding, error) {
	batch, err := r.latestBatch()
	if err != nil {
		return nil, err
	}
	if s := r.currentSums(batch); s != nil {
		return s.verify(rd, maxFindings)
	}
	if !sound {
		return nil, nil
	}
	r.sumsDue.Store(true)
	return nil, r.sumAll(rd)
}

// checkFiles validates what is on the disk of an owned root, not what is in its
// memory.
func (r *Root) checkFiles(ctx context.Context) ([]Finding, error) {
	select {
	case r.leader <- struct{}{}:
		defer func() { <-r.leader }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.closed.Load() {
		return nil, ErrClosed
	}
	if f := r.failed.Load(); f != nil && !f.undone {
		return nil, r.refused()
	}
	return r.checkAll(ctx, r.newView())
}

// validate checks what m does not vouch for: everything when m is nil, else the
// records behind its lengths, each by itself.
func (r *Root) validate(ctx context.Context, rd Reader, m *mark) error {
	if m != nil {
		grown, err := r.behind(rd, m)
		if err != nil || !grown {
			return err
		}
		switch {
		case m == r.marked && r.readSeal(m) != nil:
			// Nobody here has committed since the mark was left, so that it was
			// somebody who leaves none.
			r.marked, m = nil, nil
		case r.Kind == record.RootRegistry:
			m = nil // few records, and their rules compare them with each other
		}
	}
	return firstOf(check(ctx, rd, m, 1))
}

func firstOf(findings []Finding, err error) error {
	if err != nil || len(findings) == 0 {
		return err
	}
	f := findings[0]
	if f.cause != nil {
		return fmt.Errorf("%w (%s)", f.cause, f.Check)
	}
	return fmt.Errorf("%w: %s", ErrCorrupt, f)
}

// behind takes the lengths of all files from the directory and reports whether
// any file has grown behind m. A shorter one has lost committed bytes.
func (r *Root) behind(rd Reader, m *mark) (grown bool, err error) {
	entries, err := r.FS.ReadDir(r.Dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		f, ok := byFile[e.Name]
		if !ok || f.root != r.Kind {
			continue
		}
		old := m.Lengths[f.file]
		if e.Size < old {
			return false, corruptf("%s has %d bytes; %d were there at the last clean stop (%s)", f.file, e.Size, old, f.check("F03"))
		}
		if v, ok := rd.(*view); ok {
			v.sizes[f.no] = e.Size
		}
		grown = grown || e.Size > old
	}
	return grown, nil
}

// checker goes through the files of one root once. Rules report with bad and
// never stop by themselves: stop is set when enough was found or a read failed,
// and every loop ends on it.
type checker struct {
	ctx      context.Context
	rd       Reader
	max      int
	findings []Finding
	stop     error

	// full: all rules for all records. Otherwise only records from on are
	// checked, and only by rules that concern one record and its targets.
	full    bool
	from    []uint32 // by family number
	counts  []uint32 // by family number, zero for payload files
	sizes   []int64  // by family number
	windows []window // by family number
	spans   [][]span // by family number, of payload files
}

// errEnough ends a check that has found as much as it was asked for.
var errEnough = errors.New("enough findings")

func check(ctx context.Context, rd Reader, m *mark, limit int) ([]Finding, error) {
	c := &checker{
		ctx: ctx, rd: rd, max: limit, full: m == nil,
		from: make([]uint32, len(families)), counts: make([]uint32, len(families)),
		sizes: make([]int64, len(families)), windows: make([]window, len(families)),
		spans: make([][]span, len(families)),
	}
	kind := rd.root().Kind
	c.measure(kind, m)
	// Nothing can be said about records while the files themselves are wrong.
	if c.stop == nil && len(c.findings) == 0 {
		if kind == record.RootRegistry {
			c.registry()
		} else {
			c.authority()
		}
		c.overlaps()
	}
	if c.stop != nil && !errors.Is(c.stop, errEnough) {
		return nil, c.stop
	}
	return c.findings, nil
}

// authority runs the rules of a repository root.
func (c *checker) authority() {
	t := c.loadTargets()
	chains := c.newChains()
	c.together(
		func(c *checker) { c.content(t) },
		func(c *checker) { c.plans(t) },
		func(c *checker) { c.queue(t) },
		func(c *checker) { c.workflow(t, chains) },
		func(c *checker) { c.policy(t, chains) },
	)
	c.chainRows(chains)
}

// together runs parts of a full check side by side. Each has findings of its own,
// which are put together in the order of the parts, as if they had run one after
// another. No two parts refer to the same payload file or have members of the same
// chain.
func (c *checker) together(parts ...func(c *checker)) {
	if !c.full {
		for _, part := range parts {
			part(c)
		}
		return
	}
	alone := make([]checker, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		alone[i] = *c
		alone[i].findings = nil
		wg.Go(func() { part(&alone[i]) })
	}
	wg.Wait()
	for _, p := range alone {
		for _, f := range p.findings {
			c.add(f)
		}
		if p.stop != nil && !errors.Is(p.stop, errEnough) {
			c.fail(p.stop)
		}
	}
}

// measure reads the length of every file and checks what a length can show.
func (c *checker) measure(kind record.Root, m *mark) {
	for _, f := range familiesOf(kind) {
		n, err := c.rd.size(f)
		if img, ok := c.rd.(*image); ok && err == nil && c.full {
			if _, bad := f.count(n); bad == nil || !f.fixed { // else it is not worth loading
				_, err = img.file(f) // its header too
			}
		}
		switch {
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrLayout):
			c.badFile(f, "F01", err)
			continue
		case err != nil:
			c.fail(err)
			return
		}
		c.sizes[f.no] = n
		if !f.fixed {
			continue
		}
		if c.counts[f.no], err = f.count(n); err != nil {
			id := "F03"
			switch {
			case (n-HeaderSize)/int64(f.size) <= MaxTargets:
			case f == WorkerJobs.f:
				id = "J07"
			case f == Repositories.f:
				id = "G15"
			}
			c.badFile(f, id, err)
		}
		if m != nil {
			c.from[f.no] = uint32((m.Lengths[f.file] - HeaderSize) / int64(f.size))
		}
	}
}

func (c *checker) fail(err error) {
	if c.stop == nil {
		c.stop = err
	}
}

func (c *checker) add(f Finding) {
	if c.stop != nil {
		return
	}
	c.findings = append(c.findings, f)
	if len(c.findings) >= c.max {
		c.stop = errEnough
	}
}

// bad reports a violation that concerns a file as a whole.
func (c *checker) bad(f *family, id, format string, args ...any) {
	c.add(Finding{Check: f.check(id), File: f.file, Message: fmt.Sprintf(format, args...)})
}

// badFile reports an error that says itself which file it is about.
func (c *checker) badFile(f *family, id string, err error) {
	text := strings.TrimPrefix(err.Error(), ErrCorrupt.Error()+": ")
	text = strings.TrimLeft(strings.TrimPrefix(text, f.file), ": ")
	c.add(Finding{Check: f.check(id), File: f.file, Message: text, cause: err})
}

// badField reports a violation in one field of one record.
func (c *checker) badField(f *family, i uint32, id, field, format string, args ...any) {
	c.add(Finding{
		Check: f.check(id), File: f.file, Index: i, HasIndex: true,
		Field: field, Message: fmt.Sprintf(format, args...),
	})
}

// badRecord reports an error of Decode or Check.
func (c *checker) badRecord(f *family, i uint32, err error) {
	var fe *record.FieldError
	if !errors.As(err, &fe) {
		c.badField(f, i, "F06", "", "%v", err)
		return
	}
	value := strconv.FormatUint(fe.Value, 10)
	if fe.Bytes != nil {
		value = hex.EncodeToString(fe.Bytes)
	}
	id, field := fe.Check, fe.Field
	if l, ok := record.ByFile(f.file); ok && l.Kind == record.KindChain {
		for i, shared := range chainFields {
			if shared.Name == field && i < len(l.Fields) {
				field = l.Fields[i].Name
			}
		}
	}
	if f.root == record.RootRegistry && id == "F06" && field == "lifecycle_kind" {
		id = "G09"
	}
	c.badField(f, i, id, field, "is %s, want %s", value, fe.Want)
}

// chainFields are the names in the shared chain rows; each file has its own.
var chainFields = new(record.OrdinalChain).Layout().Fields[:3]

// check is the name of a check in the root of the family: the registry numbers
// the common ones differently (section 17.3).
func (f *family) check(id string) string {
	if f.root != record.RootRegistry {
		return id
	}
	switch id {
	case "F01":
		return "G03"
	case "F02":
		return "G02"
	case "F03":
		return "G04"
	case "F04", "F07":
		return "G12"
	case "F05":
		return "G13"
	case "F06":
		return "G05"
	}
	return id
}

// scan decodes and checks the records of a table that are to be checked, and
// calls fn for each one that can be decoded. The record is reused.
func scan[T any, P record.Codec[T]](c *checker, t Table[T, P], fn func(i uint32, rec *T)) {
	var rec T
	checks, _ := any(P(&rec)).(interface{ Check() error })
	each(c, t.f, c.from[t.f.no], func(i uint32, raw []byte) {
		if err := P(&rec).Decode(raw); err != nil {
			c.badRecord(t.f, i, err)
			return
		}
		if checks != nil {
			if err := checks.Check(); err != nil {
				c.badRecord(t.f, i, err)
			}
		}
		fn(i, &rec)
	})
}

// each reads the records of a family from the given one on, in large pieces.
func each(c *checker, f *family, from uint32, fn func(i uint32, raw []byte)) {
	const piece = 256 << 10
	if c.stop != nil {
		return
	}
	err := pieces(c.rd, f, f.offset(from), f.offset(c.counts[f.no]), f.wholeRecords(piece), func(at int64, b []byte) error {
		for i := f.index(at); len(b) > 0; i++ {
			if fn(i, b[:f.size]); c.stop != nil {
				return c.stop
			}
			b = b[f.size:]
		}
		return c.ctx.Err()
	})
	if err != nil && c.stop == nil {
		c.fail(err)
	}
}
