package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var cellKills = flag.Int("cellkills", 6, "how many commands TestKillCells ends with SIGKILL in a storm over 50 cells")

const (
	// Asks for an effect, and counts those that succeeded.
	effectCell = `let reply = host(["exec" "effect" 0]); if head(reply) == 0 { ~mem + event } else { ~mem }`
	// Takes several slices.
	slowCell = `let n = 120; loop { if n == 0 { ~mem + event } else { rebind n = n - 1; continue } }`
)

// cellStorm is a store of cells whose commands are killed.
type cellStorm struct {
	t     *testing.T
	dir   string
	rng   *rand.Rand
	kills int

	cells   []string
	sent    map[string]sentInput // by nonce
	charged map[string]uint64    // the most that was seen of an input, by its event
	index   map[string]uint64    // the newest commit that was seen of a cell
}

// sentInput is an input that may have been admitted.
type sentInput struct {
	cell, noun, commit string // the commit is empty while nobody has said it
}

// TestKillCells kills commands that send inputs to cells, run them, perform their acts
// and change their lifecycles, at random moments. What a command has said is there
// afterwards, no effect happens twice, no budget is reset, and all of it can be run
// again.
func TestKillCells(t *testing.T) {
	t.Parallel()
	s := &cellStorm{
		t: t, dir: t.TempDir(), rng: rand.New(rand.NewPCG(5, 6)),
		sent: map[string]sentInput{}, charged: map[string]uint64{}, index: map[string]uint64{},
	}
	script := fmt.Sprintf("#!/bin/sh\necho \"$WRIT_ATTEMPT\" >>%s\n", s.path("effects"))
	for name, text := range map[string]string{"effect.rune": effectCell, "slow.rune": slowCell, "effect": script} {
		if err := os.WriteFile(s.path(name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cells := 50
	if testing.Short() {
		cells = 8
	}
	for i := range cells {
		source := s.path([]string{"effect.rune", "slow.rune"}[i%2])
		out, _ := s.command(0, "create", "--source", source, "--state", "0", "--allow", "host", "--nonce", fmt.Sprintf("%064x", i))
		s.cells = append(s.cells, s.decode(out)["cell"].(string))
	}
	for step := 0; s.kills < *cellKills && !t.Failed(); step++ {
		s.step(step)
	}
	if t.Failed() {
		return
	}
	s.end()
	t.Logf("%d commands were killed, %d inputs sent, %d seen to run, %d effects have happened",
		s.kills, len(s.sent), len(s.charged), strings.Count(s.effects(), "\n"))
}

func (s *cellStorm) path(name string) string { return filepath.Join(s.dir, name) }

// command runs `writ cell`. A moment above 0 kills it then, and killed tells whether it
// died of that. A command that was refused has no output; any other failure is one
// of the test.
func (s *cellStorm) command(moment time.Duration, args ...string) (out []byte, killed bool) {
	s.t.Helper()
	c := exec.Command("writ", append([]string{"--data", s.path("data"), "--json", "cell"}, args...)...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	if moment > 0 {
		timer := time.AfterFunc(moment, func() { _ = c.Process.Kill() }) // it may have ended
		defer timer.Stop()
	}
	err := c.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() == -1:
		s.kills++
		return stdout.Bytes(), true
	case errors.As(err, &exit) && slices.Contains([]int{1, 3, 4}, exit.ExitCode()):
		return nil, false // by the state of the cell, without an input, or by what was recorded before
	default:
		s.t.Fatalf("%v: %v\n%s", c.Args, err, &stderr)
	}
	return stdout.Bytes(), false
}

// decode reads the one document of a command, or of its complete first line.
func (s *cellStorm) decode(out []byte) map[string]any {
	s.t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(out))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	return v
}

func (s *cellStorm) moment() time.Duration {
	return time.Duration(1+s.rng.IntN(60_000)) * time.Microsecond
}

func (s *cellStorm) step(n int) {
	cell := s.cells[s.rng.IntN(len(s.cells))]
	switch s.rng.IntN(8) {
	default:
		for k := range 6 {
			s.send(fmt.Sprintf("%062x%02x", 1000+n, k), s.cells[s.rng.IntN(len(s.cells))], fmt.Sprint(1+s.rng.IntN(9)), 0)
		}
		s.run()
	case 4:
		s.send(fmt.Sprintf("%062x%02x", 1000+n, 99), cell, fmt.Sprint(1+s.rng.IntN(9)), s.moment())
	case 5:
		s.command(s.moment(), "pause", cell)
	case 6:
		s.command(s.moment(), "resume", cell)
	case 7:
		s.command(s.moment(), "cancel", cell)
	}
	s.look(cell)
	if s.rng.IntN(8) == 0 {
		s.settle(s.moment())
	}
}

// run lets all cells run and kills that soon after it has said something.
func (s *cellStorm) run() {
	s.t.Helper()
	v := &victim{cmd: exec.Command("writ", "--data", s.path("data"), "--json", "cell", "run", "--exec", "effect="+s.path("effect"))}
	killed, err := v.run(1+s.rng.IntN(12), time.Duration(s.rng.IntN(6000))*time.Microsecond)
	var exit *exec.ExitError
	if killed {
		s.kills++
	} else if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		s.t.Error(err)
	}
}

// send sends an input, for the first time or again. Once it was said to be admitted
// with a commit, it is that one for ever.
func (s *cellStorm) send(nonce, cell, noun string, moment time.Duration) {
	s.t.Helper()
	before, known := s.sent[nonce]
	out, killed := s.command(moment, "send", cell, noun, "--nonce", nonce)
	input := sentInput{cell, noun, before.commit}
	if !killed && out != nil {
		head := s.decode(out)["head"].(map[string]any)
		input.commit = fmt.Sprint(head["index"], " ", head["commit"])
		if before.commit != "" && before.commit != input.commit {
			s.t.Errorf("the input %s of cell %s was commit %s, and is %s now", nonce, cell, before.commit, input.commit)
		}
	} else if !killed && before.commit != "" {
		s.t.Errorf("the input %s of cell %s was commit %s, and is refused now", nonce, cell, before.commit)
	}
	if killed || input.commit != "" || known {
		s.sent[nonce] = input
	}
}

// look compares a cell with what was seen of it.
func (s *cellStorm) look(cell string) (progress string, input map[string]any) {
	s.t.Helper()
	out, _ := s.command(0, "show", cell)
	v := s.decode(out)
	number := func(v any) (n uint64) {
		if _, err := fmt.Sscan(fmt.Sprint(v), &n); err != nil {
			s.t.Fatalf("%v is no number", v)
		}
		return n
	}
	index := number(v["head"].(map[string]any)["index"])
	if index < s.index[cell] {
		s.t.Errorf("cell %s was at commit %d, and is at %d now", cell, s.index[cell], index)
	}
	s.index[cell] = index
	input, _ = v["input"].(map[string]any)
	if input != nil {
		event, charged := input["event"].(string), number(input["charged"])
		if charged < s.charged[event] {
			s.t.Errorf("the input %s of cell %s had %d steps charged, and has %d now", event, cell, s.charged[event], charged)
		}
		s.charged[event] = charged
	}
	return v["progress"].(string), input
}

// settle says what became of an attempt whose outcome is unknown: the file of the
// effects tells.
func (s *cellStorm) settle(moment time.Duration) {
	s.t.Helper()
	for cell, progress := range s.progress() {
		if progress != "unknown" {
			continue
		}
		_, input := s.look(cell)
		act := input["act"].(map[string]any)
		operation, attempt := act["operation"].(string), act["attempt"].(string)
		outcome := []string{"--fail", "it was killed before"}
		if strings.Contains(s.effects(), attempt) {
			outcome = []string{"--value", "[0, [[0, 0], [0, 0]]]"}
		}
		_, killed := s.command(moment, append([]string{"settle", cell, operation, attempt}, outcome...)...)
		if killed {
			// It stays unknown or is settled as it was said; nothing else may be recorded then.
			if progress, _ := s.look(cell); progress != "unknown" {
				if out, _ := s.command(0, "settle", cell, operation, attempt, "--value", "99"); out != nil {
					s.t.Errorf("another outcome of the attempt %s is taken", attempt)
				}
			}
		}
		if moment > 0 {
			return
		}
	}
}

// progress tells what each cell does.
func (s *cellStorm) progress() map[string]string {
	s.t.Helper()
	out, _ := s.command(0, "list")
	progress := map[string]string{}
	for _, row := range s.decode(out)["cells"].([]any) {
		row := row.(map[string]any)
		progress[row["cell"].(string)] = row["progress"].(string)
	}
	if len(progress) != len(s.cells) {
		s.t.Errorf("%d cells are listed, expected %d", len(progress), len(s.cells))
	}
	return progress
}

func (s *cellStorm) effects() string {
	b, err := os.ReadFile(s.path("effects"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(b)
}

// end lets everything go on to its end, and checks all of it.
func (s *cellStorm) end() {
	for _, cell := range s.cells {
		s.command(0, "resume", cell)
	}
	for range 3 { // what was settled runs on, and may ask again
		s.settle(0)
		s.command(0, "run", "--exec", "effect="+s.path("effect"))
	}
	for cell, progress := range s.progress() {
		if progress != "idle" {
			s.t.Errorf("cell %s is %s", cell, progress)
		}
	}
	for nonce, input := range s.sent {
		s.send(nonce, input.cell, input.noun, 0)
	}
	seen := map[string]bool{}
	for attempt := range strings.Lines(s.effects()) {
		if seen[attempt] {
			s.t.Errorf("the effect of the attempt %s happened twice", strings.TrimSpace(attempt))
		}
		seen[attempt] = true
	}
	for _, check := range []string{"verify", "replay"} {
		if out, _ := s.command(0, check); out == nil {
			s.t.Errorf("writ cell %s is not satisfied", check)
		}
	}
}
