package transfer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/writ-authority/writ/workitem"
)

// Where a server gives its export, to whom may see everything that it has.
const (
	Path        = "/export"
	ContentType = "application/x-ndjson"
)

const (
	page  = 512      // rows that are read at once
	chunk = 64 << 10 // bytes that are written at once
)

// Options say what is exported, and who is told how far it has come.
type Options struct {
	// Tenant, if it is not empty, is the only one that the store may have anything of:
	// of a store with others too nothing is exported.
	Tenant string
	// Progress, if not nil, is told how many jobs of how many are written.
	Progress func(done, total int64)
}

// Summary is what was moved.
type Summary struct {
	Header
	Rows workitem.Sizes
}

// Export writes everything that a store has, as it is at one moment. The last line is
// written only once all of it is durable in the store. What was written is of no use if
// Export returns an error.
func Export(ctx context.Context, store interface {
	View(context.Context, func(workitem.Reader) error) error
}, w io.Writer, o Options) (*Summary, error) {
	e := &exporter{ctx: ctx, w: bufio.NewWriterSize(w, chunk), sum: sha256.New(), o: o, counts: map[count]int64{}}
	err := store.View(ctx, func(r workitem.Reader) error {
		d, ok := r.(workitem.Dumper)
		if !ok {
			return ErrEngine
		}
		return e.store(d)
	})
	if err != nil {
		return nil, err
	}
	err = e.write(&line{End: &end{Rows: e.done.Rows, SHA256: hex.EncodeToString(e.sum.Sum(nil))}})
	if err == nil {
		err = e.w.Flush()
	}
	if err != nil {
		return nil, err
	}
	return &e.done, nil
}

type exporter struct {
	ctx    context.Context
	w      *bufio.Writer
	sum    hash.Hash
	o      Options
	text   []byte          // of a line, used again
	counts map[count]int64 // jobs by tenant, kind and state; count.Jobs is 0
	done   Summary
}

// damaged is the refusal of rows that no store should have.
func damaged(what string, err error) error {
	return &workitem.Error{Code: workitem.Internal, Message: "the store is damaged: " + what, Err: err}
}

// write writes a line.
func (e *exporter) write(l *line) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	var err error
	e.text, err = appendLine(e.text[:0], l)
	if err != nil {
		return damaged("it has a text that is not UTF-8", err)
	}
	if len(e.text) > maxLine {
		return damaged("it has a row that is longer than any should be", nil)
	}
	e.sum.Write(e.text)
	_, err = e.w.Write(e.text)
	return err
}

func appendLine(b []byte, l *line) ([]byte, error) {
	text, err := json.Marshal(l)
	return append(append(b, text...), '\n'), err
}

// allowed refuses rows of a tenant that may not be exported.
func (e *exporter) allowed(tenant string) error {
	if e.o.Tenant == "" || e.o.Tenant == tenant {
		return nil
	}
	return &workitem.Error{Code: workitem.UnauthorizedTarget,
		Message: "an export has everything that the store has, and others have something there too: export on the machine of the server"}
}

func (e *exporter) store(d workitem.Dumper) error {
	total, err := e.before(d)
	if err != nil {
		return err
	}
	epoch, err := d.Epoch()
	if err != nil {
		return err
	}
	engine, schema := d.Engine()
	e.done.Header = Header{Format: formatName, Version: version, Engine: engine, Schema: schema, Epoch: epoch, At: d.Now().RFC3339()}
	if err := e.write(&line{Header: &e.done.Header}); err != nil {
		return err
	}
	for _, part := range []func() error{
		func() error { return e.jobs(d, total) },
		func() error { return e.edges(d) },
		func() error { return e.tombstones(d) },
		func() error { return e.claims(d) },
		func() error { return e.turns(d) },
		func() error { return e.tokens(d) },
		func() error { return e.tally(d) },
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// before counts the jobs, and refuses other tenants before anything is written.
func (e *exporter) before(d workitem.Dumper) (total int64, err error) {
	tenants, err := d.Tenants()
	if err != nil {
		return 0, err
	}
	for _, tenant := range tenants {
		if err := e.allowed(tenant); err != nil {
			return 0, err
		}
		counts, err := d.Counts(tenant)
		if err != nil {
			return 0, err
		}
		for _, c := range counts {
			total += int64(c.Rows)
		}
	}
	tokens, err := d.Tokens("")
	if err != nil {
		return 0, err
	}
	for _, k := range tokens {
		if err := e.allowed(k.Tenant); err != nil {
			return 0, err
		}
	}
	return total, nil
}

func (e *exporter) jobs(d workitem.Dumper, total int64) error {
	for after := int64(0); ; {
		items, err := d.Items(after, page)
		if err != nil {
			return err
		}
		for _, f := range items {
			if err := e.job(f); err != nil {
				return err
			}
			after = f.Item.Row
		}
		if e.o.Progress != nil {
			e.o.Progress(e.done.Rows.Jobs, total)
		}
		if len(items) < page {
			return nil
		}
	}
}

func (e *exporter) job(f *workitem.FullItem) error {
	if err := e.allowed(f.Item.Tenant); err != nil {
		return err
	}
	j, err := newJob(f)
	if err == nil {
		_, err = j.item() // or nobody could import it
	}
	if err != nil {
		return damaged("job "+f.Item.ID.JobID()+" can't be read", err)
	}
	if err := e.write(&line{Job: j}); err != nil {
		return err
	}
	for chunk := range slices.Chunk(f.History, eventsALine) {
		l := &events{Job: j.ID, List: make([]event, len(chunk))}
		for i := range chunk {
			l.List[i] = newEvent(&chunk[i])
			if _, err := l.List[i].event(); err != nil {
				return damaged("the history of job "+j.ID+" can't be read", err)
			}
		}
		if err := e.write(&line{Events: l}); err != nil {
			return err
		}
		e.done.Rows.Events += int64(len(chunk))
	}
	e.done.Rows.Jobs++
	e.counts[count{Tenant: j.Tenant, Kind: j.Kind, State: j.State}]++
	return nil
}

// pages reads pages, beginning with the zero value, and calls row for everything in
// them.
func pages[T, K any](read func(after K, limit int) ([]T, error), key func(T) K, row func(T) error) error {
	var after K
	for {
		list, err := read(after, page)
		if err != nil {
			return err
		}
		for _, t := range list {
			if err := row(t); err != nil {
				return err
			}
			after = key(t)
		}
		if len(list) < page {
			return nil
		}
	}
}

// same is the key of rows that are their own.
func same[T any](t T) T { return t }

func (e *exporter) edges(d workitem.Dumper) error {
	return pages(d.Edges, same, func(g workitem.Edge) error {
		e.done.Rows.Edges++
		return e.write(&line{Edge: &edge{Parent: g.Parent.JobID(), Child: g.Child.JobID()}})
	})
}

func (e *exporter) tombstones(d workitem.Dumper) error {
	return pages(d.Tombstones, func(t *workitem.Tombstone) workitem.ID { return t.ID }, func(t *workitem.Tombstone) error {
		l := newTombstone(t)
		if _, err := l.tombstone(); err != nil {
			return damaged("the tombstone of job "+l.ID+" can't be read", err)
		}
		e.done.Rows.Tombstones++
		return e.row(t.Tenant, &line{Tombstone: l})
	})
}

func (e *exporter) claims(d workitem.Dumper) error {
	return pages(d.Recalls, same, func(r workitem.Recall) error {
		l := newClaim(&r)
		if _, err := l.recall(); err != nil {
			return damaged("a claim request id of job "+l.Job+" can't be read", err)
		}
		e.done.Rows.Claims++
		return e.row(r.Tenant, &line{Claim: l})
	})
}

func (e *exporter) turns(d workitem.Dumper) error {
	return pages(d.Turns, same, func(t workitem.BucketTurn) error {
		l := newTurn(&t)
		if _, err := l.turn(); err != nil {
			return damaged("a turn can't be read", err)
		}
		e.done.Rows.Turns++
		return e.row(t.Tenant, &line{Turn: l})
	})
}

func (e *exporter) tokens(d workitem.Dumper) error {
	tokens, err := d.Tokens("")
	if err != nil {
		return err
	}
	for _, k := range tokens {
		l := newToken(k)
		if _, err := l.token(); err != nil {
			return damaged("a token can't be read", err)
		}
		e.done.Rows.Tokens++
		if err := e.row(k.Tenant, &line{Token: l}); err != nil {
			return err
		}
	}
	return nil
}

// row writes the line of a tenant's row.
func (e *exporter) row(tenant string, l *line) error {
	if err := e.allowed(tenant); err != nil {
		return err
	}
	return e.write(l)
}

// tally writes how many jobs there are. The store, which keeps count, must agree.
func (e *exporter) tally(d workitem.Dumper) error {
	tenants, err := d.Tenants()
	if err != nil {
		return err
	}
	counted := int64(0)
	for _, tenant := range tenants {
		counts, err := d.Counts(tenant)
		if err != nil {
			return err
		}
		for _, c := range counts {
			key := count{Tenant: tenant, Kind: c.Kind.String(), State: c.Status.State()}
			if e.counts[key] != int64(c.Rows) {
				return damaged(fmt.Sprintf("it counts %d jobs of a kind and state, but %d were found", c.Rows, e.counts[key]), nil)
			}
			counted += int64(c.Rows)
		}
	}
	if counted != e.done.Rows.Jobs {
		return damaged(fmt.Sprintf("it counts %d jobs, but %d were found", counted, e.done.Rows.Jobs), nil)
	}
	for _, key := range sortedCounts(e.counts) {
		key.Jobs = e.counts[key]
		if err := e.write(&line{Count: &key}); err != nil {
			return err
		}
	}
	return nil
}
