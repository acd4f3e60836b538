package gitrepo_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/writ-authority/writ/gitrepo"
)

func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := exec.Command("git", "init", "--quiet", "--initial-branch=main", dir).Run(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("hello\n"), 0o666); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	repo, err := gitrepo.Open(ctx, dir)
	if err != nil {
		log.Fatal(err)
	}
	defer repo.Close()
	head, err := repo.Head(ctx)
	if err != nil {
		log.Fatal(err)
	}
	status, err := repo.Status(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("branch %s, commit %q, dirty %v: %s\n", head.Branch, head.Commit, status.Dirty, status.Entries[0].Path)

	tree, err := repo.EmptyTree(ctx)
	if err != nil {
		log.Fatal(err)
	}
	manifest, err := repo.Manifest(ctx, tree)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d files, %x\n", manifest.Files, manifest.Hash[:4])
	// Output:
	// branch main, commit "", dirty true: hello.txt
	// 0 files, e3b0c442
}
