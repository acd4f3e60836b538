package crashtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// Where every authority of these tests lies, and where its backups do.
const (
	dataDir   = "/d"
	backupDir = "/b"
)

// world is an authority on a simulated disk together with what the callers of its
// verbs have been told.
type world struct {
	sim   *vfs.Sim
	clock *authoritytest.Clock
	opt   authority.Options
	a     *authority.Authority
	r     *authority.Repository

	rng     *rand.Rand // nil: every choice falls on the newest
	leases  map[uint32]authority.Lease
	backups []string // that were made, oldest first
	number  uint64   // makes names and contents differ
}

// mode is one way in which an authority is used.
type mode struct {
	name string
	set  func(*authority.Options)
}

var modes = []mode{
	{"locking", func(o *authority.Options) { o.Own = false }},
	{"owning", func(o *authority.Options) { o.Own = true }},
}

func newWorld(sim *vfs.Sim, m mode, seed uint64) *world {
	w := &world{sim: sim, clock: authoritytest.NewClock(), leases: map[uint32]authority.Lease{}}
	w.opt = authority.Options{Dir: dataDir, FS: sim, Clock: w.clock.Now, Random: authoritytest.NewRandom(byte(seed))}
	m.set(&w.opt)
	return w
}

// fresh is a disk with an authority in which nothing was done. It has no marks of a
// clean stop, so that everything is validated when it is opened.
var fresh = sync.OnceValue(func() *vfs.Sim {
	w := newWorld(vfs.NewSim(), modes[0], 0)
	if err := vfs.MkdirAll(w.sim, backupDir, 0o700); err != nil {
		panic(err)
	}
	if err := w.create(); err != nil {
		panic(err)
	}
	if err := w.a.Close(); err != nil {
		panic(err)
	}
	if err := w.sim.RemoveAll(path.Join(dataDir, "runtime/mark")); err != nil {
		panic(err)
	}
	return w.sim
})

// setup makes a world with an authority that is open.
func setup(t testing.TB, m mode, seed uint64) *world {
	t.Helper()
	w := newWorld(fresh().Fork(), m, seed)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) create() (err error) {
	if w.a, err = authority.Create(context.Background(), w.opt, "widgets", authority.DefaultFlags); err != nil {
		return err
	}
	return w.use()
}

func (w *world) open() error {
	a, err := authority.Open(context.Background(), w.opt)
	if err != nil {
		return err
	}
	w.a = a
	if err = w.use(); err != nil {
		return errors.Join(err, w.a.Close())
	}
	return nil
}

// use opens every Repository that users have.
func (w *world) use() error {
	list, err := w.a.Repositories(context.Background())
	if err != nil {
		return err
	}
	for _, info := range list[authority.FirstRepository:] {
		r, err := w.a.Repository(context.Background(), info.Index)
		if err != nil {
			return err
		}
		if info.Index == authority.FirstRepository {
			w.r = r
		}
	}
	return nil
}

func (w *world) update(fn func(*authority.Tx) error) error {
	return w.r.Update(context.Background(), fn)
}

// verb is one thing that a caller can ask for. It takes effect as a whole or not
// at all.
type verb struct {
	name  string
	after []string // what must have been done for it to succeed
	do    func(w *world) error
	// stage does in one step what the verb needs and returns it; do is nil then.
	stage func(w *world) (do func(w *world) error, err error)
	files bool // it makes hundreds of files
}

// pick chooses among n records: the newest one, or a random one, most often
// among the newest.
func (w *world) pick(n uint32, err error) (uint32, error) {
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, fmt.Errorf("%w: nothing is there yet", authority.ErrState)
	case w.rng == nil || w.rng.IntN(3) > 0:
		return n - 1, nil
	}
	return w.rng.Uint32N(n), nil
}

func (w *world) next() uint64 {
	w.number++
	return w.number
}

// text is different each time and now and then long.
func (w *world) text(what string) string {
	s := fmt.Sprintf("%s %d", what, w.next())
	if w.rng != nil && w.rng.IntN(8) == 0 {
		for range w.rng.IntN(60) {
			s += ", and some more of it"
		}
	}
	return s
}

// inTx makes a verb of a function that runs in one transaction.
func inTx(name string, after []string, fn func(w *world, tx *authority.Tx) error) verb {
	return verb{name: name, after: after, do: func(w *world) error {
		return w.update(func(tx *authority.Tx) error { return fn(w, tx) })
	}}
}

// onPatchset makes a verb of a function that is about a Patchset.
func onPatchset(name string, after []string, fn func(w *world, tx *authority.Tx, patchset uint32) error) verb {
	return inTx(name, after, func(w *world, tx *authority.Tx) error {
		p, err := w.pick(bindb.Patchsets.Count(tx))
		if err != nil {
			return err
		}
		return fn(w, tx, p)
	})
}

// byHolder makes a verb of a function that needs a lease.
func byHolder(name string, fn func(tx *authority.Tx, l authority.Lease) error) verb {
	return inTx(name, []string{"Claim"}, func(w *world, tx *authority.Tx) error {
		job, err := w.pick(bindb.WorkerJobs.Count(tx))
		if err != nil {
			return err
		}
		return fn(tx, w.leases[job])
	})
}

func review(action record.ReviewAction, blocking bool) verb {
	name := "AddReview " + action.String()
	if blocking {
		name += ", blocking"
	}
	return onPatchset(name, []string{"Publish"}, func(w *world, tx *authority.Tx, p uint32) error {
		actor, err := tx.EnsureActor([]string{"ann", "bob"}[w.next()%2], "")
		if err != nil {
			return err
		}
		_, err = tx.AddReview(authority.ReviewSpec{
			Patchset: p, Actor: actor, Action: action, Blocking: blocking, Text: w.text("I have read it"),
		})
		return err
	})
}

func publish(w *world, tx *authority.Tx) error {
	change, err := w.pick(bindb.Changes.Count(tx))
	if err != nil {
		return err
	}
	line, err := tx.EnsureLine(fmt.Sprintf("branch-%d", change))
	if err != nil {
		return err
	}
	base, err := tx.AddSnapshot(authoritytest.Snapshot(w.next(), line))
	if err != nil {
		return err
	}
	revision, err := tx.AddSnapshot(authoritytest.Snapshot(w.next(), line))
	if err != nil {
		return err
	}
	_, err = tx.Publish(authority.PatchsetSpec{
		Change: change, Base: base, Revision: revision, Summary: w.text("Summary"), ReviewRequired: w.number%2 == 0,
	})
	return err
}

func claim(w *world) error {
	var l authority.Lease
	err := w.update(func(tx *authority.Tx) error {
		job, err := w.pick(bindb.WorkerJobs.Count(tx))
		if err != nil {
			return err
		}
		l, err = tx.Claim(job, authority.RequestID{byte(w.next())})
		return err
	})
	if err == nil {
		w.leases[l.Job] = l
	}
	return err
}

func claimNext(w *world) error {
	c, ok, err := w.a.ClaimNext(context.Background(), authority.ClaimFilter{
		Repositories: []uint32{authority.FirstRepository}, Request: authority.RequestID{byte(w.next()), 1},
	})
	if err == nil && !ok {
		err = fmt.Errorf("%w: nothing is ready", authority.ErrState)
	}
	if err == nil {
		w.leases[c.Lease.Job] = c.Lease
	}
	return err
}

func beginLand(w *world, tx *authority.Tx, p uint32) error {
	ps, err := tx.Patchset(p)
	if err != nil {
		return err
	}
	main, err := tx.EnsureLine(authority.MainLine)
	if err != nil {
		return err
	}
	if err := tx.SetLineHead(main, ps.BaseSnapshot); err != nil {
		return err
	}
	_, err = tx.BeginLand(authority.LandSpec{Patchset: p, TargetLine: main, PreTarget: ps.BaseSnapshot})
	return err
}

func endLand(end func(tx *authority.Tx, l *authority.Land) error) func(*world, *authority.Tx) error {
	return func(_ *world, tx *authority.Tx) error {
		l, err := tx.RunningLand()
		if err != nil {
			return err
		}
		if l == nil {
			return fmt.Errorf("%w: no land is running", authority.ErrState)
		}
		return end(tx, l)
	}
}

// onGears makes a verb of a function that is about the newest Repository, which is
// none that other verbs work on.
func onGears(name string, after []string, fn func(a *authority.Authority, index uint32) error) verb {
	return verb{name: name, after: append([]string{"AddRepository"}, after...), do: func(w *world) error {
		list, err := w.a.Repositories(context.Background())
		if err != nil {
			return err
		}
		index := uint32(len(list) - 1)
		if index <= authority.FirstRepository {
			return fmt.Errorf("%w: there is one Repository only", authority.ErrState)
		}
		return fn(w.a, index)
	}}
}

// verbs is everything that can be asked of an authority: the verbs of a
// transaction as authoritytest stages them, and again with any records that
// happen to be there; and what is beyond one Repository.
var verbs = append(tableVerbs(), []verb{
	inTx("OpenTask", nil, func(w *world, tx *authority.Tx) error {
		_, err := tx.OpenTask(w.text("Task"), w.text("Intent"))
		return err
	}),
	inTx("EnsureLine", nil, func(w *world, tx *authority.Tx) error {
		_, err := tx.EnsureLine(w.text("line"))
		return err
	}),
	inTx("OpenChange", []string{"OpenTask"}, func(w *world, tx *authority.Tx) error {
		task, err := w.pick(bindb.Tasks.Count(tx))
		if err != nil {
			return err
		}
		main, err := tx.EnsureLine(authority.MainLine)
		if err != nil {
			return err
		}
		_, err = tx.OpenChange(task, w.text("Change"), main, 0)
		return err
	}),
	inTx("AddSnapshot", []string{"EnsureLine"}, func(w *world, tx *authority.Tx) error {
		line, err := w.pick(bindb.Lines.Count(tx))
		if err != nil {
			return err
		}
		_, err = tx.AddSnapshot(authoritytest.Snapshot(w.next(), line))
		return err
	}),
	inTx("Publish", []string{"OpenChange"}, publish),
	onPatchset("SelectPatchset", []string{"Publish", "Publish"}, func(_ *world, tx *authority.Tx, p uint32) error {
		return tx.SelectPatchset(p)
	}),
	inTx("SetLineHead", []string{"AddSnapshot"}, func(w *world, tx *authority.Tx) error {
		s, err := w.pick(bindb.Snapshots.Count(tx))
		if err != nil {
			return err
		}
		line, err := w.pick(bindb.Lines.Count(tx))
		if err != nil {
			return err
		}
		return tx.SetLineHead(line, s)
	}),
	inTx("EnsureActor", nil, func(w *world, tx *authority.Tx) error {
		_, err := tx.EnsureActor(w.text("actor"), "a@example.org")
		return err
	}),
	review(record.ReviewActionComment, false),
	review(record.ReviewActionComment, true),
	review(record.ReviewActionTaskComment, false),
	review(record.ReviewActionCodeReviewSummary, false),
	review(record.ReviewActionDefer, false),
	review(record.ReviewActionTaskDefer, false),
	review(record.ReviewActionApprove, false),
	review(record.ReviewActionTaskApprove, false),
	review(record.ReviewActionRequestChanges, true),
	review(record.ReviewActionTaskRequestChanges, false),
	review(record.ReviewActionDismiss, false),
	onPatchset("Attest", []string{"Publish"}, func(w *world, tx *authority.Tx, p uint32) error {
		_, err := tx.Attest(authority.AttestSpec{Patchset: p, Verification: record.VerificationStatePass, RequireTests: w.next()%2 == 0})
		return err
	}),
	onPatchset("Waive", []string{"Publish"}, func(w *world, tx *authority.Tx, p uint32) error {
		_, err := tx.Waive(authority.WaiverSpec{Patchset: p, Rule: record.RuleCodeLicenseScan, Reason: w.text("Reason")})
		return err
	}),
	onPatchset("Decide", []string{"Publish"}, func(w *world, tx *authority.Tx, p uint32) error {
		_, _, err := tx.Decide(p, authority.PolicyInput{})
		return err
	}),
	onPatchset("Decide with requirements", []string{"Publish"}, func(w *world, tx *authority.Tx, p uint32) error {
		_, _, err := tx.Decide(p, authority.PolicyInput{Flags: authority.DefaultFlags})
		return err
	}),
	onPatchset("EnqueueCI", []string{"Publish"}, func(_ *world, tx *authority.Tx, p uint32) error {
		_, _, err := tx.EnqueueCI(p)
		return err
	}),
	{name: "Claim", after: []string{"EnqueueCI"}, do: claim},
	byHolder("Heartbeat", func(tx *authority.Tx, l authority.Lease) error { _, err := tx.Heartbeat(l); return err }),
	byHolder("CompleteCI", func(tx *authority.Tx, l authority.Lease) error {
		_, err := tx.CompleteCI(l, authoritytest.Passed)
		return err
	}),
	byHolder("FailJob for another try", func(tx *authority.Tx, l authority.Lease) error { return tx.FailJob(l, true) }),
	byHolder("FailJob for good", func(tx *authority.Tx, l authority.Lease) error { return tx.FailJob(l, false) }),
	{name: "Wait", do: func(w *world) error { w.clock.Advance(61 * time.Second); return nil }},
	inTx("LoseLease", []string{"Claim", "Wait"}, func(w *world, tx *authority.Tx) error {
		job, err := w.pick(bindb.WorkerJobs.Count(tx))
		if err == nil {
			_, err = tx.LoseLease(job)
		}
		return err
	}),
	{name: "ExpireLeases", after: []string{"Claim", "Wait"}, do: func(w *world) error {
		_, err := w.a.ExpireLeases(context.Background())
		return err
	}},
	{name: "ClaimNext", after: []string{"EnqueueCI"}, stage: func(w *world) (func(*world) error, error) {
		_, err := w.a.ExpireLeases(context.Background()) // which it would do in a batch of its own
		return claimNext, err
	}},
	onPatchset("BeginLand", []string{"Publish", "Decide"}, beginLand),
	inTx("FinishLand", []string{"BeginLand"}, endLand(func(tx *authority.Tx, l *authority.Land) error {
		p, err := tx.Patchset(l.Patchset)
		if err != nil {
			return err
		}
		return tx.FinishLand(l.Index, p.RevisionSnapshot)
	})),
	inTx("FailLand", []string{"BeginLand"}, endLand(func(tx *authority.Tx, l *authority.Land) error {
		return tx.FailLand(l.Index, record.LandFailureTargetUpdateFailed)
	})),
	{name: "AddRepository", files: true, do: func(w *world) error {
		_, _, err := w.a.AddRepository(context.Background(), fmt.Sprintf("gears-%d", w.next()), record.Namespace{}, authority.DefaultFlags)
		return err
	}},
	onGears("Work on gears", nil, func(a *authority.Authority, i uint32) error {
		r, err := a.Repository(context.Background(), i)
		if err != nil {
			return err
		}
		return r.Update(context.Background(), func(tx *authority.Tx) error {
			line, err := tx.EnsureLine(authority.MainLine)
			if err != nil {
				return err
			}
			n, err := bindb.Snapshots.Count(tx)
			if err != nil {
				return err
			}
			job, err := queueJob(tx, line, uint64(n))
			if err != nil {
				return err
			}
			l, err := tx.Claim(job, authority.RequestID{})
			if err != nil {
				return err
			}
			_, err = tx.CompleteCI(l, authoritytest.Passed)
			return err
		})
	}),
	onGears("Retire", nil, func(a *authority.Authority, i uint32) error {
		_, err := a.Retire(context.Background(), i)
		return err
	}),
	onGears("Reactivate", []string{"Retire"}, func(a *authority.Authority, i uint32) error {
		_, err := a.Reactivate(context.Background(), i)
		return err
	}),
	onGears("Purge", []string{"Work on gears", "Work on gears", "Work on gears", "Retire"}, func(a *authority.Authority, i uint32) error {
		_, err := a.Purge(context.Background(), i, nil)
		return err
	}),
	onGears("SetPolicyFlags", nil, func(a *authority.Authority, i uint32) error {
		_, err := a.SetPolicyFlags(context.Background(), i, 0)
		return err
	}),
	onGears("SetNamespace", nil, func(a *authority.Authority, i uint32) error {
		_, err := a.SetNamespace(context.Background(), i, record.Namespace{'G', 'R'})
		return err
	}),
	{name: "Backup", files: true, do: func(w *world) error {
		name := path.Join(backupDir, fmt.Sprint(w.next()))
		_, err := w.a.Backup(context.Background(), name, nil)
		if err == nil {
			w.backups = append(w.backups, name)
		}
		return err
	}},
	{name: "Restore", after: []string{"Backup", "OpenTask"}, files: true, do: restore},
	{name: "Compact", after: []string{"OpenTask"}, files: true, do: func(w *world) error {
		if err := w.a.Close(); err != nil {
			return err
		}
		_, err := authority.Compact(context.Background(), w.opt, authority.CompactOptions{KeepOld: w.next()%2 == 0})
		return errors.Join(err, w.open())
	}},
	{name: "Reopen", do: func(w *world) error {
		if err := w.a.Close(); err != nil {
			return err
		}
		return w.open()
	}},
}...)

// restore puts a backup in the place of what is there, under a new epoch.
func restore(w *world) error {
	if len(w.backups) == 0 {
		return fmt.Errorf("%w: there is no backup", authority.ErrState)
	}
	if err := w.a.Close(); err != nil {
		return err
	}
	from := w.backups[len(w.backups)-1]
	if _, err := authority.Restore(context.Background(), w.opt, from, authority.Restoration{Replace: true, DropOld: w.next()%2 == 0}); err != nil {
		return err
	}
	clear(w.leases) // they are from before
	return w.open()
}

// tableVerbs takes over the verbs of authoritytest.
func tableVerbs() []verb {
	var list []verb
	for _, v := range authoritytest.Verbs {
		list = append(list, verb{name: v.Name + ", staged", stage: func(w *world) (func(*world) error, error) {
			call, err := v.Prepare(context.Background(), w.r, w.clock)
			return func(w *world) error { return w.update(call) }, err
		}})
	}
	return list
}

// named returns a verb of the table.
func named(name string) verb {
	for _, v := range verbs {
		if v.name == name {
			return v
		}
	}
	panic("crashtest: there is no verb " + name)
}

// ready does what must be done before a verb can succeed, and returns the verb.
func (w *world) ready(v verb) (do func(w *world) error, err error) {
	done := map[string]bool{}
	var need func(name string) error
	need = func(name string) error {
		before := named(name)
		for _, first := range before.after {
			if !done[first] {
				if err := need(first); err != nil {
					return err
				}
			}
		}
		done[name] = true
		if err := before.do(w); err != nil {
			return fmt.Errorf("%s, before %s: %w", name, v.name, err)
		}
		return nil
	}
	for _, name := range v.after {
		if err := need(name); err != nil {
			return nil, err
		}
	}
	if v.stage != nil {
		return v.stage(w)
	}
	return v.do, nil
}

// refused reports whether a verb says that it has changed nothing.
func refused(err error) bool {
	for _, is := range []error{
		authority.ErrState, authority.ErrNotActive, authority.ErrLeaseHeld, authority.ErrLeaseLost, bindb.ErrCapacity, bindb.ErrInvalid, bindb.ErrNotFound,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}
