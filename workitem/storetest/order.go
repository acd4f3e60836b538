package storetest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// orderJSON is the order of claims as it is by default: a trace of this project's
// own, in the form of the specification's claim_order.
//
//go:embed testdata/default_order.json
var orderJSON []byte

// orderTrace is jobs and the order in which claim-next hands them out at 100 s.
type orderTrace struct {
	Items []struct {
		Name     string   `json:"name"`
		Priority int      `json:"priority"`
		Group    string   `json:"fairness_group"`
		Deadline *float64 `json:"queue_deadline_unix"`
		Created  float64  `json:"created_at"`
	} `json:"items"`
	Claimed []string `json:"claimed_in_order_at_100"`
	Never   []string `json:"never_claimed"`
}

// replay submits the jobs of the trace and claims them.
func (tr *orderTrace) replay(f *fixture) {
	f.Helper()
	names := map[string]string{}
	items := slices.Clone(tr.Items)
	slices.SortStableFunc(items, func(a, b struct {
		Name     string   `json:"name"`
		Priority int      `json:"priority"`
		Group    string   `json:"fairness_group"`
		Deadline *float64 `json:"queue_deadline_unix"`
		Created  float64  `json:"created_at"`
	}) int {
		return int(1e6*a.Created - 1e6*b.Created)
	})
	for _, it := range items {
		f.until(seconds(it.Created))
		pairs := []any{"priority", it.Priority}
		if it.Group != "" {
			pairs = append(pairs, "fairness_group", it.Group)
		}
		if it.Deadline != nil {
			pairs = append(pairs, "resources", map[string]any{"queue_deadline": seconds(*it.Deadline).RFC3339()})
		}
		names[f.submit(newRequest(it.Name, pairs...)).JobID] = it.Name
	}
	f.until(seconds(100))
	var got []string
	for _, id := range f.drain(build) {
		got = append(got, names[id])
	}
	equal(f, "the order", got, tr.Claimed)
	for _, name := range tr.Never {
		f.state(workitem.NewID(tenant, name).JobID(), "ready")
	}
}

func native(cfg *workitem.Config) { cfg.Native = true }

// groups submits n jobs of one fairness group each.
func (f *fixture) group(name string, n int, pairs ...any) {
	f.Helper()
	for i := range n {
		f.submit(newRequest(fmt.Sprint(name, ".", i), append([]any{"fairness_group", name}, pairs...)...))
	}
}

// drainGroups claims n jobs and gives their groups, each by its name's first letter.
func (f *fixture) drainGroups(n int, edits ...func(*workitem.ClaimNextInput)) string {
	f.Helper()
	var order strings.Builder
	for range n {
		a := f.next(build, "w1", edits...)
		if !a.Claimed {
			f.Fatalf("nothing to claim after %q: %s", order.String(), a.Reason)
		}
		order.WriteString(a.Job.FairnessGroup[:1])
	}
	return order.String()
}

var orderTests = []test{
	{name: "claim_order", at: 0.1, config: native, run: func(f *fixture) {
		var tr orderTrace
		trace(f, "claim_order", &tr)
		tr.replay(f)
	}},

	{name: "claim_order_ties", config: native, run: func(f *fixture) {
		var tr struct {
			Claimed []struct {
				Key string `json:"idempotency_key"`
				ID  string `json:"work_item_id"`
			} `json:"claimed_in_order"`
		}
		trace(f, "claim_order_ties", &tr)
		var want []string
		for _, c := range tr.Claimed {
			want = append(want, mustID(c.ID).JobID())
		}
		for i := range want {
			key := fmt.Sprint("tie-", i+1)
			id := f.submit(newRequest(key)).JobID
			at := slices.IndexFunc(tr.Claimed, func(c struct {
				Key string `json:"idempotency_key"`
				ID  string `json:"work_item_id"`
			}) bool {
				return c.Key == key
			})
			equal(f, "the id of "+key, id, want[at])
		}
		equal(f, "the order", f.drain(build), want)
	}},

	{name: "native order looks at no priority inside a bucket and at no group", config: native, run: func(f *fixture) {
		first := f.submit(newRequest("a", "priority", 3, "fairness_group", "x")).JobID
		f.Clock.Advance(time.Second)
		second := f.submit(newRequest("b", "priority", 9000, "fairness_group", "x")).JobID
		f.Clock.Advance(time.Second)
		third := f.submit(newRequest("c", "priority", 3, "fairness_group", "a")).JobID
		equal(f, "the order", f.drain(build), []string{first, second, third})
	}},

	{name: "the default order", at: 0.1, run: func(f *fixture) {
		var tr orderTrace
		f.ok(json.Unmarshal(orderJSON, &tr))
		tr.replay(f)
	}},

	{name: "groups take turns, also over a restart", run: func(f *fixture) {
		f.group("a", 6)
		f.group("b", 3)
		f.group("c", 1)
		equal(f, "the order", f.drainGroups(4), "abca")
		f.restart()
		equal(f, "the order after a restart", f.drainGroups(6), "babaaa")
	}},

	{name: "turns have weights", config: func(cfg *workitem.Config) { cfg.Weights = map[string]int{"a": 3, "b": 2} }, run: func(f *fixture) {
		f.group("a", 8)
		f.group("b", 5)
		f.group("c", 3)
		equal(f, "the order", f.drainGroups(16), "aaabbcaaabbcaabc")
	}},

	{name: "every bucket has turns of its own and larger buckets come first", run: func(f *fixture) {
		f.group("a", 2)
		f.group("b", 2)
		f.group("x", 2, "priority", 1)
		f.group("y", 2, "priority", 1)
		equal(f, "the order", f.drainGroups(3), "xyx")
		f.group("z", 1, "priority", 4)
		equal(f, "the order", f.drainGroups(6), "zyabab")
	}},

	{name: "the first job of a group is handed out soon", run: func(f *fixture) {
		const groups = 6
		for g := range groups {
			f.group(string(rune('b'+g)), 20)
		}
		f.drainGroups(groups*2 + 3)
		for _, late := range []string{"a", "m", "z"} {
			f.group(late, 1)
			if order := f.drainGroups(2 * (groups + 1)); !strings.Contains(order, late) {
				f.Fatalf("the group %s is not in %s", late, order)
			}
		}
	}},

	{name: "a filter gives the strict order and leaves the turns alone", run: func(f *fixture) {
		f.group("a", 3)
		f.group("b", 3)
		urgent := f.submit(newRequest("urgent", "fairness_group", "a", "priority", 2)).JobID
		only := func(in *workitem.ClaimNextInput) { in.FairnessGroup = "a" }
		equal(f, "the first", f.next(build, "w1", only).Claim.JobID, urgent)
		equal(f, "the order", f.drainGroups(2, only), "aa")
		equal(f, "the order of the rest", f.drainGroups(4), "abbb")
	}},

	{name: "without fairness priority decides", config: func(cfg *workitem.Config) { cfg.Unfair = true }, run: func(f *fixture) {
		f.group("a", 3, "priority", 5)
		f.group("b", 3, "priority", 7)
		f.group("c", 1, "priority", 6)
		equal(f, "the order", f.drainGroups(7), "bbbcaaa")
	}},

	{name: "jobs that can't be claimed never lie in the way", run: func(f *fixture) {
		var good []string
		for i := range 40 {
			key := fmt.Sprint(i)
			switch i % 4 {
			case 0:
				good = append(good, f.submit(newRequest(key)).JobID)
			case 1:
				f.submit(newRequest(key, "priority", 9, "resources", map[string]any{"queue_deadline": (f.now() - 1).RFC3339()}))
			case 2:
				h := f.submit(newRequest(key, "priority", 9))
				f.ok(f.deferring(f.claim(h.JobID, "w1", time.Minute), time.Hour))
			case 3:
				p := f.submit(newRequest("p"+key, "operation", "merge"))
				f.submit(newRequest(key, "priority", 9, "dependencies", []string{p.JobID}))
			}
		}
		equal(f, "the claimed jobs", sorted(f.drain(build)), sorted(good))
	}},
}
