package record

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/hemera"
)

// counted is a source that keeps what was read, and how often.
type counted struct {
	Source
	reads int
	read  map[Particle]bool
}

func (c *counted) Content(ctx context.Context, p Particle) (Kind, []byte, error) {
	c.reads++
	c.read[p] = true
	return c.Source.Content(ctx, p)
}

func count(s Source) *counted { return &counted{Source: s, read: map[Particle]bool{}} }

// filler fills a record with something in every field.
type filler struct{ n uint64 }

func (f *filler) next() uint64 { f.n++; return f.n<<34 | f.n }

func (f *filler) link() (p Particle) {
	for i := range 4 {
		binary.LittleEndian.PutUint64(p[8*i:], f.next())
	}
	return p
}

func (f *filler) uint(_ string, v *uint64)                  { *v = f.next() }
func (f *filler) uints(_ string, v *[]uint64)               { *v = []uint64{f.next(), f.next()} }
func (f *filler) ref(_ string, l *Particle)                 { *l = f.link() }
func (f *filler) refs(_ string, l *[]Particle)              { *l = []Particle{f.link(), f.link()} }
func (f *filler) optional(_ string, o *Optional[Particle])  { *o = Some(f.link()) }
func (f *filler) text(name string, s *string)               { *s = "text of " + name }
func (f *filler) nonce(_ string, n *Nonce[Particle])        { n.Bytes = f.link() }
func (f *filler) variant(_ string, d *domain, v *uint8)     { *v = uint8(len(d.words)) }
func (f *filler) trigger(name string, t *Trigger[Particle]) { f.optional(name, &t.Operation) }
func (f *filler) metrics(_ string, list *[]Metric[Particle]) {
	*list = []Metric[Particle]{{f.link(), f.next()}}
}

func (f *filler) entries(_ string, list *[]Entry[Particle]) {
	*list = make([]Entry[Particle], 2)
	for i := range *list {
		(*list)[i].fields(f)
	}
}

// samples are a record of each schema, and what they consist of without the contract,
// whose bits are too many to flip.
func samples() (list map[string]Particle, store memory) {
	list, store = map[string]Particle{}, memory{}
	p, f := newPlain(), &filler{}
	for _, r := range records[Particle]() {
		r.fields(f)
		list[r.Schema()] = p.record(r)
	}
	for id, it := range p.items {
		store[id] = it
	}
	delete(store, Local().Contract())
	return list, store
}

// TestEveryFlippedBitIsNoticed damages each bit of what a record consists of and some of
// all others, and reads records with damage in each piece of their content.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	t.Parallel()
	list, store := samples()
	one := count(store)
	if _, err := NewReader(t.Context(), Local(), one, ArtifactBudget).Any(list["cell/operation/1"]); err != nil {
		t.Fatal(err)
	}
	for id, it := range store {
		step := 41
		if one.read[id] {
			step = 1
		}
		for bit := 0; bit < 8*len(it.Bytes); bit += step {
			err := flipped(it, bit).Check()
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), id.String()) {
				t.Fatalf("bit %d of the %v %v: %v", bit, it.Kind, id, err)
			}
		}
		it.Kind = it.Kind%3 + 1
		if err := it.Check(); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%v as a %v: %v", id, it.Kind, err)
		}
	}
	for name, root := range list {
		source := count(store)
		if _, err := NewReader(t.Context(), Local(), source, ArtifactBudget).Any(root); err != nil {
			t.Fatal(err)
		}
		damaged := maps.Clone(store)
		for id := range source.read {
			damaged[id] = flipped(store[id], int(id[0])%64)
			_, err := NewReader(t.Context(), Local(), damaged, ArtifactBudget).Any(root)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), id.String()) {
				t.Fatalf("%s with a bit of %v flipped: %v", name, id, err)
			}
			if id != root && !strings.HasPrefix(err.Error(), name+": ") {
				t.Fatalf("the error does not name %s: %v", name, err)
			}
			damaged[id] = store[id]
		}
	}
}

// flipped is an item with one bit flipped.
func flipped(it Item, bit int) Item {
	it.Bytes = bytes.Clone(it.Bytes)
	it.Bytes[bit/8] ^= 1 << (bit % 8)
	return it
}

// TestCheckAllFindsTheWrongOne damages one item among many, of each kind.
func TestCheckAllFindsTheWrongOne(t *testing.T) {
	t.Parallel()
	b := NewMemo(Local()).Builder()
	b.Artifact([]byte("content"), "text/plain")
	if err := b.Seal(); err != nil {
		t.Fatal(err)
	}
	good := b.Items()
	if err := CheckAll(good); err != nil {
		t.Fatal(err)
	}
	if err := CheckAll(nil); err != nil {
		t.Fatal(err)
	}
	large := hemera.Sum(nil)
	for name, c := range map[string]struct {
		change func(it *Item)
		want   error
	}{
		"the last bit flipped":      {func(it *Item) { it.Bytes[len(it.Bytes)-1] ^= 1 }, ErrCorrupt},
		"another name":              {func(it *Item) { it.Particle = large }, ErrCorrupt},
		"a name that names nothing": {func(it *Item) { it.Particle = Particle(bytes.Repeat([]byte{255}, 32)) }, ErrCorrupt},
		"one byte less":             {func(it *Item) { it.Bytes = it.Bytes[1:] }, ErrCorrupt},
		"one byte more":             {func(it *Item) { it.Bytes = append(it.Bytes, 0) }, ErrCorrupt},
		"no kind":                   {func(it *Item) { it.Kind = 0 }, ErrCorrupt},
		"an unknown kind":           {func(it *Item) { it.Kind = 4 }, ErrCorrupt},
		"no element":                {func(it *Item) { binary.LittleEndian.PutUint64(it.Bytes, 1<<64-1) }, ErrCorrupt},
		"nine MiB":                  {func(it *Item) { it.Kind, it.Bytes = KindBlob, make([]byte, MaxBlob+1) }, ErrLimit},
	} {
		for _, kind := range []Kind{KindAtom, KindPair, KindBlob} {
			items := slices.Clone(good)
			i := slices.IndexFunc(items, func(it Item) bool { return it.Kind == kind && len(it.Bytes) >= 7 })
			items[i].Bytes = bytes.Clone(items[i].Bytes)
			if name == "no element" && len(items[i].Bytes) < 8 {
				continue
			}
			c.change(&items[i])
			err := CheckAll(items)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), items[i].Particle.String()) {
				t.Errorf("%v with %s: %v", kind, name, err)
			}
			if alone := items[i].Check(); alone == nil || alone.Error() != err.Error() {
				t.Errorf("%v with %s: %v alone, %v among others", kind, name, alone, err)
			}
		}
	}
}

// loose is a store that somebody made up: its content is not what its names say.
type loose map[Particle]Item

func (l loose) Content(_ context.Context, p Particle) (Kind, []byte, error) {
	it, ok := l[p]
	if !ok {
		return 0, nil, errAbsent
	}
	return it.Kind, it.Bytes, nil
}

func (l loose) pair(name, x, y Particle) Particle {
	l[name] = Item{name, KindPair, slices.Concat(x[:], y[:])}
	return name
}

// forms are all ways to read something.
func forms(r *Reader) map[string]func(Particle) error {
	list := map[string]func(Particle) error{
		"any":       func(p Particle) error { _, err := r.Any(p); return err },
		"schema":    func(p Particle) error { _, err := r.Schema(p); return err },
		"map":       func(p Particle) error { _, err := r.Map(p, 1<<30); return err },
		"artifact":  func(p Particle) error { _, _, err := r.Artifact(p); return err },
		"blob":      func(p Particle) error { _, err := r.Blob(p); return err },
		"lifecycle": func(p Particle) error { _, err := r.Lifecycle(p); return err },
	}
	for _, known := range records[Particle]() {
		list[known.Schema()] = func(p Particle) error { return r.Record(p, known) }
	}
	for name, read := range map[string]func(p Particle) error{
		"uint":     func(p Particle) error { _, err := r.uint(p); return err },
		"ref":      func(p Particle) error { _, err := r.ref(p); return err },
		"optional": func(p Particle) error { _, err := r.optional(p); return err },
		"text":     func(p Particle) error { _, err := r.text(p); return err },
		"nonce":    func(p Particle) error { _, err := r.nonce(p); return err },
		"trigger":  func(p Particle) error { _, err := r.trigger(p); return err },
		"refs":     func(p Particle) error { _, err := r.refs(p); return err },
		"uints":    func(p Particle) error { _, err := r.uints(p); return err },
		"entries":  func(p Particle) error { _, err := r.entries(p); return err },
		"metrics":  func(p Particle) error { _, err := r.metrics(p); return err },
	} {
		list[name] = read
	}
	return list
}

// TestContentThatRefersToItself reads pairs that are their own members, which no hash
// allows but a broken source may offer.
func TestContentThatRefersToItself(t *testing.T) {
	t.Parallel()
	self, list, endless := Particle{1}, Particle{2}, Particle{3}
	zero := Local().zero
	source := loose{}
	source.pair(self, self, self)
	source.pair(list, self, list)
	source[zero] = Item{zero, KindAtom, make([]byte, 8)}
	million, high := Particle{4}, Particle{5}
	source[million] = Item{million, KindAtom, binary.LittleEndian.AppendUint64(nil, 1<<30)}
	source.pair(high, zero, million)
	source.pair(endless, high, list)
	roots := []Particle{self, list, endless}
	for i, s := range Local().Schemas() {
		for j, fields := range []Particle{self, list, endless} {
			ref := Particle{}
			for p, name := range Local().byHead {
				if name == s.Name {
					ref = p
				}
			}
			roots = append(roots, source.pair(Particle{100, byte(i), byte(j)}, ref, fields))
		}
	}
	for _, root := range roots {
		for _, budget := range []int{0, 1, 2, 1000} {
			c := count(source)
			for name := range forms(nil) {
				c.reads = 0
				read := forms(NewReader(t.Context(), Local(), c, budget))[name]
				err := read(root)
				constant := name == "schema" && budget > 0 || name == "any" && budget > 0
				if err == nil && !constant || c.reads > budget {
					t.Errorf("%v as %s with a budget of %d: %d reads, %v", root, name, budget, c.reads, err)
				}
				if err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrSchema) && !errors.Is(err, ErrLimit) && !errors.Is(err, errAbsent) {
					t.Errorf("%v as %s: %v", root, name, err)
				}
			}
		}
	}
}

// TestBudget reads each record with exactly what it takes, and with one read less.
func TestBudget(t *testing.T) {
	t.Parallel()
	list, store := samples()
	for name, root := range list {
		source := count(store)
		if _, err := NewReader(t.Context(), Local(), source, ArtifactBudget).Any(root); err != nil {
			t.Fatal(err)
		}
		need := source.reads
		if _, err := NewReader(t.Context(), Local(), store, need).Any(root); err != nil {
			t.Errorf("%s with a budget of %d: %v", name, need, err)
		}
		for budget := range need {
			if _, err := NewReader(t.Context(), Local(), store, budget).Any(root); !errors.Is(err, ErrLimit) {
				t.Fatalf("%s with a budget of %d: %v", name, budget, err)
			}
		}
	}
}

// TestAbsentContentIsNeverSomethingElse takes away each piece of content of a record.
func TestAbsentContentIsNeverSomethingElse(t *testing.T) {
	t.Parallel()
	list, store := samples()
	for name, root := range list {
		source := count(maps.Clone(store))
		if _, err := NewReader(t.Context(), Local(), source, ArtifactBudget).Any(root); err != nil {
			t.Fatal(err)
		}
		for id := range source.read {
			delete(store, id)
			r, err := NewReader(t.Context(), Local(), store, ArtifactBudget).Any(root)
			store[id] = source.Source.(memory)[id]
			if !errors.Is(err, errAbsent) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrSchema) {
				t.Fatalf("%s without %v is read as %v, %v", name, id, r, err)
			}
		}
	}
}

// TestEveryPartOfARecordIsChecked replaces each field of each record with each piece of
// content of another form: it must be refused with the name of the field.
func TestEveryPartOfARecordIsChecked(t *testing.T) {
	t.Parallel()
	list, store := samples()
	for name, root := range list {
		b := NewMemo(Local()).Builder()
		var fields []Particle
		ref, tail := store[root].mustPair(t)
		for tail != Local().zero {
			var f Particle
			f, tail = store[tail].mustPair(t)
			fields = append(fields, f)
		}
		var names []string
		read, err := NewReader(t.Context(), Local(), store, ArtifactBudget).Any(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Fields(read) {
			names = append(names, f.Name)
		}
		if len(names) != len(fields) {
			t.Fatalf("%s lists %d of %d fields", name, len(names), len(fields))
		}
		wrong := map[string]Node{
			"an atom": b.Atom(77), "a pair of atoms": b.Pair(b.Atom(1<<40), b.Atom(2)), "a blob": b.Blob([]byte("blob")),
			"another record": b.Record(&Act[Node]{Tag: 5}),
			"the root":       b.Known(root),
		}
		type change struct {
			what string
			at   int
			node Node
		}
		var changes []change
		members := func() []Node {
			var nodes []Node
			for _, f := range fields {
				nodes = append(nodes, b.Known(f))
			}
			return nodes
		}
		record := func(nodes []Node) Node { return b.Pair(b.Known(ref), b.list(nodes)) }
		for i := range fields {
			for what, n := range wrong {
				nodes := members()
				nodes[i] = n
				changes = append(changes, change{what, i, record(nodes)})
			}
			changes = append(changes, change{"nothing", i, record(append(members()[:i:i], members()[i+1:]...))})
		}
		more := record(append(members(), b.Atom(0)))
		if err := b.Seal(); err != nil {
			t.Fatal(err)
		}
		source := maps.Clone(store)
		source.put(b.Items()...)
		into := func() Record[Particle] {
			for _, r := range records[Particle]() {
				if r.Schema() == name {
					return r
				}
			}
			return nil
		}
		for _, c := range changes {
			err := NewReader(t.Context(), Local(), source, ArtifactBudget).Record(b.Particle(c.node), into())
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrSchema) {
				t.Errorf("%s with %s for %s: %v", name, c.what, names[c.at], err)
				continue
			}
			if c.what != "nothing" && !strings.HasPrefix(err.Error(), name+": "+names[c.at]+": ") {
				t.Errorf("%s with %s for %s: the error does not say so: %v", name, c.what, names[c.at], err)
			}
		}
		err = NewReader(t.Context(), Local(), source, ArtifactBudget).Record(b.Particle(more), into())
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s with one more field: %v", name, err)
		}
	}
}

func (it Item) mustPair(t *testing.T) (left, right Particle) {
	t.Helper()
	if it.Kind != KindPair {
		t.Fatalf("%v is a %v", it.Particle, it.Kind)
	}
	return it.Pair()
}

// FuzzReader makes content out of a script: every reader must end within its budget and
// with an error of its own, and what can be read must be the one way to write it.
func FuzzReader(f *testing.F) {
	refs := map[string]Particle{}
	for p, name := range Local().byHead {
		refs[name] = p
	}
	var script []byte
	for i := range 12 {
		script = append(script, 1, byte(i), byte(i/2))
	}
	f.Add(script)
	f.Add([]byte{0, 1, 1, 0, 2, 1, 1, 3, 3, 4, 2, 0, 0, 7, 1, 4, 5})
	for i := range byte(26) {
		f.Add([]byte{2, i, 0, 1, 0, 5, 2, i, 3})
	}
	_, store := samples()
	var pool []Particle // of content that scripts may begin with, in a fixed order
	for id := range store {
		pool = append(pool, id)
	}
	slices.SortFunc(pool, func(x, y Particle) int { return bytes.Compare(x[:], y[:]) })
	names := Local().Schemas()
	f.Fuzz(func(t *testing.T, script []byte) {
		source := memory{}
		var made []Particle
		put := func(kind Kind, data []byte) {
			it := Item{Kind: kind, Bytes: data}
			if kind == KindBlob {
				it.Particle = hemera.Sum(data)
			} else {
				id, err := hemera.DataID(data)
				if err != nil {
					return
				}
				it.Particle = id
			}
			source.put(it)
			made = append(made, it.Particle)
		}
		put(KindAtom, make([]byte, 8))
		pick := func(high, low byte) Particle {
			i := int(high)<<8 | int(low)
			if i < 1<<15 {
				return made[i%len(made)]
			}
			return pool[i%len(pool)]
		}
		for ; len(script) >= 5 && len(made) < 300; script = script[5:] {
			x, y := pick(script[1], script[2]), pick(script[3], script[4])
			switch script[0] % 6 {
			case 0:
				put(KindAtom, binary.LittleEndian.AppendUint64(nil, uint64(script[1])<<uint(script[2]%64)))
			case 1, 2:
				put(KindPair, slices.Concat(x[:], y[:]))
			case 3: // one more field
				last := made[len(made)-1]
				put(KindPair, slices.Concat(x[:], last[:]))
			case 4: // a record
				ref := refs[names[int(script[1])%len(names)].Name]
				put(KindPair, slices.Concat(ref[:], y[:]))
			case 5:
				put(KindBlob, script[1:5])
			}
		}
		all := maps.Clone(store)
		maps.Copy(all, source)
		root := made[len(made)-1]
		for name := range forms(nil) {
			c := count(all)
			err := forms(NewReader(t.Context(), Local(), c, 500))[name](root)
			if c.reads > 500 {
				t.Fatalf("%s takes %d reads", name, c.reads)
			}
			if err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrSchema) && !errors.Is(err, ErrLimit) && !errors.Is(err, errAbsent) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		r, err := NewReader(t.Context(), Local(), all, 5000).Any(root)
		if err != nil {
			return
		}
		if _, ok := Local().Variant(r.Schema()); ok || r.Schema() == operationResult {
			return
		}
		if again := newPlain().record(r); again != root {
			t.Fatalf("%v is read as %#v, which is %v", root, r, again)
		}
	})
}

// FuzzLooseSource reads content that is not what its names say, with references in
// circles.
func FuzzLooseSource(f *testing.F) {
	f.Add([]byte{1, 0, 0, 2, 1, 1, 1, 2, 0})
	f.Add([]byte{3, 7, 1, 1, 4, 2, 1, 3, 2})
	f.Add([]byte{4, 2, 0}) // a pair of two bytes
	var refs []Particle
	for _, s := range Local().Schemas() {
		for p, name := range Local().byHead {
			if name == s.Name {
				refs = append(refs, p)
			}
		}
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		source := loose{}
		n := len(script)/3 + 1
		name := func(b byte) Particle {
			if b == 255 {
				return Local().zero
			}
			return Particle{byte(int(b) % n), 1}
		}
		source[Local().zero] = Item{Kind: KindAtom, Bytes: make([]byte, 8)}
		for i := 0; i+3 <= len(script); i += 3 {
			at := name(byte(i / 3))
			x, y := name(script[i+1]), name(script[i+2])
			switch script[i] % 5 {
			case 0:
				source[at] = Item{Kind: KindAtom, Bytes: binary.LittleEndian.AppendUint64(nil, uint64(script[i+1])<<(script[i+2]%64))}
			case 1, 2:
				source.pair(at, x, y)
			case 3:
				source.pair(at, refs[int(script[i+1])%len(refs)], y)
			case 4:
				source[at] = Item{Kind: Kind(script[i+1] % 5), Bytes: script[i+1 : i+3]}
			}
		}
		for form := range forms(nil) {
			c := count(source)
			err := forms(NewReader(t.Context(), Local(), c, 400))[form](name(0))
			if c.reads > 400 {
				t.Fatalf("%s takes %d reads", form, c.reads)
			}
			if err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrSchema) && !errors.Is(err, ErrLimit) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, errAbsent) {
				t.Fatalf("%s: %v", form, err)
			}
		}
	})
}
