package rest_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
	"github.com/writ-authority/writ/workitem/storetest"
)

// TestBehaviour runs the conformance suite through the client, HTTP and the
// handlers. Every answer is held against the OpenAPI document on its way.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	direct := storetest.Over(func(ctx context.Context, dir string, clock *storetest.Reading) (workitem.Store, error) {
		return sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "work.db"), Clock: clock})
	})
	storetest.Run(t, func(t *testing.T, cfg workitem.Config, clock *storetest.Clock) *storetest.Bundle {
		t.Helper()
		b := *direct(t, cfg, clock)
		server := resttest.Serve(t, b.Jobs)
		b.Jobs = func(p workitem.Principal) operation.Jobs { return server.Client(t, p) }
		return &b
	})
}
