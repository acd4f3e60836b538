package record

import (
	"fmt"
	"testing"

	"github.com/writ-authority/writ/hemera"
)

// cellState is what the engine holds of a cell between two commits.
type cellState struct {
	index                                           uint64
	cell, commit, snapshot, definition, policy      Particle
	profile, state, checkpoint, event, continuation Particle
	inputs                                          uint64
}

// newCellState is a cell of its own, which has not been written by anybody: for the cost
// of its commits only the number of particles matters.
func newCellState(seed int) *cellState {
	id := func(i int) Particle { return hemera.Sum(fmt.Appendf(nil, "%d %d", seed, i)) }
	shared := func(name string) Particle { return hemera.Sum([]byte(name)) }
	return &cellState{
		cell: id(1), commit: id(2), snapshot: id(3), definition: shared("definition"), policy: shared("policy"),
		profile: shared("profile"), state: id(4), checkpoint: id(5), event: id(6), continuation: id(7), index: uint64(seed),
	}
}

// step is one of the three commits of an input (section 19), as the nodes of a builder.
type step struct {
	commit, snapshot, event, checkpoint, state Node
}

const (
	labelOwner   = "cell/local-private-database-owner/1"
	labelRuntime = "rune/bounded-machine/1"
)

func (c *cellState) frame(b *Builder, event *Event[Node], system string, after *Snapshot[Node], operations ...Node) (s step) {
	cell, last := b.Known(c.cell), b.Known(c.commit)
	event.Origin, event.Cell, event.Authority = b.Label(labelOwner), cell, b.Known(c.policy)
	if system != "" {
		event.Entry = system
		event.Nonce.Of = Some(b.Record(&SystemNonce[Node]{Cell: cell, BaseCommit: last, Kind: system}))
	}
	s.event = b.Record(event)
	b.Record(&RequestID[Node]{Origin: event.Origin, Nonce: event.Nonce})
	after.Definition, after.AuthorityPolicy, after.Profile = b.Known(c.definition), b.Known(c.policy), b.Known(c.profile)
	after.Lifecycle = Active
	after.Subscriptions, after.Management = b.Map(), b.Map()
	s.snapshot = b.Record(after)
	s.commit = b.Record(&Commit[Node]{
		Cell: cell, Index: c.index + 1, Previous: last, Before: b.Known(c.snapshot), After: s.snapshot,
		Events: []Node{s.event}, Operations: operations, Authority: b.Known(c.policy),
	})
	return s
}

// live is the part of a snapshot that keeps an input alive.
func (c *cellState) live(b *Builder, event, checkpoint Node, r LocalResources[Node], after *Snapshot[Node]) Node {
	continuation := b.Record(&Continuation[Node]{
		Definition: b.Known(c.definition), Runtime: b.Label(labelRuntime), CheckpointSchema: b.Manifest(Checkpoint),
		Checkpoint: checkpoint, BaseHead: b.Record(&Head[Node]{Index: c.index, Commit: b.Known(c.commit)}),
		Invocation: event, ResourcesUsed: b.Record(&r),
	})
	after.ApplicationState = b.Known(c.state)
	after.Inbox = b.Map(MapEntry[Node]{event, b.Record(&InboxEntry[Node]{
		Event: event, Status: Suspended, Invocation: Some(event), LastIndex: c.index + 1,
	})})
	after.Continuations = b.Map(MapEntry[Node]{continuation, continuation})
	after.Outbox = b.Map()
	return continuation
}

func (c *cellState) admit(b *Builder) step {
	c.inputs++
	event := &Event[Node]{Entry: "main", Payload: b.Artifact(noun(9, c.inputs), "application/x-rune-noun")}
	nonce := hemera.Sum(fmt.Append(nil, c.cell, c.inputs))
	event.Nonce.Bytes = nonce
	checkpoint := b.Artifact(noun(279, c.inputs), "application/x-rune-checkpoint")
	// The event comes first, as its node is the invocation.
	cell := b.Known(c.cell)
	event.Origin, event.Cell, event.Authority = b.Label(labelOwner), cell, b.Known(c.policy)
	invocation := b.Record(event)
	var after Snapshot[Node]
	continuation := c.live(b, invocation, checkpoint, LocalResources[Node]{Limit: 1_000_000}, &after)
	s := c.frame(b, event, "", &after, continuation)
	s.checkpoint = checkpoint
	return s
}

func (c *cellState) reserve(b *Builder) step {
	var after Snapshot[Node]
	continuation := c.live(b, b.Known(c.event), b.Known(c.checkpoint), LocalResources[Node]{Reserved: 1000, Limit: 1_000_000}, &after)
	return c.frame(b, &Event[Node]{Payload: b.Known(c.event)}, "$reserve", &after, continuation)
}

func (c *cellState) complete(b *Builder) step {
	event := b.Known(c.event)
	state := b.Artifact(noun(9, c.inputs*3), "application/x-rune-noun")
	after := Snapshot[Node]{
		ApplicationState: state,
		Inbox: b.Map(MapEntry[Node]{event, b.Record(&InboxEntry[Node]{
			Event: event, Status: Completed, Invocation: Some(event), LastIndex: c.index + 1,
		})}),
		Continuations: b.Map(), Outbox: b.Map(),
	}
	resources := b.Record(&LocalResources[Node]{Charged: 11, CheckpointUsed: 11, Limit: 1_000_000})
	s := c.frame(b, &Event[Node]{Payload: state}, "$complete", &after, resources)
	s.state = state
	return s
}

// noun is the preorder form of something with a number in it.
func noun(size int, v uint64) []byte {
	b := make([]byte, size)
	for i := range min(8, size-1) {
		b[1+i] = byte(v >> (8 * i))
	}
	return b
}

// next builds the n-th commit of an input.
func (c *cellState) next(b *Builder, n int) step {
	return [3]func(*Builder) step{c.admit, c.reserve, c.complete}[n](b)
}

// adopt makes the commit that was sealed the last one.
func (c *cellState) adopt(b *Builder, n int, s step) {
	c.index++
	c.commit, c.snapshot = b.Particle(s.commit), b.Particle(s.snapshot)
	switch n {
	case 0:
		c.event, c.checkpoint = b.Particle(s.event), b.Particle(s.checkpoint)
	case 2:
		c.state = b.Particle(s.state)
	}
}

// permutations counts what naming the items takes, and how many of them can not be done
// side by side.
func permutations(b *Builder) (all, levels int) {
	for _, it := range b.Items() {
		switch it.Kind {
		case KindAtom:
			all += 2
		case KindPair:
			all++
		case KindBlob:
			all += len(it.Bytes)/hemera.BlockSize + 1
		}
	}
	return all, int(b.depth)
}

// BenchmarkCommits builds and seals the three commits of an input, for one cell or
// for many at once. One operation is one commit.
func BenchmarkCommits(b *testing.B) {
	for _, cells := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("%d cells", cells), func(b *testing.B) {
			memo := NewMemo(Local())
			states := make([]*cellState, cells)
			for i := range states {
				states[i] = newCellState(i)
			}
			builders, steps := make([]*Builder, cells), make([]step, cells)
			items, hashes, levels := 0, 0, 0
			round := func(n int, count bool) {
				for i, c := range states {
					builders[i] = memo.Builder()
					steps[i] = c.next(builders[i], n)
				}
				if err := Seal(builders...); err != nil {
					b.Fatal(err)
				}
				for i, c := range states {
					c.adopt(builders[i], n, steps[i])
					if count {
						p, l := permutations(builders[i])
						hashes, levels, items = hashes+p, levels+l, items+len(builders[i].Items())
					}
					builders[i].Committed()
					builders[i].Release()
				}
			}
			for n := range 30 {
				round(n%3, n >= 27)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n*cells < b.N; n++ {
				round(n%3, false)
			}
			b.ReportMetric(float64(items)/float64(3*cells), "items/op")
			b.ReportMetric(float64(hashes)/float64(3*cells), "perms/op")
			b.ReportMetric(float64(levels)/float64(3*cells), "levels/op")
		})
	}
}

// BenchmarkBuild is BenchmarkCommits for one cell without Seal.
func BenchmarkBuild(b *testing.B) {
	memo := NewMemo(Local())
	c := newCellState(0)
	for n := range 30 {
		builder := memo.Builder()
		s := c.next(builder, n%3)
		if err := builder.Seal(); err != nil {
			b.Fatal(err)
		}
		c.adopt(builder, n%3, s)
		builder.Committed()
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		builder := memo.Builder()
		c.next(builder, n%3)
		builder.Release()
	}
}

// BenchmarkPlain makes the records of a commit one after another, without batches and
// without remembering anything.
func BenchmarkPlain(b *testing.B) {
	f, hashes := &filler{}, 0
	list := []Record[Particle]{
		new(SystemNonce[Particle]), new(Event[Particle]), new(RequestID[Particle]), new(LocalResources[Particle]), new(Head[Particle]),
		new(Continuation[Particle]), new(InboxEntry[Particle]), new(Snapshot[Particle]), new(Commit[Particle]),
	}
	b.ReportAllocs()
	for b.Loop() {
		p := newPlain()
		p.document = nil // it would be most of the cost
		for _, r := range list {
			r.fields(f)
			p.record(r)
		}
		hashes = p.hashes
	}
	b.ReportMetric(float64(hashes), "perms/op")
}
