// Package house tests that the packages are built as ARCHITECTURE.md says.
package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/writ-authority/writ/"
)

// aside are the packages without a floor. Only one of them may import another.
var aside = []string{
	"bindb/record/internal/recordgen",
	"bindb/bindbtest",
	"cell/celltest",
	"authority/authoritytest",
	"authority/crashtest",
	"gitrepo/gitrepotest",
	"internal/pgtest",
	"server/mcp/conformance",
	"server/rest/resttest",
	"workitem/storetest",
	"docs",
	"internal/house",
}

// floors reads the table of ARCHITECTURE.md.
func floors(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d+) \\| `([a-z/]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		table[m[2]] = n
	}
	if len(table) == 0 {
		t.Fatal("ARCHITECTURE.md has no table of packages")
	}
	for _, name := range aside {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("ARCHITECTURE.md does not mention %s", name)
		}
	}
	return table
}

// imported is what the files of one package import from this module, without
// tests.
type imported map[string][]string

// packages parses the imports of every package of the module.
func packages(t *testing.T) imported {
	t.Helper()
	found := imported{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file == root {
				return nil
			}
			_, statErr := os.Stat(filepath.Join(file, "go.mod"))
			if name == "testdata" || name[0] == '.' || name[0] == '_' || statErr == nil {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		if _, ok := found[pkg]; !ok {
			found[pkg] = nil
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if p, ok := strings.CutPrefix(p, module); ok && !slices.Contains(found[pkg], p) {
				found[pkg] = append(found[pkg], p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestImportsPointDownwards(t *testing.T) {
	t.Parallel()
	table := floors(t)
	found := packages(t)
	for pkg, imports := range found {
		floor, ok := table[pkg]
		isAside := slices.Contains(aside, pkg)
		if ok == isAside {
			t.Errorf("%s must have a floor in ARCHITECTURE.md or be one of those beside them", pkg)
		}
		if isAside {
			continue
		}
		for _, p := range imports {
			if below, ok := table[p]; !ok {
				t.Errorf("%s imports %s, which has no floor: it is for tests", pkg, p)
			} else if below >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports point downwards", pkg, floor, p, below)
			}
		}
	}
	for pkg := range table {
		if _, ok := found[pkg]; !ok {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", pkg)
		}
	}
}

// TestOneWriterOfLifecycles says that only the engines of the work item store have
// SQL that writes the rows of jobs.
func TestOneWriterOfLifecycles(t *testing.T) {
	t.Parallel()
	engines := []string{"workitem/sqlite", "workitem/postgres"}
	writes := regexp.MustCompile(`(?i)\b(insert\s+(or\s+\w+\s+)?into|update|replace\s+into|delete\s+from)\s+(items|life)\b`)
	seen := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil || !writes.Match(text) {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		if !slices.Contains(engines, filepath.ToSlash(pkg)) {
			t.Errorf("%s writes rows of jobs: only %v may", file, engines)
		}
		seen++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Error("no statement that writes jobs was found: the pattern is out of date")
	}
}
