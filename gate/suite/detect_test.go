package suite_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/writ-authority/writ/gate/suite"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	const scripts = `"scripts": {"test": "vitest", "lint": "eslint ."}`
	for _, tc := range []struct {
		name string
		tree files
		want string // id kind command, one a line
	}{
		{"nothing", files{"README.md": ""}, ""},
		{"go", files{"go.mod": "module x"}, "go-test tests go test ./...\ngo-vet lint go vet ./..."},
		{"go.mod below", files{"x/go.mod": "module x"}, ""},
		{"folder of that name", files{"go.mod/x": ""}, ""},

		{"npm without dependencies", files{"package.json": `{` + scripts + `}`}, "npm-lint lint npm run lint\nnpm-test tests npm test"},
		{"npm", files{"package.json": `{` + scripts + `, "devDependencies": {"vitest": "1"}}`},
			"npm-lint lint npm install && npm run lint\nnpm-test tests npm install && npm test"},
		{"npm, locked", files{"package.json": `{"scripts": {"test": "x"}, "dependencies": {"a": "1"}}`, "package-lock.json": "{}"},
			"npm-test tests npm ci && npm test"},
		{"npm, workspaces", files{"package.json": `{"scripts": {"test": "x"}, "workspaces": ["a"]}`}, "npm-test tests npm install && npm test"},
		{"npm, no dependencies", files{"package.json": `{"scripts": {"test": "x"}, "dependencies": {}}`}, "npm-test tests npm test"},
		{"npm placeholder", files{"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}`}, ""},
		{"npm, blank script", files{"package.json": `{"scripts": {"test": " ", "lint": 3}}`}, ""},
		{"npm, no scripts", files{"package.json": `{"name": "x"}`}, ""},
		{"npm, broken", files{"package.json": `{"scripts": `}, ""},
		{"npm, byte order mark", files{"package.json": "\ufeff" + `{"scripts": {"test": "x"}}`}, "npm-test tests npm test"},
		{"pnpm", files{"package.json": `{` + scripts + `, "dependencies": {"a": "1"}}`, "pnpm-lock.yaml": ""},
			"pnpm-lint lint pnpm install --frozen-lockfile && pnpm run lint\npnpm-test tests pnpm install --frozen-lockfile && pnpm run test"},
		{"pnpm, declared", files{"package.json": `{"packageManager": "pnpm@9.1.0", "scripts": {"test": "x"}, "dependencies": {"a": "1"}}`},
			"pnpm-test tests pnpm install && pnpm run test"},
		{"yarn 1", files{"package.json": `{"scripts": {"test": "x"}, "dependencies": {"a": "1"}}`, "yarn.lock": ""},
			"yarn-test tests yarn install --frozen-lockfile && yarn run test"},
		{"yarn 4", files{"package.json": `{"scripts": {"test": "x"}, "dependencies": {"a": "1"}}`, "yarn.lock": "", ".yarnrc.yml": ""},
			"yarn-test tests yarn install --immutable && yarn run test"},
		{"bun", files{"package.json": `{"scripts": {"test": "x"}, "peerDependencies": {"a": "1"}}`, "bun.lock": ""},
			"bun-test tests bun install --frozen-lockfile && bun run test"},
		{"unknown manager", files{"package.json": `{"packageManager": "; rm -rf /", "scripts": {"test": "x"}}`}, "npm-test tests npm test"},

		{"cargo", files{"Cargo.toml": ""}, "cargo-fmt lint cargo fmt --check\ncargo-test tests cargo test"},

		{"python", files{"pyproject.toml": "[project]\n"}, "unittest tests python3 -m unittest discover"},
		{"pytest by table", files{"pyproject.toml": "[tool.pytest.ini_options]\n"}, "pytest tests python3 -m pytest"},
		{"pytest by folder", files{"pyproject.toml": "", "tests/test_a.py": ""}, "pytest tests python3 -m pytest"},
		{"pytest by file", files{"pyproject.toml": "", "pytest.ini": ""}, "pytest tests python3 -m pytest"},
		{"ruff by table", files{"pyproject.toml": "[tool.ruff.lint]\n"}, "ruff lint ruff check\nunittest tests python3 -m unittest discover"},
		{"ruff by file", files{"pyproject.toml": "", "ruff.toml": ""}, "ruff lint ruff check\nunittest tests python3 -m unittest discover"},
		{"another tool", files{"pyproject.toml": "[tool.pytester]\n[tool.ruffian]\n"}, "unittest tests python3 -m unittest discover"},
		{"python without a project", files{"tests/test_a.py": "", "setup.py": ""}, ""},

		{"make", files{"Makefile": "test:\n\nlint:\n\ncheck:\n"}, "make-lint lint make lint\nmake-test tests make test"},
		{"make check", files{"makefile": "check: all\n"}, "make-check tests make check"},
		{"the first makefile counts", files{"GNUmakefile": "all:\n", "Makefile": "test:\n"}, ""},
		{"makefile is a folder", files{"makefile/x": "", "Makefile": "test:\n"}, "make-test tests make test"},
		{"make beside go", files{"Makefile": "test:\nlint:\n", "go.mod": ""}, "go-test tests go test ./...\ngo-vet lint go vet ./..."},
		{"make beside python", files{"Makefile": "test:\nlint:\n", "pyproject.toml": ""},
			"make-lint lint make lint\nunittest tests python3 -m unittest discover"},

		{"several languages", files{"go.mod": "", "package.json": `{"scripts": {"test": "x"}}`},
			"go-test tests go test ./...\ngo-vet lint go vet ./...\nnpm-test tests npm test"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found, err := suite.Detect(tc.tree)
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, s := range found {
				lines = append(lines, s.ID+" "+string(s.Kind)+" "+s.Run.String())
				if !s.Blocking || s.Timeout != suite.DefaultTimeout {
					t.Errorf("%+v", s)
				}
			}
			if got := strings.Join(lines, "\n"); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			// What is detected can be written down.
			c := suite.Config{Version: 1, Suites: found, HasSuites: true}
			again, err := suite.Parse("writ.yaml", c.Marshal())
			if err != nil || !sameConfig(&c, again) {
				t.Errorf("written down: %+v, %v", again, err)
			}
		})
	}
}

func TestDetectReportsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	all := files{"go.mod": "", "package.json": "{}", "Cargo.toml": "", "pyproject.toml": "", "Makefile": ""}
	for _, path := range []string{"", "go.mod", "package.json", "Cargo.toml", "pyproject.toml", "Makefile"} {
		if _, err := suite.Detect(broken{all, path}); !errors.Is(err, errBroken) {
			t.Errorf("%q unreadable: %v", path, err)
		}
	}
}
