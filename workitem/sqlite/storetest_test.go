package sqlite_test

import (
	"context"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
	"github.com/writ-authority/writ/workitem/storetest"
)

var linear = flag.Duration("linear", time.Second, "how long TestLinear lets 64 workers call the authority")

func engine(ctx context.Context, dir string, clock *storetest.Reading) (workitem.Store, error) {
	o := sqlite.Options{Path: filepath.Join(dir, "work.db")}
	if clock != nil {
		o.Clock = clock
	}
	return sqlite.Open(ctx, o)
}

func TestBehaviour(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Over(engine))
}

func TestModel(t *testing.T) {
	t.Parallel()
	storetest.Model(t, storetest.Over(engine))
}

func TestLinear(t *testing.T) {
	t.Parallel()
	storetest.Linear(t, storetest.Over(engine), *linear)
}
