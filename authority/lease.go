package authority

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"weak"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// LeaseToken proves to the queue that its bearer holds a Job. It is never logged
// and compared in constant time.
type LeaseToken [16]byte

// RequestID names one claim request. A claim that is sent again with the same id
// gets the same lease.
type RequestID [16]byte

// Lease is the right to work on one attempt of a Job until it expires.
type Lease struct {
	Job       uint32
	Attempt   uint16
	Token     LeaseToken
	Request   RequestID
	Heartbeat record.Seconds
	ExpiresAt record.Seconds
}

// leaseEntry is a lease as the replica keeps it.
type leaseEntry struct {
	Lease
	repository uint32
	epoch      uint64
	sequence   uint64
}

// liveFor reports whether the entry holds a running Job at the given instant
// (section 14.3).
func (e *leaseEntry) liveFor(index uint32, job *record.WorkerJob, epoch uint64, now record.Seconds) bool {
	return e.Job == index && job.State == record.JobStateRunning && !job.Meta.Tombstoned() &&
		e.Attempt == job.Attempts && e.epoch == epoch && e.Token != (LeaseToken{}) &&
		e.Heartbeat <= now && now < e.ExpiresAt
}

// The replica is one file a Repository below runtime/leases. Sector 0 is the
// header; lease slot k has the sectors 1+2k and 2+2k, which are written in turn,
// so that a torn write always leaves the entry before it. An entry with a zero
// token is a free slot.
//
//	header  magic[8] "WRITLEAS"  u32 version 3  u32 sector size 512
//	entry   u32 repository  u32 job  u16 attempt  u16 zero  token[16]
//	        u64 heartbeat  u64 expiry  request[16]  u64 epoch  u64 sequence
//	        sha256[32] over the domain and the 76 bytes above
//
// It is disposable: without it every lease is lost, and nothing else.
const (
	leaseMagic   = "WRITLEAS"
	leaseVersion = 3
	sectorSize   = 512
	leaseBody    = 76
	leaseDomain  = "writ.lease-replica.entry.v3\x00"
	lease2Domain = "ait.runtime-lease-replica.entry.v2\x00"
	// maxLeaseSlots bounds what a damaged file can make us read.
	maxLeaseSlots = 65536
)

func (e *leaseEntry) encode() []byte {
	b := make([]byte, 0, sectorSize)
	b = binary.LittleEndian.AppendUint32(b, e.repository)
	b = binary.LittleEndian.AppendUint32(b, e.Job)
	b = binary.LittleEndian.AppendUint16(b, e.Attempt)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = append(b, e.Token[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Heartbeat))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.ExpiresAt))
	b = append(b, e.Request[:]...)
	b = binary.LittleEndian.AppendUint64(b, e.epoch)
	b = binary.LittleEndian.AppendUint64(b, e.sequence)
	sum := sha256.Sum256(append([]byte(leaseDomain), b...))
	b = append(b, sum[:]...)
	return b[:sectorSize]
}

// decodeLease reports false for a sector that holds no complete entry.
func decodeLease(b []byte) (leaseEntry, bool) {
	var e leaseEntry
	sum := sha256.Sum256(append([]byte(leaseDomain), b[:leaseBody]...))
	if !bytes.Equal(sum[:], b[leaseBody:leaseBody+sha256.Size]) {
		return e, false
	}
	le := binary.LittleEndian
	e.repository, e.Job, e.Attempt = le.Uint32(b), le.Uint32(b[4:]), le.Uint16(b[8:])
	copy(e.Token[:], b[12:])
	e.Heartbeat, e.ExpiresAt = record.Seconds(le.Uint64(b[28:])), record.Seconds(le.Uint64(b[36:]))
	copy(e.Request[:], b[44:])
	e.epoch, e.sequence = le.Uint64(b[60:]), le.Uint64(b[68:])
	return e, e.sequence != 0
}

// replica is the lease file as read under the Repository's lock.
type replica struct {
	fs         vfs.FS
	path       string
	repository uint32
	slots      []leaseEntry // the newest entry of each slot; zero sequence: never used
	newer      []int        // which of the two sectors holds it
	// fresh: what the file holds, if there is one, must not be seen again. The
	// next write begins it anew.
	fresh bool
}

// readReplica reads all slots. An absent or damaged file is an empty replica.
func readReplica(fsys vfs.FS, path string, repository uint32, epoch uint64) (*replica, error) {
	r := &replica{fs: fsys, path: path, repository: repository}
	raw, err := vfs.ReadFile(fsys, path, sectorSize*(1+2*maxLeaseSlots))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.fresh = true
		if epoch > 1 {
			return r, nil // the leases of version 2 are from before a restore
		}
		return r, r.readVersion2(epoch)
	case errors.Is(err, vfs.ErrTooLarge):
		r.fresh = true
		return r, nil
	case err != nil:
		return nil, err
	}
	if len(raw) < sectorSize || !bytes.Equal(raw[:sectorSize], replicaHeader()) {
		r.fresh = true
		return r, nil
	}
	decode := func(b []byte) (leaseEntry, bool) {
		e, ok := decodeLease(b)
		return e, ok && e.repository == repository
	}
	if tail := (len(raw) - sectorSize) % (2 * sectorSize); tail != 0 {
		// A slot that was cut reads as it will once the file is extended.
		raw = append(raw, make([]byte, 2*sectorSize-tail)...)
	}
	for at := sectorSize; at < len(raw); at += 2 * sectorSize {
		a, okA := decode(raw[at : at+sectorSize])
		b, okB := decode(raw[at+sectorSize : at+2*sectorSize])
		switch {
		case okB && (!okA || b.sequence > a.sequence):
			r.slots, r.newer = append(r.slots, b), append(r.newer, 1)
		case okA:
			r.slots, r.newer = append(r.slots, a), append(r.newer, 0)
		default:
			r.slots, r.newer = append(r.slots, leaseEntry{}), append(r.newer, 1)
		}
	}
	return r, nil
}

// readVersion2 takes over the leases of the installation-wide file that earlier
// software wrote (section 14.2). Such leases have no epoch of their own.
func (r *replica) readVersion2(epoch uint64) error {
	raw, err := vfs.ReadFile(r.fs, filepath.Join(filepath.Dir(filepath.Dir(r.path)), "worker-leases.bin"), 8<<20)
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
	var slots []leaseEntry
	seen := map[uint32]bool{}
	for at := record.LeaseReplicaHeaderSize; at < len(raw); at += record.LeaseReplicaEntrySize {
		var e record.LeaseReplicaEntry
		row := raw[at : at+record.LeaseReplicaEntrySize]
		sum := sha256.Sum256(append([]byte(lease2Domain), row[:len(row)-sha256.Size]...))
		if e.Decode(row) != nil || e.Digest != sum || e.Check() != nil || e.Repository != r.repository {
			continue
		}
		if seen[e.Job] {
			return nil // which of the two counts can't be told
		}
		seen[e.Job] = true
		slots = append(slots, leaseEntry{
			Lease:      Lease{Job: e.Job, Attempt: e.Attempt, Token: e.Token, Heartbeat: e.HeartbeatAt, ExpiresAt: e.ExpiresAt},
			repository: r.repository, epoch: epoch, sequence: 1,
		})
	}
	for _, e := range slots {
		r.slots, r.newer = append(r.slots, e), append(r.newer, 1)
	}
	return nil
}

// find returns the slot of a Job's newest entry, or -1.
func (r *replica) find(job uint32) int {
	best := -1
	for i, e := range r.slots {
		if e.sequence != 0 && e.Token != (LeaseToken{}) && e.Job == job && (best < 0 || e.Attempt > r.slots[best].Attempt) {
			best = i
		}
	}
	return best
}

// put writes an entry to the slot of its Job, or to a free one, and syncs it. An
// expired entry can't come back to life and gives its slot away.
func (r *replica) put(e leaseEntry) error {
	slot := r.find(e.Job)
	for i := 0; slot < 0 && i < len(r.slots); i++ {
		if r.slots[i].Token == (LeaseToken{}) || r.slots[i].ExpiresAt <= e.Heartbeat {
			slot = i
		}
	}
	if slot < 0 {
		if len(r.slots) >= maxLeaseSlots {
			return fmt.Errorf("%w: %d leases are live", ErrState, len(r.slots))
		}
		slot = len(r.slots)
		r.slots, r.newer = append(r.slots, leaseEntry{}), append(r.newer, 1)
	}
	return r.write(slot, e)
}

// drop frees the slot of a Job whose lease is of the given attempt or older.
func (r *replica) drop(job uint32, attempt uint16) error {
	slot := r.find(job)
	if slot < 0 || r.slots[slot].Attempt > attempt {
		return nil
	}
	return r.write(slot, leaseEntry{repository: r.repository})
}

func (r *replica) write(slot int, e leaseEntry) error {
	created := false
	f, err := r.fs.OpenFile(r.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		created, r.fresh = true, true
		if err = vfs.MkdirAll(r.fs, filepath.Dir(r.path), 0o700); err == nil {
			f, err = r.fs.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
		}
	}
	if err != nil {
		return err
	}
	e.sequence = r.slots[slot].sequence + 1
	sector := 1 - r.newer[slot]
	err = func() error {
		if r.fresh {
			if err := f.Truncate(0); err != nil {
				return err
			}
			if _, err := f.WriteAt(replicaHeader(), 0); err != nil {
				return err
			}
			// Slots taken over from an earlier form are written out once.
			for i, old := range r.slots {
				if old.sequence != 0 {
					if _, err := f.WriteAt(old.encode(), slotOffset(i, r.newer[i])); err != nil {
						return err
					}
				}
			}
		}
		if _, err := f.WriteAt(e.encode(), slotOffset(slot, sector)); err != nil {
			return err
		}
		if size, err := f.Size(); err != nil || size < slotOffset(slot, 2) {
			return errors.Join(err, f.Truncate(slotOffset(slot, 2)))
		}
		return nil
	}()
	if err == nil {
		err = f.Sync()
	}
	if err == nil && created {
		err = r.fs.SyncDir(filepath.Dir(r.path))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	r.slots[slot], r.newer[slot], r.fresh = e, sector, false
	return nil
}

func slotOffset(slot, sector int) int64 { return int64(1+2*slot+sector) * sectorSize }

func replicaHeader() []byte {
	b := make([]byte, 0, sectorSize)
	b = append(b, leaseMagic...)
	b = binary.LittleEndian.AppendUint32(b, leaseVersion)
	b = binary.LittleEndian.AppendUint32(b, sectorSize)
	return b[:sectorSize]
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

func (t LeaseToken) equal(o LeaseToken) bool { return subtle.ConstantTimeCompare(t[:], o[:]) == 1 }

// leases reads the replica; the Repository's lock is held.
func (r *Repository) leases() (*replica, error) {
	return readReplica(r.a.opt.FS, r.leasePath(), r.info.Index, r.a.active.Epoch)
}

// leaseBatch is the replica as the mutations of one batch see it. None of their
// leases reaches the file before all of them have succeeded, and yet each must
// see those before it: two claims must not take one slot, and nobody may declare
// a lease lost that was given out a moment ago.
type leaseBatch struct {
	of   weak.Pointer[bindb.Tx]
	file *replica
	next map[uint32]leaseEntry // by Job; a zero token: dropped
}

// leaseTx is what one mutation has changed. It joins the batch when the mutation
// has succeeded.
type leaseTx struct {
	batch *leaseBatch
	own   map[uint32]leaseEntry
}

// queue returns the mutation's view of the replica, which is read on first use.
func (tx *Tx) queue() (*leaseTx, error) {
	if tx.lease != nil {
		return tx.lease, nil
	}
	r := tx.repo
	if of := weak.Make(tx.tx); r.batch == nil || r.batch.of != of {
		file, err := r.leases()
		if err != nil {
			return nil, err
		}
		r.batch = &leaseBatch{of: of, file: file, next: map[uint32]leaseEntry{}}
	}
	tx.lease = &leaseTx{r.batch, map[uint32]leaseEntry{}}
	return tx.lease, nil
}

func (q *leaseTx) find(job uint32) leaseEntry {
	if e, ok := q.own[job]; ok {
		return e
	}
	if e, ok := q.batch.next[job]; ok {
		return e
	}
	return q.batch.file.entry(job)
}

// merge makes the mutation's changes visible to those after it.
func (q *leaseTx) merge() {
	if q != nil {
		maps.Copy(q.batch.next, q.own)
	}
}

// entry returns a Job's newest entry, or one that is live for nothing.
func (r *replica) entry(job uint32) leaseEntry {
	if slot := r.find(job); slot >= 0 {
		return r.slots[slot]
	}
	return leaseEntry{}
}

// putLease gives a lease out once the batch has nothing left that can refuse it.
// One that the batch itself has replaced or dropped need not reach the file.
func (tx *Tx) putLease(q *leaseTx, e leaseEntry) {
	q.own[e.Job] = e
	batch := q.batch
	tx.tx.Prepare(func() error {
		if batch.next[e.Job] != e {
			return nil
		}
		return batch.file.put(e)
	})
}

// dropLease frees a lease once the Job's new state is durable. The entry no longer
// matches the Job then, so that a failure to free it costs a slot until it expires.
func (tx *Tx) dropLease(q *leaseTx, j *Job) {
	q.own[j.Index] = leaseEntry{}
	file, job, attempt := q.batch.file, j.Index, j.Attempts
	tx.tx.After(func() { _ = file.drop(job, attempt) })
}
