package nox

import "fmt"

// Fault says which formula a reduction has failed at and why. It wraps one of the
// errors of [Reduce].
type Fault struct {
	Err     error
	Formula Noun
	Reason  string
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%v: %s, in the formula %s", f.Err, f.Reason, brief(f.Formula))
}

func (f *Fault) Unwrap() error { return f.Err }
