package operation_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/writ-authority/writ/server/operation"
)

// TestTable: what every surface relies on.
func TestTable(t *testing.T) {
	t.Parallel()
	groups := map[string]bool{}
	for _, g := range operation.Groups {
		groups[g.Name] = true
	}
	names, routes := map[string]bool{}, map[string]bool{}
	for _, o := range operation.Table {
		if names[o.Name] || routes[o.Method+o.Path] {
			t.Errorf("%s is there twice", o.Name)
		}
		names[o.Name], routes[o.Method+o.Path] = true, true
		if !groups[o.Group] || o.Summary == "" || o.Description == "" || o.Scope == 0 {
			t.Errorf("%s is not complete: %+v", o.Name, o)
		}
		if o.ReadOnly && (o.Destructive || !o.Idempotent || o.Method != "GET") || !o.ReadOnly && o.Method == "GET" {
			t.Errorf("%s: its hints contradict one another", o.Name)
		}
		wildcards := 0
		for _, f := range o.Fields {
			if f.Place == operation.Path {
				wildcards++
			}
			if f.Place == operation.Body && o.Method == "GET" {
				t.Errorf("%s: %s can't be in the body of a GET", o.Name, f.Name)
			}
		}
		if want := strings.Count(o.Path, "{id}"); wildcards != want || want > 1 {
			t.Errorf("%s: %d members for %d wildcards", o.Name, wildcards, want)
		}
		if got, ok := operation.ByName(o.Name); !ok || got != o {
			t.Errorf("%s is not found by its name", o.Name)
		}
	}
	if n := reflect.TypeFor[operation.Jobs]().NumMethod(); n != len(operation.Table) {
		t.Errorf("%d verbs, %d rows", n, len(operation.Table))
	}
	if _, ok := operation.ByName("none"); ok {
		t.Error("an operation without a row is found")
	}
}
