package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/workitem"
)

// fixed is a clock that stands.
type fixed workitem.Instant

func (f fixed) Now() workitem.Instant { return workitem.Instant(f) }

// store opens a store on a database of its own, with a connection beside it.
func store(t *testing.T, now workitem.Instant) (*Store, *pgx.Conn) {
	t.Helper()
	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
	s, err := Open(t.Context(), Options{URL: url, Clock: fixed(now), AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), conn.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if _, err := conn.Exec(t.Context(), "SET search_path = writ"); err != nil {
		t.Fatal(err)
	}
	return s, conn
}

// planted is a row with both halves.
type planted struct {
	*workitem.Item
	*workitem.Stored
	claimableAt *int64
}

// plant writes rows without the store.
func plant(t *testing.T, conn *pgx.Conn, tenants []string, rows []planted) {
	t.Helper()
	ctx := t.Context()
	for i, name := range tenants {
		if _, err := conn.Exec(ctx, "INSERT INTO tenants VALUES ($1, $2)", i+1, name); err != nil {
			t.Fatal(err)
		}
	}
	var items, lives, labels, counts [][]any
	sums := map[counted]int64{}
	for _, p := range rows {
		it := p.Item
		tenant := int64(slices.Index(tenants, it.Tenant) + 1)
		items = append(items, []any{
			it.Row, it.ID[:], tenant, int16(it.Kind), int64(it.CreatedAt), it.Repository, it.Owner,
			it.Backoff.Microseconds(), it.ConsentRequired, p.Digest[:], p.Loose[:], p.IdempotencyKey[:], p.Stored.CorrelationID, p.RequestID,
			optional(p.LaneID), optional(p.CandidateID), optional(p.GenerationID), optional(p.Trace), p.Metadata,
		})
		lives = append(lives, []any{
			it.Row, it.ID[:], tenant, int16(it.Kind), int16(it.Status), int64(it.CreatedAt), int64(it.UpdatedAt), int64(it.CompletedAt),
			it.FairnessGroup, it.ResourceClass, int16(it.Bucket()), int32(it.Priority), int64(it.Due()), joined(it.DependsOn),
			int32(it.DepCount), int16(it.DepState), int32(it.Attempt), int32(it.MaxAttempts), int64(it.NextRetryAt), p.claimableAt,
			optional(it.LeaseOwner), optional(it.LeasePrincipal), it.LeaseEpoch, it.FencingToken, int64(it.LeaseExpiresAt), int64(it.HeartbeatAt),
			optional(it.LastLeaseOwner), optional(it.Checkpoint), optional(it.ResultRef), optional(it.ErrorRef), optional(it.CancelReason),
			int32(it.DeferCount), int64(it.ConsentGrantedAt), int64(it.ConsentExpiresAt), int64(it.ConsentUntil()), int32(0),
		})
		for n, value := range []string{p.LaneID, p.CandidateID, p.GenerationID, p.Stored.CorrelationID} {
			if value != "" {
				labels = append(labels, []any{tenant, int16(n + 1), value, int64(it.CreatedAt), it.ID[:], it.Row})
			}
		}
		sums[counted{tenant: tenant, kind: it.Kind, status: it.Status}]++
	}
	for k, n := range sums {
		// Of two writers, one of which has moved more rows on than it has seen come.
		counts = append(counts, []any{k.tenant, int16(k.kind), int16(k.status), int16(1), n + 3}, []any{k.tenant, int16(k.kind), int16(k.status), int16(2), int64(-3)})
	}
	for table, rows := range map[string][][]any{"items": items, "life": lives, "labels": labels, "counts": counts} {
		var columns []string
		err := conn.QueryRow(ctx, `SELECT array_agg(column_name::text ORDER BY ordinal_position)
			FROM information_schema.columns WHERE table_schema = 'writ' AND table_name = $1`, table).Scan(&columns)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(rows)); err != nil {
			t.Fatalf("%s: %v", table, err)
		}
	}
}

var (
	someTenants = []string{"a", "b"}
	someTexts   = []string{"", "eins", "Zwei", "äöü", "z"}
)

// random is a row as it may be, at an instant; its place among the claimable ones is
// one of those that it may have.
func random(r *rand.Rand, row int64, now workitem.Instant) planted {
	pick := func(texts []string) string { return texts[r.IntN(len(texts))] }
	near := func() workitem.Instant { return now + workitem.Instant(r.IntN(5)-2) }
	maybe := func(at workitem.Instant) workitem.Instant {
		if r.IntN(2) == 0 {
			return 0
		}
		return at
	}
	it := &workitem.Item{
		Row: row, Tenant: pick(someTenants), Kind: workitem.Kind(1 + r.IntN(3)),
		Status:    workitem.Submitted + workitem.Status(r.IntN(8)),
		CreatedAt: now - workitem.Instant(r.IntN(50)), UpdatedAt: now, CompletedAt: 7,
		Repository: pick(someTexts), Owner: pick(someTexts), FairnessGroup: pick(someTexts), ResourceClass: pick(someTexts),
		Priority: r.IntN(3), Deadline: maybe(near()), DepState: workitem.DepVerified, Attempt: r.IntN(3), MaxAttempts: 2,
		Backoff: 3 * time.Second, LeaseEpoch: 5 << 32, FencingToken: 9, HeartbeatAt: 4, DeferCount: 2,
		LastLeaseOwner: pick(someTexts), Checkpoint: pick(someTexts), ResultRef: pick(someTexts), ErrorRef: pick(someTexts), CancelReason: pick(someTexts),
		ConsentRequired: r.IntN(3) == 0,
	}
	for i := range it.ID {
		it.ID[i] = byte(r.Uint32())
	}
	if r.IntN(8) == 0 {
		it.DepState = workitem.DepFaulty
	}
	if it.ConsentRequired {
		it.ConsentGrantedAt = maybe(5)
		it.ConsentExpiresAt = maybe(near())
	}
	p := planted{Item: it, Stored: &workitem.Stored{
		Metadata: fmt.Appendf(nil, `{"row":%d}`, row), CorrelationID: pick(someTexts), RequestID: pick(someTexts),
		LaneID: pick(someTexts), CandidateID: pick(someTexts), GenerationID: pick(someTexts), Trace: pick(someTexts),
	}}
	for _, d := range []*workitem.Digest{&p.Digest, &p.Loose, &p.IdempotencyKey} {
		d[0], d[31] = byte(row), byte(r.Uint32())
	}
	set := func(at workitem.Instant) { p.claimableAt = (*int64)(&at) }
	switch it.Status {
	case workitem.Submitted:
		it.DependsOn = []workitem.ID{{1}, {2}}
		it.DepCount = 2
		if r.IntN(2) == 0 {
			it.DepState = workitem.DepUnverified
		}
	case workitem.Ready:
		it.NextRetryAt = maybe(near())
		// It was placed when it was written, some time ago.
		if place := it.Position(now - 2); place != workitem.Unclaimable {
			set(workitem.Instant(place))
		}
		if it.Deadline != 0 && it.Deadline < now && r.IntN(2) == 0 {
			p.claimableAt = nil // a claim has taken it out
		}
	case workitem.Leased, workitem.Running:
		it.LeaseOwner, it.LeasePrincipal = "w", "p"
		it.LeaseExpiresAt = near()
		it.NextRetryAt = maybe(near())
		if it.LeaseExpiresAt <= now && it.Attempt < it.MaxAttempts && it.DepState != workitem.DepFaulty && r.IntN(2) == 0 {
			// A claim has seen that its time has run out.
			set(0)
			if it.NextRetryAt > now {
				set(it.NextRetryAt)
			}
		}
	}
	return p
}

func inOrder(a, b planted) int {
	return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), a.ID.Compare(b.ID))
}

func claimable(p planted, now workitem.Instant) bool { return len(p.Obstacles(now)) == 0 }

// selects says whether a listing has a row.
func selects(q *workitem.Query, p planted, now workitem.Instant) bool {
	same := func(want, is string) bool { return want == "" || want == is }
	return q.Tenant == p.Tenant && same(q.Owner, p.Owner) && same(q.Repository, p.Repository) &&
		same(q.ResourceClass, p.ResourceClass) && (q.Kind == 0 || q.Kind == p.Kind) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, p.Status)) &&
		same(q.LaneID, p.LaneID) && same(q.CandidateID, p.CandidateID) && same(q.GenerationID, p.GenerationID) &&
		same(q.CorrelationID, p.Stored.CorrelationID) &&
		(q.CreatedAfter == 0 || p.CreatedAt > q.CreatedAfter) && (q.CreatedBefore == 0 || p.CreatedAt < q.CreatedBefore) &&
		(!q.Claimable || claimable(p, now)) &&
		(!q.Unverified || p.Status == workitem.Submitted && p.DepState == workitem.DepUnverified)
}

// randomQuery is one that the authority may make.
func randomQuery(r *rand.Rand, now workitem.Instant) *workitem.Query {
	q := &workitem.Query{Tenant: someTenants[r.IntN(len(someTenants))]}
	text := func(to *string, one int) {
		if r.IntN(one) == 0 {
			*to = someTexts[r.IntN(len(someTexts))]
		}
	}
	if r.IntN(10) == 0 {
		q.Unverified = true
		return q
	}
	text(&q.Owner, 3)
	text(&q.Repository, 4)
	text(&q.ResourceClass, 5)
	for _, to := range []*string{&q.LaneID, &q.CandidateID, &q.GenerationID, &q.CorrelationID} {
		text(to, 6)
	}
	if r.IntN(3) == 0 {
		q.Kind = workitem.Kind(1 + r.IntN(3))
	}
	for s := workitem.Submitted; s <= workitem.DeadLetter; s++ {
		if r.IntN(6) == 0 {
			q.Statuses = append(q.Statuses, s)
		}
	}
	if r.IntN(3) == 0 {
		q.Claimable = true
		q.Statuses = [][]workitem.Status{{workitem.Ready, workitem.Leased, workitem.Running}, {workitem.Leased}, {workitem.Ready}, {0}}[r.IntN(4)]
	}
	if r.IntN(4) == 0 {
		q.CreatedAfter = now - workitem.Instant(r.IntN(60))
	}
	if r.IntN(4) == 0 {
		q.CreatedBefore = now - workitem.Instant(r.IntN(60))
	}
	return q
}

// TestReader compares everything that a view says of random rows with what the rows
// themselves say.
func TestReader(t *testing.T) {
	t.Parallel()
	const now = workitem.Instant(1_000_000)
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 0))
			s, conn := store(t, now)
			rows := make([]planted, 400)
			for i := range rows {
				rows[i] = random(r, int64(i+1), now)
			}
			plant(t, conn, append(someTenants, "without rows"), rows)
			slices.SortFunc(rows, inOrder)
			err := s.View(t.Context(), func(v workitem.Reader) error {
				if v.Now() != now {
					t.Errorf("it is %d", v.Now())
				}
				if tenants, err := v.Tenants(); err != nil || !slices.Equal(tenants, someTenants) {
					t.Errorf("tenants %q, error %v", tenants, err)
				}
				return errors.Join(checkItems(t, v, rows), checkLists(t, r, v, rows), checkNumbers(t, v, rows))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func checkItems(t *testing.T, v workitem.Reader, rows []planted) error {
	for _, p := range rows {
		it, err := v.Item(p.ID)
		if err != nil {
			return err
		}
		if it == nil {
			t.Errorf("row %d is missing", p.Row)
			continue
		}
		if !reflect.DeepEqual(it, p.Item) {
			t.Errorf("row %d is\n%+v\nexpected\n%+v", p.Row, it, p.Item)
		}
		// The first time it comes with the row, the second time from the table.
		for range 2 {
			it.CorrelationID = ""
			stored, err := v.Stored(it)
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(stored, p.Stored) || it.CorrelationID != p.Stored.CorrelationID {
				t.Errorf("the other half of row %d is\n%+v\nexpected\n%+v", p.Row, stored, p.Stored)
			}
		}
	}
	if it, err := v.Item(workitem.ID{}); it != nil || err != nil {
		t.Errorf("a job that is not there is %+v, error %v", it, err)
	}
	return nil
}

func checkLists(t *testing.T, r *rand.Rand, v workitem.Reader, rows []planted) error {
	found := 0
	for range 150 {
		q := randomQuery(r, v.Now())
		limit := 1 + r.IntN(20)
		var want, got []int64
		for _, p := range rows {
			if selects(q, p, v.Now()) {
				want = append(want, p.Row)
			}
		}
		for after := (workitem.Place{}); ; {
			page, err := v.List(q, after, limit)
			if err != nil {
				return err
			}
			for _, it := range page {
				got = append(got, it.Row)
				after = workitem.Place{CreatedAt: it.CreatedAt, ID: it.ID}
			}
			if len(page) < limit {
				break
			}
			if len(page) > limit || len(got) > len(rows) {
				t.Errorf("%+v: a page of %d with the limit %d, %d rows in all", q, len(page), limit, len(got))
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v in pages of %d gives the rows\n%d\nexpected\n%d", q, limit, got, want)
		}
		found += len(want)
	}
	if found < 500 {
		t.Errorf("all listings together have %d rows, too few to tell", found)
	}
	if page, err := v.List(&workitem.Query{Tenant: "nobody"}, workitem.Place{}, 10); len(page) != 0 || err != nil {
		t.Errorf("nobody's jobs are %v, error %v", page, err)
	}
	return nil
}

func checkNumbers(t *testing.T, v workitem.Reader, rows []planted) error {
	var oldestOfAll workitem.Instant
	for _, tenant := range append(someTenants, "nobody") {
		leases, faults := 0, 0
		ready := map[workitem.Kind]int{}
		var oldest workitem.Instant
		sums := map[workitem.Count]int{}
		for _, p := range rows { // oldest first
			if p.Tenant != tenant {
				continue
			}
			sums[workitem.Count{Kind: p.Kind, Status: p.Status}]++
			if p.Status.Held() && p.LeaseExpiresAt > v.Now() {
				leases++
			}
			if p.DepState == workitem.DepFaulty {
				faults++
			}
			if claimable(p, v.Now()) {
				ready[p.Kind]++
				if oldest == 0 && p.Status == workitem.Ready {
					oldest = p.CreatedAt
				}
			}
		}
		var counts []workitem.Count
		for k, n := range sums {
			k.Rows = n
			counts = append(counts, k)
		}
		slices.SortFunc(counts, func(a, b workitem.Count) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Status, b.Status))
		})
		if oldest != 0 && (oldestOfAll == 0 || oldest < oldestOfAll) {
			oldestOfAll = oldest
		}
		gotLeases, err1 := v.Leases(tenant)
		gotFaults, err2 := v.Faults(tenant)
		gotReady, err3 := v.ClaimableCounts(tenant)
		gotOldest, err4 := v.OldestReady(tenant)
		gotCounts, err5 := v.Counts(tenant)
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			return err
		}
		if gotLeases != leases || gotFaults != faults || !maps.Equal(gotReady, ready) || gotOldest != oldest || !slices.Equal(gotCounts, counts) {
			t.Errorf("%s has %d leases, %d faults, claimable %v since %d, counts %v; expected %d, %d, %v, %d, %v", tenant,
				gotLeases, gotFaults, gotReady, gotOldest, gotCounts, leases, faults, ready, oldest, counts)
		}
	}
	if got, err := v.OldestReady(""); got != oldestOfAll || err != nil {
		t.Errorf("the oldest job of all that is ready is of %d, expected %d, error %v", got, oldestOfAll, err)
	}
	return nil
}

// A view sees one state, whatever is written beside it, and the next one sees that.
func TestViewIsOneState(t *testing.T) {
	t.Parallel()
	s, _ := store(t, 1_000_000)
	add := func(id string) {
		t.Helper()
		err := s.Update(t.Context(), func(tx workitem.Tx) error { return tx.AddToken(&workitem.Token{ID: id}) })
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func(r workitem.Reader) int {
		t.Helper()
		list, err := r.Tokens("")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	add("a")
	err := s.View(t.Context(), func(r workitem.Reader) error {
		before := count(r)
		add("b")
		if after := count(r); before != 1 || after != 1 {
			t.Errorf("a view has %d tokens, then %d", before, after)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), func(r workitem.Reader) error {
		if n := count(r); n != 2 {
			t.Errorf("the next view has %d tokens", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A row that can't be what it says is damage, not absence.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"id":      "UPDATE life SET id = '\\x00'",
		"parents": "UPDATE life SET depends_on = '\\x0011'",
		"digest":  "UPDATE items SET loose = '\\x00'",
		"tenant":  "UPDATE life SET tenant = 77",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, conn := store(t, 1_000_000)
			p := random(rand.New(rand.NewPCG(1, 1)), 1, 1_000_000)
			plant(t, conn, someTenants, []planted{p})
			if _, err := conn.Exec(t.Context(), damage); err != nil {
				t.Fatal(err)
			}
			err := s.View(t.Context(), func(r workitem.Reader) error {
				it, err := r.Item(p.ID)
				if err == nil {
					t.Errorf("the row is %+v", it)
				}
				return err
			})
			var refusal *workitem.Error
			if !errors.As(err, &refusal) || refusal.Code != workitem.Internal {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// recorder answers questions and keeps them.
type recorder struct {
	*pgx.Conn
	texts []string
	args  map[string][]any
}

func (r *recorder) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		r.texts = append(r.texts, q.SQL)
		r.args[q.SQL] = q.Arguments
	}
	return r.Conn.SendBatch(ctx, b)
}

// A job with both halves is one question, and so is a page of them, whatever the
// statuses.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	const now = 1_000_000
	s, conn := store(t, now)
	r := rand.New(rand.NewPCG(7, 7))
	var rows []planted
	for i := range 50 {
		rows = append(rows, random(r, int64(i+1), now))
	}
	plant(t, conn, someTenants, rows)
	err := s.View(t.Context(), func(v workitem.Reader) error {
		rd := v.(*reader)
		v.Now() // begins
		rec := &counter{sender: rd.conn}
		rd.conn = rec
		defer func() { rd.conn = rec.sender }()
		it, err := v.Item(rows[0].ID)
		if err != nil {
			return err
		}
		if _, err := v.Stored(it); err != nil {
			return err
		}
		if rec.trips != 1 {
			t.Errorf("a job takes %d round trips", rec.trips)
		}
		page, err := v.List(&workitem.Query{Tenant: rows[0].Tenant, Statuses: []workitem.Status{2, 3, 4, 5, 6}}, workitem.Place{}, 100)
		if err != nil {
			return err
		}
		for _, it := range page {
			if _, err := v.Stored(it); err != nil {
				return err
			}
		}
		if len(page) < 5 || rec.trips != 2 {
			t.Errorf("a page of %d takes %d round trips", len(page), rec.trips-1)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// counter counts the round trips of a connection.
type counter struct {
	sender
	trips int
}

func (c *counter) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	c.trips++
	return c.sender.SendBatch(ctx, b)
}

// plan is how the server answers a question in a store's session.
func plan(t *testing.T, conn *pgx.Conn, text string, parameters int) string {
	t.Helper()
	call := ""
	if parameters > 0 {
		call = "(" + strings.TrimSuffix(strings.Repeat("NULL, ", parameters), ", ") + ")"
	}
	var lines []string
	for _, statement := range []string{"PREPARE question AS " + text, "EXPLAIN (COSTS OFF) EXECUTE question" + call, "DEALLOCATE question"} {
		results, err := conn.PgConn().Exec(t.Context(), statement).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		for _, row := range results[0].Rows {
			lines = append(lines, string(row[0]))
		}
	}
	return strings.Join(lines, "\n")
}

// TestIndexes looks at how every question is answered, in an empty store and in one
// with many rows and statistics: by walking the index that was meant, which has the
// rows in order.
func TestIndexes(t *testing.T) {
	t.Parallel()
	s, beside := store(t, 1_000_000)
	if _, err := beside.Exec(t.Context(), "INSERT INTO tenants VALUES (1, 'a')"); err != nil {
		t.Fatal(err)
	}
	c, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	some := workitem.Place{CreatedAt: 5, ID: workitem.ID{1}}
	lists := []struct {
		q     workitem.Query
		index string
	}{
		{workitem.Query{}, "items_created"},
		{workitem.Query{ResourceClass: "x", CreatedAfter: 3, CreatedBefore: 9}, "items_created"},
		{workitem.Query{Kind: 2, CreatedAfter: 3}, "items_kind"},
		{workitem.Query{Owner: "x", Kind: 3}, "items_owner"},
		{workitem.Query{Owner: "x", Statuses: []workitem.Status{workitem.Succeeded}}, "items_owner"},
		{workitem.Query{Kind: 2, Statuses: []workitem.Status{workitem.Succeeded}}, "items_kind"},
		{workitem.Query{Statuses: []workitem.Status{workitem.Succeeded}}, "life_status"},
		{workitem.Query{Owner: "x", Kind: 2, Statuses: []workitem.Status{workitem.Failed, workitem.Ready}}, "life_status"},
		{workitem.Query{Repository: "x", Owner: "y", Kind: 2, Statuses: []workitem.Status{workitem.Failed, workitem.Ready}}, "items_repository"},
		{workitem.Query{Claimable: true, Statuses: []workitem.Status{workitem.Ready, workitem.Leased, workitem.Running}}, "life_status"},
		{workitem.Query{Repository: "x", Claimable: true, Statuses: []workitem.Status{workitem.Ready, workitem.Leased, workitem.Running}}, "items_repository"},
		{workitem.Query{LaneID: "x", Owner: "y", Statuses: []workitem.Status{workitem.Ready}}, "labels_pkey"},
		{workitem.Query{CandidateID: "x", GenerationID: "z", CorrelationID: "u", Repository: "y"}, "labels_pkey"},
		{workitem.Query{Unverified: true}, "life_unverified"},
	}
	check := func(state string) {
		t.Helper()
		rec := &recorder{Conn: c.Conn(), args: map[string][]any{}}
		r := &reader{ctx: t.Context(), s: s, conn: rec, whole: true, other: map[int64]*workitem.Stored{}, at: 1_000_000}
		for _, l := range lists {
			l.q.Tenant = "a"
			for _, after := range []workitem.Place{{}, some} {
				rec.texts = nil
				if _, err := r.List(&l.q, after, 100); err != nil {
					t.Fatal(err)
				}
				for _, text := range rec.texts {
					got := plan(t, c.Conn(), text, len(rec.args[text]))
					if !strings.Contains(got, " using "+l.index+" on ") || strings.Contains(got, "Sort") {
						t.Errorf("%s, %+v: no walk along %s:\n%s\n%s", state, l.q, l.index, text, got)
					}
				}
			}
		}
		it := &workitem.Item{Row: 1}
		rec.texts = nil
		calls := []error{}
		call := func(_ any, err error) { calls = append(calls, err) }
		call(r.Item(workitem.ID{}))
		_, _ = r.Stored(it) // the row need not be there
		call(r.Tombstone(workitem.ID{}))
		call(r.Children(workitem.ID{}))
		call(r.Linked(workitem.ID{}, workitem.ID{}))
		call(r.History(it))
		call(r.Leases("a"))
		call(r.Counts("a"))
		call(r.ClaimableCounts("a"))
		call(r.OldestReady("a"))
		call(r.OldestReady(""))
		call(r.Faults("a"))
		call(r.Remembered("a", "b", "c"))
		call(r.Token("x"))
		call(r.Tenants())
		if err := errors.Join(calls...); err != nil {
			t.Fatal(err)
		}
		for _, text := range rec.texts {
			got := plan(t, c.Conn(), text, len(rec.args[text]))
			if strings.Contains(got, "Seq Scan") {
				t.Errorf("%s: a table is scanned:\n%s\n%s", state, text, got)
			}
		}
	}
	writers := []string{
		selectItems, selectItems + " SKIP LOCKED", selectBeside, selectTombstones, selectStored, selectEdges, selectRecalls,
		selectQuota, selectWake, selectTurns, lockChosen,
	}
	for _, sel := range []workitem.Selection{
		{Tenant: "a", Kind: 1, Fair: true}, {Tenant: "a", Kind: 1}, {Tenant: "a", Kind: 1, Native: true},
		{Tenant: "a", Kind: 1, Fair: true, ResourceClass: "x"}, {Tenant: "a", Kind: 1, FairnessGroup: "x"},
	} {
		text, _ := candidates(&sel, nil, 1, &pick{rows: 8, groups: 8}, false)
		writers = append(writers, text)
	}
	check("without rows")
	rows := 100_000
	if testing.Short() {
		rows = 10_000
	}
	for _, text := range []string{
		`INSERT INTO items SELECT n, decode(md5(n::text), 'hex'), 1, n % 14 + 1, n, 'r' || n % 50, 'o' || n % 20, 0, false,
			sha256(''), sha256(''), sha256(''), 'c' || n % 1000, '', 'l' || n % 1000, 'd' || n % 1000, 'g' || n % 1000, null, '{}' FROM generate_series(1, $1) n`,
		`INSERT INTO life SELECT item, id, tenant, kind, CASE WHEN item < $1 * 0.9 THEN 5 ELSE item % 8 + 1 END, created, created, 0,
			'f' || item % 30, 'c' || item % 3, item % 4, 0, 9223372036854775807, null, 0, item % 2, 0, 3, 0,
			CASE WHEN item >= $1 * 0.9 AND item % 8 = 1 THEN 0 END, null, null, 0, 0, 0, 0, null, null, null, null, null, 0, 0, 0, 9223372036854775807, 0 FROM items WHERE item <= $1`,
		`INSERT INTO labels SELECT tenant, l, chr(96 + l) || item % 1000, created, id, item FROM items, generate_series(1, 4) l WHERE item <= $1`,
		`INSERT INTO edges SELECT id, decode(md5('c' || item), 'hex') FROM items WHERE item <= $1`,
		`INSERT INTO history SELECT item, 1, 0, 'submitted', 0, 1, 0 FROM items WHERE item <= $1`,
	} {
		if _, err := beside.Exec(t.Context(), text, rows); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if _, err := beside.Exec(t.Context(), "VACUUM ANALYZE"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "DISCARD PLANS"); err != nil {
		t.Fatal(err)
	}
	check("with rows")
	for _, text := range writers {
		parameters := 0
		for _, m := range regexp.MustCompile(`\$(\d+)`).FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			parameters = max(parameters, n)
		}
		if got := plan(t, c.Conn(), text, parameters); strings.Contains(got, "Seq Scan") || strings.Contains(got, "Bitmap") {
			t.Errorf("a writer does not follow an index:\n%s\n%s", text, got)
		}
	}
}
