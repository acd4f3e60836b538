package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestJobsTogether lets many processes share a store without a server: they submit
// the same few requests and then claim what there is, all at once. Each job is made
// once and claimed once.
func TestJobsTogether(t *testing.T) {
	t.Parallel()
	const jobs, each = 4, 4
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	type answer struct {
		JobID        string `json:"job_id"`
		Deduplicated bool   `json:"deduplicated"`
		Claimed      bool   `json:"claimed"`
		Reason       string `json:"reason"`
		Claim        *struct {
			JobID string `json:"job_id"`
		} `json:"claim"`
	}
	run := func(args ...string) (a answer) {
		c := exec.Command("writ", append(args, "--data", data, "--json")...)
		c.Dir, c.Env = dir, append(os.Environ(), "WRIT_OWNER=ada")
		var messages bytes.Buffer
		c.Stderr = &messages
		out, err := c.Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			t.Errorf("%v: %v\n%s", c.Args, err, &messages)
			return a
		}
		if err := json.Unmarshal(out, &a); err != nil {
			t.Errorf("%v: %v\n%s", c.Args, err, out)
		}
		return a
	}
	var mu sync.Mutex
	made, claimed, empty := map[string]int{}, map[string]int{}, 0
	var wg sync.WaitGroup
	for n := range jobs * each {
		wg.Go(func() {
			a := run("job", "submit", "--operation", "build", "--repository", "r", "--base-ref", "main",
				"--base-sha", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "--key", fmt.Sprint(n%jobs))
			mu.Lock()
			defer mu.Unlock()
			if !a.Deduplicated {
				made[a.JobID]++
			}
		})
	}
	wg.Wait()
	for n := range jobs * each {
		wg.Go(func() {
			a := run("job", "claim-next", "--kind", "repository.build", "--worker", fmt.Sprint(n))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case a.Claimed && a.Claim != nil:
				claimed[a.Claim.JobID]++
			case a.Reason == "empty":
				empty++
			default:
				t.Errorf("a claim was answered with %+v", a)
			}
		})
	}
	wg.Wait()
	if len(made) != jobs || len(claimed) != jobs || empty != jobs*(each-1) {
		t.Errorf("made %v, claimed %v, %d times nothing", made, claimed, empty)
	}
	for id, n := range claimed {
		if n != 1 || made[id] != 1 {
			t.Errorf("%s was made %d times and claimed %d times", id, made[id], n)
		}
	}
}
