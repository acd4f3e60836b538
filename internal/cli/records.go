package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// records is what the commands of one noun work on: a Repository of the authority,
// for which no checkout is needed.
type records struct {
	*app
	index string // what --repository said
}

// noun is a group of commands on the records of one Repository, and of others that
// belong to the noun but need a checkout.
func (a *app) noun(use, short string, verbs func(*records) []*cobra.Command, others ...*cobra.Command) *cobra.Command {
	r := &records{app: a}
	c := group(use, short, others...)
	for _, verb := range verbs(r) {
		repositoryFlag(verb, &r.index)
		c.AddCommand(verb)
	}
	return c
}

// view reads the Repository and returns the epoch of the installation.
func (r *records) view(ctx context.Context, fn func(*authority.View) error) (epoch uint64, err error) {
	err = r.withRepository(ctx, r.index, func(repo *authority.Repository) error {
		epoch = repo.Epoch()
		return repo.View(ctx, fn)
	})
	return epoch, err
}

// update changes the Repository and returns the epoch of the installation.
func (r *records) update(ctx context.Context, fn func(*authority.Tx) error) (epoch uint64, err error) {
	err = r.withRepository(ctx, r.index, func(repo *authority.Repository) error {
		epoch = repo.Epoch()
		return repo.Update(ctx, fn)
	})
	return epoch, err
}

// examples are how the identity of an object is written.
var examples = map[record.Object]string{
	record.ObjectTask: "T-0001", record.ObjectChange: "T-0001/C-01", record.ObjectPatchset: "T-0001/C-01/P-01",
	record.ObjectAttestation: "T-0001/A-01", record.ObjectWaiver: "T-0001/W-01", record.ObjectLand: "T-0001/C-01/L-01",
	record.ObjectPlan: "PR-0", record.ObjectPlanRevision: "plan-revision:0", record.ObjectSnapshot: "SNP-0123456789AB",
}

// find looks up the index of a record of the wanted kind.
func find(v *authority.View, text string, want record.Object) (uint32, error) {
	got, err := v.Find(text)
	if err == nil && got.Object != want {
		err = &usageError{fmt.Errorf("%s names a %s; expected a %s such as %s", got, got.Object, want, examples[want])}
	}
	return got.Index, err
}

// newest calls fn for the records of a table from the last to the first, until
// limit of them were taken. more says that there are others.
func newest(v *authority.View, count func(bindb.Reader) (uint32, error), limit int, fn func(index uint32) (taken bool, err error)) (more bool, err error) {
	n, err := count(v)
	if err != nil {
		return false, err
	}
	for i := n; i > 0; i-- {
		if limit == 0 {
			return true, nil
		}
		taken, err := fn(i - 1)
		if err != nil {
			return false, err
		}
		if taken {
			limit--
		}
	}
	return false, nil
}

// limitFlag adds --limit to a command that lists.
func limitFlag(c *cobra.Command, limit *int) {
	*limit = 50
	c.Flags().IntVarP(limit, "limit", "n", *limit, "how many, newest first")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if *limit < 1 {
			return &usageError{fmt.Errorf("--limit: expected a positive number")}
		}
		return run(c, args)
	}
}

// instant shows a time, and an unknown one as nothing.
func instant(s record.Seconds) string {
	if s == 0 {
		return ""
	}
	return s.String()
}

// more tells people that a list was cut off.
func (a *app) more(more bool) {
	if more {
		fmt.Fprintln(a.out, "(there are more; raise --limit)")
	}
}

// either is a usage error when more than one of the flags is set.
func either(names string, set ...bool) error {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	if n > 1 {
		return &usageError{fmt.Errorf("%s exclude one another", names)}
	}
	return nil
}
