package suite

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Detect finds sensible suites from the files at the top of a tree. What it finds
// depends on nothing else, so that the same tree always gives the same suites.
func Detect(t Tree) ([]Suite, error) {
	names, err := t.List()
	if err != nil {
		return nil, err
	}
	d := &detection{tree: t, names: names}
	for _, find := range []func() error{d.golang, d.node, d.cargo, d.python, d.makefile} {
		if err := find(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(d.found, func(a, b Suite) int { return strings.Compare(a.ID, b.ID) })
	return d.found, nil
}

type detection struct {
	tree  Tree
	names []string
	found []Suite
}

func (d *detection) has(name string) bool { return slices.Contains(d.names, name) }

func (d *detection) add(id, run string, kind Kind) {
	d.found = append(d.found, Suite{ID: id, Run: Command{Shell: run}, Kind: kind, Blocking: true, Timeout: DefaultTimeout})
}

func (d *detection) golang() error {
	if d.has("go.mod") {
		d.add("go-test", "go test ./...", KindTests)
		d.add("go-vet", "go vet ./...", KindLint)
	}
	return nil
}

// node takes the scripts of package.json. The checkout is clean, so that a package
// with dependencies installs them first.
func (d *detection) node() error {
	data, ok, err := d.tree.Read("package.json")
	if err != nil || !ok {
		return err
	}
	var p struct {
		Scripts              map[string]string          `json:"scripts"`
		Dependencies         map[string]json.RawMessage `json:"dependencies"`
		DevDependencies      map[string]json.RawMessage `json:"devDependencies"`
		OptionalDependencies map[string]json.RawMessage `json:"optionalDependencies"`
	}
	if json.Unmarshal(data, &p) != nil {
		return nil // not a package that its own tools could read
	}
	tool, install := "npm", "npm install"
	switch {
	case d.has("pnpm-lock.yaml"):
		tool, install = "pnpm", "pnpm install --frozen-lockfile"
	case d.has("yarn.lock"):
		tool, install = "yarn", "yarn install --frozen-lockfile"
	case d.has("bun.lock") || d.has("bun.lockb"):
		tool, install = "bun", "bun install --frozen-lockfile"
	case d.has("package-lock.json") || d.has("npm-shrinkwrap.json"):
		install = "npm ci"
	}
	prefix := ""
	if len(p.Dependencies)+len(p.DevDependencies)+len(p.OptionalDependencies) > 0 {
		prefix = install + " && "
	}
	if s := p.Scripts["test"]; s != "" && !strings.Contains(s, "no test specified") {
		d.add(tool+"-test", prefix+tool+" run test", KindTests)
	}
	if p.Scripts["lint"] != "" {
		d.add(tool+"-lint", prefix+tool+" run lint", KindLint)
	}
	return nil
}

func (d *detection) cargo() error {
	if d.has("Cargo.toml") {
		d.add("cargo-test", "cargo test", KindTests)
		d.add("cargo-fmt", "cargo fmt --check", KindLint)
	}
	return nil
}

func (d *detection) python() error {
	data, ok, err := d.tree.Read("pyproject.toml")
	if err != nil || !ok {
		return err
	}
	switch {
	case bytes.Contains(data, []byte("[tool.pytest")) || d.has("pytest.ini") || d.has("tests"):
		d.add("pytest", "python3 -m pytest", KindTests)
	default:
		d.add("unittest", "python3 -m unittest discover", KindTests)
	}
	if bytes.Contains(data, []byte("[tool.ruff")) || d.has("ruff.toml") || d.has(".ruff.toml") {
		d.add("ruff", "python3 -m ruff check .", KindLint)
	}
	return nil
}

// makefile takes the targets test, else check, and lint, of the file that make
// itself would take. A Makefile beside a language's own file usually calls the
// same tools, so that it counts only on its own.
func (d *detection) makefile() error {
	if len(d.found) > 0 {
		return nil
	}
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		data, ok, err := d.tree.Read(name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		targets := makeTargets(data, "test", "check", "lint")
		switch {
		case targets["test"]:
			d.add("make-test", "make test", KindTests)
		case targets["check"]:
			d.add("make-check", "make check", KindTests)
		}
		if targets["lint"] {
			d.add("make-lint", "make lint", KindLint)
		}
		return nil
	}
	return nil
}
