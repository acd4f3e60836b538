package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// steadyClock is a clock that nobody sets and that goes on while the machine sleeps.
func steadyClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("worker: the kernel has no boot time clock: " + err.Error()) // Linux before 2.6.39
	}
	return time.Duration(ts.Nano())
}
