package authority_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
)

// TestEverythingOwned runs all other tests once more; authoritytest.Setup gives
// authorities then that their process owns.
func TestEverythingOwned(t *testing.T) {
	t.Parallel()
	if authoritytest.Owned {
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

// While an authority is owned nobody else gets at it, not even to read.
func TestOwner(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := authority.Options{Dir: t.TempDir(), LockWait: time.Millisecond}
	if err := createIn(o); err != nil {
		t.Fatal(err)
	}
	owner := o
	owner.Own = true
	for _, second := range []authority.Options{o, owner} {
		a, err := authority.Open(ctx, owner)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := authority.Open(ctx, second); !errors.Is(err, bindb.ErrBusy) {
			t.Errorf("a second opener gets %v", err)
		}
		r, err := a.Repository(ctx, authority.FirstRepository)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Update(ctx, openTask); err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a, err := authority.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		t.Fatal(err)
	}
	err = r.View(ctx, func(v *authority.View) error {
		n, err := bindb.Tasks.Count(v)
		if n != 2 {
			t.Errorf("there are %d Tasks", n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
