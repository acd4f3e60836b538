package workitem

// TaskState is the state that the task projection gives a job (section 17). A job
// that works but waits for input from its submitter is input_required.
func TaskState(s Status, pendingInput bool) string {
	switch s {
	case Succeeded:
		return "completed"
	case Failed, DeadLetter:
		return "failed"
	case StatusCancelled:
		return "cancelled"
	}
	if pendingInput {
		return "input_required"
	}
	return "working"
}
