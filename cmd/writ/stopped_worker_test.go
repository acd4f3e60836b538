package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// TestStoppedWorker stops a worker for longer than its lease, as a debugger or a
// machine that sleeps would. Somebody else gets the job meanwhile and ends it; the
// worker changes nothing when it runs again, and its command is ended.
func TestStoppedWorker(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"its command runs on":     `echo $$ > "$0"; exec sleep 600`,
		"its command has results": `echo $$ > "$0"; while ! test -e "$0.go"; do sleep 0.02; done; echo result artifact:first >&3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newServed(t)
			v.start(t)
			h, err := v.client.Submit(t.Context(), &workitem.SubmitInput{Request: stormRequest("job", "")})
			if err != nil {
				t.Fatal(err)
			}
			note := filepath.Join(v.dir, "pid")
			w := exec.Command("writ", "--data", v.dir, "worker", "--kind", "repository.build", "--once", "--lease", "500ms",
				"--worker", "first", "--grace", "100ms", "--exec", "sh", "--", "-c", script, note)
			said := &strings.Builder{}
			w.Stdout, w.Stderr = said, said
			if err := w.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = w.Process.Kill() // it has ended, unless the test has failed
				if t.Failed() {
					t.Logf("the worker says:\n%s", said)
				}
			})
			var pid int
			eventually(t, "the command has started", func() bool {
				text, err := os.ReadFile(note)
				pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
				return err == nil && pid > 0
			})
			if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			second := takeOver(t, v, h.JobID)
			if err := os.WriteFile(note+".go", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(script, ".go") {
				eventually(t, "the command has ended", func() bool { return !runs(pid) })
			}
			if err := w.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			_ = w.Wait() // what it makes of its loss is tested elsewhere
			if runs(pid) {
				t.Error("the command of the worker still runs")
			}
			view, err := v.client.Get(t.Context(), &workitem.GetInput{JobID: h.JobID})
			if err != nil {
				t.Fatal(err)
			}
			if view.State != "running" && view.State != "leased" || view.Lease.Owner != "second" || view.ResultRef != nil {
				t.Errorf("the job is %s with the lease %+v and the result %v", view.State, view.Lease, view.ResultRef)
			}
			ref := "artifact:second"
			s, err := v.client.Commit(t.Context(), &workitem.CommitInput{JobID: h.JobID, Claim: second.Fence(), Outcome: "succeeded", ResultRef: &ref})
			if err != nil || s.Status != workitem.Committed {
				t.Fatalf("the commit of the second worker is answered with %+v, %v", s, err)
			}
			v.stop(t)
		})
	}
}

// takeOver claims a job as soon as its lease has run out.
func takeOver(t *testing.T, v *served, id string) *workitem.Claim {
	t.Helper()
	var a *workitem.ClaimAnswer
	eventually(t, "the lease has run out", func() (claimed bool) {
		var err error
		a, err = v.client.Claim(t.Context(), &workitem.ClaimInput{JobID: id, Worker: "second"})
		if err != nil {
			t.Fatal(err)
		}
		return a.Claimed
	})
	return a.Claim
}

// eventually looks until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		case <-again.C:
		}
	}
}

// runs says whether there is a process that has not ended. Those of a stopped
// parent stay as zombies until it runs again.
func runs(pid int) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}
