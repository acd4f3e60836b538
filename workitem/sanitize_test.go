package workitem

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// reference is what the sanitiser means: every pattern, in the order in which they
// are applied. A match is a part of the text that one of the expressions matches as
// a whole, in the surroundings that it asks for: the leftmost, and of those that
// begin there the longest.
var reference = []struct {
	name  string
	forms []form
}{
	{"SSN", forms(`[0-9]{3}-[0-9]{2}-[0-9]{4}`, wordBegins, wordEnds)},
	{"TAX_ID", forms(`[0-9]{2}-[0-9]{7}`, wordBegins, wordEnds)},
	{"CREDIT_CARD", forms(`(?:[0-9]{4}[ -]?){3}[0-9]{4}`, wordBegins, wordEnds)},
	{"EMAIL", forms(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`, ``, ``)},
	{"API_TOKEN", forms(`sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9_]{20,}`, wordBegins, ``)},
	{"BEARER_TOKEN", forms(`[Bb][Ee][Aa][Rr][Ee][Rr]\s+[A-Za-z0-9._~+/=-]{12,}`, wordBegins, ``)},
	{"PHONE", append(
		forms(`(?:\+1[-. ]?(?:[0-9]{3}|\([0-9]{3}\))|\([0-9]{3}\))[-. ]?[0-9]{3}[-. ]?[0-9]{4}`, ``, wordEnds),
		forms(`(?:1[-. ]?(?:[0-9]{3}|\([0-9]{3}\))|[0-9]{3})[-. ]?[0-9]{3}[-. ]?[0-9]{4}`, wordBegins, wordEnds)...)},
	{"WINDOWS_USER_PATH", forms(`[A-Za-z]:[\\/]+(?:[Uu][Ss][Ee][Rr][Ss]|[Dd][Oo][Cc][Uu][Mm][Ee][Nn][Tt][Ss] [Aa][Nn][Dd] [Ss][Ee][Tt][Tt][Ii][Nn][Gg][Ss])[\\/]`+drivePath+`+`, wordBegins, ``)},
	{"WINDOWS_ABSOLUTE_PATH", forms(`[A-Za-z]:[\\/]`+drivePath+`*`, wordBegins, ``)},
	{"POSIX_USER_PATH", forms(`/(?:home|Users|var/home|export/home)/`+posixPath+`+`, pathBegins, ``)},
	{"POSIX_LOCAL_PATH", forms(`/(?:mnt|opt|private/tmp|root|srv|tmp|var/tmp|workspaces?)/`+posixPath+`+`, pathBegins, ``)},
	{"FILE_URI", forms(`[Ff][Ii][Ll][Ee]:/`+posixPath+`+`, wordBegins, ``)},
	{"IPV4", forms(octet+`(?:\.`+octet+`){3}`, `(?:^|[^0-9A-Za-z_.]|(?:^|[^0-9])\.)$`, `^(?:$|[^0-9A-Za-z_.]|\.(?:$|[^0-9]))`)},
	{"MAC_ADDRESS", forms(`[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}`, wordBegins, wordEnds)},
	{"IBAN", forms(`[A-Z]{2}[0-9]{2}(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){3,7}(?: [A-Z0-9]{1,3})?|(?: [A-Z0-9]{4}){2} [A-Z0-9]{3})`, wordBegins, wordEnds)},
}

const (
	wordBegins = `(?:^|[^0-9A-Za-z_])$`
	wordEnds   = `^(?:$|[^0-9A-Za-z_])`
	pathBegins = `(?:^|[^0-9A-Za-z_./~])$`
	posixPath  = "[^\\x00-\\x20\"'`<>|;,]"
	drivePath  = `[^\x00-\x1f"<>|*?;,]`
	octet      = `(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})`
)

// inOpaque is where no address is looked for: inside of an opaque-encoded value.
var inOpaque = regexp.MustCompile(`opaque:v1:[0-9A-Za-z_.=-]*$`)

type form struct{ begins, whole, before, behind *regexp.Regexp }

func forms(expr, before, behind string) []form {
	return []form{{
		begins: regexp.MustCompile(`^(?:` + expr + `)`),
		whole:  regexp.MustCompile(`^(?:` + expr + `)$`),
		before: regexp.MustCompile(before),
		behind: regexp.MustCompile(behind),
	}}
}

func sanitizeByReference(s string) string {
	for _, p := range reference {
		var out strings.Builder
		from := 0
		for start := 0; start < len(s); start++ {
			end := 0
			for _, f := range p.forms {
				if !f.begins.MatchString(s[start:]) || !f.before.MatchString(s[:start]) ||
					p.name == "IPV4" && inOpaque.MatchString(s[:start]) {
					continue
				}
				for e := len(s); e > max(start, end); e-- {
					if f.behind.MatchString(s[e:]) && f.whole.MatchString(s[start:e]) {
						end = e
					}
				}
			}
			if end != 0 {
				out.WriteString(s[from:start] + "[REDACTED_" + p.name + "]")
				from, start = end, end-1
			}
		}
		s = out.String() + s[from:]
	}
	return s
}

// pieces are what texts near the patterns are made of.
var pieces = []string{
	"123", "45", "6789", "1", "12", "1234567", "1234", "555", "0100", "0", "256", "255", "10", "99999999",
	"-", "-", ".", ".", " ", ":", "/", "\\", "+", "(", ")", "_", "=", "@", "~", ",", "\"", "\n", "\u00e9", "\xff",
	"a", "k", "s", "sk-", "ghp_", "gh", "abcdefghijklmnop", "ABCDEFGHIJKL", "0123456789abcdefghij", "Bearer ", "bEARER\t",
	"ops@example.com", "@b.co", ".com", ".c", "+1", "(415)", "415", "C:", "x:/", "C:\\Users\\", "d:\\documents AND settings/",
	"/home/", "/Users", "/var/home/x", "/opt/", "/root/", "/tmp/", "/var/tmp/a", "/private/tmp/", "/workspaces/", "/workspace", "/srv/", "/mnt/x",
	"file:", "FILE:/", "//", "10.0.0.1", "1.2.3", "00:11:22:33:44:55", "00-11-", "aB:", "GB82", "WEST", "DE89 3704", " 0044", " 00",
	"opaque:v1:", "opaque:v1:123.45", "6.", "012.", "10.1", "[REDACTED_SSN]", "123-45-6789", "12-3456789", "1234 5678-9012 3456",
}

func TestSanitizeIsItsReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 9).Draw(t, "pieces"), "")
		if got, want := Sanitize(s), sanitizeByReference(s); got != want {
			t.Fatalf("%q became\n%q, want\n%q", s, got, want)
		}
	})
}

func FuzzSanitize(f *testing.F) {
	for i := range pieces {
		f.Add(pieces[i] + pieces[(i*7+3)%len(pieces)] + pieces[(i*11+5)%len(pieces)])
	}
	for _, c := range sanitizerVectors(f).Strings {
		f.Add(c.Input)
	}
	for _, c := range sanitizedTexts {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 150 {
			return // the reference takes quadratic time
		}
		if got, want := Sanitize(s), sanitizeByReference(s); got != want {
			t.Fatalf("%q became\n%q, want\n%q", s, got, want)
		}
	})
}

type sanitizerCases struct {
	Strings []struct {
		Input, Output string
		Types         []string
	}
	Objects []struct{ Input, Output any }
}

func sanitizerVectors(t testing.TB) (v sanitizerCases) {
	t.Helper()
	vectors(t, "sanitizer.json", "sanitizer", &v)
	if len(v.Strings) < 20 || len(v.Objects) < 12 {
		t.Fatalf("%d texts and %d objects: the file is not whole", len(v.Strings), len(v.Objects))
	}
	return v
}

func TestSanitizerVectors(t *testing.T) {
	t.Parallel()
	v := sanitizerVectors(t)
	for _, c := range v.Strings {
		got := Sanitize(c.Input)
		if got != c.Output {
			t.Errorf("%q became %q, want %q", c.Input, got, c.Output)
		}
		for _, kind := range c.Types {
			if !strings.Contains(got, "[REDACTED_"+strings.ToUpper(kind)+"]") {
				t.Errorf("%q became %q, without %s", c.Input, got, kind)
			}
		}
	}
	for _, c := range v.Objects {
		before, err := json.Marshal(c.Input)
		if err != nil {
			t.Fatal(err)
		}
		if got := SanitizeValue(c.Input); !reflect.DeepEqual(got, c.Output) {
			t.Errorf("%s became %v, want %v", before, got, c.Output)
		}
		if after, _ := json.Marshal(c.Input); string(after) != string(before) {
			t.Errorf("the input itself was changed, from %s to %s", before, after)
		}
	}
}

var sanitizedTexts = []struct{ text, want string }{
	{"", ""},
	{"opaque:v1:MTI.zNC.01", "opaque:v1:MTI.zNC.01"},
	{"opaque:v1:MTI.zNC.0123-45-6789", "opaque:v1:MTI.zNC.0123-45-6789"},
	{"opaque:v1:MTI.123-45-6789", "opaque:v1:MTI.[REDACTED_SSN]"},
	{"opaque:v1:10.0.0.1 10.0.0.1", "opaque:v1:10.0.0.1 [REDACTED_IPV4]"},
	{"a123-45-6789", "a123-45-6789"},
	{"1234-45-6789", "1234-45-6789"},
	{"123-45-6789 123-45-6789", "[REDACTED_SSN] [REDACTED_SSN]"},
	{"12345678901234567", "12345678901234567"},
	{"1234 5678-90123456", "[REDACTED_CREDIT_CARD]"},
	{"<first.last+tag@mail.example.co.uk>.", "<[REDACTED_EMAIL]>."},
	{"a@b@example.com", "a@[REDACTED_EMAIL]"},
	{"git@localhost", "git@localhost"},
	{"sk-abcdefghijklmnop", "[REDACTED_API_TOKEN]"},
	{"task-abcdefghijklmnop", "task-abcdefghijklmnop"},
	{"ghs_0123456789abcdefghij!", "[REDACTED_API_TOKEN]!"},
	{"Authorization: bearer  abc.def-ghi_123==", "Authorization: [REDACTED_BEARER_TOKEN]"},
	{"Bearer short", "Bearer short"},
	{"tel(415) 555-0100", "tel[REDACTED_PHONE]"},
	{"+1 415.555.0100", "[REDACTED_PHONE]"},
	{"1-415-555-0100", "[REDACTED_PHONE]"},
	{"4155550100", "[REDACTED_PHONE]"},
	{"+441632960961", "+441632960961"},
	{`C:\Users\ann\x.txt; next`, "[REDACTED_WINDOWS_USER_PATH]; next"},
	{"d:/work", "[REDACTED_WINDOWS_ABSOLUTE_PATH]"},
	{"https://example.com/home/x", "https://example.com/home/x"},
	{`open "/home/ann/.ssh/id": denied`, `open "[REDACTED_POSIX_USER_PATH]": denied`},
	{"/home/ops@example.com/x", "[REDACTED_POSIX_USER_PATH]"},
	{"PATH=/opt/bin:/usr/bin", "PATH=[REDACTED_POSIX_LOCAL_PATH]"},
	{"./tmp/x ../opt/y src/root/z /tmp /tmp/", "./tmp/x ../opt/y src/root/z /tmp /tmp/"},
	{"/var/tmp/a,/private/tmp/b", "[REDACTED_POSIX_LOCAL_PATH],[REDACTED_POSIX_LOCAL_PATH]"},
	{"file:///home/ann/x", "[REDACTED_FILE_URI]"},
	{"profile:/x", "profile:/x"},
	{"at 10.0.0.1.", "at [REDACTED_IPV4]."},
	{"10.0.0.256", "10.0.0.256"},
	{"v1.2.3.4", "v1.2.3.4"},
	{"10.0.0.1:80-10.0.0.9", "[REDACTED_IPV4]:80-[REDACTED_IPV4]"},
	{"00-1a-2B-33-44-55", "[REDACTED_MAC_ADDRESS]"},
	{"GB82WEST12345698765432", "[REDACTED_IBAN]"},
	{"GB82 WEST 1234 5698 7654 32.", "[REDACTED_IBAN]."},
	{"NO93 8601 1117 947", "[REDACTED_IBAN]"},
	{"NO93 8601 1117 94", "NO93 8601 1117 94"},
	{"AA00 0000 0000", "AA00 0000 0000"},
	{"2030-01-02T03:04:05.123456+00:00", "2030-01-02T03:04:05.123456+00:00"},
	{"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
}

func TestSanitizedTexts(t *testing.T) {
	t.Parallel()
	for _, c := range sanitizedTexts {
		if got := Sanitize(c.text); got != c.want {
			t.Errorf("%q became %q, want %q", c.text, got, c.want)
		}
	}
}

func TestSanitizeMember(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path        []string
		name, value string
		want        string
	}{
		{nil, "API-Key", "x", "[REDACTED_SECRET]"},
		{nil, "client  secret", "x", "[REDACTED_SECRET]"},
		{nil, "client__secret", "x", "[REDACTED_SECRET]"},
		{nil, "to\u212aen", "x", "[REDACTED_SECRET]"},
		{nil, "token_count", "x", "x"},
		{nil, "_token", "x", "x"},
		{nil, "Source.URI", "x", "[REDACTED_LOCATION]"},
		{nil, "hostname", "", ""},
		{nil, "user.email", "x", "[REDACTED_PERSON]"},
		{nil, "Name", "x", "x"},
		{[]string{"a", "Repository Owner", "b"}, "Name", "x", "[REDACTED_PERSON]"},
		{[]string{"repository"}, "name", "x", "x"},
		{nil, "note", "10.0.0.1", "[REDACTED_IPV4]"},
	} {
		if got := SanitizeMember(c.path, c.name, c.value); got != c.want {
			t.Errorf("%v %q %q became %q, want %q", c.path, c.name, c.value, got, c.want)
		}
	}
}

func TestSanitizeValueByName(t *testing.T) {
	t.Parallel()
	in := map[string]any{
		"token": map[string]any{"a": 1.0}, "secret": []any{}, "password": 7.0, "url": []any{"x"},
		"people": []any{map[string]any{"person": map[string]any{}, "name": "x"}},
		"users":  []any{map[string]any{"name": "x", "mail": "ops@example.com"}},
	}
	want := map[string]any{
		"token": "[REDACTED_SECRET]", "secret": []any{}, "password": 7.0, "url": "[REDACTED_LOCATION]",
		"people": []any{map[string]any{"person": map[string]any{}, "name": "x"}},
		"users":  []any{map[string]any{"name": "[REDACTED_PERSON]", "mail": "[REDACTED_EMAIL]"}},
	}
	if got := SanitizeValue(in); !reflect.DeepEqual(got, want) {
		t.Errorf("became %v, want %v", got, want)
	}
}

func TestOpaqueValuesPassTheSanitizer(t *testing.T) {
	t.Parallel()
	// The groups of these are digits that would be an address anywhere else.
	for _, s := range []string{"\u05dd5\u3374\u05dd", "x\u05dd5\u3374\u05dd5\u3374\u05dd", "\u05dd4\u05dd4\u05dd4"} {
		if enc := string(appendOpaque(nil, s)); Sanitize(enc) != enc {
			t.Errorf("%q: %s became %s", s, enc, Sanitize(enc))
		}
	}
	if got := Sanitize("from 140.144.201.40=x"); got != "from [REDACTED_IPV4]=x" {
		t.Errorf("the same digits in other text: %s", got)
	}
	digits := rapid.StringOf(rapid.SampledFrom([]rune("\u05dd\u05de\u3374\u33b5\ub375459:=>?a1 -@./")))
	rapid.Check(t, func(t *rapid.T) {
		enc := string(appendOpaque(nil, rapid.OneOf(rapid.String(), digits).Draw(t, "plain")))
		if got := SanitizeMember([]string{"repository_work_item"}, "owner_id", enc); got != enc {
			t.Fatalf("%s became %s", enc, got)
		}
	})
}

// storedRecord gives the texts of a record of about two kilobytes.
func storedRecord(tb testing.TB) (names, values []string) {
	tb.Helper()
	var row struct {
		Row struct{ Metadata map[string]map[string]any }
	}
	vectors(tb, "rows.json", "stored_row", &row)
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case string:
			names, values = append(names, name), append(values, v)
		case []any:
			for _, e := range v {
				walk(name, e)
			}
		case map[string]any:
			for name, e := range v {
				walk(name, e)
			}
		}
	}
	walk("", row.Row.Metadata["repository_work_item"])
	if len(values) < 30 {
		tb.Fatalf("the record has only %d texts", len(values))
	}
	return names, values
}

func TestSanitizingAStoredRecordAllocatesNothing(t *testing.T) {
	names, values := storedRecord(t)
	path := []string{"repository_work_item"}
	if n := testing.AllocsPerRun(100, func() {
		for i := range values {
			if SanitizeMember(path, names[i], values[i]) != values[i] {
				t.Fatalf("%s was changed", names[i])
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSanitizeRecord(b *testing.B) {
	names, values := storedRecord(b)
	path := []string{"repository_work_item"}
	size := 0
	for i := range values {
		size += len(names[i]) + len(values[i])
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		for i := range values {
			if got := SanitizeMember(path, names[i], values[i]); len(got) != len(values[i]) {
				b.Fatal("a value was changed")
			}
		}
	}
}
