package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// numbersAtOnce is how many row numbers a process takes from the sequence at a time:
// value v of it stands for those before v·numbersAtOnce. Numbers that are not used are
// lost, which matters to nobody.
const numbersAtOnce = 4096

// numbers gives new rows their numbers.
type numbers struct {
	pool *pgxpool.Pool

	mu        sync.Mutex
	next, end int64
}

// take gives n numbers in a row, at most numbersAtOnce, the first of which it returns.
func (n *numbers) take(ctx context.Context, count int) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next+int64(count) > n.end {
		var v int64
		if err := n.pool.QueryRow(ctx, "SELECT nextval('items_item')").Scan(&v); err != nil {
			return 0, err
		}
		n.end = v * numbersAtOnce
		n.next = n.end - numbersAtOnce
	}
	first := n.next
	n.next += int64(count)
	return first, nil
}
