package cli

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/convert"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/store"
	"github.com/writ-authority/writ/gate"
	"github.com/writ-authority/writ/gate/suite"
	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/internal/backup"
	"github.com/writ-authority/writ/internal/planfile"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
	"github.com/writ-authority/writ/server"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/postgres"
	"github.com/writ-authority/writ/workitem/sqlite"
	"github.com/writ-authority/writ/workitem/transfer"
)

// The exit codes of every command.
const (
	exitOK          = 0
	exitRefused     = 1 // by policy or state
	exitUsage       = 2 // wrong use
	exitNotFound    = 3
	exitConflict    = 4
	exitAuth        = 5
	exitUnavailable = 6 // busy, full disk, read-only, I/O
	exitCorrupt     = 7
	exitInterrupted = 130
)

// errBlocked ends a command whose report has said everything already.
var errBlocked = errors.New("blocked")

// errNoJobs is returned where there is no work item authority.
var errNoJobs = errors.New("no jobs here")

// usageError is a mistake in the command line itself.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// codes maps errors to exit codes and to the code of the JSON error. The first
// match counts.
var codes = []struct {
	err  error
	exit int
	name string
}{
	{gate.ErrInterrupted, exitInterrupted, "interrupted"},
	{context.Canceled, exitInterrupted, "interrupted"},
	{backup.ErrNewer, exitCorrupt, "newer_format"},
	{backup.ErrDamaged, exitCorrupt, "corrupt"},
	{backup.ErrNoBackup, exitNotFound, "no_backup"},
	{backup.ErrNothing, exitNotFound, "nothing_to_back_up"},
	{backup.ErrInside, exitUsage, "unsuitable_directory"},
	{workitem.ErrOccupied, exitConflict, "not_empty"},
	{workitem.ErrUnfinished, exitRefused, "import_unfinished"}, // in a database also an authority_unavailable
	{workitem.ErrInvalidRequest, exitUsage, "invalid_request"},
	{&workitem.Error{Code: workitem.PayloadTooLarge}, exitUsage, "payload_too_large"},
	{workitem.ErrUnauthenticated, exitAuth, "unauthenticated"},
	{workitem.ErrUnauthorizedTarget, exitAuth, "unauthorized_target"},
	{workitem.ErrForbiddenScope, exitAuth, "forbidden_scope"},
	{workitem.ErrNotFound, exitNotFound, "not_found"},
	{workitem.ErrDependencyUnavailable, exitNotFound, "dependency_unavailable"},
	{workitem.ErrDuplicateRequest, exitConflict, "duplicate_request"},
	{workitem.ErrStaleFence, exitConflict, "stale_fence_duplicate_effect"},
	{workitem.ErrClaimMismatch, exitConflict, "claim_mismatch"},
	{workitem.ErrInvalidState, exitRefused, "invalid_state_combination"},
	{workitem.ErrInFlight, exitRefused, "in_flight"},
	{workitem.ErrConsentDenied, exitRefused, "consent_denied"},
	{&workitem.Error{Code: workitem.TooManyRequests}, exitUnavailable, "too_many_requests"},
	{workitem.ErrAuthorityUnavailable, exitUnavailable, "authority_unavailable"},
	{workitem.ErrInternal, exitCorrupt, "internal_error"},
	{transfer.ErrFormat, exitUsage, "not_an_export"},
	{transfer.ErrNewer, exitCorrupt, "newer_format"},
	{transfer.ErrDamaged, exitCorrupt, "corrupt"},
	{transfer.ErrMiscounted, exitCorrupt, "corrupt"},
	{cell.ErrCommitUnknown, exitUnavailable, "commit-unknown"},
	{cell.ErrExport, exitUsage, "not_an_export"},
	{cell.ErrCorrupt, exitCorrupt, "corrupt"},
	{cell.ErrMissing, exitNotFound, "missing"},
	{cell.ErrConflict, exitConflict, "conflict"},
	{cell.ErrBusy, exitRefused, "busy"},
	{cell.ErrLifecycle, exitRefused, "lifecycle"},
	{cell.ErrDenied, exitRefused, "denied"},
	{cell.ErrUnknownOutcome, exitRefused, "unknown-outcome"},
	{cell.ErrBudget, exitRefused, "budget"},
	{cell.ErrUnsupported, exitRefused, "unsupported"},
	{cell.ErrRuntime, exitRefused, "runtime"},
	{cell.ErrSchema, exitCorrupt, "schema"},
	{cell.ErrLimit, exitUsage, "limit"},
	{cell.ErrInvalid, exitCorrupt, "invalid"},
	{convert.ErrDrift, exitConflict, "source_changed"},
	{convert.ErrSource, exitCorrupt, "refused_source"},
	{convert.ErrChoice, exitUsage, "no_such_conversion"},
	{gate.ErrLostContent, exitCorrupt, "lost_content"},
	{bindb.ErrCorrupt, exitCorrupt, "corrupt"},
	{bindb.ErrLayout, exitCorrupt, "unknown_layout"},
	{bindb.ErrForeign, exitCorrupt, "foreign"},
	{authority.ErrNewerFormat, exitCorrupt, "newer_format"},
	{suite.ErrConfig, exitUsage, "bad_configuration"},
	{planfile.ErrFormat, exitUsage, "bad_plan"},
	{rune.ErrSource, exitUsage, "bad_source"},
	{machine.ErrLimit, exitUsage, "usage"},
	{machine.ErrAct, exitUsage, "usage"},
	{machine.ErrFault, exitRefused, "fault"},
	{nox.ErrSyntax, exitUsage, "bad_noun"},
	{nox.ErrTruncated, exitUsage, "bad_artifact"},
	{nox.ErrTag, exitUsage, "bad_artifact"},
	{nox.ErrTrailing, exitUsage, "bad_artifact"},
	{nox.ErrNodes, exitUsage, "too_large"},
	{nox.ErrDepth, exitUsage, "too_large"},
	{nox.ErrNonCanonical, exitRefused, "not_canonical"},
	{nox.ErrHalt, exitRefused, "halt"},
	{nox.ErrMalformed, exitRefused, "fault"},
	{nox.ErrPattern, exitRefused, "fault"},
	{nox.ErrAxis, exitRefused, "fault"},
	{nox.ErrType, exitRefused, "fault"},
	{nox.ErrInverse, exitRefused, "fault"},
	{nox.ErrProvider, exitRefused, "fault"},
	{gate.ErrUsage, exitUsage, "usage"},
	{gitrepo.ErrUnknownRevision, exitUsage, "unknown_revision"},
	{gitrepo.ErrNotRepository, exitUsage, "not_a_repository"},
	{gitrepo.ErrShallow, exitUsage, "shallow"},
	{gitrepo.ErrNoIdentity, exitUsage, "no_identity"},
	{gitrepo.ErrUnmerged, exitUsage, "unmerged"},
	{gitrepo.ErrBare, exitUsage, "bare"},
	{gitrepo.ErrNoGit, exitUnavailable, "no_git"},
	{gitrepo.ErrOldGit, exitUnavailable, "old_git"},
	{authority.ErrUnsuitable, exitUsage, "unsuitable_directory"},
	{sqlite.ErrUnsuitable, exitUsage, "unsuitable_directory"},
	{sqlite.ErrLocked, exitUnavailable, "busy"},
	{server.ErrUsage, exitUsage, "bad_setting"},
	{server.ErrRunning, exitUnavailable, "server_running"},
	{syscall.EADDRINUSE, exitUnavailable, "address_in_use"},
	{sqlite.ErrUnwritable, exitUnavailable, "unwritable"},
	{sqlite.ErrCorrupt, exitCorrupt, "corrupt"},
	{sqlite.ErrForeign, exitCorrupt, "foreign"},
	{sqlite.ErrChangedSchema, exitCorrupt, "unknown_layout"},
	{sqlite.ErrNewerSchema, exitCorrupt, "newer_format"},
	{postgres.ErrURL, exitUsage, "bad_setting"},
	{postgres.ErrUnreachable, exitUnavailable, "authority_unavailable"},
	{postgres.ErrTooOld, exitUnavailable, "old_postgres"},
	{postgres.ErrUnsafe, exitUnavailable, "unsafe_postgres"},
	{postgres.ErrUnsuitable, exitUnavailable, "unsuitable_postgres"},
	{postgres.ErrForeign, exitCorrupt, "foreign"},
	{postgres.ErrChangedSchema, exitCorrupt, "unknown_layout"},
	{postgres.ErrNewerSchema, exitCorrupt, "newer_format"},
	{store.ErrCopied, exitCorrupt, "copied"},
	{authority.ErrNoAuthority, exitNotFound, "no_authority"},
	{errNoJobs, exitNotFound, "no_jobs"},
	{errNoCells, exitNotFound, "no_cells"},
	{authority.ErrNoBackup, exitNotFound, "no_backup"},
	{bindb.ErrNotFound, exitNotFound, "not_found"},
	{authority.ErrGeneration, exitConflict, "generation"},
	{authority.ErrExists, exitConflict, "exists"},
	{syscall.ENOTDIR, exitUsage, "unsuitable_directory"},
	{fs.ErrExist, exitConflict, "exists"},
	{authority.ErrLeaseHeld, exitConflict, "lease_held"},
	{authority.ErrLeaseLost, exitConflict, "lease_lost"},
	{authority.ErrConflict, exitConflict, "namespace_taken"},
	{authority.ErrState, exitRefused, "state"},
	{authority.ErrNotActive, exitRefused, "not_active"},
	{errBlocked, exitRefused, "blocked"},
	{errUnsound, exitCorrupt, "corrupt"},
	{bindb.ErrCapacity, exitRefused, "capacity"},
	{bindb.ErrTooLarge, exitUsage, "too_large"},
	{bindb.ErrInvalid, exitUsage, "invalid"},
	{record.ErrMalformed, exitCorrupt, "corrupt"}, // what a caller has malformed is invalid
	{bindb.ErrBusy, exitUnavailable, "busy"},
	{bindb.ErrReadOnly, exitUnavailable, "read_only"},
	{syscall.ENOSPC, exitUnavailable, "disk_full"},
	{syscall.EDQUOT, exitUnavailable, "disk_full"},
	{syscall.EROFS, exitUnavailable, "read_only"},
	{fs.ErrPermission, exitUnavailable, "permission"},
	{fs.ErrNotExist, exitNotFound, "no_such_file"},
	{cell.ErrStore, exitUnavailable, "store-failed"},
}

// codeOf returns the exit code of an error and its name.
func codeOf(err error) (int, string) {
	var u *usageError
	if errors.As(err, &u) {
		return exitUsage, "usage"
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.exit, c.name
		}
	}
	return exitUnavailable, "failed"
}

// adviceOf says what a person can do about an error, or "".
func adviceOf(err error) string {
	if a := gate.Advice(err); a != "" {
		return a
	}
	if errors.Is(err, workitem.ErrDuplicateRequest) {
		return duplicateAdvice(err)
	}
	if errors.Is(err, workitem.ErrInvalidRequest) {
		return requestAdvice(err)
	}
	for _, known := range []struct {
		err    error
		advice string
	}{
		{backup.ErrDamaged, "use another backup; nothing was changed"},
		{backup.ErrNoBackup, "`writ backup create` makes one; those of `writ db backup` are restored by `writ db restore`"},
		{backup.ErrNothing, "say where the data is with --data"},
		{backup.ErrNewer, "use the newer version of writ"},
		{nox.ErrHalt, "if it ends at all, let it take more with --steps"},
		{errNoJobs, "submit one with `writ job submit`, or say where the jobs are with --data or --server"},
		{workitem.ErrUnfinished, "repeat `writ job import`, which begins anew, or remove the store"},
		{workitem.ErrOccupied, "import into a store that is new"},
		{transfer.ErrFormat, "`writ job export` writes what can be imported"},
		{transfer.ErrDamaged, "export again; an import that was refused begins anew"},
		{transfer.ErrNewer, "use the newer version of writ"},
		{errNoCells, "make a cell with `writ cell create`, or say where the cells are with --data"},
		{cell.ErrCommitUnknown, "check the disk, then do the same again with the same nonce: the answer tells"},
		{cell.ErrCorrupt, "`writ cell verify` shows everything that is wrong; check the disk, then import the cells again or restore a copy"},
		{cell.ErrBusy, "`writ cell run` works it off, `writ cell show` tells what it waits for"},
		{cell.ErrDenied, "`writ cell cancel` ends the input; a cell that may act is made with --allow"},
		{cell.ErrUnknownOutcome, "find out what has happened, then record it with `writ cell settle`; `writ cell show` tells what"},
		{cell.ErrExport, "`writ cell export` writes what can be imported"},
		{sqlite.ErrLocked, "another command or a server has it open and does not let it go; try again, or stop that process"},
		{sqlite.ErrCorrupt, "check the disk, then restore a backup of the data directory"},
		{sqlite.ErrForeign, "choose another data directory with --data"},
		{sqlite.ErrNewerSchema, "use the newer version of writ"},
		{postgres.ErrURL, "name it as postgres://USER:PASSWORD@HOST:PORT/DATABASE in WRIT_JOBS_DB"},
		{postgres.ErrUnreachable, "check that it runs, and the host, the user, the password and the database of the URL"},
		{postgres.ErrForeign, "name another schema, with ?schema=NAME at the end of the URL"},
		{postgres.ErrNewerSchema, "use the newer version of writ"},
		{store.ErrCopied, "use the original, or copy it again while no process has it open"},
		{syscall.ENOTDIR, "choose a real directory on a local disk with --data"},
		{syscall.EADDRINUSE, "choose another address with --listen; port 0 takes a free one"},
		{sqlite.ErrUnsuitable, "choose a real directory on a local disk with --data"},
		{workitem.ErrDependencyUnavailable, "submit the parents first; their ids are what `writ job submit` prints"},
		{workitem.ErrStaleFence, "stop working on it: somebody else has the job, or may have it; `writ job get` shows who"},
		{workitem.ErrUnauthorizedTarget, "a request names the tenant and the owner of its caller; --tenant and --owner say who that is"},
		{workitem.ErrUnauthenticated, "put a token into WRIT_TOKEN; `writ token create` makes one"},
		{workitem.ErrForbiddenScope, "use a token that has the scope"},
		{authority.ErrNoAuthority, "run `writ gate` in a checkout to make it, or `writ repo add NAME --data DIR` without one"},
		{authority.ErrUnsuitable, "choose a real directory on a local disk with --data"},
		{authority.ErrGeneration, "run the command again"},
		{authority.ErrNotActive, "a retiring repository takes new work again after `writ repo activate`; a purged one never does"},
		{bindb.ErrBusy, "another command is writing; try again"},
		{syscall.ENOSPC, "make room on the disk; nothing that was recorded is lost"},
		{syscall.EROFS, "the file system is read-only; choose another data directory with --data"},
		{fs.ErrPermission, "check who owns the data directory, or choose another with --data"},
		{bindb.ErrReadOnly, "a sync failed; check the disk, then run the command again to recover"},
		{convert.ErrDrift, "stop the server that writes to the source, then convert again"},
		{convert.ErrSource, "nothing was converted; docs/conversion.md says what a source must look like"},
		{authority.ErrDamagedBackup, "use another backup; nothing was changed"},
		{authority.ErrDamagedActive, "put the active.json back that was there, or restore a backup into another directory"},
		{bindb.ErrCorrupt, "`writ db check --all` shows everything that is wrong; nothing is repaired by guessing"},
		{authority.ErrNewerFormat, "use the newer version of writ"},
	} {
		if errors.Is(err, known.err) {
			return known.advice
		}
	}
	return ""
}

// duplicateAdvice says in what a request differs from the one that has its key.
func duplicateAdvice(err error) string {
	const advice = "another job needs another idempotency key; the job that has this one was not changed"
	refusal := (*workitem.Error)(nil)
	if !errors.As(err, &refusal) {
		return advice
	}
	switch refusal.Differs {
	case "operation":
		return "the operation differs; " + advice
	case "projection":
		return "what it asks for differs; " + advice
	case "source_only":
		return "only how it was written differs, such as a default that is spelt out; send it as it was, or use another idempotency key"
	}
	return advice
}

// requestAdvice says how the commands give what a refused request lacks.
func requestAdvice(err error) string {
	refusal := (*workitem.Error)(nil)
	if !errors.As(err, &refusal) {
		return ""
	}
	switch refusal.Field {
	case "operation", "kind":
		return "`writ job kinds` lists all operations and kinds"
	case "consent.allow_push":
		return "consent with --allow-push, and with --risk MARKER"
	case "consent.allow_destructive_cleanup":
		return "consent with --allow-destructive-cleanup, and with --risk MARKER"
	}
	return ""
}
