package main_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// usage fails a script whose command has another number of arguments, or a
// negation that means nothing.
func usage(ts *testscript.TestScript, neg bool, args []string, least, most int, text string) {
	if neg || len(args) < least || len(args) > most {
		ts.Fatalf("usage: %s", text)
	}
}

const anyNumber = 1 << 10

// code runs a program that must end with exactly this exit code.
func code(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, anyNumber, "code N program [argument...]")
	expectCode(ts, args[0], ts.Exec(args[1], args[2:]...))
}

func expectCode(ts *testscript.TestScript, want string, err error) {
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != want {
		ts.Fatalf("exit code %d, want %s\n%s%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// git runs Git.
func git(ts *testscript.TestScript, neg bool, args []string) {
	if err := ts.Exec("git", args...); (err != nil) != neg {
		ts.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, ts.ReadFile("stderr"))
	}
}

// commit commits everything that is in the work tree.
func commit(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1, 1, "commit MESSAGE")
	git(ts, false, []string{"add", "-A"})
	git(ts, false, []string{"commit", "-q", "--allow-empty", "-m", args[0]})
}

// process is a program that runs beside the script.
type process struct {
	cmd     *exec.Cmd
	out     messages
	err     messages
	done    chan struct{} // closed when it has been waited for
	failure error
}

// messages is what a process has written so far.
type messages struct {
	mu      sync.Mutex
	text    []byte
	changed chan struct{} // closed by the next write; nil when nobody waits
}

func (m *messages) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = append(m.text, b...)
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
	return len(b), nil
}

// now returns what was written so far, and a channel that the next write closes.
func (m *messages) now() (string, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return string(m.text), m.changed
}

func (p *process) end() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// start starts a program beside the script, under a name.
func start(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, anyNumber, "start NAME program [argument...]")
	w := worldOf(ts)
	p := &process{cmd: exec.Command(args[1], args[2:]...), done: make(chan struct{})}
	p.cmd.Dir = ts.MkAbs(".")
	for _, v := range w.vars {
		name, _, _ := strings.Cut(v, "=")
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	p.cmd.Env = append(p.cmd.Env, "PWD="+p.cmd.Dir)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = time.Second
	if other := w.processes[args[0]]; other != nil {
		other.end()
	}
	ts.Check(p.cmd.Start())
	w.processes[args[0]] = p
	go func() { // ends with the process, which the script's end ends
		p.failure = p.cmd.Wait()
		close(p.done)
	}()
}

func started(ts *testscript.TestScript, name string) *process {
	p := worldOf(ts).processes[name]
	if p == nil {
		ts.Fatalf("%s was not started", name)
	}
	return p
}

// says waits until a program that was started has written this to standard error.
func says(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, 2, "says NAME TEXT")
	p := started(ts, args[0])
	await(ts, p, &p.err, args[1])
}

// prints waits until a program that was started has written this to standard
// output.
func prints(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, 2, "prints NAME TEXT")
	p := started(ts, args[0])
	await(ts, p, &p.out, args[1])
}

// told sets an environment variable to a value of the JSON document that a program
// which was started has printed so far.
func told(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 3, 3, "told NAME VARIABLE PATH")
	text, _ := started(ts, args[0]).out.now()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		ts.Fatalf("%s has not printed JSON: %v\n%s", args[0], err, text)
	}
	got, ok := find(v, args[2])
	if !ok {
		ts.Fatalf("there is no %s\n%s", args[2], text)
	}
	ts.Setenv(args[1], got)
}

func await(ts *testscript.TestScript, p *process, m *messages, want string) {
	late := time.After(patience)
	for {
		text, changed := m.now()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-changed:
		case <-p.done:
			if text, _ := m.now(); strings.Contains(text, want) {
				return
			}
			other, _ := p.err.now()
			ts.Fatalf("%v has ended and written %q, not %q\n%s", p.cmd.Args, text, want, other)
		case <-late:
			ts.Fatalf("%v has written only %q, not %q", p.cmd.Args, text, want)
		}
	}
}

// signal sends a signal to a program that was started.
func signal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, 2, "signal NAME INT|TERM|KILL")
	known := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "KILL": os.Kill}
	s, ok := known[args[1]]
	if !ok {
		ts.Fatalf("unknown signal %s", args[1])
	}
	ts.Check(started(ts, args[0]).cmd.Process.Signal(s))
}

// finish waits for a program that was started and expects its exit code, which is
// -1 for one that a signal has ended. What it printed can be matched then.
func finish(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, 2, "finish NAME N")
	p := started(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(patience):
		text, _ := p.err.now()
		ts.Fatalf("%s does not end\n%s", args[0], text)
	}
	delete(worldOf(ts).processes, args[0])
	_, _ = ts.Stdout().Write(p.out.text) // writers to memory
	_, _ = ts.Stderr().Write(p.err.text)
	expectCode(ts, args[1], p.failure)
}

// fifo makes named pipes in $WORK, through which suites and script wait for each
// other. They stay open at both ends, so that a suite can write without a reader.
func fifo(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1, anyNumber, "fifo NAME...")
	for _, name := range args {
		path := filepath.Join(ts.Getenv("WORK"), name)
		ts.Check(syscall.Mkfifo(path, 0o666))
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		ts.Check(err)
		worldOf(ts).fifos[name] = f
	}
}

func fifoOf(ts *testscript.TestScript, name string) *os.File {
	f := worldOf(ts).fifos[name]
	if f == nil {
		ts.Fatalf("there is no fifo %s", name)
	}
	return f
}

// send writes a line into a pipe.
func send(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, 2, "send FIFO TEXT")
	_, err := io.WriteString(fifoOf(ts, args[0]), args[1]+"\n")
	ts.Check(err)
}

// receive waits for a line in a pipe and expects this text.
func receive(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, 2, "receive FIFO TEXT")
	f := fifoOf(ts, args[0])
	ts.Check(f.SetReadDeadline(time.Now().Add(patience)))
	var text []byte
	for b := [1]byte{}; ; text = append(text, b[0]) {
		if _, err := f.Read(b[:]); err != nil {
			ts.Fatalf("%s: %v after %q", args[0], err, text)
		}
		if b[0] == '\n' {
			break
		}
	}
	if string(text) != args[1] {
		ts.Fatalf("%s says %q, want %q", args[0], text, args[1])
	}
}

// over waits until no process has the pipe open any more: what a suite has
// started with it open is gone then.
func over(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1, 1, "over FIFO")
	f, err := os.OpenFile(filepath.Join(ts.Getenv("WORK"), args[0]), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	ts.Check(err)
	defer f.Close()
	w := worldOf(ts)
	ts.Check(fifoOf(ts, args[0]).Close()) // our own writing end
	delete(w.fifos, args[0])
	ts.Check(f.SetReadDeadline(time.Now().Add(patience)))
	if _, err := io.Copy(io.Discard, f); err != nil {
		ts.Fatalf("%s is still held: %v", args[0], err)
	}
}

// occupy opens the store of the jobs of a data directory, until the script ends.
func occupy(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1, 1, "occupy DATA")
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(ts.MkAbs(args[0]), "work.db")})
	ts.Check(err)
	ts.Defer(func() { ts.Check(store.Close()) })
}

// unsound says that the script damages its authority, which is not checked in the
// end then.
func unsound(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 0, 0, "unsound")
	worldOf(ts).unsound = true
}

// lasting says that the script leaves a checkout, because nothing can remove it.
func lasting(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 0, 0, "lasting")
	worldOf(ts).lasting = true
}

// flip inverts the first byte of a field of a record.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 3, 3, "flip FILE RECORD FIELD")
	path := ts.MkAbs(args[0])
	layout, ok := record.ByFile(filepath.Base(path))
	if !ok {
		ts.Fatalf("%s is no record file", path)
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	i := slices.IndexFunc(layout.Fields, func(f record.Field) bool { return f.Name == args[2] })
	if i < 0 {
		ts.Fatalf("%s has no field %s", layout.Name, args[2])
	}
	b, err := os.ReadFile(path)
	ts.Check(err)
	b[bindb.HeaderSize+n*layout.Size+layout.Fields[i].Offset] ^= 0xff
	ts.Check(os.WriteFile(path, b, 0o600))
}

// same remembers a folder under a name, or expects it to be as it was. Folders named
// runtime and lock files, which are no authority, are not looked at.
func same(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, 2, "same NAME DIR")
	h := sha256.New()
	root := ts.MkAbs(args[1])
	ts.Check(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "runtime" || d.Name() == ".locks") {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".lock" {
			return nil
		}
		fmt.Fprintf(h, "%q %v\n", path, d.Type())
		if !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(h, "%x\n", sha256.Sum256(b))
		return err
	}))
	now := fmt.Sprintf("%x", h.Sum(nil))
	w := worldOf(ts)
	if was, ok := w.digests[args[0]]; ok && was != now {
		ts.Fatalf("%s has changed", args[1])
	}
	w.digests[args[0]] = now
}

// document is the one JSON document that the last command has printed.
func document(ts *testscript.TestScript) any {
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		ts.Fatalf("the output is not JSON: %v\n%s", err, ts.ReadFile("stdout"))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		ts.Fatalf("something follows the JSON document\n%s", ts.ReadFile("stdout"))
	}
	return v
}

// schema expects one JSON document of this schema.
func schema(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1, 1, "schema NAME")
	o, ok := document(ts).(map[string]any)
	if !ok || o["schema"] != args[0] {
		ts.Fatalf("the document is no %s but %v", args[0], o["schema"])
	}
}

// jsonValue compares a value of the JSON document. A path is made of members,
// indices, name=value for the first element of an array that has it, and len for
// the length of an array. With ! the value must be another, or absent.
func jsonValue(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, false, args, 2, 2, "[!] json PATH VALUE")
	got, ok := find(document(ts), args[0])
	if equal := ok && got == args[1]; equal == neg {
		ts.Fatalf("%s is %q (there: %v), want %q (negated: %v)\n%s", args[0], got, ok, args[1], neg, ts.ReadFile("stdout"))
	}
}

// keep sets an environment variable to a value of the JSON document.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, 2, "keep VARIABLE PATH")
	got, ok := find(document(ts), args[1])
	if !ok {
		ts.Fatalf("there is no %s\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], got)
}

func find(v any, path string) (string, bool) {
	for step := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[step]; !ok {
				return "", false
			}
		case []any:
			var ok bool
			if v, ok = element(x, step); !ok {
				return "", false
			}
		default:
			return "", false
		}
	}
	return fmt.Sprint(v), true
}

func element(list []any, step string) (any, bool) {
	if step == "len" {
		return len(list), true
	}
	if name, value, ok := strings.Cut(step, "="); ok {
		for _, v := range list {
			if o, ok := v.(map[string]any); ok && fmt.Sprint(o[name]) == value {
				return v, true
			}
		}
		return nil, false
	}
	i, err := strconv.Atoi(step)
	if err != nil || i < 0 || i >= len(list) {
		return nil, false
	}
	return list[i], true
}

// database makes a database on a PostgreSQL server, which syncs, and sets a variable to
// its URL, also for programs that are started. Without PostgreSQL the script is skipped.
func database(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1, 1, "database NAME")
	w := worldOf(ts)
	ts.Setenv(args[0], pgtest.Shared(w.t, pgtest.Options{Durable: true}).Database(w.t))
	w.vars = append(slices.Clip(w.vars), args[0]+"=") // they are shared
}

// mount puts a small file system on a folder, or shows it read-only or writable
// again. It ends with the script.
func mount(ts *testscript.TestScript, neg bool, args []string) {
	const text = "mount small DIR SIZE | mount readonly DIR | mount off DIR"
	usage(ts, neg, args, 2, 3, text)
	dir := ts.MkAbs(args[1])
	switch {
	case args[0] == "small" && len(args) == 3:
		ts.Check(os.MkdirAll(dir, 0o777))
		ts.Check(mountSmall(dir, args[2]))
		ts.Defer(func() { _ = unmount(dir) })
	case args[0] == "readonly" && len(args) == 2:
		ts.Check(mountReadOnly(dir))
		ts.Defer(func() { _ = unmount(dir) })
	case args[0] == "off" && len(args) == 2:
		ts.Check(unmount(dir))
	default:
		ts.Fatalf("usage: %s", text)
	}
}

// fill writes into a file until the disk is full, then gives back so many bytes.
func fill(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, 2, "fill FILE SPARE")
	spare, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	size := int64(0)
	for err = nil; err == nil; {
		var n int
		n, err = f.Write(make([]byte, 4096))
		size += int64(n)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		ts.Fatalf("%v", err)
	}
	ts.Check(f.Truncate(max(0, size-spare)))
}

// predecessor writes a generation in the layout u32-time-v0, whose times have
// four bytes: predecessor GENERATION DIR.
func predecessor(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, 2, "GENERATION DIR")
	from, to := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	ts.Check(filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if l, ok := record.ByFile(d.Name()); ok {
			b = narrowed(l, b)
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	}))
}

// narrowed drops the upper half of every time.
func narrowed(l *record.Layout, b []byte) []byte {
	old := b[:record.HeaderSize:record.HeaderSize]
	for rest := b[record.HeaderSize:]; len(rest) >= l.Size; rest = rest[l.Size:] {
		for _, f := range l.Fields {
			width := f.Width
			if f.Time {
				width = 4
			}
			old = append(old, rest[f.Offset:f.Offset+width]...)
		}
	}
	return old
}
