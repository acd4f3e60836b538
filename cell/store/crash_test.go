package store_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/cell/store"
)

var (
	storeKills = flag.Int("storekills", 8, "how often TestKill kills a process that writes")
	tornLogs   = flag.Int("tornlogs", 60, "how many cut logs TestTornLog opens beyond one for each frame")
)

// tellerPath tells TestTeller, in a process of its own, where to write.
const tellerPath = "WRIT_TEST_STORE_PATH"

const (
	tellers    = 6 // cells that a process writes to at once
	tellerItem = 20
)

func tellerSaga(n int) *saga { return newSaga(fmt.Sprintf("teller %d", n), tellerItem) }

// TestTeller is what TestKill starts and kills: it writes to some cells for ever, and
// prints what was acknowledged, and which heads were read beside that.
func TestTeller(t *testing.T) {
	path := os.Getenv(tellerPath)
	if path == "" {
		t.Skip("is a part of TestKill")
	}
	st := openAt(t, path)
	var wg sync.WaitGroup
	var mu sync.Mutex
	say := func(n, i int) bool {
		mu.Lock()
		defer mu.Unlock()
		if _, err := fmt.Printf("acknowledged %d %d\n", n, i); err != nil {
			t.Error(err)
			return false
		}
		return true
	}
	wg.Go(func() {
		var cells [tellers]record.Particle
		for n := range cells {
			cells[n] = tellerSaga(n).cell()
		}
		for n, said := 0, [tellers]uint64{}; ; n = (n + 1) % tellers {
			head, err := st.Head(t.Context(), cells[n])
			switch {
			case errors.Is(err, cell.ErrMissing):
			case err != nil:
				t.Error(err)
				return
			case head.Index > said[n]:
				if said[n] = head.Index; !say(n, int(head.Index)) {
					return
				}
			}
		}
	})
	for n := range tellers {
		wg.Go(func() {
			s := tellerSaga(n)
			from := 0
			if head, err := st.Head(t.Context(), s.cell()); err == nil {
				from = int(head.Index) + 1
			}
			for i := from; ; i++ {
				w := s.write(uint64(i))
				if _, err := st.Write(t.Context(), w); err != nil {
					t.Error(err)
					return
				}
				if !say(n, i) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// A process that is killed at any moment leaves each cell at the last commit that it
// has acknowledged, or a later one, whole.
func TestKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	path := place(t)
	sagas := make([]*saga, tellers)
	acknowledged := make([]int, tellers)
	for n := range sagas {
		sagas[n], acknowledged[n] = tellerSaga(n), -1
	}
	random := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
	for round := range *storeKills {
		command := exec.Command(os.Args[0], "-test.run", "^TestTeller$", "-test.timeout", "2m")
		command.Env = append(os.Environ(), tellerPath+"="+path)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		command.Stderr = os.Stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		patience := random.IntN(300)
		for seen := 0; lines.Scan(); seen++ {
			var n, i int
			if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d %d", &n, &i); err != nil {
				t.Errorf("the process says %q", lines.Text())
				break
			}
			acknowledged[n] = max(acknowledged[n], i)
			if seen == patience {
				// What it still prints before it ends counts too.
				if err := command.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		bury(t, command)
		st := openAt(t, path)
		for n, s := range sagas {
			if _, err := s.check(t.Context(), st, acknowledged[n]); err != nil {
				t.Fatalf("after kill %d: %v", round, err)
			}
		}
		if round%4 == 3 {
			mustBeClean(t, st)
		}
		mustClose(t, st)
	}
}

// bury kills a process if it still lives, and waits for its end.
func bury(t *testing.T, command *exec.Cmd) {
	t.Helper()
	if err := command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	if err := command.Wait(); err == nil {
		t.Error("the process has ended by itself")
	}
}

// image is what a store has on the disk.
type image struct{ database, log []byte }

func readImage(t *testing.T, path string) (im image) {
	t.Helper()
	var err error
	if im.database, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if im.log, err = os.ReadFile(path + "-wal"); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return im
}

// lay makes the files of a path those of an image, as if nobody had closed them. The
// database stays the same file, so that it is not taken for a copy.
func (im image) lay(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{path: im.database, path + "-wal": im.log} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	logHeader = 32
	logFrame  = 24 + pageSize
)

// TestTornLog cuts the log at each of its frames and elsewhere, with what a power cut may
// leave behind the cut. Commits that were acknowledged at that length are there, and
// the others whole or not at all.
func TestTornLog(t *testing.T) {
	t.Parallel()
	path := place(t)
	st := openAt(t, path)
	a, b := newSaga("a", 3), newSaga("b", 40)
	var lengths []int // of the log when commit i of both was acknowledged
	for i := range 6 {
		a.tell(t, st, i, i+1)
		b.tell(t, st, i, i+1)
		lengths = append(lengths, len(readImage(t, path).log))
	}
	whole := readImage(t, path)
	mustClose(t, st)
	random := rand.New(rand.NewPCG(2, 3))
	var cuts []int
	for at := logHeader; at <= len(whole.log); at += logFrame {
		cuts = append(cuts, at)
	}
	for range *tornLogs {
		cuts = append(cuts, random.IntN(len(whole.log)))
	}
	cuts = append(cuts, 0, 1, logHeader-1)
	for k, cut := range cuts {
		log := append([]byte{}, whole.log[:cut]...)
		switch k % 3 {
		case 1: // the file had been made longer before
			log = append(log, make([]byte, min(3*logFrame, len(whole.log)-cut))...)
		case 2: // later sectors have reached the disk, earlier ones have not
			log = append(log, whole.log[cut:]...)
			for i := cut; i < min(cut+512, len(log)); i++ {
				log[i] = byte(random.Uint32())
			}
		}
		image{whole.database, log}.lay(t, path)
		least := -1
		for i, n := range lengths {
			if n <= cut {
				least = i
			}
		}
		st, err := store.Open(t.Context(), store.Options{Path: path})
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		for _, s := range []*saga{a, b} {
			n, err := s.check(t.Context(), st, least)
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			s.tell(t, st, n, n+1)
			s.mustCheck(t, st, n)
		}
		mustClose(t, st)
	}
}

// A power cut while the log is copied leaves some pages of the database new and others
// old. The log still has all of them.
func TestTornCheckpoint(t *testing.T) {
	t.Parallel()
	path := place(t)
	st := openAt(t, path)
	s := newSaga("s", 30)
	s.tell(t, st, 0, 12)
	before := readImage(t, path)
	mustClose(t, st)
	after := readImage(t, path)
	if len(after.database) <= len(before.database) {
		t.Fatalf("closing has copied nothing: %d bytes before, %d after", len(before.database), len(after.database))
	}
	random := rand.New(rand.NewPCG(4, 5))
	for range 12 {
		mixed := append([]byte{}, before.database...)
		length := len(before.database) + random.IntN(len(after.database)-len(before.database)+1)
		mixed = append(mixed, make([]byte, length-len(mixed))...)
		for at := 0; at < len(mixed); at += pageSize {
			end := min(at+pageSize, len(mixed))
			switch random.IntN(3) {
			case 0:
				copy(mixed[at:end], after.database[at:end])
			case 1:
				copy(mixed[at:at+(end-at)/2], after.database[at:end])
			}
		}
		image{mixed, before.log}.lay(t, path)
		st := openAt(t, path)
		s.mustCheck(t, st, 11)
		mustBeClean(t, st)
		mustClose(t, st)
	}
}

// mustBeClean verifies a store.
func mustBeClean(t *testing.T, st *store.Store) {
	t.Helper()
	findings, err := st.Verify(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Errorf("found: %v", f)
	}
}

// copyFiles copies files in this order, one after the other, as a backup would.
func copyFiles(t *testing.T, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
