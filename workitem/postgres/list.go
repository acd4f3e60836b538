package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/writ-authority/writ/workitem"
)

// List implements workitem.Reader. It walks the index that promises to leave the
// fewest rows; whatever else is asked for is checked on its rows. Several statuses
// are as many walks, merged, where the index has a status.
func (r *reader) List(q *workitem.Query, after workitem.Place, limit int) ([]*workitem.Item, error) {
	number, err := r.number(q.Tenant)
	if err != nil || number == 0 {
		return nil, err
	}
	var at workitem.Instant
	if q.Claimable {
		at = r.Now()
	}
	clear(r.other) // of rows of the page before that were left out
	var all []*workitem.Item
	add := r.item(func(it *workitem.Item) { all = append(all, it) })
	var walks []question
	for _, statuses := range portions(q) {
		text, args := walk(r.columns(), q, number, statuses, at, after, limit)
		walks = append(walks, question{text, args, add})
	}
	if err := r.ask(walks...); err != nil {
		return nil, err
	}
	if len(walks) > 1 {
		slices.SortFunc(all, func(a, b *workitem.Item) int {
			return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), a.ID.Compare(b.ID))
		})
	}
	return all[:min(limit, len(all))], nil
}

// portions are the statuses of each walk; none stand for all. Status 0 selects nothing.
func portions(q *workitem.Query) [][]workitem.Status {
	statuses := slices.DeleteFunc(slices.Clone(q.Statuses), func(s workitem.Status) bool { return s == 0 })
	switch {
	case q.Unverified, len(q.Statuses) == 0:
		return [][]workitem.Status{nil}
	case len(statuses) == 0:
		return nil
	case labelled(q) || q.Repository != "":
		return [][]workitem.Status{statuses}
	}
	var each [][]workitem.Status
	for _, s := range statuses {
		each = append(each, []workitem.Status{s})
	}
	return each
}

// labelled says that a rare filter is set, all of which share one index.
func labelled(q *workitem.Query) bool {
	return q.LaneID+q.CandidateID+q.GenerationID+q.CorrelationID != ""
}

// walk makes the statement that lists rows of some statuses, or of all. The index that
// it follows is the only one that fits: other conditions on indexed columns are
// written so that no index can serve them. The limit is part of the text, since plans
// are made without the parameters.
func walk(columns string, q *workitem.Query, tenant int64, statuses []workitem.Status, at workitem.Instant, after workitem.Place, limit int) (text string, args []any) {
	args = []any{tenant}
	parameter := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	var where []string
	add := func(format string, a ...any) { where = append(where, fmt.Sprintf(format, a...)) }

	// The table that is walked comes first. A subquery with an offset stays where it is.
	const itsItem = " CROSS JOIN LATERAL (SELECT * FROM items WHERE item = %s.item OFFSET 0) i"
	const itsLife = " CROSS JOIN LATERAL (SELECT * FROM life WHERE item = i.item OFFSET 0) l"
	from, walked := "items i"+itsLife, "i"
	const other = "(%s) IS TRUE"
	for n, label := range []struct{ column, value string }{
		{"lane", q.LaneID}, {"candidate", q.CandidateID}, {"generation", q.GenerationID}, {"correlation", q.CorrelationID},
	} {
		switch {
		case label.value == "":
		case walked == "b":
			add(other, "i."+label.column+" = "+parameter(label.value))
		default:
			from, walked = "labels b"+fmt.Sprintf(itsItem, "b")+itsLife, "b"
			add("b.label = %d AND b.value = %s", n+1, parameter(label.value))
		}
	}
	follows := map[string]bool{} // columns of the index
	switch {
	case walked == "b":
	case q.Unverified:
		walked = "l"
	case q.Repository != "":
		follows["i.repository"] = true
	case len(statuses) == 1 && (statuses[0] != workitem.Succeeded || q.Owner == "" && q.Kind == 0):
		walked, follows["l.status"] = "l", true
	case q.Owner != "":
		follows["i.owner"] = true
	case q.Kind != 0:
		follows["i.kind"] = true
	}
	if walked == "l" {
		from = "life l" + fmt.Sprintf(itsItem, "l")
	}
	add("%s.tenant = $1", walked)
	condition := func(column, comparison string) {
		if follows[column] {
			add("%s %s", column, comparison)
		} else {
			add(other, column+" "+comparison)
		}
	}
	if q.Unverified {
		add("l.dep_state = 0 AND l.status = 1")
	}
	if q.Repository != "" {
		condition("i.repository", "= "+parameter(q.Repository))
	}
	if q.Owner != "" {
		condition("i.owner", "= "+parameter(q.Owner))
	}
	if q.Kind != 0 {
		condition("i.kind", "= "+parameter(int16(q.Kind)))
	}
	if q.ResourceClass != "" {
		condition("l.class", "= "+parameter(q.ResourceClass))
	}
	switch len(statuses) {
	case 0:
	case 1:
		condition("l.status", "= "+parameter(int16(statuses[0])))
	default:
		numbers := make([]int16, len(statuses))
		for i, s := range statuses {
			numbers[i] = int16(s)
		}
		condition("l.status", "= ANY("+parameter(numbers)+")")
	}
	if q.Claimable {
		add(other, strings.ReplaceAll(claimableIs, "$2", parameter(at)))
	}
	if q.CreatedAfter != 0 {
		add("%s.created > %s", walked, parameter(q.CreatedAfter))
	}
	if q.CreatedBefore != 0 {
		add("%s.created < %s", walked, parameter(q.CreatedBefore))
	}
	if after != (workitem.Place{}) {
		add("(%s.created, %s.id) > (%s, %s)", walked, walked, parameter(after.CreatedAt), parameter(after.ID[:]))
	}
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s.created, %s.id LIMIT %d",
		columns, from, strings.Join(where, " AND "), walked, walked, limit), args
}

var _ workitem.Reader = (*reader)(nil)
