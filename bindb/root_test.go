package bindb_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/bindbtest"
)

func TestStoryIsSound(t *testing.T) {
	t.Parallel()
	cfg := diskConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	var task uint32
	for range 3 {
		for i, step := range story(&task) {
			update(t, r, step)
			findings, err := r.Check(context.Background())
			if err != nil || len(findings) > 0 {
				t.Fatalf("step %d: %v, %v", i, findings, err)
			}
		}
	}
	closeRoot(t, r)
	bindbtest.MustCheck(t, cfg)
	if _, err := os.Stat(filepath.Join(cfg.Runtime, "journal", "4")); !os.IsNotExist(err) {
		t.Errorf("after a clean stop the journal is still there: %v", err)
	}
}

func TestLinesByNameAcrossOpens(t *testing.T) {
	t.Parallel()
	cfg := diskConfig(t)
	ctx := context.Background()
	create(t, cfg)
	name := func(round, i int) string { return fmt.Sprintf("line-%d-%d", round, i) }
	for round := range 3 {
		r := open(t, cfg)
		for i := range 100 {
			update(t, r, func(w *writer) { w.line(name(round, i)) })
		}
		err := r.View(ctx, func(rd bindb.Reader) error {
			for back := range round + 1 {
				found := 0
				err := bindb.LinesByName(rd, name(back, 37), func(i uint32) (bool, error) {
					if i != uint32(back*100+37) {
						t.Errorf("found Line %d", i)
					}
					found++
					return true, nil
				})
				if err != nil || found != 1 {
					t.Errorf("round %d: found %d Lines, %v", back, found, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		closeRoot(t, r)
	}
}
