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
//
// The peers of work items are River on SQLite, asynq on Redis and NATS JetStream.
// asynq needs a redis-server in the PATH, of which it starts one of its own; it is
// left out, and that said, where there is none.
//
// Contestants of one benchmark take turns, second by second, and their rates are
// compared in pairs: trust the ratios. The durability settings of each are printed
// with the result. Reads and opens are measured with a warm cache.
package bench
