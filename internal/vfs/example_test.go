package vfs_test

import (
	"fmt"
	"os"

	"github.com/writ-authority/writ/internal/vfs"
)

// A test of a commit lets it run on a Sim, cuts the power after every operation
// and looks at what a restart would find.
func Example() {
	sim := vfs.NewSim()
	commit := func(fsys vfs.FS, content string) error {
		return vfs.WriteFileAtomic(fsys, "/active.json", []byte(content), 0o600)
	}
	if err := commit(sim, "generation 1"); err != nil {
		fmt.Println(err)
	}
	sim.Capture()
	first := sim.OpCount()
	if err := commit(sim, "generation 2"); err != nil {
		fmt.Println(err)
	}

	for _, op := range sim.Ops()[first:] {
		fmt.Println(op)
	}
	found := map[string]int{}
	for cut := first; cut <= sim.OpCount(); cut++ {
		for disk := range sim.CrashStates(cut, vfs.Policy{}) {
			content, err := vfs.ReadFile(disk, "/active.json", 100)
			if err != nil {
				fmt.Println(disk.Origin(), err)
			}
			found[string(content)]++
		}
	}
	fmt.Println(len(found), found["generation 1"] > 0, found["generation 2"] > 0)
	// Output:
	// 6 create /.active.json.rewrite
	// 7 write /.active.json.rewrite 0+12
	// 8 sync /.active.json.rewrite
	// 9 rename /.active.json.rewrite to /active.json
	// 10 syncdir /
	// 2 true true
}

// A fault script makes operations fail.
func ExampleSim_Fail() {
	sim := vfs.NewSim()
	f, err := sim.OpenFile("/patchset.bin", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}
	sim.Fail(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && op.Path == "/patchset.bin" {
			return os.ErrDeadlineExceeded
		}
		return nil
	})
	fmt.Println(f.Sync())
	// Output: sync /patchset.bin: i/o timeout
}
