package mcp_test

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest/resttest"
)

// speak gives the lines that a server answers to an input.
func speak(tb testing.TB, f *resttest.Fake, in io.Reader) []string {
	tb.Helper()
	server := mcp.New(mcp.Config{Version: "1.2.3", Logger: slog.New(slog.NewTextHandler(tb.Output(), nil)),
		Open: func(context.Context) (operation.Jobs, func() error, error) {
			return f, func() error { return nil }, nil
		}})
	var out bytes.Buffer
	if err := server.Run(context.Background(), &mcp.Lines{In: in, Out: &out}); err != nil {
		tb.Errorf("the session ended with %v", err)
	}
	if out.Len() == 0 {
		return nil
	}
	text, ok := strings.CutSuffix(out.String(), "\n")
	if !ok {
		tb.Errorf("the last line has no end: %.300q", text)
	}
	return strings.Split(text, "\n")
}

func hello(version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`, version)
}

func kinds(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"job_kinds"}}`
}

// TestLines: what is no message is answered, and the session goes on.
func TestLines(t *testing.T) {
	t.Parallel()
	const (
		parse   = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`
		invalid = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600`
		one     = `{"jsonrpc":"2.0","id":1,"result":`
	)
	for _, c := range []struct {
		name, in string
		want     []string // how the answers begin, besides the greeting's
	}{
		{"nothing", "", nil},
		{"blank lines", "\n  \n\r\n" + kinds("1") + "\r\n", []string{one}},
		{"a last line without an end", kinds("1"), []string{one}},
		{"not JSON", "{\n" + kinds("1") + "\n", []string{one, parse}},
		{"two messages", kinds("1") + kinds("2") + "\n" + kinds("1") + "\n", []string{one, parse}},
		{"not UTF-8", "{\"a\":\"\xff\"}\n" + kinds("1") + "\n", []string{one, parse}},
		{"a number", "7\n" + kinds("1") + "\n", []string{one, parse}},
		{"very deep", strings.Repeat("[", 200000) + "\n" + kinds("1") + "\n", []string{one, parse}},
		{"no version", `{"id":1,"method":"ping"}` + "\n", []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32600`}},
		{"an id of its own", `{"id":"x","method":"ping"}` + "\n", []string{`{"jsonrpc":"2.0","id":"x","error":{"code":-32600`}},
		{"an id that is none", `{"jsonrpc":"2.0","id":{},"method":"ping"}` + "\n", []string{invalid}},
		{"neither call nor answer", `{"jsonrpc":"2.0"}` + "\n" + kinds("1") + "\n", []string{one, invalid}},
		{"an answer that nobody waits for", `{"jsonrpc":"2.0","id":9,"result":{}}` + "\n" + kinds("1") + "\n", []string{one}},
		{"large", strings.Repeat("x", 1<<20+1) + "\n" + kinds("1") + "\n", []string{one, invalid}},
		{"an empty batch", "[]\n" + kinds("1") + "\n", []string{one, invalid}},
		{"a batch of one", "[" + kinds("1") + "]\n", []string{"[" + one}},
		{"a batch of notifications", `[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}]` + "\n" + kinds("1") + "\n", []string{one}},
		{"a batch with nonsense", "[" + kinds("1") + ",7]\n", []string{"[" + one, invalid}},
		{"an id twice in a batch", "[" + kinds("1") + "," + kinds("1") + "]\n", []string{"[" + one, invalid}},
		{"a large batch", "[" + strings.Repeat(kinds("1")+",", 16) + kinds("1") + "]\n", []string{parse}},
		{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"jobs/destroy"}` + "\n", []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32601`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := speak(t, new(resttest.Fake), strings.NewReader(hello("2025-03-26")+c.in))
			want := append([]string{`{"jsonrpc":"2.0","id":"hello","result":{`}, c.want...)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Errorf("answers %.500q, want %q", got, want)
			}
		})
	}
}

// TestBatch: the answers of a batch come together, whatever their order.
func TestBatch(t *testing.T) {
	t.Parallel()
	got := speak(t, new(resttest.Fake), strings.NewReader(hello("2025-03-26")+"["+kinds("1")+","+kinds(`"b"`)+","+kinds("3")+"]\n"))
	slices.Sort(got) // the greeting may come last
	slices.Reverse(got)
	var answers []struct {
		ID     any
		Result struct{ StructuredContent map[string]any }
	}
	if len(got) != 2 || stdjson.Unmarshal([]byte(got[1]), &answers) != nil || len(answers) != 3 {
		t.Fatalf("answers %.500q", got)
	}
	ids := map[any]bool{}
	for _, a := range answers {
		ids[a.ID] = a.Result.StructuredContent["items"] != nil
	}
	if !ids[1.0] || !ids["b"] || !ids[3.0] {
		t.Errorf("answers %v", ids)
	}
}

// TestSameID: a call whose id another one has that still runs is refused, and the
// other one is not disturbed.
func TestSameID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		f := &resttest.Fake{Hook: func(context.Context) error { <-goOn; return nil }}
		go func() {
			synctest.Wait() // until both were read, and the first one runs
			close(goOn)
		}()
		got := speak(t, f, strings.NewReader(hello("2025-11-25")+kinds("1")+"\n"+kinds("1")+"\n"))
		slices.Sort(got)
		if n, _ := f.Calls(); n != 1 || len(got) != 3 || !strings.Contains(got[2], `"id":null,"error":{"code":-32600`) || !strings.HasPrefix(got[1], `{"jsonrpc":"2.0","id":1,"result":`) {
			t.Errorf("%d calls, answers %.500q", n, got)
		}
	})
}

// TestManyCalls: no more than a number of calls run at once, and all are answered.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn, running := make(chan struct{}), new(atomic.Int64)
		f := &resttest.Fake{Hook: func(context.Context) error { running.Add(1); <-goOn; return nil }}
		var in strings.Builder
		in.WriteString(hello("2025-11-25"))
		for i := range 500 {
			in.WriteString(kinds(fmt.Sprint(i)) + "\n")
		}
		go func() {
			synctest.Wait()
			if n := running.Load(); n != 128 {
				t.Errorf("%d calls run at once", n)
			}
			close(goOn)
		}()
		if got := speak(t, f, strings.NewReader(in.String())); len(got) != 501 {
			t.Errorf("%d answers", len(got))
		}
	})
}

// TestEndOfInput: calls that run when the input ends get a while, and then end.
func TestEndOfInput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		f := &resttest.Fake{Hook: func(ctx context.Context) error {
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		}}
		begun := time.Now()
		speak(t, f, strings.NewReader(hello("2025-11-25")+kinds("1")+"\n"))
		if err, took := <-ended, time.Since(begun); !errors.Is(err, context.Canceled) || took != 5*time.Second {
			t.Errorf("the call ended after %s with %v", took, err)
		}
	})
}

// TestInterrupted: the end of the context ends the calls.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &resttest.Fake{Hook: func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	server := mcp.New(mcp.Config{Open: func(context.Context) (operation.Jobs, func() error, error) {
		return f, func() error { return nil }, nil
	}})
	in, more := io.Pipe()
	defer more.Close()
	go func() { _, _ = io.WriteString(more, hello("2025-11-25")+kinds("1")+"\n") }()
	if err := server.Run(ctx, &mcp.Lines{In: in, Out: io.Discard}); !errors.Is(err, context.Canceled) {
		t.Errorf("the session ended with %v", err)
	}
}

// broken is an output whose reader has gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestNobodyListens: a session whose answers cannot be written ends.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	server := mcp.New(mcp.Config{Open: func(context.Context) (operation.Jobs, func() error, error) {
		return new(resttest.Fake), func() error { return nil }, nil
	}})
	in, more := io.Pipe()
	defer more.Close()
	go func() { _, _ = io.WriteString(more, hello("2025-11-25")) }()
	if err := server.Run(t.Context(), &mcp.Lines{In: in, Out: broken{}}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the session ended with %v", err)
	}
}

// FuzzLines: whatever the input is, the session ends with it, and what was answered
// is JSON.
func FuzzLines(f *testing.F) {
	f.Add([]byte(hello("2025-03-26") + "[" + kinds("1") + "," + kinds("1") + "]\n" + kinds("2")))
	f.Add([]byte(hello("2026-07-28") + "{\n[]\n7\n" + `{"jsonrpc":"2.0","id":{},"method":""}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, l := range speak(t, new(resttest.Fake), bytes.NewReader(in)) {
			if !stdjson.Valid([]byte(l)) {
				t.Errorf("answered %.300q", l)
			}
		}
	})
}
