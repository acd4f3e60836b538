// Package record has the records of cells, byte for byte: "cell local schema suite
// revision 1". The sections that comments name are those of the specification of the
// cell runtime.
//
// Content is an atom, a pair or a blob under the name that its hash is, its Particle.
// A Builder makes the content of one write out of typed records; it hashes nothing
// before Builder.Seal, which does it in batches, and leaves out what the Memo knows to be
// stored. A Reader reads records back and refuses whatever has not exactly the form
// that the suite declares. Each record is declared once, as a type with the list of
// its fields; building, reading, errors and listings follow from that.
//
// One write goes like this: Memo.Builder, records, Seal, the store's write of
// Builder.Items, and Builder.Committed once it is durable. Whoever leaves out the last
// step, because the write has failed or nobody knows, loses nothing but time: the next
// builder hands over again what it needs. Builders of many cells may be sealed together,
// and the more of them there are, the less the hashing costs for each.
//
// The suite is a document, and its bytes are hashed into the identity of every schema.
// Local is the suite of the embedded one.
package record
