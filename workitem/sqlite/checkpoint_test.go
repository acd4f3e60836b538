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
func TestLogStartsAnewUnderConstantViews(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "work.db")
	s, err := Open(ctx, Options{Path: path, Readers: 3})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	begun := make(chan struct{}) // from a view to the one before it, which ends then
	for range 2 {
		wg.Go(func() { // until stop is closed
			for first := true; ; first = false {
				err := s.View(ctx, func(workitem.Reader) error {
					next := begun
					if first {
						next = nil
					}
					look := time.NewTicker(time.Millisecond)
					defer look.Stop()
					for {
						select {
						case next <- struct{}{}:
							next = nil
						case <-begun:
							return nil
						case <-stop:
							return context.Canceled
						case <-look.C:
							if len(s.readers) == 0 {
								return nil // held back: these two have but two of the three
							}
						}
					}
				})
				if err != nil {
					return
				}
			}
		})
	}
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Error(err)
			return 0
		}
		return info.Size()
	}
	anew := false
	for n := 0; n < 100 && !anew; n++ {
		before := size()
		value := bytes.Repeat([]byte{byte(n)}, 64<<10) // all of its pages are written
		err := s.Update(ctx, func(x workitem.Tx) error {
			s.state.uncopied = checkpointAfter // ask for a checkpoint each time
			return x.(*tx).do("INSERT INTO meta (name, value) VALUES ('large', ?1) ON CONFLICT DO UPDATE SET value = ?1",
				func(b *binder) { b.bytes(value) })
		})
		if err != nil {
			t.Error(err)
			break
		}
		anew = size() == before
	}
	close(stop)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !anew {
		t.Error("the log has grown with every transaction")
	}
}
