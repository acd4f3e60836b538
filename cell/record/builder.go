package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/writ-authority/writ/nox"
)

// Node is a piece of content in a Builder. The zero value is none.
type Node int32

// Builder builds the content of one write. Nothing is hashed before Seal, which
// computes all identities level by level, many at once; so the identity of one node
// may be spelt in another (Ref, Nonce.Of) before anybody knows it.
//
// A mistake, such as a text that is too long, is kept and returned by Seal. A
// Builder is used by one goroutine at a time and for one write.
type Builder struct {
	memo   *Memo
	before *Builder // see After
	*scratch
	depth int32
	fresh int // nodes that the store is not known to have
	err   error

	sealed bool
	items  []Item
}

// scratch is the memory of a builder that can be used again.
type scratch struct {
	nodes []node // the first is none
	ids   []Particle
	blobs [][]byte

	// table has nodes by their op and value, so that nothing is made twice. Its length
	// is a power of two, and 0 is an empty place.
	table []Node
	shift uint8 // 64 less its logarithm

	texts, labels    []named
	manifests        [maxSchemas]Node
	heads, constants [maxSchemas]Node // the refs that begin records; the variants

	stack  []Node // the fields of the records and members of the sequences that are being made
	encode encoder
}

type named struct {
	text string
	node Node
}

// The kinds of nodes.
const (
	opKnown uint8 = iota // the store has it
	opAtom               // a number
	opLimb               // an atom: a limb of the particle of a node
	opWord               // an atom: a 32-bit word of the particle of a node
	opPair
	opBlob
)

// node is one piece of content.
type node struct {
	// value is the number of an atom; the node above and the place below 2^32 of a limb
	// or word; the left node above and the right one below 2^32 of a pair; the place in
	// blobs of a blob; and the lowest limb of what is known.
	value uint64
	// level is 0 for what the store has and 1 for blobs. A pair is one level above its
	// members, and an atom two levels above the node whose particle it is about, or above
	// blobs if it is a number: one level is one permutation.
	level int32
	ref   Node // the value that spells the particle of this node, or none
	op    uint8
}

func both(a, b Node) uint64 { return uint64(a)<<32 | uint64(b) }

// firstStep is the level of what is hashed first after the blobs.
const firstStep = 2

// above is the level n levels above a node.
func (n *node) above(levels int32) int32 { return max(n.level, firstStep-1) + levels }

func (n *node) left() Node  { return Node(n.value >> 32) }
func (n *node) right() Node { return Node(uint32(n.value)) }

var scratches = sync.Pool{New: func() any {
	s := &scratch{nodes: make([]node, 1, 400), ids: make([]Particle, 1, 400)}
	s.resize(10)
	return s
}}

// Builder returns a builder that relies on what the memo knows.
func (m *Memo) Builder() *Builder {
	b := &Builder{memo: m, scratch: scratches.Get().(*scratch)}
	b.encode.b = b
	return b
}

// After returns a builder of what will be written after the content of a sealed builder,
// while nobody knows yet whether that becomes durable. It relies on the references to
// new content that b has made. Until the new builder is sealed, b must not be released.
func (b *Builder) After() *Builder {
	if !b.sealed {
		panic("record: content that comes after what is not sealed")
	}
	next := b.memo.Builder()
	next.before = b
	return next
}

// refTo is the reference to a piece of new content of a sealed builder.
func (b *Builder) refTo(p *Particle) (ref Particle, ok bool) {
	mask := uint64(len(b.table) - 1)
	for at := le64(p[:]) >> 1 & mask; b.table[at] != 0; at = (at + 1) & mask {
		if n := b.table[at]; b.ids[n] == *p {
			n = b.nodes[n].ref
			return b.ids[n], n != 0
		}
	}
	return ref, false
}

// Release gives the memory of a builder back. Nothing of it may be used any more but
// the items that it has returned. Calling it is not necessary.
func (b *Builder) Release() {
	s := b.scratch
	b.scratch, b.items = nil, nil
	if s == nil || cap(s.nodes) > 1<<14 {
		return
	}
	s.nodes, s.ids = s.nodes[:1], s.ids[:1]
	clear(s.blobs)
	s.blobs = s.blobs[:0]
	clear(s.table)
	s.texts, s.labels, s.stack = s.texts[:0], s.labels[:0], s.stack[:0]
	clear(s.manifests[:])
	clear(s.heads[:])
	clear(s.constants[:])
	s.encode.b = nil
	scratches.Put(s)
}

// fail keeps the first mistake.
func (b *Builder) fail(err error) Node {
	if b.err == nil {
		b.err = err
	}
	return b.Atom(0)
}

func (b *Builder) add(n node, id Particle) Node {
	if b.sealed {
		panic("record: a node for a builder that is sealed")
	}
	b.nodes = append(b.nodes, n)
	b.ids = append(b.ids, id)
	if n.level > 0 {
		b.depth = max(b.depth, n.level)
		if b.fresh++; b.fresh > MaxItems && b.err == nil {
			b.err = fmt.Errorf("%w: more than %d items in one write", ErrLimit, MaxItems)
		}
	}
	return Node(len(b.nodes) - 1)
}

func (s *scratch) resize(log uint8) {
	s.table, s.shift = make([]Node, 1<<log), 64-log
	for i := 1; i < len(s.nodes); i++ {
		if n := &s.nodes[i]; n.op != opBlob {
			at := s.slot(n.op, n.value)
			for s.table[at] != 0 {
				at = (at + 1) & uint64(len(s.table)-1)
			}
			s.table[at] = Node(i)
		}
	}
}

func (s *scratch) slot(op uint8, value uint64) uint64 {
	return (value + uint64(op)<<59) * 0x9e3779b97f4a7c15 >> s.shift
}

// find returns the node of an op and a value, or none and the place in the table where
// it belongs. What is known must have the particle p.
func (b *Builder) find(op uint8, value uint64, p *Particle) (Node, uint64) {
	if 2*len(b.nodes) >= len(b.table) {
		b.resize(65 - b.shift)
	}
	mask := uint64(len(b.table) - 1)
	for at := b.slot(op, value); ; at = (at + 1) & mask {
		n := b.table[at]
		if n == 0 {
			return 0, at
		}
		if x := &b.nodes[n]; x.value == value && x.op == op && (op != opKnown || b.ids[n] == *p) {
			return n, at
		}
	}
}

// made is a node that is hashed by Seal, put where find has found none.
func (b *Builder) made(at uint64, op uint8, value uint64, level int32) Node {
	n := b.add(node{op: op, value: value, level: level}, Particle{})
	b.table[at] = n
	return n
}

// Known is content that the store has.
func (b *Builder) Known(p Particle) Node {
	value := le64(p[:])
	n, at := b.find(opKnown, value, &p)
	if n == 0 {
		if !Canonical(p) {
			return b.fail(fmt.Errorf("%w: %v names nothing: a limb of it is not below 2^64 - 2^32 + 1", ErrInvalid, p))
		}
		n = b.add(node{op: opKnown, value: value}, p)
		b.table[at] = n
	}
	return n
}

// Atom is a number, which must be an element of the field.
func (b *Builder) Atom(v uint64) Node {
	n, at := b.find(opAtom, v, nil)
	if n != 0 {
		return n
	}
	if v >= nox.P {
		return b.fail(fmt.Errorf("%w: the atom %d is not below 2^64 - 2^32 + 1", ErrInvalid, v))
	}
	if p, ok := b.memo.atom(v); ok {
		n = b.add(node{op: opAtom, value: v}, p)
		b.table[at] = n
		return n
	}
	return b.made(at, opAtom, v, firstStep+1)
}

// Pair is two pieces of data.
func (b *Builder) Pair(left, right Node) Node {
	value := both(left, right)
	n, at := b.find(opPair, value, nil)
	if n != 0 {
		return n
	}
	x, y := &b.nodes[left], &b.nodes[right]
	if x.level == 0 && y.level == 0 {
		if p, ok := b.memo.pair(&b.ids[left], &b.ids[right]); ok {
			n = b.add(node{op: opPair, value: value}, p)
			b.table[at] = n
			return n
		}
	}
	return b.made(at, opPair, value, max(x.above(1), y.above(1)))
}

// Blob are bytes, which must not change before the builder is done with.
func (b *Builder) Blob(data []byte) Node {
	if len(data) > MaxBlob {
		return b.fail(fmt.Errorf("%w: a blob of %d bytes, at most %d are allowed", ErrLimit, len(data), MaxBlob))
	}
	b.blobs = append(b.blobs, data)
	return b.add(node{op: opBlob, value: uint64(len(b.blobs) - 1), level: 1}, Particle{})
}

// Label is the blob of a fixed text (section 5).
func (b *Builder) Label(text string) Node {
	for i := range b.labels {
		if b.labels[i].text == text {
			return b.labels[i].node
		}
	}
	var n Node
	if p, ok := b.memo.strings.Load().labels[text]; ok {
		n = b.Known(p)
	} else {
		n = b.Blob([]byte(text))
	}
	b.labels = append(b.labels, named{text, n})
	return n
}

// Ref is a value that spells the particle of a node.
func (b *Builder) Ref(to Node) Node {
	if n := b.nodes[to].ref; n != 0 {
		return n
	}
	if b.nodes[to].level == 0 {
		p, ok := b.memo.ref(&b.ids[to])
		if !ok && b.before != nil {
			p, ok = b.before.refTo(&b.ids[to])
		}
		if ok {
			n := b.Known(p)
			b.nodes[to].ref = n
			return n
		}
	}
	var limbs [4]Node
	for i := range limbs {
		value := both(to, Node(i))
		n, at := b.find(opLimb, value, nil)
		if n == 0 {
			n = b.made(at, opLimb, value, b.nodes[to].above(2))
		}
		limbs[i] = n
	}
	n := b.Pair(b.Pair(limbs[0], limbs[1]), b.Pair(limbs[2], limbs[3]))
	b.nodes[to].ref = n
	return n
}

// Text is a text of at most MaxText bytes.
func (b *Builder) Text(s string) Node {
	for i := range b.texts {
		if b.texts[i].text == s {
			return b.texts[i].node
		}
	}
	if len(s) > MaxText {
		return b.fail(fmt.Errorf("%w: a text of %d bytes, at most %d are allowed", ErrLimit, len(s), MaxText))
	}
	if !utf8.ValidString(s) {
		return b.fail(fmt.Errorf("%w: a text that is not UTF-8", ErrInvalid))
	}
	var n Node
	if p, ok := b.memo.strings.Load().texts[s]; ok {
		n = b.Known(p)
	} else {
		list := b.Atom(0)
		for i := len(s) - 1; i >= 0; i-- {
			list = b.Pair(b.Atom(uint64(s[i])), list)
		}
		n = b.Pair(b.Uint(uint64(len(s))), list)
	}
	if len(b.texts) < maxTexts {
		b.texts = append(b.texts, named{s, n})
	}
	return n
}

// maxTexts is how many texts and labels a builder looks through for one; more are made
// again, of nodes that are there already.
const maxTexts = 16

// Uint is an integer.
func (b *Builder) Uint(v uint64) Node { return b.Pair(b.Atom(v>>32), b.Atom(v&0xffffffff)) }

// list is fields(…).
func (b *Builder) list(members []Node) Node {
	n := b.Atom(0)
	for i := len(members) - 1; i >= 0; i-- {
		n = b.Pair(members[i], n)
	}
	return n
}

func (b *Builder) sequence(members []Node) Node {
	return b.Pair(b.Uint(uint64(len(members))), b.list(members))
}

// collected is the list of what was put on the stack since it had the height from.
func (b *Builder) collected(from int) []Node {
	members := b.stack[from:]
	b.stack = b.stack[:from]
	return members
}

func (b *Builder) nonce(n *Nonce[Node]) Node {
	list := b.Atom(0)
	for i := 7; i >= 0; i-- {
		var word Node
		if n.Of.Present {
			of := n.Of.Link
			value := both(of, Node(i))
			var at uint64
			if word, at = b.find(opWord, value, nil); word == 0 {
				word = b.made(at, opWord, value, b.nodes[of].above(2))
			}
		} else {
			word = b.Atom(uint64(binary.LittleEndian.Uint32(n.Bytes[4*i:])))
		}
		list = b.Pair(word, list)
	}
	return list
}

// manifest is the identity of a schema. The contract is stored with the first one.
func (b *Builder) manifest(schema int) Node {
	n := b.manifests[schema]
	if n == 0 {
		if b.memo.manifests.has(schema) {
			n = b.Known(b.memo.suite.schemas[schema].Manifest)
		} else {
			members := [2]Node{b.Text(schemaNames[schema]), b.Ref(b.contract())}
			n = b.Pair(b.Atom(manifestMark), b.list(members[:]))
		}
		b.manifests[schema] = n
	}
	return n
}

// head is the reference to a manifest, which begins every record of the schema.
func (b *Builder) head(schema int) Node {
	n := b.heads[schema]
	if n == 0 {
		if b.memo.heads.has(schema) {
			n = b.Known(b.memo.suite.heads[schema])
		} else {
			n = b.Ref(b.manifest(schema))
		}
		b.heads[schema] = n
	}
	return n
}

// contractLabel is the key of the contract among labels, which are never empty.
const contractLabel = ""

func (b *Builder) contract() Node {
	for i := range b.labels {
		if b.labels[i].text == contractLabel {
			return b.labels[i].node
		}
	}
	var n Node
	if p, ok := b.memo.strings.Load().labels[contractLabel]; ok {
		n = b.Known(p)
	} else {
		n = b.Blob(b.memo.suite.document)
	}
	b.labels = append(b.labels, named{contractLabel, n})
	return n
}

func (b *Builder) record(schema int, fields []Node) Node {
	return b.Pair(b.head(schema), b.list(fields))
}

// Manifest is the schema of a name that the suite declares.
func (b *Builder) Manifest(name string) Node { return b.manifest(mustSchema(name)) }

// Record is a record with its fields.
func (b *Builder) Record(r Record[Node]) Node {
	from := len(b.stack)
	r.fields(&b.encode)
	return b.record(mustSchema(r.Schema()), b.collected(from))
}

// Lifecycle is the variant of a lifecycle, as content of its own.
func (b *Builder) Lifecycle(l Lifecycle) Node { return b.variant(lifecycles, uint8(l)) }

func (b *Builder) variant(d *domain, v uint8) Node {
	if v == 0 || int(v) > len(d.words) {
		return b.fail(fmt.Errorf("%w: %d is no %s", ErrInvalid, v, d.name))
	}
	schema := d.first + int(v) - 1
	n := b.constants[schema]
	if n == 0 {
		if b.memo.variants.has(schema) {
			n = b.Known(b.memo.suite.constants[schema])
		} else {
			n = b.record(schema, nil)
		}
		b.constants[schema] = n
	}
	return n
}

// Map are entries under their keys, which must differ. They are sorted by their
// keys, so that those must be Known if there are several entries.
func (b *Builder) Map(entries ...MapEntry[Node]) Node {
	if len(entries) > 1 {
		for _, e := range entries {
			if b.nodes[e.Key].level != 0 {
				return b.fail(fmt.Errorf("%w: a map of several entries with a key that is not known yet", ErrInvalid))
			}
		}
		entries = slices.SortedFunc(slices.Values(entries), func(x, y MapEntry[Node]) int {
			return bytes.Compare(b.ids[x.Key][:], b.ids[y.Key][:])
		})
	}
	from := len(b.stack)
	for i, e := range entries {
		if i > 0 && b.ids[e.Key] == b.ids[entries[i-1].Key] {
			return b.fail(fmt.Errorf("%w: a map with the key %v twice", ErrInvalid, b.ids[e.Key]))
		}
		b.stack = append(b.stack, b.Pair(b.Ref(e.Key), b.Ref(e.Value)))
	}
	return b.sequence(b.collected(from))
}

// Artifact are bytes with their media type (section 6).
func (b *Builder) Artifact(data []byte, media string) Node {
	return b.Record(&Artifact[Node]{
		Content: b.Blob(data), Codec: b.Label(Codec), ByteLength: uint64(len(data)), MediaType: media,
	})
}

// Codec is the label of the codec of all artifacts.
const Codec = "hemera/bytes/0.3"

// encoder puts the fields of a record on the stack of a builder.
type encoder struct{ b *Builder }

func (e *encoder) put(n Node) { e.b.stack = append(e.b.stack, n) }

func (e *encoder) uint(_ string, v *uint64)       { e.put(e.b.Uint(*v)) }
func (e *encoder) ref(_ string, l *Node)          { e.put(e.link(*l)) }
func (e *encoder) text(_ string, s *string)       { e.put(e.b.Text(*s)) }
func (e *encoder) nonce(_ string, n *Nonce[Node]) { e.put(e.b.nonce(n)) }

// link is the reference to a node that a record must have.
func (e *encoder) link(n Node) Node {
	if n <= 0 || int(n) >= len(e.b.nodes) {
		return e.b.fail(fmt.Errorf("%w: a reference to nothing", ErrInvalid))
	}
	return e.b.Ref(n)
}

func (e *encoder) uints(_ string, v *[]uint64) {
	from := len(e.b.stack)
	for _, x := range *v {
		e.put(e.b.Uint(x))
	}
	e.put(e.b.sequence(e.b.collected(from)))
}

func (e *encoder) refs(_ string, l *[]Node) {
	from := len(e.b.stack)
	for _, n := range *l {
		e.put(e.link(n))
	}
	e.put(e.b.sequence(e.b.collected(from)))
}

func (e *encoder) optional(_ string, o *Optional[Node]) {
	if !o.Present {
		e.put(e.b.Pair(e.b.Atom(0), e.b.Atom(0)))
		return
	}
	e.put(e.b.Pair(e.b.Atom(1), e.link(o.Link)))
}

func (e *encoder) variant(_ string, d *domain, v *uint8) { e.put(e.b.variant(d, *v)) }

func (e *encoder) trigger(_ string, t *Trigger[Node]) {
	if !t.Operation.Present {
		e.put(e.b.variant(triggers, 1))
		return
	}
	fields := [1]Node{e.link(t.Operation.Link)}
	e.put(e.b.record(mustSchema(operationResult), fields[:]))
}

func (e *encoder) entries(_ string, list *[]Entry[Node]) {
	from := len(e.b.stack)
	for i := range *list {
		e.put(e.b.Record(&(*list)[i]))
	}
	e.put(e.b.sequence(e.b.collected(from)))
}

func (e *encoder) metrics(_ string, list *[]Metric[Node]) {
	from := len(e.b.stack)
	for _, m := range *list {
		e.put(e.b.Pair(e.link(m.Metric), e.b.Uint(m.Limit)))
	}
	e.put(e.b.sequence(e.b.collected(from)))
}
