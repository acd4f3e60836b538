package worker

import (
	"errors"

	"github.com/writ-authority/writ/workitem"
)

var (
	// ErrConfig is returned by Run for a configuration that can't work.
	ErrConfig = errors.New("worker configuration")

	// ErrLeaseLost is the cause with which a handler's context ends when the job is
	// no longer its: cancelled, given to somebody else, without consent, or not
	// renewed in time. Job.Checkpoint returns it too.
	ErrLeaseLost = errors.New("the lease was lost")

	// ErrDirective is wrapped by what is wrong with a line of the protocol.
	ErrDirective = errors.New("not a line of the worker protocol")
)

// isLoss says whether the authority has answered that the lease is not, or may no
// longer be, this worker's.
func isLoss(err error) bool {
	switch codeOf(err) {
	case workitem.StaleFence, workitem.ClaimMismatch, workitem.NotFound, workitem.ConsentDenied:
		return true
	}
	return false
}

// isTransient says whether the same call may be answered later: the authority has
// not answered, or could not.
func isTransient(err error) bool {
	switch codeOf(err) {
	case workitem.AuthorityUnavailable, workitem.TooManyRequests, workitem.Internal, "":
		return true
	}
	return false
}

// codeOf is the code of a refusal, or empty for an error that is none.
func codeOf(err error) workitem.Code {
	var refusal *workitem.Error
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}
