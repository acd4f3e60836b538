package suite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

const (
	maxLog  = 64 << 20  // bytes of one log file
	logTail = 256 << 10 // bytes of it that are kept for the end of the output
	logNote = 128       // bytes for the line that tells of the gap
)

// output takes what a suite prints: into its log file, which has a bound, and
// into lines. It may be asked for the last line while it is written to.
type output struct {
	mu    sync.Mutex
	file  *os.File
	room  int64 // what may still go into the file directly
	end   []byte
	cut   int64 // bytes that were left out between the beginning and end
	lines lines
}

// createLog makes the log file anew.
func createLog(path string, limit int64) (*output, error) {
	// Removed first: a link of that name must not be followed.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &output{file: f, room: limit - logTail - logNote}, nil
}

// Write stores p. The beginning of the output goes to the file at once, what
// exceeds the bound waits in memory until it is known to be the end.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines.write(p)
	n := int(min(o.room, int64(len(p))))
	if _, err := o.file.Write(p[:n]); err != nil {
		return 0, err
	}
	o.room -= int64(n)
	o.end = append(o.end, p[n:]...)
	if len(o.end) > 2*logTail {
		o.trim()
	}
	return len(p), nil
}

// trim leaves the last logTail bytes in end.
func (o *output) trim() {
	if over := len(o.end) - logTail; over > 0 {
		o.cut += int64(over)
		o.end = append(o.end[:0], o.end[over:]...)
	}
}

// lastLine is the last line that is not blank.
func (o *output) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines.lastLine()
}

// close completes the file and returns the last lines.
func (o *output) close() ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trim()
	rest := o.end
	if o.cut > 0 {
		rest = append(fmt.Appendf(nil, "\n[writ: %d bytes of output are left out here]\n", o.cut), rest...)
	}
	_, err := o.file.Write(rest)
	if cerr := o.file.Close(); err == nil {
		err = cerr
	}
	return o.lines.finish(), err
}
