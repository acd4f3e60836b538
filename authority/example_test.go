package authority_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
)

// A change from its first patchset to its land.
func Example() {
	dir, err := os.MkdirTemp("", "writ")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	a, err := authority.Create(ctx, authority.Options{Dir: dir}, "widgets", authority.DefaultFlags)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	repo, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		log.Fatal(err)
	}

	// Publish a patchset and queue its checks.
	var main, base, revision, patchset, job uint32
	var lease authority.Lease
	err = repo.Update(ctx, func(tx *authority.Tx) error {
		task, err := tx.OpenTask("Paint the widgets", "They are grey.")
		if err != nil {
			return err
		}
		if main, err = tx.EnsureLine(authority.MainLine); err != nil {
			return err
		}
		if base, err = tx.AddSnapshot(authority.SnapshotSpec{Hash48: 1, Line: main, Files: 1}); err != nil {
			return err
		}
		if revision, err = tx.AddSnapshot(authority.SnapshotSpec{Hash48: 2, Line: main, Files: 2}); err != nil {
			return err
		}
		change, err := tx.OpenChange(task, "Blue", main, record.RefTo(base))
		if err != nil {
			return err
		}
		patchset, err = tx.Publish(authority.PatchsetSpec{Change: change, Base: base, Revision: revision, Summary: "Paint them blue"})
		if err != nil {
			return err
		}
		if job, _, err = tx.EnqueueCI(patchset); err != nil {
			return err
		}
		lease, err = tx.Claim(job, authority.RequestID{1})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	// The suites run here, without any lock. Then the evidence decides.
	var land uint32
	err = repo.Update(ctx, func(tx *authority.Tx) error {
		_, err := tx.CompleteCI(lease, authority.Evidence{
			Selected: 1, Results: 1, Overall: record.CIStatusPass, Tests: record.CIStatusPass,
		})
		if err != nil {
			return err
		}
		e, d, err := tx.Decide(patchset, authority.PolicyInput{Flags: repo.Info().PolicyFlags})
		if err != nil {
			return err
		}
		fmt.Println(d.ID, e.Decision, e.Landable())
		if err := tx.SetLineHead(main, base); err != nil {
			return err
		}
		land, err = tx.BeginLand(authority.LandSpec{Patchset: patchset, TargetLine: main, PreTarget: base})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	// The branch moves here.
	err = repo.Update(ctx, func(tx *authority.Tx) error {
		if err := tx.FinishLand(land, revision); err != nil {
			return err
		}
		l, err := tx.Land(land)
		fmt.Println(l.ID, l.Meta.Status())
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// T-0001/C-01/P-01/K-01 pass true
	// T-0001/C-01/L-01 succeeded
}

// Why a patchset may not land yet.
func ExampleEvaluate() {
	var f authority.Facts
	in := authority.PolicyInput{
		Flags:  authority.DefaultFlags,
		Suites: []authority.SuiteRow{{Blocking: true}},
	}
	e := authority.Evaluate(in, f)
	fmt.Println(e.Decision)
	for _, c := range e.Checks {
		if c.Status == record.CheckStatusPending {
			fmt.Println(c.Kind)
		}
	}
	// Output:
	// pending
	// tests
	// ci_patchset_suite
}

// A holder that died is found by the expiry of its lease.
func ExampleTx_LoseLease() {
	dir, err := os.MkdirTemp("", "writ")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	now := time.Unix(1_700_000_000, 0)
	a, err := authority.Create(ctx, authority.Options{Dir: dir, Clock: func() time.Time { return now }}, "widgets", 0)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	repo, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		log.Fatal(err)
	}
	var job uint32
	err = repo.Update(ctx, func(tx *authority.Tx) error {
		line, err := tx.EnsureLine("main")
		if err != nil {
			return err
		}
		s, err := tx.AddSnapshot(authority.SnapshotSpec{Line: line})
		if err != nil {
			return err
		}
		task, err := tx.OpenTask("Title", "Intent")
		if err != nil {
			return err
		}
		change, err := tx.OpenChange(task, "Title", line, 0)
		if err != nil {
			return err
		}
		p, err := tx.Publish(authority.PatchsetSpec{Change: change, Base: s, Revision: s, Summary: "Nothing"})
		if err != nil {
			return err
		}
		if job, _, err = tx.EnqueueCI(p); err != nil {
			return err
		}
		_, err = tx.Claim(job, authority.RequestID{1})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		err = repo.Update(ctx, func(tx *authority.Tx) error {
			j, err := tx.LoseLease(job)
			if err == nil {
				fmt.Println(j.State, j.Error, "after", uint64(j.AvailableAt-tx.Now()), "seconds")
			}
			return err
		})
		if err != nil {
			fmt.Println(err)
		}
		now = now.Add(time.Minute)
	}
	// Output:
	// job 4/0: lease is held until 2023-11-14T22:14:20Z
	// queued lease_expired after 15 seconds
}

// A backup is made while the authority is in use, and restored in its place. The
// epoch says that leases from before are void.
func ExampleRestore() {
	dir, err := os.MkdirTemp("", "writ")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	opt := authority.Options{Dir: filepath.Join(dir, "data")}
	a, err := authority.Create(ctx, opt, "widgets", authority.DefaultFlags)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	backup := filepath.Join(dir, "backup")
	m, err := a.Backup(ctx, backup, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Repositories, "repositories, epoch", m.Epoch)

	done, err := authority.Restore(ctx, opt, backup, authority.Restoration{Replace: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("generation", done.Generation, "epoch", done.Epoch)
	_, err = a.Repositories(ctx)
	fmt.Println(errors.Is(err, authority.ErrGeneration))
	// Output:
	// 5 repositories, epoch 1
	// generation 2 epoch 2
	// true
}

// A task takes an item of a plan up. The binding means something as long as the
// latest revision has an item of exactly that name.
func ExampleTx_BindTask() {
	dir, err := os.MkdirTemp("", "authority")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	a, err := authority.Create(ctx, authority.Options{Dir: dir}, "widgets", authority.DefaultFlags)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	r, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		log.Fatal(err)
	}
	show := func(tx *authority.Tx, task uint32) error {
		t, err := tx.Task(task)
		if err != nil {
			return err
		}
		b, err := tx.Binding(&t)
		if err == nil {
			fmt.Printf("%s takes up %s of %s: %t\n", t.ID, b.Item.Ref, b.Plan.ID, b.Taskable)
		}
		return err
	}
	err = r.Update(ctx, func(tx *authority.Tx) error {
		items := []authority.ItemSpec{{Ref: "blue", Text: "Paint the widgets blue"}}
		plan, err := tx.CreatePlan("Painting", authority.RevisionSpec{Items: items})
		if err != nil {
			return err
		}
		p, err := tx.Plan(plan)
		if err != nil {
			return err
		}
		revision, err := tx.LatestRevision(&p)
		if err != nil {
			return err
		}
		item, _, err := tx.ItemByRef(&revision, "blue")
		if err != nil {
			return err
		}
		task, err := tx.OpenTask("Paint", "They are grey.")
		if err != nil {
			return err
		}
		if err := tx.BindTask(task, revision.Index, item.Index); err != nil {
			return err
		}
		if err := show(tx, task); err != nil {
			return err
		}
		if _, err := tx.RevisePlan(plan, authority.RevisionSpec{Items: []authority.ItemSpec{{Ref: "Blue", Text: "Paint"}}}); err != nil {
			return err
		}
		return show(tx, task)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// T-0001 takes up blue of PR-0: true
	// T-0001 takes up blue of PR-0: false
}

// A worker takes what is next, says that it is alive and reports. The id makes a
// claim that is sent again get the same job.
func ExampleAuthority_ClaimNext() {
	dir, err := os.MkdirTemp("", "writ")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	a, err := authority.Create(ctx, authority.Options{Dir: dir, Own: true}, "widgets", authority.DefaultFlags)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	repo, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := repo.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindContentGC}); err != nil {
		log.Fatal(err)
	}
	for request := byte(1); ; request++ {
		c, ok, err := a.ClaimNext(ctx, authority.ClaimFilter{Request: authority.RequestID{request}})
		if err != nil {
			log.Fatal(err)
		}
		if !ok {
			break
		}
		l, err := c.Repository.HeartbeatJob(ctx, c.Lease)
		if err != nil {
			log.Fatal(err)
		}
		outcome, err := c.Repository.CompleteJob(ctx, l, authority.JobResult{Outcome: record.JobOutcomeCompleted})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.Job.Kind, outcome)
	}
	// Output: content.gc completed
}
