// Package cell runs cells: durable deterministic programs. The sections that comments
// name are those of the specification of the cell runtime.
//
// A cell has one noun of state and a program in Rune. It takes one input at a time,
// runs it in slices that are paid for before they begin, and changes its state only by
// finishing. The one effect that a program can have is an act: it suspends, and goes on
// only from a recorded outcome. An act is allowed by the Ward or it is denied, and its
// attempt is recorded before anybody may perform it, so that no act happens twice.
//
// Everything about a cell is content under the name of its hash, and its history is a
// chain of commits, each naming the one before. The Engine makes one commit in one
// write of the Store: a failure at any point leaves the old head or the new one, and
// the next call goes on from there.
package cell
