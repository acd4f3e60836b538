package workitem

import (
	"math"
	"strconv"
	"time"
)

// need refuses callers without a scope.
func (c *Caller) need(s Scope) error {
	if c.p.Scopes.Has(s) {
		return nil
	}
	return &Error{Code: ForbiddenScope, Message: "the credential lacks the scope " + s.Names()[0]}
}

// needAny refuses callers that have neither scope.
func (c *Caller) needAny(s, t Scope) error {
	if c.p.Scopes.Has(s) {
		return nil
	}
	return c.need(t)
}

// notFound is the answer for jobs that do not exist, and for those that the
// caller may not know of: there must be no difference between the two.
func notFound() *Error {
	return &Error{Code: NotFound, Message: "there is no such job"}
}

// sees says whether the caller may know of a row.
func (c *Caller) sees(it *Item) bool {
	return it != nil && it.Tenant == c.p.Tenant &&
		(c.p.Scopes.Has(ScopeTenant) || it.Owner == c.p.Owner)
}

// find reads the row of an identifier that was parsed.
func (c *Caller) find(r Reader, id ID) (*Item, error) {
	it, err := r.Item(id)
	if err != nil {
		return nil, err
	}
	if !c.sees(it) {
		return nil, notFound()
	}
	return it, nil
}

// seconds reads a duration in seconds of the wire: above zero if positive, and at
// most limit.
func seconds(field string, v *float64, def, limit time.Duration, positive bool) (time.Duration, error) {
	if v == nil {
		return def, nil
	}
	if math.IsNaN(*v) || *v < 0 || positive && *v == 0 || *v > limit.Seconds() {
		low := "0"
		if positive {
			low = "above 0"
		}
		return 0, invalid(field, "must be "+low+" to "+strconv.Itoa(int(limit.Seconds()))+" seconds")
	}
	return time.Duration(math.Round(*v*1e6)) * time.Microsecond, nil
}

// leaseTTL reads the length of a lease: whole milliseconds, at least one.
func leaseTTL(v *float64) (time.Duration, error) {
	d, err := seconds("lease_ttl_s", v, defaultLease, maxLease, true)
	if err != nil {
		return 0, err
	}
	return max(d.Truncate(time.Millisecond), time.Millisecond), nil
}

// limitOf reads the size of a page.
func limitOf(v *int, def int) (int, error) {
	if v == nil {
		return def, nil
	}
	if *v < 1 || *v > maxListLimit {
		return 0, invalid("limit", "must be 1 to 1000")
	}
	return *v, nil
}
