package sqlite

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// Views that follow one another without a gap must not keep the log from starting
// anew.
func TestLogIsBoundedUnderConstantViews(t *testing.T) {
	t.Parallel()
	const views, updates, size = 4, 100, 64 << 10
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "work.db")
	s, err := Open(ctx, Options{Path: path, Readers: views})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range views {
		wg.Go(func() {
			for {
				err := s.View(ctx, func(workitem.Reader) error {
					select {
					case <-stop:
						return context.Canceled
					case <-time.After(time.Duration(3+i) * time.Millisecond):
						return nil
					}
				})
				if err != nil {
					return
				}
			}
		})
	}
	for n := range updates {
		value := bytes.Repeat([]byte{byte(n)}, size) // every page of it changes
		err := s.Update(ctx, func(x workitem.Tx) error {
			s.state.uncopied = checkpointAfter // ask for a checkpoint each time
			return x.(*tx).do("INSERT INTO meta (name, value) VALUES ('large', ?1) ON CONFLICT DO UPDATE SET value = ?1", func(b *binder) { b.bytes(value) })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the log has %d kB", info.Size()>>10)
	if info.Size() > updates*size/4 {
		t.Fatalf("the log has grown to %d kB", info.Size()>>10)
	}
}
