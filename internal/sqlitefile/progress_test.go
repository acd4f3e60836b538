package sqlitefile_test

import (
	"testing"
	"testing/synctest"

	"github.com/writ-authority/writ/internal/sqlitefile"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p sqlitefile.Progress
		if !p.Wait(0) {
			t.Error("nothing is not durable")
		}
		answers := map[uint64]chan bool{}
		for n := uint64(1); n <= 4; n++ {
			answer := make(chan bool, 1)
			answers[n] = answer
			go func() { answer <- p.Wait(n) }()
		}
		for _, step := range []struct {
			do   func()
			want map[uint64]bool // who is answered, and how
		}{
			{func() { p.Reach(2) }, map[uint64]bool{1: true, 2: true}},
			{func() { p.Reach(1) }, nil}, // nothing is taken back
			{func() { p.Reach(3) }, map[uint64]bool{3: true}},
			{p.Fail, map[uint64]bool{4: false}},
		} {
			synctest.Wait()
			for n, answer := range answers {
				if len(answer) > 0 {
					t.Errorf("%d was answered too early", n)
				}
			}
			step.do()
			synctest.Wait()
			for n, want := range step.want {
				select {
				case got := <-answers[n]:
					if got != want {
						t.Errorf("transaction %d is durable: %v", n, got)
					}
				default:
					t.Errorf("%d was not answered", n)
				}
				delete(answers, n)
			}
		}
		if !p.Wait(3) || p.Wait(4) {
			t.Error("what was durable before the failure is, and nothing else")
		}
	})
}
