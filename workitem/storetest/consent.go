package storetest

import (
	"time"

	"github.com/writ-authority/writ/workitem"
)

const release = "repository.release"

var consentTests = []test{
	{name: "only some operations have a gate", run: func(f *fixture) {
		push := map[string]any{"allow_push": true, "risk_acknowledged": true, "risk_marker": "m-1"}
		clean := map[string]any{"allow_destructive_cleanup": true, "risk_acknowledged": true, "risk_marker": "m-2"}
		for _, c := range []struct {
			operation string
			consent   map[string]any
			basis     string // of the gate, empty without one
		}{
			{"build", nil, ""}, {"build", clean, ""}, {"branch.land", nil, ""}, {"branch.land", push, ""},
			{"workspace.bump", push, ""}, {"repair", nil, ""}, {"repair", push, ""},
			{"release", push, "m-1"}, {"workspace.push", push, "m-1"}, {"repair", clean, "m-2"},
		} {
			h := f.submit(newRequest(c.operation+c.basis+string(rune('0'+len(c.consent))), "operation", c.operation, "consent", c.consent))
			d := f.explain(h.JobID)
			it := f.item(h.JobID)
			if c.basis == "" {
				equal(f, "the consent of "+c.operation, d.ConsentState, "not_required")
				equal(f, "required", it.ConsentRequired, false)
				_, err := f.root.Consent(f.ctx, &workitem.ConsentInput{JobID: h.JobID, Action: "revoke"})
				f.refused(err, workitem.InvalidState)
				continue
			}
			equal(f, "the consent of "+c.operation, d.ConsentState, "active")
			restored := f.consent(h.JobID, "restore", nil)
			equal(f, "the gate", *restored, workitem.ConsentState{JobID: h.JobID, Required: true, State: "active",
				Scope: "repository:" + c.operation, Subject: "repo-a", Basis: c.basis, GrantedAt: ptr(f.now().RFC3339())})
		}
	}},

	{name: "consent that has lapsed refuses claims and renewals, not commits", run: func(f *fixture) {
		h := f.submit(gated("k"))
		at := f.now() + seconds(60)
		s := f.consent(h.JobID, "expire_at", ptr(at.RFC3339()))
		equal(f, "the state", s.State, "active")
		equal(f, "the expiry", *s.ExpiresAt, at.RFC3339())
		c := f.claim(h.JobID, "w1", time.Hour)
		f.until(at - 1)
		f.ok(f.heartbeat(c, time.Hour))
		f.until(at)
		before := f.item(h.JobID)
		e := f.refused(f.heartbeat(c, time.Hour), workitem.ConsentDenied)
		equal(f, "the outcome", e.Outcome, "consent_denied")
		equal(f, "renewed", *e.Renewed, false)
		e = f.refused(f.checkpoint(c, "checkpoint:1"), workitem.ConsentDenied)
		equal(f, "the outcome", e.Outcome, "consent_denied")
		equal(f, "the row", f.item(h.JobID), before)
		equal(f, "the consent", f.explain(h.JobID).ConsentState, "lapsed")
		f.commit(c, "succeeded", workitem.Committed)
	}},

	{name: "consent that is revoked in mid-run lets the lease run out", run: func(f *fixture) {
		h := f.submit(gated("k"))
		c := f.claim(h.JobID, "w1", time.Minute)
		s := f.consent(h.JobID, "revoke", nil)
		equal(f, "the state", s.State, "lapsed")
		f.refused(f.heartbeat(c, time.Minute), workitem.ConsentDenied)
		f.Clock.Advance(2 * time.Minute)
		before := f.item(h.JobID)
		f.unclaimed(h.JobID, workitem.ReasonConsentDenied)
		equal(f, "the row after a refused claim", f.item(h.JobID), before)
		f.consent(h.JobID, "restore", nil)
		second := f.claim(h.JobID, "w2", time.Minute)
		equal(f, "the attempt", second.Attempt, 2)
		f.fenced(c)
		f.ok(f.heartbeat(second, time.Minute))
		f.commit(second, "succeeded", workitem.Committed)
	}},

	{name: "a claim of a job without live consent changes nothing", run: func(f *fixture) {
		h := f.submit(gated("k"))
		f.consent(h.JobID, "revoke", nil)
		before, history := f.item(h.JobID), len(f.events(h.JobID))
		for range 3 {
			f.unclaimed(h.JobID, workitem.ReasonConsentDenied)
		}
		equal(f, "the row", f.item(h.JobID), before)
		equal(f, "the length of the history", len(f.events(h.JobID)), history)
		d := f.explain(h.JobID)
		equal(f, "claimable", d.Claimable, false)
		equal(f, "why not", d.WhyNot[0].Reason, workitem.ReasonConsentDenied)
	}},

	{name: "claim-next parks jobs without consent and goes on", run: func(f *fixture) {
		var parked []string
		for _, key := range []string{"a", "b", "c"} {
			h := f.submit(gated(key, "priority", 3))
			f.consent(h.JobID, "revoke", nil)
			parked = append(parked, h.JobID)
		}
		good := f.submit(gated("good")).JobID
		a := f.next(release, "w1")
		equal(f, "the claimed job", a.Claim.JobID, good)
		f.commit(a.Claim, "succeeded", workitem.Committed)
		for _, id := range parked {
			row := f.row(id)
			equal(f, "the status", row.Status, "ready")
			equal(f, "the attempt", row.Attempt, 0)
			equal(f, "the retry time", *row.NextRetryAt, (f.now() + seconds(300)).Seconds())
			d := f.explain(id)
			equal(f, "the number of defers", d.DeferCount, 1)
			if row.LeaseEpoch < 1 || row.LeaseEpoch != row.FencingToken {
				f.Fatalf("the fence of a parked job is %d, %d", row.LeaseEpoch, row.FencingToken)
			}
			f.consent(id, "restore", nil)
		}
		f.Clock.Advance(300*time.Second - time.Microsecond)
		equal(f, "a claim-next before the time", f.next(release, "w1").Reason, workitem.ReasonEmpty)
		f.Clock.Advance(time.Microsecond)
		equal(f, "the jobs claimed afterwards", sorted(f.drain(release)), sorted(parked))
	}},

	{name: "absent consent is told from lapsed consent", run: func(f *fixture) {
		h := f.submit(gated("k"))
		f.plant(h.JobID, func(it *workitem.Item) { it.ConsentGrantedAt = 0 })
		equal(f, "the consent", f.explain(h.JobID).ConsentState, "absent")
		f.unclaimed(h.JobID, workitem.ReasonConsentDenied)
		equal(f, "a claim-next", f.next(release, "w1").Reason, workitem.ReasonEmpty)
		f.Clock.Advance(time.Hour)
		s := f.consent(h.JobID, "restore", nil)
		equal(f, "the consent", []string{s.State, *s.GrantedAt}, []string{"active", f.now().RFC3339()})
		f.plant(h.JobID, func(it *workitem.Item) {
			it.ConsentGrantedAt, it.ConsentExpiresAt = f.now(), f.now()
		})
		equal(f, "the consent", f.explain(h.JobID).ConsentState, "lapsed")
	}},

	{name: "only an admin changes consent", run: func(f *fixture) {
		h := f.submit(gated("k"))
		_, err := f.jobs.Consent(f.ctx, &workitem.ConsentInput{JobID: h.JobID, Action: "revoke"})
		f.refused(err, workitem.ForbiddenScope)
		for _, in := range []workitem.ConsentInput{
			{Action: "grant"}, {Action: ""}, {Action: "expire_at"}, {Action: "expire_at", ExpiresAt: ptr("soon")},
		} {
			in.JobID = h.JobID
			_, err := f.root.Consent(f.ctx, &in)
			f.refused(err, workitem.InvalidRequest)
		}
		equal(f, "the consent", f.explain(h.JobID).ConsentState, "active")
	}},

	{name: "an expiry at the epoch closes the gate", run: func(f *fixture) {
		h := f.submit(gated("k"))
		const epoch = "1970-01-01T00:00:00Z"
		equal(f, "the state", f.consent(h.JobID, "expire_at", ptr(epoch)).State, "lapsed")
		f.unclaimed(h.JobID, workitem.ReasonConsentDenied)
		equal(f, "the jobs created before the epoch", f.list(workitem.ListInput{CreatedBefore: epoch}), []string{})
		equal(f, "the jobs created after the epoch", f.list(workitem.ListInput{CreatedAfter: epoch}), []string{h.JobID})
	}},
}
