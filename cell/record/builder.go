package record

import (
	"bytes"
	"fmt"
	"slices"
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
	memo  *Memo
	nodes []node
	ids   []Particle // of nodes, known where the level is 0 and after Seal
	blobs [][]byte
	depth int32
	err   error

	small     [256]Node // atoms
	atoms     map[uint64]Node
	known     map[Particle]Node
	refs      map[Node]Node
	texts     map[string]Node
	labels    map[string]Node
	manifests map[string]Node

	learnt  []Node
	lessons []lesson
	sealed  bool
	items   []Item
}

// The kinds of nodes.
const (
	opKnown uint8 = iota // the store has it
	opAtom
	opLimb // an atom: limb b of the particle of a
	opWord // an atom: 32-bit word b of the particle of a
	opPair
	opBlob // b is its place in blobs
)

type node struct {
	value uint64
	a, b  Node
	level int32 // 0 if known, else above those of the nodes that it depends on
	op    uint8
}

// lesson is what may be remembered under another key than the node itself has.
type lesson struct {
	node, to Node
	value    uint64
	text     string
	pair     [2]Particle
	of       uint8
}

const (
	lessonAtom uint8 = iota
	lessonPair
	lessonRef
	lessonText
	lessonLabel
	lessonManifest
)

// Builder returns a builder that relies on what the memo knows.
func (m *Memo) Builder() *Builder {
	b := &Builder{
		memo:      m,
		nodes:     make([]node, 1, 512),
		ids:       make([]Particle, 1, 512),
		atoms:     make(map[uint64]Node),
		known:     make(map[Particle]Node),
		refs:      make(map[Node]Node),
		texts:     make(map[string]Node),
		labels:    make(map[string]Node),
		manifests: make(map[string]Node),
	}
	return b
}

// fail keeps the first mistake.
func (b *Builder) fail(err error) Node {
	if b.err == nil {
		b.err = err
	}
	return b.Atom(0)
}

func (b *Builder) add(n node, id Particle) Node {
	b.nodes = append(b.nodes, n)
	b.ids = append(b.ids, id)
	b.depth = max(b.depth, n.level)
	return Node(len(b.nodes) - 1)
}

// Known is content that the store has.
func (b *Builder) Known(p Particle) Node {
	n, ok := b.known[p]
	if !ok {
		if !Canonical(p) {
			return b.fail(fmt.Errorf("%w: %v names nothing: a limb of it is not below 2^64 - 2^32 + 1", ErrInvalid, p))
		}
		n = b.add(node{op: opKnown}, p)
		b.known[p] = n
	}
	return n
}

// recalled is content that the memo knows. What is aged is learnt again, under the
// key that l has.
func (b *Builder) recalled(p Particle, aged bool, l lesson) Node {
	n := b.Known(p)
	if aged {
		l.node = n
		b.lessons = append(b.lessons, l)
	}
	return n
}

// Atom is a number, which must be an element of the field.
func (b *Builder) Atom(v uint64) Node {
	if v < uint64(len(b.small)) {
		if n := b.small[v]; n != 0 {
			return n
		}
		n := b.newAtom(v)
		b.small[v] = n
		return n
	}
	n, ok := b.atoms[v]
	if !ok {
		n = b.newAtom(v)
		b.atoms[v] = n
	}
	return n
}

func (b *Builder) newAtom(v uint64) Node {
	if p, ok, aged := recall(b.memo, atomsOf, v); ok {
		return b.recalled(p, aged, lesson{of: lessonAtom, value: v})
	}
	if v >= nox.P {
		return b.fail(fmt.Errorf("%w: the atom %d is not below 2^64 - 2^32 + 1", ErrInvalid, v))
	}
	n := b.add(node{op: opAtom, value: v, level: 1}, Particle{})
	b.learnt = append(b.learnt, n)
	return n
}

// Pair is two pieces of data.
func (b *Builder) Pair(left, right Node) Node {
	level := max(b.nodes[left].level, b.nodes[right].level)
	if level == 0 {
		pair := [2]Particle{b.ids[left], b.ids[right]}
		if p, ok, aged := recall(b.memo, pairsOf, pair); ok {
			return b.recalled(p, aged, lesson{of: lessonPair, pair: pair})
		}
	}
	n := b.add(node{op: opPair, a: left, b: right, level: level + 1}, Particle{})
	if level <= 1 {
		b.learnt = append(b.learnt, n)
	}
	return n
}

// Blob are bytes, which must not change before the builder is done with.
func (b *Builder) Blob(data []byte) Node {
	if len(data) > MaxBlob {
		return b.fail(fmt.Errorf("%w: a blob of %d bytes, at most %d are allowed", ErrLimit, len(data), MaxBlob))
	}
	b.blobs = append(b.blobs, data)
	return b.add(node{op: opBlob, b: Node(len(b.blobs) - 1), level: 1}, Particle{})
}

// Label is the blob of a fixed text (section 5).
func (b *Builder) Label(text string) Node {
	n, ok := b.labels[text]
	if ok {
		return n
	}
	if p, ok, aged := recall(b.memo, labelsOf, text); ok {
		n = b.recalled(p, aged, lesson{of: lessonLabel, text: text})
	} else {
		n = b.Blob([]byte(text))
		b.lessons = append(b.lessons, lesson{of: lessonLabel, text: text, node: n})
	}
	b.labels[text] = n
	return n
}

// Ref is a value that spells the particle of a node.
func (b *Builder) Ref(to Node) Node {
	if n, ok := b.refs[to]; ok {
		return n
	}
	n := b.newRef(to)
	b.refs[to] = n
	return n
}

func (b *Builder) newRef(to Node) Node {
	if b.nodes[to].level == 0 {
		if p, ok, aged := recall(b.memo, refsOf, b.ids[to]); ok {
			return b.recalled(p, aged, lesson{of: lessonRef, to: to})
		}
	}
	var limbs [4]Node
	level := b.nodes[to].level
	for i := range limbs {
		limbs[i] = b.add(node{op: opLimb, a: to, b: Node(i), level: level + 1}, Particle{})
	}
	pair := func(x, y Node) Node {
		return b.add(node{op: opPair, a: x, b: y, level: max(b.nodes[x].level, b.nodes[y].level) + 1}, Particle{})
	}
	n := pair(pair(limbs[0], limbs[1]), pair(limbs[2], limbs[3]))
	b.lessons = append(b.lessons, lesson{of: lessonRef, node: n, to: to})
	return n
}

// Text is a text of at most MaxText bytes.
func (b *Builder) Text(s string) Node {
	n, ok := b.texts[s]
	if ok {
		return n
	}
	if len(s) > MaxText {
		return b.fail(fmt.Errorf("%w: a text of %d bytes, at most %d are allowed", ErrLimit, len(s), MaxText))
	}
	if !utf8.ValidString(s) {
		return b.fail(fmt.Errorf("%w: a text that is not UTF-8", ErrInvalid))
	}
	if p, ok, aged := recall(b.memo, textsOf, s); ok {
		n = b.recalled(p, aged, lesson{of: lessonText, text: s})
	} else {
		list := b.Atom(0)
		for i := len(s) - 1; i >= 0; i-- {
			list = b.Pair(b.Atom(uint64(s[i])), list)
		}
		n = b.Pair(b.Uint(uint64(len(s))), list)
		if len(s) <= 128 {
			b.lessons = append(b.lessons, lesson{of: lessonText, text: s, node: n})
		}
	}
	b.texts[s] = n
	return n
}

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

func (b *Builder) nonce(n *Nonce[Node]) Node {
	var words [8]Node
	for i := range words {
		if n.Of.Present {
			words[i] = b.add(node{op: opWord, a: n.Of.Link, b: Node(i), level: b.nodes[n.Of.Link].level + 1}, Particle{})
		} else {
			words[i] = b.Atom(le64(n.Bytes[4*i&^7:]) >> (32 * (i & 1)) & 0xffffffff)
		}
	}
	return b.list(words[:])
}

// manifest is the identity of a schema. The contract is stored with the first one.
func (b *Builder) manifest(name string) Node {
	n, ok := b.manifests[name]
	if ok {
		return n
	}
	if p, ok, aged := recall(b.memo, manifestsOf, name); ok {
		n = b.recalled(p, aged, lesson{of: lessonManifest, text: name})
	} else {
		document := b.contract()
		n = b.Pair(b.Atom(manifestMark), b.list([]Node{b.Text(name), b.Ref(document)}))
		b.lessons = append(b.lessons, lesson{of: lessonManifest, text: name, node: n})
	}
	b.manifests[name] = n
	return n
}

// contractLabel is the key of the contract among labels, which are never empty.
const contractLabel = ""

func (b *Builder) contract() Node {
	n, ok := b.labels[contractLabel]
	if ok {
		return n
	}
	if p, ok, aged := recall(b.memo, labelsOf, contractLabel); ok {
		n = b.recalled(p, aged, lesson{of: lessonLabel, text: contractLabel})
	} else {
		// Its identity is known, but nobody has stored it yet.
		b.blobs = append(b.blobs, b.memo.suite.document)
		n = b.add(node{op: opBlob, b: Node(len(b.blobs) - 1), level: 1}, Particle{})
		b.lessons = append(b.lessons, lesson{of: lessonLabel, text: contractLabel, node: n})
	}
	b.labels[contractLabel] = n
	return n
}

func (b *Builder) record(schema string, fields []Node) Node {
	return b.Pair(b.Ref(b.manifest(schema)), b.list(fields))
}

// Manifest is the schema of a name that the suite declares.
func (b *Builder) Manifest(name string) Node {
	b.memo.suite.mustManifest(name)
	return b.manifest(name)
}

// Record is a record with its fields.
func (b *Builder) Record(r Record[Node]) Node {
	e := encoder{b: b}
	r.fields(&e)
	return b.record(r.Schema(), e.fields)
}

// Lifecycle is the variant of a lifecycle, as content of its own.
func (b *Builder) Lifecycle(l Lifecycle) Node { return b.variant(lifecycles, uint8(l)) }

func (b *Builder) variant(d *domain, v uint8) Node {
	if v == 0 || int(v) > len(d.words) {
		return b.fail(fmt.Errorf("%w: %d is no %s", ErrInvalid, v, d.name))
	}
	return b.record(d.schema(d.words[v-1]), nil)
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
	members := make([]Node, len(entries))
	for i, e := range entries {
		if i > 0 && b.ids[e.Key] == b.ids[entries[i-1].Key] {
			return b.fail(fmt.Errorf("%w: a map with the key %v twice", ErrInvalid, b.ids[e.Key]))
		}
		members[i] = b.Pair(b.Ref(e.Key), b.Ref(e.Value))
	}
	return b.sequence(members)
}

// Artifact are bytes with their media type (section 6).
func (b *Builder) Artifact(data []byte, media string) Node {
	return b.Record(&Artifact[Node]{
		Content: b.Blob(data), Codec: b.Label(Codec), ByteLength: uint64(len(data)), MediaType: media,
	})
}

// Codec is the label of the codec of all artifacts.
const Codec = "hemera/bytes/0.3"

// encoder makes nodes of the fields of a record.
type encoder struct {
	b      *Builder
	fields []Node
	buffer [12]Node
}

func (e *encoder) put(n Node) {
	if e.fields == nil {
		e.fields = e.buffer[:0]
	}
	e.fields = append(e.fields, n)
}

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
	members := make([]Node, len(*v))
	for i, x := range *v {
		members[i] = e.b.Uint(x)
	}
	e.put(e.b.sequence(members))
}

func (e *encoder) refs(_ string, l *[]Node) {
	members := make([]Node, len(*l))
	for i, n := range *l {
		members[i] = e.link(n)
	}
	e.put(e.b.sequence(members))
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
	e.put(e.b.record(operationResult, []Node{e.link(t.Operation.Link)}))
}

func (e *encoder) entries(_ string, list *[]Entry[Node]) {
	members := make([]Node, len(*list))
	for i := range *list {
		members[i] = e.b.Record(&(*list)[i])
	}
	e.put(e.b.sequence(members))
}

func (e *encoder) metrics(_ string, list *[]Metric[Node]) {
	members := make([]Node, len(*list))
	for i, m := range *list {
		members[i] = e.b.Pair(e.link(m.Metric), e.b.Uint(m.Limit))
	}
	e.put(e.b.sequence(members))
}
