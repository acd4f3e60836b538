package suite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for _, tc := range []struct {
		name string
		size int
		cut  bool
	}{
		{"short", 1000, false},
		{"fills the beginning", limit - logTail - logNote, false},
		{"all there is room for", limit - logNote, false},
		{"one more", limit - logNote + 1, true},
		{"much more", 5*limit + 12345, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.log")
			out, err := createLog(path, limit)
			if err != nil {
				t.Fatal(err)
			}
			var whole bytes.Buffer
			for i := 0; whole.Len() < tc.size; i++ {
				fmt.Fprintf(&whole, "line %d of the output\n", i)
			}
			whole.Truncate(tc.size)
			for rest := whole.Bytes(); len(rest) > 0; {
				n := min(len(rest), 32<<10)
				if _, err := out.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if _, err := out.close(); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.cut {
				if !bytes.Equal(got, whole.Bytes()) {
					t.Errorf("%d bytes differ from the %d written", len(got), whole.Len())
				}
				return
			}
			if len(got) > limit {
				t.Errorf("%d bytes, more than the %d allowed", len(got), limit)
			}
			const head = limit - logTail - logNote
			note := fmt.Sprintf("\n[writ: %d bytes of output are left out here]\n", tc.size-head-logTail)
			want := string(whole.Bytes()[:head]) + note + string(whole.Bytes()[tc.size-logTail:])
			if string(got) != want {
				t.Errorf("not beginning, note and end: %q…", got[head:head+100])
			}
		})
	}
}

func TestLogReplacesWhatWasThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.log")
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	out, err := createLog(path, maxLog)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.close(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(other); err != nil || string(data) != "precious" {
		t.Errorf("the link was followed: %q, %v", data, err)
	}
	st, err := os.Lstat(path)
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want a regular file with 0600", st.Mode(), err)
	}
}

func TestLogThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	out, err := createLog(filepath.Join(t.TempDir(), "x.log"), maxLog)
	if err != nil {
		t.Fatal(err)
	}
	out.file.Close()
	if _, err := out.Write([]byte("x")); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("%v, want the error of the file", err)
	}
}
