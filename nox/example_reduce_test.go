package nox_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/writ-authority/writ/nox"
)

func ExampleReduce() {
	object, _ := nox.Parse("[20 22]")
	formula, _ := nox.Parse("[5 [[0 2] [0 3]]]") // the sum of both sides
	ctx := context.Background()

	value, cost, err := nox.Reduce(ctx, object, formula, nox.Options{Budget: 100})
	fmt.Println(value, cost, err)

	_, cost, err = nox.Reduce(ctx, object, formula, nox.Options{Budget: 2})
	fmt.Println(cost, errors.Is(err, nox.ErrHalt), err)
	// Output:
	// 42 3 <nil>
	// 2 true budget is used up: the pattern axis costs 1 and 0 is left, in the formula [0 3]
}
