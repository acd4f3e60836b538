package convert_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority/convert"
)

// TestDocumentSyntax has what json.Unmarshal takes and this decoder refuses, and
// what both refuse.
func TestDocumentSyntax(t *testing.T) {
	t.Parallel()
	const head = `{"repo_id": "r", "tasks": `
	const tail = `, "changes": [], "patchsets": [], "attestations": [], "reviews": [], "policy_decisions": [], "waivers": [], "lands": []}`
	task := func(title string) string {
		return head + `[{"task_id": "RT-0001", "task_seq": 1, "title": ` + title + `, "intent": "x", "planning_state": "planned", "status": "active", "created_at": null, "updated_at": null}]` + tail
	}
	for _, c := range []struct{ raw, says string }{
		{``, "rows.json is the end of the document, want an object"},
		{`[]`, "rows.json is an array, want an object"},
		{"\xef\xbb\xbf{}", "rows.json is \"\\xef\", want an object"},
		{`{}`, "rows.json has no repo_id"},
		{head + `[]` + tail + `{}`, "goes on behind its end"},
		{head + `[]` + tail + `]`, "goes on behind its end"},
		{head + `[}` + tail, "tasks[0] is \"}\", want an object"},
		{head + `[{}` + tail, "tasks[0] has no task_id"},
		{head + `[{},]` + tail, "tasks[0] has no task_id"},
		{head + `[],` + tail, "goes on with \",\", want a name in quotes"},
		{head + `[] "changes"`, "goes on with a string, want a comma or the end of the object"},
		{`{"repo_id" "r"}`, "repo_id is followed by a string, want a colon"},
		{`{"": 1}`, "has a member without a name"},
		{`{"repo_id": "r", "repo_id": "r"}`, "repo_id is there twice"},
		{`{"repo_id": "r", "Repo_ID": "r"}`, "Repo_ID is unknown; known are repo_id, tasks"},
		{`{repo_id: "r"}`, "goes on with \"r\", want a name in quotes"},
		{`{'repo_id': "r"}`, "want a name in quotes"},
		{`{"repo_id": "r", "tasks": [,]}`, "tasks[0] is \",\", want an object"},
		{task(`"a` + "\n" + `"`), "tasks[0].title has the control character 0x0a"},
		{task(`"\n` + "\t" + `"`), "tasks[0].title has the control character 0x09"},
		{task(`"\x"`), `tasks[0].title has the escape \x`},
		{task(`"\u12"`), `tasks[0].title has a \u escape that stands for no character`},
		{task(`"\ud800"`), `tasks[0].title has a \u escape that stands for no character`},
		{task(`"\ud800\u0041"`), `tasks[0].title has a \u escape that stands for no character`},
		{task(`"\udc00\ud800"`), `tasks[0].title has a \u escape that stands for no character`},
		{task(`"\u+041"`), `tasks[0].title has a \u escape that stands for no character`},
		{task("\"\xff\""), "rows.json is not UTF-8"},
		{head + `[{"title": "open`, "tasks[0].title has a string without an end"},
		{head + `[{"title": "open\`, "tasks[0].title has a string without an end"},
		{task(`nul`), "tasks[0].title is \"n\", want a string"},
	} {
		if _, err := convert.DecodeRows([]byte(c.raw)); !errors.Is(err, convert.ErrSource) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.80q: error %v, want %q", c.raw, err, c.says)
		}
	}
	for raw, want := range map[string]string{
		`"plain"`:                    "plain",
		`"\"\\\/\b\f\n\r\t"`:         "\"\\/\b\f\n\r\t",
		`"\u0041\u00e9\ud83d\ude00"`: "Aé😀",
		`"☂\u0000"`:                  "☂\x00",
		" \t\r\n\"\"":                "",
	} {
		if got, err := convert.DecodeRows([]byte(task(raw))); err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, %v", raw, got, err)
		}
	}
	deep := strings.Repeat("[", 1<<20)
	if err := convert.DecodeOperational([]byte(`{"repositories": [], "jobs": [{"request": ` + deep)); err == nil || !strings.Contains(err.Error(), "jobs[0].request is an array, want null") {
		t.Errorf("error %v", err)
	}
}

// seeds adds the documents of the tests.
func seeds(f *testing.F) {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "rows", "repositories", "*.json"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range append(paths, filepath.Join("testdata", "rows", "operational.json")) {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
}

// FuzzRows decodes anything. What is accepted has to be JSON, and its texts those
// that encoding/json reads.
func FuzzRows(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := convert.DecodeRows(raw)
		if err != nil {
			if !errors.Is(err, convert.ErrSource) {
				t.Errorf("error %v", err)
			}
			return
		}
		var doc struct {
			Tasks []struct {
				Title string `json:"title"`
			} `json:"tasks"`
			Reviews []struct {
				Comment *string `json:"comment"`
			} `json:"reviews"`
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatalf("accepted, but %v", err)
		}
		var want []string
		for _, x := range doc.Tasks {
			want = append(want, x.Title)
		}
		for _, x := range doc.Reviews {
			if x.Comment != nil {
				want = append(want, *x.Comment)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("texts %q, want %q", got, want)
		}
	})
}

// FuzzOperational decodes anything; what is accepted has to be JSON.
func FuzzOperational(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := convert.DecodeOperational(raw)
		if err == nil && !json.Valid(raw) {
			t.Error("accepted, but it is not JSON")
		}
		if err != nil && !errors.Is(err, convert.ErrSource) {
			t.Errorf("error %v", err)
		}
	})
}

// FuzzConversion converts rows of which one value was replaced by any other. It
// either refuses them or publishes a sound authority.
func FuzzConversion(f *testing.F) {
	for _, path := range []string{"tasks[0].task_id", "patchsets[0].diff_stats", "reviews[0].review_id", "lands[0].submission_id", "policy_decisions[0].checks"} {
		f.Add(path, `"RT-0001/C-01"`)
		f.Add(path, `null`)
	}
	f.Fuzz(func(t *testing.T, path, value string) {
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			t.Skip("no JSON")
		}
		r := newRows(t)
		if !r.reaches(path) {
			t.Skip("no value of the rows")
		}
		r.set(path, v)
		_, _, err := r.convert(nil)
		if err != nil && !errors.Is(err, convert.ErrSource) {
			t.Errorf("error %v", err)
		}
	})
}
