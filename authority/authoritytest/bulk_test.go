package authoritytest_test

import (
	"context"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

func TestBulkIsSound(t *testing.T) {
	t.Parallel()
	const patchsets = 5000 // more than one Task and more than one batch
	dir := t.TempDir()
	ctx := context.Background()
	begin := time.Now()
	authoritytest.Bulk(t, dir, patchsets)
	t.Logf("%d patchsets in %s", patchsets, time.Since(begin))
	a, err := authority.Open(ctx, authority.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		t.Fatal(err)
	}
	if findings, err := r.Root().Check(ctx); err != nil || len(findings) > 0 {
		t.Errorf("%v %v", findings, err)
	}
	err = r.View(ctx, func(v *authority.View) error {
		n, err := bindb.Patchsets.Count(v)
		if err != nil || n != patchsets {
			t.Errorf("%d patchsets, %v", n, err)
		}
		p, err := v.Patchset(patchsets - 1)
		if err != nil {
			return err
		}
		d, err := v.Decision(&p)
		if err != nil || d == nil || d.Kind() != record.DecisionKindPass {
			t.Errorf("decision of the last patchset: %+v, %v", d, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
