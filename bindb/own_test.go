package bindb_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
)

// owned says whether the fixtures make roots that their process owns.
var owned = os.Getenv("WRIT_TEST_OWN") != ""

// shared skips a test about several processes at one root.
func shared(t *testing.T) {
	t.Helper()
	if owned {
		t.Skip("an owned root is not shared")
	}
}

// TestEverythingOwned runs all other tests once more, on owned roots.
func TestEverythingOwned(t *testing.T) {
	t.Parallel()
	if owned {
		t.Skip("this is the second run")
	}
	args := []string{"-test.run=^(Test|Example)", "-test.timeout=10m"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(context.Background(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "WRIT_TEST_OWN=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
