package machine_test

import (
	"fmt"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// A program asks its host for a price. The machine is written down while it waits, and
// another one goes on with the reply.
func Example() {
	p, err := rune.Compile([]byte(`let price = host(event); ~mem + price`))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := machine.Load(p, machine.Input{State: nox.Atom(100), Event: nox.Atom(7)}, machine.MaxSteps)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := m.Run(1000)
	fmt.Println(r.Status, rune.ActName(r.Tag), r.Arguments, err)
	checkpoint, err := m.Checkpoint()
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err = machine.Restore(checkpoint, machine.MaxSteps)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := m.Resume(nox.Atom(42)); err != nil {
		fmt.Println(err)
		return
	}
	r, err = m.Run(1000)
	fmt.Println(r.Status, r.Value, m.Used(), err)
	// Output:
	// act host 7 <nil>
	// done 142 21 <nil>
}
