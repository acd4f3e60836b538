package record

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
)

// TestMistakes makes what a builder refuses.
func TestMistakes(t *testing.T) {
	t.Parallel()
	one := Particle{1}
	for name, c := range map[string]struct {
		build func(b *Builder)
		want  error
		text  string
	}{
		"an atom of p":              {func(b *Builder) { b.Atom(nox.P) }, ErrInvalid, "18446744069414584321"},
		"a particle of no hash":     {func(b *Builder) { b.Known(Particle(bytes.Repeat([]byte{255}, 32))) }, ErrInvalid, "ffff"},
		"a text of 4097 bytes":      {func(b *Builder) { b.Text(strings.Repeat("a", MaxText+1)) }, ErrLimit, "4097"},
		"a text that is not UTF-8":  {func(b *Builder) { b.Text("\xff") }, ErrInvalid, "UTF-8"},
		"a blob of 8 MiB and one":   {func(b *Builder) { b.Blob(make([]byte, MaxBlob+1)) }, ErrLimit, "8388609"},
		"a field without a link":    {func(b *Builder) { b.Record(&Head[Node]{Index: 1}) }, ErrInvalid, "a reference to nothing"},
		"a link to another builder": {func(b *Builder) { b.Record(&Head[Node]{Commit: 1 << 20}) }, ErrInvalid, "a reference to nothing"},
		"a negative link":           {func(b *Builder) { b.Record(&Head[Node]{Commit: -1}) }, ErrInvalid, "a reference to nothing"},
		"a variant that is not set": {func(b *Builder) { b.Record(&ResourceContract[Node]{}) }, ErrInvalid, "0 is no overflow"},
		"a variant that is none":    {func(b *Builder) { b.Lifecycle(6) }, ErrInvalid, "6 is no lifecycle"},
		"a key twice": {func(b *Builder) {
			b.Map(MapEntry[Node]{b.Known(one), b.Atom(1)}, MapEntry[Node]{b.Known(one), b.Atom(2)})
		}, ErrInvalid, "twice"},
		"keys that are not known yet": {func(b *Builder) {
			b.Map(MapEntry[Node]{b.Uint(1 << 33), b.Atom(1)}, MapEntry[Node]{b.Uint(1 << 34), b.Atom(2)})
		}, ErrInvalid, "not known yet"},
		"too many items": {func(b *Builder) {
			for i := range uint64(MaxItems + 1) {
				b.Atom(i)
			}
		}, ErrLimit, "131072"},
	} {
		memo := NewMemo(Local())
		b, good := memo.Builder(), memo.Builder()
		c.build(b)
		b.Text("and something that is allowed")
		n := good.Uint(5)
		err := Seal(b, good)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.want, c.text)
		}
		if again := b.Seal(); again != err || b.Err() != err || len(b.Items()) != 0 {
			t.Errorf("%s: %v and %d items when it is sealed again, want %v", name, again, len(b.Items()), err)
		}
		if err := good.Seal(); err != nil || good.Particle(n) != newPlain().number(5) {
			t.Errorf("%s: the builder beside it: %v", name, err)
		}
	}
}

func TestLimitsAreAllowed(t *testing.T) {
	t.Parallel()
	b := NewMemo(Local()).Builder()
	text := b.Text(strings.Repeat("ä", MaxText/2))
	b.Atom(nox.P - 1)
	b.Blob(make([]byte, 1<<16))
	if err := b.Seal(); err != nil {
		t.Fatal(err)
	}
	source := memory{}
	source.put(b.Items()...)
	if s, err := NewReader(t.Context(), Local(), source, ArtifactBudget).text(b.Particle(text)); err != nil || len(s) != MaxText {
		t.Errorf("%d bytes, %v", len(s), err)
	}
}

// TestMisuse does what would give wrong identities.
func TestMisuse(t *testing.T) {
	t.Parallel()
	for name, misuse := range map[string]func(b *Builder){
		"a particle before Seal": func(b *Builder) { b.Particle(b.Uint(1 << 40)) },
		"a commit before Seal":   func(b *Builder) { b.Committed() },
		"a node after Seal": func(b *Builder) {
			if err := b.Seal(); err != nil {
				t.Error(err)
			}
			b.Uint(1 << 41)
		},
		"a schema that does not exist": func(b *Builder) { b.Manifest("cell/heads/1") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			misuse(NewMemo(Local()).Builder())
		}()
	}
}

// TestWhatIsStoredIsNotMadeAgain builds the same commits again and again.
func TestWhatIsStoredIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	memo := NewMemo(Local())
	c := newCellState(1)
	build := func() (*Builder, step) {
		b := memo.Builder()
		return b, c.reserve(b)
	}
	first, s := build()
	if err := first.Seal(); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(first.Items(), func(it Item) bool { return it.Particle == Local().Contract() }) {
		t.Error("the contract does not come with the first records")
	}
	second, s2 := build() // the first one may have been lost
	if err := second.Seal(); err != nil {
		t.Fatal(err)
	}
	if len(first.Items()) != len(second.Items()) || first.Particle(s.commit) != second.Particle(s2.commit) {
		t.Errorf("%d and %d items, %v and %v", len(first.Items()), len(second.Items()), first.Particle(s.commit), second.Particle(s2.commit))
	}
	first.Committed()
	last := len(first.Items())
	for range 20 {
		b, s2 := build()
		if err := b.Seal(); err != nil {
			t.Fatal(err)
		}
		if first.Particle(s.commit) != b.Particle(s2.commit) {
			t.Fatalf("%v with a memo, %v without", b.Particle(s2.commit), first.Particle(s.commit))
		}
		if len(b.Items()) > last {
			t.Errorf("%d items after %d", len(b.Items()), last)
		}
		last = len(b.Items())
		b.Committed()
	}
	if last > 100 {
		t.Errorf("a commit that is stored already still has %d items", last)
	}
}

// TestSteadyState keeps commits about as cheap as they can be (section 19).
func TestSteadyState(t *testing.T) {
	t.Parallel()
	memo := NewMemo(Local())
	c := newCellState(1)
	for n := range 30 {
		b := memo.Builder()
		s := c.next(b, n%3)
		if err := b.Seal(); err != nil {
			t.Fatal(err)
		}
		hashes, levels := permutations(b)
		if n >= 15 && (len(b.Items()) > 165 || hashes > 225 || levels > 60) {
			t.Errorf("commit %d: %d items, %d permutations, %d levels", n, len(b.Items()), hashes, levels)
		}
		c.adopt(b, n%3, s)
		b.Committed()
	}
}

// TestManyBuildersShareAMemo has goroutines build and commit at the same time; each
// commit must be what it is without a memo.
func TestManyBuildersShareAMemo(t *testing.T) {
	t.Parallel()
	memo := NewMemo(Local())
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			c, alone := newCellState(g), newCellState(g)
			for n := range 9 {
				b, plain := memo.Builder(), NewMemo(Local()).Builder()
				s, want := c.next(b, n%3), alone.next(plain, n%3)
				if err := b.Seal(); err != nil {
					t.Error(err)
				}
				if err := plain.Seal(); err != nil {
					t.Error(err)
				}
				c.adopt(b, n%3, s)
				alone.adopt(plain, n%3, want)
				if *c != *alone {
					t.Errorf("commit %d of cell %d is %v, want %v", n, g, c.commit, alone.commit)
				}
				items := b.Items()
				b.Committed()
				b.Release()
				if err := CheckAll(items); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestMemoIsBounded fills a memo with more than it holds, while some of it is in use.
func TestMemoIsBounded(t *testing.T) {
	t.Parallel()
	var c cache[uint64]
	c.limit = 64
	kept := func(v uint64) bool { return v%50 == 0 && v < 500 }
	id := hemera.Sum(nil)
	for v := range uint64(50_000) {
		c.put(&v, v, &id)
		for k := range uint64(500) {
			if k <= v && kept(k) {
				c.find(&k, k)
			}
		}
	}
	places, full, found := 0, 0, 0
	for i := range c.shards {
		places += len(c.shards[i].places)
		full += c.shards[i].full
	}
	for k := range uint64(500) {
		if got, ok := c.find(&k, k); kept(k) && ok && got == id {
			found++
		}
	}
	if places > shards*64 || full > places || full < places/2 {
		t.Errorf("%d places, %d of them full", places, full)
	}
	if found < 9 {
		t.Errorf("only %d of 10 keys in use are still there", found)
	}

	memo := NewMemo(Local())
	for i := range 3 * memoWords {
		b := memo.Builder()
		b.Text(fmt.Sprint("text ", i))
		b.Label(fmt.Sprint("label ", i))
		if err := b.Seal(); err != nil {
			t.Fatal(err)
		}
		b.Committed()
		b.Release()
		if w := memo.strings.Load(); len(w.texts)+len(w.labels) > memoWords+2 {
			t.Fatalf("%d texts, %d labels", len(w.texts), len(w.labels))
		}
	}
}

// TestMapsAreSorted makes a map with its entries in any order.
func TestMapsAreSorted(t *testing.T) {
	t.Parallel()
	var entries Map[Particle]
	for i := range 20 {
		entries = append(entries, MapEntry[Particle]{hemera.Sum([]byte{byte(i)}), hemera.Sum([]byte{byte(i), 1})})
	}
	want := newPlain().mapOf(entries)
	for range 3 {
		slices.Reverse(entries[:len(entries)/2+1])
		slices.Reverse(entries)
		b := NewMemo(Local()).Builder()
		var nodes []MapEntry[Node]
		for _, e := range entries {
			nodes = append(nodes, MapEntry[Node]{b.Known(e.Key), b.Known(e.Value)})
		}
		n := b.Map(nodes...)
		if err := b.Seal(); err != nil || b.Particle(n) != want {
			t.Errorf("%v, %v, want %v", b.Particle(n), err, want)
		}
	}
}

// TestAfter builds what follows content that is not known to be durable.
func TestAfter(t *testing.T) {
	t.Parallel()
	m := NewMemo(Local())
	first := m.Builder()
	one := first.Pair(first.Atom(1000), first.Atom(2000))
	ref := first.Ref(one)
	other := first.Pair(one, one)
	if err := first.Seal(); err != nil {
		t.Fatal(err)
	}
	next := first.After()
	n, without := next.Ref(next.Known(first.Particle(one))), next.Ref(next.Known(first.Particle(other)))
	if err := next.Seal(); err != nil {
		t.Fatal(err)
	}
	if got, want := next.Particle(n), first.Particle(ref); got != want {
		t.Errorf("the reference is %v, expected %v", got, want)
	}
	names := map[Particle]bool{}
	for _, it := range next.Items() {
		names[it.Particle] = true
	}
	if names[first.Particle(ref)] || !names[next.Particle(without)] {
		t.Error("the reference that the first one has made is made again, or the other one is not")
	}
	plain := m.Builder() // nothing was said to be durable
	plain.Ref(plain.Known(first.Particle(one)))
	if err := plain.Seal(); err != nil {
		t.Fatal(err)
	}
	if len(plain.Items()) != 7 {
		t.Errorf("%d items, expected the 7 of a reference", len(plain.Items()))
	}
}
