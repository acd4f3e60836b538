package workitem

// The states of a job's consent (section 12). Claims and renewals pass in the
// first and the last.
const (
	ConsentNotRequired = "not_required"
	ConsentAbsent      = "absent"
	ConsentLapsed      = "lapsed"
	ConsentActive      = "active"
)

// ConsentStateAt is the state of a consent at an instant. Without an expiry it does
// not lapse; it has lapsed at the very instant of its expiry. A stored instant that
// can't be read must be given as 0 if it is the grant, and as a past one if it is
// the expiry: both close the gate.
func ConsentStateAt(required bool, granted, expires, now Instant) string {
	switch {
	case !required:
		return ConsentNotRequired
	case granted == 0:
		return ConsentAbsent
	case expires != 0 && expires <= now:
		return ConsentLapsed
	default:
		return ConsentActive
	}
}

// Gated says whether the job needs consent to be claimed.
func (f *Facts) Gated() bool {
	switch f.Kind {
	case kindRelease, kindWorkspacePush:
		return true
	case kindRepair:
		return f.Consent.AllowDestructiveCleanup
	}
	return false
}

// Gate is what the consent of a gated job is for: its scope, whom it concerns and
// what it rests on. All are empty if the job is not gated.
func (f *Facts) Gate() (scope, subject, basis string) {
	if !f.Gated() {
		return "", "", ""
	}
	if f.Consent.RiskMarker != nil {
		basis = *f.Consent.RiskMarker
	}
	return "repository:" + f.Kind.Operation(), f.RepositoryID, basis
}

// consent reads the consent of a request (section 5.5).
func (r *reader) consent(at int32, kind Kind) Consent {
	var c Consent
	marker := int32(0)
	for m := r.members("consent", at); m != 0; m = r.doc.values[m].next {
		switch name := r.doc.values[m].name; name {
		case "contract_version":
			r.version("consent.contract_version", m)
		case "allow_push":
			c.AllowPush = r.boolean("consent.allow_push", m)
		case "allow_destructive_cleanup":
			c.AllowDestructiveCleanup = r.boolean("consent.allow_destructive_cleanup", m)
		case "risk_acknowledged":
			c.RiskAcknowledged = r.boolean("consent.risk_acknowledged", m)
		case "risk_marker":
			marker = m
		default:
			r.unknown("consent", name)
		}
	}
	if text := r.nullable("consent.risk_marker", marker); text != "" {
		c.RiskMarker = &text
	}
	switch {
	case (c.AllowPush || c.AllowDestructiveCleanup) && !c.RiskAcknowledged:
		r.refuse("consent.risk_acknowledged", "must be true if something is allowed")
	case (c.AllowPush || c.AllowDestructiveCleanup) && c.RiskMarker == nil:
		r.refuse("consent.risk_marker", "must be set if something is allowed")
	case c.RiskMarker != nil && !c.RiskAcknowledged:
		r.refuse("consent.risk_acknowledged", "must be true if there is a risk marker")
	case (kind == kindRelease || kind == kindWorkspacePush) && !c.AllowPush:
		r.refuse("consent.allow_push", "must be true for this operation")
	}
	return c
}
