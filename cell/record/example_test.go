package record_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/writ-authority/writ/cell/record"
)

// store is a source of content that lies in memory.
type store map[record.Particle]record.Item

func (s store) Content(_ context.Context, p record.Particle) (record.Kind, []byte, error) {
	it, ok := s[p]
	if !ok {
		return 0, nil, errors.New("no such content")
	}
	return it.Kind, it.Bytes, it.Check()
}

// A builder hashes nothing before Seal, so that a record can refer to another one whose
// particle nobody knows yet.
func Example() {
	memo := record.NewMemo(record.Local())
	b := memo.Builder()
	state := b.Artifact([]byte("\x00\x2a\x00\x00\x00\x00\x00\x00\x00"), "application/x-rune-noun")
	entry := b.Record(&record.InboxEntry[record.Node]{
		Event: state, Status: record.Completed, LastIndex: 4,
	})
	inbox := b.Map(record.MapEntry[record.Node]{Key: state, Value: entry})
	if err := b.Seal(); err != nil {
		log.Fatal(err)
	}

	content := store{}
	for _, it := range b.Items() {
		content[it.Particle] = it
	}
	b.Committed() // they are where the memo believes them to be

	r := record.NewReader(context.Background(), record.Local(), content, record.CellBudget)
	m, err := r.Map(b.Particle(inbox), 1)
	if err != nil {
		log.Fatal(err)
	}
	var e record.InboxEntry[record.Particle]
	if err := r.Record(m[0].Value, &e); err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Status, "at", e.LastIndex)
	for _, f := range record.Fields(&e) {
		fmt.Println(f.Name, f.Value)
	}

	again := memo.Builder()
	again.Artifact([]byte("other bytes"), "application/x-rune-noun")
	if err := again.Seal(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(b.Items()), "items, and then", len(again.Items()))

	err = r.Record(m[0].Value, &record.Head[record.Particle]{})
	fmt.Println(errors.Is(err, record.ErrSchema))

	// Output:
	// completed at 4
	// event fb90659ca9b07742d78e9cf168b0d029f0190932c69de183a0b23675d2e274dd
	// status completed
	// invocation <nil>
	// last_index 4
	// 203 items, and then 15
	// true
}
