package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// conversion runs writ db convert.
func conversion(t *testing.T, run func(schema string, exit int, args ...string) map[string]any) {
	t.Helper()
	rows := filepath.Join("..", "authority", "convert", "testdata", "rows")
	run("writ.error.v1", 7, "db", "convert", "--from", "u32-time-v0", "--data", t.TempDir(), rows)
	run("writ.error.v1", 2, "db", "convert", "--from", "legacy-rows", "--gate", "all", rows)
	source := filepath.Join(t.TempDir(), "rows")
	if err := os.CopyFS(source, os.DirFS(rows)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"operational.json", filepath.Join("repositories", "5.json")} {
		withoutWork(t, filepath.Join(source, name))
	}
	run("writ.db-conversion.v1", 0, "db", "convert", "--from", "legacy-rows", "--data", filepath.Join(t.TempDir(), "data"), source)
}

// withoutWork empties the arrays of a document whose rows need content in binary
// form, which is not there.
func withoutWork(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for name, v := range doc {
		if _, ok := v.([]any); ok && name != "repositories" {
			doc[name] = []any{}
		}
	}
	if raw, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
