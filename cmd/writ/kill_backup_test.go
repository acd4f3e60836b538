package main_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/workitem"
)

var backupKills = flag.Int("backupkills", 12, "how many backups and restores TestKillBackups ends")

// TestKillBackups ends backups of a server that is written to, and restores of them, by
// SIGKILL or an interrupt at any moment. What has its name is whole; an interrupted one
// leaves nothing at all; and the server does not notice.
func TestKillBackups(t *testing.T) {
	t.Parallel()
	v := newServed(t)
	rng := rand.New(rand.NewPCG(5, 12))
	v.start(t)
	s := newJobStorm(v.client)
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() { s.work(ctx, i) })
	}
	dir := t.TempDir()
	made := filepath.Join(dir, "made")
	began := time.Now()
	if out, err := exec.Command("writ", "backup", "create", made, "--data", v.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	took := time.Since(began)
	finished := 0
	for i := range *backupKills {
		at := filepath.Join(dir, fmt.Sprint(i))
		args := []string{"backup", "create", at, "--data", v.dir}
		if i%2 == 1 {
			args = []string{"backup", "restore", made, "--data", at}
		}
		cmd := exec.Command("writ", args...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(rng.Int64N(int64(took)))) // as good as any moment
		interrupted := i%4 >= 2
		how := os.Kill
		if interrupted {
			how = os.Interrupt
		}
		_ = cmd.Process.Signal(how) // it may have ended
		err := cmd.Wait()
		_, missing := os.Lstat(at)
		switch left, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf(".%d.partial-*", i))); {
		case interrupted && len(left) > 0:
			t.Errorf("writ %s was interrupted and leaves %v\n%s", args[1], left, said.String())
		case err == nil && missing != nil:
			t.Errorf("writ %s has succeeded and made nothing\n%s", args[1], said.String())
		case errors.Is(missing, os.ErrNotExist):
			continue
		}
		finished++
		check := exec.Command("writ", "backup", "verify", at)
		if i%2 == 1 {
			check = exec.Command("writ", "job", "stats", "--data", at)
		}
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("what writ %s has made before it was killed: %v\n%s", args[1], err, out)
		}
	}
	t.Logf("%d of %d had finished", finished, *backupKills)
	stop()
	workers.Wait()
	for _, err := range s.wrong {
		t.Error(err)
	}
	s.compare(t)

	// What the clients were told before a backup is in it.
	last := filepath.Join(dir, "last")
	fresh, err := os.MkdirTemp("", "writ-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(fresh) })
	for _, args := range [][]string{{"backup", "create", last, "--data", v.dir}, {"backup", "restore", last, "--data", fresh}} {
		if out, err := exec.Command("writ", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	v.stop(t)
	restored := &served{dir: fresh}
	if restored.client, err = client.New(client.Config{Socket: filepath.Join(fresh, "runtime", "writ.sock"), Token: "dev:local:tester:jobs%3Aadmin"}); err != nil {
		t.Fatal(err)
	}
	restored.start(t)
	s.servers = []*client.Client{restored.client}
	s.compare(t)
	if a, err := restored.client.RaiseEpoch(t.Context(), &workitem.NoInput{}); err != nil || a.Previous != 1 {
		t.Error(a, err)
	}
	restored.stop(t)
}
