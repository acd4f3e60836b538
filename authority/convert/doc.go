// Package convert turns what earlier servers kept into the roots of Binary DB v0
// (section 19).
//
// There are two kinds of source. "u32-time-v0" is the predecessor of the layout:
// the same files and fields with times of four bytes, which are widened.
// "legacy-rows" are the tables of the server before that, as JSON documents, with
// the content families in binary form beside them. The caller names the kind; it
// is never guessed.
//
// # What it promises
//
//   - The source is only read. No lock is taken or made in it, and no file in it
//     is changed.
//   - It is all or nothing. The target is a new installation, which exists once
//     all of it was built, compared, validated and made durable, and not before.
//   - The target holds the source as it was at one moment. Every byte is read
//     twice: when it is copied, and again after everything was copied. A difference
//     of a byte, a length, a file or of a name ends the conversion with ErrDrift
//     and says which file it was.
//   - Nothing is guessed, repaired, left out or made up. What the target cannot
//     hold exactly is refused with the place: the file, or the array, row and
//     field. A rule that may be set aside has a name, the caller has to give it,
//     and the report lists where it was used.
//   - A time that the source does not have stays unknown. The time of the
//     conversion is never put in its place.
package convert
