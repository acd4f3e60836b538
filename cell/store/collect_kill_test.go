package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/cell/store"
)

// collectorPath tells TestCollector, in a process of its own, where to collect.
const collectorPath = "WRIT_TEST_STORE_COLLECT"

func collectorSaga() *saga { return newSaga("kept", 30) }

// TestCollector is what TestKillCollector starts and kills: for ever it adds commits, and
// content that nobody needs, and collects.
func TestCollector(t *testing.T) {
	path := os.Getenv(collectorPath)
	if path == "" {
		t.Skip("is a part of TestKillCollector")
	}
	st := openAt(t, path)
	s := collectorSaga()
	from := 0
	head, err := st.Head(t.Context(), s.cell())
	switch {
	case err == nil:
		from = int(head.Index) + 1
	case !errors.Is(err, cell.ErrMissing):
		t.Fatal(err)
	}
	for n := from; ; n++ {
		s.tell(t, st, n, n+1)
		fmt.Println("acknowledged", n)
		var waste []record.Item
		for k := range 300 {
			waste = append(waste, blobItem(fmt.Sprint("waste", os.Getpid(), n, k)))
		}
		if err := st.Put(t.Context(), waste); err != nil {
			t.Fatal(err)
		}
		done, err := st.Collect(t.Context(), func(visit func(record.Particle) error) error {
			for i := range n + 1 {
				for _, it := range s.write(uint64(i)).Items {
					if err := visit(it.Particle); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if done.Particles < int64(len(waste)) {
			t.Fatalf("collected %d particles of at least %d", done.Particles, len(waste))
		}
	}
}

// A process that is killed while it collects leaves everything that must stay.
func TestKillCollector(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	path := place(t)
	s := collectorSaga()
	acknowledged := -1
	random := rand.New(rand.NewPCG(10, uint64(os.Getpid())))
	for round := range *storeKills {
		command := exec.Command(os.Args[0], "-test.run", "^TestCollector$", "-test.timeout", "2m")
		command.Env = append(os.Environ(), collectorPath+"="+path)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		command.Stderr = os.Stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		for lines, seen := bufio.NewScanner(out), 0; lines.Scan(); seen++ {
			if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d", &acknowledged); err != nil {
				t.Errorf("the process says %q", lines.Text())
				break
			}
			if seen == 1 {
				// At some moment of a collection, whichever that is.
				time.AfterFunc(time.Duration(random.IntN(60))*time.Millisecond, func() {
					if err := command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
						t.Error(err)
					}
				})
			}
		}
		bury(t, command)
		st, err := store.Open(t.Context(), store.Options{Path: path})
		if err != nil {
			t.Fatalf("after kill %d: %v", round, err)
		}
		if _, err := s.check(t.Context(), st, acknowledged); err != nil {
			t.Fatalf("after kill %d: %v", round, err)
		}
		for i := range acknowledged + 1 {
			for _, it := range s.write(uint64(i)).Items {
				if err := has(t.Context(), st, it); err != nil {
					t.Fatalf("after kill %d, commit %d: %v", round, i, err)
				}
			}
		}
		mustBeClean(t, st)
		mustClose(t, st)
	}
}
