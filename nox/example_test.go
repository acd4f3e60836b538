package nox_test

import (
	"fmt"

	"github.com/writ-authority/writ/nox"
)

func Example() {
	list := nox.Pair(nox.Atom(104), nox.Pair(nox.Atom(105), nox.Atom(0)))
	fmt.Println(list, list.Size(), list.Depth())
	artifact, err := nox.Encode(list)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%x\n", artifact)
	// Output:
	// [104 [105 0]] 5 2
	// 0100680000000000000001006900000000000000000000000000000000
}

func ExampleParse() {
	n, err := nox.Parse("[1 2 [3 4]]")
	if err != nil {
		panic(err)
	}
	fmt.Println(n)
	_, err = nox.Parse("[1 2\n three]")
	fmt.Println(err)
	// Output:
	// [1 [2 [3 4]]]
	// not the text of a noun: 2:2: unexpected 't'; expected a number, [ or ]
}

func ExampleNoun_Identity() {
	n := nox.Pair(nox.Atom(1), nox.Atom(2))
	id, err := n.Identity()
	if err != nil {
		panic(err)
	}
	fmt.Println(id)
	_, err = nox.Pair(nox.Atom(1), nox.Atom(nox.P)).Identity()
	fmt.Println(err)
	// Output:
	// c2e17f0c787ac64d4a96c84ad57996e5cf56b02e2247575100ce81c09d12a9a0
	// atom not below 2^64 - 2^32 + 1: in [1 18446744069414584321]
}
