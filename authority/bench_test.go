package authority_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb/record"
)

// BenchmarkGate measures what one run of the gate writes: the authority is opened,
// a patchset published, its job queued and claimed, the evidence recorded and the
// decision made, in the three commits that a run needs, and the authority closed.
// The cost must not grow with the history.
func BenchmarkGate(b *testing.B) {
	ctx := context.Background()
	for _, history := range []int{100, 50_000} {
		b.Run(fmt.Sprint("patchsets=", history), func(b *testing.B) {
			dir := b.TempDir()
			authoritytest.Bulk(b, dir, history)
			opt := authority.Options{Dir: dir}
			number := uint64(1) << 40
			for b.Loop() {
				a, err := authority.Open(ctx, opt)
				if err != nil {
					b.Fatal(err)
				}
				r, err := a.Repository(ctx, authority.FirstRepository)
				if err != nil {
					b.Fatal(err)
				}
				if err := gateOnce(ctx, r, number); err != nil {
					b.Fatal(err)
				}
				number++
				if err := a.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkVerbs measures the same commits with the authority open.
func BenchmarkVerbs(b *testing.B) {
	ctx := context.Background()
	for _, history := range []int{100, 50_000} {
		b.Run(fmt.Sprint("patchsets=", history), func(b *testing.B) {
			dir := b.TempDir()
			authoritytest.Bulk(b, dir, history)
			a, err := authority.Open(ctx, authority.Options{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			r, err := a.Repository(ctx, authority.FirstRepository)
			if err != nil {
				b.Fatal(err)
			}
			number := uint64(1) << 40
			for b.Loop() {
				if err := gateOnce(ctx, r, number); err != nil {
					b.Fatal(err)
				}
				number++
			}
			if err := a.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func gateOnce(ctx context.Context, r *authority.Repository, number uint64) error {
	var p uint32
	var lease authority.Lease
	err := r.Update(ctx, func(tx *authority.Tx) error {
		main, err := tx.EnsureLine(authority.MainLine)
		if err != nil {
			return err
		}
		base, err := tx.AddSnapshot(authoritytest.Snapshot(number, main))
		if err != nil {
			return err
		}
		task, err := tx.OpenTask("Title", "Intent")
		if err != nil {
			return err
		}
		change, err := tx.OpenChange(task, "Title", main, record.RefTo(base))
		if err != nil {
			return err
		}
		if _, _, err := tx.FindPatchset(base, base); err != nil {
			return err
		}
		p, err = tx.Publish(authority.PatchsetSpec{Change: change, Base: base, Revision: base, Summary: "Summary"})
		return err
	})
	if err != nil {
		return err
	}
	err = r.Update(ctx, func(tx *authority.Tx) error {
		job, _, err := tx.EnqueueCI(p)
		if err != nil {
			return err
		}
		lease, err = tx.Claim(job, authority.RequestID{1})
		return err
	})
	if err != nil {
		return err
	}
	return r.Update(ctx, func(tx *authority.Tx) error {
		if _, err := tx.CompleteCI(lease, authoritytest.Passed); err != nil {
			return err
		}
		_, _, err := tx.Decide(p, authority.PolicyInput{Flags: authority.DefaultFlags})
		return err
	})
}

func BenchmarkEvaluate(b *testing.B) {
	f := facts(ran(record.CIStatusPass, record.CIStatusPass, record.CIStatusPass, 3, 0),
		reviewed(1, record.ReviewActionApprove), reviewed(2, record.ReviewActionComment), waived(record.RuleCodeLint))
	in := authority.PolicyInput{Flags: authority.DefaultFlags, Suites: make([]authority.SuiteRow, 3)}
	for b.Loop() {
		authority.Evaluate(in, f)
	}
}
