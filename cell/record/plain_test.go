package record

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/writ-authority/writ/hemera"
)

// plain makes records in the plainest way that section 3.2 allows: every node is hashed
// when it is made, every record brings its manifest, and nothing is remembered. It
// shares no code with Builder but the declarations of records.
type plain struct {
	document []byte
	items    map[Particle]Item
	hashes   int // permutations
	list     []Particle
}

func newPlain() *plain { return &plain{document: Contract(), items: map[Particle]Item{}} }

func (p *plain) atom(v uint64) Particle {
	id, err := hemera.AtomID(v)
	if err != nil {
		panic(err)
	}
	p.hashes += 2
	p.items[id] = Item{id, KindAtom, binary.LittleEndian.AppendUint64(nil, v)}
	return id
}

func (p *plain) pair(x, y Particle) Particle {
	id, err := hemera.PairID(x, y)
	if err != nil {
		panic(err)
	}
	p.hashes++
	p.items[id] = Item{id, KindPair, slices.Concat(x[:], y[:])}
	return id
}

func (p *plain) blob(data []byte) Particle {
	id := hemera.Sum(data)
	p.hashes += len(data)/hemera.BlockSize + 1
	p.items[id] = Item{id, KindBlob, data}
	return id
}

func (p *plain) fields(members ...Particle) Particle {
	id := p.atom(0)
	for _, m := range slices.Backward(members) {
		id = p.pair(m, id)
	}
	return id
}

func (p *plain) number(v uint64) Particle { return p.pair(p.atom(v>>32), p.atom(v%(1<<32))) }

func (p *plain) reference(to Particle) Particle {
	l := to.Limbs()
	return p.pair(p.pair(p.atom(l[0]), p.atom(l[1])), p.pair(p.atom(l[2]), p.atom(l[3])))
}

func (p *plain) sequence(members ...Particle) Particle {
	return p.pair(p.number(uint64(len(members))), p.fields(members...))
}

func (p *plain) string(s string) Particle {
	var members []Particle
	for _, c := range []byte(s) {
		members = append(members, p.atom(uint64(c)))
	}
	return p.sequence(members...)
}

func (p *plain) schema(name string, fields ...Particle) Particle {
	manifest := p.pair(p.atom(1396918321), p.fields(p.string(name), p.reference(p.blob(p.document))))
	return p.pair(p.reference(manifest), p.fields(fields...))
}

func (p *plain) record(r Record[Particle]) Particle {
	q := &plain{document: p.document, items: p.items}
	r.fields(q)
	id := q.schema(r.Schema(), q.list...)
	p.hashes += q.hashes
	return id
}

func (p *plain) mapOf(m Map[Particle]) Particle {
	m = slices.SortedFunc(slices.Values(m), func(x, y MapEntry[Particle]) int { return bytes.Compare(x.Key[:], y.Key[:]) })
	var members []Particle
	for _, e := range m {
		members = append(members, p.pair(p.reference(e.Key), p.reference(e.Value)))
	}
	return p.sequence(members...)
}

func (p *plain) artifact(data []byte, media string) Particle {
	return p.record(&Artifact[Particle]{p.blob(data), p.blob([]byte(Codec)), uint64(len(data)), media})
}

func (p *plain) put(id Particle) { p.list = append(p.list, id) }

func (p *plain) uint(_ string, v *uint64)     { p.put(p.number(*v)) }
func (p *plain) ref(_ string, l *Particle)    { p.put(p.reference(*l)) }
func (p *plain) text(_ string, s *string)     { p.put(p.string(*s)) }
func (p *plain) refs(_ string, l *[]Particle) { p.put(p.sequence(each(*l, p.reference)...)) }
func (p *plain) uints(_ string, v *[]uint64)  { p.put(p.sequence(each(*v, p.number)...)) }

func (p *plain) variant(_ string, d *domain, v *uint8) {
	p.put(p.schema("cell/" + d.name + "/" + d.words[*v-1] + "/1"))
}

func (p *plain) optional(_ string, o *Optional[Particle]) {
	if o.Present {
		p.put(p.pair(p.atom(1), p.reference(o.Link)))
	} else {
		p.put(p.pair(p.atom(0), p.atom(0)))
	}
}

func (p *plain) nonce(_ string, n *Nonce[Particle]) {
	var words []Particle
	for word := range slices.Chunk(n.Bytes[:], 4) {
		words = append(words, p.atom(uint64(binary.LittleEndian.Uint32(word))))
	}
	p.put(p.fields(words...))
}

func (p *plain) trigger(_ string, t *Trigger[Particle]) {
	if t.Operation.Present {
		p.put(p.schema("cell/trigger/operation-result/1", p.reference(t.Operation.Link)))
	} else {
		p.put(p.schema("cell/trigger/scheduler-yield/1"))
	}
}

func (p *plain) entries(_ string, list *[]Entry[Particle]) {
	p.put(p.sequence(each(*list, func(e Entry[Particle]) Particle { return p.record(&e) })...))
}

func (p *plain) metrics(_ string, list *[]Metric[Particle]) {
	p.put(p.sequence(each(*list, func(m Metric[Particle]) Particle {
		return p.pair(p.reference(m.Metric), p.number(m.Limit))
	})...))
}

func each[T any](list []T, f func(T) Particle) (ids []Particle) {
	for _, x := range list {
		ids = append(ids, f(x))
	}
	return ids
}
