package storetest

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/writ-authority/writ/workitem"
)

var listTests = []test{
	{name: "a match behind 1,001 other rows is found", run: func(f *fixture) {
		bulk(f, 1001)
		f.Clock.Advance(time.Second)
		h := f.submit(newRequest("needle", "lane_id", "lane-9", "candidate_id", "c-9", "generation_id", "g-9", "correlation_id", "corr-9", "resource_class", "rare"))
		for _, in := range []workitem.ListInput{
			{LaneID: "lane-9"}, {CandidateID: "c-9"}, {GenerationID: "g-9"}, {CorrelationID: "corr-9"}, {ResourceClass: "rare"},
			{LaneID: "lane-9", State: []string{"ready"}, Operation: "build", RepositoryID: "repo-a", Limit: ptr(1)},
		} {
			equal(f, "the matches", f.list(in), []string{h.JobID})
		}
		page, err := f.jobs.List(f.ctx, &workitem.ListInput{})
		f.ok(err)
		equal(f, "the first page", []any{len(page.Items), page.Exhausted}, []any{100, false})
		page, err = f.jobs.List(f.ctx, &workitem.ListInput{Limit: ptr(1000)})
		f.ok(err)
		equal(f, "the largest page", []any{len(page.Items), page.Exhausted}, []any{1000, false})
	}},

	{name: "equal times neither skip nor repeat rows", run: func(f *fixture) {
		var want []string
		for i := range 25 {
			want = append(want, f.submit(newRequest(fmt.Sprint(i))).WorkItemID)
			if i%7 == 6 {
				f.Clock.Advance(time.Microsecond)
			}
		}
		var ordered []string // by time, then by id
		for len(want) > 0 {
			n := min(7, len(want))
			ordered = append(ordered, sorted(want[:n])...)
			want = want[n:]
		}
		for i := range ordered {
			ordered[i] = mustID(ordered[i]).JobID()
		}
		for _, limit := range []int{1, 2, 3, 7, 8, 24, 25, 26} {
			equal(f, fmt.Sprintf("the listing by pages of %d", limit), f.list(workitem.ListInput{Limit: &limit}), ordered)
		}
	}},

	{name: "every filter selects", run: func(f *fixture) {
		var all []*workitem.Handle
		for i, r := range []request{
			newRequest("0"),
			newRequest("1", "operation", "merge", "repository_id", "repo-b", "lane_id", "lane-1"),
			newRequest("2", "operation", "merge", "candidate_id", "c-1", "correlation_id", "corr"),
			newRequest("3", "operation", "repository", "generation_id", "g-1", "lane_id", "lane-1", "resource_class", "heavy"),
			newRequest("4", "owner_id", "actor-b"),
		} {
			f.Clock.Advance(time.Second)
			owner := agent
			owner.Scopes |= workitem.ScopeOnBehalf
			all = append(all, f.submitAs(f.Jobs(owner), &workitem.SubmitInput{Request: r.json()}))
			equal(f, "the state", all[i].State, "ready")
		}
		times := func(i int) string { return f.get(all[i].JobID).CreatedAt }
		f.claim(all[0].JobID, "w1", time.Minute)
		_, err := f.cancel(all[1].JobID, "")
		f.ok(err)
		dead := f.claim(all[2].JobID, "w1", time.Minute)
		for dead != nil { // three attempts
			if status, err := f.committing(dead, "failed"); err != nil || status == workitem.DeadLettered {
				f.ok(err)
				break
			}
			f.Clock.Advance(time.Hour)
			dead = f.claim(all[2].JobID, "w1", time.Minute)
		}
		for _, c := range []struct {
			name string
			in   workitem.ListInput
			want []int
		}{
			{"none", workitem.ListInput{}, []int{0, 1, 2, 3, 4}},
			{"operation", workitem.ListInput{Operation: "merge"}, []int{1, 2}},
			{"the irregular operation", workitem.ListInput{Operation: "repository"}, []int{3}},
			{"kind", workitem.ListInput{Kind: "repository.operation"}, []int{3}},
			{"kind and operation", workitem.ListInput{Kind: "repository.merge", Operation: "merge"}, []int{1, 2}},
			{"repository", workitem.ListInput{RepositoryID: "repo-b"}, []int{1}},
			{"lane", workitem.ListInput{LaneID: "lane-1"}, []int{1, 3}},
			{"lane and operation", workitem.ListInput{LaneID: "lane-1", Operation: "merge"}, []int{1}},
			{"candidate", workitem.ListInput{CandidateID: "c-1"}, []int{2}},
			{"generation", workitem.ListInput{GenerationID: "g-1"}, []int{3}},
			{"correlation", workitem.ListInput{CorrelationID: "corr"}, []int{2}},
			{"correlation by the request id", workitem.ListInput{CorrelationID: "req-4"}, []int{4}},
			{"resource class", workitem.ListInput{ResourceClass: "heavy"}, []int{3}},
			{"owner", workitem.ListInput{OwnerID: "actor-b"}, []int{4}},
			{"tenant", workitem.ListInput{TenantID: tenant}, []int{0, 1, 2, 3, 4}},
			{"state", workitem.ListInput{State: []string{"ready"}}, []int{3, 4}},
			{"leased", workitem.ListInput{State: []string{"leased"}}, []int{0}},
			{"dead letter", workitem.ListInput{State: []string{"dead-letter"}}, []int{2}},
			{"dead letter as stored", workitem.ListInput{State: []string{"dead_letter"}}, []int{2}},
			{"states", workitem.ListInput{State: []string{"cancelled", "dead-letter", "dead_letter", "running"}}, []int{1, 2}},
			{"after", workitem.ListInput{CreatedAfter: times(2)}, []int{3, 4}},
			{"before", workitem.ListInput{CreatedBefore: times(2)}, []int{0, 1}},
			{"between", workitem.ListInput{CreatedAfter: times(0), CreatedBefore: times(3)}, []int{1, 2}},
			{"nothing", workitem.ListInput{RepositoryID: "nowhere"}, nil},
		} {
			want := []string{}
			for _, i := range c.want {
				want = append(want, all[i].JobID)
			}
			for _, limit := range []*int{nil, ptr(1)} {
				c.in.Limit = limit
				equal(f, "the listing by "+c.name, f.list(c.in), want)
			}
		}
	}},

	{name: "inputs of a listing are checked", run: func(f *fixture) {
		for _, in := range []workitem.ListInput{
			{Limit: ptr(0)}, {Limit: ptr(1001)}, {Limit: ptr(-1)}, {State: []string{"done"}}, {State: []string{"Ready"}},
			{Operation: "mail"}, {Kind: "mail.send"}, {Operation: "merge", Kind: build}, {CreatedAfter: "yesterday"}, {CreatedBefore: "2030-01-01T00:00:00"},
			{Cursor: "x"}, {Cursor: "rmpage:v1:"}, {Cursor: "rmpage:v1:!!"}, {Cursor: "rmpage:v2:" + cursorBody(1, "")},
			{Cursor: "rmpage:v1:" + cursorBody(2, "")}, {Cursor: "rmpage:v1:" + cursorBody(1, `,"more":1`)},
		} {
			_, err := f.jobs.List(f.ctx, &in)
			f.Logf("%+v", in)
			f.refused(err, workitem.InvalidRequest)
		}
		_, err := f.jobs.List(f.ctx, &workitem.ListInput{TenantID: "tenant-b"})
		f.refused(err, workitem.UnauthorizedTarget)
	}},

	{name: "a cursor is for its tenant only", run: func(f *fixture) {
		for i := range 3 {
			f.submit(newRequest(fmt.Sprint(i)))
		}
		page, err := f.jobs.List(f.ctx, &workitem.ListInput{Limit: ptr(1)})
		f.ok(err)
		if !strings.HasPrefix(*page.NextCursor, "rmpage:v1:") {
			f.Fatalf("the cursor is %s", *page.NextCursor)
		}
		foreign := agent
		foreign.Tenant = "tenant-b"
		_, err = f.Jobs(foreign).List(f.ctx, &workitem.ListInput{Cursor: *page.NextCursor})
		f.refused(err, workitem.UnauthorizedTarget)
	}},

	{name: "a page counts what it has scanned", run: func(f *fixture) {
		for i := range 10 {
			f.submit(newRequest(fmt.Sprint(i), "lane_id", fmt.Sprint("lane-", i%2)))
		}
		page, err := f.jobs.List(f.ctx, &workitem.ListInput{})
		f.ok(err)
		equal(f, "the page", []any{page.Scanned, page.Exhausted, page.Corrupt, page.NextCursor == nil}, []any{10, true, 0, true})
		page, err = f.jobs.List(f.ctx, &workitem.ListInput{LaneID: "none"})
		f.ok(err)
		equal(f, "an empty page", []any{len(page.Items), page.Exhausted, page.NextCursor == nil}, []any{0, true, true})
		page, err = f.jobs.List(f.ctx, &workitem.ListInput{Limit: ptr(10)})
		f.ok(err)
		equal(f, "the number of jobs", len(page.Items), 10)
	}},

	{name: "views in a listing are those of get", run: func(f *fixture) {
		p := f.submit(newRequest("p"))
		f.child("c", p)
		f.claim(p.JobID, "w1", time.Minute)
		page, err := f.jobs.List(f.ctx, &workitem.ListInput{})
		f.ok(err)
		equal(f, "the number of jobs", len(page.Items), 2)
		for _, v := range page.Items {
			equal(f, "a view", v, *f.get(v.JobID))
		}
	}},
}

// cursorBody is the coded part of a cursor with a version and further members.
func cursorBody(version int, more string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil,
		`{"created_at":1.0,"id":"workitem:repository_manager:c7ef0d7d-a304-5d60-97da-72926b90da3f","tenant":"80a707af7dc77ee1228f9127180f3964835e5beb4c4ab0d812f0fe7593579b3a","v":%d%s}`, version, more))
}

// bulk submits n jobs from several goroutines.
func bulk(f *fixture, n int) {
	f.Helper()
	const writers = 16
	together(writers, func(w int) {
		for i := w; i < n; i += writers {
			if _, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest(fmt.Sprint("bulk", i)).json()}); err != nil {
				f.Error(describe(err))
				return
			}
		}
	})
	if f.Failed() {
		f.FailNow()
	}
}
