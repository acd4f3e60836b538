// Package bench measures Writ as its users meet it: the built binary on generated
// repositories, and its two authorities as libraries against other stores and queues
// that do the same durable work on the same disk in the same run. It is a module of its
// own, so that what is measured against never becomes a dependency of the product.
//
//	cd bench
//	go test -bench Gate -benchtime 15x                                 # whole commands
//	go test -bench 'Benchmark(Enqueue|Cycle|Claim|Read|Open|Convert)' -benchtime 1x  # repositories
//	go test -bench Job -benchtime 1x -timeout 1h                       # work items
//	go test -bench JobPairs/workers=32 -benchtime 1x -peers=false -cpuprofile cpu.out
//	go test -bench 'JobList|JobBacklog' -benchtime 1x -timeout 3h -rows 10000000
//	go test -bench Postgres -benchtime 1x -timeout 1h                   # work items on PostgreSQL
//	go test -bench MCPJobGet -benchtime 1x                             # jobs over MCP
//	go test -run Soak -soak 10m -timeout 20m                           # under load
//
// JobREST and the soak test load the built binary over loopback from the process of
// the test. JobList makes a store of a million jobs through the authority, which
// takes a few minutes, reopens it and reads pages of it; JobBacklog claims behind
// millions of jobs that have ended, are late, or wait.
//
// MCPJobGet reads jobs through the MCP handler; its peers are the bare SDK with the same
// answers in memory, once encoded beforehand and once checked against the schemas.
//
// The peers of work items are River on SQLite, asynq on Redis and NATS JetStream.
// asynq needs a redis-server in the PATH, of which it starts one of its own; it is
// left out, and that said, where there is none.
//
// The benchmarks on PostgreSQL start a server of their own, with syncs, on a Unix socket.
// Their peers are River (each job completed in a transaction of its own, and with its
// batch completer) and a loop over a table that claims one row at a time, in a
// transaction of several statements and in one statement. PostgresProcesses divides the
// same workers among one, two and four processes on one database, PostgresServers among
// one and two servers.
//
// Contestants of one benchmark take turns, second by second, and their rates are
// compared in pairs: trust the ratios. The durability settings of each are printed
// with the result. Reads and opens are measured with a warm cache.
package bench
