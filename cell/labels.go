package cell

// The labels that records refer to (section 5).
const (
	ownerLabel    = "cell/local-private-database-owner/1"
	runtimeLabel  = "rune/bounded-machine/1"
	metricLabel   = "compute_steps"
	ruleLabel     = "cell/local-runtime/1:exclusive-private-store;local-durable;host-observed;full-history"
	executorLabel = "local-executor/manual-reconciliation/1"
	finalityLabel = "cell/local-authority/1"
)

// The media types of artifacts. They inform and decide nothing.
const (
	SourceMedia     = "application/x-rune"
	NounMedia       = "application/x-rune-noun"
	CheckpointMedia = "application/x-rune-checkpoint"
	TextMedia       = "text/plain"
)

// The entries of events (section 16). A change of the lifecycle has the name of the
// new one.
const (
	EntryMain     = "main"
	EntryReserve  = "$reserve"
	EntryRecover  = "$recover-budget"
	EntryYield    = "$yield"
	EntryAct      = "$act"
	EntryDenied   = "$denied"
	EntryAttempt  = "$attempt"
	EntryOutcome  = "$outcome"
	EntryComplete = "$complete"
	EntryFault    = "$fault"
)

// The fault texts that are not those of the machine. They are stored and never change.
const (
	faultBudget    = "runtime budget exhausted"
	faultCancelled = "cancelled by local authority"
	faultEvents    = "event subscriptions are unsupported by this local adapter"
	deniedReason   = "cell: Denied"
)

// The bounds of cells (section 17).
const (
	MaxActs = 256
	Slice   = 1000 // steps that are reserved at once, at most
)
