// Package nox has nouns, the data that cells compute with, and the reduction rules
// of Nox over them.
//
// A [Noun] is an atom, which is any 64-bit integer, or a pair of nouns. Nouns never
// change and share what they have in common; their size and depth are known at once,
// their identity is computed when it is asked for and then kept. They may be used by
// any number of goroutines.
//
// A noun has a text form, [Parse] and [Noun.String], and a byte form with exactly one
// encoding of each noun, [Encode] and [Decode]. Both are read within [Limits] that hold
// before anything is allocated: however long hostile text or hostile bytes are, reading
// them allocates at most 64 bytes for each node that the limits allow.
//
// [Reduce] evaluates a formula, which is a noun too, against an object. It computes in
// the field of integers modulo [P] and on 32-bit words, takes a cost for each pattern
// and halts when the budget is used up. Nothing in this package recurses over data: a
// noun a million levels deep is as good as any other.
//
// The package follows sections 3.1, 7 and 8 of the specification of the cell runtime,
// and section 10 of that of the Hemera hash ("Model B"). The machine that runs cells
// has words and limits of its own and lies elsewhere.
package nox
