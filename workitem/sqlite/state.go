package sqlite

import (
	"sync"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/workitem"
)

// state is what the writer keeps in memory of what the database says. The
// database counts: after a rollback everything is read again.
type state struct {
	clock      workitem.Instant       // no stored instant is later
	epoch      int64                  // of the authority
	next       int64                  // row number of the next item
	tombstones bool                   // there may be some
	unverified bool                   // there may be some
	held       map[workitem.ID]*lease // every item that somebody holds
	leases     map[int64]*leases
	counts     map[countKey]*tally
	turns      map[turnKey]*turn
	wakes      map[wakeKey]workitem.Instant // earliest, or 0 if it must be asked
	dues       map[wakeKey]workitem.Instant // earliest deadline of a claimable row, or 0 if it must be asked
	tops       map[wakeKey]int              // no claimable row is in a higher bucket

	dirtyCounts []countKey
	dirtyTurns  []turnKey
	uncopied    int // writes since the last checkpoint
}

type countKey struct {
	tenant int64
	kind   workitem.Kind
	status workitem.Status
}

type tally struct {
	n     int64
	dirty bool
}

type turnKey struct {
	tenant int64
	kind   workitem.Kind
	bucket int
}

type turn struct {
	workitem.Turn
	dirty bool
}

type wakeKey struct {
	tenant int64
	kind   workitem.Kind
}

func (st *state) lease(tenant int64) *leases {
	l := st.leases[tenant]
	if l == nil {
		l = newLeases(st.held)
		st.leases[tenant] = l
	}
	return l
}

// count moves a row from one status to another; status 0 is none.
func (st *state) count(tenant int64, kind workitem.Kind, from, to workitem.Status) {
	if from == to {
		return
	}
	if from != 0 {
		st.add(countKey{tenant, kind, from}, -1)
	}
	if to != 0 {
		st.add(countKey{tenant, kind, to}, 1)
	}
}

func (st *state) add(k countKey, n int64) {
	t := st.counts[k]
	if t == nil {
		t = &tally{}
		st.counts[k] = t
	}
	t.n += n
	if !t.dirty {
		t.dirty = true
		st.dirtyCounts = append(st.dirtyCounts, k)
	}
}

// settle forgets what had to be written, once it was.
func (st *state) settle() {
	for _, k := range st.dirtyCounts {
		st.counts[k].dirty = false
	}
	for _, k := range st.dirtyTurns {
		st.turns[k].dirty = false
	}
	st.dirtyCounts, st.dirtyTurns = st.dirtyCounts[:0], st.dirtyTurns[:0]
}

// load reads the state.
func (s *Store) load() (*state, error) {
	st := &state{
		held: map[workitem.ID]*lease{}, leases: map[int64]*leases{}, counts: map[countKey]*tally{}, turns: map[turnKey]*turn{},
		wakes: map[wakeKey]workitem.Instant{}, dues: map[wakeKey]workitem.Instant{}, tops: map[wakeKey]int{},
	}
	if s.state != nil {
		st.uncopied = s.state.uncopied
	}
	c := s.conn
	rows := func(q string, fn func(*sqlite.Stmt) error) error {
		return sqlitex.ExecuteTransient(c, q, &sqlitex.ExecOptions{ResultFunc: fn})
	}
	names := map[int64]string{}
	err := rows("SELECT tenant, name FROM tenants", func(r *sqlite.Stmt) error {
		names[r.ColumnInt64(0)] = r.ColumnText(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.tenants.set(names)
	for _, q := range []struct {
		sql string
		fn  func(*sqlite.Stmt) error
	}{
		{"SELECT value FROM meta WHERE name = 'clock'", func(r *sqlite.Stmt) error {
			st.clock = workitem.Instant(r.ColumnInt64(0))
			return nil
		}},
		{readEpoch, func(r *sqlite.Stmt) error {
			st.epoch = r.ColumnInt64(0)
			return nil
		}},
		{"SELECT coalesce(max(item), 0) + 1 FROM items", func(r *sqlite.Stmt) error {
			st.next = r.ColumnInt64(0)
			return nil
		}},
		{"SELECT EXISTS (SELECT 1 FROM tombstones), EXISTS (SELECT 1 FROM items WHERE dep_state = 0 AND status = 1)", func(r *sqlite.Stmt) error {
			st.tombstones, st.unverified = r.ColumnBool(0), r.ColumnBool(1)
			return nil
		}},
		{"SELECT tenant, kind, status, items FROM counts", func(r *sqlite.Stmt) error {
			k := countKey{r.ColumnInt64(0), workitem.Kind(r.ColumnInt64(1)), workitem.Status(r.ColumnInt64(2))}
			st.counts[k] = &tally{n: r.ColumnInt64(3)}
			return nil
		}},
		{"SELECT tenant, kind, bucket, fairness, more FROM turns", func(r *sqlite.Stmt) error {
			k := turnKey{r.ColumnInt64(0), workitem.Kind(r.ColumnInt64(1)), r.ColumnInt(2)}
			st.turns[k] = &turn{Turn: workitem.Turn{Group: r.ColumnText(3), Left: r.ColumnInt(4)}}
			return nil
		}},
	} {
		if err := rows(q.sql, q.fn); err != nil {
			return nil, err
		}
	}
	for tenant := range names {
		for _, status := range []workitem.Status{workitem.Leased, workitem.Running} {
			err := sqlitex.Execute(c, "SELECT "+itemColumns+" FROM items WHERE tenant = ? AND status = ?", &sqlitex.ExecOptions{
				Args: []any{tenant, int64(status)},
				ResultFunc: func(r *sqlite.Stmt) error {
					it, err := s.scan(r)
					if err == nil {
						st.lease(tenant).put(it)
					}
					return err
				},
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return st, nil
}

// tenants gives tenants the small numbers that rows have instead of names.
type tenants struct {
	mu      sync.RWMutex
	names   map[int64]string
	numbers map[string]int64
}

func newTenants() *tenants {
	return &tenants{names: map[int64]string{}, numbers: map[string]int64{}}
}

func (t *tenants) set(names map[int64]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names, t.numbers = names, map[string]int64{}
	for n, name := range names {
		t.numbers[name] = n
	}
}

func (t *tenants) add(n int64, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names[n], t.numbers[name] = name, n
}

func (t *tenants) name(n int64) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	name, ok := t.names[n]
	return name, ok
}

// number is 0 for a tenant that has never had a row.
func (t *tenants) number(name string) int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.numbers[name]
}

func (t *tenants) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.names)
}
