package executor

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// noun is what an expression of Rune stands for.
func noun(t *testing.T, expression string) nox.Noun {
	t.Helper()
	n, err := machine.Eval([]byte(expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return n
}

// host is a host request in Rune.
func host(t *testing.T, expression string) cell.Request {
	t.Helper()
	return cell.Request{
		Cell: cell.Particle{1}, Operation: cell.Particle{2}, Attempt: cell.Particle{3},
		Tag: rune.TagHost, Arguments: noun(t, expression),
	}
}

// at is a clock that stands.
func at(seconds, nanoseconds int64) *Clock {
	return &Clock{Now: func() time.Time { return time.Unix(seconds, nanoseconds) }}
}

// mustFail does a request that is refused, and returns the reason.
func mustFail(t *testing.T, e cell.Executor, r cell.Request) string {
	t.Helper()
	got, err := e.Do(t.Context(), r)
	if err != nil || got.Outcome != cell.OutcomeFailed {
		t.Fatalf("%s: got %v %v %v, want a definite failure", r.Arguments, got.Outcome, got.Value, err)
	}
	if got.Reason == "" || len(got.Reason) > cell.MaxReason || !utf8.ValidString(got.Reason) {
		t.Fatalf("a reason of %d bytes: %q", len(got.Reason), got.Reason)
	}
	return got.Reason
}

// mustDo does a request and returns the reply.
func mustDo(t *testing.T, e cell.Executor, r cell.Request) nox.Noun {
	t.Helper()
	got, err := e.Do(t.Context(), r)
	if err != nil || got.Outcome != cell.OutcomeSucceeded {
		t.Fatalf("%s: got %v %q %v, want success", r.Arguments, got.Outcome, got.Reason, err)
	}
	if err := nox.Artifact.Check(got.Value); err != nil {
		t.Fatal(err)
	}
	return got.Value
}

func TestRequestsThatNoAdapterTakes(t *testing.T) {
	t.Parallel()
	g := NewRegistry(map[string]Adapter{"clock": at(1, 0), "random": &Random{}})
	long := `"` + strings.Repeat("a", maxName+1) + `"`
	for _, x := range []struct{ request, want string }{
		{`7`, "got the atom 7; requests are [\"clock\" 0] or [\"random\" COUNT]"},
		{`"clock"`, "is not a text, which is a list that ends with 0: it ends with 99"},
		{`[[1, 2], 0]`, "it ends with 2"},
		{`[["a", 0], 0]`, "member 0 is a pair"},
		{`[[256, 0], 0]`, "member 0 is 256"},
		{`[` + long + `, 0]`, "is longer than 64 bytes"},
		{`["price", 7]`, `there is no adapter "price" here; requests are`},
		{`[[255, 0, 0], 7]`, `there is no adapter "\xff\x00" here`},
		{`[0, 7]`, `there is no adapter "" here`},
		{`["clock", 1]`, `["clock" 0] has nothing but 0 after the name`},
		{`["clock", 0, 0]`, "nothing but 0"},
		{`["random", 0]`, "from 1 to 64"},
		{`["random", 65]`, "from 1 to 64"},
		{`["random", "a"]`, "from 1 to 64"},
	} {
		r := host(t, x.request)
		if reason := mustFail(t, g, r); !strings.Contains(reason, x.want) {
			t.Errorf("%s: %q does not say %q", x.request, reason, x.want)
		}
		// Somebody else may have performed it.
		if got, err := g.Find(t.Context(), r); err == nil || got.Outcome != cell.OutcomeUnknown {
			t.Errorf("find %s: got %v %v, want unknown and why", x.request, got.Outcome, err)
		}
	}
	r := host(t, `["clock", 0]`)
	r.Tag = rune.TagEmit
	if reason := mustFail(t, g, r); reason != "emit is no host request" {
		t.Errorf("reason %q", reason)
	}
	if reason := mustFail(t, NewRegistry(nil), host(t, `["clock", 0]`)); !strings.Contains(reason, "no adapters here") {
		t.Errorf("reason %q", reason)
	}
}

func TestRequestsThatOthersMayPerform(t *testing.T) {
	t.Parallel()
	run, err := NewExec(ExecOptions{Commands: map[string]string{"publish": "/bin/true"}})
	if err != nil {
		t.Fatal(err)
	}
	get, err := NewHTTPGet(HTTPOptions{Hosts: []string{"example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	g := NewRegistry(map[string]Adapter{"clock": at(1, 0), "exec": run, "http-get": get})
	for _, x := range []struct {
		request string
		here    bool
	}{
		{`["clock", 0]`, true},
		{`["clock", 1]`, true}, // nobody can perform these, and Do says why
		{`["exec", 0]`, true},
		{`["exec", 7, 0]`, true},
		{`["http-get", "::", 0]`, true},
		{`["http-get", "ftp://example.org/", 0]`, true},
		{`7`, true},
		{`["exec", "publish", "1.0", 0]`, true},
		{`["exec", "retract", "1.0", 0]`, false},
		{`["http-get", "https://example.org/a", 0]`, true},
		{`["http-get", "https://example.com/a", 0]`, false},
		{`["random", 1]`, false},
		{`["price", 7]`, false},
	} {
		if got := g.Performs(host(t, x.request)); got != x.here {
			t.Errorf("%s is performed here: %v", x.request, got)
		}
	}
}

func TestReasonsAreCut(t *testing.T) {
	t.Parallel()
	got, err := failed("%s", strings.Repeat("é", cell.MaxReason)+"\xff")
	if err != nil || len(got.Reason) > cell.MaxReason || len(got.Reason) < cell.MaxReason-3 || !utf8.ValidString(got.Reason) {
		t.Errorf("%d bytes, %v", len(got.Reason), err)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	g := NewRegistry(map[string]Adapter{"clock": at(1_700_000_000, 123_456_789)})
	r := host(t, `["clock", 0]`)
	want := nox.Pair(nox.Atom(1_700_000_000), nox.Atom(123_456))
	if got := mustDo(t, g, r); !nox.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, err := g.Find(t.Context(), r); err != nil || got.Outcome != cell.OutcomeSucceeded || !nox.Equal(got.Value, want) {
		t.Errorf("find: %v %s %v", got.Outcome, got.Value, err)
	}
	mustFail(t, NewRegistry(map[string]Adapter{"clock": at(-1, 0)}), r)
	before := time.Now().Unix()
	if got := mustDo(t, &Clock{}, cell.Request{}); int64(got.Head().Value()) < before {
		t.Errorf("the system's clock shows %s", got)
	}
}

type brokenSource struct{}

func (brokenSource) Read([]byte) (int, error) { return 0, errors.New("no entropy") }

func TestRandom(t *testing.T) {
	t.Parallel()
	g := NewRegistry(map[string]Adapter{"random": &Random{Source: strings.NewReader("\x00\xffab")}})
	if got, want := mustDo(t, g, host(t, `["random", 3]`)), noun(t, `[0, 255, 97, 0]`); !nox.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	// One byte is left of the source.
	if reason := mustFail(t, g, host(t, `["random", 2]`)); !strings.Contains(reason, "EOF") {
		t.Errorf("reason %q", reason)
	}
	mustFail(t, &Random{Source: brokenSource{}}, cell.Request{Arguments: nox.Atom(1)})
	r := cell.Request{Arguments: nox.Atom(MaxRandom)}
	first, second := mustDo(t, &Random{}, r), mustDo(t, &Random{}, r)
	if nox.Equal(first, second) || first.Depth() != MaxRandom {
		t.Errorf("got %s and %s", first, second)
	}
	if got, err := (&Random{}).Find(t.Context(), r); err != nil || got.Outcome != cell.OutcomeSucceeded {
		t.Errorf("find: %v %v", got.Outcome, err)
	}
}

// bytesOf puts [size pieces] together, and makes sure that the pieces are as promised.
func bytesOf(t *testing.T, n nox.Noun) (uint64, string) {
	t.Helper()
	var all strings.Builder
	pieces, err := texts(n.Tail(), MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range pieces {
		if len(p) == 0 || len(p) > PieceBytes || len(p) < PieceBytes && i < len(pieces)-1 {
			t.Errorf("piece %d of %d has %d bytes", i, len(pieces), len(p))
		}
		all.WriteString(p)
	}
	return n.Head().Value(), all.String()
}

func TestBytesFromOutside(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, PieceBytes - 1, PieceBytes, PieceBytes + 1, MaxBytes - 1, MaxBytes, MaxBytes + 1, 10 * MaxBytes} {
		text := strings.Repeat("\x00\xff\xfe.", size/4+1)[:size]
		var k kept
		for rest := text; rest != ""; { // in writes of odd lengths
			n := min(len(rest), 77)
			if wrote, err := k.Write([]byte(rest[:n])); wrote != n || err != nil {
				t.Fatal(wrote, err)
			}
			rest = rest[n:]
		}
		count, got := bytesOf(t, k.noun())
		if count != uint64(size) || got != text[:min(size, MaxBytes)] {
			t.Errorf("%d bytes: got %d and %q", size, count, got)
		}
		if d := k.noun().Depth(); d > MaxBytes/PieceBytes+PieceBytes+1 {
			t.Errorf("%d bytes are %d levels deep", size, d)
		}
	}
}

// TestRepliesFit resumes a program with the deepest reply there is.
func TestRepliesFit(t *testing.T) {
	t.Parallel()
	k := kept{size: 1 << 40, first: make([]byte, MaxBytes)}
	reply := nox.Pair(nox.Atom(0), nox.Pair(k.noun(), k.noun()))
	p, err := rune.Compile([]byte(`let r = host(["exec", "a", 0]); let status = head(r); if status == 0 { tail(r) } else { ~mem }`))
	if err != nil {
		t.Fatal(err)
	}
	m, err := machine.Load(p, machine.Input{}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Run(1000); err != nil || got.Status != machine.Act {
		t.Fatal(got.Status, err)
	}
	if err := m.Resume(reply); err != nil {
		t.Fatal(err)
	}
	// After each step it can be suspended.
	for {
		got, err := m.Run(1)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status == machine.Done {
			if err := machine.Fits(p, got.Value); err != nil {
				t.Error(err)
			}
			return
		}
		if _, err := m.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzRequest(f *testing.F) {
	for _, s := range []string{`["clock", 0]`, `["random", 3]`, `["exec", "true", 0]`, `["exec", "true", [0 0], 0]`, `["http-get", "https://a/", 0]`} {
		n, err := machine.Eval([]byte(s))
		if err != nil {
			f.Fatal(err)
		}
		b, err := nox.Encode(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	exec, err := NewExec(ExecOptions{})
	if err != nil {
		f.Fatal(err)
	}
	get, err := NewHTTPGet(HTTPOptions{})
	if err != nil {
		f.Fatal(err)
	}
	g := NewRegistry(map[string]Adapter{"clock": &Clock{}, "random": &Random{}, "exec": exec, "http-get": get})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := nox.Decode(b)
		if err != nil {
			return
		}
		got, err := g.Do(t.Context(), cell.Request{Tag: rune.TagHost, Arguments: n})
		switch {
		case err != nil:
			t.Fatal(err)
		case got.Outcome == cell.OutcomeFailed:
			if got.Reason == "" || len(got.Reason) > cell.MaxReason || !utf8.ValidString(got.Reason) {
				t.Fatalf("reason %q", got.Reason)
			}
		case got.Outcome != cell.OutcomeSucceeded:
			t.Fatal(got.Outcome)
		}
	})
}
