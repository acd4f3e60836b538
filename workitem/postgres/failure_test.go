package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/workitem"
)

// relay passes connections on to a server and cuts the first one over which, since it
// was armed, a number of bytes have gone in one direction.
type relay struct {
	listener net.Listener
	to       string

	armed atomic.Pointer[fuse]
	ended sync.WaitGroup
}

// fuse is one cut to come.
type fuse struct {
	up    bool // what is counted goes to the server
	bytes int64
	blown atomic.Bool
}

func openRelay(t *testing.T, url string) (*relay, string) {
	t.Helper()
	at, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "writrelay") // the path of a socket has at most 103 bytes
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", at.Port)))
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: filepath.Join(at.Host, fmt.Sprintf(".s.PGSQL.%d", at.Port))}
	r.ended.Go(r.serve)
	t.Cleanup(func() {
		_ = l.Close() // nobody connects any more
		r.ended.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return r, with(t, url, "host", dir)
}

func (r *relay) serve() {
	for {
		down, err := r.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("unix", r.to)
		if err != nil {
			_ = down.Close() // as a server that is away
			continue
		}
		r.ended.Go(func() { r.pass(down, up, true) })
		r.ended.Go(func() { r.pass(up, down, false) })
	}
}

// pass copies one direction until either end is closed.
func (r *relay) pass(from, to net.Conn, up bool) {
	defer func() { _, _ = from.Close(), to.Close() }() // the other direction may have done it
	var counted *fuse
	var passed int64
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if f := r.armed.Load(); f != nil && f.up == up && !f.blown.Load() {
			if f != counted {
				counted, passed = f, 0
			}
			if passed+int64(n) >= f.bytes && f.blown.CompareAndSwap(false, true) {
				_, _ = to.Write(buffer[:f.bytes-passed]) // the last that goes through
				return
			}
			passed += int64(n)
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func shut(t *testing.T, a *workitem.Authority) {
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestCutConnections cuts the connection of a writer everywhere. Whatever has
// happened on the other side by then, the update is answered, and is there once.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
	relay, through := openRelay(t, url)
	a, err := workitem.New(mustOpen(t, through), workitem.Config{Quota: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, a)
	agent := a.As(clusterAgent)
	jobs, cuts := 0, 0
	cut := func(what string, f *fuse, call func() error) {
		t.Helper()
		relay.armed.Store(f)
		err := call()
		relay.armed.Store(nil)
		if f.blown.Load() {
			cuts++
		}
		if err != nil {
			t.Fatalf("%s, cut after %d bytes (to the server: %t): %v", what, f.bytes, f.up, err)
		}
	}
	for _, up := range []bool{true, false} {
		for n := int64(1); ; n += 149 {
			last := cuts
			jobs++
			cut("a submission", &fuse{up: up, bytes: n}, func() error {
				h, err := agent.Submit(t.Context(), &workitem.SubmitInput{Request: request(jobs)})
				if err == nil && h.Deduplicated {
					err = errors.New("it was done before")
				}
				return err
			})
			var claim *workitem.Claim
			cut("a claim", &fuse{up: up, bytes: n}, func() error {
				answer, err := agent.ClaimNext(t.Context(), &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w"})
				if err == nil && !answer.Claimed {
					err = errors.New("answered with " + answer.Reason)
				}
				if err == nil {
					claim = answer.Claim
				}
				return err
			})
			cut("a commit", &fuse{up: up, bytes: n}, func() error {
				s, err := agent.Commit(t.Context(), &workitem.CommitInput{JobID: claim.JobID, Claim: claim.Fence(), Outcome: "succeeded"})
				if err == nil && s.Status != workitem.Committed {
					err = errors.New("answered with " + s.Status)
				}
				return err
			})
			if cuts == last {
				break // none of them is that long
			}
		}
	}
	if cuts < 20 {
		t.Errorf("only %d connections were cut", cuts)
	}
	t.Logf("%d connections were cut", cuts)
	checkTables(t, url)
	if got := ask(t, url, "SELECT count(*) || ' ' || min(attempt) || ' ' || max(attempt) || ' ' || min(events) || ' ' || max(events) FROM writ.life WHERE status = 5"); got != fmt.Sprintf("%d 1 1 3 3", jobs) {
		t.Errorf("of %d jobs the count, attempts and events are %s", jobs, got)
	}
}

// checkTables checks what is true of the tables whatever was done.
func checkTables(t *testing.T, url string) {
	t.Helper()
	for what, query := range map[string]string{
		"counts that are wrong": `SELECT count(*)::text FROM (SELECT tenant, kind, status, sum(items) n FROM writ.counts GROUP BY 1, 2, 3) c
			FULL JOIN (SELECT tenant, kind, status, count(*) n FROM writ.life GROUP BY 1, 2, 3) l USING (tenant, kind, status)
			WHERE coalesce(c.n, 0) <> coalesce(l.n, 0)`,
		"histories with holes": `SELECT count(*)::text FROM writ.life l LEFT JOIN LATERAL
			(SELECT count(*) n, coalesce(max(seq), 0) last FROM writ.history h WHERE h.item = l.item) h ON true
			WHERE h.n <> l.events OR h.last <> l.events`,
		"halves without the other": "SELECT count(*)::text FROM writ.items FULL JOIN writ.life USING (item) WHERE items.id IS DISTINCT FROM life.id",
		"histories of nothing":     "SELECT count(*)::text FROM writ.history h WHERE NOT EXISTS (SELECT 1 FROM writ.life l WHERE l.item = h.item)",
		"leases of nobody":         "SELECT count(*)::text FROM writ.life WHERE (status IN (3, 4)) <> (lease_owner IS NOT NULL)",
		"live leases in the index": "SELECT count(*)::text FROM writ.life WHERE status IN (3, 4) AND claimable_at = 0 AND lease_expires > extract(epoch FROM now()) * 1000000",
		"ready jobs outside of it": "SELECT count(*)::text FROM writ.life WHERE status = 2 AND attempt < max_attempts AND dep_state <> 2 AND due = 9223372036854775807 AND claimable_at IS NULL",
		"epochs that fell behind":  "SELECT count(*)::text FROM writ.life WHERE attempt > lease_epoch",
	} {
		if got := ask(t, url, query); got != "0" {
			t.Errorf("there are %s %s", got, what)
		}
	}
}

// TestCutStorm cuts connections while many call.
func TestCutStorm(t *testing.T) {
	t.Parallel()
	const workers, each = 12, 10
	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
	relay, through := openRelay(t, url)
	a, err := workitem.New(mustOpen(t, through), workitem.Config{Quota: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, a)
	agent := a.As(clusterAgent)
	ctx, over := context.WithCancel(t.Context())
	var cuts sync.WaitGroup
	cuts.Go(func() {
		again := time.NewTicker(time.Millisecond)
		defer again.Stop()
		f := &fuse{}
		f.blown.Store(true)
		for n := int64(1); ctx.Err() == nil; n = (n*7919 + 13) % 20011 {
			if f.blown.Load() {
				f = &fuse{up: n%2 == 0, bytes: n + 1}
				relay.armed.Store(f)
			}
			<-again.C
		}
	})
	var holders sync.Map
	everybody(workers, func(i int) {
		for n := range each {
			if _, err := agent.Submit(t.Context(), &workitem.SubmitInput{Request: request(i*each + n)}); err != nil {
				t.Errorf("a submission: %v", err)
				return
			}
			answer, err := agent.ClaimNext(t.Context(), &workitem.ClaimNextInput{Kind: "repository.build", Worker: fmt.Sprint("w", i)})
			if err != nil || !answer.Claimed {
				t.Errorf("a claim: %v, %+v", err, answer)
				return
			}
			if other, held := holders.LoadOrStore(answer.Claim.JobID, i); held {
				t.Errorf("%s is held by %d and %v", answer.Claim.JobID, i, other)
				return
			}
			if _, err := agent.Heartbeat(t.Context(), &workitem.HeartbeatInput{JobID: answer.Claim.JobID, Claim: answer.Claim.Fence()}); err != nil {
				t.Errorf("a renewal: %v", err)
			}
			s, err := agent.Commit(t.Context(), &workitem.CommitInput{JobID: answer.Claim.JobID, Claim: answer.Claim.Fence(), Outcome: "succeeded"})
			if err != nil || s.Status != workitem.Committed {
				t.Errorf("a commit: %v, %+v", err, s)
				return
			}
		}
	})
	over()
	cuts.Wait()
	relay.armed.Store(nil)
	checkTables(t, url)
	if got := ask(t, url, "SELECT count(*) || ' ' || max(attempt) || ' ' || max(events) FROM writ.life WHERE status = 5"); got != fmt.Sprintf("%d 1 4", workers*each) {
		t.Errorf("of %d jobs the count, attempts and events are %s", workers*each, got)
	}
}

// session is a transaction of somebody else.
func session(t *testing.T, url string, statements ...string) (end func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append([]string{"BEGIN", "SET search_path = writ"}, statements...) {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return func() {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// pending is a call that runs beside a test.
type pending struct {
	done chan struct{}
	err  error
}

func begin(call func() error) *pending {
	p := &pending{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = call()
	}()
	return p
}

// answered says whether the call has ended by now.
func (p *pending) answered() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *pending) wait() error {
	<-p.done
	return p.err
}

// TestLocksOfOthers has somebody hold locks for long: only those wait who need them, and
// nobody is refused.
func TestLocksOfOthers(t *testing.T) {
	t.Parallel()
	ctx, enough := context.WithTimeout(t.Context(), time.Minute)
	defer enough()
	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
	a, err := workitem.New(mustOpen(t, with(t, url, "lock_timeout", "100ms")), workitem.Config{Quota: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, a)
	other := clusterAgent
	other.Tenant = "tenant-b"
	one, two := a.As(clusterAgent), a.As(other)
	submit := func(c *workitem.Caller, tenant string, n int) string {
		t.Helper()
		text := strings.Replace(string(request(n)), "tenant-a", tenant, 1)
		h, err := c.Submit(ctx, &workitem.SubmitInput{Request: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		return h.JobID
	}
	claim := func(c *workitem.Caller) (id string, err error) {
		answer, err := c.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w"})
		switch {
		case err != nil:
			return "", err
		case !answer.Claimed:
			return "", errors.New("answered with " + answer.Reason)
		}
		return answer.Claim.JobID, nil
	}
	cancel := func(id string) *pending {
		return begin(func() error {
			_, err := one.Cancel(ctx, &workitem.CancelInput{JobID: id})
			return err
		})
	}

	// A job: who claims passes over it, and of many cancellations one waits, whether it
	// comes with the others or before them.
	for round, pause := range []time.Duration{0, 150 * time.Millisecond} {
		locked := submit(one, "tenant-a", 100*round)
		id, err := workitem.ParseID(locked)
		if err != nil {
			t.Fatal(err)
		}
		end := session(t, url, fmt.Sprintf(`SELECT 1 FROM life WHERE id = '\x%x' FOR UPDATE`, id[:]))
		jobs := make([]string, 10)
		for i := range jobs {
			jobs[i] = submit(one, "tenant-a", 100*round+1+i)
		}
		if got, err := claim(one); err != nil || got == locked {
			t.Errorf("while %s is locked %s is claimed: %v", locked, got, err)
		}
		waits := cancel(locked)
		time.Sleep(pause)
		start := time.Now()
		var calls []*pending
		for _, id := range jobs {
			calls = append(calls, cancel(id))
		}
		for _, c := range calls {
			if err := c.wait(); err != nil {
				t.Errorf("a cancellation beside the one that waits: %v", err)
			}
		}
		t.Logf("%d cancellations beside the one that waits took %s", len(jobs), time.Since(start))
		if waits.answered() {
			t.Errorf("a job was cancelled while somebody else had it locked: %v", waits.err)
		}
		end()
		if err := waits.wait(); err != nil {
			t.Errorf("the cancellation that waited: %v", err)
		}
	}

	// A tenant: claims of others go on, and so does everything else of the tenant.
	first, second := submit(one, "tenant-a", 20), submit(two, "tenant-b", 21)
	number := ask(t, url, "SELECT tenant::text FROM writ.tenants WHERE name = 'tenant-a'")
	end := session(t, url, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d, %s)", 0x57720001, number))
	var claimed string
	waits := begin(func() (err error) {
		claimed, err = claim(one)
		return err
	})
	time.Sleep(50 * time.Millisecond) // it is first, most likely
	if got, err := claim(two); err != nil || got != second {
		t.Errorf("claimed %s, expected %s: %v", got, second, err)
	}
	last := submit(one, "tenant-a", 22)
	if waits.answered() {
		t.Errorf("%s was claimed while somebody else had the tenant locked: %v", claimed, waits.err)
	}
	end()
	if err := waits.wait(); err != nil || claimed != first && claimed != last {
		t.Errorf("claimed %s, expected %s or %s: %v", claimed, first, last, err)
	}

	// The epoch: everybody waits.
	end = session(t, url, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d, 0)", 0x57720000))
	waits = cancel(last)
	select {
	case <-waits.done:
		t.Errorf("a job was cancelled while the epoch was locked: %v", waits.err)
	case <-time.After(300 * time.Millisecond):
	}
	end()
	if err := waits.wait(); err != nil {
		t.Errorf("the cancellation that waited: %v", err)
	}
	if err := a.Health(); err != nil {
		t.Errorf("the health of the store: %v", err)
	}
	checkTables(t, url)
}

// TestStatementTimeout has the server end statements that wait for a lock.
func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
	s := mustOpen(t, with(t, url, "statement_timeout", "100ms"))
	end := session(t, url, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d, 0)", 0x57720000))
	waits := begin(func() error { return addToken(t.Context(), s, "a") })
	select {
	case <-waits.done:
		t.Errorf("an update while the epoch was locked: %v", waits.err)
	case <-time.After(300 * time.Millisecond):
	}
	end()
	if err := waits.wait(); err != nil {
		t.Errorf("the update that waited: %v", err)
	}
}

// becomes waits until the health of a store is what it should.
func becomes(t *testing.T, s workitem.Store, well bool) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(30 * time.Second); (s.Health() == nil) != well; <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("the health stays %v", s.Health())
		}
	}
}

// TestReadOnlyDatabase has a database refuse writes for a while. Nobody but the store
// itself finds out that it does so no more.
func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t, pgtest.Options{})
	url := server.Database(t)
	s := mustOpen(t, url)
	name := database(t, url)
	run(t, server.URL("postgres"), "ALTER DATABASE "+name+" SET default_transaction_read_only = on",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "+strings.ReplaceAll(name, `"`, "'"))
	var cause *pgconn.PgError
	if err := addToken(t.Context(), s, "a"); !errors.Is(err, workitem.ErrAuthorityUnavailable) || !errors.As(err, &cause) || cause.Code != "25006" {
		t.Errorf("an update of a read-only database: %v, because of %v", err, cause)
	}
	if err := s.Health(); !errors.Is(err, workitem.ErrAuthorityUnavailable) {
		t.Errorf("the health of a store on a read-only database: %v", err)
	}
	if got, err := tokens(t.Context(), s); err != nil || len(got) != 0 {
		t.Errorf("a view of a read-only database: %q, %v", got, err)
	}
	run(t, server.URL("postgres"), "ALTER DATABASE "+name+" RESET default_transaction_read_only")
	becomes(t, s, true)
	if err := addToken(t.Context(), s, "b"); err != nil {
		t.Errorf("an update afterwards: %v", err)
	}
}

// TestHealthWithoutCalls stops a server while nobody calls.
func TestHealthWithoutCalls(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{})
	s := mustOpen(t, server.Database(t))
	server.Stop(t)
	becomes(t, s, false)
	server.Restart(t)
	becomes(t, s, true)
}

// TestForgottenWriter takes the name of a store's writers out of the database, as another
// store does that opens it after a day.
func TestForgottenWriter(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
	s := mustOpen(t, url)
	for _, id := range []string{"a", "b"} {
		if err := addToken(t.Context(), s, id); err != nil {
			t.Fatal(err)
		}
		run(t, url, "DELETE FROM writ.writers")
	}
	if err := addToken(t.Context(), s, "c"); err != nil {
		t.Fatal(err)
	}
	if n := ask(t, url, "SELECT count(*)::text FROM writ.writers WHERE token > 0"); n != "1" {
		t.Errorf("%s writers have noted a transaction, expected 1", n)
	}
}

// TestRefusedValues has one update of many write what PostgreSQL does not take.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, pgtest.Shared(t, pgtest.Options{}).Database(t))
	names := []string{"a", "b\x00", "c", "d\xff", "e", "f"}
	everybody(len(names), func(i int) {
		err := addToken(t.Context(), s, names[i])
		if bad := len(names[i]) > 1; bad != errors.Is(err, workitem.ErrInternal) || !bad && err != nil {
			t.Errorf("a token %q: %v", names[i], err)
		}
	})
	if got, err := tokens(t.Context(), s); err != nil || len(got) != 4 {
		t.Errorf("there are %q, error %v", got, err)
	}
	if err := s.Health(); err != nil {
		t.Errorf("the health of the store: %v", err)
	}
}
