package suite

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Detect returns the suites that what is at the top of a tree suggests, sorted by
// id. They are all blocking and have the default time limit.
//
//	go.mod          go test ./..., go vet ./...
//	package.json    the scripts test and lint, with npm, pnpm, yarn or bun
//	Cargo.toml      cargo test, cargo fmt --check
//	pyproject.toml  pytest or unittest, ruff where it is configured
//	Makefile        make test or make check, make lint: each only where nothing
//	                above has given tests or lint already, since it would most
//	                likely run the same again
//
// A file that can't be understood suggests nothing: were it an error, the change
// that repairs the file could not be checked. The error is one of tree.
func Detect(tree Tree) ([]Suite, error) {
	names, err := tree.List()
	if err != nil {
		return nil, err
	}
	d := detection{tree: tree, names: make(map[string]bool, len(names))}
	for _, n := range names {
		d.names[n] = true
	}
	for _, find := range []func() error{d.golang, d.node, d.rust, d.python, d.makefile} {
		if err := find(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(d.found, func(a, b Suite) int { return strings.Compare(a.ID, b.ID) })
	return d.found, nil
}

type detection struct {
	tree  Tree
	names map[string]bool
	found []Suite
}

func (d *detection) add(id string, kind Kind, run string) {
	d.found = append(d.found, Suite{ID: id, Run: Command{Shell: run}, Kind: kind, Blocking: true, Timeout: DefaultTimeout})
}

func (d *detection) gives(k Kind) bool {
	return slices.ContainsFunc(d.found, func(s Suite) bool { return s.Kind == k })
}

// anyOf reports whether one of the names is at the top of the tree.
func (d *detection) anyOf(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return d.names[n] })
}

// read returns a file at the top of the tree, ok false if there is none.
func (d *detection) read(name string) ([]byte, bool, error) {
	if !d.names[name] {
		return nil, false, nil
	}
	return d.tree.Read(name)
}

func (d *detection) golang() error {
	if _, ok, err := d.read("go.mod"); !ok || err != nil {
		return err
	}
	d.add("go-test", KindTests, "go test ./...")
	d.add("go-vet", KindLint, "go vet ./...")
	return nil
}

// packageJSON is the part of a package.json that matters here. Of dependencies
// only their presence counts.
type packageJSON struct {
	Scripts              map[string]any  `json:"scripts"`
	PackageManager       string          `json:"packageManager"`
	Workspaces           json.RawMessage `json:"workspaces"`
	Dependencies         map[string]any  `json:"dependencies"`
	DevDependencies      map[string]any  `json:"devDependencies"`
	OptionalDependencies map[string]any  `json:"optionalDependencies"`
	PeerDependencies     map[string]any  `json:"peerDependencies"`
}

func (d *detection) node() error {
	data, ok, err := d.read("package.json")
	if !ok || err != nil {
		return err
	}
	var p packageJSON
	if json.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &p) != nil {
		return nil
	}
	tool, install := d.nodeTool(p.PackageManager)
	prefix := ""
	if len(p.Dependencies)+len(p.DevDependencies)+len(p.OptionalDependencies)+len(p.PeerDependencies) > 0 || p.Workspaces != nil {
		prefix = install + " && " // the checkout is clean: nothing is installed there
	}
	if s, _ := p.Scripts["test"].(string); strings.TrimSpace(s) != "" && !strings.Contains(s, "no test specified") {
		run := tool + " run test"
		if tool == "npm" {
			run = "npm test"
		}
		d.add(tool+"-test", KindTests, prefix+run)
	}
	if s, _ := p.Scripts["lint"].(string); strings.TrimSpace(s) != "" {
		d.add(tool+"-lint", KindLint, prefix+tool+" run lint")
	}
	return nil
}

// nodeTool finds the package manager by its lock file, else by the member
// packageManager, and the command that installs exactly what a lock file says.
func (d *detection) nodeTool(declared string) (tool, install string) {
	declared, _, _ = strings.Cut(declared, "@")
	switch {
	case d.anyOf("pnpm-lock.yaml"):
		return "pnpm", "pnpm install --frozen-lockfile"
	case d.anyOf("yarn.lock") && d.anyOf(".yarnrc.yml"): // Yarn 2 and later
		return "yarn", "yarn install --immutable"
	case d.anyOf("yarn.lock"):
		return "yarn", "yarn install --frozen-lockfile"
	case d.anyOf("bun.lock", "bun.lockb"):
		return "bun", "bun install --frozen-lockfile"
	case d.anyOf("package-lock.json", "npm-shrinkwrap.json"):
		return "npm", "npm ci"
	case declared == "pnpm" || declared == "yarn" || declared == "bun":
		return declared, declared + " install"
	}
	return "npm", "npm install"
}

func (d *detection) rust() error {
	if _, ok, err := d.read("Cargo.toml"); !ok || err != nil {
		return err
	}
	d.add("cargo-test", KindTests, "cargo test")
	d.add("cargo-fmt", KindLint, "cargo fmt --check")
	return nil
}

func (d *detection) python() error {
	project, ok, err := d.read("pyproject.toml")
	if !ok || err != nil {
		return err
	}
	if tomlTable(project, "tool.pytest") || d.anyOf("pytest.ini", "conftest.py", "tests") {
		d.add("pytest", KindTests, "python3 -m pytest")
	} else {
		d.add("unittest", KindTests, "python3 -m unittest discover")
	}
	if tomlTable(project, "tool.ruff") || d.anyOf("ruff.toml", ".ruff.toml") {
		d.add("ruff", KindLint, "ruff check")
	}
	return nil
}

// tomlTable reports whether a TOML file has a table of that name or below it.
func tomlTable(data []byte, name string) bool {
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("["+name))
		if ok && len(rest) > 0 && (rest[0] == ']' || rest[0] == '.') {
			return true
		}
	}
	return false
}

func (d *detection) makefile() error {
	// The order in which GNU make looks; it takes the first.
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		data, ok, err := d.read(name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		has := makeTargets(data, "test", "check", "lint")
		switch {
		case d.gives(KindTests):
		case has["test"]:
			d.add("make-test", KindTests, "make test")
		case has["check"]:
			d.add("make-check", KindTests, "make check")
		}
		if has["lint"] && !d.gives(KindLint) {
			d.add("make-lint", KindLint, "make lint")
		}
		return nil
	}
	return nil
}
