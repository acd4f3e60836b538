package hemera_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/writ-authority/writ/hemera"
)

func ExampleSum() {
	fmt.Println(hemera.Sum([]byte("hello")))
	// Output: e1b19b8235443e9fac8f1d6a1203de66e9a58c53e36cbbc1f71a031c3d13ce77
}

func ExampleSumReader() {
	sum, n, err := hemera.SumReader(strings.NewReader("hello"))
	fmt.Println(sum, n, err)
	// Output: e1b19b8235443e9fac8f1d6a1203de66e9a58c53e36cbbc1f71a031c3d13ce77 5 <nil>
}

// The list of 1 and 2 is the pair of 1 and the pair of 2 and 0, which ends it.
func ExamplePairID() {
	atoms := make([]hemera.Digest, 3)
	if err := hemera.AtomIDs(atoms, []uint64{0, 1, 2}); err != nil {
		fmt.Println(err)
		return
	}
	rest, err := hemera.PairID(atoms[2], atoms[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := hemera.PairID(atoms[1], rest)
	fmt.Println(list, err)
	// Output: 600002d4b8fd6da34ab857c2aadb76afd9e9ef2c303c65c23d51f680586336ba <nil>
}

func ExampleHasher_XOF() {
	h := hemera.NewDeriveKey("example.org 2026 session keys")
	_, _ = io.WriteString(h, "material")
	key := make([]byte, 48)
	_, err := io.ReadFull(h.XOF(), key)
	fmt.Printf("%d bytes, %x…, %v\n", len(key), key[:4], err)
	// Output: 48 bytes, cbfdaea9…, <nil>
}
