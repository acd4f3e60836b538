package workitem

import (
	"context"
	"slices"
	"strings"
)

// Retry makes a new job of one that failed, was cancelled or is a dead letter
// (section 10.9). Repeated calls converge on the same new job. With adopt, the
// children that wait for the old job wait for the new one instead (decision W4).
func (c *Caller) Retry(ctx context.Context, in *RetryInput) (*RetryHandle, error) {
	if err := c.need(ScopeWrite); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	answer := &RetryHandle{RetryOf: id.JobID()}
	err = c.a.update(ctx, func(tx Tx, h *happening) error {
		old, err := c.find(tx, id)
		if err != nil {
			return err
		}
		switch old.Status {
		case Failed, DeadLetter, StatusCancelled:
		default:
			return &Error{Code: InvalidState, Message: "only a failed, cancelled or dead-letter job can be retried; this one is " + old.Status.State()}
		}
		stored, err := tx.Stored(old)
		if err != nil {
			return err
		}
		if err := checkChain(tx, stored); err != nil {
			return err
		}
		record, err := DecodeRecord(stored.Metadata)
		if err != nil {
			return err
		}
		req, err := RetryRequest(record, old, old.Attempt+1)
		if err != nil {
			return err
		}
		s, err := c.a.submission(req, stored.Trace)
		if err != nil {
			return err
		}
		s.copied, s.granted, s.expires = true, old.ConsentGrantedAt, old.ConsentExpiresAt
		attempts := old.MaxAttempts - old.Attempt
		if attempts < 1 || old.Status == DeadLetter {
			attempts = old.MaxAttempts
		}
		var children []*Item
		if in.Adopt {
			if children, err = c.adoptable(tx, old); err != nil {
				return err
			}
		}
		handle, err := c.admit(tx, h, s, attempts, old.Backoff)
		if err != nil {
			return err
		}
		answer.Handle = *handle
		answer.Adopted = len(children)
		if len(children) == 0 {
			return nil
		}
		stone, err := tx.Tombstone(s.id)
		if err != nil {
			return err
		}
		if stone != nil && stone.Status != Succeeded {
			return &Error{Code: InvalidState, Message: "the new job has ended as " + stone.Status.State() + " and was pruned: its children can't wait for it"}
		}
		for _, child := range children {
			if err := adopt(tx, h, child, old.ID, s.id, stone != nil, c.p.Subject); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// checkChain refuses to make a chain of retries longer than ten.
func checkChain(r Reader, stored *Stored) error {
	for links := 1; ; links++ {
		source, ok := strings.CutPrefix(stored.RequestID, "retry:")
		if !ok {
			return nil
		}
		if links >= maxRetryChain {
			return &Error{Code: InvalidState, Message: "the job is the tenth of a chain of retries: submit a new job"}
		}
		id, err := ParseID(stored.CorrelationID)
		if err != nil || !strings.HasPrefix(source, id.JobID()+":") {
			return nil
		}
		it, err := r.Item(id)
		if err != nil {
			return err
		}
		if it == nil {
			return nil
		}
		if stored, err = r.Stored(it); err != nil {
			return err
		}
	}
}

// adoptable lists the children that still wait for a job. Children of other owners
// need jobs:tenant.
func (c *Caller) adoptable(tx Tx, old *Item) ([]*Item, error) {
	ids, err := tx.Children(old.ID)
	if err != nil {
		return nil, err
	}
	var children []*Item
	for _, id := range ids {
		it, err := tx.Item(id)
		if err != nil {
			return nil, err
		}
		if it == nil || it.Tenant != old.Tenant || it.Status != Submitted || !slices.Contains(it.DependsOn, old.ID) {
			continue
		}
		if !c.sees(it) {
			return nil, &Error{Code: ForbiddenScope, Message: "a child belongs to another owner: the credential lacks the scope jobs:tenant"}
		}
		children = append(children, it)
	}
	return children, nil
}

// adopt puts a new parent in the place of the old one. What the child was
// submitted with stays as it is. A new parent that has succeeded and was pruned is
// not waited for: a row that names it would be faulty.
func adopt(tx Tx, h *happening, child *Item, old, parent ID, pruned bool, subject string) error {
	var parents []ID
	if !pruned {
		parents = append(parents, parent)
	}
	for _, id := range child.DependsOn {
		if id != old && id != parent {
			parents = append(parents, id)
		}
	}
	slices.SortFunc(parents, ID.Compare)
	child.DependsOn = parents
	if err := tx.Unlink(old, child.ID); err != nil {
		return err
	}
	child.DepCount = 0
	for _, id := range parents {
		p, err := tx.Item(id)
		if err != nil {
			return err
		}
		if p == nil || p.Tenant != child.Tenant || p.Status != Succeeded {
			child.DepCount++
		}
		if _, err := tx.Link(id, child.ID); err != nil {
			return err
		}
	}
	if child.DepCount == 0 {
		child.Status = Ready
	}
	return h.save(tx, child, Submitted, Event{Name: "adopt", Subject: subject, Detail: parent.JobID() + " instead of " + old.JobID()})
}
