package record

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/hemera"
)

// generator fills a record with random values.
type generator struct {
	t    *rapid.T
	pool []Particle // what links refer to, mostly
}

func (g *generator) particle(name string) Particle {
	if n := len(g.pool); n > 0 && rapid.IntRange(0, 3).Draw(g.t, name+" old") > 0 {
		return g.pool[rapid.IntRange(0, n-1).Draw(g.t, name)]
	}
	p := hemera.Sum(rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(g.t, name))
	g.pool = append(g.pool, p)
	return p
}

// draw is a list that is nil if it is empty, as those that are read are.
func draw[T any](g *generator, name string, one func() T) (list []T) {
	for range rapid.IntRange(0, 4).Draw(g.t, name+" length") {
		list = append(list, one())
	}
	return list
}

func (g *generator) uint(name string, v *uint64) {
	*v = rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 300), rapid.Just[uint64](1<<32)).Draw(g.t, name)
}

func (g *generator) uints(name string, v *[]uint64) {
	*v = draw(g, name, func() (x uint64) { g.uint(name, &x); return x })
}

func (g *generator) ref(name string, l *Particle) { *l = g.particle(name) }

func (g *generator) refs(name string, l *[]Particle) {
	*l = draw(g, name, func() Particle { return g.particle(name) })
}

func (g *generator) optional(name string, o *Optional[Particle]) {
	if rapid.Bool().Draw(g.t, name+" present") {
		*o = Some(g.particle(name))
	}
}

func (g *generator) text(name string, s *string) { *s = rapid.StringN(0, 40, 120).Draw(g.t, name) }

func (g *generator) nonce(name string, n *Nonce[Particle]) {
	copy(n.Bytes[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(g.t, name))
}

func (g *generator) variant(name string, d *domain, v *uint8) {
	*v = uint8(rapid.IntRange(1, len(d.words)).Draw(g.t, name))
}

func (g *generator) trigger(name string, t *Trigger[Particle]) { g.optional(name, &t.Operation) }

func (g *generator) entries(name string, list *[]Entry[Particle]) {
	*list = draw(g, name, func() (e Entry[Particle]) { e.fields(g); return e })
}

func (g *generator) metrics(name string, list *[]Metric[Particle]) {
	*list = draw(g, name, func() Metric[Particle] {
		var m Metric[Particle]
		g.ref(name, &m.Metric)
		g.uint(name, &m.Limit)
		return m
	})
}

// record is a random record of a random schema.
func (g *generator) record() Record[Particle] {
	r := rapid.SampledFrom(records[Particle]()).Draw(g.t, "record")
	r.fields(g)
	return r
}

// TestEveryRecordIsReadAsItWasBuilt builds random records, with an empty memo and with
// one that knows records before them, and reads them back.
func TestEveryRecordIsReadAsItWasBuilt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{t: t}
		memo, store, plain := NewMemo(Local()), memory{}, newPlain()
		for range rapid.IntRange(1, 4).Draw(t, "commits") {
			b := memo.Builder()
			var nodes []Node
			var built []Record[Particle]
			for range rapid.IntRange(1, 3).Draw(t, "records") {
				r := g.record()
				built = append(built, r)
				nodes = append(nodes, b.Record(rebuilt(b, r)))
			}
			if err := b.Seal(); err != nil {
				t.Fatal(err)
			}
			var fresh []Particle
			for _, it := range b.Items() {
				if err := it.Check(); err != nil {
					t.Fatal(err)
				}
				if it.Kind == KindPair {
					left, right := it.Pair()
					for _, member := range []Particle{left, right} {
						if _, ok := store[member]; !ok {
							t.Fatalf("the member %v of %v is not stored before it", member, it.Particle)
						}
					}
				}
				if _, old := store[it.Particle]; !old {
					fresh = append(fresh, it.Particle)
				}
				store.put(it)
			}
			for i, n := range nodes {
				p := b.Particle(n)
				if want := plain.record(built[i]); p != want {
					t.Fatalf("%#v is %v, want %v", built[i], p, want)
				}
				reader := NewReader(t.Context(), Local(), store, CellBudget)
				got, err := reader.Any(p)
				if err != nil || !reflect.DeepEqual(got, built[i]) {
					t.Fatalf("%#v is read as %#v, %v", built[i], got, err)
				}
			}
			if rapid.Bool().Draw(t, "committed") {
				b.Committed()
				continue
			}
			for _, p := range fresh { // then the next one must hand over what it needs
				delete(store, p)
			}
		}
	})
}

// TestLinksBeforeTheirParticlesAreKnown compares records that refer to nodes which are
// not hashed yet with ones that are made one after another.
func TestLinksBeforeTheirParticlesAreKnown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		memo, plain := NewMemo(Local()), newPlain()
		builders := make([]*Builder, rapid.IntRange(1, 3).Draw(t, "builders"))
		type made struct {
			b    *Builder
			node Node
			id   Particle
		}
		var all []made
		for i := range builders {
			b := memo.Builder()
			builders[i] = b
			g := &generator{t: t, pool: []Particle{{1}}}
			nodes := map[Particle]Node{}
			node := func(p Particle) Node {
				if n, ok := nodes[p]; ok {
					return n
				}
				return b.Known(p)
			}
			for range rapid.IntRange(1, 6).Draw(t, "records") {
				r := g.record()
				into := rebuiltWith(node, r)
				var of Particle
				if nonce := reflect.ValueOf(into).Elem().FieldByName("Nonce"); nonce.IsValid() && rapid.Bool().Draw(t, "nonce of a node") {
					of = rapid.SampledFrom(g.pool).Draw(t, "nonce of")
					nonce.Set(reflect.ValueOf(Nonce[Node]{Of: Some(node(of))}))
					reflect.ValueOf(r).Elem().FieldByName("Nonce").Set(reflect.ValueOf(Nonce[Particle]{Bytes: of}))
				}
				n, id := b.Record(into), plain.record(r)
				nodes[id] = n
				g.pool = append(g.pool, id)
				all = append(all, made{b, n, id})
			}
			e := MapEntry[Particle]{g.particle("key"), g.particle("value")}
			n := b.Map(MapEntry[Node]{node(e.Key), node(e.Value)})
			all = append(all, made{b, n, plain.mapOf(Map[Particle]{e})})
			data := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data")
			all = append(all, made{b, b.Artifact(data, "text/plain"), plain.artifact(data, "text/plain")})
		}
		if err := Seal(builders...); err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if got := m.b.Particle(m.node); got != m.id {
				t.Fatalf("%v, want %v", got, m.id)
			}
			for _, it := range m.b.Items() {
				if want, ok := plain.items[it.Particle]; !ok || !reflect.DeepEqual(it, want) {
					t.Fatalf("the item %v is %v, want %v", it.Particle, it, want)
				}
			}
		}
	})
}
