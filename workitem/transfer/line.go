package transfer

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/writ-authority/writ/workitem"
)

// What a line may be.
const (
	formatName = "writ.jobs"
	version    = 1

	maxLine     = 8 << 20   // bytes, above what the longest record takes in JSON
	maxText     = 16 << 10  // bytes of a text that is not a record
	maxMetadata = 512 << 10 // bytes of a record
	maxParents  = 1024
	eventsALine = 256
	maxEvents   = 1 << 20 // of a job
)

// line is one line: an object with one member, which says what it is.
type line struct {
	Header    *header    `json:"header,omitzero"`
	Job       *job       `json:"job,omitzero"`
	Events    *events    `json:"events,omitzero"`
	Edge      *edge      `json:"edge,omitzero"`
	Tombstone *tombstone `json:"tombstone,omitzero"`
	Claim     *claim     `json:"claim,omitzero"`
	Turn      *turn      `json:"turn,omitzero"`
	Token     *token     `json:"token,omitzero"`
	Count     *count     `json:"count,omitzero"`
	End       *end       `json:"end,omitzero"`
}

// The sorts of lines, in the order in which they come.
const (
	sortHeader = iota
	sortJob    // with the events behind each
	sortEdge
	sortTombstone
	sortClaim
	sortTurn
	sortToken
	sortCount
	sortEnd
)

// sort is the sort of a line, or -1 if it has not exactly one member.
func (l *line) sort() int {
	found := -1
	for s, set := range []bool{l.Header != nil, l.Job != nil || l.Events != nil, l.Edge != nil, l.Tombstone != nil,
		l.Claim != nil, l.Turn != nil, l.Token != nil, l.Count != nil, l.End != nil} {
		if set {
			if found >= 0 {
				return -1
			}
			found = s
		}
	}
	if l.Job != nil && l.Events != nil {
		return -1
	}
	return found
}

// parseLine reads a line without its end.
func parseLine(text []byte) (*line, error) {
	l := &line{}
	if err := json.Unmarshal(text, l, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if l.sort() < 0 {
		return nil, fmt.Errorf("expected an object with one member, such as job or edge")
	}
	return l, nil
}

// Header is the first line of an export.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Engine  string `json:"engine"` // that it comes from
	Schema  int    `json:"schema"` // of the engine
	Epoch   int64  `json:"epoch"`  // of the authority
	At      string `json:"at"`     // the store's time, RFC 3339
}

type header = Header

// job is a row with its record.
type job struct {
	ID              string   `json:"id"`
	Tenant          string   `json:"tenant"`
	Kind            string   `json:"kind"`
	State           string   `json:"state"`
	Created         int64    `json:"created"`
	Updated         int64    `json:"updated"`
	Completed       int64    `json:"completed,omitzero"`
	Repository      string   `json:"repository"`
	Owner           string   `json:"owner"`
	Fairness        string   `json:"fairness_group"`
	Class           string   `json:"resource_class"`
	Priority        int      `json:"priority"`
	Deadline        int64    `json:"deadline,omitzero"`
	DependsOn       []string `json:"depends_on,omitzero"`
	Pending         int      `json:"pending,omitzero"`
	Dependencies    string   `json:"dependencies"`
	Attempt         int      `json:"attempt"`
	MaxAttempts     int      `json:"max_attempts"`
	Backoff         int64    `json:"backoff"`
	NextRetry       int64    `json:"next_retry,omitzero"`
	LeaseOwner      string   `json:"lease_owner,omitzero"`
	LeasePrincipal  string   `json:"lease_principal,omitzero"`
	LeaseEpoch      int64    `json:"lease_epoch"`
	Fence           int64    `json:"fencing_token"`
	LeaseExpires    int64    `json:"lease_expires,omitzero"`
	Heartbeat       int64    `json:"heartbeat,omitzero"`
	LastLeaseOwner  string   `json:"last_lease_owner,omitzero"`
	Checkpoint      string   `json:"checkpoint,omitzero"`
	ResultRef       string   `json:"result_ref,omitzero"`
	ErrorRef        string   `json:"error_ref,omitzero"`
	CancelReason    string   `json:"cancel_reason,omitzero"`
	Defers          int      `json:"defers,omitzero"`
	ConsentRequired bool     `json:"consent_required,omitzero"`
	ConsentGranted  int64    `json:"consent_granted,omitzero"`
	ConsentExpires  int64    `json:"consent_expires,omitzero"`
	Digest          string   `json:"digest"`
	Loose           string   `json:"loose_digest"`
	Key             string   `json:"key_digest"`
	Correlation     string   `json:"correlation"`
	Request         string   `json:"request"`
	Lane            string   `json:"lane,omitzero"`
	Candidate       string   `json:"candidate,omitzero"`
	Generation      string   `json:"generation,omitzero"`
	Trace           string   `json:"trace,omitzero"`
	Record          string   `json:"record"`
}

// events are some of what happened to the job of the last line of sort job, oldest
// first.
type events struct {
	Job  string  `json:"job"`
	List []event `json:"list"`
}

type event struct {
	Seq     int    `json:"seq"`
	At      int64  `json:"at"`
	Name    string `json:"event"`
	From    string `json:"from,omitzero"`
	To      string `json:"to,omitzero"`
	Epoch   int64  `json:"epoch,omitzero"`
	Subject string `json:"subject,omitzero"`
	Detail  string `json:"detail,omitzero"`
}

type edge struct {
	Parent string `json:"parent"`
	Child  string `json:"child"`
}

type tombstone struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Kind   string `json:"kind"`
	State  string `json:"state"`
	Owner  string `json:"owner"`
	Digest string `json:"digest"`
	Loose  string `json:"loose_digest"`
	Pruned int64  `json:"pruned"`
}

type claim struct {
	Tenant   string `json:"tenant"`
	Subject  string `json:"subject"`
	Request  string `json:"request"`
	Job      string `json:"job"`
	Epoch    int64  `json:"epoch"`
	Worker   string `json:"worker"`
	Kind     string `json:"kind,omitzero"`
	Class    string `json:"resource_class,omitzero"`
	Fairness string `json:"fairness_group,omitzero"`
	At       int64  `json:"at"`
}

type turn struct {
	Tenant   string `json:"tenant"`
	Kind     string `json:"kind"`
	Bucket   int    `json:"bucket"`
	Fairness string `json:"fairness_group"`
	Left     int    `json:"left"`
}

type token struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Hash    string   `json:"hash"`
	Subject string   `json:"subject"`
	Tenant  string   `json:"tenant"`
	Owner   string   `json:"owner"`
	Scopes  []string `json:"scopes"`
	Created int64    `json:"created"`
	Revoked int64    `json:"revoked,omitzero"`
}

// count is how many jobs of a tenant and kind are in a state.
type count struct {
	Tenant string `json:"tenant"`
	Kind   string `json:"kind"`
	State  string `json:"state"`
	Jobs   int64  `json:"jobs"`
}

type end struct {
	Rows   workitem.Sizes `json:"rows"`
	SHA256 string         `json:"sha256"` // of all bytes before this line
}

var depStates = [...]string{workitem.DepUnverified: "unverified", workitem.DepVerified: "verified", workitem.DepFaulty: "faulty"}

// newJob is the line of a job.
func newJob(f *workitem.FullItem) (*job, error) {
	it, s := f.Item, f.Stored
	if !it.Kind.Valid() || it.Status.State() == "" || int(it.DepState) >= len(depStates) {
		return nil, fmt.Errorf("job %s has a kind, a state or a state of its dependencies that does not exist", it.ID.JobID())
	}
	j := &job{
		ID: it.ID.JobID(), Tenant: it.Tenant, Kind: it.Kind.String(), State: it.Status.State(),
		Created: int64(it.CreatedAt), Updated: int64(it.UpdatedAt), Completed: int64(it.CompletedAt),
		Repository: it.Repository, Owner: it.Owner, Fairness: it.FairnessGroup, Class: it.ResourceClass,
		Priority: it.Priority, Deadline: int64(it.Deadline), Pending: it.DepCount, Dependencies: depStates[it.DepState],
		Attempt: it.Attempt, MaxAttempts: it.MaxAttempts, Backoff: it.Backoff.Microseconds(), NextRetry: int64(it.NextRetryAt),
		LeaseOwner: it.LeaseOwner, LeasePrincipal: it.LeasePrincipal, LeaseEpoch: it.LeaseEpoch, Fence: it.FencingToken,
		LeaseExpires: int64(it.LeaseExpiresAt), Heartbeat: int64(it.HeartbeatAt), LastLeaseOwner: it.LastLeaseOwner,
		Checkpoint: it.Checkpoint, ResultRef: it.ResultRef, ErrorRef: it.ErrorRef, CancelReason: it.CancelReason, Defers: it.DeferCount,
		ConsentRequired: it.ConsentRequired, ConsentGranted: int64(it.ConsentGrantedAt), ConsentExpires: int64(it.ConsentExpiresAt),
		Digest: s.Digest.String(), Loose: s.Loose.String(), Key: s.IdempotencyKey.String(), Correlation: s.CorrelationID,
		Request: s.RequestID, Lane: s.LaneID, Candidate: s.CandidateID, Generation: s.GenerationID, Trace: s.Trace,
		Record: string(s.Metadata),
	}
	for _, id := range it.DependsOn {
		j.DependsOn = append(j.DependsOn, id.JobID())
	}
	return j, nil
}

// fields reads the members of a line and keeps the first fault.
type fields struct{ fault string }

func (f *fields) fail(member, what string) {
	if f.fault == "" {
		f.fault = member + " " + what
	}
}

func (f *fields) text(member, s string, needed bool) string {
	switch {
	case len(s) > maxText:
		f.fail(member, "is longer than 16384 bytes")
	case needed && s == "":
		f.fail(member, "is missing or empty")
	case strings.IndexByte(s, 0) >= 0:
		f.fail(member, "has a NUL character")
	}
	return s
}

func (f *fields) id(member, s string) workitem.ID {
	id, err := workitem.ParseID(s)
	if err != nil {
		f.fail(member, "is missing or not rmjob: and a UUID")
	}
	return id
}

func (f *fields) digest(member, s string) workitem.Digest {
	d, err := workitem.ParseDigest(s)
	if err != nil {
		f.fail(member, "is missing or not 64 hexadecimal digits")
	}
	return d
}

func (f *fields) kind(member, s string) workitem.Kind {
	k, err := workitem.ParseKind(s)
	if err != nil {
		f.fail(member, "is missing or not a registered kind")
	}
	return k
}

func (f *fields) state(member, s string) workitem.Status {
	status, err := workitem.ParseState(s)
	if err != nil {
		f.fail(member, "is missing or not a state")
	}
	return status
}

func (f *fields) number(member string, n, low, high int64) int64 {
	if n < low || n > high {
		f.fail(member, fmt.Sprintf("is %d, expected %d to %d", n, low, high))
	}
	return n
}

// instant is one that is not after year 9999; none is required.
func (f *fields) instant(member string, n int64) workitem.Instant {
	const limit = 253402300800 * 1e6
	return workitem.Instant(f.number(member, n, -limit, limit))
}

func (f *fields) err() error {
	if f.fault == "" {
		return nil
	}
	return fmt.Errorf("%s", f.fault)
}

const (
	maxCount = 1<<31 - 1
	maxFence = 1<<53 - 1 // what every reader of JSON has exactly
)

// item is the job as a store has it. A submitted one is unverified (decision W2).
func (j *job) item() (*workitem.FullItem, error) {
	var f fields
	it := &workitem.Item{
		ID: f.id("id", j.ID), Tenant: f.text("tenant", j.Tenant, true), Kind: f.kind("kind", j.Kind), Status: f.state("state", j.State),
		CreatedAt: f.instant("created", j.Created), UpdatedAt: f.instant("updated", j.Updated), CompletedAt: f.instant("completed", j.Completed),
		Repository: f.text("repository", j.Repository, false), Owner: f.text("owner", j.Owner, false),
		FairnessGroup: f.text("fairness_group", j.Fairness, false), ResourceClass: f.text("resource_class", j.Class, false),
		Priority: int(f.number("priority", int64(j.Priority), 0, 10000)), Deadline: f.instant("deadline", j.Deadline),
		DepCount: int(f.number("pending", int64(j.Pending), 0, maxParents)),
		Attempt:  int(f.number("attempt", int64(j.Attempt), 0, maxCount)), MaxAttempts: int(f.number("max_attempts", int64(j.MaxAttempts), 0, maxCount)),
		Backoff:     time.Duration(f.number("backoff", j.Backoff, 0, int64(24*time.Hour/time.Microsecond))) * time.Microsecond,
		NextRetryAt: f.instant("next_retry", j.NextRetry),
		LeaseOwner:  f.text("lease_owner", j.LeaseOwner, false), LeasePrincipal: f.text("lease_principal", j.LeasePrincipal, false),
		LeaseEpoch: f.number("lease_epoch", j.LeaseEpoch, 0, maxFence), FencingToken: f.number("fencing_token", j.Fence, 0, maxFence),
		LeaseExpiresAt: f.instant("lease_expires", j.LeaseExpires), HeartbeatAt: f.instant("heartbeat", j.Heartbeat),
		LastLeaseOwner: f.text("last_lease_owner", j.LastLeaseOwner, false), Checkpoint: f.text("checkpoint", j.Checkpoint, false),
		ResultRef: f.text("result_ref", j.ResultRef, false), ErrorRef: f.text("error_ref", j.ErrorRef, false),
		CancelReason: f.text("cancel_reason", j.CancelReason, false), DeferCount: int(f.number("defers", int64(j.Defers), 0, maxCount)),
		ConsentRequired: j.ConsentRequired, ConsentGrantedAt: f.instant("consent_granted", j.ConsentGranted),
		ConsentExpiresAt: f.instant("consent_expires", j.ConsentExpires),
		CorrelationID:    f.text("correlation", j.Correlation, false),
	}
	if len(j.DependsOn) > maxParents {
		f.fail("depends_on", "has more than 1024 jobs")
	}
	for _, parent := range j.DependsOn {
		it.DependsOn = append(it.DependsOn, f.id("depends_on", parent))
	}
	known := false
	for state, name := range depStates {
		if name == j.Dependencies {
			it.DepState, known = workitem.DepState(state), true
		}
	}
	if !known {
		f.fail("dependencies", "is none of unverified, verified, faulty")
	}
	if it.Status == workitem.Submitted {
		it.DepState = workitem.DepUnverified
	}
	if it.Status.Held() && it.LeaseOwner == "" {
		f.fail("lease_owner", "is missing, but the job is held")
	}
	if len(j.Record) > maxMetadata {
		f.fail("record", "is longer than 524288 bytes")
	}
	stored := &workitem.Stored{
		Metadata: []byte(j.Record), Digest: f.digest("digest", j.Digest), Loose: f.digest("loose_digest", j.Loose),
		IdempotencyKey: f.digest("key_digest", j.Key), CorrelationID: it.CorrelationID, RequestID: f.text("request", j.Request, false),
		LaneID: f.text("lane", j.Lane, false), CandidateID: f.text("candidate", j.Candidate, false),
		GenerationID: f.text("generation", j.Generation, false), Trace: f.text("trace", j.Trace, false),
	}
	return &workitem.FullItem{Item: it, Stored: stored}, f.err()
}

// newEvent is the line's form of an event. A job that is made comes from no state.
func newEvent(ev *workitem.Event) event {
	return event{
		Seq: ev.Seq, At: int64(ev.At), Name: ev.Name, From: ev.From.State(), To: ev.To.State(), Epoch: ev.Epoch,
		Subject: ev.Subject, Detail: ev.Detail,
	}
}

func (e *event) event() (workitem.Event, error) {
	var f fields
	state := func(member, s string) workitem.Status {
		if s == "" {
			return 0
		}
		return f.state(member, s)
	}
	ev := workitem.Event{
		Seq: int(f.number("seq", int64(e.Seq), 1, maxCount)), At: f.instant("at", e.At), Name: f.text("event", e.Name, true),
		From: state("from", e.From), To: state("to", e.To), Epoch: f.number("epoch", e.Epoch, 0, maxFence),
		Subject: f.text("subject", e.Subject, false), Detail: f.text("detail", e.Detail, false),
	}
	return ev, f.err()
}

func (e *edge) edge() (workitem.Edge, error) {
	var f fields
	return workitem.Edge{Parent: f.id("parent", e.Parent), Child: f.id("child", e.Child)}, f.err()
}

func newTombstone(t *workitem.Tombstone) *tombstone {
	return &tombstone{
		ID: t.ID.JobID(), Tenant: t.Tenant, Kind: t.Kind.String(), State: t.Status.State(), Owner: t.Owner,
		Digest: t.Digest.String(), Loose: t.Loose.String(), Pruned: int64(t.PrunedAt),
	}
}

func (t *tombstone) tombstone() (*workitem.Tombstone, error) {
	var f fields
	return &workitem.Tombstone{
		ID: f.id("id", t.ID), Tenant: f.text("tenant", t.Tenant, true), Kind: f.kind("kind", t.Kind), Status: f.state("state", t.State),
		Owner: f.text("owner", t.Owner, false), Digest: f.digest("digest", t.Digest), Loose: f.digest("loose_digest", t.Loose),
		PrunedAt: f.instant("pruned", t.Pruned),
	}, f.err()
}

func newClaim(r *workitem.Recall) *claim {
	return &claim{
		Tenant: r.Tenant, Subject: r.Subject, Request: r.Request, Job: r.Item.JobID(), Epoch: r.Epoch, Worker: r.Worker,
		Kind: r.Kind.String(), Class: r.ResourceClass, Fairness: r.FairnessGroup, At: int64(r.At),
	}
}

func (c *claim) recall() (workitem.Recall, error) {
	var f fields
	r := workitem.Recall{
		Tenant: f.text("tenant", c.Tenant, true), Subject: f.text("subject", c.Subject, true), Request: f.text("request", c.Request, true),
		Remembered: workitem.Remembered{
			Item: f.id("job", c.Job), Epoch: f.number("epoch", c.Epoch, 0, maxFence), Worker: f.text("worker", c.Worker, false),
			ResourceClass: f.text("resource_class", c.Class, false), FairnessGroup: f.text("fairness_group", c.Fairness, false),
			At: f.instant("at", c.At),
		},
	}
	if c.Kind != "" {
		r.Kind = f.kind("kind", c.Kind)
	}
	return r, f.err()
}

func newTurn(t *workitem.BucketTurn) *turn {
	return &turn{Tenant: t.Tenant, Kind: t.Kind.String(), Bucket: t.Bucket, Fairness: t.Group, Left: t.Left}
}

func (t *turn) turn() (workitem.BucketTurn, error) {
	var f fields
	return workitem.BucketTurn{
		Tenant: f.text("tenant", t.Tenant, true), Kind: f.kind("kind", t.Kind), Bucket: int(f.number("bucket", int64(t.Bucket), 0, 3)),
		Turn: workitem.Turn{Group: f.text("fairness_group", t.Fairness, false), Left: int(f.number("left", int64(t.Left), 0, maxCount))},
	}, f.err()
}

func newToken(k *workitem.Token) *token {
	return &token{
		ID: k.ID, Name: k.Name, Hash: k.Hash.String(), Subject: k.Subject, Tenant: k.Tenant, Owner: k.Owner,
		Scopes: k.Scopes.Names(), Created: int64(k.CreatedAt), Revoked: int64(k.RevokedAt),
	}
}

func (k *token) token() (*workitem.Token, error) {
	var f fields
	scopes, err := workitem.ParseScopes(k.Scopes)
	if err != nil || len(k.Scopes) > 16 {
		f.fail("scopes", "has one that does not exist")
	}
	return &workitem.Token{
		ID: f.text("id", k.ID, true), Name: f.text("name", k.Name, false), Hash: f.digest("hash", k.Hash),
		Subject: f.text("subject", k.Subject, true), Tenant: f.text("tenant", k.Tenant, true), Owner: f.text("owner", k.Owner, false),
		Scopes: scopes, CreatedAt: f.instant("created", k.Created), RevokedAt: f.instant("revoked", k.Revoked),
	}, f.err()
}
