package main_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"writ":       func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"writ-storm": func() { os.Exit(storm(os.Args[1:])) },
	})
}

// TestScripts runs the binary as a person would. Every script has a home, a
// configuration of Git and a folder for temporary files of its own; when it ends,
// no checkout may be left there and every authority that it made must be sound.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup:              setup,
		Condition:          condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":        code,
			"commit":      commit,
			"database":    database,
			"fifo":        fifo,
			"fill":        fill,
			"flip":        flip,
			"git":         git,
			"json":        jsonValue,
			"keep":        keep,
			"lasting":     lasting,
			"mount":       mount,
			"occupy":      occupy,
			"over":        over,
			"predecessor": predecessor,
			"prints":      prints,
			"receive":     receive,
			"same":        same,
			"says":        says,
			"schema":      schema,
			"send":        send,
			"signal":      signal,
			"start":       start,
			"told":        told,
			"unsound":     unsound,
			"finish":      finish,
		},
	})
}

// patience is how long a script waits for what must happen soon.
const patience = 30 * time.Second

// world is what the commands of one script share.
type world struct {
	t       testing.TB
	vars    []string
	unsound bool
	lasting bool

	processes map[string]*process
	fifos     map[string]*os.File
	digests   map[string]string
}

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func setup(e *testscript.Env) error {
	home := filepath.Join(e.WorkDir, "home")
	tmp := filepath.Join(e.WorkDir, ".tmp")
	for _, dir := range []string{home, tmp} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	config := filepath.Join(home, "gitconfig")
	text := "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n[advice]\n\tdetachedHead = false\n"
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		return err
	}
	e.Setenv("HOME", home)
	e.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	e.Setenv("GIT_CONFIG_GLOBAL", config)
	e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	e.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(e.WorkDir))
	e.Setenv("TMPDIR", tmp)
	e.Setenv("LC_ALL", "C")
	e.Setenv("GORACE", "atexit_sleep_ms=0") // a second at the end of every command otherwise
	e.Setenv("GOPROXY", "off")
	e.Setenv("GOTOOLCHAIN", "local")
	e.Setenv("GOCACHE", goCache())
	w := &world{t: e.T().(testing.TB), vars: e.Vars, processes: map[string]*process{}, fifos: map[string]*os.File{}, digests: map[string]string{}}
	e.Values[worldKey{}] = w
	e.Defer(func() {
		w.end()
		if !w.t.Failed() {
			w.inspect(w.t, e.WorkDir, tmp)
		}
	})
	return nil
}

// goCache is the build cache of whoever runs the tests: a script that tests a Go
// module need not compile the standard library.
var goCache = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return filepath.Join(os.TempDir(), "go-build")
	}
	return strings.TrimSpace(string(out))
})

// end ends the processes that a script has left.
func (w *world) end() {
	for _, p := range w.processes {
		p.end()
	}
	for _, f := range w.fifos {
		_ = f.Close() // nothing is waiting in it any more
	}
}

// inspect looks for what a script must not leave.
func (w *world) inspect(t testing.TB, dir, tmp string) {
	if left, err := filepath.Glob(filepath.Join(tmp, "writ-*")); err != nil || len(left) > 0 && !w.lasting {
		t.Errorf("left in TMPDIR: %v (%v)", left, err)
	}
	if w.unsound {
		return
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "active.json" {
			err = checkAuthority(filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// checkAuthority validates every record of an authority.
func checkAuthority(dir string) (err error) {
	ctx := context.Background()
	a, err := authority.Open(ctx, authority.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	findings, err := a.Registry().Check(ctx)
	if err != nil {
		return err
	}
	list, err := a.Repositories(ctx)
	if err != nil {
		return err
	}
	for _, info := range list {
		r, err := a.Repository(ctx, info.Index)
		if err != nil {
			return err
		}
		more, err := r.Root().Check(ctx)
		if err != nil {
			return err
		}
		findings = append(findings, more...)
	}
	for _, f := range findings {
		err = errors.Join(err, fmt.Errorf("%s: %s", dir, f))
	}
	return err
}

// condition knows [mount], whether file systems can be mounted here, and [root].
func condition(name string) (bool, error) {
	switch name {
	case "mount":
		return canMount(), nil
	case "root":
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

var canMount = sync.OnceValue(func() bool {
	dir, err := os.MkdirTemp("", "mount-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if err := mountSmall(dir, "64k"); err != nil {
		return false
	}
	return unmount(dir) == nil
})
