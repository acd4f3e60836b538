package bench

import (
	"fmt"
	"testing"
)

// clients are the numbers of concurrent callers that the job benchmarks have.
var clients = []int{1, 8, 32, 128}

// BenchmarkJobSubmit submits one job at a time, durable when it returns.
func BenchmarkJobSubmit(b *testing.B) {
	for _, n := range clients {
		b.Run(fmt.Sprintf("clients=%d", n), func(b *testing.B) {
			contest(b, n, peers(b, riverSubmit, asynqSubmit, natsSubmit))
		})
	}
}

// BenchmarkJobPairs claims a job and commits it as succeeded, each step durable.
// Jobs wait in numbers all the time.
func BenchmarkJobPairs(b *testing.B) {
	for _, n := range clients {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			contest(b, n, peers(b, riverPairs(n), asynqPairs(n), natsPairs))
		})
	}
}
