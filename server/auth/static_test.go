package auth

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// everybody takes every token.
type everybody struct{}

func (everybody) Authenticate(context.Context, string) (workitem.Principal, error) {
	return workitem.Principal{Subject: "x", Tenant: "x", Owner: "x"}, nil
}

func TestStaticTokensAreRememberedWithinABound(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	s := newStatic(everybody{}, func() time.Time { return now })
	largest := 0
	for i := range 3 * maxCached {
		if i == maxCached/2 {
			now = now.Add(TokenCache) // what is over goes first
		}
		if _, err := s.authenticate(t.Context(), fmt.Sprintf("writ_k%d_x", i)); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, len(s.cached))
	}
	if largest != maxCached {
		t.Errorf("up to %d tokens were remembered, expected %d", largest, maxCached)
	}
}
