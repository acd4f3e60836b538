// Package record declares every fixed record of Binary DB v0 once.
//
// Each record is a Go struct in a file named after its concept: patchset.go,
// review.go and so on. The struct and its directive comments are the only
// declaration. go generate derives from them the size constant, the Encode and
// Decode methods, the accessors of the metadata bytes, the layout tables behind
// Layouts and Dump, and the page docs/format.md. A test fails when the
// derived files are stale.
//
// # What it promises
//
//   - All integers are little-endian and fields follow one another without
//     padding (Binary DB v0, section 2.2). Encode and Decode are exact inverses:
//     bytes that Decode accepts are the bytes that Encode gives back.
//   - Decode refuses what a single field can show to be wrong: a wrong length, a
//     reserved field or bit that is not zero, an enumerated value without a
//     meaning. Check, a separate method, refuses what several fields of one
//     record show together. What needs another record, a payload or the file is
//     checked by package bindb.
//   - Errors are *FieldError values that match ErrMalformed, name the field, its
//     value and what was expected, and quote the check of section 17.
//   - The package does no I/O and holds no state.
//
// # Declarations
//
// A record carries a directive:
//
//	//bindb:record file=patchset.bin root=authority family=workflow kind=record size=65 name=ServerPatchsetRecord const=SERVER_PATCHSET_RECORD_SIZE
//
// size is what the format demands; the generator compares it with the sum of the
// fields, and so does the compiler. Every field has a bin tag with its name in
// the format, and its comment is its documentation. A blank field is reserved.
// The tag target names the file that an index or a payload offset points into,
// the tag show=hex marks an integer that is really a hash.
//
// A metadata byte is a type of its own with a directive that names its bits:
//
//	//bindb:bits withdrawn=0 author_mode=2..4:AuthorMode
//
// An enumeration is a type with the directive bindb:enum and typed constants,
// whose comments begin with the name used on the wire. "bindb:enum open" lets
// Decode accept values without a name.
//
// The eight-byte chain rows share two Go types; a bindb:chain directive declares
// each of the fifteen files with its own field names.
package record

//go:generate go run ./internal/recordgen
