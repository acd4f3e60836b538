// Package bench measures Writ as its users meet it: the built binary on generated
// repositories. It is a module of its own, so that what is measured against never
// becomes a dependency of the product.
//
//	cd bench && go test -bench . -benchtime 20x
package bench
