package bindb_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// A root of one Repository: made, opened, written and read.
func Example() {
	dir, err := os.MkdirTemp("", "writ")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg := bindb.Config{
		Dir: filepath.Join(dir, "4"), Kind: record.RootAuthority, Label: "4",
		Runtime:  filepath.Join(dir, "runtime"),
		Identity: [32]byte{1}, // tells this root from every other one
	}
	if err := bindb.Create(cfg); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	root, err := bindb.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}

	// A mutation is durable when Update returns. One that fails changes nothing.
	addLine := func(name string) error {
		return root.Update(ctx, func(tx *bindb.Tx) error {
			if len(name) > 65535 {
				return errors.New("the name is too long")
			}
			off, err := bindb.LineNamePayload.Append(tx, []byte(name))
			if err != nil {
				return err
			}
			_, err = bindb.Lines.Append(tx, record.Line{NameOffset: off, NameLen: uint16(len(name)), CreatedAt: 1, UpdatedAt: 1})
			return err
		})
	}
	for _, name := range []string{"main", "release"} {
		if err := addLine(name); err != nil {
			log.Fatal(err)
		}
	}

	err = root.View(ctx, func(rd bindb.Reader) error {
		return bindb.LinesByName(rd, "release", func(index uint32) (bool, error) {
			line, err := bindb.Lines.Get(rd, index)
			if err != nil {
				return false, err
			}
			name, err := bindb.LineNamePayload.Read(rd, line.NameOffset, int(line.NameLen))
			fmt.Printf("Line %d is %s\n", index, name)
			return false, err
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	findings, err := root.Check(ctx)
	fmt.Println(len(findings), "findings,", err)
	if err := root.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Line 1 is release
	// 0 findings, <nil>
}
