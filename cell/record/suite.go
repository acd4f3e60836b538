package record

import (
	_ "embed"
	"encoding/binary"
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
	document  []byte
	contract  Particle
	schemas   []Schema            // in the order of schemaNames, as the next two
	heads     []Particle          // the refs to manifests, which begin records
	constants []Particle          // of the schemas that are variants without fields
	byHead    map[Particle]string // the schemas
	zero      Particle            // of the atom 0
	empty     Particle            // of the empty sequence, text and map
}

// Local returns the suite of the embedded contract.
func Local() *Suite { return local() }

var local = sync.OnceValue(func() *Suite { return NewSuite(contract) })

// NewSuite derives the identities of all schemas from the bytes of a contract.
func NewSuite(document []byte) *Suite {
	n := len(schemaNames)
	s := &Suite{
		document: slices.Clone(document), contract: hemera.Sum(document),
		schemas: make([]Schema, n), heads: make([]Particle, n), constants: make([]Particle, n), byHead: make(map[Particle]string, n),
	}
	b := NewMemo(s).Builder()
	for i := range schemaNames {
		b.head(i)
	}
	for _, d := range domains {
		for i := range d.words {
			b.variant(d, uint8(i+1))
		}
	}
	zero, empty := b.Atom(0), b.sequence(nil)
	if err := b.Seal(); err != nil {
		panic(err) // nothing in it depends on anything but the document
	}
	for i, name := range schemaNames {
		s.schemas[i] = Schema{name, b.Particle(b.manifests[i])}
		s.heads[i] = b.Particle(b.heads[i])
		s.byHead[s.heads[i]] = name
		if c := b.constants[i]; c != 0 {
			s.constants[i] = b.Particle(c)
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
	i, ok := schemaPlaces[name]
	if !ok {
		return Particle{}, false
	}
	return s.schemas[i].Manifest, true
}

// SchemaOf returns the name of the schema that a record begins with: its first member,
// which is the reference to a manifest.
func (s *Suite) SchemaOf(first Particle) (string, bool) {
	name, ok := s.byHead[first]
	return name, ok
}

// EmptyMap returns the identity of a map without entries.
func (s *Suite) EmptyMap() Particle { return s.empty }

// Variant returns the identity of a variant without fields, such as
// cell/lifecycle/active/1.
func (s *Suite) Variant(schema string) (Particle, bool) {
	i, ok := schemaPlaces[schema]
	if !ok || s.constants[i] == (Particle{}) {
		return Particle{}, false
	}
	return s.constants[i], true
}

// variants are the identities of the variants of a domain.
func (s *Suite) variants(d *domain) []Particle { return s.constants[d.first : d.first+len(d.words)] }

func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
