package record

// LeaseReplicaHeader begins the lease replica of version 2, which is read for
// the sake of older installations (Binary DB v0, section 14.2).
//
//bindb:record file=worker-leases.bin kind=helper size=24 name=RuntimeLeaseReplicaHeader
type LeaseReplicaHeader struct {
	Magic      [8]byte `bin:"magic" show:"text"` // AITLSE02
	Version    uint32  `bin:"version"`           // 2
	RecordSize uint32  `bin:"record_size"`       // 76
	EntryCount uint32  `bin:"entry_count"`       // entries that follow
	_          uint32  `bin:"reserved"`          // zero
}

// LeaseReplicaEntry is one lease of that replica; entries ascend by Repository
// and Job (section 14.2).
//
//bindb:record file=worker-leases.bin kind=helper size=76 name=RuntimeLeaseReplicaEntry
type LeaseReplicaEntry struct {
	Repository  uint32   `bin:"repository_index" target:"repository.bin"` // Repository of the Job
	Job         uint32   `bin:"worker_job_index" target:"worker_job.bin"` // leased Job
	Attempt     uint16   `bin:"attempt_count"`                            // attempt that the lease is for, at least 1
	_           uint16   `bin:"reserved"`                                 // zero
	Token       [16]byte `bin:"lease_token" show:"secret"`                // secret of the holder, not all zero
	HeartbeatAt Seconds  `bin:"heartbeat_at_s"`                           // latest sign of life
	ExpiresAt   Seconds  `bin:"expires_at_s"`                             // after heartbeat_at_s
	Digest      [32]byte `bin:"digest"`                                   // SHA-256 over a prefix and the 44 bytes before
}

// LeaseHeader begins the lease file of one Repository. The rest of its sector is
// zero.
//
//bindb:record file=leases kind=helper size=16 name=LeaseFileHeader
type LeaseHeader struct {
	Magic      [8]byte `bin:"magic" show:"text"` // WRITLEAS
	Version    uint32  `bin:"version"`           // 3
	SectorSize uint32  `bin:"sector_size"`       // 512: bytes from one entry to the next
}

// LeaseEntry is one lease in that file. Every lease has two sectors, which are
// written in turn; of the whole entries in both, the one with the greater
// sequence counts. A zero token says that the slot is free.
//
//bindb:record file=leases kind=helper size=108 name=LeaseFileEntry
type LeaseEntry struct {
	Repository  uint32   `bin:"repository_index" target:"repository.bin"` // Repository of the Job
	Job         uint32   `bin:"worker_job_index" target:"worker_job.bin"` // leased Job
	Attempt     uint16   `bin:"attempt_count"`                            // attempt that the lease is for
	_           uint16   `bin:"reserved"`                                 // zero
	Token       [16]byte `bin:"lease_token" show:"secret"`                // secret of the holder
	HeartbeatAt Seconds  `bin:"heartbeat_at_s"`                           // latest sign of life
	ExpiresAt   Seconds  `bin:"expires_at_s"`                             // from here on the lease is void
	Request     [16]byte `bin:"claim_request_id"`                         // of the claim, zero for none
	Epoch       uint64   `bin:"authority_epoch"`                          // a lease of another epoch is void
	Sequence    uint64   `bin:"sequence"`                                 // grows with every write of the slot, from 1
	Digest      [32]byte `bin:"digest"`                                   // SHA-256 over a prefix and the 76 bytes before
}

// WorkerJobUpdateJournal is the before- and after-image of one Worker Job that is
// being replaced, as other implementations leave it behind (section 12.3).
//
//bindb:record file=.worker_job.bin.update-journal kind=helper size=148 name=WorkerJobUpdateJournal
type WorkerJobUpdateJournal struct {
	Magic  [8]byte             `bin:"magic" show:"text"`                        // AITWJUP1
	Job    uint32              `bin:"worker_job_index" target:"worker_job.bin"` // record that is replaced
	Before [WorkerJobSize]byte `bin:"before"`                                   // complete record
	After  [WorkerJobSize]byte `bin:"after"`                                    // complete record
	Digest [32]byte            `bin:"digest"`                                   // SHA-256 of the 116 bytes before
}

// RepositoryUpdateJournal is the same for a Repository record (section 12.4).
//
//bindb:record file=.repository.bin.update-journal kind=helper size=110 name=RepositoryUpdateJournal
type RepositoryUpdateJournal struct {
	Magic      [8]byte              `bin:"magic" show:"text"`                        // AITRGUP1
	Repository uint32               `bin:"repository_index" target:"repository.bin"` // record that is replaced
	Before     [RepositorySize]byte `bin:"before"`                                   // complete record
	After      [RepositorySize]byte `bin:"after"`                                    // complete record
	Digest     [32]byte             `bin:"digest"`                                   // SHA-256 of the 78 bytes before
}

// AppendIntent marks the only append to worker_job.bin that may be incomplete, by
// the length before it. The intent of repository.bin has the same form under the
// name .repository.bin.append-intent (section 17.6).
//
//bindb:record file=.worker_job.bin.append-intent kind=helper size=40 name=AppendIntent
type AppendIntent struct {
	Length uint64   `bin:"length"` // bytes of the file before the append
	Digest [32]byte `bin:"digest"` // SHA-256 of the 8 bytes before
}

// Magic bytes of the helper layouts.
const (
	LeaseReplicaMagic            = "AITLSE02"
	LeaseMagic                   = "WRITLEAS"
	WorkerJobUpdateJournalMagic  = "AITWJUP1"
	RepositoryUpdateJournalMagic = "AITRGUP1"
)

// Check verifies magic, version and entry size.
func (r *LeaseReplicaHeader) Check() error {
	if err := checkMagic(r.Magic, LeaseReplicaMagic); err != nil {
		return err
	}
	switch {
	case r.Version != 2:
		return fieldError("F06", "version", r.Version, "2")
	case r.RecordSize != LeaseReplicaEntrySize:
		return fieldError("F06", "record_size", r.RecordSize, "76")
	}
	return nil
}

// Check verifies attempt, token and times; the digest is the reader's business.
func (r *LeaseReplicaEntry) Check() error {
	switch {
	case r.Attempt == 0:
		return fieldError("F06", "attempt_count", r.Attempt, "at least 1")
	case r.Token == [16]byte{}:
		return &FieldError{Field: "lease_token", Bytes: r.Token[:], Want: "a token", Check: "F06"}
	case r.ExpiresAt <= r.HeartbeatAt:
		return fieldError("F06", "expires_at_s", r.ExpiresAt, "a time after heartbeat_at_s")
	}
	return nil
}

// Check verifies magic, version and sector size.
func (r *LeaseHeader) Check() error {
	if err := checkMagic(r.Magic, LeaseMagic); err != nil {
		return err
	}
	switch {
	case r.Version != 3:
		return fieldError("F06", "version", r.Version, "3")
	case r.SectorSize != 512:
		return fieldError("F06", "sector_size", r.SectorSize, "512")
	}
	return nil
}

// Check verifies that the entry was written at all, and attempt and times of one
// that is not free; the digest is the reader's business.
func (r *LeaseEntry) Check() error {
	switch {
	case r.Sequence == 0:
		return fieldError("F06", "sequence", r.Sequence, "at least 1")
	case r.Token == [16]byte{}:
		return nil
	case r.Attempt == 0:
		return fieldError("F06", "attempt_count", r.Attempt, "at least 1")
	case r.ExpiresAt <= r.HeartbeatAt:
		return fieldError("F06", "expires_at_s", r.ExpiresAt, "a time after heartbeat_at_s")
	}
	return nil
}

// Check verifies the magic; the digest is the reader's business.
func (r *WorkerJobUpdateJournal) Check() error {
	return checkMagic(r.Magic, WorkerJobUpdateJournalMagic)
}

// Check verifies the magic; the digest is the reader's business.
func (r *RepositoryUpdateJournal) Check() error {
	return checkMagic(r.Magic, RepositoryUpdateJournalMagic)
}

func checkMagic(got [8]byte, want string) error {
	if string(got[:]) != want {
		return &FieldError{Field: "magic", Bytes: got[:], Want: want, Check: "F06"}
	}
	return nil
}
