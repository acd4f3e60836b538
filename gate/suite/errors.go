package suite

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrConfig is wrapped by every problem found in a writ.yaml.
	ErrConfig = errors.New("writ.yaml is not valid")

	// ErrResults is returned by ReadResults for a file that is no result file of
	// this version, or contradicts itself.
	ErrResults = errors.New("the suite results are not valid")
)

// ConfigError is one problem in a writ.yaml.
type ConfigError struct {
	File    string
	Line    int // from 1; 0 if the problem has no place in the file
	Column  int // from 1, in characters
	Message string
}

// Error returns "file:line:column: message".
func (e *ConfigError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Is makes errors.Is(err, ErrConfig) true.
func (e *ConfigError) Is(target error) bool { return target == ErrConfig }

// ConfigErrors are the problems of one file in the order of their places.
type ConfigErrors []*ConfigError

// Error returns one line for each problem.
func (e ConfigErrors) Error() string {
	var b strings.Builder
	for i, p := range e {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Error())
	}
	return b.String()
}

// Unwrap lets errors.Is and errors.As see each problem.
func (e ConfigErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, p := range e {
		errs[i] = p
	}
	return errs
}
