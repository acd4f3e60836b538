package workitem

import (
	"encoding/json"
	"os"
	"testing"
)

// vectors reads one section of a file of golden values into v. The values were
// printed by the public reference of the boundary.
func vectors(t testing.TB, file, section string, v any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var sections map[string]json.RawMessage
	if err := json.Unmarshal(raw, &sections); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(sections[section], v); err != nil {
		t.Fatalf("%s of %s: %v", section, file, err)
	}
}
