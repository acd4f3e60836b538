package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/transfer"
)

// sealed gives a text a last line with the hash that its lines have now.
func sealed(lines [][]byte) []byte {
	body := bytes.Join(lines[:len(lines)-1], nil)
	sum := sha256.Sum256(body)
	last := lines[len(lines)-1]
	at := bytes.Index(last, []byte(`"sha256":"`)) + len(`"sha256":"`)
	last = slices.Concat(last[:at], []byte(hex.EncodeToString(sum[:])), last[at+64:])
	return append(body, last...)
}

// example is the export of a small store, by its lines, which have their ends.
func example(t *testing.T, from place) [][]byte {
	t.Helper()
	a := authority(t, must(from.open(t.Context()))(t))
	populate(t, a)
	closed(t, a)
	s := must(from.open(t.Context()))(t)
	defer closed(t, s)
	return bytes.SplitAfter(bytes.TrimSuffix(export(t, s), nil), []byte("\n"))
}

// Whatever happens to an export, it is refused, and so is a store into which a part of
// it came, until the whole one is there.
func TestDamagedExportsAreRefused(t *testing.T) {
	t.Parallel()
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := example(t, engines["sqlite"](t))
			if last := len(lines) - 1; len(lines[last]) == 0 {
				lines = lines[:last]
			}
			whole := bytes.Join(lines, nil)
			to := engine(t)
			refuse := func(what string, text []byte) {
				t.Helper()
				err := imported(t.Context(), to, text)
				if !errors.Is(err, transfer.ErrDamaged) && !errors.Is(err, transfer.ErrFormat) {
					t.Errorf("%s: %v", what, err)
				}
			}
			parts, every := 40, 3
			if name != "sqlite" { // the text is read in the same way
				parts, every = 6, 20
			}
			for at := 0; at < len(whole); at += len(whole) / parts {
				refuse("cut short", whole[:at])
				flipped := bytes.Clone(whole)
				flipped[at] ^= 1 << (at % 8)
				refuse("a bit that flipped", flipped)
			}
			for n := 0; n < len(lines)-1; n += every {
				refuse("a line that is missing", bytes.Join(slices.Delete(slices.Clone(lines), n, n+1), nil))
				refuse("a line that is missing, with a new hash", sealed(slices.Delete(slices.Clone(lines), n, n+1)))
				refuse("a line that is there twice, with a new hash", sealed(slices.Insert(slices.Clone(lines), n, lines[n])))
				swapped := slices.Clone(lines)
				swapped[n], swapped[n+1] = swapped[n+1], swapped[n]
				refuse("lines out of order", bytes.Join(swapped, nil))
			}
			refuse("something behind it", append(bytes.Clone(whole), '\n'))
			refuse("without its last line end", whole[:len(whole)-1])
			refuse("Windows line ends", bytes.ReplaceAll(whole, []byte("\n"), []byte("\r\n")))

			if _, err := to.open(t.Context()); !errors.Is(err, workitem.ErrUnfinished) {
				t.Errorf("a store that was not filled to the end opens with %v", err)
			}
			if err := imported(t.Context(), to, whole); err != nil {
				t.Fatal(err)
			}
			s := must(to.open(t.Context()))(t)
			if err := same(whole, export(t, s)); err != nil {
				t.Error(err)
			}
			closed(t, s)
			if err := imported(t.Context(), to, whole); !errors.Is(err, workitem.ErrOccupied) || !strings.Contains(err.Error(), "jobs") {
				t.Errorf("a store that has jobs: %v", err)
			}
			s = must(to.open(t.Context()))(t) // nothing was touched
			if err := same(whole, export(t, s)); err != nil {
				t.Error(err)
			}
			closed(t, s)
		})
	}
}

// What can't be in a row is refused with the number of its line, whatever its hash.
func TestRowsAreChecked(t *testing.T) {
	t.Parallel()
	lines := example(t, engines["sqlite"](t))
	if last := len(lines) - 1; len(lines[last]) == 0 {
		lines = lines[:last]
	}
	to := engines["sqlite"](t)
	for _, c := range []struct{ line, old, new, want string }{
		{`{"job"`, `"kind":"repository.`, `"kind":"colour.`, "kind is missing or not a registered kind"},
		{`{"job"`, `"id":"rmjob:`, `"id":"job:`, "id is missing or not rmjob: and a UUID"},
		{`{"job"`, `"tenant":"tenant-`, `"tenant":"\u0000`, "NUL"},
		{`{"job"`, `"priority":`, `"priority":99999`, "priority is"},
		{`{"job"`, `"priority":`, `"priority":1.5`, "int"},
		{`{"job"`, `"attempt":`, `"attempt":-1`, "attempt"},
		{`{"job"`, `"digest":"`, `"digest":"A`, "digest is missing or not 64 hexadecimal digits"},
		{`{"job"`, `"attempt":`, `"colour":1,"attempt":`, "colour"},
		{`{"job"`, `"attempt":`, `"attempt":1,"attempt":`, "duplicate"},
		{`{"job"`, `{"job":`, `{"edge":{},"job":`, "one member"},
		{`{"job"`, `{"job":`, `{"jobs":`, "jobs"},
		{`{"events"`, `"job":"rmjob:`, `"job":"rmjob:0`, "not those of the job before"},
		{`{"events"`, `"seq":1`, `"seq":0`, "seq is 0"},
		{`{"edge"`, `"parent":"rmjob:`, `"parent":"`, "parent is missing"},
		{`{"tombstone"`, `"state":"`, `"state":"un`, "state is missing or not a state"},
		{`{"claim"`, `"subject":"worker-1"`, `"subject":""`, "subject is missing or empty"},
		{`{"turn"`, `"bucket":`, `"bucket":9`, "bucket is"},
		{`{"token"`, `"jobs:`, `"root:`, "scopes has one that does not exist"},
		{`{"count"`, `"jobs":`, `"jobs":1`, "it counts"},
	} {
		n := slices.IndexFunc(lines, func(l []byte) bool { return bytes.HasPrefix(l, []byte(c.line)) })
		changed := slices.Clone(lines)
		changed[n] = bytes.Replace(lines[n], []byte(c.old), []byte(c.new), 1)
		if n < 0 || bytes.Equal(changed[n], lines[n]) {
			t.Fatalf("no %s with %s", c.line, c.old)
		}
		err := imported(t.Context(), to, sealed(changed))
		if !errors.Is(err, transfer.ErrDamaged) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s with %s: %v", c.line, c.new, err)
		}
	}
}

func TestOtherFilesAreNotExports(t *testing.T) {
	t.Parallel()
	header := func(version, epoch, at string) string {
		return `{"header":{"format":"writ.jobs","version":` + version + `,"engine":"sqlite","schema":1,"epoch":` + epoch + `,"at":"` + at + `"}}` + "\n"
	}
	const now = "2026-12-02T00:00:00Z"
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"nothing":                    {"", transfer.ErrFormat},
		"a text":                     {"no export\n", transfer.ErrFormat},
		"another line first":         {`{"edge":{"parent":"","child":""}}` + "\n", transfer.ErrFormat},
		"another format":             {strings.Replace(header("1", "0", now), "writ.jobs", "writ.cells", 1), transfer.ErrFormat},
		"version 0":                  {header("0", "0", now), transfer.ErrFormat},
		"a newer version":            {header("2", "0", now), transfer.ErrNewer},
		"an epoch that can't be":     {header("1", "2097152", now), transfer.ErrFormat},
		"no time":                    {header("1", "0", ""), transfer.ErrFormat},
		"a line longer than any":     {strings.Repeat(" ", 9<<20), transfer.ErrFormat},
		"a header and nothing more":  {header("1", "0", now), transfer.ErrDamaged},
		"two headers":                {header("1", "0", now) + header("1", "0", now), transfer.ErrDamaged},
		"an end with another number": {header("1", "0", now) + `{"end":{"rows":{"jobs":1,"events":0,"edges":0,"tombstones":0,"claims":0,"turns":0,"tokens":0},"sha256":""}}` + "\n", transfer.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := engines["sqlite"](t)
			if err := imported(t.Context(), to, []byte(c.text)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if !errors.Is(c.want, transfer.ErrDamaged) {
				closed(t, must(to.open(t.Context()))(t)) // the store was not begun
			}
			if _, err := transfer.Copy(io.Discard, strings.NewReader(c.text)); err == nil {
				t.Error("it is copied as if it were an export")
			}
		})
	}
}

// An empty store is an export too.
func TestEmptyStore(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, from, to place) {
		s := must(from.open(t.Context()))(t)
		text := export(t, s)
		closed(t, s)
		if err := imported(t.Context(), to, text); err != nil {
			t.Fatal(err)
		}
		closed(t, must(to.open(t.Context()))(t))
		if err := imported(t.Context(), to, text); err != nil { // still nothing in it
			t.Error(err)
		}
	})
}

func TestCopy(t *testing.T) {
	t.Parallel()
	lines := example(t, engines["sqlite"](t))
	whole := bytes.Join(lines, nil)
	var b bytes.Buffer
	sum, err := transfer.Copy(&b, bytes.NewReader(whole))
	if err != nil || !bytes.Equal(b.Bytes(), whole) || sum.Rows.Jobs != 14 || sum.Engine != "sqlite" {
		t.Errorf("the copy has %d of %d bytes, %+v, error %v", b.Len(), len(whole), sum, err)
	}
	for at := 0; at < len(whole); at += len(whole)/50 + 1 {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 4
		for _, text := range [][]byte{whole[:at], flipped} {
			if _, err := transfer.Copy(io.Discard, bytes.NewReader(text)); !errors.Is(err, transfer.ErrDamaged) && !errors.Is(err, transfer.ErrFormat) {
				t.Errorf("at %d: %v", at, err)
			}
		}
	}
}

// failing gives an error after some bytes.
type failing struct {
	io.Reader
	err error
}

func (f *failing) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if errors.Is(err, io.EOF) {
		err = f.err
	}
	return n, err
}

// A read error is no end of the file.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	lines := example(t, engines["sqlite"](t))
	broken := errors.New("the disk is broken")
	to := engines["sqlite"](t)
	for _, text := range [][]byte{nil, bytes.Join(lines[:5], nil), bytes.Join(lines, nil)} {
		_, err := transfer.Import(t.Context(), &failing{bytes.NewReader(text), broken}, to.fill)
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", len(text), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := imported(ctx, to, bytes.Join(lines, nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
}

// Whoever is admin of one tenant exports nothing that is not of it.
func TestOneTenant(t *testing.T) {
	t.Parallel()
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := engine(t)
			a := authority(t, must(from.open(t.Context()))(t))
			must(a.As(admin("tenant-a")).Submit(t.Context(), request("tenant-a", "one", "build")))(t)
			closed(t, a)
			for _, c := range []struct {
				tenant string
				want   error
			}{{"tenant-a", nil}, {"tenant-b", workitem.ErrUnauthorizedTarget}, {"", nil}} {
				s := must(from.open(t.Context()))(t)
				var b bytes.Buffer
				_, err := transfer.Export(t.Context(), s, &b, transfer.Options{Tenant: c.tenant})
				closed(t, s)
				if !errors.Is(err, c.want) || err != nil && b.Len() > 0 {
					t.Errorf("for %q: %v, %d bytes", c.tenant, err, b.Len())
				}
			}
			a = authority(t, must(from.open(t.Context()))(t))
			must(a.As(admin("tenant-b")).CreateToken(t.Context(), &workitem.TokenInput{Name: "n", Subject: "s", Scopes: []string{"jobs:read"}}))(t)
			closed(t, a)
			s := must(from.open(t.Context()))(t)
			defer closed(t, s)
			if _, err := transfer.Export(t.Context(), s, io.Discard, transfer.Options{Tenant: "tenant-a"}); !errors.Is(err, workitem.ErrUnauthorizedTarget) {
				t.Errorf("beside a token of another tenant: %v", err)
			}
		})
	}
}
