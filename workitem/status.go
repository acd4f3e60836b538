package workitem

// Status is where a job is in its life (section 9). 0 is no status.
type Status uint8

// The statuses. The last four are terminal: nothing leaves them.
const (
	Submitted       Status = 1 + iota // waits for parents
	Ready                             // may be claimed
	Leased                            // claimed, no heartbeat yet
	Running                           // claimed, with a heartbeat
	Succeeded                         //
	Failed                            // a failure that is not to be tried again
	StatusCancelled                   //
	DeadLetter                        // no attempt left
)

var statusNames = [...]string{"", "submitted", "ready", "leased", "running", "succeeded", "failed", "cancelled", "dead_letter"}

// String gives the stored spelling.
func (s Status) String() string {
	if int(s) >= len(statusNames) {
		return ""
	}
	return statusNames[s]
}

// State gives the spelling that views show: as stored, but dead-letter.
func (s Status) State() string {
	if s == DeadLetter {
		return "dead-letter"
	}
	return s.String()
}

// ParseState reads a state in either spelling. The error is a refusal of state.
func ParseState(text string) (Status, error) {
	if text == "dead-letter" {
		return DeadLetter, nil
	}
	for s := Submitted; s <= DeadLetter; s++ {
		if statusNames[s] == text {
			return s, nil
		}
	}
	return 0, invalid("state", "is none of submitted, ready, leased, running, succeeded, failed, cancelled, dead-letter")
}

// Terminal says whether the job has ended.
func (s Status) Terminal() bool { return s >= Succeeded && s <= DeadLetter }

// Held says whether the job is leased or running: somebody has, or had, a lease.
func (s Status) Held() bool { return s == Leased || s == Running }
