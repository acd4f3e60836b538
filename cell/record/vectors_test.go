package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/writ-authority/writ/hemera"
)

// memory is a source of content.
type memory map[Particle]Item

var errAbsent = errors.New("no such content")

func (m memory) Content(_ context.Context, p Particle) (Kind, []byte, error) {
	it, ok := m[p]
	if !ok {
		return 0, nil, fmt.Errorf("%w: %v", errAbsent, p)
	}
	return it.Kind, it.Bytes, it.Check()
}

func (m memory) put(items ...Item) {
	for _, it := range items {
		m[it.Particle] = it
	}
}

type vectorNode struct {
	Particle Particle `json:"particle"`
	Kind     string   `json:"kind"`
	Bytes    string   `json:"bytes"`
}

type invalidVector struct {
	Name     string       `json:"name"`
	DecodeAs string       `json:"decode_as"`
	Error    string       `json:"error"`
	Root     Particle     `json:"root"`
	Nodes    []vectorNode `json:"nodes"`
}

type field struct {
	Text     *string   `json:"text"`
	Uint     *string   `json:"uint"`
	Ref      *Particle `json:"ref"`
	Nonce    *string   `json:"nonce"`
	Variant  *string   `json:"variant"`
	Optional *field    `json:"optional"`
	Sequence *[]field  `json:"sequence"`
	Pair     []field   `json:"pair"`
	Record   string    `json:"record"`
	Fields   []field   `json:"fields"`
}

var vectors = func() (v struct {
	Contract map[string]struct {
		Length int      `json:"length"`
		SHA256 string   `json:"sha256"`
		Blob   Particle `json:"blob"`
	} `json:"contract"`
	Data struct {
		Valid []struct {
			Form     string          `json:"form"`
			Value    json.RawMessage `json:"value"`
			Particle Particle        `json:"particle"`
		} `json:"valid"`
		Invalid []invalidVector `json:"invalid"`
	} `json:"data"`
	Manifests struct {
		List []struct {
			Name              string   `json:"name"`
			Particle          Particle `json:"particle"`
			SeedBytesParticle Particle `json:"seed_bytes_particle"`
		} `json:"list"`
	} `json:"manifests"`
	Variants struct {
		List []struct {
			Variant  string   `json:"variant"`
			Fields   []field  `json:"fields"`
			Particle Particle `json:"particle"`
		} `json:"list"`
	} `json:"variants"`
	Constants struct {
		List []struct {
			Role        string    `json:"role"`
			Label       string    `json:"label"`
			Blob        Particle  `json:"blob"`
			Particle    Particle  `json:"particle"`
			StepLimit   string    `json:"step_limit"`
			AllowedActs []string  `json:"allowed_acts"`
			Bytes       *string   `json:"bytes"`
			MediaType   string    `json:"media_type"`
			ContentBlob *Particle `json:"content_blob"`
		} `json:"list"`
	} `json:"constants"`
	Records struct {
		Valid []struct {
			Record   string   `json:"record"`
			Fields   []field  `json:"fields"`
			Particle Particle `json:"particle"`
		} `json:"valid"`
		Invalid []invalidVector `json:"invalid"`
	} `json:"records"`
}) {
	b, err := os.ReadFile("testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		panic(err)
	}
	return v
}()

func TestContract(t *testing.T) {
	t.Parallel()
	want := vectors.Contract["reference"]
	sum := sha256.Sum256(Contract())
	if len(Contract()) != want.Length || hex.EncodeToString(sum[:]) != want.SHA256 || Local().Contract() != want.Blob {
		t.Errorf("the embedded contract is another one: %d bytes, SHA-256 %x, %v", len(Contract()), sum, Local().Contract())
	}
}

// seedBytes is the contract with its white space lost: no leading spaces and no empty
// lines, and no line feed at the end.
func seedBytes() []byte {
	var lines [][]byte
	for line := range bytes.Lines(Contract()) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return bytes.Join(lines, []byte("\n"))
}

func TestManifests(t *testing.T) {
	t.Parallel()
	seed := NewSuite(seedBytes())
	if want := vectors.Contract["seed_bytes"]; seed.Contract() != want.Blob || len(seedBytes()) != want.Length {
		t.Errorf("the other form of the contract is %v with %d bytes, want %v with %d", seed.Contract(), len(seedBytes()), want.Blob, want.Length)
	}
	for _, v := range vectors.Manifests.List {
		if got, ok := Local().Manifest(v.Name); !ok || got != v.Particle {
			t.Errorf("%s: %v, want %v", v.Name, got, v.Particle)
		}
		if got, ok := seed.Manifest(v.Name); !ok || got != v.SeedBytesParticle {
			t.Errorf("%s, other form: %v, want %v", v.Name, got, v.SeedBytesParticle)
		}
	}
	// The list leaves out the outbox entry, the continuation and the checkpoint.
	if got, want := len(Local().Schemas()), len(vectors.Manifests.List)+3; got != want {
		t.Errorf("%d schemas, want %d", got, want)
	}
}

func TestVariants(t *testing.T) {
	t.Parallel()
	for _, v := range vectors.Variants.List {
		if "cell/"+v.Variant+"/1" == operationResult {
			continue // a record of the vectors
		}
		b := NewMemo(Local()).Builder()
		n := field{Variant: &v.Variant, Fields: v.Fields}.build(b)
		if err := b.Seal(); err != nil || b.Particle(n) != v.Particle {
			t.Errorf("%s: %v, %v, want %v", v.Variant, b.Particle(n), err, v.Particle)
		}
		if len(v.Fields) > 0 {
			continue
		}
		if got, ok := Local().Variant("cell/" + v.Variant + "/1"); !ok || got != v.Particle {
			t.Errorf("%s: %v, want %v", v.Variant, got, v.Particle)
		}
	}
}

// build makes the node of a field by hand, without the declarations of records.
func (f field) build(b *Builder) Node {
	switch {
	case f.Text != nil:
		return b.Text(*f.Text)
	case f.Uint != nil:
		v, err := strconv.ParseUint(*f.Uint, 10, 64)
		if err != nil {
			panic(err)
		}
		return b.Uint(v)
	case f.Ref != nil:
		return b.Ref(b.Known(*f.Ref))
	case f.Nonce != nil:
		return b.nonce(&Nonce[Node]{Bytes: nonceOf(*f.Nonce)})
	case f.Variant != nil:
		return b.record(mustSchema("cell/"+*f.Variant+"/1"), buildAll(b, f.Fields))
	case f.Sequence != nil:
		return b.sequence(buildAll(b, *f.Sequence))
	case f.Pair != nil:
		return b.Pair(f.Pair[0].build(b), f.Pair[1].build(b))
	case f.Record != "":
		return b.record(mustSchema(f.Record), buildAll(b, f.Fields))
	case f.Optional != nil:
		return b.Pair(b.Atom(1), f.Optional.build(b))
	}
	return b.Pair(b.Atom(0), b.Atom(0))
}

func buildAll(b *Builder, list []field) []Node {
	nodes := make([]Node, len(list))
	for i, f := range list {
		nodes[i] = f.build(b)
	}
	return nodes
}

func nonceOf(s string) (n [32]byte) {
	if _, err := hex.Decode(n[:], []byte(s)); err != nil {
		panic(err)
	}
	return n
}

// TestRecords builds each record by hand, reads it as a typed record, and builds that
// again.
func TestRecords(t *testing.T) {
	t.Parallel()
	for _, v := range vectors.Records.Valid {
		b := NewMemo(Local()).Builder()
		n := field{Record: v.Record, Fields: v.Fields}.build(b)
		if err := b.Seal(); err != nil || b.Particle(n) != v.Particle {
			t.Errorf("%s: %v, %v, want %v", v.Record, b.Particle(n), err, v.Particle)
			continue
		}
		source := memory{}
		source.put(b.Items()...)
		r, err := NewReader(t.Context(), Local(), source, ArtifactBudget).Any(v.Particle)
		if err != nil {
			t.Errorf("%s: %v", v.Record, err)
			continue
		}
		if v.Record == operationResult {
			continue // it lies in continuations only
		}
		again := NewMemo(Local()).Builder()
		n = again.Record(rebuilt(again, r))
		if err := again.Seal(); err != nil || again.Particle(n) != v.Particle {
			t.Errorf("%s: built again %v, %v, want %v", v.Record, again.Particle(n), err, v.Particle)
		}
		if got, want := len(Fields(r)), len(v.Fields); got != want {
			t.Errorf("%s: %d fields listed, want %d", v.Record, got, want)
		}
	}
}

// rebuilt turns a record that was read into one to be built.
func rebuilt(b *Builder, r Record[Particle]) Record[Node] { return rebuiltWith(b.Known, r) }

// rebuiltWith is rebuilt with a choice of nodes.
func rebuiltWith(node func(Particle) Node, r Record[Particle]) Record[Node] {
	for i, known := range records[Particle]() {
		if known.Schema() == r.Schema() {
			into := records[Node]()[i]
			convert(node, reflect.ValueOf(into).Elem(), reflect.ValueOf(r).Elem())
			return into
		}
	}
	panic(r.Schema())
}

func convert(node func(Particle) Node, into, from reflect.Value) {
	if p, ok := from.Interface().(Particle); ok && into.Kind() == reflect.Int32 {
		into.SetInt(int64(node(p)))
		return
	}
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			if o, ok := from.Interface().(Optional[Particle]); ok && !o.Present {
				continue
			}
			convert(node, into.Field(i), from.Field(i))
		}
	case reflect.Slice:
		into.Set(reflect.MakeSlice(into.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			convert(node, into.Index(i), from.Index(i))
		}
	default:
		into.Set(from)
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	classes := map[string]error{"invalid": ErrInvalid, "schema": ErrSchema}
	for _, v := range vectors.Data.Invalid {
		source := memory{}
		for _, n := range v.Nodes {
			b, err := hex.DecodeString(n.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			it := Item{n.Particle, KindBlob, b}
			if n.Kind == "data" && len(b) == hemera.AtomSize {
				it.Kind = KindAtom
			} else if n.Kind == "data" {
				it.Kind = KindPair
			}
			if err := it.Check(); err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
			source.put(it)
		}
		r := NewReader(t.Context(), Local(), source, ArtifactBudget)
		var err error
		switch v.DecodeAs {
		case "uint":
			_, err = r.uint(v.Root)
		case "ref":
			_, err = r.ref(v.Root)
		case "optional(ref)":
			_, err = r.optional(v.Root)
		case "sequence(any)":
			err = r.sequence(v.Root, maxMembers, func(Particle) error { return nil })
		case "text":
			_, err = r.text(v.Root)
		case "nonce":
			_, err = r.nonce(v.Root)
		case "map":
			_, err = r.Map(v.Root, maxMembers)
		case "lifecycle":
			_, err = r.Lifecycle(v.Root)
		default:
			t.Fatalf("%s: decode as %s", v.Name, v.DecodeAs)
		}
		if !errors.Is(err, classes[v.Error]) || errors.Is(err, errAbsent) {
			t.Errorf("%s: %v, want %s", v.Name, err, v.Error)
		}
	}
}

// TestForms builds every form and reads it back.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, v := range vectors.Data.Valid {
		b := NewMemo(Local()).Builder()
		var n Node
		var read func(*Reader, Particle) (any, error)
		var want any
		decode := func(into any) {
			if err := json.Unmarshal(v.Value, into); err != nil {
				t.Fatalf("%s %s: %v", v.Form, v.Value, err)
			}
		}
		switch v.Form {
		case "uint":
			var s string
			decode(&s)
			x, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n, want = b.Uint(x), x
			read = func(r *Reader, p Particle) (any, error) { return r.uint(p) }
		case "ref":
			var p Particle
			decode(&p)
			n, want = b.Ref(b.Known(p)), p
			read = func(r *Reader, p Particle) (any, error) { return r.ref(p) }
		case "text":
			var s string
			decode(&s)
			n, want = b.Text(s), s
			read = func(r *Reader, p Particle) (any, error) { return r.text(p) }
		case "optional(ref)":
			var p *Particle
			decode(&p)
			var o Optional[Particle]
			var on Optional[Node]
			if p != nil {
				o, on = Some(*p), Some(b.Known(*p))
			}
			b.encode.optional("", &on)
			n, want = b.collected(0)[0], o
			read = func(r *Reader, p Particle) (any, error) { return r.optional(p) }
		case "sequence(ref)":
			var list []Particle
			decode(&list)
			var members []Node
			for _, p := range list {
				members = append(members, b.Ref(b.Known(p)))
			}
			n, want = b.sequence(members), append([]Particle(nil), list...)
			read = func(r *Reader, p Particle) (any, error) { return r.refs(p) }
		case "fields(atom)":
			var list []uint64
			decode(&list)
			var members []Node
			for _, x := range list {
				members = append(members, b.Atom(x))
			}
			n = b.list(members)
		case "nonce":
			var s string
			decode(&s)
			nonce := Nonce[Particle]{Bytes: nonceOf(s)}
			n, want = b.nonce(&Nonce[Node]{Bytes: nonce.Bytes}), nonce
			read = func(r *Reader, p Particle) (any, error) { return r.nonce(p) }
		case "map":
			var list [][2]Particle
			decode(&list)
			var entries []MapEntry[Node]
			var m Map[Particle]
			for _, e := range list {
				m = append(m, MapEntry[Particle]{e[0], e[1]})
				entries = append([]MapEntry[Node]{{b.Known(e[0]), b.Known(e[1])}}, entries...)
			}
			n, want = b.Map(entries...), m
			read = func(r *Reader, p Particle) (any, error) { return r.Map(p, maxMembers) }
		default:
			t.Fatalf("form %s", v.Form)
		}
		if err := b.Seal(); err != nil || b.Particle(n) != v.Particle {
			t.Errorf("%s %s: %v, %v, want %v", v.Form, v.Value, b.Particle(n), err, v.Particle)
			continue
		}
		if read == nil {
			continue
		}
		source := memory{}
		source.put(b.Items()...)
		got, err := read(NewReader(t.Context(), Local(), source, ArtifactBudget), v.Particle)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s %s is read as %v, %v", v.Form, v.Value, got, err)
		}
	}
}

func TestConstants(t *testing.T) {
	t.Parallel()
	owner := "cell/local-private-database-owner/1"
	for _, v := range vectors.Constants.List {
		b := NewMemo(Local()).Builder()
		var n Node
		want := v.Particle
		switch {
		case v.Label != "":
			n, want = b.Label(v.Label), v.Blob
		case v.Role == "empty map":
			n = b.Map()
		case v.Role == "atom zero":
			n = b.Atom(0)
		case v.Role == "local policy":
			limit, _ := strconv.ParseUint(v.StepLimit, 10, 64)
			p := LocalPolicy[Node]{Owner: b.Label(owner), StepLimit: limit}
			for _, s := range v.AllowedActs {
				act, _ := strconv.ParseUint(s, 10, 64)
				p.AllowedActs = append(p.AllowedActs, act)
			}
			n = b.Record(&p)
		case v.Role == "artifact":
			data, err := hex.DecodeString(*v.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			n = b.Artifact(data, v.MediaType)
		default:
			continue // what the engine makes, which has tests of its own
		}
		if err := b.Seal(); err != nil || b.Particle(n) != want {
			t.Errorf("%s %s: %v, %v, want %v", v.Role, v.Label, b.Particle(n), err, want)
		}
	}
}

// TestInvalidRecords makes the records that the vectors describe.
func TestInvalidRecords(t *testing.T) {
	t.Parallel()
	one := Particle(bytes.Repeat([]byte{1}, 32))
	lifecycle := func(r *Reader, p Particle) error {
		_, err := r.Lifecycle(p)
		return err
	}
	head := func(r *Reader, p Particle) error { return r.Record(p, new(Head[Particle])) }
	for name, c := range map[string]struct {
		build func(b *Builder) Node
		read  func(r *Reader, p Particle) error
		want  error
		text  string
	}{
		"an extra field": {func(b *Builder) Node {
			return b.record(mustSchema("cell/head/1"), []Node{b.Uint(1), b.Ref(b.Known(one)), b.Uint(1)})
		}, head, ErrInvalid, "cell/head/1: invalid record: there are more fields than declared"},
		"a missing field": {func(b *Builder) Node {
			return b.record(mustSchema("cell/head/1"), []Node{b.Uint(1)})
		}, head, ErrInvalid, "cell/head/1: invalid record: the field commit is missing"},
		"another record": {func(b *Builder) Node {
			return b.Record(&RequestID[Node]{Origin: b.Known(one)})
		}, head, ErrSchema, ""},
		"a name in place of the manifest": {func(b *Builder) Node {
			return b.Pair(b.Text("cell/head/1"), b.list([]Node{b.Uint(1), b.Ref(b.Known(one))}))
		}, head, ErrInvalid, ""},
		"the manifest in place of a reference": {func(b *Builder) Node {
			return b.Pair(b.Manifest("cell/head/1"), b.list([]Node{b.Uint(1), b.Ref(b.Known(one))}))
		}, head, ErrInvalid, ""},
		"a variant with a field": {func(b *Builder) Node {
			return b.record(mustSchema("cell/lifecycle/active/1"), []Node{b.Uint(1)})
		}, lifecycle, ErrSchema, ""},
		"a lifecycle that is not declared": {func(b *Builder) Node {
			manifest := b.Pair(b.Atom(manifestMark), b.list([]Node{b.Text("cell/lifecycle/sleeping/1"), b.Ref(b.contract())}))
			return b.Pair(b.Ref(manifest), b.Atom(0))
		}, lifecycle, ErrSchema, ""},
		"a variant of another domain": {func(b *Builder) Node {
			return b.variant(stages, uint8(Pending))
		}, lifecycle, ErrSchema, ""},
		"an atom":               {func(b *Builder) Node { return b.Atom(5) }, head, ErrInvalid, ""},
		"an atom for a variant": {func(b *Builder) Node { return b.Atom(5) }, lifecycle, ErrSchema, ""},
		"an atom for a trigger": {func(b *Builder) Node { return b.Atom(5) }, func(r *Reader, p Particle) error {
			_, err := r.trigger(p)
			return err
		}, ErrSchema, ""},
	} {
		b := NewMemo(Local()).Builder()
		n := c.build(b)
		if err := b.Seal(); err != nil {
			t.Fatal(err)
		}
		source := memory{}
		source.put(b.Items()...)
		err := c.read(NewReader(t.Context(), Local(), source, 100), b.Particle(n))
		if !errors.Is(err, c.want) || c.text != "" && err.Error() != c.text {
			t.Errorf("%s: %v, want %v %s", name, err, c.want, c.text)
		}
	}
}
