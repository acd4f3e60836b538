// Command recordgen derives the codecs, the layout tables and the layout page of
// package record from its declarations. It is run by go generate in that
// package, and its test fails when the derived files are stale.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	codeFile = "records_gen.go"
	pageFile = "../../docs/format.md"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "recordgen:", err)
		os.Exit(1)
	}
}

// run writes the derived files of the package in dir.
func run(dir string) error {
	code, page, err := generate(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, codeFile), code, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, pageFile), page, 0o644)
}

// generate gives the contents of the derived files of the package in dir.
func generate(dir string) (code, page []byte, err error) {
	m, err := load(dir)
	if err != nil {
		return nil, nil, err
	}
	code, err = m.code()
	if err != nil {
		return nil, nil, err
	}
	return code, m.page(), nil
}
