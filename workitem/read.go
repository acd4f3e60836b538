package workitem

import (
	"context"
	"sort"
	"time"
)

// rowHalves is a row with both halves, kept beyond its transaction.
type rowHalves struct {
	item   Item
	stored *Stored
}

func (h *rowHalves) read(r Reader, it *Item) error {
	stored, err := r.Stored(it)
	if err != nil {
		return err
	}
	h.item, h.stored = *it, stored
	return nil
}

func (h *rowHalves) view() (View, error) {
	record, err := DecodeRecord(h.stored.Metadata)
	if err != nil {
		return View{}, err
	}
	return NewView(&h.item, record), nil
}

// Get reads one job (section 10.10). With a wait it answers once the job has
// ended, or when the time is over.
func (c *Caller) Get(ctx context.Context, in *GetInput) (*View, error) {
	if err := c.need(ScopeRead); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	if in.Until != "" && in.Until != "terminal" {
		return nil, invalid("until", "must be terminal")
	}
	wait, err := seconds("wait_s", in.Wait, 0, maxWait, false)
	if err != nil {
		return nil, err
	}
	row, err := c.read(ctx, id, wait)
	if err != nil {
		return nil, err
	}
	view, err := row.view()
	return &view, err
}

// read reads a row, at once or when it has become terminal.
func (c *Caller) read(ctx context.Context, id ID, wait time.Duration) (*rowHalves, error) {
	var row rowHalves
	get := func() error {
		return c.a.store.View(ctx, func(r Reader) error {
			it, err := c.find(r, id)
			if err != nil {
				return err
			}
			return row.read(r, it)
		})
	}
	if wait == 0 {
		return &row, get()
	}
	changed := c.a.hub.item(id)
	defer c.a.hub.dropItem(id, changed)
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		if err := get(); err != nil || row.item.Status.Terminal() || c.a.hub.over() {
			return &row, err
		}
		select {
		case <-ctx.Done():
			return &row, nil
		case <-end.C:
			return &row, nil
		case <-changed:
		}
	}
}

// Result says how a job has ended (section 8.3).
func (c *Caller) Result(ctx context.Context, in *JobInput) (*Result, error) {
	if err := c.need(ScopeRead); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	row, err := c.read(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	if !row.item.Status.Terminal() {
		return nil, &Error{Code: InvalidState, Message: "the job has not ended: it is " + row.item.Status.State()}
	}
	record, err := DecodeRecord(row.stored.Metadata)
	if err != nil {
		return nil, err
	}
	result := NewResult(&row.item, record)
	return &result, nil
}

// downstreamLimit is how many of the jobs that depend on a job Explain names.
const downstreamLimit = 100

// Explain says why a job can or can't be claimed at this moment.
func (c *Caller) Explain(ctx context.Context, in *JobInput) (*Diagnostics, error) {
	if err := c.need(ScopeRead); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	var d *Diagnostics
	err = c.a.store.View(ctx, func(r Reader) error {
		it, err := c.find(r, id)
		if err != nil {
			return err
		}
		d, err = c.explain(r, it)
		return err
	})
	return d, err
}

func (c *Caller) explain(r Reader, it *Item) (*Diagnostics, error) {
	now := r.Now()
	d := &Diagnostics{
		JobID: it.ID.JobID(), PrioBucket: it.Bucket(), DepCount: it.DepCount,
		BlockedBy: []Related{}, Downstream: []Related{}, WhyNot: []Why{},
		NextRetryAt:    instantText(it.NextRetryAt),
		DeadlinePassed: it.Deadline != 0 && it.Deadline < now,
		LeaseExpired:   it.expired(now),
		ConsentState:   it.consent(now),
		DeferCount:     it.DeferCount,
		Claimable:      it.claimable(now),
	}
	if it.CancelReason != "" {
		d.CancelReason = &it.CancelReason
	}
	for _, id := range it.DependsOn {
		p, err := r.Item(id)
		if err != nil {
			return nil, err
		}
		switch {
		case p == nil || p.Tenant != it.Tenant:
			d.BlockedBy = append(d.BlockedBy, Related{WorkItemID: id.WorkItemID(), State: "missing"})
		case p.Status != Succeeded:
			d.BlockedBy = append(d.BlockedBy, Related{WorkItemID: id.WorkItemID(), State: p.Status.State()})
		}
	}
	children, err := r.Children(it.ID)
	if err != nil {
		return nil, err
	}
	for _, id := range children {
		child, err := r.Item(id)
		if err != nil {
			return nil, err
		}
		if !c.sees(child) {
			continue
		}
		if len(d.Downstream) == downstreamLimit {
			d.DownstreamTruncated = true
			break
		}
		d.Downstream = append(d.Downstream, Related{WorkItemID: id.WorkItemID(), State: child.Status.State()})
	}
	for _, reason := range it.Obstacles(now) {
		d.WhyNot = append(d.WhyNot, Why{Reason: reason, Detail: reasonDetail(reason, it)})
	}
	live, err := r.Leases(it.Tenant)
	if err != nil {
		return nil, err
	}
	d.Quota = Quota{LiveLeases: live, Limit: c.a.cfg.Quota, Reached: live >= c.a.cfg.Quota}
	stored, err := r.Stored(it)
	if err != nil {
		return nil, err
	}
	fault := ""
	if _, err := DecodeRecord(stored.Metadata); err != nil {
		fault = "its record can't be read"
	} else if it.DepState == DepFaulty {
		fault = "a parent is missing or belongs to another tenant"
	}
	if fault != "" {
		d.Fault = &fault
	}
	return d, nil
}

// reasonDetail says what ends an obstacle.
func reasonDetail(reason string, it *Item) string {
	switch reason {
	case ReasonTerminal:
		return "the job has ended as " + it.Status.State()
	case ReasonSubmitted:
		return "it waits for parents that have not succeeded: see blocked_by"
	case ReasonLeased:
		return "it is leased to " + it.LeaseOwner + " until " + it.LeaseExpiresAt.RFC3339()
	case ReasonExhausted:
		return "its attempts are used up: the next claim makes it a dead letter"
	case ReasonBackoff:
		return "it may be tried again from " + it.NextRetryAt.RFC3339() + " on"
	case ReasonDeadlinePassed:
		return "its queue deadline was " + it.Deadline.RFC3339() + ": cancel it, or submit a new job"
	case ReasonConsentDenied:
		return "an operator must restore its consent"
	case ReasonFaulty:
		return "its row is damaged: run reconcile, or restore what it refers to"
	default:
		return ""
	}
}

func instantText(i Instant) *string {
	if i == 0 {
		return nil
	}
	s := i.RFC3339()
	return &s
}

// History lists the changes of a job's status, oldest first.
func (c *Caller) History(ctx context.Context, in *JobInput) (*History, error) {
	if err := c.need(ScopeRead); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	h := &History{JobID: id.JobID(), Items: []Transition{}}
	err = c.a.store.View(ctx, func(r Reader) error {
		it, err := c.find(r, id)
		if err != nil {
			return err
		}
		events, err := r.History(it)
		if err != nil {
			return err
		}
		for _, ev := range events {
			t := Transition{Seq: ev.Seq, At: ev.At.RFC3339(), Event: ev.Name, To: ev.To.State(), Epoch: ev.Epoch, Subject: ev.Subject, Detail: ev.Detail}
			if ev.From != 0 {
				t.From = ev.From.State()
			}
			h.Items = append(h.Items, t)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

const graphLimit = 200

// Graph walks from a job to its ancestors and to its descendants, nearest first.
func (c *Caller) Graph(ctx context.Context, in *GraphInput) (*Graph, error) {
	if err := c.need(ScopeRead); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(in.Limit, graphLimit)
	if err != nil {
		return nil, err
	}
	g := &Graph{JobID: id.JobID(), Nodes: []GraphNode{}, Edges: []GraphEdge{}}
	err = c.a.store.View(ctx, func(r Reader) error {
		it, err := c.find(r, id)
		if err != nil {
			return err
		}
		return c.walk(r, it, limit, g)
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (c *Caller) walk(r Reader, start *Item, limit int, g *Graph) error {
	seen := map[ID]bool{start.ID: true}
	edges := map[[2]ID]bool{}
	line := []*Item{start}
	for len(line) > 0 {
		it := line[0]
		line = line[1:]
		stored, err := r.Stored(it)
		if err != nil {
			return err
		}
		g.Nodes = append(g.Nodes, GraphNode{
			WorkItemID: it.ID.WorkItemID(), Operation: it.Kind.Operation(),
			State: it.Status.State(), RequestID: stored.RequestID,
		})
		children, err := r.Children(it.ID)
		if err != nil {
			return err
		}
		visit := func(other ID, edge [2]ID) error {
			next, err := r.Item(other)
			if err != nil || !c.sees(next) {
				return err
			}
			if !seen[other] {
				if len(seen) >= limit {
					g.Truncated = true
					return nil
				}
				seen[other] = true
				line = append(line, next)
			}
			edges[edge] = true
			return nil
		}
		for _, p := range it.DependsOn {
			if err := visit(p, [2]ID{p, it.ID}); err != nil {
				return err
			}
		}
		for _, child := range children {
			if err := visit(child, [2]ID{it.ID, child}); err != nil {
				return err
			}
		}
	}
	for e := range edges {
		g.Edges = append(g.Edges, GraphEdge{Parent: e[0].WorkItemID(), Child: e[1].WorkItemID()})
	}
	sort.Slice(g.Edges, func(i, j int) bool {
		a, b := g.Edges[i], g.Edges[j]
		return a.Parent < b.Parent || a.Parent == b.Parent && a.Child < b.Child
	})
	return nil
}

// Kinds lists what may be asked for.
func (c *Caller) Kinds(context.Context, *NoInput) (*Kinds, error) {
	if err := c.need(ScopeRead); err != nil {
		return nil, err
	}
	return &Kinds{Items: Registry()}, nil
}
