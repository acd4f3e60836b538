package storetest

import (
	"strings"
	"sync"

	"github.com/writ-authority/writ/workitem"
)

var submitTests = []test{
	{name: "a handle has the id and the digest of the specification", run: func(f *fixture) {
		r := request{"contract_version": "1", "request_id": "req-1", "idempotency_key": "idem-1", "operation": "build",
			"repository": map[string]any{"repository_id": "repo-a"}, "base_ref": "main", "base_sha": strings.Repeat("a", 40),
			"owner_id": "actor-a", "session_id": "session-a", "tenant_id": tenant}
		want := workitem.Handle{
			ContractVersion: "1",
			JobID:           "rmjob:0e64e7be-8728-5c0c-839b-4ee165705a25",
			WorkItemID:      "workitem:repository_manager:0e64e7be-8728-5c0c-839b-4ee165705a25",
			RequestID:       "req-1", State: "ready",
			InputDigest: "b14a97bf844ddb434826bcd72e1f2cbab9cc4d7829e630726034fedde5568794",
		}
		equal(f, "the handle", *f.submit(r), want)
		want.Deduplicated = true
		equal(f, "the handle of the same again", *f.submit(r), want)
		f.succeed(want.WorkItemID)
		want.State = "succeeded"
		equal(f, "the handle after the job has ended", *f.submit(r), want)
		equal(f, "the digest of the view", f.get(want.JobID).InputDigest, want.InputDigest)
	}},

	{name: "a conflict says in what it differs and changes nothing", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		before, history := f.get(h.JobID), len(f.events(h.JobID))
		for _, c := range []struct {
			differs string
			request request
		}{
			{"operation", newRequest("k", "operation", "validation")},
			{"projection", newRequest("k", "priority", 7)},
			{"projection", newRequest("k", "base_ref", "other")},
			{"projection", newRequest("k", "dependencies", []string{h.JobID})},
			{"source_only", newRequest("k", "priority", 0)},
			{"source_only", newRequest("k", "lane_id", nil)},
			{"source_only", newRequest("k", "repository", map[string]any{"repository_id": "repo-a", "canonical_path": "/r"})},
		} {
			_, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: c.request.json()})
			equal(f, "differs", f.refused(err, workitem.DuplicateRequest).Differs, c.differs)
		}
		equal(f, "the job", f.get(h.JobID), before)
		equal(f, "the length of the history", len(f.events(h.JobID)), history)
	}},

	{name: "an input digest of the client makes equality looser", run: func(f *fixture) {
		digest := strings.Repeat("c", 64)
		f.submit(newRequest("k", "input_digest", digest))
		again := f.submit(newRequest("k", "input_digest", digest, "repository", map[string]any{"repository_id": "repo-a", "canonical_path": "/r"}))
		equal(f, "deduplicated", again.Deduplicated, true)
		_, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest("k", "input_digest", digest, "priority", 1).json()})
		f.refused(err, workitem.DuplicateRequest)
	}},

	{name: "the first limits stay", run: func(f *fixture) {
		h := f.limited(2, 5, newRequest("k"))
		again := f.limited(9, 50, newRequest("k"))
		equal(f, "deduplicated", again.Deduplicated, true)
		equal(f, "max_attempts", f.get(h.JobID).MaxAttempts, 2)
		equal(f, "max_attempts without a limit", f.get(f.submit(newRequest("other")).JobID).MaxAttempts, 3)
		for _, in := range []workitem.SubmitInput{
			{MaxAttempts: ptr(0)}, {MaxAttempts: ptr(101)}, {BackoffBase: ptr(-1.0)}, {BackoffBase: ptr(86401.0)},
		} {
			in.Request = newRequest("third").json()
			_, err := f.jobs.Submit(f.ctx, &in)
			f.refused(err, workitem.InvalidRequest)
		}
		equal(f, "deduplicated", f.submit(newRequest("third")).Deduplicated, false)
	}},

	{name: "of many first writers one wins", run: func(f *fixture) {
		const writers = 32
		handles := make([]*workitem.Handle, writers)
		errs := make([]error, writers)
		together(writers, func(i int) {
			handles[i], errs[i] = f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest("k").json()})
		})
		first := 0
		for i, h := range handles {
			f.ok(errs[i])
			if !h.Deduplicated {
				first++
			}
			h.Deduplicated = false
			equal(f, "a handle", *h, *handles[0])
		}
		equal(f, "the number of winners", first, 1)
		equal(f, "the number of submissions in the history", len(f.events(handles[0].JobID)), 1)
		equal(f, "the jobs", f.list(workitem.ListInput{}), []string{handles[0].JobID})
	}},

	{name: "of first writers with different input one input wins", run: func(f *fixture) {
		const writers = 32
		handles := make([]*workitem.Handle, writers)
		errs := make([]error, writers)
		together(writers, func(i int) {
			handles[i], errs[i] = f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest("k", "priority", i%2).json()})
		})
		first, won := 0, -1
		for i, h := range handles {
			if errs[i] != nil {
				f.refused(errs[i], workitem.DuplicateRequest)
				continue
			}
			if won >= 0 && i%2 != won {
				f.Fatal("both inputs were taken")
			}
			won = i % 2
			if !h.Deduplicated {
				first++
			}
		}
		equal(f, "the number of winners", first, 1)
		equal(f, "the priority of the job", f.list(workitem.ListInput{}), f.list(workitem.ListInput{State: []string{"ready"}}))
		for i := range writers {
			if (errs[i] == nil) != (i%2 == won) {
				f.Fatalf("writer %d with input %d is answered with %v, and input %d has won", i, i%2, errs[i], won)
			}
		}
	}},

	{name: "checks come in their order", run: func(f *fixture) {
		h := f.submit(newRequest("taken"))
		missing := "rmjob:00000000-0000-5000-8000-000000000000"
		for _, c := range []struct {
			what    string
			request request
			code    workitem.Code
		}{
			{"the schema before the tenant", newRequest("k", "tenant_id", "tenant-b", "priority", -1), workitem.InvalidRequest},
			{"an unknown member before the tenant", newRequest("k", "tenant_id", "tenant-b", "colour", "red"), workitem.InvalidRequest},
			{"the tenant before the dependencies", newRequest("k", "tenant_id", "tenant-b", "dependencies", []string{missing}), workitem.UnauthorizedTarget},
			{"the owner before the dependencies", newRequest("k", "owner_id", "actor-b", "dependencies", []string{missing}), workitem.UnauthorizedTarget},
			{"the owner before the row", newRequest("taken", "owner_id", "actor-b"), workitem.UnauthorizedTarget},
			{"the row before the dependencies", newRequest("taken", "dependencies", []string{missing}), workitem.DuplicateRequest},
			{"the dependencies at last", newRequest("k", "dependencies", []string{missing}), workitem.DependencyUnavailable},
			{"a job is no parent of itself", newRequest("k", "dependencies", []string{workitem.NewID(tenant, "k").JobID()}), workitem.DependencyUnavailable},
			{"a malformed parent", newRequest("k", "dependencies", []string{"rmjob:1"}), workitem.InvalidRequest},
			{"a release without consent", newRequest("k", "operation", "release"), workitem.InvalidRequest},
		} {
			_, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: c.request.json()})
			f.Log(c.what)
			f.refused(err, c.code)
		}
		equal(f, "the jobs", f.list(workitem.ListInput{}), []string{h.JobID})
		equal(f, "deduplicated after refusals", f.submit(newRequest("k")).Deduplicated, false)
	}},

	{name: "malformed bodies are refused", run: func(f *fixture) {
		for _, body := range []string{
			``, `null`, `[]`, `{`, `{} {}`, `{"tenant_id":"tenant-a"}`,
			strings.Replace(string(newRequest("k").json()), `"base_ref":"main"`, `"base_ref":"main","base_ref":"main"`, 1),
			strings.Replace(string(newRequest("k").json()), `"main"`, `"\ud800"`, 1),
			strings.Replace(string(newRequest("k").json()), `"main"`, `" main"`, 1),
			strings.Replace(string(newRequest("k").json()), `"main"`, "\"\xff\"", 1),
		} {
			_, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: []byte(body)})
			f.refused(err, workitem.InvalidRequest)
		}
		_, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest("k").json(), IdempotencyKey: "other"})
		f.refused(err, workitem.InvalidRequest)
		equal(f, "the jobs", f.list(workitem.ListInput{}), []string{})
		h := f.submitAs(f.jobs, &workitem.SubmitInput{Request: newRequest("k").json(), IdempotencyKey: "k"})
		equal(f, "deduplicated", h.Deduplicated, false)
	}},

	{name: "every member of a request comes back", run: func(f *fixture) {
		target := func(alias string) map[string]any {
			return map[string]any{"kind": "inventory_alias", "alias": alias, "capability_labels": []string{"y", "x", "x"}}
		}
		h := f.submit(newRequest("4111 1111 1111 1111", "lane_id", "lane-1", "candidate_id", "someone@example.com",
			"generation_id", "g-1", "correlation_id", "corr", "retry_class", "manual", "config_digest", strings.Repeat("d", 64),
			"fairness_group", "team", "priority", 10_000, "target", map[string]any{"kind": "remote", "target_alias": "big"},
			"resources", map[string]any{
				"resource_class": "heavy", "concurrency_key": "one", "cpu_weight": 7, "memory_mib": 1024, "disk_mib": 2048,
				"process_slots": 3, "host_labels": []string{"b", "a", "b"}, "anti_affinity": []string{"z"},
				"preferred_target": target("p"), "required_target": target("r"), "queue_deadline": "2031-01-01T02:00:00.500+02:00",
				"disk_low_watermark_mib": 1, "disk_high_watermark_mib": 2,
			}))
		v := *f.get(h.WorkItemID)
		now := f.now().RFC3339()
		want := workitem.View{
			ContractVersion: "1", JobID: h.JobID, WorkItemID: h.WorkItemID, RequestID: "req-4111 1111 1111 1111",
			Operation: "build", Kind: build, State: "ready", RepositoryID: "repo-a", TenantID: tenant, OwnerID: agent.Owner,
			SessionID: "session-a", BaseRef: "main", BaseSHA: strings.Repeat("a", 40), TargetKind: "inventory_alias",
			TargetAlias: ptr("big"), LaneID: ptr("lane-1"), CandidateID: ptr("someone@example.com"), GenerationID: ptr("g-1"),
			Dependencies: []string{}, InputDigest: h.InputDigest, ConfigDigest: ptr(strings.Repeat("d", 64)),
			CorrelationID: ptr("corr"), ResourceClass: "heavy", ConcurrencyKey: "one", FairnessGroup: "team",
			Priority: 10_000, CPUWeight: 7, MemoryMiB: 1024, DiskMiB: 2048, ProcessSlots: 3,
			HostLabels:      []string{"a", "b", "b"},
			PreferredTarget: workitem.Target{Kind: "inventory_alias", Alias: ptr("p"), CapabilityLabels: []string{"x", "x", "y"}},
			RequiredTarget:  &workitem.Target{Kind: "inventory_alias", Alias: ptr("r"), CapabilityLabels: []string{"x", "x", "y"}},
			AntiAffinity:    []string{"z"}, QueueDeadline: ptr("2031-01-01T02:00:00.500000+02:00"),
			DiskLow: ptr(int64(1)), DiskHigh: ptr(int64(2)), MaxAttempts: 3, RetryClass: ptr("manual"),
			CreatedAt: now, UpdatedAt: now,
		}
		equal(f, "the view", v, want)
	}},
}

// together runs n functions that start at the same moment, and waits for them.
func together(n int, run func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			run(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}
