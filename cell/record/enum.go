package record

// A domain is a set of variants without fields: records of schemas
// `cell/NAME/WORD/1` that are constants (section 4).
type domain struct {
	name  string
	words []string // the value of words[i] is i+1; 0 is no variant
	first int      // the place of the schema of words[0] among schemaNames
}

var (
	lifecycles    = &domain{"lifecycle", []string{"installed", "active", "paused", "retiring", "retired"}, 0}
	inboxStatuses = &domain{"inbox-status", []string{"admitted", "suspended", "completed", "cancelled"}, 0}
	stages        = &domain{"operation-stage", []string{"pending", "attempt-recorded", "resolved"}, 0}
	behaviors     = &domain{"entry", []string{"event"}, 0}
	profileKinds  = &domain{"profile", []string{"runtime"}, 0}
	overflows     = &domain{"overflow", []string{"reject"}, 0}
	triggers      = &domain{"trigger", []string{"scheduler-yield"}, 0}
	targets       = &domain{"target", []string{"local-executor"}, 0}
	retries       = &domain{"retry", []string{"never"}, 0}
	dispositions  = &domain{"outcome", []string{"succeeded", "failed-definite"}, 0}
)

// domains are all of them, in the order of the contract.
var domains = []*domain{
	lifecycles, inboxStatuses, stages, behaviors, profileKinds, overflows, triggers, targets, retries, dispositions,
}

// maxSchemas is a bound of the number of schemas.
const maxSchemas = 64

// schemaNames are the names of all schemas in the order of the contract: records,
// variants without fields, the variant with one, and those without records.
var schemaNames, schemaPlaces = func() (names []string, places map[string]int) {
	for _, r := range records[Particle]() {
		names = append(names, r.Schema())
	}
	for _, d := range domains {
		d.first = len(names)
		for _, w := range d.words {
			names = append(names, d.schema(w))
		}
	}
	names = append(names, operationResult, NounArtifact, Checkpoint)
	places = make(map[string]int, len(names))
	for i, name := range names {
		places[name] = i
	}
	return names, places
}()

// mustSchema is the place of a schema that the suite declares.
func mustSchema(name string) int {
	i, ok := schemaPlaces[name]
	if !ok {
		panic("record: the suite has no schema " + name)
	}
	return i
}

func (d *domain) schema(word string) string { return "cell/" + d.name + "/" + word + "/1" }

func (d *domain) word(v uint8) string {
	if v == 0 || int(v) > len(d.words) {
		return "no " + d.name
	}
	return d.words[v-1]
}

// Lifecycle is what a cell may do.
type Lifecycle uint8

// The lifecycles.
const (
	Installed Lifecycle = iota + 1
	Active
	Paused
	Retiring
	Retired
)

func (l Lifecycle) String() string { return lifecycles.word(uint8(l)) }

// InboxStatus is what became of an input.
type InboxStatus uint8

// The states of an input.
const (
	Admitted InboxStatus = iota + 1 // declared, but never written (section 15.3)
	Suspended
	Completed
	Cancelled
)

func (s InboxStatus) String() string { return inboxStatuses.word(uint8(s)) }

// Stage is how far an operation has come.
type Stage uint8

// The stages.
const (
	Pending Stage = iota + 1
	AttemptRecorded
	Resolved
)

func (s Stage) String() string { return stages.word(uint8(s)) }

// Behavior is what an entry is called by.
type Behavior uint8

// OnEvent is the only behavior.
const OnEvent Behavior = 1

func (b Behavior) String() string { return behaviors.word(uint8(b)) }

// ProfileKind is what a profile describes.
type ProfileKind uint8

// RuntimeProfile is the only kind.
const RuntimeProfile ProfileKind = 1

func (k ProfileKind) String() string { return profileKinds.word(uint8(k)) }

// Overflow is what happens to work over a limit.
type Overflow uint8

// Reject is the only policy.
const Reject Overflow = 1

func (o Overflow) String() string { return overflows.word(uint8(o)) }

// Target is who performs an operation.
type Target uint8

// LocalExecutor is the only target.
const LocalExecutor Target = 1

func (t Target) String() string { return targets.word(uint8(t)) }

// Retry is whether an operation may be tried again.
type Retry uint8

// NeverRetry is the only policy.
const NeverRetry Retry = 1

func (r Retry) String() string { return retries.word(uint8(r)) }

// Disposition is how an operation has ended.
type Disposition uint8

// The dispositions.
const (
	Succeeded Disposition = iota + 1
	FailedDefinite
)

func (d Disposition) String() string { return dispositions.word(uint8(d)) }
