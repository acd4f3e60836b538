package storetest

import (
	"bytes"
	"slices"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// model is what one tenant's jobs of one kind are, kept in memory: the state machine
// of section 9 and the default order of claims, written a second time and as plainly
// as possible. Nothing of it is shared with the authority.
type model struct {
	now   workitem.Instant
	quota int
	jobs  []*modelJob
	turn  [4]string // the fairness group that was served last in each bucket
}

type modelJob struct {
	id       workitem.ID
	group    string
	priority int
	deadline workitem.Instant
	created  workitem.Instant
	parents  []*modelJob // of now, after adoption

	status     workitem.Status
	attempt    int
	max        int
	base       time.Duration
	retryAt    workitem.Instant
	worker     string
	epoch      int64
	expires    workitem.Instant
	checkpoint string
	errorRef   string
	defers     int
	links      int // jobs before it in its chain of retries
	next       *modelJob
}

func (j *modelJob) held() bool {
	return j.status == workitem.Leased || j.status == workitem.Running
}

func (m *model) live(j *modelJob) bool { return j.held() && j.expires > m.now }

// pending counts the parents that have not succeeded.
func (j *modelJob) pending() int {
	n := 0
	for _, p := range j.parents {
		if p.status != workitem.Succeeded {
			n++
		}
	}
	return n
}

func (m *model) leases() int {
	n := 0
	for _, j := range m.jobs {
		if m.live(j) {
			n++
		}
	}
	return n
}

func (m *model) submit(j *modelJob) {
	j.created = m.now
	j.status = workitem.Ready
	if j.pending() > 0 {
		j.status = workitem.Submitted
	}
	m.jobs = append(m.jobs, j)
}

// obstacle is why a job can't be claimed, or empty.
func (m *model) obstacle(j *modelJob) string {
	switch {
	case j.status.Terminal():
		return workitem.ReasonTerminal
	case j.status == workitem.Submitted:
		return workitem.ReasonSubmitted
	case m.live(j):
		return workitem.ReasonLeased
	case j.retryAt > m.now:
		return workitem.ReasonBackoff
	case j.deadline != 0 && j.deadline < m.now:
		return workitem.ReasonDeadlinePassed
	}
	return ""
}

// retire ends a job whose last lease has run out.
func (m *model) retire(j *modelJob) bool {
	if !j.held() || m.live(j) || j.attempt < j.max {
		return false
	}
	j.status, j.worker, j.expires, j.errorRef = workitem.DeadLetter, "", 0, "lease_exhausted"
	j.epoch++
	return true
}

func (m *model) grant(j *modelJob, worker string, ttl time.Duration) {
	if j.held() {
		j.epoch++
	}
	j.status, j.worker, j.expires = workitem.Leased, worker, m.now.Add(ttl)
	j.attempt++
	j.epoch++
}

// claim gives the reason of the answer.
func (m *model) claim(j *modelJob, worker string, ttl time.Duration) string {
	if m.retire(j) {
		return workitem.ReasonExhausted
	}
	if why := m.obstacle(j); why != "" {
		return why
	}
	if m.leases() >= m.quota {
		return workitem.ReasonTenantQuota
	}
	m.grant(j, worker, ttl)
	return workitem.ReasonClaimed
}

// claimNext gives the job that is handed out, or why there is none.
func (m *model) claimNext(worker string, ttl time.Duration) (*modelJob, string) {
	for _, j := range m.jobs {
		m.retire(j)
	}
	if m.leases() >= m.quota {
		return nil, workitem.ReasonTenantQuota
	}
	for bucket := 3; bucket >= 0; bucket-- {
		groups := map[string][]*modelJob{}
		var names []string
		for _, j := range m.jobs {
			if min(j.priority, 3) == bucket && m.obstacle(j) == "" {
				groups[j.group] = append(groups[j.group], j)
				names = append(names, j.group)
			}
		}
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		turn := names[0]
		for _, name := range names {
			if name > m.turn[bucket] {
				turn = name
				break
			}
		}
		m.turn[bucket] = turn
		j := slices.MinFunc(groups[turn], m.before)
		m.grant(j, worker, ttl)
		return j, workitem.ReasonClaimed
	}
	return nil, workitem.ReasonEmpty
}

// before is the order inside a fairness group.
func (m *model) before(a, b *modelJob) int {
	due := func(j *modelJob) workitem.Instant {
		if j.deadline == 0 {
			return 1 << 62
		}
		return j.deadline
	}
	switch {
	case a.priority != b.priority:
		return b.priority - a.priority
	case due(a) != due(b):
		return int(due(a) - due(b))
	case a.created != b.created:
		return int(a.created - b.created)
	}
	return bytes.Compare(a.id[:], b.id[:])
}

// newest says that a fence is the one of the job's last lease.
func (j *modelJob) newest(worker string, epoch int64) bool {
	return j.held() && j.worker == worker && j.epoch == epoch
}

func (m *model) renew(j *modelJob, worker string, epoch int64, ttl time.Duration, checkpoint string) bool {
	if !j.newest(worker, epoch) || j.expires < m.now {
		return false
	}
	j.status, j.expires = workitem.Running, m.now.Add(ttl)
	if checkpoint != "" {
		j.checkpoint = checkpoint
	}
	return true
}

func (j *modelJob) release() { j.worker, j.expires = "", 0 }

// commit gives the status of the answer, or empty if the fence is refused.
func (m *model) commit(j *modelJob, worker string, epoch int64, outcome string, retryable bool) string {
	if j.status.Terminal() {
		return workitem.Noop
	}
	if !j.newest(worker, epoch) {
		return ""
	}
	j.release()
	j.errorRef = ""
	switch {
	case outcome == "succeeded":
		j.status = workitem.Succeeded
		for _, c := range m.jobs {
			if c.status == workitem.Submitted && c.pending() == 0 {
				c.status = workitem.Ready
			}
		}
	case outcome == "cancelled":
		j.status = workitem.StatusCancelled
	case !retryable:
		j.status = workitem.Failed
	case j.attempt < j.max:
		j.status = workitem.Ready
		j.epoch++
		j.retryAt = m.now.Add(max(time.Second, j.base) << (j.attempt - 1))
		return workitem.RetryScheduled
	default:
		j.status = workitem.DeadLetter
		return workitem.DeadLettered
	}
	return workitem.Committed
}

func (m *model) postpone(j *modelJob, worker string, epoch int64, delay time.Duration) bool {
	if !j.newest(worker, epoch) || j.expires < m.now {
		return false
	}
	j.release()
	j.status, j.retryAt = workitem.Ready, m.now.Add(delay)
	j.attempt--
	j.epoch++
	j.defers++
	return true
}

// cancel gives the code of the refusal, or empty.
func (m *model) cancel(j *modelJob, mode string) workitem.Code {
	switch {
	case j.status == workitem.StatusCancelled:
		return ""
	case j.status.Terminal():
		return workitem.InvalidState
	case mode == "if_idle" && m.live(j):
		return workitem.InFlight
	}
	j.release()
	j.status = workitem.StatusCancelled
	j.epoch++
	return ""
}

// retry gives the new job, whether it was there already, and how many children it
// has adopted; nil if the job can't be retried.
func (m *model) retry(j *modelJob, id workitem.ID, adopt bool) (_ *modelJob, known bool, adopted int) {
	switch j.status {
	case workitem.Failed, workitem.DeadLetter, workitem.StatusCancelled:
	default:
		return nil, false, 0
	}
	if j.links >= maxChain {
		return nil, false, 0
	}
	known = j.next != nil
	if !known {
		left := j.max - j.attempt
		if left < 1 || j.status == workitem.DeadLetter {
			left = j.max
		}
		j.next = &modelJob{id: id, group: j.group, priority: j.priority, deadline: j.deadline, max: left, base: j.base, links: j.links + 1}
		m.submit(j.next)
	}
	if !adopt {
		return j.next, known, 0
	}
	for _, c := range m.jobs {
		if c.status != workitem.Submitted || !slices.Contains(c.parents, j) {
			continue
		}
		parents := []*modelJob{j.next}
		for _, p := range c.parents {
			if p != j && p != j.next {
				parents = append(parents, p)
			}
		}
		c.parents = parents
		adopted++
		if c.pending() == 0 {
			c.status = workitem.Ready
		}
	}
	return j.next, known, adopted
}

// maxChain is how many retries a chain may have.
const maxChain = 10
