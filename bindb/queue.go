package bindb

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// ReadyJobs calls fn for the queued Jobs that are not tombstoned, in ascending
// order of (available at, index), until fn returns false. Inside Update it sees
// the running mutation. It costs what fn asks for, however many Jobs there are:
// the order is kept in memory and follows every batch. fn may write only if it
// returns false then.
func ReadyJobs(r Reader, fn func(availableAt record.Seconds, job uint32) (bool, error)) error {
	return ReadyJobsOf(r, nil, fn)
}

var allKinds = func() (list []record.JobKind) {
	for k := record.JobKindContentGC; k <= record.JobKindRepoCI; k++ {
		list = append(list, k)
	}
	return list
}()

// ReadyJobsOf is ReadyJobs for Jobs of the given kinds, and costs nothing for the
// others. No kinds are all kinds.
func ReadyJobsOf(r Reader, kinds []record.JobKind, fn func(availableAt record.Seconds, job uint32) (bool, error)) error {
	q, own, err := queueOf(r)
	if err != nil {
		return err
	}
	if len(kinds) == 0 {
		kinds = allKinds
	}
	var lanes []lane
	for _, k := range kinds {
		if int(k) < len(q.ready) && q.ready[k] != nil && q.ready[k].Len() > 0 {
			lanes = append(lanes, startLane(q.ready[k]))
		}
	}
	var waiting []readyKey
	for _, c := range own {
		if c.now.state == record.JobStateQueued && slices.Contains(kinds, c.now.kind) {
			waiting = append(waiting, keyOf(c.now.available, c.job))
		}
	}
	slices.SortFunc(waiting, readyKey.compare)
	for {
		best := -1
		for i := range lanes {
			if lanes[i].more && (best < 0 || lanes[i].key.less(lanes[best].key)) {
				best = i
			}
		}
		var k readyKey
		switch {
		case len(waiting) > 0 && (best < 0 || waiting[0].less(lanes[best].key)):
			k, waiting = waiting[0], waiting[1:]
		case best < 0:
			return nil
		default:
			k = lanes[best].key
			lanes[best].next()
			if replacedJob(own, k.job) {
				continue
			}
		}
		if more, err := fn(k.available(), k.job); err != nil || !more {
			return err
		}
	}
}

// lane walks the ready Jobs of one kind.
type lane struct {
	iter btree.IterG[readyKey]
	key  readyKey
	more bool
}

func startLane(t *btree.BTreeG[readyKey]) lane {
	l := lane{iter: t.Iter()}
	l.next()
	return l
}

func (l *lane) next() {
	if l.more = l.iter.Next(); l.more {
		l.key = l.iter.Item()
	}
}

// RunningJobs calls fn for the running Jobs that are not tombstoned, in ascending
// order of index, until fn returns false, in the same way.
func RunningJobs(r Reader, fn func(job uint32) (bool, error)) error {
	q, own, err := queueOf(r)
	if err != nil {
		return err
	}
	list := make([]uint32, 0, q.running.Len())
	q.running.Scan(func(job uint32) bool {
		if !replacedJob(own, job) {
			list = append(list, job)
		}
		return true
	})
	for _, c := range own {
		if c.now.state == record.JobStateRunning {
			list = append(list, c.job)
		}
	}
	slices.Sort(list)
	for _, job := range list {
		if more, err := fn(job); err != nil || !more {
			return err
		}
	}
	return nil
}

// ActiveCI returns the greatest patchset.ci Job that is queued or running of those
// of a Patchset, if it is newer than the one that the Patchset selects. Such a Job
// is what a writer leaves that was interrupted between the two records (section
// 13.4); writers with one batch for both leave none.
func ActiveCI(r Reader, patchset uint32) (job uint32, ok bool, err error) {
	p, err := Patchsets.Get(r, patchset)
	if err != nil {
		return 0, false, err
	}
	selected, _ := p.CIJob.Index() // none: greater than every index, and 0 as the next one
	if job, ok, known, err := recentCI(r, patchset, selected+1, p.CreatedAt); err != nil || known {
		return job, ok, err
	}
	q, own, err := queueOf(r)
	if err != nil {
		return 0, false, err
	}
	q.active.Descend(activeKey{patchset, math.MaxUint32}, func(k activeKey) bool {
		if k.patchset == patchset && replacedJob(own, k.job) {
			return true
		}
		job, ok = k.job, k.patchset == patchset
		return false
	})
	for _, c := range own {
		if p, active := c.now.activeCI(); active && p == patchset && (!ok || c.job > job) {
			job, ok = c.job, true
		}
	}
	return job, ok && job >= selected+1, nil
}

// recentCI looks for it among the last Jobs. Where the Patchset is young or has a
// young Job, as for a command that publishes and runs it, the answer is known from
// them, and the order of all Jobs need not be built.
func recentCI(r Reader, patchset, from uint32, since record.Seconds) (job uint32, ok, known bool, err error) {
	const few = 256
	n, err := WorkerJobs.Count(r)
	if err != nil {
		return 0, false, false, err
	}
	if n > few {
		oldest, err := WorkerJobs.Get(r, n-few)
		if err != nil || from < n-few && oldest.CreatedAt >= since {
			return 0, false, false, err
		}
		from = max(from, n-few)
	}
	err = WorkerJobs.Scan(r, from, n, func(i uint32, rec *record.WorkerJob) error {
		if !rec.Meta.Tombstoned() && rec.Kind == record.JobKindPatchsetCI && rec.Patchset == record.RefTo(patchset) && !rec.State.Terminal() {
			job, ok = i, true
		}
		return nil
	})
	return job, ok, true, err
}

// JobCounts is how many Jobs that are not tombstoned are in each state.
type JobCounts struct {
	Queued, Running, Succeeded, Failed uint32
	// Ready is how many of the queued ones are available.
	Ready uint32
}

// CountJobs counts the Jobs by state as of now, without reading them.
func CountJobs(r Reader, now record.Seconds) (JobCounts, error) {
	q, own, err := queueOf(r)
	if err != nil {
		return JobCounts{}, err
	}
	n := q.counts
	ready := 0
	for _, t := range q.ready {
		if t != nil {
			ready += sort.Search(t.Len(), func(i int) bool {
				k, _ := t.GetAt(i)
				return k.available() > now
			})
		}
	}
	for _, c := range own {
		n[c.was.state]--
		n[c.now.state]++
		if c.was.state == record.JobStateQueued && c.was.available <= now {
			ready--
		}
		if c.now.state == record.JobStateQueued && c.now.available <= now {
			ready++
		}
	}
	return JobCounts{
		Queued: n[record.JobStateQueued], Running: n[record.JobStateRunning],
		Succeeded: n[record.JobStateSucceeded], Failed: n[record.JobStateFailed], Ready: uint32(ready),
	}, nil
}

// readyKey is one queued Job. The time is split, so that a key takes 12 bytes.
type readyKey struct{ high, low, job uint32 }

func keyOf(available record.Seconds, job uint32) readyKey {
	return readyKey{uint32(available >> 32), uint32(available), job}
}

func (k readyKey) available() record.Seconds {
	return record.Seconds(k.high)<<32 | record.Seconds(k.low)
}

func (k readyKey) compare(o readyKey) int {
	return cmp.Or(cmp.Compare(k.high, o.high), cmp.Compare(k.low, o.low), cmp.Compare(k.job, o.job))
}

func (k readyKey) less(o readyKey) bool {
	if k.high != o.high {
		return k.high < o.high
	}
	if k.low != o.low {
		return k.low < o.low
	}
	return k.job < o.job
}

// activeKey is one patchset.ci Job that is queued or running.
type activeKey struct{ patchset, job uint32 }

func (k activeKey) compare(o activeKey) int {
	return cmp.Or(cmp.Compare(k.patchset, o.patchset), cmp.Compare(k.job, o.job))
}

func (k activeKey) less(o activeKey) bool { return k.compare(o) < 0 }

// jobQueue is the ready and running Jobs of one committed state. Once published
// it never changes: the next batch changes a copy, which shares what is equal.
type jobQueue struct {
	ready   [record.JobKindRepoCI + 1]*btree.BTreeG[readyKey] // by kind; nil: none yet
	running *btree.BTreeG[uint32]
	active  *btree.BTreeG[activeKey]
	counts  [record.JobStateFailed + 1]uint32 // by state; 0: tombstoned or not there
}

var treeOptions = btree.Options{NoLocks: true}

func newJobQueue() *jobQueue {
	return &jobQueue{
		running: btree.NewBTreeGOptions(func(a, b uint32) bool { return a < b }, treeOptions),
		active:  btree.NewBTreeGOptions(activeKey.less, treeOptions),
	}
}

func (q *jobQueue) copy() *jobQueue {
	next := &jobQueue{running: q.running.Copy(), active: q.active.Copy(), counts: q.counts}
	for k, t := range q.ready {
		if t != nil {
			next.ready[k] = t.Copy()
		}
	}
	return next
}

func (q *jobQueue) readyOf(k record.JobKind) *btree.BTreeG[readyKey] {
	if q.ready[k] == nil {
		q.ready[k] = btree.NewBTreeGOptions(readyKey.less, treeOptions)
	}
	return q.ready[k]
}

// jobFacts is what the queue asks of a record. State 0: it is tombstoned or not
// there.
type jobFacts struct {
	state     record.JobState
	kind      record.JobKind
	patchset  record.Ref
	available record.Seconds
}

// activeCI returns the Patchset of a patchset.ci Job that is queued or running.
func (x jobFacts) activeCI() (uint32, bool) {
	if x.kind != record.JobKindPatchsetCI || x.state != record.JobStateQueued && x.state != record.JobStateRunning {
		return 0, false
	}
	return x.patchset.Index()
}

// The places of those facts in a record.
var (
	jobMetaAt      = jobField("job_meta")
	jobKindAt      = jobField("job_kind")
	jobStateAt     = jobField("state_kind")
	jobPatchsetAt  = jobField("patchset_index_plus1")
	jobAvailableAt = jobField("available_at_s")
)

func jobField(name string) int {
	for _, f := range new(record.WorkerJob).Layout().Fields {
		if f.Name == name {
			return f.Offset
		}
	}
	panic("bindb: worker_job.bin has no field " + name)
}

// factsOf reads them from the bytes of a record. What is malformed is not there;
// whoever reads the record refuses it.
func factsOf(raw []byte) jobFacts {
	x := jobFacts{
		state:     record.JobState(raw[jobStateAt]),
		kind:      record.JobKind(raw[jobKindAt]),
		patchset:  record.Ref(binary.LittleEndian.Uint32(raw[jobPatchsetAt:])),
		available: record.Seconds(binary.LittleEndian.Uint64(raw[jobAvailableAt:])),
	}
	if record.OperationalMeta(raw[jobMetaAt]).Tombstoned() || x.state > record.JobStateFailed || x.kind > record.JobKindRepoCI {
		return jobFacts{}
	}
	return x
}

// jobChange is a Job that a batch has appended or replaced.
type jobChange struct {
	job      uint32
	was, now jobFacts
}

func (q *jobQueue) apply(c jobChange) {
	if c.was == c.now {
		return
	}
	q.counts[c.was.state]--
	q.counts[c.now.state]++
	wasCI, wasActive := c.was.activeCI()
	nowCI, nowActive := c.now.activeCI()
	if wasActive && (!nowActive || wasCI != nowCI) {
		q.active.Delete(activeKey{wasCI, c.job})
	}
	if nowActive && (!wasActive || wasCI != nowCI) {
		q.active.Set(activeKey{nowCI, c.job})
	}
	switch c.was.state {
	case record.JobStateQueued:
		q.readyOf(c.was.kind).Delete(keyOf(c.was.available, c.job))
	case record.JobStateRunning:
		q.running.Delete(c.job)
	}
	switch c.now.state {
	case record.JobStateQueued:
		q.readyOf(c.now.kind).Set(keyOf(c.now.available, c.job))
	case record.JobStateRunning:
		q.running.Set(c.job)
	}
}

// replacedJob reports whether the changes, which ascend, hold a Job.
func replacedJob(changes []jobChange, job uint32) bool {
	_, ok := slices.BinarySearchFunc(changes, job, func(c jobChange, job uint32) int { return cmp.Compare(c.job, job) })
	return ok
}

// jobChanges are the Jobs that the batch has changed so far, in ascending order.
func (tx *Tx) jobChanges() ([]jobChange, error) {
	f := WorkerJobs.f
	w := tx.writes[f.no]
	if w == nil {
		return nil, nil
	}
	list := make([]jobChange, 0, len(w.replaced)+len(w.appended)/f.size)
	for _, r := range w.replaced {
		job := f.index(r.off)
		before, err := tx.before.record(f, job)
		if err != nil {
			return nil, err
		}
		list = append(list, jobChange{job, factsOf(before), factsOf(r.image)})
	}
	slices.SortFunc(list, func(a, b jobChange) int { return cmp.Compare(a.job, b.job) })
	for i := 0; i < len(w.appended); i += f.size {
		list = append(list, jobChange{job: w.count + uint32(i/f.size), now: factsOf(w.appended[i : i+f.size])})
	}
	return list, nil
}

// queueOf returns the queue of the committed state that r reads, and what the
// running mutation has changed.
func queueOf(r Reader) (q *jobQueue, own []jobChange, err error) {
	cache := &r.root().jobs
	if img, ok := r.base().(*image); ok {
		q, err = cache.ofImage(img)
	} else {
		q, err = cache.ofFiles(r.base())
	}
	if tx, ok := r.(*Tx); ok && err == nil {
		own, err = tx.jobChanges()
	}
	return q, own, err
}

// queueCache is what a root remembers of its queue.
type queueCache struct {
	mu sync.Mutex // views share the root's lock, or have none
	// wanted: somebody has asked, and every image has its queue from now on.
	wanted atomic.Bool
	// Of the files, when they were last asked for.
	queue *jobQueue
	stamp queueStamp
}

// ofImage returns the queue of a state in memory.
func (c *queueCache) ofImage(img *image) (*jobQueue, error) {
	if q := img.queue.Load(); q != nil {
		return q, nil
	}
	c.wanted.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := img.queue.Load(); q != nil {
		return q, nil
	}
	q, err := scanQueue(img)
	if err == nil {
		img.queue.Store(q)
	}
	return q, err
}

// followQueue gives the image after a batch its queue. Where that fails, whoever
// asks for it reads the Jobs.
func (img *image) followQueue(before *image, tx *Tx) {
	c := &img.r.jobs
	if !c.wanted.Load() {
		return
	}
	q, err := c.ofImage(before)
	if err != nil {
		return
	}
	changes, err := tx.jobChanges()
	if err != nil {
		return
	}
	img.queue.Store(q.after(changes))
}

// after is the queue after a batch.
func (q *jobQueue) after(changes []jobChange) *jobQueue {
	if len(changes) == 0 {
		return q
	}
	next := q.copy()
	for _, x := range changes {
		next.apply(x)
	}
	return next
}

// queueStamp says which committed state a queue is of: every batch, of whatever
// process, overwrites the journal and counts up. Where there is no journal a queue
// is of no use to whoever comes next.
type queueStamp struct {
	journal vfs.FileID
	batch   uint64
}

// ofFiles returns the queue of the files, which rd reads under the root's lock.
func (c *queueCache) ofFiles(rd Reader) (*jobQueue, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamp, err := rd.root().queueStamp()
	if err != nil {
		return nil, err
	}
	if c.queue != nil && stamp == c.stamp && stamp != (queueStamp{}) {
		return c.queue, nil
	}
	if c.queue, err = scanQueue(rd); err != nil {
		return nil, err
	}
	c.stamp = stamp
	return c.queue, nil
}

// follow returns what brings the queue of the files up to date once the batch is
// durable. It is called before they change, with the leader's locks held.
func (c *queueCache) follow(tx *Tx) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		return func() {}, nil
	}
	r := tx.root()
	stamp, err := r.queueStamp()
	if err != nil {
		return nil, err
	}
	if stamp != c.stamp || stamp == (queueStamp{}) {
		c.queue = nil // another process has written, or may have
		return func() {}, nil
	}
	changes, err := tx.jobChanges()
	if err != nil {
		return nil, err
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queue, c.stamp = c.queue.after(changes), queueStamp{r.journalID, r.batch}
	}, nil
}

// queueStamp reads the journal's head under the root's lock.
func (r *Root) queueStamp() (queueStamp, error) {
	h, err := r.journalHead()
	return queueStamp{h.id, h.batch}, err
}

// scanQueue reads all Jobs.
func scanQueue(rd Reader) (*jobQueue, error) {
	count, err := WorkerJobs.Count(rd)
	if err != nil {
		return nil, err
	}
	q := newJobQueue()
	var ready [len(q.ready)][]readyKey
	var active []activeKey
	err = eachRecord(rd, WorkerJobs.f, 0, count, func(i uint32, raw []byte) error {
		x := factsOf(raw)
		q.counts[x.state]++
		switch x.state {
		case record.JobStateQueued:
			ready[x.kind] = append(ready[x.kind], keyOf(x.available, i))
		case record.JobStateRunning:
			q.running.Load(i)
		}
		if p, ok := x.activeCI(); ok {
			active = append(active, activeKey{p, i})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for kind, keys := range ready {
		slices.SortFunc(keys, readyKey.compare)
		for _, k := range keys {
			q.readyOf(record.JobKind(kind)).Load(k)
		}
	}
	slices.SortFunc(active, activeKey.compare)
	for _, k := range active {
		q.active.Load(k)
	}
	return q, nil
}
