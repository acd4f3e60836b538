package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// errGiveUp ends an update that must leave nothing.
var errGiveUp = errors.New("the test gives up")

// twin inserts a copy of a job under another key.
func twin(tx workitem.Tx, id, key string) error {
	it, err := tx.Item(mustID(id))
	if err != nil {
		return err
	}
	stored, err := tx.Stored(it)
	if err != nil {
		return err
	}
	row, half := *it, *stored
	row.Row, row.ID = 0, workitem.NewID(tenant, key)
	half.IdempotencyKey = workitem.ScopedKey(tenant, key)
	return tx.Insert(&row, &half, workitem.Event{At: tx.Now(), Name: "submit", To: row.Status})
}

// inside is what a store says about one tenant.
type inside struct {
	leases, faults int
	counts         []workitem.Count
	claimable      map[workitem.Kind]int
	oldest         workitem.Instant
	tenants        []string
}

func (f *fixture) inside() inside {
	f.Helper()
	var in inside
	f.view(func(r workitem.Reader) error {
		var errs [6]error
		in.leases, errs[0] = r.Leases(tenant)
		in.faults, errs[1] = r.Faults(tenant)
		in.counts, errs[2] = r.Counts(tenant)
		in.claimable, errs[3] = r.ClaimableCounts(tenant)
		in.oldest, errs[4] = r.OldestReady(tenant)
		in.tenants, errs[5] = r.Tenants()
		return errors.Join(errs[:]...)
	})
	in.counts = slices.DeleteFunc(in.counts, func(c workitem.Count) bool { return c.Rows == 0 })
	slices.SortFunc(in.counts, func(a, b workitem.Count) int {
		return 16*(int(a.Kind)-int(b.Kind)) + int(a.Status) - int(b.Status)
	})
	slices.Sort(in.tenants)
	return in
}

var storeTests = []test{
	{name: "an update that fails leaves nothing", run: func(f *fixture) {
		f.group("a", 2)
		f.group("b", 2)
		ready := f.submit(newRequest("ready", "priority", 3)).JobID
		held := f.claim(f.submit(newRequest("held", "operation", "merge")).JobID, "w1", time.Minute).JobID
		f.next(build, "w1") // the turn of nobody in bucket 3
		row, other, before := f.item(ready), f.item(held), f.inside()
		id := workitem.NewID(tenant, "twin")
		for range 2 {
			err := f.Store().Update(f.ctx, func(tx workitem.Tx) error {
				it, err := tx.Item(mustID(held))
				if err != nil {
					return err
				}
				from := it.Status
				it.Status, it.LeaseOwner, it.LeaseExpiresAt, it.DepState = workitem.Ready, "", 0, workitem.DepFaulty
				return errors.Join(
					twin(tx, held, "twin"),
					tx.Save(it, from, workitem.Event{At: tx.Now(), Name: "defer", From: from, To: it.Status}),
					tx.SetTurn(tenant, it.Kind, 0, workitem.Turn{Group: "zz", Left: 3}),
					tx.SetTurn(tenant, mustKind(build), 0, workitem.Turn{Group: "zz", Left: 3}),
					tx.Remember(tenant, agent.Subject, "call", &workitem.Remembered{Item: it.ID, Epoch: 1, Worker: "w1", At: tx.Now()}),
					tx.AddToken(&workitem.Token{ID: "0123456789abcdef", Name: "n", Subject: "s", Tenant: tenant, Owner: "o", Scopes: workitem.ScopeRead}),
					func() error { _, err := tx.Link(it.ID, mustID(ready)); return err }(),
					errGiveUp)
			})
			if !errors.Is(err, errGiveUp) {
				f.Fatalf("the update ends with %v", err)
			}
			equal(f, "the rows", []workitem.Item{f.item(ready), f.item(held)}, []workitem.Item{row, other})
			equal(f, "the counts", f.inside(), before)
			f.view(func(r workitem.Reader) error {
				it, err := r.Item(id)
				remembered, err2 := r.Remembered(tenant, agent.Subject, "call")
				token, err3 := r.Token("0123456789abcdef")
				children, err4 := r.Children(mustID(held))
				if it != nil || remembered != nil || token != nil || len(children) > 0 {
					f.Fatalf("something is left: %v %v %v %v", it, remembered, token, children)
				}
				return errors.Join(err, err2, err3, err4)
			})
			equal(f, "the number of events", len(f.events(held)), 2)
			f.restart()
		}
		equal(f, "the turns", f.drainGroups(4), "abab")
	}},

	{name: "updates that fail leave those beside them alone", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		const n = 64
		var mu sync.Mutex
		want := []string{h.JobID}
		together(n, func(i int) {
			key := fmt.Sprint("twin ", i)
			err := f.Store().Update(f.ctx, func(tx workitem.Tx) error {
				if err := twin(tx, h.JobID, key); err != nil {
					return err
				}
				if i%3 == 0 {
					return errGiveUp
				}
				return nil
			})
			if (i%3 == 0) != errors.Is(err, errGiveUp) || i%3 != 0 && err != nil {
				f.Errorf("update %d ends with %v", i, err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				want = append(want, workitem.NewID(tenant, key).JobID())
			}
		})
		rows := func() []string {
			ids := []string{}
			f.view(func(r workitem.Reader) error {
				items, err := r.List(&workitem.Query{Tenant: tenant}, workitem.Place{}, 1000)
				for _, it := range items {
					ids = append(ids, it.ID.JobID())
				}
				return err
			})
			return sorted(ids)
		}
		equal(f, "the rows", rows(), sorted(want))
		in := f.inside()
		equal(f, "the counts", in.counts, []workitem.Count{{Kind: mustKind(build), Status: workitem.Ready, Rows: len(want)}})
		f.restart()
		equal(f, "the rows after a restart", rows(), sorted(want))
		equal(f, "the counts after a restart", f.inside(), in)
	}},

	{name: "what an update reads is its own until it is saved", run: func(f *fixture) {
		p := f.submit(newRequest("p", "operation", "merge"))
		child := f.child("c", p).JobID
		leased := f.claim(f.submit(newRequest("leased")).JobID, "w1", time.Minute)
		running := f.claim(f.submit(newRequest("running")).JobID, "w1", time.Minute)
		f.ok(f.heartbeat(running, time.Minute))
		f.succeed(p.JobID)
		held := f.claim(f.child("held", p).JobID, "w1", time.Minute)
		for _, id := range []string{child, leased.JobID, running.JobID, held.JobID} {
			before := f.item(id)
			f.update(func(tx workitem.Tx) error {
				it, err := tx.Item(mustID(id))
				if err != nil {
					return err
				}
				it.Attempt, it.LeaseEpoch, it.LeaseExpiresAt, it.Status = 99, 99, 1, workitem.Failed
				for i := range it.DependsOn {
					it.DependsOn[i] = workitem.ID{}
				}
				again, err := tx.Item(mustID(id))
				if err == nil && again.Attempt == 99 {
					err = errors.New("another read in the transaction sees what was not saved")
				}
				return err
			})
			equal(f, "the row", f.item(id), before)
			f.update(func(tx workitem.Tx) error {
				it, err := tx.Item(mustID(id))
				if err == nil && (it.Attempt != before.Attempt || it.LeaseEpoch != before.LeaseEpoch || !slices.Equal(it.DependsOn, before.DependsOn)) {
					err = fmt.Errorf("the next update reads %+v", it)
				}
				return err
			})
		}
		f.ok(f.heartbeat(running, time.Minute))
		f.commit(leased, "succeeded", workitem.Committed)
	}},

	{name: "save writes every member of a lifecycle", run: func(f *fixture) {
		running := f.claim(f.submit(gated("running")).JobID, "w1", time.Minute)
		f.ok(f.heartbeat(running, time.Minute))
		ids := []string{
			f.submit(gated("ready")).JobID,
			f.claim(f.submit(gated("leased")).JobID, "w1", time.Minute).JobID,
			running.JobID,
		}
		now := f.now()
		for i, id := range ids {
			for _, event := range []string{"", "planted"} {
				var want workitem.Item
				f.update(func(tx workitem.Tx) error {
					it, err := tx.Item(mustID(id))
					if err != nil {
						return err
					}
					mark := now + workitem.Instant(10*i+len(event))
					it.UpdatedAt, it.Attempt, it.NextRetryAt, it.HeartbeatAt = mark+1, 2, mark+2, mark+3
					it.LastLeaseOwner, it.Checkpoint, it.ResultRef = "last"+event, "checkpoint:"+event+"x", "result"+event
					it.ErrorRef, it.CancelReason, it.DeferCount = "error"+event, "reason"+event, 7+len(event)
					it.ConsentGrantedAt, it.ConsentExpiresAt = mark+4, mark+seconds(3600)
					it.DependsOn, it.DepCount, it.DepState = []workitem.ID{{1}, {2}}, 1, workitem.DepVerified
					if it.Status != workitem.Ready {
						it.LeaseExpiresAt = mark + seconds(60)
					}
					want = *it
					want.CorrelationID = "" // of the other half
					return tx.Save(it, it.Status, workitem.Event{At: tx.Now(), Name: event, From: it.Status, To: it.Status})
				})
				equal(f, "the row", f.item(id), want)
			}
		}
		var before []workitem.Item
		for _, id := range ids {
			before = append(before, f.item(id))
		}
		f.restart()
		for i, id := range ids {
			equal(f, "the row after a restart", f.item(id), before[i])
		}
	}},

	{name: "a view shows one state", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		f.view(func(r workitem.Reader) error {
			before, err := r.Item(mustID(h.JobID))
			if err != nil {
				return err
			}
			now, status := r.Now(), before.Status
			done := make(chan struct{})
			go func() {
				defer close(done)
				if _, err := f.jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: h.JobID, Worker: "w1"}); err != nil {
					f.Error(describe(err))
				}
			}()
			<-done
			f.Clock.Advance(time.Second)
			after, err := r.Item(mustID(h.JobID))
			if err != nil {
				return err
			}
			leases, err := r.Leases(tenant)
			equal(f, "the status, the leases and the time in a view", []any{after.Status, leases, r.Now()}, []any{status, 0, now})
			return err
		})
		f.state(h.JobID, "leased")
	}},

	{name: "the reverse index has every edge once", run: func(f *fixture) {
		a, b, c := f.submit(newRequest("a")), f.submit(newRequest("b")), f.submit(newRequest("c"))
		parent := mustID(a.JobID)
		f.update(func(tx workitem.Tx) error {
			for i, id := range []string{b.JobID, c.JobID, b.JobID} {
				added, err := tx.Link(parent, mustID(id))
				if err != nil {
					return err
				}
				equal(f, "added", added, i < 2)
			}
			return nil
		})
		children := func() []string {
			var ids []string
			f.view(func(r workitem.Reader) error {
				found, err := r.Children(parent)
				for _, id := range found {
					ids = append(ids, id.WorkItemID())
				}
				linked, err2 := r.Linked(parent, mustID(b.JobID))
				equal(f, "linked", linked, slices.Contains(ids, b.WorkItemID))
				return errors.Join(err, err2)
			})
			return ids
		}
		equal(f, "the children", children(), sorted([]string{b.WorkItemID, c.WorkItemID}))
		f.update(func(tx workitem.Tx) error { return tx.Unlink(parent, mustID(b.JobID)) })
		equal(f, "the children", children(), []string{c.WorkItemID})
	}},
}

func mustKind(name string) workitem.Kind {
	k, err := workitem.ParseKind(name)
	if err != nil {
		panic(err) // it is a constant of this package
	}
	return k
}
