// Package executor has the adapters that perform the `host` acts of cells. The
// specification is that of the cell runtime; docs/executors.md is for those who write
// the programs.
//
// A host request is a noun whose first member is the name of an adapter, a text, and
// whose rest is that adapter's own request. A [Registry] finds the adapter. Whatever is
// wrong with a request is a definite failure that says what was expected, and nothing
// was done then. No adapter is there unless it was put into the registry.
//
//	adapter   a lost answer is                      an earlier attempt
//	clock     given again: it has no effect         is answered with a new reading
//	random    given again: it has no effect         is answered with new bytes
//	exec      unknown: the command may have run     can't be looked up
//	http-get  unknown, though a GET may be repeated can't be looked up
//
// An attempt of clock or random whose outcome was not recorded has changed nothing
// anywhere, and nobody has seen its answer, which leaves this process only through the
// recorded outcome. That is the proof with which their Find answers; the outcome that
// is recorded first stands. Whether a command ran, or a server got a request, nothing
// here can tell, so that those attempts wait for a person.
//
// # Nouns
//
// A text is the list of its bytes that ends with 0, as in Rune. A request may be at
// most 128 levels deep with everything else in the state of a program, and so may a
// reply. Bytes that come from outside are therefore given as [size pieces]: how many
// they were, and the first [MaxBytes] of them as a list of texts, each of which has
// [PieceBytes] bytes but the last. They are bytes as they came, also where they are no
// UTF-8.
package executor
