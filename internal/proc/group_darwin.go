package proc

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of Rusage.Maxrss, in bytes.
const rssUnit = 1

// watch tells when a child has ended and leaves it to be reaped.
type watch struct{ queue int }

func newWatch() (watch, error) {
	fd, err := unix.Kqueue()
	if err != nil {
		return watch{}, err
	}
	unix.CloseOnExec(fd)
	return watch{queue: fd}, nil
}

func (w watch) close() { unix.Close(w.queue) }

// await returns when the child has ended.
func (w watch) await(pid int) {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	ev.Fflags = unix.NOTE_EXIT
	got := make([]unix.Kevent_t, 1)
	for {
		// A child that is a zombie already can't be watched: that is an answer too.
		if _, err := unix.Kevent(w.queue, []unix.Kevent_t{ev}, got, nil); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// alive reports whether a process of the group lives. The kernel passes over
// zombies and answers EPERM if there is nothing else.
func (g group) alive() bool {
	return syscall.Kill(-g.id, 0) == nil
}

// killMarked has nothing to do: the environment of other processes can't be read
// here.
func killMarked(string, time.Time) error { return nil }
