package record_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

func TestTuples(t *testing.T) {
	t.Parallel()
	tuples := record.Tuples()
	if len(tuples) != 10 {
		t.Fatalf("%d tuples, want 10", len(tuples))
	}
	seen := map[string]bool{}
	for _, u := range tuples {
		if seen[u.Message] {
			t.Errorf("message twice: %s", u.Message)
		}
		seen[u.Message] = true
		if !slices.IsSorted(u.Catalog) {
			t.Errorf("catalog is not in byte order: %v", u.Catalog)
		}
		roles := slices.Sorted(slices.Values(append(slices.Clone(u.Blocking), u.Informational...)))
		if !slices.Equal(roles, u.Catalog) {
			t.Errorf("roles %v do not make the catalog %v", roles, u.Catalog)
		}
		// The message names exactly the blocking suites before "keeps".
		blocks, _, _ := strings.Cut(u.Message, " and keeps ")
		for _, s := range u.Catalog {
			if slices.Contains(u.Blocking, s) != strings.Contains(blocks, "`"+s+"`") {
				t.Errorf("role of %s disagrees with %q", s, u.Message)
			}
		}
		reversed := slices.Clone(u.Catalog)
		slices.Reverse(reversed)
		if got, ok := record.MatchTuple(u.Message, reversed); !ok || got.Message != u.Message {
			t.Errorf("no match for %q", u.Message)
		}
		for name, bad := range map[string][]string{
			"a suite less": u.Catalog[1:], "a suite twice": append(slices.Clone(u.Catalog), u.Catalog[0]), "none": nil,
		} {
			if _, ok := record.MatchTuple(u.Message, bad); ok {
				t.Errorf("%s matches %q", name, u.Message)
			}
		}
		if _, ok := record.MatchTuple(u.Message+" ", u.Catalog); ok {
			t.Errorf("a longer message matches %q", u.Message)
		}
	}
	subject, detail, ok := tuples[3].Suite("recent_regression")
	if subject != 3 || !detail.Informational() || detail.Blocking() || !ok {
		t.Errorf("recent_regression: got %d, %d, %v", subject, detail, ok)
	}
	if _, _, ok := tuples[3].Suite("task_batch"); ok {
		t.Error("a foreign suite is found")
	}
}

// The messages are facts of the format, byte by byte.
func TestTupleMessages(t *testing.T) {
	t.Parallel()
	var got []string
	for _, u := range record.Tuples() {
		got = append(got, strings.Join(u.Catalog, ",")+"|"+strings.Join(u.Blocking, ",")+"|"+strings.Join(u.Informational, ",")+"|"+u.Message)
	}
	if want := facts(t, "tuples.txt"); !slices.Equal(got, want) {
		t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
