package suite_test

import (
	"context"
	"fmt"
	"os"

	"github.com/writ-authority/writ/gate/suite"
)

func ExampleParse() {
	cfg, err := suite.Parse("writ.yaml", []byte(`
policy:
  require_lint: true
suites:
  - id: unit
    run: go test ./...
    kind: tests
    timeout: 5m
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s := cfg.Suites[0]
	fmt.Printf("%s runs %q, at most %v; flags %02x\n", s.ID, s.Run, s.Timeout, cfg.Policy.Apply(0x82))

	_, err = suite.Parse("writ.yaml", []byte("suites:\n  - id: unit\n    runs: make\n"))
	fmt.Println(err)
	// Output:
	// unit runs "go test ./...", at most 5m0s; flags 86
	// writ.yaml:3:5: unknown member "runs" in a suite; known are id, run, kind, blocking, timeout, env
}

// A change that would make its own tests pass by not running them.
func ExampleResolve() {
	base := files{"writ.yaml": "suites: [{id: unit, run: make test, kind: tests}]"}
	head := files{"writ.yaml": "suites: [{id: unit, run: 'true', kind: tests}, {id: extra, run: make extra}]"}
	plan, err := suite.Resolve(base, head, 0x82)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range plan.Suites {
		fmt.Printf("%s: %s (added: %v)\n", s.ID, s.Run, s.Added)
	}
	for _, n := range plan.Notes {
		fmt.Println(n)
	}
	// Output:
	// extra: make extra (added: true)
	// unit: make test (added: false)
	// suite unit: the head changes run from "make test" to "true"; this takes effect after landing
}

func ExampleRun() {
	dir, err := os.MkdirTemp("", "suite")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	results, err := suite.Run(context.Background(), suite.RunOptions{
		Suites: []suite.Planned{{Suite: suite.Suite{
			ID: "unit", Run: suite.Command{Shell: "echo 1 of 2 failed; exit 1"},
			Kind: suite.KindTests, Blocking: true, Timeout: suite.DefaultTimeout,
		}}},
		Dir:    dir, // the checkout
		LogDir: dir,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(results[0].Status, results[0].Reason, results[0].Tail)
	fmt.Println(results.Evidence().Overall)
	// Output:
	// fail exit code 1 [1 of 2 failed]
	// fail
}
