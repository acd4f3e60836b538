package proc

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
)

// Guard is a process that ends the groups of commands when the program that runs
// them has died without having done so: killed, crashed, out of memory. It sees
// that as the end of its standard input. Where a command has moved to another group
// it does not follow, and of a command that was started in the instant before the
// program died it may not have been told. One guard serves all commands of a program and ends with it.
type Guard struct {
	mu     sync.Mutex
	tell   io.WriteCloser
	groups map[int]bool
}

// NewGuard starts a guard. Errors wrap ErrStart.
func NewGuard() (*Guard, error) {
	g := &Guard{groups: map[int]bool{}}
	if err := g.start(); err != nil {
		return nil, err
	}
	return g, nil
}

// watchOver is what the guard runs. It reads "+ GROUP" and "- GROUP", and has a
// session of its own: no signal from a terminal reaches it.
const watchOver = `trap '' HUP INT TERM
all=' '
while read -r op group; do
	case $op in
	+) all="$all$group " ;;
	-) all="${all%% $group *} ${all#* $group }" ;;
	esac
done
for group in $all; do kill -s KILL -- "-$group"; done 2> /dev/null`

// start starts the process. The lock is held, or g is not shared yet.
func (g *Guard) start() error {
	cmd := exec.Command("/bin/sh", "-c", watchOver)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	in, err := cmd.StdinPipe()
	if err != nil {
		return startError("/bin/sh", err)
	}
	if err := cmd.Start(); err != nil {
		return startError("/bin/sh", err)
	}
	go cmd.Wait() // it ends with this program, or somebody ends it
	for group := range g.groups {
		if _, err := fmt.Fprintf(in, "+ %d\n", group); err != nil {
			return startError("/bin/sh", err)
		}
	}
	g.tell = in
	return nil
}

// add puts a group under guard. A guard that has died is started again.
func (g *Guard) add(group int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group] = true
	if _, err := fmt.Fprintf(g.tell, "+ %d\n", group); err != nil {
		g.tell.Close()
		return g.start()
	}
	return nil
}

// remove takes a group, of which nothing is left, from under guard.
func (g *Guard) remove(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	// A guard that has died needs not be told.
	_, _ = fmt.Fprintf(g.tell, "- %d\n", group)
}
