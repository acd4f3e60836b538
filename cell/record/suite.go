package record

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/writ-authority/writ/hemera"
)

//go:embed suite-1.txt
var contract []byte

// Contract returns the document of the suite, whose bytes are hashed into every
// schema (section 2).
func Contract() []byte { return slices.Clone(contract) }

// NounArtifact and Checkpoint are the schemas that have no record (section 4).
const (
	NounArtifact = "rune/noun-artifact/1"
	Checkpoint   = "rune/checkpoint/1"
)

// manifestMark begins every manifest.
const manifestMark = 0x53434831

// Schema is the name of a schema and the particle of its manifest.
type Schema struct {
	Name     string
	Manifest Particle
}

// Suite are the identities that follow from the bytes of a contract. It is
// immutable.
type Suite struct {
	document []byte
	contract Particle
	schemas  []Schema
	byName   map[string]Particle
	byRef    map[Particle]string   // by the particle of the ref to the manifest, which begins a record
	variants map[*domain][]variant // in the order of the domain
	zero     Particle              // of the atom 0
	empty    Particle              // of the empty sequence, text and map
}

type variant struct{ manifestRef, record Particle }

// Local returns the suite of the embedded contract.
func Local() *Suite { return local() }

var local = sync.OnceValue(func() *Suite { return NewSuite(contract) })

// NewSuite derives the identities of all schemas from the bytes of a contract.
func NewSuite(document []byte) *Suite {
	s := &Suite{
		document: slices.Clone(document),
		contract: hemera.Sum(document),
		byName:   map[string]Particle{},
		byRef:    map[Particle]string{},
		variants: map[*domain][]variant{},
	}
	b := NewMemo(s).Builder()
	var names []string
	for _, r := range records[Particle]() {
		names = append(names, r.Schema())
	}
	for _, d := range domains {
		for _, w := range d.words {
			names = append(names, d.schema(w))
		}
	}
	names = append(names, operationResult, NounArtifact, Checkpoint)
	manifests, refs := make([]Node, len(names)), make([]Node, len(names))
	for i, name := range names {
		manifests[i] = b.manifest(name)
		refs[i] = b.Ref(manifests[i])
	}
	constants := map[string]Node{}
	for _, d := range domains {
		for _, w := range d.words {
			constants[d.schema(w)] = b.record(d.schema(w), nil)
		}
	}
	zero, empty := b.Atom(0), b.sequence(nil)
	if err := b.Seal(); err != nil {
		panic(err) // nothing in it depends on anything but the document
	}
	for i, name := range names {
		s.schemas = append(s.schemas, Schema{name, b.Particle(manifests[i])})
		s.byName[name] = b.Particle(manifests[i])
		s.byRef[b.Particle(refs[i])] = name
	}
	for _, d := range domains {
		for _, w := range d.words {
			n := constants[d.schema(w)]
			s.variants[d] = append(s.variants[d], variant{b.Particle(b.nodes[n].a), b.Particle(n)})
		}
	}
	s.zero, s.empty = b.Particle(zero), b.Particle(empty)
	return s
}

// Contract returns the identity of the document, as a blob.
func (s *Suite) Contract() Particle { return s.contract }

// Schemas returns all schemas in the order of the contract.
func (s *Suite) Schemas() []Schema { return slices.Clone(s.schemas) }

// Manifest returns the identity of a schema.
func (s *Suite) Manifest(name string) (Particle, bool) {
	p, ok := s.byName[name]
	return p, ok
}

// SchemaOf returns the name of the schema that a record begins with: its first member,
// which is the reference to a manifest.
func (s *Suite) SchemaOf(first Particle) (string, bool) {
	name, ok := s.byRef[first]
	return name, ok
}

// EmptyMap returns the identity of a map without entries.
func (s *Suite) EmptyMap() Particle { return s.empty }

// Variant returns the identity of a variant without fields, such as
// cell/lifecycle/active/1.
func (s *Suite) Variant(schema string) (Particle, bool) {
	for _, d := range domains {
		for i, w := range d.words {
			if d.schema(w) == schema {
				return s.variants[d][i].record, true
			}
		}
	}
	return Particle{}, false
}

// mustManifest is for names that the suite declares itself.
func (s *Suite) mustManifest(name string) Particle {
	p, ok := s.byName[name]
	if !ok {
		panic(fmt.Sprintf("record: the suite has no schema %s", name))
	}
	return p
}

func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
