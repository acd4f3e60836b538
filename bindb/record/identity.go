package record

import (
	"fmt"
	"strconv"
	"strings"
)

// Object says what kind of record an Identity names.
type Object uint8

const (
	ObjectTask Object = iota
	ObjectChange
	ObjectPatchset
	ObjectReview
	ObjectPolicyDecision
	ObjectAttestation
	ObjectWaiver
	ObjectLand
	ObjectPlan
	ObjectPlanRevision
	ObjectSnapshot
	ObjectJob
)

var objectNames = [...]string{
	"Task", "Change", "Patchset", "Review", "Policy decision", "Attestation", "Waiver", "Land",
	"Plan", "Plan revision", "Snapshot", "Worker Job",
}

func (o Object) String() string {
	if int(o) < len(objectNames) {
		return objectNames[o]
	}
	return "unknown(" + strconv.Itoa(int(o)) + ")"
}

// Identity names one record of a Repository the way people write it (Binary DB
// v0, section 10.1), for instance SET-0001/C-01/P-02/K-01, PR-0 or 4/17. It is
// comparable.
//
// Writ writes the Task as <namespace>T-0001, the format as R<namespace>T-0001;
// both are read. The namespace is shown in upper case.
//
// An Identity without a Task is a short form, such as C-01 or C-01/P-02. It names
// a record only where the Change is unambiguous in the Repository.
type Identity struct {
	Object        Object
	Namespace     string // as shown; empty without a namespace or a Task
	HasTask       bool   // false in a short form
	TaskIndex     uint32 // counted from 0, shown from 1
	ChangeOrdinal uint8  // counted from 0, shown from 1; so are the others
	PatchOrdinal  uint8
	Ordinal       uint8 // of a Review, decision, Attestation, Waiver or Land

	Index      uint32 // of a Plan, Plan revision or Worker Job
	Repository uint32 // of a Worker Job
	Hash48     uint64 // of a Snapshot, which other Snapshots may share
}

// PlanIdentity names a Plan, for instance PR-0.
func PlanIdentity(index uint32) Identity { return Identity{Object: ObjectPlan, Index: index} }

// PlanRevisionIdentity names a revision of a Plan, for instance plan-revision:3.
func PlanRevisionIdentity(index uint32) Identity {
	return Identity{Object: ObjectPlanRevision, Index: index}
}

// SnapshotIdentity names the Snapshots with the given 48-bit hash.
func SnapshotIdentity(hash48 uint64) Identity {
	return Identity{Object: ObjectSnapshot, Hash48: hash48}
}

// JobIdentity names a Worker Job of a Repository, for instance 4/17.
func JobIdentity(repository, job uint32) Identity {
	return Identity{Object: ObjectJob, Repository: repository, Index: job}
}

const (
	planPrefix         = "PR-"
	planRevisionPrefix = "plan-revision:"
	snapshotPrefix     = "SNP-"
)

// TaskIdentity names the Task with the given index.
func TaskIdentity(ns Namespace, index uint32) Identity {
	return Identity{Object: ObjectTask, Namespace: strings.ToUpper(ns.String()), HasTask: true, TaskIndex: index}
}

func (id Identity) task(o Object, ordinal uint8) Identity {
	return Identity{Object: o, Namespace: id.Namespace, HasTask: id.HasTask, TaskIndex: id.TaskIndex, Ordinal: ordinal}
}

func (id Identity) change(o Object, ordinal uint8) Identity {
	c := id.task(o, ordinal)
	c.ChangeOrdinal = id.ChangeOrdinal
	return c
}

func (id Identity) patchset(o Object, ordinal uint8) Identity {
	p := id.change(o, ordinal)
	p.PatchOrdinal = id.PatchOrdinal
	return p
}

// Task names the Task that the record belongs to.
func (id Identity) Task() Identity { return id.task(ObjectTask, 0) }

// Change names a Change of the same Task.
func (id Identity) Change(ordinal uint8) Identity {
	c := id.task(ObjectChange, 0)
	c.ChangeOrdinal = ordinal
	return c
}

// Patchset names a Patchset of the same Change.
func (id Identity) Patchset(ordinal uint8) Identity {
	p := id.change(ObjectPatchset, 0)
	p.PatchOrdinal = ordinal
	return p
}

// Review names a Review of the same Patchset.
func (id Identity) Review(ordinal uint8) Identity { return id.patchset(ObjectReview, ordinal) }

// PolicyDecision names a decision on the same Patchset.
func (id Identity) PolicyDecision(ordinal uint8) Identity {
	return id.patchset(ObjectPolicyDecision, ordinal)
}

// Attestation names an Attestation of the same Task.
func (id Identity) Attestation(ordinal uint8) Identity { return id.task(ObjectAttestation, ordinal) }

// Waiver names a Waiver of the same Task.
func (id Identity) Waiver(ordinal uint8) Identity { return id.task(ObjectWaiver, ordinal) }

// Land names a Land of the same Change.
func (id Identity) Land(ordinal uint8) Identity { return id.change(ObjectLand, ordinal) }

// WithTask completes a short form with the Task that its Change belongs to, and
// moves a full identity to that Task.
func (id Identity) WithTask(task Identity) Identity {
	id.Namespace, id.HasTask, id.TaskIndex = task.Namespace, task.HasTask, task.TaskIndex
	return id
}

// String is the form that ParseIdentity reads.
func (id Identity) String() string {
	switch id.Object {
	case ObjectPlan:
		return planPrefix + strconv.FormatUint(uint64(id.Index), 10)
	case ObjectPlanRevision:
		return planRevisionPrefix + strconv.FormatUint(uint64(id.Index), 10)
	case ObjectSnapshot:
		return SnapshotName(id.Hash48)
	case ObjectJob:
		return JobLabel(id.Repository, id.Index)
	}
	var b strings.Builder
	if id.HasTask {
		fmt.Fprintf(&b, "%sT-%04d", id.Namespace, uint64(id.TaskIndex)+1)
	}
	step := func(letter byte, ordinal uint8) {
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		fmt.Fprintf(&b, "%c-%02d", letter, uint(ordinal)+1)
	}
	switch id.Object {
	case ObjectAttestation:
		step('A', id.Ordinal)
	case ObjectWaiver:
		step('W', id.Ordinal)
	case ObjectChange:
		step('C', id.ChangeOrdinal)
	case ObjectLand:
		step('C', id.ChangeOrdinal)
		step('L', id.Ordinal)
	case ObjectPatchset, ObjectReview, ObjectPolicyDecision:
		step('C', id.ChangeOrdinal)
		step('P', id.PatchOrdinal)
		switch id.Object {
		case ObjectReview:
			step('R', id.Ordinal)
		case ObjectPolicyDecision:
			step('K', id.Ordinal)
		}
	}
	return b.String()
}

// MarshalText gives the form of String.
func (id Identity) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// ParseIdentity reads an identity inside a Repository with the given namespace,
// which settles what a prefix means: RT-0001 is Task 1 without a namespace and
// Task 1 of namespace R. The error matches ErrSyntax and says what was expected.
func ParseIdentity(text string, ns Namespace) (Identity, error) {
	bad := func(format string, args ...any) (Identity, error) {
		return Identity{}, fmt.Errorf("%w: identity %.60q: %s", ErrSyntax, text, fmt.Sprintf(format, args...))
	}
	if id, known, err := parseFlat(text); err != nil {
		return bad("%v", err)
	} else if known {
		return id, nil
	}
	var id Identity
	steps := strings.SplitN(text, "/", 5)
	if !ordinalStep(steps[0]) {
		index, err := parseTask(steps[0], ns)
		if err != nil {
			return bad("%v", err)
		}
		id, steps = TaskIdentity(ns, index), steps[1:]
	}
	place := "" // the letters seen so far
	for _, s := range steps {
		if !ordinalStep(s) {
			return bad("%.20q is no step such as C-01, with exactly two digits", s)
		}
		n, err := strconv.Atoi(s[2:])
		if err != nil || n < 1 || n > MaxOrdinals {
			return bad("the number in %s is not in 01..%d", s, MaxOrdinals)
		}
		place += s[:1]
		o := uint8(n - 1)
		switch {
		case place == "C":
			id = id.Change(o)
		case place == "CP":
			id = id.Patchset(o)
		case place == "CL":
			id = id.Land(o)
		case place == "CPR":
			id = id.Review(o)
		case place == "CPK":
			id = id.PolicyDecision(o)
		case place == "A" && id.HasTask:
			id = id.Attestation(o)
		case place == "W" && id.HasTask:
			id = id.Waiver(o)
		case place == "A" || place == "W":
			return bad("%s needs its Task before it, as in %s/%s", s, TaskIdentity(ns, 0), s)
		default:
			return bad("%s cannot stand there; below a Task stand C, A and W, below a Change P and L, below a Patchset R and K", s)
		}
	}
	return id, nil
}

// parseFlat reads the identities that lie below no Task, and says whether text is
// one.
func parseFlat(text string) (Identity, bool, error) {
	if s, ok := strings.CutPrefix(text, planPrefix); ok {
		index, err := parseIndex(s)
		return PlanIdentity(index), true, err
	}
	if s, ok := strings.CutPrefix(text, planRevisionPrefix); ok {
		index, err := parseIndex(s)
		return PlanRevisionIdentity(index), true, err
	}
	if strings.HasPrefix(text, snapshotPrefix) {
		hash, err := ParseSnapshotName(text)
		return SnapshotIdentity(hash), true, err
	}
	r, j, ok := strings.Cut(text, "/")
	if !ok || r == "" || strings.Trim(r, "0123456789") != "" {
		return Identity{}, false, nil
	}
	repository, err := parseIndex(r)
	if err != nil {
		return Identity{}, true, err
	}
	job, err := parseIndex(j)
	return JobIdentity(repository, job), true, err
}

// parseIndex reads an index in its only form, decimal without leading zeros.
func parseIndex(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != s || n >= MaxTargets {
		return 0, fmt.Errorf("%.20q is no index in 0..%d without leading zeros", s, int64(MaxTargets)-1)
	}
	return uint32(n), nil
}

// ordinalStep says whether s has the form of a letter, a dash and two digits.
func ordinalStep(s string) bool {
	return len(s) == 4 && strings.IndexByte("CPRKAWL", s[0]) >= 0 && s[1] == '-' && digit(s[2]) && digit(s[3])
}

// parseTask reads the Task part of an identity.
func parseTask(s string, ns Namespace) (uint32, error) {
	prefix := strings.ToUpper(ns.String())
	rest, ok := strings.CutPrefix(s, prefix+"T-")
	if !ok {
		rest, ok = strings.CutPrefix(s, "R"+prefix+"T-")
	}
	if !ok {
		return 0, fmt.Errorf("%.20q does not begin like %sT-0001 or, in a short form, like C-01", s, prefix)
	}
	if len(rest) < 4 || len(rest) > 10 || len(rest) > 4 && rest[0] == '0' {
		return 0, fmt.Errorf("the number of a Task has four digits or more, such as %sT-0001", prefix)
	}
	for i := range len(rest) {
		if !digit(rest[i]) {
			return 0, fmt.Errorf("the number of a Task has four digits or more, such as %sT-0001", prefix)
		}
	}
	n, err := strconv.ParseUint(rest, 10, 64)
	if err != nil || n < 1 || n > MaxTargets {
		return 0, fmt.Errorf("the number of a Task is in 1..%d", int64(MaxTargets))
	}
	return uint32(n - 1), nil
}

// SnapshotName is the public identity of a Snapshot: SNP- and its 48-bit hash in
// twelve upper-case hexadecimal digits.
func SnapshotName(hash48 uint64) string { return fmt.Sprintf(snapshotPrefix+"%012X", hash48) }

// ParseSnapshotName is the inverse of SnapshotName. The error matches ErrSyntax.
func ParseSnapshotName(text string) (uint64, error) {
	hex, ok := strings.CutPrefix(text, snapshotPrefix)
	if ok && len(hex) == 12 && strings.Trim(hex, "0123456789ABCDEF") == "" {
		if v, err := strconv.ParseUint(hex, 16, 48); err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%w: Snapshot %.40q is not SNP- with twelve upper-case hexadecimal digits", ErrSyntax, text)
}

// JobLabel names a Worker Job across Repositories: <repository>/<job>, both as
// indexes.
func JobLabel(repository, job uint32) string { return fmt.Sprintf("%d/%d", repository, job) }
