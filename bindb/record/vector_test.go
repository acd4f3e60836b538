package record_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

// vector is a record with its bytes from section 21.
type vector struct {
	name  string
	hex   string
	check func(t *testing.T, b []byte)
}

func vec[T any, P record.Codec[T]](name, hexBytes string, want T) vector {
	return vector{name, hexBytes, func(t *testing.T, b []byte) {
		var got T
		if err := P(&got).Decode(b); err != nil {
			t.Fatalf("Decode: %v", err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("Decode:\n got %+v\nwant %+v", got, want)
		}
		out := make([]byte, len(b))
		P(&want).Encode(out)
		if !bytes.Equal(out, b) {
			t.Errorf("Encode:\n got %x\nwant %x", out, b)
		}
		if c, ok := any(P(&want)).(interface{ Check() error }); ok {
			if err := c.Check(); err != nil {
				t.Errorf("Check: %v", err)
			}
		}
	}}
}

func payloadVec[T any, P interface {
	*T
	record.Payload
}](name, hexBytes string, want T) vector {
	return vector{name, hexBytes, func(t *testing.T, b []byte) {
		var got T
		if err := P(&got).Decode(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Decode: got %+v, %v, want %+v", got, err, want)
		}
		if out, err := P(&want).Encode(); err != nil || !bytes.Equal(out, b) {
			t.Errorf("Encode: got %x, %v, want %x", out, err, b)
		}
	}}
}

const (
	queuedJob  = "00070100 00000300 00000000 08000000 00000000 64000000 00000000 00000000 00000000 5a000000 00000000 5b000000 00000000"
	runningJob = "00070200 01000300 00000000 08000000 00000000 64000000 00000000 78000000 00000000 5a000000 00000000 78000000 00000000"
)

func job(state record.JobState) record.WorkerJob {
	j := record.WorkerJob{
		Kind: record.JobKindPatchsetCI, State: state, MaxAttempts: 3, Patchset: record.RefTo(7),
		AvailableAt: 100, CreatedAt: 90, UpdatedAt: 91,
	}
	if state == record.JobStateRunning {
		j.Attempts, j.LockedAt, j.UpdatedAt = 1, 120, 120
	}
	return j
}

func vectors() []vector {
	patchset := record.Patchset{
		Ordinal: 1, Change: 5, PreviousInTask: record.RefTo(2), PreviousInChange: record.RefTo(1),
		BaseSnapshot: 10, RevisionSnapshot: 11, CreatedAt: 1786000000, CICompletedAt: 1786000060, CIRunSeq: 2,
		CISelectedSuites: 4, CISuiteResults: 4, CIBlockingFailures: 1, SummaryOffset: 4, SummaryLen: 19, CIJob: record.RefTo(6),
	}
	patchset.Meta.SetAuthorMode(record.AuthorModeAIWithHumanReview)
	patchset.Meta.SetEvaluationPending(true)
	patchset.CIStatus.SetOverall(record.CIStatusFail)
	patchset.CIStatus.SetTests(record.CIStatusFail)
	patchset.CIStatus.SetLint(record.CIStatusPass)

	attestation := record.Attestation{PatchOrdinal: 1, Patchset: 2, CreatedAt: 1786000061}
	attestation.Meta.SetVerificationState(record.VerificationStatePass)
	attestation.Meta.SetRequireTestsPass(true)
	attestation.Meta.SetCIBacked(true)

	review := record.Review{PatchOrdinal: 1, Actor: record.RefTo(0), Patchset: 2, PayloadOffset: 4, CreatedAt: 1786000062}
	review.Meta.SetAction(record.ReviewActionTaskRequestChanges)
	review.Meta.SetBlocking(true)

	decision := record.PolicyDecision{PatchOrdinal: 1, Patchset: 2, FirstCheck: record.RefTo(0), CheckCount: 3, CreatedAt: 1786000063}
	decision.Meta.SetDecision(record.DecisionKindHardFail)

	suite := record.PolicyCheck{Kind: record.CheckKindCIPatchsetSuite, Status: record.CheckStatusPass, Subject: 2}
	suite.Detail.SetBlocking(true)

	var flags record.PolicyFlags
	flags.SetRequireAttestation(true)
	flags.SetRequireLint(true)
	flags.SetRequireLicenseScan(true)
	flags.SetRequireCodeReviewSummary(true)

	return []vector{
		vec("queued Job", queuedJob, job(record.JobStateQueued)),
		vec("running Job", runningJob, job(record.JobStateRunning)),
		vec("Repository", "00016163 550a0000 00040000 00000000 00640000 00000000 00650000 00000000 00", record.Repository{
			Lifecycle: record.LifecycleActive, Namespace: record.Namespace{'a', 'c'}, PolicyFlags: flags,
			PayloadLen: 10, PayloadOffset: 4, CreatedAt: 100, UpdatedAt: 101,
		}),
		payloadVec("Repository payload", "08006169 742d636f 7265", record.RepositoryPayload{Name: "ait-core"}),
		vec("namespace index", "61630000 01000000", record.NamespaceIndex{Namespace: record.Namespace{'a', 'c'}, Repository: 1}),
		vec("ready index", "64000000 00000000 02000000", record.WorkerReadyIndex{AvailableAt: 100, Job: 2}),
		vec("state index", "01000000 02000000", record.WorkerStateIndex{State: record.JobStateQueued, Job: 2}),
		vec("Patchset", "88010000 05000000 03000000 02000000 0a000000 0b000000 8032746a 00000000 bc32746a 00000000 02000000 04000400 01001a04 00000000 00000013 00070000 00", patchset),
		vec("Attestation", "4a000100 02000000 00000000 00000000 bd32746a 00000000", attestation),
		payloadVec("Actor payload", "05000061 6c696365", record.ActorPayload{UserName: "alice"}),
		vec("Actor", "00000800 04000000 00000000 0739a065 bb2a8b50 be32746a 00000000 be32746a 00000000", record.Actor{
			PayloadLen: 8, PayloadOffset: 4, KeyHash: record.FNV1a64([]byte("alice")), CreatedAt: 1786000062, LastSeenAt: 1786000062,
		}),
		vec("Review", "1b000100 01000000 02000000 00000000 00000000 04000000 00000000 00000000 be32746a 00000000", review),
		vec("decision", "03000100 02000000 00000000 00000000 01000000 03000000 bf32746a 00000000", decision),
		vec("tests check", "03040000 00000000", record.PolicyCheck{Kind: record.CheckKindTests, Status: record.CheckStatusHardFail}),
		vec("rollout check", "08030000 00000000", record.PolicyCheck{Kind: record.CheckKindCIRolloutPhase, Status: record.CheckStatusPass}),
		vec("suite check", "09030200 01000000", suite),
		vec("Waiver", "00000100 02000000 00000000 00000000 04000000 00000000 08000500 c032746a 00000000 00000000 00000000", record.Waiver{
			PatchOrdinal: 1, Patchset: 2, PayloadOffset: 4, PayloadLen: 8, Rule: record.RuleCodeLint, CreatedAt: 1786000064,
		}),
		vec("ordinal chain", "03000000 02000200", record.OrdinalChain{Latest: record.RefTo(2), Count: 2, Next: 2}),
		vec("inventory chain", "03000000 02000000", record.InventoryChain{Latest: record.RefTo(2), Count: 2}),
		vec("lease header", "4149544c 53453032 02000000 4c000000 01000000 00000000", record.LeaseReplicaHeader{
			Magic: [8]byte([]byte(record.LeaseReplicaMagic)), Version: 2, RecordSize: 76, EntryCount: 1,
		}),
		vec("lease entry", "00000000 00000000 01000000 01020304 05060708 090a0b0c 0d0e0f10 78000000 00000000 b4000000 00000000 182bbcbd 68f95b47 e125d51c 2fdce4f1 e92c3f49 7ac5ba7f a48adab6 9ee7215a", record.LeaseReplicaEntry{
			Attempt: 1, Token: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, HeartbeatAt: 120, ExpiresAt: 180,
			Digest: [32]byte(unhex("182bbcbd 68f95b47 e125d51c 2fdce4f1 e92c3f49 7ac5ba7f a48adab6 9ee7215a")),
		}),
		vec("lease file header", "57524954 4c454153 03000000 00020000", record.LeaseHeader{
			Magic: [8]byte([]byte(record.LeaseMagic)), Version: 3, SectorSize: 512,
		}),
		vec("lease file entry", "04000000 07000000 02000000 01020304 05060708 090a0b0c 0d0e0f10 78000000 00000000 b4000000 00000000 a1a2a3a4 00000000 00000000 000000a5 01000000 00000000 09000000 00000000 "+leaseDigest, record.LeaseEntry{
			Repository: 4, Job: 7, Attempt: 2, Token: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, HeartbeatAt: 120, ExpiresAt: 180,
			Request: [16]byte{0: 0xa1, 1: 0xa2, 2: 0xa3, 3: 0xa4, 15: 0xa5}, Epoch: 1, Sequence: 9, Digest: [32]byte(unhex(leaseDigest)),
		}),
		vec("update journal", "41495457 4a555031 00000000"+queuedJob+runningJob+"10c7da3b d7faa35c 9e94edbe 7db5b837 62a69a83 00812b38 70199f24 3d2a21ec", record.WorkerJobUpdateJournal{
			Magic: [8]byte([]byte(record.WorkerJobUpdateJournalMagic)), Before: [52]byte(unhex(queuedJob)), After: [52]byte(unhex(runningJob)),
			Digest: [32]byte(unhex("10c7da3b d7faa35c 9e94edbe 7db5b837 62a69a83 00812b38 70199f24 3d2a21ec")),
		}),
	}
}

// leaseDigest was computed with another implementation of SHA-256.
const leaseDigest = "d125317b4caf7637e914763eadb3751014b6f346605a256dde4a2bf6e0f36849"

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.check(t, unhex(v.hex))
		})
	}
}

// The digests of the two helper vectors cover what their layouts say.
func TestVectorDigests(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		b := unhex(v.hex)
		prefix := ""
		switch v.name {
		case "lease entry":
			prefix = "ait.runtime-lease-replica.entry.v2\x00"
		case "lease file entry":
			prefix = "writ.lease-replica.entry.v3\x00"
		case "update journal":
		default:
			continue
		}
		n := len(b) - sha256.Size
		if sum := sha256.Sum256(append([]byte(prefix), b[:n]...)); !bytes.Equal(sum[:], b[n:]) {
			t.Errorf("%s: digest %x, want %x", v.name, b[n:], sum)
		}
	}
}

func TestFNV1a64(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]uint64{
		"": 0xcbf29ce484222325, "a": 0xaf63dc4c8601ec8c, "foobar": 0x85944171f73967e8,
		"alice": 0x508b2abb65a03907, "main": 0x1f5962a2ce9803c8,
	} {
		if got := record.FNV1a64([]byte(in)); got != want {
			t.Errorf("FNV1a64(%q) = %016x, want %016x", in, got, want)
		}
	}
}
