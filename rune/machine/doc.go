// Package machine is the bounded machine, revision 1, on which cells run: it reduces a
// formula of Nox step by step on explicit stacks, can stop after any step, and can
// write what it has and go on from that elsewhere. The specification is that of the
// cell runtime, sections 8.3, 9 and 10.
//
// A [Machine] begins with [Start], or with [Load] for a program with its state and
// event, or with [Restore] from a checkpoint. [Machine.Run] makes a slice of steps.
// Where the program asks its host for something, the run ends with an act and goes on
// after [Machine.Resume] with the reply. Everything that goes wrong in a program is a
// [Fault].
//
// A run depends on formula, subject, limit and replies only. How it is cut into
// slices, and whether it was encoded and decoded in between, changes neither result
// nor charged steps nor the kind of a fault.
//
// [Restore] is total: any bytes give one state, whose checkpoint is those very bytes,
// or are refused. A state holds no authority: a machine that waits for the reply to an
// act has done nothing, and it is for the host to know whether the act was allowed.
//
// The machine's words and hashes are its own. Arithmetic is modulo [nox.P] on operands
// that are reduced first, words have 64 bits, and the inverse of 0 is 0; results are
// not claimed to be provable by Nox.
//
// # What a run can use
//
// One step makes at most 3 pairs and touches at most 65,536 nodes. So a run of n steps
// from a state of k nodes holds at most k + 3n pairs, of 48 bytes and 32 more where an
// identity was asked for, however large the shared nouns are that it computes with;
// what it no longer needs is freed. All that is ever allocated on the way is at most
// 512 bytes for a step and 256 for a node of that state. The stacks are at most 256
// high, and the nouns on them at most 65,536 nodes large and 128 levels deep. Nothing
// recurses over data.
//
// A simple step takes some 15 ns. The dearest ones compare two large nouns that share
// nothing or hash a few new nodes, and take some 10 to 100 µs.
package machine
