package proc

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// group is the process group of a command. Its id is that of the leader.
//
// The leader stays a zombie until kill has seen the group empty. So the kernel
// can't give the id to somebody else while signals are still sent to it.
type group struct {
	id    int
	ended chan struct{} // closed when the leader has ended
}

// terminate asks the group to end and waits until it has, at most for grace and not
// once hurry is closed.
func (g group) terminate(grace time.Duration, hurry <-chan struct{}) {
	if grace <= 0 {
		return
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	// Stopped processes take notice only when they are continued.
	syscall.Kill(-g.id, syscall.SIGTERM)
	syscall.Kill(-g.id, syscall.SIGCONT)
	select {
	case <-g.ended:
	case <-deadline.C:
		return
	case <-hurry:
		return
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for g.alive() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return
		case <-hurry:
			return
		}
	}
}

// kill ends the whole group, waits until nothing of it lives and reaps the
// leader.
func (g group) kill(cmd *exec.Cmd) error {
	limit := time.NewTimer(killWait)
	defer limit.Stop()
	syscall.Kill(-g.id, syscall.SIGKILL)
	select {
	case <-g.ended:
	case <-limit.C:
		// Reaped whenever it ends; nothing waits for that.
		go cmd.Wait()
		return ErrUnkillable
	}
	if err := g.empty(limit.C); err != nil {
		go cmd.Wait()
		return err
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// empty kills until no process of the group lives.
func (g group) empty(limit <-chan time.Time) error {
	for pause := time.Millisecond; g.alive(); pause = min(2*pause, 50*time.Millisecond) {
		syscall.Kill(-g.id, syscall.SIGKILL)
		select {
		case <-time.After(pause):
		case <-limit:
			return ErrUnkillable
		}
	}
	return nil
}
