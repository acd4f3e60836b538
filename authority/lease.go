package authority

import (
	"bytes"
	"container/heap"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// LeaseToken proves to the queue that its bearer holds a Job. It is never logged
// and compared in constant time.
type LeaseToken [16]byte

// Hex is the token as it is handed over, 32 hexadecimal digits. It is not called
// String, so that a token that is printed by mistake does not show itself.
func (t LeaseToken) Hex() string { return hex.EncodeToString(t[:]) }

// String hides the token.
func (t LeaseToken) String() string { return "(token)" }

// GoString hides the token.
func (t LeaseToken) GoString() string { return t.String() }

// ParseLeaseToken reads the form of Hex. The error is bindb.ErrInvalid and does
// not repeat s.
func ParseLeaseToken(s string) (LeaseToken, error) {
	t, err := parseID(s)
	if err != nil || t == [16]byte{} {
		return LeaseToken{}, fmt.Errorf("lease token: %w: expected 32 hexadecimal digits, not all zero", bindb.ErrInvalid)
	}
	return t, nil
}

func (t LeaseToken) equal(o LeaseToken) bool { return subtle.ConstantTimeCompare(t[:], o[:]) == 1 }

// RequestID names one claim request. A claim that is sent again with the same id
// gets the same lease.
type RequestID [16]byte

// String is the id as 32 hexadecimal digits.
func (r RequestID) String() string { return hex.EncodeToString(r[:]) }

// ParseRequestID reads the form of String. The error is bindb.ErrInvalid.
func ParseRequestID(s string) (RequestID, error) {
	r, err := parseID(s)
	if err != nil || r == [16]byte{} {
		return RequestID{}, fmt.Errorf("claim request id %q: %w: expected 32 hexadecimal digits, not all zero", s, bindb.ErrInvalid)
	}
	return r, nil
}

func parseID(s string) (id [16]byte, err error) {
	if len(s) != hex.EncodedLen(len(id)) {
		return id, hex.ErrLength
	}
	_, err = hex.Decode(id[:], []byte(s))
	return id, err
}

// Lease is the right to work on one attempt of a Job until it expires.
type Lease struct {
	Job       uint32
	Attempt   uint16
	Token     LeaseToken
	Request   RequestID
	Heartbeat record.Seconds
	ExpiresAt record.Seconds
}

func leaseOf(e *record.LeaseEntry) Lease {
	return Lease{e.Job, e.Attempt, e.Token, e.Request, e.HeartbeatAt, e.ExpiresAt}
}

// free reports whether an entry holds nothing.
func free(e *record.LeaseEntry) bool { return e.Token == [16]byte{} }

// liveFor reports whether the entry holds a running Job at the given instant
// (section 14.3).
func liveFor(e *record.LeaseEntry, index uint32, job *record.WorkerJob, epoch uint64, now record.Seconds) bool {
	return e.Job == index && job.State == record.JobStateRunning && !job.Meta.Tombstoned() &&
		e.Attempt == job.Attempts && e.Epoch == epoch && !free(e) &&
		e.HeartbeatAt <= now && now < e.ExpiresAt
}

// The lease file is one a Repository below runtime/leases. Sector 0 has the
// header; slot k has the sectors 1+2k and 2+2k, which are written in turn, so that
// a torn write always leaves the entry before it. The file is disposable: without
// it every lease is lost, and nothing else.
const (
	sectorSize   = 512
	leaseDomain  = "writ.lease-replica.entry.v3\x00"
	lease2Domain = "ait.runtime-lease-replica.entry.v2\x00"
	leaseBody    = record.LeaseEntrySize - sha256.Size
	// maxLeaseSlots bounds what a damaged file can make us read.
	maxLeaseSlots = 65536
	// slotsAtOnce is by how many slots the file grows, so that most leases leave
	// its length alone.
	slotsAtOnce = 32
)

// leaseTable is a lease file in memory. While the Repository's lock is held it
// says what the file says. In a process that owns the Repository it outlives the
// lock and is what counts; the file is there for a crash (section 14.2).
type leaseTable struct {
	fs         vfs.FS
	path       string
	repository uint32

	mu    sync.Mutex // owners: views look while a batch writes
	file  vfs.File   // open once something was written
	slots []leaseSlot
	room  int                 // slots that the file has room for
	jobs  map[uint32]int32    // slot of each lease
	asked map[RequestID]int32 // how many slots have a claim request
	idle  []int32             // slots without a lease
	due   []int32             // slots with one, a heap by expiry
	// latest is the greatest heartbeat seen: a clock behind it was set back.
	latest record.Seconds
	// fresh: what the file holds, if there is one, must not be seen again. The
	// next write begins it anew.
	fresh bool
	// disk is what this process knows of the file beyond what can be read. It
	// belongs to the Repository.
	disk *leaseDisk
	// own: the table stays in memory, so that a lease that has ended need not be
	// taken out of the file.
	own bool
}

// leaseDisk is what a process knows of how durable a lease file is.
type leaseDisk struct {
	// named: its directory entry is durable. A file that was there when the
	// Repository was opened may owe its entry to a process that died before it
	// could sync the directory.
	named bool
	// doubted: a write or a sync failed, so that what can be read need not be on
	// the disk, and no later sync would tell. The next write begins anew.
	doubted bool
}

type leaseSlot struct {
	record.LeaseEntry
	sector int   // of the two, the one that holds the entry
	at     int32 // in due; -1: not there
}

// readLeases reads all slots. An absent or damaged file is an empty table.
func readLeases(fsys vfs.FS, path string, repository uint32, epoch uint64, disk *leaseDisk) (*leaseTable, error) {
	t := &leaseTable{fs: fsys, path: path, repository: repository, disk: disk, jobs: map[uint32]int32{}, asked: map[RequestID]int32{}}
	raw, err := vfs.ReadFile(fsys, path, sectorSize*(1+2*maxLeaseSlots))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.fresh = true
		if epoch > 1 {
			return t, nil // the leases of version 2 are from before a restore
		}
		return t, t.readVersion2(epoch)
	case errors.Is(err, vfs.ErrTooLarge):
		t.fresh = true
		return t, nil
	case err != nil:
		return nil, err
	}
	if len(raw) < sectorSize || !bytes.Equal(raw[:sectorSize], leaseHeader()) {
		t.fresh = true
		return t, nil
	}
	if tail := (len(raw) - sectorSize) % (2 * sectorSize); tail != 0 {
		// A slot that was cut reads as it will once the file is extended.
		raw = append(raw, make([]byte, 2*sectorSize-tail)...)
	}
	for at := sectorSize; at < len(raw); at += 2 * sectorSize {
		a, okA := t.decode(raw[at : at+sectorSize])
		b, okB := t.decode(raw[at+sectorSize : at+2*sectorSize])
		if okB && (!okA || b.Sequence > a.Sequence) {
			t.load(b, 1)
		} else {
			t.load(a, 0)
		}
	}
	t.room = len(t.slots)
	return t, nil
}

// decode reports false for a sector that holds no complete entry.
func (t *leaseTable) decode(b []byte) (record.LeaseEntry, bool) {
	var e record.LeaseEntry
	if bytes.Count(b[:leaseBody], []byte{0}) == leaseBody {
		return e, false // never written, the usual case
	}
	if e.Decode(b[:record.LeaseEntrySize]) != nil || e.Digest != leaseDigest(b) || e.Check() != nil || e.Repository != t.repository {
		return record.LeaseEntry{}, false
	}
	return e, true
}

func leaseDigest(b []byte) [sha256.Size]byte {
	var buf [len(leaseDomain) + leaseBody]byte
	copy(buf[copy(buf[:], leaseDomain):], b[:leaseBody])
	return sha256.Sum256(buf[:])
}

// load adds a slot as it was read. Of two leases of one Job the later attempt
// counts.
func (t *leaseTable) load(e record.LeaseEntry, sector int) {
	slot := int32(len(t.slots))
	t.slots = append(t.slots, leaseSlot{e, sector, -1})
	if other, ok := t.jobs[e.Job]; ok && !free(&e) {
		if t.slots[other].Attempt >= e.Attempt {
			t.idle = append(t.idle, slot)
			return
		}
		t.release(other)
	}
	if free(&e) {
		t.idle = append(t.idle, slot)
		return
	}
	t.hold(slot, e)
}

// hold makes a slot the one of its entry's Job.
func (t *leaseTable) hold(slot int32, e record.LeaseEntry) {
	s := &t.slots[slot]
	t.forget(slot)
	s.LeaseEntry = e
	t.jobs[e.Job] = slot
	t.latest = max(t.latest, e.HeartbeatAt)
	if e.Request != (RequestID{}) {
		t.asked[e.Request]++
	}
	if s.at < 0 {
		heap.Push((*leaseHeap)(t), slot)
	} else {
		heap.Fix((*leaseHeap)(t), int(s.at))
	}
}

// release gives a slot back. Its sequence goes on.
func (t *leaseTable) release(slot int32) {
	s := &t.slots[slot]
	delete(t.jobs, s.Job)
	t.forget(slot)
	heap.Remove((*leaseHeap)(t), int(s.at))
	s.LeaseEntry = record.LeaseEntry{Repository: t.repository, Sequence: s.Sequence}
	t.idle = append(t.idle, slot)
}

// forget takes the request of a slot in use out of the table.
func (t *leaseTable) forget(slot int32) {
	s := &t.slots[slot]
	if s.at < 0 {
		return
	}
	if t.asked[s.Request]--; t.asked[s.Request] <= 0 {
		delete(t.asked, s.Request)
	}
}

// leaseHeap orders the slots in use by expiry.
type leaseHeap leaseTable

func (h *leaseHeap) Len() int { return len(h.due) }

func (h *leaseHeap) Less(i, j int) bool {
	a, b := &h.slots[h.due[i]], &h.slots[h.due[j]]
	return a.ExpiresAt < b.ExpiresAt || a.ExpiresAt == b.ExpiresAt && a.Job < b.Job
}

func (h *leaseHeap) Swap(i, j int) {
	h.due[i], h.due[j] = h.due[j], h.due[i]
	h.slots[h.due[i]].at, h.slots[h.due[j]].at = int32(i), int32(j)
}

func (h *leaseHeap) Push(x any) {
	slot := x.(int32)
	h.slots[slot].at = int32(len(h.due))
	h.due = append(h.due, slot)
}

func (h *leaseHeap) Pop() any {
	last := len(h.due) - 1
	slot := h.due[last]
	h.due = h.due[:last]
	h.slots[slot].at = -1
	return slot
}

// readVersion2 takes over the leases of the installation-wide file that earlier
// software wrote (section 14.2). Such leases have no epoch of their own.
func (t *leaseTable) readVersion2(epoch uint64) error {
	raw, err := vfs.ReadFile(t.fs, filepath.Join(filepath.Dir(filepath.Dir(t.path)), "worker-leases.bin"), 8<<20)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrTooLarge) {
		return nil
	}
	if err != nil {
		return err
	}
	var h record.LeaseReplicaHeader
	if len(raw) < record.LeaseReplicaHeaderSize || h.Decode(raw[:record.LeaseReplicaHeaderSize]) != nil || h.Check() != nil ||
		uint64(len(raw)) != record.LeaseReplicaHeaderSize+record.LeaseReplicaEntrySize*uint64(h.EntryCount) {
		return nil
	}
	var list []record.LeaseEntry
	seen := map[uint32]bool{}
	for at := record.LeaseReplicaHeaderSize; at < len(raw); at += record.LeaseReplicaEntrySize {
		var e record.LeaseReplicaEntry
		row := raw[at : at+record.LeaseReplicaEntrySize]
		sum := sha256.Sum256(append([]byte(lease2Domain), row[:len(row)-sha256.Size]...))
		if e.Decode(row) != nil || e.Digest != sum || e.Check() != nil || e.Repository != t.repository {
			continue
		}
		if seen[e.Job] {
			return nil // which of the two counts can't be told
		}
		seen[e.Job] = true
		list = append(list, record.LeaseEntry{
			Repository: t.repository, Job: e.Job, Attempt: e.Attempt, Token: e.Token,
			HeartbeatAt: e.HeartbeatAt, ExpiresAt: e.ExpiresAt, Epoch: epoch, Sequence: 1,
		})
	}
	for _, e := range list {
		t.load(e, 1)
	}
	return nil
}

// entry returns a Job's entry, or one that is live for nothing.
func (t *leaseTable) entry(job uint32) record.LeaseEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slot, ok := t.jobs[job]; ok {
		return t.slots[slot].LeaseEntry
	}
	return record.LeaseEntry{}
}

// requested returns the entries of a claim request. There are several where leases
// that have ended still stand in the file. A new request costs no look at the slots.
func (t *leaseTable) requested(request RequestID) (list []record.LeaseEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked[request] == 0 {
		return nil
	}
	for i := range t.slots {
		if s := &t.slots[i]; s.at >= 0 && s.Request == request {
			list = append(list, s.LeaseEntry)
		}
	}
	return list
}

// write makes entries durable: one pass over the file and one sync for all of
// them. The table has them even if that fails; their Jobs are not running then, or
// have what their holder was told at least. After a failure the file begins anew,
// since what a failed sync has left of it is not known.
func (t *leaseTable) write(list []record.LeaseEntry) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := make([]int32, len(list))
	for i, e := range list {
		slot, err := t.place(e.Job, e.HeartbeatAt)
		if err != nil {
			return err
		}
		e.Sequence = t.slots[slot].Sequence + 1
		t.slots[slot].sector = 1 - t.slots[slot].sector
		t.hold(slot, e)
		changed[i] = slot
	}
	t.fresh = t.fresh || t.disk.doubted
	err := t.open()
	if err == nil && t.fresh {
		err = t.begin()
	}
	if err == nil {
		err = t.fill(changed)
	}
	if err == nil {
		err = t.file.Sync()
	}
	if err == nil && t.fresh {
		t.disk.named = false
		err = t.fs.Rename(t.path+freshSuffix, t.path)
	}
	if err == nil && !t.disk.named {
		dir := filepath.Dir(t.path)
		if err = t.fs.SyncDir(dir); err == nil {
			err = t.fs.SyncDir(filepath.Dir(dir))
		}
		t.disk.named = err == nil
	}
	t.disk.doubted = err != nil
	t.fresh = t.disk.doubted
	if err != nil || !t.own {
		err = errors.Join(err, t.close())
	}
	return err
}

// place finds the slot for a Job's entry: its own, an idle one, one whose lease
// has expired and can't come back to life, or a new one.
func (t *leaseTable) place(job uint32, now record.Seconds) (int32, error) {
	if slot, ok := t.jobs[job]; ok {
		return slot, nil
	}
	if len(t.idle) == 0 && len(t.due) > 0 && t.slots[t.due[0]].ExpiresAt <= now {
		t.release(t.due[0])
	}
	if n := len(t.idle); n > 0 {
		slot := t.idle[n-1]
		t.idle = t.idle[:n-1]
		return slot, nil
	}
	if len(t.slots) >= maxLeaseSlots {
		return 0, statef("%d leases are live, which is the most that there may be", len(t.slots))
	}
	t.slots = append(t.slots, leaseSlot{sector: 1, at: -1})
	return int32(len(t.slots) - 1), nil
}

// open opens the file for writing, if it is there.
func (t *leaseTable) open() (err error) {
	if t.file != nil {
		return nil
	}
	t.file, err = t.fs.OpenFile(t.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		t.file, t.fresh, err = nil, true, nil
	}
	return err
}

// freshSuffix is added to the name of a file that begins anew until it is durable,
// so that the leases in the present one count until then.
const freshSuffix = ".new"

// begin makes the file that takes the place of the present one.
func (t *leaseTable) begin() (err error) {
	if err = t.close(); err != nil {
		return err
	}
	if err = vfs.MkdirAll(t.fs, filepath.Dir(t.path), 0o700); err != nil {
		return err
	}
	t.file, err = t.fs.OpenFile(t.path+freshSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

func (t *leaseTable) close() error {
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	t.file = nil
	return err
}

// fill writes the changed slots, or the whole file where nothing in it counts.
func (t *leaseTable) fill(changed []int32) error {
	if t.fresh {
		if err := t.file.Truncate(0); err != nil {
			return err
		}
		if _, err := t.file.WriteAt(leaseHeader(), 0); err != nil {
			return err
		}
		t.room = 0
	}
	if room := (len(t.slots) + slotsAtOnce - 1) / slotsAtOnce * slotsAtOnce; t.room < len(t.slots) {
		from := slotOffset(int32(t.room), 0)
		if _, err := t.file.WriteAt(make([]byte, slotOffset(int32(room), 0)-from), from); err != nil {
			return err
		}
		t.room = room
	}
	if !t.fresh {
		return t.put(changed)
	}
	all := make([]int32, 0, len(t.slots))
	for i := range t.slots {
		if t.slots[i].Sequence > 0 {
			all = append(all, int32(i))
		}
	}
	return t.put(all)
}

func (t *leaseTable) put(slots []int32) error {
	var b [sectorSize]byte
	for _, slot := range slots {
		s := &t.slots[slot]
		s.Encode(b[:])
		s.Digest = leaseDigest(b[:])
		copy(b[leaseBody:], s.Digest[:])
		if _, err := t.file.WriteAt(b[:], slotOffset(slot, s.sector)); err != nil {
			return err
		}
	}
	return nil
}

// drop frees the slot of a Job whose lease is of the given attempt or older. That
// need not be durable: the entry does not match its Job any more, so that a slot
// which is not freed costs its room until it expires.
func (t *leaseTable) drop(job uint32, attempt uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot, ok := t.jobs[job]
	if !ok || t.slots[slot].Attempt > attempt {
		return
	}
	t.release(slot)
	if t.own {
		return
	}
	s := &t.slots[slot]
	s.Sequence++
	s.sector = 1 - s.sector
	if err := t.open(); err == nil && !t.fresh {
		_ = t.put([]int32{slot})
	}
	_ = t.close()
}

// quiet reports that every one of n running Jobs has a lease that goes on. It may
// say no without need.
func (t *leaseTable) quiet(n uint32, now record.Seconds) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own && uint32(len(t.due)) == n && t.latest <= now && (n == 0 || now < t.slots[t.due[0]].ExpiresAt)
}

func slotOffset(slot int32, sector int) int64 {
	return (1 + 2*int64(slot) + int64(sector)) * sectorSize
}

func leaseHeader() []byte {
	b := make([]byte, sectorSize)
	(&record.LeaseHeader{Magic: [8]byte([]byte(record.LeaseMagic)), Version: 3, SectorSize: sectorSize}).Encode(b)
	return b
}

// newToken draws a token that is not all zero.
func newToken(random io.Reader) (LeaseToken, error) {
	var t LeaseToken
	for t == (LeaseToken{}) {
		if _, err := io.ReadFull(random, t[:]); err != nil {
			return t, err
		}
	}
	return t, nil
}

// leases returns the leases of the state that rd reads. An owner reads the file
// once and drops what it does not need: leases of Jobs that have ended stand in it
// until their slots are used again.
func (r *Repository) leases(rd bindb.Reader) (*leaseTable, error) {
	read := func() (*leaseTable, error) {
		return readLeases(r.a.opt.FS, r.leasePath(), r.info.Index, r.a.active.Epoch, &r.leaseDisk)
	}
	if !r.a.opt.Own {
		return read()
	}
	r.tableMu.Lock()
	defer r.tableMu.Unlock()
	if r.table != nil {
		return r.table, nil
	}
	t, err := read()
	if err != nil {
		return nil, err
	}
	for job, slot := range t.jobs {
		rec, err := bindb.WorkerJobs.Get(rd, job)
		if err != nil && !errors.Is(err, bindb.ErrNotFound) {
			return nil, err
		}
		if err != nil || rec.State != record.JobStateRunning || rec.Attempts != t.slots[slot].Attempt || rec.Meta.Tombstoned() {
			t.release(slot)
		}
	}
	t.own = true
	r.table = t
	return t, nil
}

// closeLeases ends the use of the table.
func (r *Repository) closeLeases() error {
	r.tableMu.Lock()
	defer r.tableMu.Unlock()
	if r.table == nil {
		return nil
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return r.table.close()
}

// leaseBatch is the leases as the mutations of one batch see them. None reaches the
// file before all mutations have succeeded, and yet each must see those before it:
// nobody may declare a lease lost that was given out a moment ago.
type leaseBatch struct {
	table *leaseTable
	next  map[uint32]record.LeaseEntry // by Job; a free one: dropped
	order []uint32                     // keys of next
	once  sync.Once
	err   error
	// flush is b.write, made once.
	flush func() error
}

// write gives out what the batch has put. Mutations that succeeded and were then
// left to a later batch have put entries too; those hold nothing, because their
// Jobs have not started, and are put again.
func (b *leaseBatch) write() error {
	b.once.Do(func() {
		list := make([]record.LeaseEntry, 0, len(b.order))
		for _, job := range b.order {
			if e := b.next[job]; !free(&e) {
				list = append(list, e)
			}
		}
		if len(list) > 0 {
			b.err = b.table.write(list)
		}
	})
	return b.err
}

// leaseTx is what one mutation sees and has changed. It joins the batch when the
// mutation has succeeded.
type leaseTx struct {
	batch *leaseBatch
	own   []record.LeaseEntry
	room  [1]record.LeaseEntry // of own, as far as it suffices
}

// queue returns the mutation's view of the leases.
func (tx *Tx) queue() (*leaseTx, error) {
	if tx.lease.batch != nil {
		return &tx.lease, nil
	}
	batch, ok := (*tx.tx.Batch()).(*leaseBatch)
	if !ok {
		table, err := tx.repo.leases(tx)
		if err != nil {
			return nil, err
		}
		batch = &leaseBatch{table: table, next: map[uint32]record.LeaseEntry{}}
		batch.flush = batch.write
		*tx.tx.Batch() = batch
	}
	tx.lease.batch = batch
	tx.lease.own = tx.lease.room[:0]
	return &tx.lease, nil
}

func (q *leaseTx) find(job uint32) record.LeaseEntry {
	for i := len(q.own) - 1; i >= 0; i-- {
		if q.own[i].Job == job {
			return q.own[i]
		}
	}
	if e, ok := q.batch.next[job]; ok {
		return e
	}
	return q.batch.table.entry(job)
}

// merge makes the mutation's changes visible to those after it.
func (q *leaseTx) merge() {
	for _, e := range q.own {
		if _, ok := q.batch.next[e.Job]; !ok {
			q.batch.order = append(q.batch.order, e.Job)
		}
		q.batch.next[e.Job] = e
	}
}

// putLease gives a lease out once the batch has nothing left that can refuse it.
func (tx *Tx) putLease(e record.LeaseEntry) {
	tx.lease.own = append(tx.lease.own, e)
	tx.tx.Prepare(tx.lease.batch.flush)
}

// dropLease frees a lease once the Job's new state is durable.
func (tx *Tx) dropLease(j *Job) {
	tx.lease.own = append(tx.lease.own, record.LeaseEntry{Job: j.Index})
	table, job, attempt := tx.lease.batch.table, j.Index, j.Attempts
	tx.tx.After(func() { table.drop(job, attempt) })
}
