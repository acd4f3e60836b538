package rest_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
	"github.com/writ-authority/writ/workitem/storetest"
)

// served opens authorities behind servers of their own. Every answer is held
// against the OpenAPI document on its way.
func served(t *testing.T, cfg workitem.Config, clock *storetest.Clock) *storetest.Bundle {
	t.Helper()
	b := *storetest.Over(engine)(t, cfg, clock)
	server := resttest.Serve(t, b.Jobs)
	b.Jobs = func(p workitem.Principal) operation.Jobs { return server.Client(t, p) }
	return &b
}

func engine(ctx context.Context, dir string, clock *storetest.Reading) (workitem.Store, error) {
	o := sqlite.Options{Path: filepath.Join(dir, "work.db")}
	if clock != nil {
		o.Clock = clock
	}
	return sqlite.Open(ctx, o)
}

// TestBehaviour runs the conformance suite through client, HTTP and handlers.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	storetest.Run(t, served)
}

// TestLinear has clients give up while their calls may be on the way.
func TestLinear(t *testing.T) {
	t.Parallel()
	storetest.Linear(t, served, time.Second)
}
