// Package pgtest starts private PostgreSQL servers for tests.
//
// A server belongs to the test process: it listens on a Unix socket in a directory of
// its own and ends with the process, however that ends. Tests of one process may share
// one, each with a database of its own:
//
//	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
//
// Where the server's programs are not installed, tests are skipped, or fail if the
// environment has WRIT_REQUIRE_POSTGRES=1.
package pgtest
