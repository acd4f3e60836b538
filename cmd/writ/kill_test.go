package main_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
)

var killsWanted = flag.Int("kills", 20, "how many processes TestKill ends with SIGKILL in a write storm")

// storm is a program that writes and prints each title once it is durable: a Task,
// a Line and an Actor of that name in one batch. It ends when it is killed.
func storm(args []string) int {
	flags := flag.NewFlagSet("writ-storm", flag.ExitOnError)
	dir := flags.String("data", "", "data directory")
	name := flags.String("name", "", "begin of every title")
	writers := flags.Int("writers", 1, "goroutines that write")
	own := flags.Bool("own", false, "own the authority")
	_ = flags.Parse(args) // it exits
	ctx := context.Background()
	a, err := authority.Open(ctx, authority.Options{Dir: *dir, Own: *own})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	failed := make(chan error)
	for w := range *writers {
		go func() {
			for n := 0; ; n++ {
				title := fmt.Sprintf("%s.%d.%d", *name, w, n)
				if err := r.Update(ctx, func(tx *authority.Tx) error { return threefold(tx, title) }); err != nil {
					failed <- err
					return
				}
				fmt.Println(title) // one write
			}
		}()
	}
	fmt.Fprintln(os.Stderr, <-failed)
	return 1
}

func threefold(tx *authority.Tx, title string) error {
	if _, err := tx.OpenTask(title, title); err != nil {
		return err
	}
	if _, err := tx.AddLine(title); err != nil {
		return err
	}
	_, err := tx.EnsureActor(title, "")
	return err
}

// victim is a process that is going to be killed.
type victim struct {
	cmd  *exec.Cmd
	said []string // titles that it has printed, complete lines only
}

// run starts the process, kills it after so many lines and a moment, and reports
// whether it died of that.
func (v *victim) run(lines int, moment time.Duration) (killed bool, err error) {
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	var messages strings.Builder
	v.cmd.Stderr = &messages
	if err := v.cmd.Start(); err != nil {
		return false, err
	}
	kill := func() { _ = v.cmd.Process.Kill() } // it may have ended by itself
	var timer *time.Timer
	if lines == 0 {
		timer = time.AfterFunc(moment, kill)
	}
	read := bufio.NewReader(out)
	for {
		line, err := read.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break // a line without its end was not said
		}
		if err != nil {
			return false, err
		}
		v.said = append(v.said, strings.TrimSuffix(line, "\n"))
		if len(v.said) == lines {
			timer = time.AfterFunc(moment, kill)
		}
	}
	err = v.cmd.Wait()
	if timer != nil {
		timer.Stop()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == -1 {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("%v: %w\n%s", v.cmd.Args, err, &messages)
	}
	return false, nil
}

// TestKill kills processes that write to one data directory at random moments:
// everything that one of them had said is there afterwards, nothing is there in
// part, and the authority is sound.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(map[bool]string{false: "several processes", true: "an owner with 8 writers"}[own], func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			a, err := authority.Create(t.Context(), authority.Options{Dir: dir}, "widgets", 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			k := &killer{dir: dir, own: own, said: map[string]bool{}, rng: rand.New(rand.NewPCG(1, 2))}
			rounds := 0
			for ; k.kills < *killsWanted/2; rounds++ {
				k.round(t, rounds)
				if t.Failed() {
					return
				}
			}
			t.Logf("%d processes killed in %d rounds, %d batches of them were acknowledged", k.kills, rounds, len(k.said))
		})
	}
}

type killer struct {
	dir   string
	own   bool
	rng   *rand.Rand
	said  map[string]bool
	kills int
}

// round kills some processes at once and looks at what they leave.
func (k *killer) round(t *testing.T, number int) {
	t.Helper()
	var victims []*victim
	add := func(program string, args ...string) {
		victims = append(victims, &victim{cmd: exec.Command(program, args...)})
	}
	name := func() string { return fmt.Sprintf("r%d.p%d", number, len(victims)) }
	if k.own {
		add("writ-storm", "--data", k.dir, "--name", name(), "--writers", "8", "--own")
	} else {
		for range 3 {
			add("writ-storm", "--data", k.dir, "--name", name())
		}
		add("writ", "--data", k.dir, "task", "open", "--repository", "4", name())
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, v := range victims {
		lines, moment := 1+k.rng.IntN(12), time.Duration(k.rng.IntN(3000))*time.Microsecond
		if v.cmd.Args[0] == "writ" {
			lines, moment = 0, time.Duration(k.rng.IntN(40))*time.Millisecond
		}
		wg.Go(func() {
			killed, err := v.run(lines, moment)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if killed {
				k.kills++
			}
			for _, title := range v.said {
				if v.cmd.Args[0] == "writ" {
					title = v.cmd.Args[len(v.cmd.Args)-1] // whatever it printed, it had opened the Task
				}
				k.said[title] = true
			}
		})
	}
	wg.Wait()
	if out, err := exec.Command("writ", "--data", k.dir, "db", "check").CombinedOutput(); err != nil {
		t.Fatalf("round %d: writ db check: %v\n%s", number, err, out)
	}
	if err := k.compare(t.Context()); err != nil {
		t.Fatalf("round %d: %v", number, err)
	}
}

// compare reads the whole authority.
func (k *killer) compare(ctx context.Context) (err error) {
	a, err := authority.Open(ctx, authority.Options{Dir: k.dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	r, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		return err
	}
	return r.View(ctx, func(v *authority.View) error {
		there := map[string]string{} // the families in which a title is
		add := func(mark, title string) { there[title] += mark }
		n, err := bindb.Tasks.Count(v)
		for i := uint32(0); i < n && err == nil; i++ {
			var x authority.Task
			x, err = v.Task(i)
			add("T", x.Title)
		}
		if err == nil {
			n, err = bindb.Lines.Count(v)
		}
		for i := uint32(0); i < n && err == nil; i++ {
			var x authority.Line
			x, err = v.Line(i)
			add("L", x.Name)
		}
		if err == nil {
			n, err = bindb.Actors.Count(v)
		}
		for i := uint32(0); i < n && err == nil; i++ {
			var x authority.Actor
			x, err = v.Actor(i)
			add("A", x.Name)
		}
		if err != nil {
			return err
		}
		for title, marks := range there {
			want := "TLA"
			if strings.Count(title, ".") == 1 {
				want = "T" // by writ task open
			}
			if marks != want {
				return fmt.Errorf("%s is there in part, or twice: %s", title, marks)
			}
		}
		for title := range k.said {
			if there[title] == "" {
				return fmt.Errorf("%s was acknowledged and is gone", title)
			}
		}
		return nil
	})
}
