package gate

import (
	"context"
	"errors"
	"sort"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// History is the record of one Change: its Patchsets with what happened to each,
// and its Lands.
type History struct {
	Task      string            `json:"task"`
	TaskTitle string            `json:"task_title"`
	Change    string            `json:"change"`
	Title     string            `json:"title"`
	Lifecycle string            `json:"lifecycle"`
	Branch    string            `json:"branch"`
	Ready     bool              `json:"ready_to_land"`
	UpdatedAt string            `json:"updated_at"`
	Patchsets []PatchsetHistory `json:"patchsets"`
	Lands     []LandHistory     `json:"lands"`
}

// PatchsetHistory is one Patchset with its events in order of time.
type PatchsetHistory struct {
	ID       string  `json:"id"`
	Selected bool    `json:"selected"`
	Revision string  `json:"revision"`
	Subject  string  `json:"subject"`
	Events   []Event `json:"events"`
}

// Event is one thing that happened to a Patchset.
type Event struct {
	At   string `json:"at"`
	Kind string `json:"kind"` // published, ci, attestation, review, waiver or decision
	ID   string `json:"id,omitempty"`
	What string `json:"what"`
	Who  string `json:"who,omitempty"`
	Text string `json:"text,omitempty"`

	at record.Seconds
}

// LandHistory is one attempt to land.
type LandHistory struct {
	ID       string `json:"id"`
	At       string `json:"at"`
	Patchset string `json:"patchset"`
	Status   string `json:"status"`
	Mode     string `json:"mode"`
	Failure  string `json:"failure,omitempty"`
	Landed   string `json:"landed,omitempty"`
}

// Log lists the newest Changes first, at most limit of them.
func (w *Workspace) Log(ctx context.Context, limit int) ([]History, error) {
	list := []History{}
	err := w.Repo.View(ctx, func(v *authority.View) error {
		n, err := bindb.Changes.Count(v)
		if err != nil {
			return err
		}
		for i := n; i > 0 && len(list) < limit; i-- {
			h, err := changeHistory(v, i-1)
			if err != nil {
				return err
			}
			list = append(list, h)
		}
		return nil
	})
	return list, err
}

// HistoryOf tells the history of the Change of a Patchset.
func (w *Workspace) HistoryOf(ctx context.Context, p *authority.Patchset) (History, error) {
	var h History
	err := w.Repo.View(ctx, func(v *authority.View) error {
		var err error
		h, err = changeHistory(v, p.Change)
		return err
	})
	return h, err
}

// dangling turns the absence of a record into damage of the record that refers to
// it: only a name that the user gives may be not found.
func dangling(file string, index uint32, err error) error {
	if errors.Is(err, bindb.ErrNotFound) && !errors.Is(err, bindb.ErrCorrupt) {
		return &bindb.RecordError{File: file, Index: index, Err: err}
	}
	return err
}

func changeHistory(v *authority.View, index uint32) (h History, err error) {
	defer func() { err = dangling(bindb.Changes.File(), index, err) }()
	c, err := v.Change(index)
	if err != nil {
		return History{}, err
	}
	t, err := v.Task(c.Task)
	if err != nil {
		return History{}, err
	}
	h = History{
		Task: t.ID.String(), TaskTitle: t.Title, Change: c.ID.String(), Title: c.Title,
		Lifecycle: c.Meta.Lifecycle().String(), Ready: c.Meta.ReadyToLand(), UpdatedAt: stamp(c.UpdatedAt),
		Patchsets: []PatchsetHistory{}, Lands: []LandHistory{},
	}
	patchsets, err := v.Patchsets(index)
	if err != nil {
		return h, err
	}
	for i := range patchsets {
		p := &patchsets[i]
		ph, line, err := patchsetHistory(v, p)
		if err != nil {
			return h, err
		}
		ph.Selected = c.SelectedPatchset == record.RefTo(p.Index)
		h.Branch = line
		h.Patchsets = append(h.Patchsets, ph)
	}
	lands, err := v.Lands(index)
	for _, l := range lands {
		lh, err := landHistory(v, &l)
		if err != nil {
			return h, err
		}
		h.Lands = append(h.Lands, lh)
	}
	return h, err
}

func patchsetHistory(v *authority.View, p *authority.Patchset) (h PatchsetHistory, line string, err error) {
	defer func() { err = dangling(bindb.Patchsets.File(), p.Index, err) }()
	h = PatchsetHistory{ID: p.ID.String()}
	s, err := v.Snapshot(p.RevisionSnapshot)
	if err != nil {
		return h, "", err
	}
	h.Revision = s.Name()
	if line, err = branchOf(v, &s); err != nil {
		return h, "", err
	}
	summary, err := v.Summary(p)
	if err != nil {
		return h, line, err
	}
	h.Subject = firstLine(summary)
	h.Events, err = events(v, p)
	return h, line, err
}

func events(v *authority.View, p *authority.Patchset) ([]Event, error) {
	list := []Event{{at: p.CreatedAt, Kind: "published", What: p.Meta.AuthorMode().String()}}
	if p.CICompletedAt != 0 {
		list = append(list, Event{at: p.CICompletedAt, Kind: "ci", What: p.CIStatus.Overall().String()})
	}
	att, err := v.Attestation(p)
	if err != nil {
		return nil, err
	}
	if att != nil {
		list = append(list, Event{at: att.CreatedAt, Kind: "attestation", ID: att.ID.String(), What: att.Meta.VerificationState().String()})
	}
	reviews, err := v.Reviews(p)
	if err != nil {
		return nil, err
	}
	for _, r := range reviews {
		list = append(list, Event{at: r.CreatedAt, Kind: "review", ID: r.ID.String(), What: r.Action().String(), Who: r.Actor.String(), Text: r.Text})
	}
	waivers, err := v.Waivers(p)
	if err != nil {
		return nil, err
	}
	for _, x := range waivers {
		list = append(list, Event{at: x.CreatedAt, Kind: "waiver", ID: x.ID.String(), What: x.Rule.String(), Text: x.Reason})
	}
	decisions, err := v.Decisions(p)
	if err != nil {
		return nil, err
	}
	for _, d := range decisions {
		list = append(list, Event{at: d.CreatedAt, Kind: "decision", ID: d.ID.String(), What: d.Kind().String()})
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].at < list[j].at })
	for i := range list {
		list[i].At = stamp(list[i].at)
	}
	return list, nil
}

func landHistory(v *authority.View, l *authority.Land) (h LandHistory, err error) {
	defer func() { err = dangling(bindb.Lands.File(), l.Index, err) }()
	h = LandHistory{ID: l.ID.String(), At: stamp(l.SubmittedAt), Status: l.Meta.Status().String(), Mode: l.Meta.Mode().String()}
	p, err := v.Patchset(l.Patchset)
	if err != nil {
		return h, err
	}
	h.Patchset = p.ID.String()
	if l.Failure != record.LandFailureNone {
		h.Failure = l.Failure.String()
	}
	if i, ok := l.Landed.Index(); ok {
		s, err := v.Snapshot(i)
		if err != nil {
			return h, err
		}
		h.Landed = s.Name()
	}
	return h, nil
}

// OpenChange is one open Change and what stands in its way.
type OpenChange struct {
	Change   string `json:"change"`
	Title    string `json:"title"`
	Branch   string `json:"branch"`
	Patchset string `json:"patchset"`
	State    string `json:"state"` // ready, checking, blocked or pending
	Decision string `json:"decision"`
	// Blocks are the requirements that are not met, as "name: status".
	Blocks    []string `json:"blocks"`
	UpdatedAt string   `json:"updated_at"`
}

// Status lists open Changes, newest first, at most limit of them, from what is
// recorded alone. more reports that older ones were not looked at.
func (w *Workspace) Status(ctx context.Context, limit int) (list []OpenChange, more bool, err error) {
	list = []OpenChange{}
	now := w.now()
	err = w.Repo.View(ctx, func(v *authority.View) error {
		n, err := bindb.Changes.Count(v)
		if err != nil {
			return err
		}
		for i := n; i > 0; i-- {
			rec, err := bindb.Changes.Get(v, i-1)
			if err != nil {
				return err
			}
			c := authority.Change{Change: rec}
			if rec.RemoteMeta.Deleted() || !c.Open() {
				continue
			}
			if len(list) == limit {
				more = true
				return nil
			}
			o, err := openChange(v, i-1, now)
			if err != nil {
				return err
			}
			list = append(list, o)
		}
		return nil
	})
	return list, more, err
}

func openChange(v *authority.View, index uint32, now record.Seconds) (o OpenChange, err error) {
	file, at := bindb.Changes.File(), index // what refers to what is read
	defer func() { err = dangling(file, at, err) }()
	c, err := v.Change(index)
	if err != nil {
		return OpenChange{}, err
	}
	o = OpenChange{
		Change: c.ID.String(), Title: c.Title, State: "pending", Decision: record.DecisionKindPending.String(),
		Blocks: []string{}, UpdatedAt: stamp(c.UpdatedAt),
	}
	selected, ok := c.SelectedPatchset.Index()
	if !ok {
		return o, nil
	}
	p, err := v.Patchset(selected)
	if err != nil {
		return o, err
	}
	o.Patchset = p.ID.String()
	file, at = bindb.Patchsets.File(), p.Index
	s, err := v.Snapshot(p.RevisionSnapshot)
	if err != nil {
		return o, err
	}
	if o.Branch, err = branchOf(v, &s); err != nil {
		return o, err
	}
	d, err := v.Decision(&p)
	if err != nil {
		return o, err
	}
	if d != nil {
		o.Decision = d.Kind().String()
		for _, check := range d.Checks {
			if st := standingOf(check.Status); st == Failed || st == Pending {
				o.Blocks = append(o.Blocks, check.Kind.String()+": "+check.Status.String())
			}
		}
	}
	f, err := v.Facts(selected, now)
	if err != nil {
		return o, err
	}
	// Objections depend on reviews alone; no check of the decision shows them.
	objections := authority.Evaluate(authority.PolicyInput{}, f).Objections
	for range objections {
		o.Blocks = append(o.Blocks, "no_open_objection: objection")
	}
	switch {
	case c.Meta.ReadyToLand():
		o.State = "ready"
	case c.Meta.Blocked(), len(objections) > 0:
		o.State = "blocked"
	}
	job, err := v.SelectedJob(&p)
	if err != nil || job == nil || job.State.Terminal() {
		return o, err
	}
	_, held, err := v.LeaseOf(job, now)
	switch {
	case held:
		o.State = "checking"
	case job.State == record.JobStateRunning:
		o.Blocks = append(o.Blocks, "checks: the command that ran them is gone")
	}
	return o, err
}
