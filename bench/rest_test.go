package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// served is the built binary serving a data directory.
type served struct {
	cmd  *exec.Cmd
	addr string
}

// serve starts `writ serve` on a free port of the loopback address, with further
// flags.
func serve(tb testing.TB, dir string, flags ...string) *served {
	tb.Helper()
	cmd := exec.Command(writ, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--dev-tokens",
		"--max-tenant-in-flight", strconv.Itoa(quota), "--log-level", "error", "--metrics-public", "--json"}, flags...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			tb.Errorf("writ serve: %v", err)
		}
	})
	var doc struct {
		URL string `json:"url"`
	}
	if err := json.NewDecoder(out).Decode(&doc); err != nil {
		tb.Fatalf("writ serve says not where it listens: %v", err)
	}
	return &served{cmd: cmd, addr: strings.TrimPrefix(doc.URL, "http://")}
}

// wire is one keep-alive connection that does as little for a request as HTTP/1.1
// allows, so that what is measured is the server.
type wire struct {
	conn    net.Conn
	in      *bufio.Reader
	headers string // of every request, beside those of its body
	out     []byte
	answer  []byte
}

func (s *served) dial() (*wire, error) {
	return dial(s.addr, "Host: bench\r\n"+bearer)
}

// bearer is the credential of a Person.
const bearer = "Authorization: Bearer dev:" + Tenant + ":" + Person + "\r\n"

func dial(addr, headers string) (*wire, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), headers: headers}, nil
}

// call sends one request and reads its answer, which is good until the next call.
func (w *wire) call(method, path string, body []byte) (status int, answer []byte, err error) {
	w.out = append(w.out[:0], method...)
	w.out = append(w.out, ' ')
	w.out = append(w.out, path...)
	w.out = append(w.out, " HTTP/1.1\r\n"...)
	w.out = append(w.out, w.headers...)
	if body != nil {
		w.out = append(w.out, "Content-Type: application/json\r\nContent-Length: "...)
		w.out = strconv.AppendInt(w.out, int64(len(body)), 10)
		w.out = append(w.out, "\r\n"...)
	}
	w.out = append(append(w.out, "\r\n"...), body...)
	if _, err := w.conn.Write(w.out); err != nil {
		return 0, nil, err
	}
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 12 {
		return 0, nil, fmt.Errorf("no status line: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, err
	}
	length, chunked := 0, false
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case len(name) == 14 && bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, nil, err
			}
		case len(name) == 17 && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
	if !chunked {
		w.answer = append(w.answer[:0], make([]byte, length)...)
		_, err = io.ReadFull(w.in, w.answer)
		return status, w.answer, err
	}
	for w.answer = w.answer[:0]; ; {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return 0, nil, err
		}
		from := len(w.answer)
		w.answer = append(w.answer, make([]byte, n+2)...)
		if _, err := io.ReadFull(w.in, w.answer[from:]); err != nil {
			return 0, nil, err
		}
		w.answer = w.answer[:from+int(n)]
		if n == 0 {
			return status, w.answer, nil
		}
	}
}

// submit submits one job, which must be new.
func (w *wire) submit(n int) error {
	status, answer, err := w.call("POST", "/v1/jobs", Fixture{}.Request(n, "", "", ""))
	if err == nil && status != 201 {
		err = fmt.Errorf("a submission was answered with %d: %s", status, answer)
	}
	return err
}

// pair claims a job and commits it. It says whether there was one.
func (w *wire) pair() (bool, error) {
	status, answer, err := w.call("POST", "/v1/claims", []byte(`{"kind":"`+Kind+`","worker":"bench"}`))
	if err != nil {
		return false, err
	}
	if status != 200 {
		return false, fmt.Errorf("a claim was answered with %d: %s", status, answer)
	}
	var a struct {
		Claimed bool            `json:"claimed"`
		Claim   json.RawMessage `json:"claim"`
	}
	if err := json.Unmarshal(answer, &a); err != nil || !a.Claimed {
		return false, err
	}
	var c struct {
		JobID string `json:"job_id"`
		Owner string `json:"lease_owner"`
		Item  string `json:"work_item_id"`
		Epoch int64  `json:"lease_epoch"`
		Fence int64  `json:"fencing_token"`
	}
	if err := json.Unmarshal(a.Claim, &c); err != nil {
		return false, err
	}
	body := fmt.Appendf(nil, `{"claim":{"work_item_id":%q,"lease_owner":%q,"lease_epoch":%d,"fencing_token":%d},"outcome":"succeeded"}`,
		c.Item, c.Owner, c.Epoch, c.Fence)
	status, answer, err = w.call("POST", "/v1/jobs/"+c.JobID+"/commit", body)
	if err == nil && status != 200 {
		err = fmt.Errorf("a commit was answered with %d: %s", status, answer)
	}
	return true, err
}

// BenchmarkJobREST submits one job at a time to the built binary over loopback, with
// 32 keep-alive connections from this process on the same processors.
func BenchmarkJobREST(b *testing.B) {
	const connections = 32
	s := serve(b, b.TempDir())
	wires := make([]*wire, connections)
	for i := range wires {
		var err error
		if wires[i], err = s.dial(); err != nil {
			b.Fatal(err)
		}
		defer wires[i].conn.Close()
	}
	var next atomic.Int64
	contest(b, connections, []*contestant{{
		name: "writ-rest", durability: "writ serve, HTTP/1.1 on loopback, development tokens; " + writSettings + "; cpu/op is the load generator's",
		op: func(caller, _ int) error { return wires[caller].submit(int(next.Add(1))) },
	}})
}

// usage is what a process holds.
type usage struct {
	resident    int64 // bytes
	descriptors int
	goroutines  int
}

// usage reads it from /proc and from the server's metrics.
func (s *served) usage() (u usage, err error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return u, err
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return u, errors.New("statm has no resident size")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return u, err
	}
	u.resident = pages * int64(os.Getpagesize())
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		return u, err
	}
	u.descriptors = len(list)
	w, err := s.dial()
	if err != nil {
		return u, err
	}
	defer w.conn.Close()
	status, answer, err := w.call("GET", "/metrics", nil)
	if err != nil || status != 200 {
		return u, fmt.Errorf("/metrics was answered with %d: %w", status, err)
	}
	for line := range strings.Lines(string(answer)) {
		if v, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			u.goroutines, err = strconv.Atoi(strings.TrimSpace(v))
			return u, err
		}
	}
	return u, errors.New("/metrics has no go_goroutines")
}

func (u usage) String() string {
	return fmt.Sprintf("%.1f MiB resident, %d descriptors, %d goroutines", float64(u.resident)/(1<<20), u.descriptors, u.goroutines)
}

// settled waits until what the server holds is within the bound of before, for at
// most a while, and gives the last reading.
func (s *served) settled(before usage, bound int, while time.Duration) (u usage, err error) {
	for end := time.Now().Add(while); ; time.Sleep(200 * time.Millisecond) {
		if u, err = s.usage(); err != nil {
			return u, err
		}
		if u.descriptors <= before.descriptors+bound && u.goroutines <= before.goroutines+bound || time.Now().After(end) {
			return u, nil
		}
	}
}
