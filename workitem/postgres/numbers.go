package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// numbersAtOnce is how many row numbers a process takes from the sequence at a time:
// value v of it stands for v·numbersAtOnce and those before, from 1 on. Numbers that are
// not used are lost, which matters to nobody.
const numbersAtOnce = 4096

// numbers gives new rows their numbers.
type numbers struct {
	pool *pgxpool.Pool

	mu        sync.Mutex
	last, end int64 // the one that was given last, and the last one of all
}

// take gives so many numbers, in rising order as far as one process takes them.
func (n *numbers) take(ctx context.Context, count int) ([]int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]int64, 0, count)
	for len(list) < count {
		if n.last == n.end {
			var v int64
			if err := n.pool.QueryRow(ctx, "SELECT nextval('items_item')").Scan(&v); err != nil {
				return nil, err
			}
			n.end = v * numbersAtOnce
			n.last = n.end - numbersAtOnce
		}
		n.last++
		list = append(list, n.last)
	}
	return list, nil
}
