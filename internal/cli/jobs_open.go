package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/internal/vfs"
	"github.com/writ-authority/writ/server"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/postgres"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// connection says where the work item authority is and as whom a command speaks to
// it. What no flag says comes from the environment.
type connection struct {
	server, token, database, tenant, owner string
}

// The environment of a connection.
const (
	serverVariable   = "WRIT_SERVER"
	bearerVariable   = "WRIT_TOKEN"
	databaseVariable = "WRIT_JOBS_DB"
	tenantVariable   = "WRIT_TENANT"
	ownerVariable    = "WRIT_OWNER"
)

// localTenant is the tenant of somebody who names none.
const localTenant = "local"

// connectionFlags adds the flags of a connection to a command and to those below
// it.
func (a *app) connectionFlags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&a.at.server, "server", "", "URL of a server (default: $"+serverVariable+", else the data directory)")
	f.StringVar(&a.at.token, "token", "", "token for the server; better in $"+bearerVariable+", where other users do not see it")
	f.StringVar(&a.at.database, "jobs-db", "", "PostgreSQL database with the jobs, postgres://… (default: $"+databaseVariable+", else the data directory)")
	f.StringVar(&a.at.tenant, "tenant", "", "tenant; with a server, that of the token (default: $"+tenantVariable+", else "+localTenant+")")
	f.StringVar(&a.at.owner, "owner", "", "on whose behalf jobs are submitted (default: $"+ownerVariable+", else the user)")
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// serverURL is the server that a command calls, or empty: whoever names a data
// directory or a database means that and not the server of the environment.
func (a *app) serverURL() string {
	if a.at.server == "" && a.at.database == "" && a.data == "" {
		return os.Getenv(serverVariable)
	}
	return a.at.server
}

// database is the URL of the database with the jobs, or empty.
func (a *app) database() string {
	if a.at.database == "" && a.data == "" && a.serverURL() == "" {
		return os.Getenv(databaseVariable)
	}
	return a.at.database
}

func (a *app) bearer() string { return firstOf(a.at.token, os.Getenv(bearerVariable)) }

// caller is the tenant and the owner whom a request names. Of a server only the
// token decides; a development token says whom it stands for.
func (a *app) caller() (tenant, owner string, err error) {
	tenant = firstOf(a.at.tenant, os.Getenv(tenantVariable))
	owner = firstOf(a.at.owner, os.Getenv(ownerVariable))
	if dev, ok := strings.CutPrefix(a.bearer(), "dev:"); ok && a.serverURL() != "" {
		parts := strings.Split(dev, ":")
		for i, text := range []*string{&tenant, &owner} {
			if *text == "" && i < len(parts) {
				*text, _ = url.PathUnescape(parts[i]) // a malformed one is refused by the server
			}
		}
	}
	if owner == "" {
		if owner, err = userName(); err != nil {
			return "", "", err
		}
	}
	return firstOf(tenant, localTenant), owner, nil
}

// userName is the name of the person who runs the command.
func userName() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", &usageError{errors.New("the name of the user is unknown; --owner says it: " + err.Error())}
	}
	return u.Username, nil
}

// authorityOfJobs is the work item authority as a command has reached it.
type authorityOfJobs struct {
	operation.Jobs
	held  bool // by this process: nobody else can open it meanwhile
	close func() error
}

// withJobs opens the work item authority, runs fn and closes it.
func (a *app) withJobs(ctx context.Context, fn func(operation.Jobs) error) error {
	return a.onJobs(ctx, false, fn)
}

// withNewJobs is withJobs for commands that make the store where there is none.
func (a *app) withNewJobs(ctx context.Context, fn func(operation.Jobs) error) error {
	return a.onJobs(ctx, true, fn)
}

func (a *app) onJobs(ctx context.Context, create bool, fn func(operation.Jobs) error) error {
	jobs, err := a.openJobs(ctx, create)
	if err != nil {
		return err
	}
	return errors.Join(fn(jobs), jobs.close())
}

const (
	forever = time.Duration(-1) // how long follow may ask
	maxWait = 60 * time.Second  // what a server keeps one question at most
	outage  = time.Minute       // how long a server may be gone that has answered before

	// Between two questions to a store of this process.
	leastPause, mostPause = 250 * time.Millisecond, 2 * time.Second
)

// follow asks until ask says that it is done, at least once and for as long as
// wait. A server may keep one question for up to step; ask is told how long. A store
// that this process opens is closed between two questions, so that others can
// change what is waited for. Whoever has answered once may be gone for a while, for
// a restart for instance.
func (a *app) follow(ctx context.Context, wait, step time.Duration, ask func(jobs operation.Jobs, wait float64) (bool, error)) error {
	deadline := time.Now().Add(wait)
	left := func() time.Duration {
		if wait == forever {
			return step
		}
		return max(0, min(step, time.Until(deadline)))
	}
	var answered time.Time // the last time
	told := false          // that it does not any more
	for {
		begun := time.Now()
		done, err := a.askWhile(ctx, left, func(jobs operation.Jobs, wait float64) (bool, error) {
			done, err := ask(jobs, wait)
			if err == nil {
				answered, told = time.Now(), false
			}
			return done, err
		})
		if err == nil && done {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err() // whatever a question that was broken off has answered
		}
		away := errors.Is(err, workitem.ErrAuthorityUnavailable) || errors.Is(err, sqlite.ErrLocked)
		if away && left() > 0 && !answered.IsZero() && time.Since(answered) < outage+step {
			if !told {
				told = true
				fmt.Fprintf(a.err, "the jobs cannot be reached; trying again for %s\n", amount(outage))
			}
			err = nil
		}
		if err != nil {
			return err
		}
		// A large store takes its time to open; others get most of it.
		pause := time.NewTimer(min(max(leastPause, 4*time.Since(begun)), mostPause, left()))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// askWhile opens the authority and asks: once if it is this process that has it
// open, else until ask is done or nothing is left of the time.
func (a *app) askWhile(ctx context.Context, left func() time.Duration, ask func(operation.Jobs, float64) (bool, error)) (done bool, err error) {
	jobs, err := a.openJobs(ctx, false)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, jobs.close()) }()
	for {
		keep := left()
		question := keep
		if jobs.held {
			question = 0
		}
		done, err = ask(jobs, question.Seconds())
		done = done || keep == 0
		if err != nil || done || jobs.held {
			return done, err
		}
	}
}

// openJobs reaches the work item authority: the server that is named, else the one
// that has the data directory open, else the store there, which create makes if it
// is missing.
func (a *app) openJobs(ctx context.Context, create bool) (*authorityOfJobs, error) {
	return reach(ctx, a, connected, func(place jobsPlace, p workitem.Principal) (*authorityOfJobs, error) {
		return openAuthority(ctx, place, create, p)
	})
}

// reach calls remote for the server that is named, or for the one that has the data
// directory open, else local for the place where the jobs are and the person there.
func reach[T any](ctx context.Context, a *app, remote func(client.Config) (T, error), local func(jobsPlace, workitem.Principal) (T, error)) (none T, err error) {
	if err := a.onePlace(); err != nil {
		return none, err
	}
	if at := a.serverURL(); at != "" {
		return remote(client.Config{URL: at, Token: a.bearer()})
	}
	if a.at.token != "" {
		return none, &usageError{errors.New("--token is for a server; --server says which")}
	}
	tenant, owner, err := a.caller()
	if err != nil {
		return none, err
	}
	person := workitem.Principal{Subject: owner, Tenant: tenant, Owner: owner, Scopes: workitem.ScopeAdmin, Local: true}
	if url := a.database(); url != "" {
		return local(jobsPlace{database: url}, person)
	}
	data, err := a.dataDir(ctx)
	if err != nil {
		return none, err
	}
	// A server that is just starting holds the store before it answers.
	for last := time.Now().Add(storeTimeout); ; {
		socket := server.SocketPath(data)
		serving, err := server.Answers(ctx, socket)
		if err != nil {
			return none, err
		}
		if serving {
			return remote(client.Config{Socket: socket, Token: localToken(tenant, owner)})
		}
		reached, err := local(jobsPlace{data: data}, person)
		if err == nil || !errors.Is(err, sqlite.ErrLocked) || time.Now().After(last) {
			return reached, err
		}
	}
}

// How long a command waits for others that have the store open: storeTimeout
// altogether, and lockTimeout before it looks again whether they are a server.
const (
	storeTimeout = 5 * time.Second
	lockTimeout  = 250 * time.Millisecond
)

// onePlace refuses commands that name more than one place of jobs.
func (a *app) onePlace() error {
	return either("--server, --data and --jobs-db", a.at.server != "", a.data != "", a.at.database != "")
}

// jobsPlace is where the jobs are that this process opens itself: a data directory
// that no server has open, or a database, which others may have open too.
type jobsPlace struct{ data, database string }

// open opens the store, which create makes if it is missing. The tables of a database
// are made in any case.
func (p jobsPlace) open(ctx context.Context, create bool) (workitem.Store, error) {
	if p.database != "" {
		return postgres.Open(ctx, postgres.Options{URL: p.database})
	}
	path := server.StorePath(p.data)
	if create {
		if err := vfs.MkdirAll(vfs.OS, p.data, 0o700); err != nil {
			return nil, err
		}
	} else if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s does not exist", errNoJobs, path)
	} else if err != nil {
		return nil, err
	}
	patience, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	return sqlite.Open(patience, sqlite.Options{Path: path})
}

// fill opens the store to fill it.
func (p jobsPlace) fill(ctx context.Context) (workitem.Loader, error) {
	if p.database != "" {
		return postgres.Fill(ctx, postgres.Options{URL: p.database})
	}
	if err := vfs.MkdirAll(vfs.OS, p.data, 0o700); err != nil {
		return nil, err
	}
	patience, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return sqlite.Fill(patience, server.StorePath(p.data))
}

// openAuthority opens the authority of a place in this process.
func openAuthority(ctx context.Context, place jobsPlace, create bool, p workitem.Principal) (*authorityOfJobs, error) {
	store, err := place.open(ctx, create)
	if err != nil {
		return nil, err
	}
	jobs, err := workitem.New(store, workitem.Config{})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &authorityOfJobs{Jobs: jobs.As(p), held: place.database == "", close: jobs.Close}, nil
}

func connected(c client.Config) (*authorityOfJobs, error) {
	jobs, err := client.New(c)
	if err != nil {
		return nil, &usageError{err}
	}
	return &authorityOfJobs{Jobs: jobs, close: jobs.Close}, nil
}

// localToken is the development token of the person who runs a server, which takes
// it at its socket only.
func localToken(tenant, owner string) string {
	encode := func(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
	return "dev:" + encode(tenant) + ":" + encode(owner) + ":jobs:admin"
}
