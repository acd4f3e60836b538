package record

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/writ-authority/writ/hemera"
)

// Source is where content is. What it returns has been checked against the particle;
// an error means that it could not be read, and one that wraps ErrCorrupt that it is
// not what the particle names.
type Source interface {
	Content(ctx context.Context, p Particle) (Kind, []byte, error)
}

// Reader reads records. It refuses whatever is not exactly of the form that the suite
// declares, and reads no more nodes than its budget allows. It is used by one
// goroutine at a time.
type Reader struct {
	ctx    context.Context
	suite  *Suite
	source Source
	left   int
}

// The budgets of readers (section 3.3).
const (
	CellBudget     = 50_000 // node reads for all of a cell
	ArtifactBudget = 20_000 // for one artifact
)

// maxMembers is how many members a sequence may have where a record does not say.
const maxMembers = 4096

// NewReader returns a reader that reads at most budget nodes.
func NewReader(ctx context.Context, s *Suite, source Source, budget int) *Reader {
	return &Reader{ctx, s, source, budget}
}

// content reads a node and takes it from the budget.
func (r *Reader) content(p Particle) (Kind, []byte, error) {
	if r.left <= 0 {
		return 0, nil, fmt.Errorf("%w: more nodes to read than expected", ErrLimit)
	}
	r.left--
	kind, b, err := r.source.Content(r.ctx, p)
	if err != nil {
		return 0, nil, err
	}
	return kind, b, Item{p, kind, b}.Shape()
}

func (r *Reader) pair(p Particle) (left, right Particle, err error) {
	kind, b, err := r.content(p)
	if err != nil {
		return left, right, err
	}
	if kind != KindPair {
		return left, right, wrongKind(p, kind, "a pair")
	}
	left, right = Item{Bytes: b}.Pair()
	return left, right, nil
}

func wrongKind(p Particle, kind Kind, want string) error {
	return fmt.Errorf("%w: %v is of kind %v, expected %s", ErrInvalid, p, kind, want)
}

func (r *Reader) atom(p Particle) (uint64, error) {
	kind, b, err := r.content(p)
	if err != nil {
		return 0, err
	}
	if kind != KindAtom {
		return 0, wrongKind(p, kind, "an atom")
	}
	return le64(b), nil
}

// Record reads the record p into a value of its schema. The error wraps ErrSchema for
// another record, ErrInvalid for a wrong form, ErrLimit for a budget that is used up,
// or it is that of the source.
func (r *Reader) Record(p Particle, into Record[Particle]) error {
	return r.record(p, into.Schema(), into)
}

func (r *Reader) record(p Particle, schema string, into Record[Particle]) error {
	ref, fields, err := r.pair(p)
	if err != nil {
		return inSchema(schema, err)
	}
	switch name, ok := r.suite.byHead[ref]; {
	case !ok:
		if err := r.isRef(ref); err != nil {
			return inSchema(schema, err)
		}
		return fmt.Errorf("%w: %v is of an unknown schema, expected %s", ErrSchema, p, schema)
	case name != schema:
		return fmt.Errorf("%w: %v is a %s, expected %s", ErrSchema, p, name, schema)
	}
	d := &decoder{r: r, rest: fields}
	into.fields(d)
	return inSchema(schema, d.end())
}

// isRef tells another schema from what has the shape of none.
func (r *Reader) isRef(p Particle) error {
	_, err := r.ref(p)
	return err
}

func inSchema(schema string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", schema, err)
}

// decoder reads the fields of a record. After the first error it reads nothing.
type decoder struct {
	r    *Reader
	rest Particle // the tail of the list of fields
	err  error
}

// next is the next field, if there is no error.
func (d *decoder) next(name string) (field Particle, ok bool) {
	if d.err != nil {
		return field, false
	}
	if d.rest == d.r.suite.zero {
		d.err = fmt.Errorf("%w: the field %s is missing", ErrInvalid, name)
		return field, false
	}
	field, rest, err := d.r.pair(d.rest)
	if err != nil {
		d.fail(name, err)
		return field, false
	}
	d.rest = rest
	return field, true
}

func (d *decoder) fail(name string, err error) {
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("%s: %w", name, err)
	}
}

func (d *decoder) end() error {
	if d.err == nil && d.rest != d.r.suite.zero {
		d.err = fmt.Errorf("%w: there are more fields than declared", ErrInvalid)
	}
	return d.err
}

// read reads one field of any form.
func read[T any](d *decoder, name string, into *T, how func(Particle) (T, error)) {
	p, ok := d.next(name)
	if !ok {
		return
	}
	v, err := how(p)
	if err != nil {
		d.fail(name, err)
		return
	}
	*into = v
}

func (d *decoder) uint(name string, v *uint64)                   { read(d, name, v, d.r.uint) }
func (d *decoder) ref(name string, l *Particle)                  { read(d, name, l, d.r.ref) }
func (d *decoder) optional(name string, o *Optional[Particle])   { read(d, name, o, d.r.optional) }
func (d *decoder) text(name string, s *string)                   { read(d, name, s, d.r.text) }
func (d *decoder) nonce(name string, n *Nonce[Particle])         { read(d, name, n, d.r.nonce) }
func (d *decoder) trigger(name string, t *Trigger[Particle])     { read(d, name, t, d.r.trigger) }
func (d *decoder) refs(name string, l *[]Particle)               { read(d, name, l, d.r.refs) }
func (d *decoder) uints(name string, v *[]uint64)                { read(d, name, v, d.r.uints) }
func (d *decoder) entries(name string, list *[]Entry[Particle])  { read(d, name, list, d.r.entries) }
func (d *decoder) metrics(name string, list *[]Metric[Particle]) { read(d, name, list, d.r.metrics) }
func (d *decoder) variant(name string, of *domain, v *uint8) {
	read(d, name, v, func(p Particle) (uint8, error) { return d.r.variant(of, p) })
}

func (r *Reader) uint(p Particle) (uint64, error) {
	left, right, err := r.pair(p)
	if err != nil {
		return 0, err
	}
	high, err := r.atom(left)
	if err != nil {
		return 0, err
	}
	low, err := r.atom(right)
	if err != nil {
		return 0, err
	}
	if high>>32 != 0 || low>>32 != 0 {
		return 0, fmt.Errorf("%w: a half of an integer is not below 2^32", ErrInvalid)
	}
	return high<<32 | low, nil
}

func (r *Reader) ref(p Particle) (to Particle, err error) {
	left, right, err := r.pair(p)
	if err != nil {
		return to, err
	}
	for i, half := range [2]Particle{left, right} {
		x, y, err := r.pair(half)
		if err != nil {
			return to, err
		}
		for j, limb := range [2]Particle{x, y} {
			v, err := r.atom(limb)
			if err != nil {
				return to, err
			}
			binary.LittleEndian.PutUint64(to[16*i+8*j:], v)
		}
	}
	return to, nil
}

func (r *Reader) optional(p Particle) (o Optional[Particle], err error) {
	left, right, err := r.pair(p)
	if err != nil {
		return o, err
	}
	tag, err := r.atom(left)
	if err != nil {
		return o, err
	}
	switch {
	case tag == 0 && right == r.suite.zero:
		return o, nil
	case tag == 0:
		return o, fmt.Errorf("%w: an absent value has a value", ErrInvalid)
	case tag == 1:
		o.Link, err = r.ref(right)
		o.Present = err == nil
		return o, err
	}
	return o, fmt.Errorf("%w: the tag of an optional value is %d, expected 0 or 1", ErrInvalid, tag)
}

// sequence visits the members of a sequence of at most limit members.
func (r *Reader) sequence(p Particle, limit int, each func(Particle) error) error {
	left, list, err := r.pair(p)
	if err != nil {
		return err
	}
	count, err := r.uint(left)
	if err != nil {
		return err
	}
	if count > uint64(limit) {
		return fmt.Errorf("%w: a sequence of %d members, at most %d are allowed", ErrInvalid, count, limit)
	}
	for i := range count {
		if list == r.suite.zero {
			return fmt.Errorf("%w: a sequence of %d members has only %d", ErrInvalid, count, i)
		}
		member, rest, err := r.pair(list)
		if err != nil {
			return err
		}
		if err := each(member); err != nil {
			return fmt.Errorf("member %d: %w", i, err)
		}
		list = rest
	}
	if list != r.suite.zero {
		return fmt.Errorf("%w: a sequence of %d members does not end there", ErrInvalid, count)
	}
	return nil
}

// sequenceOf collects the members of a sequence.
func sequenceOf[T any](r *Reader, p Particle, how func(Particle) (T, error)) (list []T, err error) {
	err = r.sequence(p, maxMembers, func(member Particle) error {
		v, err := how(member)
		list = append(list, v)
		return err
	})
	return list, err
}

func (r *Reader) refs(p Particle) ([]Particle, error) { return sequenceOf(r, p, r.ref) }
func (r *Reader) uints(p Particle) ([]uint64, error)  { return sequenceOf(r, p, r.uint) }

func (r *Reader) entries(p Particle) ([]Entry[Particle], error) {
	return sequenceOf(r, p, func(member Particle) (e Entry[Particle], err error) {
		return e, r.Record(member, &e)
	})
}

func (r *Reader) metrics(p Particle) ([]Metric[Particle], error) {
	return sequenceOf(r, p, func(member Particle) (m Metric[Particle], err error) {
		left, right, err := r.pair(member)
		if err == nil {
			m.Metric, err = r.ref(left)
		}
		if err == nil {
			m.Limit, err = r.uint(right)
		}
		return m, err
	})
}

func (r *Reader) text(p Particle) (string, error) {
	var b []byte
	err := r.sequence(p, MaxText, func(member Particle) error {
		v, err := r.atom(member)
		if err == nil && v > 255 {
			err = fmt.Errorf("%w: %d is no byte of a text", ErrInvalid, v)
		}
		b = append(b, byte(v))
		return err
	})
	if err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", fmt.Errorf("%w: the text is not UTF-8", ErrInvalid)
	}
	return string(b), nil
}

func (r *Reader) nonce(p Particle) (n Nonce[Particle], err error) {
	for i := range 8 {
		if p == r.suite.zero {
			return n, fmt.Errorf("%w: a nonce of %d words instead of 8", ErrInvalid, i)
		}
		word, rest, err := r.pair(p)
		if err != nil {
			return n, err
		}
		v, err := r.atom(word)
		if err != nil {
			return n, err
		}
		if v>>32 != 0 {
			return n, fmt.Errorf("%w: word %d of a nonce is not below 2^32", ErrInvalid, i)
		}
		binary.LittleEndian.PutUint32(n.Bytes[4*i:], uint32(v))
		p = rest
	}
	if p != r.suite.zero {
		return n, fmt.Errorf("%w: a nonce of more than 8 words", ErrInvalid)
	}
	return n, nil
}

// variant compares the constants; whatever is none of them is another schema.
func (r *Reader) variant(d *domain, p Particle) (uint8, error) {
	for i, v := range r.suite.variants(d) {
		if v == p {
			return uint8(i + 1), nil
		}
	}
	return 0, fmt.Errorf("%w: %v is none of the variants of cell/%s", ErrSchema, p, d.name)
}

func (r *Reader) trigger(p Particle) (t Trigger[Particle], err error) {
	if p == r.suite.variants(triggers)[0] {
		return t, nil
	}
	kind, _, err := r.content(p)
	if err != nil {
		return t, err
	}
	if kind != KindPair {
		return t, fmt.Errorf("%w: %v is none of the variants of cell/%s", ErrSchema, p, triggers.name)
	}
	var result triggerResult
	if err := r.Record(p, &result); err != nil {
		return t, err
	}
	return Trigger[Particle]{Operation: Some(result.operation)}, nil
}

// triggerResult is the record of the only variant with a field.
type triggerResult struct{ operation Particle }

func (*triggerResult) Schema() string            { return operationResult }
func (t *triggerResult) fields(f form[Particle]) { f.ref("operation", &t.operation) }

// Lifecycle reads a lifecycle that is content of its own.
func (r *Reader) Lifecycle(p Particle) (Lifecycle, error) {
	v, err := r.variant(lifecycles, p)
	return Lifecycle(v), err
}

// Map reads a map of at most limit entries.
func (r *Reader) Map(p Particle, limit int) (m Map[Particle], err error) {
	err = r.sequence(p, limit, func(member Particle) error {
		left, right, err := r.pair(member)
		if err != nil {
			return err
		}
		var e MapEntry[Particle]
		if e.Key, err = r.ref(left); err != nil {
			return fmt.Errorf("key: %w", err)
		}
		if e.Value, err = r.ref(right); err != nil {
			return fmt.Errorf("value: %w", err)
		}
		if n := len(m); n > 0 && bytes.Compare(m[n-1].Key[:], e.Key[:]) >= 0 {
			return fmt.Errorf("%w: the keys of a map do not ascend", ErrInvalid)
		}
		m = append(m, e)
		return nil
	})
	return m, err
}

// Blob reads a blob.
func (r *Reader) Blob(p Particle) ([]byte, error) {
	kind, b, err := r.content(p)
	if err != nil {
		return nil, err
	}
	if kind != KindBlob {
		return nil, wrongKind(p, kind, "a blob")
	}
	return b, nil
}

// Artifact reads an artifact and its bytes. The media type is what the record says;
// nothing depends on it.
func (r *Reader) Artifact(p Particle) (data []byte, media string, err error) {
	var a Artifact[Particle]
	if err := r.Record(p, &a); err != nil {
		return nil, "", err
	}
	if codec := hemera.Sum([]byte(Codec)); a.Codec != codec {
		return nil, "", fmt.Errorf("%w: the codec of the artifact %v is %v, expected %s", ErrSchema, p, a.Codec, Codec)
	}
	if data, err = r.Blob(a.Content); err != nil {
		return nil, "", fmt.Errorf("cell/artifact/1: content: %w", err)
	}
	if uint64(len(data)) != a.ByteLength {
		return nil, "", fmt.Errorf("%w: the artifact %v has %d bytes, its record says %d", ErrInvalid, p, len(data), a.ByteLength)
	}
	return data, a.MediaType, nil
}

// Schema returns the name of the schema of the record p. The error wraps ErrSchema if
// it is none of the suite's.
func (r *Reader) Schema(p Particle) (string, error) {
	kind, b, err := r.content(p)
	if err != nil {
		return "", err
	}
	if kind == KindPair {
		ref, _ := Item{Bytes: b}.Pair()
		if name, ok := r.suite.byHead[ref]; ok {
			return name, nil
		}
	}
	return "", fmt.Errorf("%w: %v is no record of the suite", ErrSchema, p)
}

// Any reads the record p, whatever its schema is. The error wraps ErrSchema if p is no
// record; a variant is one without fields or, for what a continuation waits for, with
// its operation.
func (r *Reader) Any(p Particle) (Record[Particle], error) {
	name, err := r.Schema(p)
	if err != nil {
		return nil, err
	}
	var into Record[Particle] = &constant{name}
	if name == operationResult {
		into = &triggerResult{}
	}
	for _, known := range records[Particle]() {
		if known.Schema() == name {
			into = known
		}
	}
	return into, r.Record(p, into)
}

// constant is a variant without fields.
type constant struct{ schema string }

func (c *constant) Schema() string      { return c.schema }
func (*constant) fields(form[Particle]) {}

// Field is a field of a record as a person may read it.
type Field struct {
	Name  string
	Value any        // string, uint64, []uint64, Particle, []Particle, []Entry[Particle], []Metric[Particle], or nil for absent
	Links []Particle // what it refers to
}

// Fields lists the fields of a record in the order of the wire.
func Fields(r Record[Particle]) []Field {
	var l lister
	r.fields(&l)
	return l
}

// lister collects fields.
type lister []Field

func (l *lister) put(name string, value any, links ...Particle) {
	*l = append(*l, Field{name, value, links})
}

func (l *lister) uint(name string, v *uint64)              { l.put(name, *v) }
func (l *lister) uints(name string, v *[]uint64)           { l.put(name, slices.Clone(*v)) }
func (l *lister) ref(name string, p *Particle)             { l.put(name, *p, *p) }
func (l *lister) refs(name string, p *[]Particle)          { l.put(name, slices.Clone(*p), *p...) }
func (l *lister) text(name string, s *string)              { l.put(name, *s) }
func (l *lister) nonce(name string, n *Nonce[Particle])    { l.put(name, fmt.Sprintf("%x", n.Bytes)) }
func (l *lister) variant(name string, d *domain, v *uint8) { l.put(name, d.word(*v)) }

func (l *lister) optional(name string, o *Optional[Particle]) {
	if o.Present {
		l.put(name, o.Link, o.Link)
		return
	}
	l.put(name, nil)
}

func (l *lister) trigger(name string, t *Trigger[Particle]) {
	if t.Operation.Present {
		l.put(name, t.Operation.Link, t.Operation.Link)
		return
	}
	l.put(name, triggers.words[0])
}

func (l *lister) entries(name string, list *[]Entry[Particle]) {
	var links []Particle
	for _, e := range *list {
		links = append(links, e.InputSchema, e.OutputSchema)
	}
	l.put(name, slices.Clone(*list), links...)
}

func (l *lister) metrics(name string, list *[]Metric[Particle]) {
	var links []Particle
	for _, m := range *list {
		links = append(links, m.Metric)
	}
	l.put(name, slices.Clone(*list), links...)
}
