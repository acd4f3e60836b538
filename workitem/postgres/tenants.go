package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tenants gives tenants the small numbers that rows have instead of names. A tenant
// keeps its number for ever, so what was read once stays true.
type tenants struct {
	pool *pgxpool.Pool // not that of the views and writers, which wait for it

	mu      sync.RWMutex
	names   map[int64]string
	numbers map[string]int64
}

// learning bounds how long a row waits for the name of its tenant.
const learning = 10 * time.Second

// of is the name of a number, which another process may have given just now; it is
// empty for a number that nobody has given.
func (t *tenants) of(n int64) (name string, err error) {
	t.mu.RLock()
	name, ok := t.names[n]
	t.mu.RUnlock()
	if ok {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), learning)
	defer cancel()
	_, name, err = t.learn(ctx, "tenant = $1", n)
	return name, err
}

// name is of for those who can do without.
func (t *tenants) name(n int64) (string, bool) {
	name, err := t.of(n)
	return name, err == nil && name != ""
}

// known is the number of a tenant, or 0 if it has none yet.
func (t *tenants) known(ctx context.Context, name string) (int64, error) {
	if n := t.number(name); n != 0 {
		return n, nil
	}
	n, _, err := t.learn(ctx, "name = $1", name)
	return n, err
}

// learn reads one tenant.
func (t *tenants) learn(ctx context.Context, condition string, key any) (n int64, name string, err error) {
	err = t.pool.QueryRow(ctx, "SELECT tenant, name FROM tenants WHERE "+condition, key).Scan(&n, &name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, "", nil
	case err != nil:
		return 0, "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names[n], t.numbers[name] = name, n
	return n, name, nil
}

// number is 0 for a tenant that this process has not seen.
func (t *tenants) number(name string) int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.numbers[name]
}

// read learns all tenants that there are when the store is opened.
func (t *tenants) read(ctx context.Context) error {
	rows, err := t.pool.Query(ctx, "SELECT tenant, name FROM tenants")
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names, t.numbers = map[int64]string{}, map[string]int64{}
	return each(rows, func(r pgx.Rows) error {
		var n int64
		var name string
		if err := r.Scan(&n, &name); err != nil {
			return err
		}
		t.names[n], t.numbers[name] = name, n
		return nil
	})
}

// ensure gives a tenant a number if it has none. That is durable before any row has
// it, and harmless without one.
func (t *tenants) ensure(ctx context.Context, name string) error {
	if t.number(name) != 0 {
		return nil
	}
	const insert = `INSERT INTO tenants (tenant, name) SELECT coalesce(max(tenant), 0) + 1, $1 FROM tenants
		ON CONFLICT (name) DO NOTHING`
	_, err := t.pool.Exec(ctx, insert, name)
	for tries := 0; isCode(err, uniqueViolation) && tries < 100; tries++ {
		// Another process took the number for another tenant.
		_, err = t.pool.Exec(ctx, insert, name)
	}
	if err != nil {
		return err
	}
	_, err = t.known(ctx, name)
	return err
}
