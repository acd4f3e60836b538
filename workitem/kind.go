package workitem

// Kind is one kind of job: its place in the registry, counted from 1. 0 is no kind.
type Kind uint8

// The kinds whose operation has rules of its own.
const (
	kindLaneAllocate      Kind = 1
	kindRelease           Kind = 7
	kindCandidateSubmit   Kind = 8
	kindGenerationCertify Kind = 9
	kindBranchLand        Kind = 10
	kindWorkspacePush     Kind = 13
	kindRepair            Kind = 14
)

// Kinds that are stored as numbers keep their place: new ones go to the end.
var registry = [...]KindEntry{
	{"lane.allocate", "repository.lane.allocate"},
	{"lane.check", "repository.lane.check"},
	{"repository", "repository.operation"},
	{"validation", "repository.validation"},
	{"build", "repository.build"},
	{"merge", "repository.merge"},
	{"release", "repository.release"},
	{"candidate.submit", "repository.candidate.submit"},
	{"generation.certify", "repository.generation.certify"},
	{"branch.land", "repository.branch.land"},
	{"workspace.validate", "repository.workspace.validate"},
	{"workspace.bump", "repository.workspace.bump"},
	{"workspace.push", "repository.workspace.push"},
	{"repair", "repository.repair"},
}

// Registry gives every kind with its operation, in the order of Kind (section 6).
func Registry() []KindEntry { return append([]KindEntry(nil), registry[:]...) }

// ParseKind reads a durable kind, like repository.build. The error is a refusal of
// kind.
func ParseKind(s string) (Kind, error) {
	for i := range registry {
		if registry[i].Kind == s {
			return Kind(i + 1), nil
		}
	}
	return 0, invalid("kind", "is not a registered kind")
}

// ParseOperation reads an operation, like build. The error is a refusal of
// operation.
func ParseOperation(s string) (Kind, error) {
	for i := range registry {
		if registry[i].Operation == s {
			return Kind(i + 1), nil
		}
	}
	return 0, invalid("operation", "is not a registered operation")
}

// Valid says whether k is registered.
func (k Kind) Valid() bool { return k >= 1 && int(k) <= len(registry) }

// String gives the durable kind, or an empty text if there is none.
func (k Kind) String() string {
	if !k.Valid() {
		return ""
	}
	return registry[k-1].Kind
}

// Operation gives the operation, or an empty text if there is none.
func (k Kind) Operation() string {
	if !k.Valid() {
		return ""
	}
	return registry[k-1].Operation
}
