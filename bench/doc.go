// Package bench measures Writ as its users meet it: the built binary on generated
// repositories, and the repository authority as a library against other stores that
// do the same durable work on the same disk in the same run. It is a module of its
// own, so that what is measured against never becomes a dependency of the product.
//
//	cd bench
//	go test -bench Gate -benchtime 15x                                 # whole commands
//	go test -bench 'Enqueue|Cycle|Claim|Read|Open|Convert' -benchtime 1x  # the authority
//
// Contestants of one benchmark take turns, second by second, and their rates are
// compared in pairs: trust the ratios. The durability settings of each are printed
// with the result. Reads and opens are measured with a warm cache.
package bench
