package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of Rusage.Maxrss, in bytes.
const rssUnit = 1024

// watch tells when a child has ended and leaves it to be reaped.
type watch struct{}

func newWatch() (watch, error) { return watch{}, nil }

func (watch) close() {}

// await returns when the child has ended.
func (watch) await(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// alive reports whether a process of the group is neither dead nor a zombie.
// Zombies don't count: the leader is kept as one, and in a container nobody may
// ever reap the others.
func (g group) alive() bool {
	if err := syscall.Kill(-g.id, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	found := false
	eachProcess(func(pid int) bool {
		state, pgrp, ok := processState(pid)
		found = ok && pgrp == g.id && state != 'Z' && state != 'X'
		return !found
	})
	return found
}

// killMarked ends the processes whose environment carries the mark id, whatever
// group they are in. A process can leave a child behind while the list is read,
// so it is read again until nothing is found.
func killMarked(id string, deadline time.Time) error {
	needle := []byte(id)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		found := false
		eachProcess(func(pid int) bool {
			if marked(pid, needle) {
				found = true
				killOne(pid, needle)
			}
			return true
		})
		if !found {
			return nil
		}
		if time.Now().After(deadline) {
			return ErrUnkillable
		}
		time.Sleep(pause)
	}
}

// killOne kills a process through a handle on it. The mark is looked at again
// once the handle is there: from then on the number can't have changed hands.
func killOne(pid int, needle []byte) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// A kernel before 5.3, or a sandbox that knows no such call.
		syscall.Kill(pid, syscall.SIGKILL)
		return
	}
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	if marked(pid, needle) {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// marked reports whether a process of this user lives and carries the mark. The
// environment of a zombie is empty.
func marked(pid int, needle []byte) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil || int(st.Uid) != os.Geteuid() {
		return false
	}
	env, err := os.ReadFile(dir + "/environ")
	if err != nil {
		return false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(Mark+"=")); ok && bytes.Contains(v, needle) {
			return true
		}
	}
	return false
}

// eachProcess calls f for every process until it returns false. Processes that
// start meanwhile may be missed. It does nothing where /proc is not mounted.
func eachProcess(f func(pid int) bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(512)
		for _, name := range names {
			pid, perr := strconv.Atoi(name)
			if perr == nil && !f(pid) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// processState reads the state letter and the process group from
// /proc/<pid>/stat: "pid (name) state ppid pgrp …", where the name may hold
// spaces and parentheses.
func processState(pid int) (state byte, pgrp int, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	i := bytes.LastIndexByte(data, ')')
	if i < 0 {
		return 0, 0, false
	}
	fields := bytes.Fields(data[i+1:])
	if len(fields) < 3 {
		return 0, 0, false
	}
	pgrp, err = strconv.Atoi(string(fields[2]))
	return fields[0][0], pgrp, err == nil
}
