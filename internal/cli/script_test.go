package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts drive the real program as a person would: testscript puts this test
// binary on the PATH as writ.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"writ": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: isolate,
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitfor": waitFor,
			"signal":  sendSignal,
			"gone":    gone,
			"tmpfs":   tmpfs,
			"flip":    flip,
		},
	})
}

// isolate keeps the user's configuration out. Temporary files of a script lie below
// its own TMPDIR, so that it can see what is left of them.
func isolate(env *testscript.Env) error {
	config := filepath.Join(env.WorkDir, ".gitconfig")
	text := "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return err
	}
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("GIT_CONFIG_GLOBAL", config)
	env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	env.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
	env.Setenv("GOFLAGS", "-buildvcs=false")
	return nil
}

// patience bounds every wait of a script.
const patience = 20 * time.Second

func until(ts *testscript.TestScript, what string, ready func() bool) {
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-deadline:
			ts.Fatalf("%s did not happen within %s", what, patience)
		case <-tick.C:
		}
	}
}

// waitfor FILE waits until a process has written something to a file.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	until(ts, "writing "+args[0], func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > 0
	})
}

// signal NAME FILE sends a signal to the process whose id a file holds.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM}
	ts.Check(syscall.Kill(pid(ts, args[1]), signals[args[0]]))
}

func pid(ts *testscript.TestScript, file string) int {
	n, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(file)))
	ts.Check(err)
	return n
}

// gone FILE waits until the process whose id a file holds has ended.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	n := pid(ts, args[0])
	until(ts, fmt.Sprintf("the end of process %d", n), func() bool {
		if syscall.Kill(n, 0) == syscall.ESRCH {
			return true
		}
		// One that has ended may wait to be collected by its new parent.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		return err != nil && os.IsNotExist(err) || strings.Contains(string(stat), ") Z ")
	})
}

// tmpfs DIR OPTIONS mounts a small file system, or mounts it again with other
// options. It skips the script where that is not allowed.
func tmpfs(ts *testscript.TestScript, _ bool, args []string) {
	dir, options := ts.MkAbs(args[0]), args[1]
	if strings.HasPrefix(options, "remount") {
		ts.Exec("mount", "-o", options, dir)
		return
	}
	ts.Check(os.MkdirAll(dir, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
		ts.Fatalf("skip: a tmpfs cannot be mounted here: %v %s", err, out)
	}
	ts.Defer(func() { _ = exec.Command("umount", "-l", dir).Run() })
}

// flip FILE OFFSET inverts one byte of a file.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	b[at] ^= 0xff
	ts.Check(os.WriteFile(path, b, 0o600))
}
