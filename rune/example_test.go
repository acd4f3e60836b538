package rune_test

import (
	"errors"
	"fmt"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

func ExampleCompile() {
	p, err := rune.Compile([]byte("~mem + event"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Formula(nox.Atom(7)))
	_, err = rune.Compile([]byte("~mem + evnt"))
	var refused *rune.Error
	if errors.As(err, &refused) {
		fmt.Println(refused)
		fmt.Print(refused.Excerpt())
	}
	// Output:
	// [2 [[3 [[1 7] [0 1]]] [1 [5 [[0 510] [0 2]]]]]]
	// 1:8: unknown name evnt; did you mean event?
	// ~mem + evnt
	//        ^^^^
}

func ExampleFormat() {
	out, err := rune.Format([]byte("let n=[1,2];if event==0{n}else{head( n )}"))
	fmt.Printf("%s%v\n", out, err)
	// Output:
	// let n = [1 2];
	// if event == 0 { n } else { head(n) }
	// <nil>
}
