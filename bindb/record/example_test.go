package record_test

import (
	"fmt"

	"github.com/writ-authority/writ/bindb/record"
)

func Example() {
	review := record.Review{
		Actor:         record.RefTo(0),
		Patchset:      2,
		PatchOrdinal:  1,
		PayloadOffset: record.HeaderSize,
		CreatedAt:     1786000062,
	}
	review.Meta.SetAction(record.ReviewActionTaskRequestChanges)
	review.Meta.SetBlocking(true)

	b := make([]byte, record.ReviewSize)
	review.Encode(b)
	fmt.Printf("%x\n", b[:4])

	b[30] = 1 // a reserved field
	fmt.Println(new(record.Review).Decode(b))
	// Output:
	// 1b000100
	// reserved0 is 1, want zero, the field is reserved (F06)
}

func ExampleParseIdentity() {
	ns, _ := record.ParseNamespace("se")
	id, err := record.ParseIdentity("SET-0001/C-01/P-02", ns)
	fmt.Println(id.Object, id.PatchOrdinal, err)
	fmt.Println(id.PolicyDecision(0))

	_, err = record.ParseIdentity("SET-0001/C-1", ns)
	fmt.Println(err)
	// Output:
	// Patchset 1 <nil>
	// SET-0001/C-01/P-02/K-01
	// invalid syntax: identity "SET-0001/C-1": "C-1" is no step such as C-01, with exactly two digits
}

func ExampleDump() {
	layout, _ := record.ByFile("task_change_index.bin")
	d := record.Dump(layout, 0, []byte{3, 0, 0, 0, 2, 0, 2, 0})
	for _, f := range d.Fields {
		fmt.Printf("%s = %v %q\n", f.Name, f.Value, f.Meaning)
	}
	// Output:
	// latest_change_index_plus1 = 3 "change.bin record 2"
	// change_count = 2 ""
	// next_change_ordinal = 2 ""
	// reserved0 = 0 ""
}
