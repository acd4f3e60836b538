package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"

	"github.com/writ-authority/writ/workitem"
)

// How much is loaded at once.
const (
	batchRows  = 2048
	batchBytes = 4 << 20
)

// Import reads what Export has written into an empty store, which fill opens once the
// first line has shown that it is an export. Only if all of it was there and is in the
// store is that finished; otherwise it refuses every use until another import.
func Import(ctx context.Context, r io.Reader, fill func(context.Context) (workitem.Loader, error)) (_ *Summary, err error) {
	m := &importer{ctx: ctx, counts: map[count]int64{}, given: map[count]int64{}}
	s := newScanner(r)
	l, err := s.next()
	if err != nil {
		return nil, err
	}
	if err := checkHeader(l.Header); err != nil {
		return nil, err
	}
	m.done.Header = *l.Header
	if m.into, err = fill(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.into.Close()) }()
	for m.end == nil {
		l, err := s.next()
		if err != nil {
			return nil, err
		}
		if err := m.line(l, len(s.text)); err != nil {
			if e := (*lineError)(nil); errors.As(err, &e) {
				err = s.damaged(err.Error())
			}
			return nil, err
		}
	}
	if err := s.last(m.end); err != nil {
		return nil, err
	}
	if err := m.finish(); err != nil {
		return nil, err
	}
	return &m.done, nil
}

// Copy copies an export and checks that it is whole, without looking at its rows. What
// was written is of no use if Copy returns an error.
func Copy(w io.Writer, r io.Reader) (*Summary, error) {
	var sum Summary
	s, out := newScanner(r), bufio.NewWriterSize(w, chunk)
	for {
		if err := s.read(); err != nil {
			return nil, err
		}
		var end *end
		head, tail := s.number == 1, bytes.HasPrefix(s.text, []byte(`{"end"`))
		if head || tail {
			l, err := s.parse()
			if err != nil {
				return nil, err
			}
			if head {
				if err := checkHeader(l.Header); err != nil {
					return nil, err
				}
				sum.Header = *l.Header
			}
			end = l.End
		}
		if end == nil {
			s.sum.Write(s.text)
		} else if err := s.last(end); err != nil {
			return nil, err
		}
		if _, err := out.Write(s.text); err != nil {
			return nil, err
		}
		if end != nil {
			sum.Rows = end.Rows
			return &sum, out.Flush()
		}
	}
}

// scanner reads lines.
type scanner struct {
	r      *bufio.Reader
	text   []byte // of the line, with its end
	number int64
	sum    hash.Hash // of all lines before
}

func newScanner(r io.Reader) *scanner {
	return &scanner{r: bufio.NewReaderSize(r, 256<<10), sum: sha256.New()}
}

// damaged says what is wrong with the present line.
func (s *scanner) damaged(what string) error {
	if s.number <= 1 {
		return fmt.Errorf("%w: line 1: %s", ErrFormat, what)
	}
	return fmt.Errorf("%w: line %d: %s", ErrDamaged, s.number, what)
}

// read reads a line.
func (s *scanner) read() error {
	s.number++
	s.text = s.text[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		s.text = append(s.text, part...)
		switch {
		case len(s.text) > maxLine:
			return s.damaged(fmt.Sprintf("it is longer than %d bytes", maxLine))
		case err == nil:
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return s.damaged("it ends here, before its last line")
		default:
			return err
		}
	}
}

// parse gives the line that was read.
func (s *scanner) parse() (*line, error) {
	l, err := parseLine(s.text[:len(s.text)-1])
	if err != nil {
		return nil, s.damaged(err.Error())
	}
	return l, nil
}

// next reads and parses a line.
func (s *scanner) next() (*line, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	l, err := s.parse()
	if err == nil && l.End == nil {
		s.sum.Write(s.text)
	}
	return l, err
}

// last checks the last line: nothing may follow, and everything before must be what it
// was.
func (s *scanner) last(e *end) error {
	if got := hex.EncodeToString(s.sum.Sum(nil)); got != e.SHA256 {
		return s.damaged("what was read has another SHA-256 than what was written")
	}
	switch _, err := s.r.ReadByte(); {
	case err == nil:
		return s.damaged("something follows the last line")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

func checkHeader(h *Header) error {
	switch {
	case h == nil || h.Format != formatName:
		return fmt.Errorf("%w: the first line is not its header", ErrFormat)
	case h.Version > version:
		return fmt.Errorf("%w: it has version %d, this one reads up to %d", ErrNewer, h.Version, version)
	case h.Version < 1 || h.Epoch < 0 || h.Epoch > workitem.LastEpoch:
		return fmt.Errorf("%w: the version or the epoch of its header can't be", ErrFormat)
	}
	if _, _, err := workitem.ParseInstant(h.At); err != nil {
		return fmt.Errorf("%w: the time of its header is malformed", ErrFormat)
	}
	return nil
}

// lineError is what is wrong with a line, which is named by whoever has its number.
type lineError struct{ what string }

func (e *lineError) Error() string { return e.what }

func wrong(format string, args ...any) error { return &lineError{fmt.Sprintf(format, args...)} }

// importer is an import under way.
type importer struct {
	ctx    context.Context
	into   workitem.Loader
	sort   int // of the last line
	batch  workitem.Batch
	rows   int // of the batch
	bytes  int
	last   *workitem.FullItem // the job whose events may follow
	counts map[count]int64    // of the jobs that came; count.Jobs is 0
	given  map[count]int64    // of the lines that count
	done   Summary
	end    *end
}

// line takes a line of some bytes.
func (m *importer) line(l *line, bytes int) error {
	sort := l.sort()
	if sort == sortHeader || sort < m.sort {
		return wrong("it does not belong here: first come jobs, then edges, tombstones, claims, turns, tokens, counts and the end")
	}
	m.sort = sort
	if l.Events == nil {
		if err := m.flush(false); err != nil {
			return err
		}
		m.last = nil
	}
	m.bytes += bytes
	m.rows++
	if err := m.add(l); err != nil {
		if e := (*lineError)(nil); !errors.As(err, &e) {
			err = wrong("%v", err)
		}
		return err
	}
	return nil
}

// add takes what a line has.
func (m *importer) add(l *line) error {
	b, n := &m.batch, &m.done.Rows
	switch {
	case l.Job != nil:
		f, err := l.Job.item()
		if err != nil {
			return err
		}
		m.last = f
		b.Items = append(b.Items, f)
		n.Jobs++
		m.counts[count{Tenant: f.Item.Tenant, Kind: f.Item.Kind.String(), State: f.Item.Status.State()}]++
	case l.Events != nil:
		return m.events(l.Events)
	case l.Edge != nil:
		e, err := l.Edge.edge()
		if err != nil {
			return err
		}
		b.Edges = append(b.Edges, e)
		n.Edges++
	case l.Tombstone != nil:
		t, err := l.Tombstone.tombstone()
		if err != nil {
			return err
		}
		b.Tombstones = append(b.Tombstones, t)
		n.Tombstones++
	case l.Claim != nil:
		r, err := l.Claim.recall()
		if err != nil {
			return err
		}
		b.Recalls = append(b.Recalls, r)
		n.Claims++
	case l.Turn != nil:
		t, err := l.Turn.turn()
		if err != nil {
			return err
		}
		b.Turns = append(b.Turns, t)
		n.Turns++
	case l.Token != nil:
		k, err := l.Token.token()
		if err != nil {
			return err
		}
		b.Tokens = append(b.Tokens, k)
		n.Tokens++
	case l.Count != nil:
		key := *l.Count
		key.Jobs = 0
		if _, twice := m.given[key]; twice || l.Count.Jobs < 1 || m.counts[key] != l.Count.Jobs {
			return wrong("it counts %d jobs, but %d came", l.Count.Jobs, m.counts[key])
		}
		m.given[key] = l.Count.Jobs
	case l.End != nil:
		if l.End.Rows != *n || len(m.given) != len(m.counts) {
			return wrong("%s came, but %s were written", *n, l.End.Rows)
		}
		m.end = l.End
	}
	return nil
}

func (m *importer) events(l *events) error {
	if m.last == nil || m.last.Item.ID.JobID() != l.Job {
		return wrong("its events are not those of the job before")
	}
	if len(l.List) == 0 || len(l.List) > eventsALine {
		return wrong("it has %d events, expected 1 to %d", len(l.List), eventsALine)
	}
	for i := range l.List {
		ev, err := l.List[i].event()
		if err != nil {
			return err
		}
		if n := len(m.last.History); n > 0 && m.last.History[n-1].Seq >= ev.Seq {
			return wrong("its events are out of order")
		}
		m.last.History = append(m.last.History, ev)
	}
	if len(m.last.History) > maxEvents {
		return wrong("its job has more than %d events", maxEvents)
	}
	m.rows += len(l.List)
	m.done.Rows.Events += int64(len(l.List))
	return nil
}

// flush loads the batch if it is large enough, or if it is the last one.
func (m *importer) flush(all bool) error {
	if m.rows == 0 || !all && m.rows < batchRows && m.bytes < batchBytes {
		return nil
	}
	err := m.into.Load(m.ctx, &m.batch)
	if errors.Is(err, workitem.ErrTwice) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	m.batch, m.rows, m.bytes = workitem.Batch{}, 0, 0
	return err
}

// finish loads what is left, lets the store count what it has, and finishes it.
func (m *importer) finish() error {
	if err := m.flush(true); err != nil {
		return err
	}
	sizes, err := m.into.Sizes(m.ctx)
	if err != nil {
		return err
	}
	if sizes != m.done.Rows {
		return fmt.Errorf("%w: the store has %s, but %s were imported", ErrMiscounted, sizes, m.done.Rows)
	}
	tenants := map[string]bool{}
	for c := range m.counts {
		tenants[c.Tenant] = true
	}
	counted := map[count]int64{}
	for tenant := range tenants {
		counts, err := m.into.Counts(m.ctx, tenant)
		if err != nil {
			return err
		}
		for _, c := range counts {
			counted[count{Tenant: tenant, Kind: c.Kind.String(), State: c.Status.State()}] = int64(c.Rows)
		}
	}
	if !maps.Equal(counted, m.counts) {
		return fmt.Errorf("%w: its jobs by tenant, kind and state are not those that were imported", ErrMiscounted)
	}
	at, _, err := workitem.ParseInstant(m.done.At)
	if err != nil {
		return err
	}
	return m.into.Finish(m.ctx, m.done.Epoch, at)
}

// sortedCounts are the keys of counts, in order.
func sortedCounts(counts map[count]int64) []count {
	return slices.SortedFunc(maps.Keys(counts), func(a, b count) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State))
	})
}
