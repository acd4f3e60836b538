package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/transfer"
)

// late is a Loader of which a test looks at the store just before it is finished.
type late struct {
	workitem.Loader
	look func()
}

func (l *late) Finish(ctx context.Context, epoch int64, clock workitem.Instant) error {
	l.look()
	return l.Loader.Finish(ctx, epoch, clock)
}

// Others may have a database open while it is filled. They are refused everything until
// the import has finished, and have it all from then on.
func TestFillBesideOthers(t *testing.T) {
	t.Parallel()
	to := engines["postgres"](t)
	from := engines["sqlite"](t)
	a := authority(t, must(from.open(t.Context()))(t))
	h := populate(t, a)
	must(a.As(admin("tenant-a")).Submit(t.Context(), request("tenant-a", "again", "build")))(t)
	closed(t, a)
	source := must(from.open(t.Context()))(t)
	before, text := read(t, source), export(t, source)
	closed(t, source)

	store := must(to.open(t.Context()))(t)
	other := authority(t, store)
	defer closed(t, other)
	// This gives a number to a tenant before those of the import get theirs.
	c := other.As(admin("tenant-z"))
	if _, err := c.Submit(t.Context(), request("tenant-z", "x", "merge", `,"dependencies":["rmjob:00000000-0000-5000-8000-000000000000"]`)); !errors.Is(err, workitem.ErrDependencyUnavailable) {
		t.Fatalf("a job whose parent is missing: %v", err)
	}
	looked := false
	_, err := transfer.Import(t.Context(), bytes.NewReader(text), func(ctx context.Context) (workitem.Loader, error) {
		l, err := to.fill(ctx)
		if err != nil {
			return nil, err
		}
		return &late{l, func() {
			looked = true
			if _, err := c.Stats(ctx, &workitem.NoInput{}); !errors.Is(err, workitem.ErrUnfinished) || !errors.Is(err, workitem.ErrAuthorityUnavailable) {
				t.Errorf("a read beside the import: %v", err)
			}
			if _, err := c.Submit(ctx, request("tenant-z", "y", "build")); !errors.Is(err, workitem.ErrUnfinished) {
				t.Errorf("a submission beside the import: %v", err)
			}
			if _, err := c.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w"}); !errors.Is(err, workitem.ErrUnfinished) {
				t.Errorf("a claim beside the import: %v", err)
			}
			if other.Health() == nil {
				t.Error("it says that it is healthy")
			}
			if _, err := to.open(ctx); !errors.Is(err, workitem.ErrUnfinished) {
				t.Errorf("opened beside the import: %v", err)
			}
		}}, nil
	})
	if err != nil || !looked {
		t.Fatal(err)
	}
	after := read(t, store)
	compare(t, before, after)
	goOn(t, other, h)
	if y := must(c.Submit(t.Context(), request("tenant-z", "y", "build")))(t); y.Deduplicated {
		t.Error("what was refused is there")
	}
	if err := other.Health(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
