package bindb_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

func setup(t *testing.T) bindb.Config {
	t.Helper()
	dir := t.TempDir()
	return bindb.Config{
		Dir: filepath.Join(dir, "4"), Kind: record.RootAuthority, Label: "4",
		Runtime: filepath.Join(dir, "runtime"), Identity: [32]byte{1},
	}
}

func TestLineRoundTrip(t *testing.T) {
	t.Parallel()
	cfg := setup(t)
	ctx := context.Background()
	if err := bindb.Create(cfg); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		r, err := bindb.Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			err = r.Update(ctx, func(tx *bindb.Tx) error {
				name := []byte{byte('a' + round), byte('0' + i%10), byte('0' + i/10)}
				off, err := bindb.LineNamePayload.Append(tx, name)
				if err != nil {
					return err
				}
				_, err = bindb.Lines.Append(tx, record.Line{NameOffset: off, NameLen: 3, CreatedAt: 1, UpdatedAt: 1})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		err = r.View(ctx, func(rd bindb.Reader) error {
			found := 0
			for back := range round + 1 {
				if err := bindb.LinesByName(rd, string([]byte{byte('a' + back), '7', '3'}), func(i uint32) (bool, error) {
					if i != uint32(back*100+37) {
						t.Errorf("found %d", i)
					}
					found++
					return true, nil
				}); err != nil {
					return err
				}
			}
			if found != round+1 {
				t.Errorf("found %d of %d", found, round+1)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
