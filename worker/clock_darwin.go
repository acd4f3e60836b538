package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// steadyClock is a clock that nobody sets and that goes on while the machine
// sleeps, which the monotonic one of macOS does.
func steadyClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("worker: the kernel has no monotonic clock: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
