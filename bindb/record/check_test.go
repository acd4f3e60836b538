package record_test

import (
	"errors"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

// valid is a record that passes Check, and the changes that each break it.
type valid[T any] struct {
	good    func() T
	breaks  map[string]func(*T) // "<check> <field>" to the change
	accepts map[string]func(*T) // changes that Check must not mind
}

func (v valid[T]) run(t *testing.T, check func(*T) error) {
	t.Helper()
	r := v.good()
	if err := check(&r); err != nil {
		t.Errorf("%T: the good record fails: %v", r, err)
	}
	for name, change := range v.accepts {
		r := v.good()
		change(&r)
		if err := check(&r); err != nil {
			t.Errorf("%T %s: got %v, want it accepted", r, name, err)
		}
	}
	for want, change := range v.breaks {
		r := v.good()
		change(&r)
		err := check(&r)
		var fe *record.FieldError
		if !errors.As(err, &fe) || !errors.Is(err, record.ErrMalformed) {
			t.Errorf("%T %s: got %v, want a FieldError", r, want, err)
			continue
		}
		got := fe.Check + " " + fe.Field
		if i := len(got); len(want) < i || want[:i] != got {
			t.Errorf("%T %s: got %s: %v", r, want, got, err)
		}
	}
}

func TestCheckRepository(t *testing.T) {
	t.Parallel()
	type R = record.Repository
	valid[R]{
		good: func() R {
			return R{Lifecycle: record.LifecycleActive, PayloadLen: 10, PayloadOffset: 4, CreatedAt: 5, UpdatedAt: 5}
		},
		accepts: map[string]func(*R){
			"one character":  func(r *R) { r.Namespace = record.Namespace{'_'} },
			"two characters": func(r *R) { r.Namespace = record.Namespace{'z', '-'} },
			"longest name":   func(r *R) { r.PayloadLen = 65537 },
		},
		breaks: map[string]func(*R){
			"G10 namespace_ascii gap":   func(r *R) { r.Namespace = record.Namespace{0, 'a'} },
			"G10 namespace_ascii space": func(r *R) { r.Namespace = record.Namespace{'a', ' '} },
			"G10 namespace_ascii dot":   func(r *R) { r.Namespace = record.Namespace{'.'} },
			"G12 payload_len 2":         func(r *R) { r.PayloadLen = 2 },
			"G12 payload_len 65538":     func(r *R) { r.PayloadLen = 65538 },
			"G12 payload_offset":        func(r *R) { r.PayloadOffset = 3 },
			"G14 created_at_s":          func(r *R) { r.CreatedAt = 0 },
			"G14 updated_at_s":          func(r *R) { r.UpdatedAt = 4 },
		},
	}.run(t, (*R).Check)
}

func TestCheckTask(t *testing.T) {
	t.Parallel()
	type R = record.Task
	valid[R]{
		good: func() R { return R{PayloadLen: 3, PayloadOffset: 4, CreatedAt: 5, UpdatedAt: 5} },
		accepts: map[string]func(*R){
			"bound":                func(r *R) { r.OriginPlanRevision, r.PlanItem, r.PlanLinkedAt = 1, 1, 5 },
			"completed":            func(r *R) { r.Meta.SetCompleted(true); r.ClosedAt = 5 },
			"canceled, no time":    func(r *R) { r.Meta.SetCanceled(true) },
			"known but unused bit": func(r *R) { r.RemoteMeta.SetUnused(7) },
		},
		breaks: map[string]func(*R){
			"F07 payload_len":                 func(r *R) { r.PayloadLen = 2 },
			"F04 payload_offset":              func(r *R) { r.PayloadOffset = 0 },
			"T01 plan_item_index_plus1 alone": func(r *R) { r.PlanItem, r.PlanLinkedAt = 1, 5 },
			"T01 plan_item_index_plus1 none":  func(r *R) { r.OriginPlanRevision = 1 },
			"T01 plan_linked_at_s none":       func(r *R) { r.OriginPlanRevision, r.PlanItem = 1, 1 },
			"T01 plan_linked_at_s alone":      func(r *R) { r.PlanLinkedAt = 5 },
			"T02 task_meta":                   func(r *R) { r.Meta.SetCompleted(true); r.Meta.SetCanceled(true) },
			"T02 closed_at_s":                 func(r *R) { r.ClosedAt = 5 },
			"T02 created_at_s":                func(r *R) { r.CreatedAt = 0 },
			"T02 updated_at_s":                func(r *R) { r.UpdatedAt = 0 },
		},
	}.run(t, (*R).Check)
}

func TestCheckChange(t *testing.T) {
	t.Parallel()
	type R = record.Change
	archive := func(r *R) { r.Meta.SetLifecycle(record.ChangeLifecycleArchived) }
	valid[R]{
		good: func() R {
			return R{PayloadLen: 1, PayloadOffset: 4, CreatedAt: 5, UpdatedAt: 5, BaseLine: 1, Ordinal: 63}
		},
		accepts: map[string]func(*R){
			"superseded": func(r *R) { archive(r); r.Meta.SetSuperseded(true); r.ArchivedAt = 5 },
			"canceled":   func(r *R) { archive(r); r.State.SetCanceled(true) },
			"selected":   func(r *R) { r.Meta.SetHasPatchsets(true); r.SelectedPatchset = 1 },
		},
		breaks: map[string]func(*R){
			"F07 payload_len":                   func(r *R) { r.PayloadLen = 0 },
			"F04 payload_offset":                func(r *R) { r.PayloadOffset = 3 },
			"T04 archived_at_s":                 func(r *R) { r.ArchivedAt = 5 },
			"T04 change_meta":                   func(r *R) { r.Meta.SetSuperseded(true) },
			"T04 change_state":                  func(r *R) { r.State.SetCanceled(true) },
			"T05 selected_patchset_index_plus1": func(r *R) { r.SelectedPatchset = 1 },
			"T03 base_line_index_plus1":         func(r *R) { r.BaseLine = 0 },
			"T04 created_at_s":                  func(r *R) { r.CreatedAt = 0 },
			"T04 updated_at_s":                  func(r *R) { r.UpdatedAt = 0 },
			"C03 change_ordinal":                func(r *R) { r.Ordinal = 64 },
		},
	}.run(t, (*R).Check)
}

func TestCheckPatchset(t *testing.T) {
	t.Parallel()
	type R = record.Patchset
	complete := func(r *R) {
		r.CIRunSeq, r.CICompletedAt, r.CISelectedSuites, r.CISuiteResults, r.CIBlockingFailures = 1, 9, 3, 2, 1
		r.CIStatus.SetOverall(record.CIStatusError)
	}
	valid[R]{
		good: func() R { return R{SummaryLen: 1, SummaryOffset: 4, CreatedAt: 5} },
		accepts: map[string]func(*R){
			"in flight":        func(r *R) { r.CIRunSeq = 1; r.CIJob = 1 },
			"complete":         complete,
			"complete, legacy": func(r *R) { complete(r); r.CIJob = 0 },
			"no suites":        func(r *R) { complete(r); r.CISelectedSuites, r.CISuiteResults, r.CIBlockingFailures = 0, 0, 0 },
		},
		breaks: map[string]func(*R){
			"P03 summary_len":                         func(r *R) { r.SummaryLen = 0 },
			"P03 summary_offset":                      func(r *R) { r.SummaryOffset = 3 },
			"P08 created_at_s":                        func(r *R) { r.CreatedAt = 0 },
			"C03 patch_ordinal":                       func(r *R) { r.Ordinal = 64 },
			"C03 change_ordinal":                      func(r *R) { r.ChangeOrdinal = 255 },
			"P04 ci_run_seq":                          func(r *R) { complete(r); r.CIRunSeq = 0 },
			"P04 ci_status_bits no overall":           func(r *R) { complete(r); r.CIStatus.SetOverall(record.CIStatusNone) },
			"P05 ci_suite_result_count":               func(r *R) { complete(r); r.CISuiteResults = 4 },
			"P05 ci_blocking_failure_count":           func(r *R) { complete(r); r.CIBlockingFailures = 3 },
			"P04 ci_selected_suite_count in flight":   func(r *R) { r.CIRunSeq, r.CISelectedSuites = 1, 1 },
			"P04 ci_suite_result_count in flight":     func(r *R) { r.CIRunSeq, r.CISuiteResults = 1, 1 },
			"P04 ci_blocking_failure_count in flight": func(r *R) { r.CIRunSeq, r.CIBlockingFailures = 1, 1 },
			"P04 ci_status_bits in flight":            func(r *R) { r.CIRunSeq = 1; r.CIStatus.SetLint(record.CIStatusPass) },
			"P04 ci_status_bits never run":            func(r *R) { r.CIStatus.SetTests(record.CIStatusPass) },
		},
	}.run(t, (*R).Check)
}

func TestCheckBelowPatchset(t *testing.T) {
	t.Parallel()
	valid[record.Attestation]{
		good: func() record.Attestation { return record.Attestation{} },
		breaks: map[string]func(*record.Attestation){
			"C03 attest_ordinal": func(r *record.Attestation) { r.Ordinal = 64 },
			"C03 patch_ordinal":  func(r *record.Attestation) { r.PatchOrdinal = 64 },
			"C03 change_ordinal": func(r *record.Attestation) { r.ChangeOrdinal = 64 },
		},
	}.run(t, (*record.Attestation).Check)
	valid[record.Review]{
		good: func() record.Review { return record.Review{Actor: 1, PayloadOffset: 4} },
		breaks: map[string]func(*record.Review){
			"R01 review_meta":       func(r *record.Review) { r.Meta.SetTaskLane(true) },
			"R02 actor_index_plus1": func(r *record.Review) { r.Actor = 0 },
			"F04 payload_offset":    func(r *record.Review) { r.PayloadOffset = 0 },
			"C03 review_ordinal":    func(r *record.Review) { r.Ordinal = 64 },
		},
	}.run(t, (*record.Review).Check)
	valid[record.PolicyDecision]{
		good: func() record.PolicyDecision { return record.PolicyDecision{} },
		accepts: map[string]func(*record.PolicyDecision){
			"checks": func(r *record.PolicyDecision) { r.FirstCheck, r.CheckCount = 1, 1 },
		},
		breaks: map[string]func(*record.PolicyDecision){
			"K02 check_count":             func(r *record.PolicyDecision) { r.CheckCount = 1 },
			"K02 check_count no rows":     func(r *record.PolicyDecision) { r.FirstCheck = 1 },
			"C03 policy_ordinal too much": func(r *record.PolicyDecision) { r.Ordinal = 64 },
		},
	}.run(t, (*record.PolicyDecision).Check)
	valid[record.Waiver]{
		good: func() record.Waiver {
			return record.Waiver{PayloadLen: 1, PayloadOffset: 4, Rule: 1, CreatedAt: 5}
		},
		accepts: map[string]func(*record.Waiver){
			"expires":      func(r *record.Waiver) { r.ExpiresAt = 6 },
			"unknown rule": func(r *record.Waiver) { r.Rule = 999 },
		},
		breaks: map[string]func(*record.Waiver){
			"W01 payload_len":    func(r *record.Waiver) { r.PayloadLen = 0 },
			"F04 payload_offset": func(r *record.Waiver) { r.PayloadOffset = 3 },
			"W01 rule_code":      func(r *record.Waiver) { r.Rule = 0 },
			"W01 created_at_s":   func(r *record.Waiver) { r.CreatedAt = 0 },
			"W01 expires_at_s":   func(r *record.Waiver) { r.ExpiresAt = 5 },
			"C03 waiver_ordinal": func(r *record.Waiver) { r.Ordinal = 64 },
		},
	}.run(t, (*record.Waiver).Check)
}

func TestCheckPolicyCheck(t *testing.T) {
	t.Parallel()
	type R = record.PolicyCheck
	suite := func(r *R) { r.Kind, r.Subject = record.CheckKindCIPatchsetSuite, 1; r.Detail.SetBlocking(true) }
	valid[R]{
		good: func() R { return R{Kind: record.CheckKindTests} },
		accepts: map[string]func(*R){
			"phase":         func(r *R) { r.Kind, r.Subject = record.CheckKindCIRolloutPhase, 65535 },
			"blocking":      suite,
			"informational": func(r *R) { suite(r); r.Detail = 2 },
		},
		breaks: map[string]func(*R){
			"K03 subject_ordinal":       func(r *R) { r.Subject = 1 },
			"K03 detail_flags":          func(r *R) { r.Detail = 1 },
			"K03 detail_flags phase":    func(r *R) { r.Kind, r.Detail = record.CheckKindCIRolloutPhase, 1 },
			"K03 subject_ordinal suite": func(r *R) { suite(r); r.Subject = 0 },
			"K03 detail_flags none":     func(r *R) { suite(r); r.Detail = 0 },
			"K03 detail_flags both":     func(r *R) { suite(r); r.Detail = 3 },
		},
	}.run(t, (*R).Check)
}

func TestCheckActor(t *testing.T) {
	t.Parallel()
	type R = record.Actor
	valid[R]{
		good:    func() R { return R{PayloadLen: 4, PayloadOffset: 4, CreatedAt: 5, LastSeenAt: 5} },
		accepts: map[string]func(*R){"unknown times": func(r *R) { r.CreatedAt, r.LastSeenAt = 0, 0 }},
		breaks: map[string]func(*R){
			"U01 payload_len":    func(r *R) { r.PayloadLen = 3 },
			"F04 payload_offset": func(r *R) { r.PayloadOffset = 3 },
			"U03 created_at_s":   func(r *R) { r.CreatedAt = 0 },
			"U03 last_seen_at_s": func(r *R) { r.LastSeenAt = 4 },
		},
	}.run(t, (*R).Check)
}

func TestCheckLand(t *testing.T) {
	t.Parallel()
	type R = record.Land
	succeed := func(r *R) {
		r.Meta.SetStatus(record.LandStatusSucceeded)
		r.Meta.SetHasLandedSnapshot(true)
		r.Landed = 1
	}
	valid[R]{
		good: func() R { return R{TargetLine: 1} },
		accepts: map[string]func(*R){
			"succeeded": succeed,
			"target":    func(r *R) { r.Meta.SetHasPreTarget(true); r.PreTarget = 1 },
			"blocked":   func(r *R) { r.Meta.SetStatus(record.LandStatusBlocked); r.Failure = record.LandFailureBaseStale },
			"failed":    func(r *R) { r.Meta.SetStatus(record.LandStatusFailed); r.Failure = record.LandFailureConflict },
		},
		breaks: map[string]func(*R){
			"N01 pre_land_target_snapshot_index_plus1":      func(r *R) { r.PreTarget = 1 },
			"N01 pre_land_target_snapshot_index_plus1 flag": func(r *R) { r.Meta.SetHasPreTarget(true) },
			"N01 landed_snapshot_index_plus1":               func(r *R) { r.Landed = 1 },
			"N01 landed_snapshot_index_plus1 flag":          func(r *R) { r.Meta.SetHasLandedSnapshot(true) },
			"N01 landed_snapshot_index_plus1 succeeded":     func(r *R) { r.Meta.SetStatus(record.LandStatusSucceeded) },
			"N01 landed_snapshot_index_plus1 running":       func(r *R) { succeed(r); r.Meta.SetStatus(record.LandStatusRunning) },
			"N01 failure_kind":                              func(r *R) { r.Failure = record.LandFailureConflict },
			"N01 target_line_index_plus1":                   func(r *R) { r.TargetLine = 0 },
			"C03 land_ordinal":                              func(r *R) { r.Ordinal = 64 },
			"C03 change_ordinal":                            func(r *R) { r.ChangeOrdinal = 64 },
		},
	}.run(t, (*R).Check)
}

func TestCheckChains(t *testing.T) {
	t.Parallel()
	type O = record.OrdinalChain
	valid[O]{
		good: func() O { return O{Latest: 1, Count: 1, Next: 1} },
		accepts: map[string]func(*O){
			"empty":     func(r *O) { *r = O{} },
			"gaps":      func(r *O) { r.Next = 64 },
			"exhausted": func(r *O) { r.Count, r.Next = 64, 64 },
		},
		breaks: map[string]func(*O){
			"C02 count":         func(r *O) { r.Latest = 0 },
			"C02 count none":    func(r *O) { r.Count = 0 },
			"C03 next_ordinal":  func(r *O) { r.Next = 65 },
			"C02 next_ordinal":  func(r *O) { r.Next = 0 },
			"C02 count too big": func(r *O) { r.Count = 2 },
		},
	}.run(t, (*O).Check)
	type I = record.InventoryChain
	valid[I]{
		good:    func() I { return I{Latest: 1, Count: 65535} },
		accepts: map[string]func(*I){"empty": func(r *I) { *r = I{} }},
		breaks: map[string]func(*I){
			"C02 count":      func(r *I) { r.Latest = 0 },
			"C02 count none": func(r *I) { r.Count = 0 },
		},
	}.run(t, (*I).Check)
}

func TestCheckPlan(t *testing.T) {
	t.Parallel()
	type P = record.Plan
	valid[P]{
		good: func() P { return P{PayloadLen: 1, PayloadOffset: 4, LatestRevision: 1, CreatedAt: 5, UpdatedAt: 5} },
		breaks: map[string]func(*P){
			"F07 payload_len":                 func(r *P) { r.PayloadLen = 0 },
			"F04 payload_offset":              func(r *P) { r.PayloadOffset = 3 },
			"L01 latest_revision_index_plus1": func(r *P) { r.LatestRevision = 0 },
			"L01 created_at_s":                func(r *P) { r.CreatedAt = 0 },
			"L01 updated_at_s":                func(r *P) { r.UpdatedAt = 0 },
		},
	}.run(t, (*P).Check)
	type R = record.PlanRevision
	valid[R]{
		good:    func() R { return R{PayloadLen: 10, PayloadOffset: 4, Number: 1, CreatedAt: 5} },
		accepts: map[string]func(*R){"second": func(r *R) { r.Number, r.Previous = 2, 1 }},
		breaks: map[string]func(*R){
			"F07 payload_len":           func(r *R) { r.PayloadLen = 9 },
			"F04 payload_offset":        func(r *R) { r.PayloadOffset = 3 },
			"L01 revision_number":       func(r *R) { r.Number = 0 },
			"L01 revision_number first": func(r *R) { r.Previous = 1 },
			"L01 revision_number later": func(r *R) { r.Number = 2 },
			"L02 root_entry_ordinal":    func(r *R) { r.RootEntry = 1 },
			"L01 created_at_s":          func(r *R) { r.CreatedAt = 0 },
		},
	}.run(t, (*R).Check)
	type I = record.PlanItem
	valid[I]{
		good: func() I { return I{PayloadLen: 6, PayloadOffset: 4} },
		breaks: map[string]func(*I){
			"F07 payload_len":    func(r *I) { r.PayloadLen = 5 },
			"F04 payload_offset": func(r *I) { r.PayloadOffset = 3 },
		},
	}.run(t, (*I).Check)
}

func TestCheckContent(t *testing.T) {
	t.Parallel()
	type L = record.Line
	valid[L]{
		good:    func() L { return L{NameLen: 1, NameOffset: 4} },
		accepts: map[string]func(*L){"archived": func(r *L) { r.Meta.SetArchived(true); r.ArchivedAt = 1 }},
		breaks: map[string]func(*L){
			"S01 line_name_len":      func(r *L) { r.NameLen = 0 },
			"F04 line_name_offset":   func(r *L) { r.NameOffset = 3 },
			"S01 archived_at_s":      func(r *L) { r.ArchivedAt = 1 },
			"S01 archived_at_s none": func(r *L) { r.Meta.SetArchived(true) },
		},
	}.run(t, (*L).Check)
	type S = record.Snapshot
	valid[S]{
		good: func() S { return S{Hash48: 1<<48 - 1} },
		accepts: map[string]func(*S){
			"message":  func(r *S) { r.PayloadLen, r.PayloadOffset = 3, 4; r.Meta.SetHasMessage(true) },
			"locator":  func(r *S) { r.Meta.SetHasRootLocator(true); r.RootTreePack, r.RootEntry = 1, 7 },
			"boundary": func(r *S) { r.History.SetRemoteHeadBoundary(true); r.Meta.SetParentEdgesAuthority(true) },
		},
		breaks: map[string]func(*S){
			"F04 payload_offset":              func(r *S) { r.PayloadLen = 2 },
			"F07 payload_len":                 func(r *S) { r.Meta.SetHasLineNamePayload(true) },
			"S01 snapshot_hash48":             func(r *S) { r.Hash48 = 1 << 48 },
			"S01 root_tree_pack_index_plus1":  func(r *S) { r.RootTreePack = 1 },
			"S01 root_entry_ordinal":          func(r *S) { r.RootEntry = 1 },
			"S01 history_flags":               func(r *S) { r.History.SetRemoteHeadBoundary(true) },
			"S01 history_flags with a parent": func(r *S) { r.History.SetRemoteHeadBoundary(true); r.Meta.SetParentEdgesAuthority(true); r.Parent = 1 },
		},
	}.run(t, (*S).Check)
	type E = record.SnapshotParentEdge
	valid[E]{
		good: func() E { return E{Child: 1, Ordinal: 1023} },
		breaks: map[string]func(*E){
			"S01 parent_snapshot_index": func(r *E) { r.Parent = 1 },
			"S01 parent_ordinal":        func(r *E) { r.Ordinal = 1024 },
		},
	}.run(t, (*E).Check)
	type B = record.Blob
	valid[B]{
		good:   func() B { return B{} },
		breaks: map[string]func(*B){"S01 pack_member_index_plus1": func(r *B) { r.PackMember = 1 }},
	}.run(t, (*B).Check)
	type T = record.TreeEntry
	valid[T]{
		good: func() T { return T{NameLen: 1, NameOffset: 4, Mode: 0o644} },
		breaks: map[string]func(*T){
			"S01 name_len":    func(r *T) { r.NameLen = 0 },
			"F04 name_offset": func(r *T) { r.NameOffset = 0 },
			"S01 mode_bits":   func(r *T) { r.Meta.SetKind(record.EntryKindTree) },
		},
	}.run(t, (*T).Check)
	type K = record.SnapshotLink
	valid[K]{
		good:    func() K { return K{PayloadLen: 10, PayloadOffset: 4} },
		accepts: map[string]func(*K){"change": func(r *K) { r.Meta.SetHasChange(true); r.Change = 1 }},
		breaks: map[string]func(*K){
			"F07 payload_len":         func(r *K) { r.PayloadLen = 9 },
			"F04 payload_offset":      func(r *K) { r.PayloadOffset = 0 },
			"F07 change_index_plus1":  func(r *K) { r.Change = 1 },
			"C03 snapshot_ordinal 64": func(r *K) { r.Ordinal = 64 },
		},
	}.run(t, (*K).Check)
}

func TestCheckHelpers(t *testing.T) {
	t.Parallel()
	type H = record.LeaseReplicaHeader
	valid[H]{
		good: func() H {
			return H{Magic: [8]byte([]byte(record.LeaseReplicaMagic)), Version: 2, RecordSize: 76}
		},
		breaks: map[string]func(*H){
			"F06 magic":       func(r *H) { r.Magic[0] = 0 },
			"F06 version":     func(r *H) { r.Version = 3 },
			"F06 record_size": func(r *H) { r.RecordSize = 77 },
		},
	}.run(t, (*H).Check)
	type E = record.LeaseReplicaEntry
	valid[E]{
		good: func() E { return E{Attempt: 1, Token: [16]byte{1}, HeartbeatAt: 1, ExpiresAt: 2} },
		breaks: map[string]func(*E){
			"F06 attempt_count": func(r *E) { r.Attempt = 0 },
			"F06 lease_token":   func(r *E) { r.Token = [16]byte{} },
			"F06 expires_at_s":  func(r *E) { r.ExpiresAt = 1 },
		},
	}.run(t, (*E).Check)
	type L = record.LeaseHeader
	valid[L]{
		good: func() L {
			return L{Magic: [8]byte([]byte(record.LeaseMagic)), Version: 3, SectorSize: 512}
		},
		breaks: map[string]func(*L){
			"F06 magic":       func(r *L) { r.Magic[0] = 0 },
			"F06 version":     func(r *L) { r.Version = 2 },
			"F06 sector_size": func(r *L) { r.SectorSize = 4096 },
		},
	}.run(t, (*L).Check)
	type S = record.LeaseEntry
	valid[S]{
		good: func() S { return S{Attempt: 1, Token: [16]byte{1}, HeartbeatAt: 1, ExpiresAt: 2, Sequence: 1} },
		breaks: map[string]func(*S){
			"F06 sequence":      func(r *S) { r.Sequence = 0 },
			"F06 attempt_count": func(r *S) { r.Attempt = 0 },
			"F06 expires_at_s":  func(r *S) { r.ExpiresAt = 1 },
		},
	}.run(t, (*S).Check)
	if err := (&S{Sequence: 1}).Check(); err != nil {
		t.Errorf("a free slot is refused: %v", err)
	}
	var journal record.RepositoryUpdateJournal
	if err := journal.Check(); err == nil {
		t.Error("a journal without magic passes")
	}
	copy(journal.Magic[:], record.RepositoryUpdateJournalMagic)
	if err := journal.Check(); err != nil {
		t.Error(err)
	}
}

// Index rows without a target are refused.
func TestCheckIndexRows(t *testing.T) {
	t.Parallel()
	for _, r := range []interface {
		Check() error
		Layout() *record.Layout
	}{
		&record.NamespaceIndex{Namespace: record.Namespace{'a'}}, &record.ActorLookupIndex{}, &record.BlobIDIndex{},
		&record.ManifestHashIndex{}, &record.ObjectPackIDIndex{}, &record.SnapshotIDIndex{}, &record.SnapshotParentChildIndex{},
		&record.TreeIDIndex{}, &record.TreePackIDIndex{}, &record.WorkerReadyIndex{}, &record.WorkerStateIndex{State: 1},
	} {
		if err := r.Check(); !errors.Is(err, record.ErrMalformed) {
			t.Errorf("%s: got %v, want a refusal", r.Layout().File, err)
		}
	}
	if err := (&record.NamespaceIndex{Repository: 1}).Check(); !errors.Is(err, record.ErrMalformed) {
		t.Errorf("empty namespace: got %v, want a refusal", err)
	}
}
