package workitem

// Scope is one right of a Principal.
type Scope uint8

// The scopes. Admin holds all others.
const (
	ScopeRead     Scope = 1 << iota // jobs:read: get, list, result, explain, history
	ScopeWrite                      // jobs:write: submit, cancel, retry
	ScopeWork                       // jobs:work: claim and what follows
	ScopeTenant                     // jobs:tenant: jobs of every owner of the tenant
	ScopeOnBehalf                   // jobs:on-behalf: submit for another owner
	ScopeAdmin                      // jobs:admin: all of these, consent, reconcile, prune, tokens
)

var scopeNames = []struct {
	scope Scope
	name  string
}{
	{ScopeRead, "jobs:read"}, {ScopeWrite, "jobs:write"}, {ScopeWork, "jobs:work"},
	{ScopeTenant, "jobs:tenant"}, {ScopeOnBehalf, "jobs:on-behalf"}, {ScopeAdmin, "jobs:admin"},
}

// ParseScopes reads the names of scopes.
func ParseScopes(names []string) (Scope, error) {
	var all Scope
	for _, name := range names {
		found := false
		for _, s := range scopeNames {
			if s.name == name {
				all |= s.scope
				found = true
			}
		}
		if !found {
			return 0, invalid("scopes", "has a scope that is none of jobs:read, jobs:write, jobs:work, jobs:tenant, jobs:on-behalf, jobs:admin")
		}
	}
	return all, nil
}

// Names gives the names of the scopes, in a fixed order.
func (s Scope) Names() []string {
	names := []string{}
	for _, e := range scopeNames {
		if s&e.scope != 0 {
			names = append(names, e.name)
		}
	}
	return names
}

// Has says whether all of want are held. Admin holds everything.
func (s Scope) Has(want Scope) bool { return s&ScopeAdmin != 0 || s&want == want }

// Principal is a caller whose credential was verified. Its tenant decides what the
// call sees; nothing in a request does.
type Principal struct {
	Subject string
	Tenant  string
	Owner   string
	Scopes  Scope
	// Local is the person who runs the server, known by the permissions of its
	// files: only it may act on more than its tenant (tokens, epoch).
	Local bool
}
