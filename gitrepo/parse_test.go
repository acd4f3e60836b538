package gitrepo

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const (
	idA = "ce013625030ba8dba906f756967f9e9ca394464a"
	idB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"git version 2.39.5":                 "2 39 true",
		"git version 2.50.1 (Apple Git-155)": "2 50 true",
		"git version 2.38.GIT":               "2 38 true",
		"git version 2.38":                   "2 38 true",
		"git version 2.40-rc1":               "2 40 true",
		"git version 10.0.windows.1":         "10 0 true",
		"git version x.y":                    "0 0 false",
		"git version 2":                      "0 0 false",
		"2.39.5":                             "0 0 false",
		"":                                   "0 0 false",
	} {
		major, minor, ok := parseVersion(text)
		if got := fmt.Sprint(major, minor, ok); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	got := environment([]string{"PATH=/bin", "HOME=/h", "GIT_DIR=x", "GIT_INDEX_FILE=x", "GIT_CONFIG_GLOBAL=/g", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=k", "GIT_CONFIG_VALUE_0=v", "GIT_AUTHOR_NAME=n", "GIT_SOMETHING_NEW=x", "LANG=de", "LC_MESSAGES=de", "LANGUAGE=de", "GIT=x"})
	want := "PATH=/bin HOME=/h GIT_CONFIG_GLOBAL=/g GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=k GIT_CONFIG_VALUE_0=v GIT_AUTHOR_NAME=n GIT=x " +
		"LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null GIT_PAGER=cat"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("environment %s, want %s", s, want)
	}
}

func TestTailIsBounded(t *testing.T) {
	t.Parallel()
	var out tail
	for i := range 5000 {
		fmt.Fprintf(&out, "warning %d\n", i)
	}
	fmt.Fprint(&out, strings.Repeat("x", 3*stderrLimit), "\nfatal: the end\xff\n")
	s := out.String()
	if len(s) > stderrLimit+2 || !strings.HasSuffix(s, "fatal: the end\uFFFD") {
		t.Errorf("%d bytes, ending in %q", len(s), s[len(s)-20:])
	}
}

func reader(s string) *bufio.Reader { return bufio.NewReaderSize(strings.NewReader(s), 16) }

func FuzzParseVersion(f *testing.F) {
	f.Add("git version 2.39.5 (Apple Git-154)")
	f.Add("git version 99999999999999999999.1")
	f.Fuzz(func(t *testing.T, text string) {
		if major, minor, ok := parseVersion(text); ok && (major < 0 || minor < 0) {
			t.Errorf("%d.%d", major, minor)
		}
	})
}

func FuzzParseInfo(f *testing.F) {
	f.Add(idA+" blob 12", idA)
	f.Add("HEAD missing", "HEAD")
	f.Add("ab ambiguous", "ab")
	f.Add(idA+" submodule", "HEAD:sub")
	f.Add(idA+" blob -1", "x")
	f.Fuzz(func(t *testing.T, line, name string) {
		info, err := parseInfo(line, name, 40)
		if err != nil {
			if !errors.Is(err, ErrBadObject) {
				t.Errorf("error %v", err)
			}
			return
		}
		if info.found && fmt.Sprintf("%s %s %d", info.id, info.kind, info.size) != line {
			t.Errorf("%q is taken for %+v", line, info)
		}
		if !info.found && !strings.HasPrefix(line, name) && !strings.HasSuffix(line, " submodule") {
			t.Errorf("%q is taken for an answer to %q", line, name)
		}
	})
}

func FuzzParseCommit(f *testing.F) {
	f.Add([]byte("tree " + idA + "\nparent " + idB + "\nauthor A <a@x> 1700000000 +0100\ncommitter C <c@x> 1700000000 -0800\nencoding x\ngpgsig a\n b\n\nSubject\n\nBody\n"))
	f.Add([]byte("tree " + idA + "\n"))
	f.Add([]byte("tree " + idA + "\nauthor <<>> 99999999999999999999 +9999\n\n\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, _, err := parseCommit(raw, 40)
		if err != nil {
			if !errors.Is(err, ErrBadObject) {
				t.Errorf("error %v", err)
			}
			return
		}
		if len(c.Tree) != 40 || strings.Contains(c.Subject, "\n") {
			t.Errorf("commit %+v", c)
		}
		for _, p := range c.Parents {
			if len(p) != 40 {
				t.Errorf("parent %q", p)
			}
		}
		if _, err := c.AuthorTime.MarshalText(); err != nil {
			t.Errorf("author time: %v", err)
		}
	})
}

func FuzzParseIdent(f *testing.F) {
	for _, s := range []string{"A U Thor <a@x> 1700000000 +0530", "<> 0 +0000", "A <a> b> 1 -2359", "A", "> <", "A <a> -1 +0000", "A <a> 253402300800 +0000", "a <b> 253402300799 +2399"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, _, at, ok := parseIdent(s)
		if !ok && !at.IsZero() {
			t.Errorf("%q: time %v without ok", s, at)
		}
		if at.Year() < 1 || at.UTC().Year() > 9999 {
			t.Errorf("%q: year %d", s, at.Year())
		}
	})
}

func FuzzSplitMessage(f *testing.F) {
	f.Add("Subject\nmore\n\nBody\n")
	f.Add("\n \n")
	f.Fuzz(func(t *testing.T, message string) {
		subject, body := splitMessage(message)
		if strings.Contains(subject, "\n") || strings.TrimSpace(subject) != subject {
			t.Errorf("subject %q", subject)
		}
		if subject == "" && (body != "" || strings.TrimSpace(message) != "") {
			t.Errorf("%q has no subject, and body %q", message, body)
		}
		if utf8.ValidString(message) && !(utf8.ValidString(subject) && utf8.ValidString(body)) {
			t.Errorf("%q is cut inside a character", message)
		}
	})
}

func FuzzEachListed(f *testing.F) {
	f.Add("100644 blob " + idA + "       6\ta\x00160000 commit " + idB + "       -\tsub\nmodule\x00")
	f.Add("100644 blob " + idA + "     BAD\ta\x00")
	f.Add("100644 blob " + idA + " 99999999999999999999999\ta\x00")
	f.Add("100644 blob " + idA + " 1\t" + strings.Repeat("p", 100) + "\x00")
	f.Fuzz(func(t *testing.T, out string) {
		var rest strings.Builder
		err := eachListed(reader(out), 40, func(e listed) error {
			if len(e.mode) != 6 || len(e.id) != 40 || len(e.path) == 0 || e.submodule && e.size != 0 {
				t.Errorf("entry %+v", e)
			}
			rest.Write(e.path)
			return nil
		})
		if err != nil && !errors.Is(err, ErrBadObject) {
			t.Errorf("error %v", err)
		}
		if rest.Len() > len(out) {
			t.Error("paths are longer than the listing")
		}
	})
}

func TestEachListedLongAndCutShort(t *testing.T) {
	t.Parallel()
	head := "100644 blob " + idA + "       6\t"
	long := strings.Repeat("p", 5000)
	var paths []string
	err := eachListed(reader(head+long+"\x00"+head+"b\x00"), 40, func(e listed) error {
		paths = append(paths, string(e.path))
		return nil
	})
	if err != nil || len(paths) != 2 || paths[0] != long || paths[1] != "b" {
		t.Errorf("%d paths, %v", len(paths), err)
	}
	for _, out := range []string{head, head + "\x00", head + "a", strings.Repeat("x", pathLimit+20)} {
		if err := eachListed(reader(out), 40, func(listed) error { return nil }); !errors.Is(err, ErrBadObject) {
			t.Errorf("%.60q: %v", out, err)
		}
	}
}

func FuzzParseTree(f *testing.F) {
	id := strings.Repeat("\x11", 20)
	f.Add([]byte("100644 a\x00" + id + "40000 d\x00" + id))
	f.Add([]byte("100644 a\x00short"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseTree(data, 20)
		if err != nil && !errors.Is(err, ErrBadObject) {
			t.Errorf("error %v", err)
		}
		for _, e := range entries {
			if len(e.Mode) != 6 || e.Name == "" || strings.ContainsAny(e.Name, "/\x00") || len(e.ID) != 40 {
				t.Errorf("entry %+v", e)
			}
		}
	})
}

func FuzzParseRawDiff(f *testing.F) {
	f.Add(":100644 100755 " + idA + " " + idB + " M\x00path\nname\x00")
	f.Add(":100644 100755 " + idA + " " + idB + " R100\x00a\x00b\x00")
	f.Fuzz(func(t *testing.T, out string) {
		changes, err := parseRawDiff(reader(out), 40)
		if err != nil && !errors.Is(err, ErrBadObject) {
			t.Errorf("error %v", err)
		}
		for _, c := range changes {
			if c.Path == "" || len(c.OldMode) != 6 || len(c.NewMode) != 6 || len(c.OldID) != 40 || len(c.NewID) != 40 {
				t.Errorf("change %+v", c)
			}
		}
	})
}

func FuzzParseMergeTree(f *testing.F) {
	f.Add(idA+"\x00", true)
	f.Add(idA+"\x00a\x00a\x00b\nc\x00", false)
	f.Add(idA+"\x00a\x00\x001\x00a\x00Auto-merging\x00text\x00", false)
	f.Fuzz(func(t *testing.T, out string, clean bool) {
		m, err := parseMergeTree(out, clean, 40)
		if err != nil {
			if !errors.Is(err, ErrBadObject) {
				t.Errorf("error %v", err)
			}
			return
		}
		if len(m.Tree) != 40 || m.Clean != clean {
			t.Errorf("merge %+v", m)
		}
		if m.Clean && len(m.Conflicts) > 0 {
			t.Errorf("clean %v with conflicts %q", m.Clean, m.Conflicts)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add("# branch.oid x\x001 .M N... 100644 100644 100644 " + idA + " " + idB + " path with spaces\x00? new\x00! ignored\x00")
	f.Add("2 R. N... 100644 100644 100644 " + idA + " " + idB + " R100 to\x00from\x00")
	f.Add("u UU N... 100644 100644 100644 100644 " + idA + " " + idB + " " + idA + " path\x00")
	f.Fuzz(func(t *testing.T, out string) {
		err := parseStatus(reader(out), func(e StatusEntry) error {
			if e.Path == "" || e.Staged == 0 || e.Unstaged == 0 {
				t.Errorf("entry %+v", e)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrBadObject) {
			t.Errorf("error %v", err)
		}
	})
}

func FuzzParseWorktrees(f *testing.F) {
	f.Add("worktree /a\x00HEAD " + idA + "\x00branch refs/heads/main\x00\x00worktree /b\x00HEAD " + idA + "\x00detached\x00locked why\x00prunable gone\x00\x00")
	f.Add("worktree /a\x00bare\x00\x00")
	f.Add("HEAD " + idA + "\x00")
	f.Fuzz(func(t *testing.T, out string) {
		list, err := parseWorktrees(out, 40)
		if err != nil && !errors.Is(err, ErrBadObject) {
			t.Errorf("error %v", err)
		}
		for _, w := range list {
			if w.Path == "" || w.Head != "" && len(w.Head) != 40 {
				t.Errorf("work tree %+v", w)
			}
		}
	})
}

func TestParseIdentZones(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]int{"+0000": 0, "-0800": -8 * 3600, "+0545": 5*3600 + 45*60, "-0030": -1800, "+9900": 0, "junk": 0, "": 0} {
		_, _, at, ok := parseIdent("A <a> 1700000000 " + zone)
		if _, offset := at.Zone(); !ok || offset != want || !at.Equal(time.Unix(1700000000, 0)) {
			t.Errorf("zone %q: %v, offset %d", zone, at, offset)
		}
	}
}
