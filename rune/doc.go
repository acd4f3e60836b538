// Package rune compiles the Rune language, in which cells are written, to formulas of
// Nox. The specification is that of the cell runtime, section 11; docs/rune.md is the
// language for those who write it.
//
// [Compile] reads, checks and lowers one source text. The [Program] that it gives
// makes the formula for an event in constant time, since only one quoted constant
// depends on it. [CompileValue] does the same for an expression that stands for a
// noun. [Format] puts a source into the one layout; what it writes compiles to the
// same formulas.
//
// Compiling is total: any byte string is compiled or refused, with an [Error] that
// has the line, the column, the text of the line and a caret. Sizes are bounded
// before anything is built ([MaxSource], [MaxTokens], [MaxNesting], [MaxLowering]), so
// neither time nor stack depends on more than these, and compiling or formatting allocates at most 4 MiB. A Program is immutable and
// may be shared between goroutines.
//
// The body's nouns are made anew for each Program and none of them occurs in two
// places, so that [Program.Place] can tell from a formula that is being evaluated
// which text it came from.
package rune
