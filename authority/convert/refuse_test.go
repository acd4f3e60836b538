package convert_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/convert"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// TestRefusedRows breaks the rows in one place each. Every rule that makes a
// conversion fail is here.
func TestRefusedRows(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	bytes64k := strings.Repeat("x", 1<<16)
	for _, c := range []struct {
		path  string // what is changed
		value any
		says  string // with the place
	}{
		// Documents.
		{"tasks[0].colour", "blue", "tasks[0].colour is unknown"},
		{"colour", "blue", "repositories/5.json: colour is unknown"},
		{"/colour", "blue", "operational.json: colour is unknown"},
		{"tasks[0].Title", "blue", "tasks[0].Title is unknown"},
		{"tasks", gone{}, "repositories/5.json has no tasks"},
		{"tasks", nil, "tasks is null, want an array"},
		{"tasks[0].title", gone{}, "tasks[0] has no title"},
		{"tasks[0].title", nil, "tasks[0].title is null, want a string"},
		{"tasks[0].title", 5, "tasks[0].title is a number, want a string"},
		{"tasks[0].task_seq", -1, "tasks[0].task_seq is a number, want an integer from 0"},
		{"tasks[0].task_seq", 1.5, "tasks[0].task_seq is a number that is no plain integer"},
		{"tasks[0].task_seq", "2", "tasks[0].task_seq is a string, want an integer"},
		{"tasks[0].task_seq", 1 << 32, "tasks[0].task_seq is 4294967296, want at most 4294967295"},
		{"patchsets[0].withdrawn", 1, "patchsets[0].withdrawn is a number, want true or false"},
		{"repo_id", "a-gadgets", "has the repo_id \"a-gadgets\", want \"b-widgets\""},

		// Times.
		{"tasks[0].created_at", "yesterday", "tasks[0].created_at is no time"},
		{"tasks[0].created_at", "1969-12-31T23:59:59Z", "tasks[0].created_at is no time"},
		{"tasks[0].created_at", "1970-01-01T00:00:00Z", "tasks[0].created_at is \"1970-01-01T00:00:00Z\", want null"},
		{"tasks[0].created_at", "2026-06-30T23:59:60Z", "leap second"},
		{"tasks[0].created_at", 1769904000, "tasks[0].created_at is a number, want an RFC 3339 time or null"},
		{"tasks[0].created_at", nil, "tasks[0].created_at is null, want a time"},
		{"tasks[0].updated_at", nil, "tasks[0].updated_at is null, want a time"},
		{"changes[0].created_at", nil, "changes[0].created_at is null, want a time"},
		{"changes[0].updated_at", nil, "changes[0].updated_at is null, want a time"},
		{"patchsets[0].created_at", nil, "patchsets[0].created_at is null, want a time"},
		{"waivers[0].created_at", nil, "waivers[0].created_at is null, want a time"},

		// Copies.
		{"tasks[0].repo_name", "gadgets", "tasks[0].repo_name is \"gadgets\", want \"widgets\""},
		{"tasks[0].repo_id", "a-gadgets", "tasks[0].repo_id"},
		{"changes[0].repo_id", "a-gadgets", "changes[0].repo_id"},
		{"patchsets[0].repo_name", "gadgets", "patchsets[0].repo_name"},
		{"attestations[0].repo_name", "gadgets", "attestations[0].repo_name"},
		{"reviews[0].repo_name", "gadgets", "reviews[0].repo_name"},
		{"policy_decisions[0].repo_id", "gadgets", "policy_decisions[0].repo_id"},
		{"waivers[0].repo_id", "gadgets", "waivers[0].repo_id"},
		{"lands[0].repo_id", "gadgets", "lands[0].repo_id"},

		// Tasks.
		{"tasks[0].task_id", "RT-0004", "tasks[0].task_id is \"RT-0004\", want T-0002"},
		{"tasks[0].task_id", "2", "tasks[0].task_id is no identity of a Task"},
		{"tasks[0].task_id", "RT-0002/C-01", "tasks[0].task_id is \"RT-0002/C-01\", want the full identity of a Task"},
		{"tasks[0].task_seq", 0, "tasks[0].task_seq is 0, want a number from 1"},
		{"tasks[0].status", "canceled", "tasks[0].status is canceled, which is refused unless the gate canceled-tasks"},
		{"tasks[0].status", "open", "tasks[0].status is \"open\", want active, completed or abandoned"},
		{"tasks[0].closed_at", "2026-02-01T00:00:09Z", "tasks[0].closed_at is a time, want null while the Task is active"},
		{"tasks[0].planning_state", "maybe", "tasks[0].planning_state is \"maybe\""},
		{"tasks[0].title", "", "tasks[0].title cannot be kept"},
		{"tasks[0].intent", "", "tasks[0].intent cannot be kept"},
		{"tasks[0].title", bytes64k, "tasks[0].title cannot be kept"},
		{"tasks[1].plan_item_ref", nil, "tasks[1].plan_item_ref is null"},
		{"tasks[1].origin_plan_revision_id", nil, "tasks[1].origin_plan_revision_id is null"},
		{"tasks[1].plan_linked_at", nil, "tasks[1].plan_linked_at is null"},
		{"tasks[1].planning_state", "unplanned", "tasks[1].planning_state is unplanned, but the Task is bound"},
		{"tasks[1].origin_plan_revision_id", "plan-revision:01", "want plan-revision: and an index"},
		{"tasks[1].origin_plan_revision_id", "plan-revision:2", "tasks[1].origin_plan_revision_id is plan-revision:2, but there are 2"},
		{"tasks[1].plan_item_ref", "twice", "tasks[1].plan_item_ref is \"twice\", which several items"},
		{"tasks[1].plan_item_ref", "paint", "tasks[1].plan_item_ref is \"paint\", which no item"},
		{"tasks[1].plan_id", "PR-1", "tasks[1].plan_id is \"PR-1\", want \"PR-0\""},
		{"tasks[0].plan_id", "PR-0", "tasks[0].origin_plan_revision_id is null, but"},

		// Changes.
		{"changes[0].task_id", "RT-0009", "changes[0].task_id is T-0009, which no row of tasks has"},
		{"changes[0].change_id", "C-65", "changes[0].change_id is \"C-65\""},
		{"changes[0].change_id", "C-00", "changes[0].change_id is \"C-00\""},
		{"changes[0].change_id", "P-01", "changes[0].change_id is \"P-01\""},
		{"changes[0].change_id", "RT-0001/C-01", "changes[0].change_id"},
		{"changes[0].change_ref", "RT-0002/C-02", "changes[0].change_ref is \"RT-0002/C-02\", want T-0002/C-01"},
		{"changes[3].change_id", "C-01", "changes[3].change_id has the number 1, which changes[0] has too"},
		{"changes[0].status", "open", "changes[0].status is \"open\""},
		{"changes[0].status", "landed", "changes[0].status is landed, but no Land of the Change has succeeded"},
		{"changes[0].archived_at", "2026-02-01T00:02:00Z", "changes[0].archived_at is a time, want null while the status is review"},
		{"changes[0].title", "", "changes[0].title cannot be kept"},
		{"changes[0].base_line", "trunk", "changes[0].base_line is \"trunk\", want the name of exactly one Line"},
		{"changes[0].base_line", "double", "changes[0].base_line is \"double\", want the name of exactly one Line"},
		{"changes[0].forked_from_line", "trunk", "changes[0].forked_from_line"},
		{"changes[0].fork_snapshot_id", "SNP-00000000000F", "changes[0].fork_snapshot_id is SNP-00000000000F, which the content"},
		{"changes[0].target_line", "trunk", "changes[0].target_line is \"trunk\""},
		{"changes[0].landed_at", "2026-02-01T00:02:00Z", "changes[0].landed_at is a time, but no Land"},
		{"changes[1].target_line", "paint", "changes[1].target_line is \"paint\", want \"main\""},
		{"changes[1].landed_at", "2026-02-01T00:02:00Z", "changes[1].landed_at is 2026-02-01T00:02:00Z, want 2026-02-01T00:03:00Z"},
		{"changes[1].selected_patchset_number", 3, "changes[1].selected_patchset_number is 3, but no row of patchsets is"},
		{"changes[1].selected_patchset_number", 65, "changes[1].selected_patchset_number is 65, want at most 64"},
		{"patchsets[2].withdrawn", true, "changes[1].selected_patchset_number is 1, but T-0001/C-01/P-01 is withdrawn or invalidated"},
		{"patchsets[2].invalidated", true, "changes[1].selected_patchset_number is 1, but T-0001/C-01/P-01 is withdrawn or invalidated"},
		{"changes[0].selected_patchset_id", "RT-0002/C-01/P-01", "changes[0].selected_patchset_id"},
		{"changes[3].selected_patchset_id", "RT-0002/C-02/P-01", "changes[3].selected_patchset_id is \"RT-0002/C-02/P-01\", want null"},
		{"changes[0].current_patchset_number", 1, "changes[0].current_patchset_number is 1, want 2"},
		{"changes[0].current_patchset_number", 0, "changes[0].current_patchset_number is 0, want 2"},
		{"changes[3].current_patchset_number", 1, "changes[3].current_patchset_number is 1, want 0"},

		// Patchsets.
		{"patchsets[0].patchset_id", "RT-0002/C-01/P-65", "patchsets[0].patchset_id is no identity"},
		{"patchsets[0].patchset_id", "C-01/P-02", "patchsets[0].patchset_id is \"C-01/P-02\", want the full identity of a Patchset"},
		{"patchsets[0].patchset_number", 1, "patchsets[0].patchset_number is 1, want 2"},
		{"patchsets[2].patchset_id", "RT-0001/C-09/P-01", "patchsets[2].patchset_id is T-0001/C-09/P-01, whose Change"},
		{"patchsets[0].change_ref", "RT-0001/C-01", "patchsets[0].change_ref"},
		{"patchsets[0].change_id", "C-02", "patchsets[0].change_id"},
		{"patchsets[1].author_mode", "robot", "patchsets[1].author_mode is refused"},
		{"patchsets[0].publish_state", "withdrawn", "patchsets[0].publish_state is \"withdrawn\""},
		{"patchsets[0].evaluation_state", "good", "patchsets[0].evaluation_state is refused"},
		{"patchsets[0].evaluation_state", "pass", "patchsets[0].evaluation_state is pass, but the latest decision is hard_fail"},
		{"patchsets[1].evaluation_state", "pass", "patchsets[1].evaluation_state is pass, but the Patchset has no decision"},
		{"patchsets[0].summary", "", "patchsets[0].summary cannot be kept"},
		{"patchsets[0].summary", bytes64k, "patchsets[0].summary cannot be kept"},
		{"patchsets[0].base_snapshot_id", "SNP-00000000000F", "patchsets[0].base_snapshot_id is SNP-00000000000F, which the content"},
		{"patchsets[0].revision_snapshot_id", "SNP-00000000000F", "patchsets[0].revision_snapshot_id is SNP-00000000000F, which the content"},
		{"patchsets[0].revision_snapshot_id", "SNP-000000000004", "patchsets[0].revision_snapshot_id is SNP-000000000004, whose Snapshot is tombstoned"},
		{"patchsets[0].revision_snapshot_id", "SNP-000000000005", "patchsets[0].revision_snapshot_id is SNP-000000000005, which several Snapshots"},
		{"patchsets[0].revision_snapshot_id", "3", "patchsets[0].revision_snapshot_id is no Snapshot"},
		{"patchsets[0].revision_snapshot_id", "SNP-000000000006", "patchsets[0].diff_stats cannot be compared"},
		{"patchsets[0].diff_stats.files_added", 2, "patchsets[0].diff_stats has 2 added, 1 deleted, 2 modified, 4 changed, but the Trees give 1, 1, 2, 4"},
		{"patchsets[0].diff_stats.files_changed", 5, "patchsets[0].diff_stats has"},
		{"patchsets[0].diff_stats.paths.added[0]", "sub/newer.txt", "patchsets[0].diff_stats.paths differs"},
		{"patchsets[1].diff_stats.files_modified", 0, "patchsets[1].diff_stats has 0 added, 0 deleted, 0 modified, 1 changed"},
		{"patchsets[0].ci_run_seq", 3, "patchsets[0].ci_run_seq is 3, but ci.run_seq is 2"},
		{"patchsets[0].ci_completed_at_s", 3, "patchsets[0].ci_completed_at_s is 3, but ci.completed_at is 1769904090"},
		{"patchsets[0].ci", nil, "patchsets[0].ci_run_seq is 2, but ci.run_seq is 0"},
		{"patchsets[0].ci.overall_status", "maybe", "patchsets[0].ci.overall_status is refused"},
		{"patchsets[0].ci.overall_status", nil, "patchsets[0]: ci_status_bits"},
		{"patchsets[0].ci.suite_result_count", 5, "patchsets[0]: ci_suite_result_count"},
		{"patchsets[0].ci.blocking_failure_count", 5, "patchsets[0]: ci_blocking_failure_count"},
		{"patchsets[0].ci.blocking_failure_count", 1 << 16, "patchsets[0].ci.blocking_failure_count is 65536, want at most 65535"},
		{"patchsets[1].ci.selected_suite_count", 5, "patchsets[1]: ci_selected_suite_count"},
		{"patchsets[1].ci.tests_status", "pass", "patchsets[1]: ci_status_bits"},

		// Attestations.
		{"attestations[0].change_id", "C-02", "attestations[0].change_ref is T-0002/C-02, which selects no Patchset"},
		{"changes[0].selected_patchset_number", nil, "attestations[0].change_ref is T-0002/C-01, which selects no Patchset"},
		{"changes[0].selected_patchset_number", 65, "attestations[0].change_ref is T-0002/C-01, which selects no Patchset"},
		{"changes[0].selected_patchset_number", 3, "attestations[0].change_ref selects T-0002/C-01/P-03, which no row of patchsets has"},
		{"attestations[0].change_id", "C-09", "attestations[0].change_ref is T-0002/C-09, which no row of changes has"},
		{"attestations[0].change_id", "nine", "attestations[0].change_id is \"nine\""},
		{"attestations[0].change_id", nil, "attestations[0].change_ref is null, and so is patchset_id"},
		{"attestations[0].change_ref", "RT-0001/C-01", "attestations[0].task_id is \"RT-0002\", want T-0001"},
		{"attestations[0].created_at", "2026-02-01T00:01:40Z", "attestations[0].created_at is a time, want null in a compact row"},
		{"attestations[0].author_mode", "human_only", "attestations[0].author_mode is \"human_only\", want \"ai_with_human_review\""},
		{"attestations[0].verification_state", "passed", "attestations[0].verification_state is refused"},
		{"attestations[2].attestation_id", "one", "attestations[2].attestation_id is \"one\", which attestations[0] has too"},
		{"attestations[2].patchset_id", "RT-0002/C-01/P-02", "attestations[2].patchset_id is T-0002/C-01/P-02, which attestations[0] is about too"},
		{"attestations[2].patchset_id", "RT-0002/C-01/P-03", "attestations[2].patchset_id is T-0002/C-01/P-03, which no row of patchsets has"},
		{"attestations[2].change_ref", "RT-0002/C-02", "attestations[2].change_ref"},

		// Actors and Reviews.
		{"reviews[0].reviewer", "", "reviews[0].reviewer is empty"},
		{"reviews[0].reviewer", nil, "reviews[0].reviewer is empty"},
		{"reviews[0].reviewer", long, "reviews[0].reviewer cannot be kept"},
		{"reviews[0].requested_groups", []any{"painters"}, "reviews[0].requested_groups has 1 groups, want none"},
		{"reviews[0].action", "approved", "reviews[0].action is refused"},
		{"reviews[0].created_at", nil, "reviews[1].created_at is known for some Reviews and null for others"},
		{"reviews[3].created_at", nil, "reviews[3].created_at is known for some"},
		{"reviews[0].created_at", "soon", "reviews[0].created_at is no time"},
		{"reviews[0].note", "Other.", "reviews[0].note and comment are both there"},
		{"reviews[0].comment", bytes64k, "reviews[0].comment cannot be kept"},
		{"reviews[0].patchset_id", "RT-0002/C-01/P-03", "reviews[0].patchset_id is T-0002/C-01/P-03, which no row"},
		{"reviews[0].task_id", "RT-0001", "reviews[0].task_id"},
		{"reviews[0].review_id", "R-00", "reviews[0].review_id is \"R-00\", want an identity that ends with R-01 to R-64"},
		{"reviews[0].review_id", "R-65", "reviews[0].review_id is \"R-65\""},
		{"reviews[0].review_id", "R-5", "reviews[0].review_id is \"R-5\""},
		{"reviews[0].review_id", "R-+5", "reviews[0].review_id is \"R-+5\""},
		{"reviews[0].review_id", "K-05", "reviews[0].review_id is \"K-05\""},
		{"reviews[0].review_id", "RT-0001/C-01/R-05", "reviews[0].review_id is \"RT-0001/C-01/R-05\", which belongs to something else"},
		{"reviews[0].review_id", "R-02", "reviews[1].review_id has the number 2, which reviews[0] has too"},
		{"reviews[1].requested_groups", []any{}, "reviews[1].requested_groups has 0 groups, want exactly one"},
		{"reviews[1].requested_groups", []any{"painters", "drillers"}, "reviews[1].requested_groups has 2 groups, want exactly one"},
		{"reviews[1].requested_groups", []any{""}, "reviews[1].requested_groups[0] is empty"},
		{"reviews[1].reviewer", "Painters", "reviews[1].reviewer is \"Painters\", want null or the requested group"},
		{"reviews[1].requested_groups", []any{long}, "reviews[1].reviewer is"},
		{"reviews[2].requested_groups", []any{long}, "reviews[2].requested_groups[0] cannot be kept"},

		// Policy decisions.
		{"policy_decisions[0].policy_id", "other", "policy_decisions[0].policy_id"},
		{"policy_decisions[0].patchset_id", "RT-0009/C-01/P-01", "policy_decisions[0].patchset_id"},
		{"policy_decisions[0].policy_decision_id", "POL-00", "policy_decisions[0].policy_decision_id is \"POL-00\""},
		{"policy_decisions[0].policy_decision_id", "POL-001", "policy_decisions[0].policy_decision_id is \"POL-001\""},
		{"policy_decisions[0].policy_decision_id", "D-01", "policy_decisions[0].policy_decision_id is \"D-01\""},
		{"policy_decisions[0].policy_decision_id", "K-01", "policy_decisions[1].policy_decision_id has the number 1, which policy_decisions[0] has too"},
		{"policy_decisions[0].decision", "fail", "policy_decisions[0].decision is refused"},
		{"policy_decisions[0].checks[0].status", "good", "policy_decisions[0].checks[0].status is refused"},
		{"policy_decisions[0].checks[0].name", "spelling", "policy_decisions[0].checks[0].name is refused"},
		{"policy_decisions[0].checks[0].name", "ci_patchset_suite", "policy_decisions[0].checks[0].name names no suite"},
		{"policy_decisions[0].checks[0].name", "tests", "policy_decisions[0].checks[1].name is \"tests\", which an earlier check has too"},
		{"policy_decisions[0].checks[0].name", "ci_rollout_phase", "policy_decisions[0].checks[2].name is ci_rollout_phase a second time"},
		{"policy_decisions[0].checks[0].name", "ci_patchset_suite_preflight", "policy_decisions[0].checks[3].name is \"ci_patchset_suite_preflight\" a second time"},
		{"policy_decisions[0].checks[0].name", "ci_patchset_suite_more", "policy_decisions[0].checks has the suites more, package_smoke"},
		{"policy_decisions[0].checks[6].name", "lint", "policy_decisions[0].checks has the suites package_smoke, preflight, recent_regression with the message"},
		{"policy_decisions[0].checks[2].message", "CI rollout phase 0", "none of the ten known projections"},
		{"policy_decisions[0].checks[2].message", nil, "policy_decisions[0].checks[2].message is null"},
		{"policy_decisions[0].checks[2].name", "lint", "policy_decisions[0].checks has suites without the check ci_rollout_phase"},
		{"policy_decisions[0].checks[2].subject_ordinal", 1, "policy_decisions[0].checks[2].subject_ordinal is 1, want 0"},
		{"policy_decisions[0].checks[3].subject_ordinal", 1, "policy_decisions[0].checks[3].subject_ordinal is 1, want 2"},
		{"policy_decisions[0].checks[3].detail_flags", 2, "policy_decisions[0].checks[3].detail_flags is 2, want 1"},
		{"policy_decisions[0].checks[4].detail_flags", 1, "policy_decisions[0].checks[4].detail_flags is 1, want 2"},
		{"policy_decisions[0].checks[1].detail_flags", 1, "policy_decisions[0].checks[1].detail_flags is 1, want 0"},

		// Waivers.
		{"waivers[0].rule_name", "tests", "waivers[0].rule_name is tests, which cannot be waived"},
		{"waivers[0].rule_name", "ci_patchset_suite", "waivers[0].rule_name is ci_patchset_suite, which cannot be waived"},
		{"waivers[0].rule_name", "ci_rollout_phase", "waivers[0].rule_name is ci_rollout_phase, which cannot be waived"},
		{"waivers[0].rule_name", "spelling", "waivers[0].rule_name is refused"},
		{"waivers[0].reason", "", "waivers[0].reason cannot be kept"},
		{"waivers[0].expires_at", "2026-02-01T00:02:10Z", "waivers[0].expires_at is 2026-02-01T00:02:10Z, want null or a time after created_at"},
		{"waivers[0].waiver_id", "w1", "waivers[1].waiver_id is \"w1\", which waivers[0] has too"},
		{"waivers[0].patchset_id", "RT-0002/C-01/P-03", "waivers[0].patchset_id"},
		{"waivers[0].change_id", "C-02", "waivers[0].change_id"},

		// Lands.
		{"lands[0].submission_id", "RT-0001/C-01/L-65", "lands[0].submission_id"},
		{"lands[0].submission_id", "RT-0002/C-01/L-02", "lands[0].submission_id is \"RT-0002/C-01/L-02\", which belongs to something else"},
		{"lands[0].land_seq", 1, "lands[0].land_seq is 1, want 2"},
		{"lands[1].submission_id", "L-02", "lands[1].submission_id has the number 2, which lands[0] has too"},
		{"lands[0].change_id", "C-03", "lands[0].change_id"},
		{"lands[0].patchset_id", "RT-0001/C-01/P-02", "lands[0].patchset_id is T-0001/C-01/P-02, which no row"},
		{"lands[0].target_line", "trunk", "lands[0].target_line"},
		{"lands[0].mode", "rebase", "lands[0].mode is refused"},
		{"lands[0].status", "done", "lands[0].status is refused"},
		{"lands[0].status", "failed", "lands[0].landed_snapshot_id and status disagree"},
		{"lands[0].landed_snapshot_id", nil, "lands[0].landed_snapshot_id and status disagree"},
		{"lands[0].landed_snapshot_id", "SNP-00000000000F", "lands[0].landed_snapshot_id is SNP-00000000000F"},
		{"lands[0].pre_land_target_snapshot_id", "SNP-00000000000F", "lands[0].pre_land_target_snapshot_id"},
		{"lands[0].failure_kind", "CONFLICT", "lands[0].failure_kind is CONFLICT, want null unless"},
		{"lands[1].failure_kind", "conflict", "lands[1].failure_kind is refused"},

		// Repositories.
		{"/repositories[4].default_line", "trunk", "repositories[4].default_line is \"trunk\", want main"},
		{"/repositories[4].namespace", "abc", "repositories[4].namespace is refused"},
		{"/repositories[4].namespace", "a b", "repositories[4].namespace is refused"},
		{"/repositories[4].namespace", "SE", "repositories[4].namespace is SE, which repositories[5] has too"},
		{"/repositories[4].lifecycle", "deleted", "repositories[4].lifecycle is refused"},
		{"/repositories[4].lifecycle", "purged", "jobs[0].repo_id is \"b-widgets\", which is purged"},
		{"/repositories[4].repo_name", "ait-core", "repositories[4].repo_name is ait-core, which repositories[1] has too"},
		{"/repositories[0].repo_name", "node", "operational.json has no Repository ait-node"},
		{"/repositories[4].repo_name", "", "repositories[4].repo_name cannot be kept"},
		{"/repositories[4].repo_name", bytes64k, "repositories[4].repo_name cannot be kept"},
		{"/repositories[4].repo_id", "a-gadgets", "repositories[5].repo_id is \"a-gadgets\", which repositories[4] has too"},
		{"/repositories[4].repo_id", "", "repositories[4].repo_id is empty"},
		{"/repositories[4].created_at", nil, "repositories[4].created_at is null"},
		{"/repositories[4].updated_at", nil, "repositories[4].updated_at is null"},
		{"/repositories[4].updated_at", "2025-01-01T00:00:00Z", "repositories[4].updated_at is 2025-01-01T00:00:00Z, before created_at"},
		{"/repositories[4].policy.policy_id", "other", "repositories[4].policy.policy_id is \"other\", want prototype"},
		{"/repositories[4].policy.version", 2, "repositories[4].policy.version is 2, want 1"},
		{"/repositories[4].policy.defaults.require_luck", true, "repositories[4].policy.defaults.require_luck is unknown"},
		{"/repositories[4].policy.defaults.require_lint", "yes", "repositories[4].policy.defaults.require_lint is a string"},
		{"/repositories[4].policy.class_overrides[0].when.content_class", "code_change", "want docs_only"},
		{"/repositories[4].policy.class_overrides[0].set.require_tests", true, "want all four false"},
		{"/repositories[4].policy.class_overrides[0].set.require_tests", gone{}, "policy.class_overrides[0].set has no require_tests"},
		{"/repositories[4].policy.class_overrides[0].set.require_attestation", false, "require_attestation is unknown"},
		{"/repositories[4].policy.class_overrides[1]", map[string]any{
			"when": map[string]any{"content_class": "docs_only"},
			"set":  map[string]any{"require_tests": false, "require_lint": false, "require_security_scan": false, "require_license_scan": false},
		}, "policy.class_overrides has 2 elements"},

		// Jobs.
		{"/jobs[0].job_id", 40, "jobs[1].job_id is 40, which jobs[0] has too"},
		{"/jobs[0].repo_id", "c", "jobs[0].repo_id is \"c\", which no row of repositories has"},
		{"/jobs[0].job_type", "agent.turn.submit", "jobs[0].job_type is agent.turn.submit, which is no durable Job"},
		{"/jobs[0].job_type", "patchset.cii", "jobs[0].job_type is refused"},
		{"/jobs[0].state", "running", "jobs[0].state is running"},
		{"/jobs[0].state", "claimed", "jobs[0].state is refused"},
		{"/jobs[6].locked_at", "2026-02-01T00:00:30Z", "jobs[6].locked_at is a time, want null"},
		{"/jobs[6].locked_by", "worker 1", "jobs[6].locked_by is a string, want null"},
		{"/jobs[0].request", map[string]any{}, "jobs[0].request is an object, want null"},
		{"/jobs[0].runner_context", []any{}, "jobs[0].runner_context is an array, want null"},
		{"/jobs[0].payload", false, "jobs[0].payload is a boolean, want null"},
		{"/jobs[0].error", "no", "jobs[0].error is \"no\", want null for a Job that has succeeded"},
		{"/jobs[5].error", nil, "jobs[5].error is null, want the error of a Job that has failed"},
		{"/jobs[5].result", map[string]any{"status": "skipped"}, "jobs[5].result is there, want null"},
		{"/jobs[6].error", "no", "jobs[6]: error_kind"}, // never claimed
		{"/jobs[0].attempt_count", 4, "jobs[0]: attempt_count"},
		{"/jobs[0].max_attempts", 0, "jobs[0]: max_attempts"},
		{"/jobs[0].max_attempts", 1 << 16, "jobs[0].max_attempts is 65536, want at most 65535"},
		{"/jobs[0].available_at", nil, "jobs[0].available_at is null"},
		{"/jobs[0].created_at", nil, "jobs[0].created_at is null"},
		{"/jobs[0].updated_at", nil, "jobs[0].updated_at is null"},
		{"/jobs[0].updated_at", "2026-01-01T00:00:00Z", "jobs[0]: updated_at_s"},
		{"/jobs[0].patchset_id", nil, "jobs[0]: patchset_index_plus1"},
		{"/jobs[0].patchset_id", "RT-0002/C-01/P-03", "jobs[0].patchset_id is T-0002/C-01/P-03, which no row"},
		{"/jobs[0].snapshot_id", "SNP-000000000001", "jobs[0]: snapshot_index_plus1"},
		{"/jobs[6].snapshot_id", "SNP-00000000000F", "jobs[6].snapshot_id is SNP-00000000000F"},
		{"/jobs[6].snapshot_id", nil, "jobs[6]: snapshot_index_plus1"},
		{"/jobs[4].patchset_id", "RT-0002/C-01/P-02", "jobs[4]: patchset_index_plus1"},
	} {
		t.Run(strings.ReplaceAll(fmt.Sprintf("%s=%.20v", c.path, c.value), "/", "_"), func(t *testing.T) {
			t.Parallel()
			r := newRows(t)
			r.set(c.path, c.value)
			sim, _, err := r.convert(nil)
			if !errors.Is(err, convert.ErrSource) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v\nwant %q", err, c.says)
			}
			if there, err := vfs.Exists(sim, "/data/active.json"); err != nil || there {
				t.Errorf("active.json is there: %v, %v", there, err)
			}
		})
	}
}

// TestRefusedRowFiles changes the files around the rows.
func TestRefusedRowFiles(t *testing.T) {
	t.Parallel()
	const five = "repositories/5"
	for _, c := range []struct {
		name   string
		change func(*rows)
		is     error
		says   string
	}{
		{"foreign file", func(r *rows) { r.docs["notes.json"] = 1 }, convert.ErrSource, "notes.json is no part of a source of rows"},
		{"foreign document", func(r *rows) { r.docs["repositories/five.json"] = 1 }, convert.ErrSource, "repositories/five.json is neither"},
		{"alias of an index", func(r *rows) { r.docs["repositories/05.json"] = 1 }, convert.ErrSource, "repositories/05.json is neither"},
		{"document too many", func(r *rows) { r.docs["repositories/6.json"] = 1 }, convert.ErrSource, "repositories/6.json belongs to no Repository"},
		{"content too many", func(r *rows) { r.content["repositories/6"] = widgetContent(r.t) }, convert.ErrSource, "repositories/6/blob.bin belongs to no Repository"},
		{"document missing", func(r *rows) { delete(r.docs, "repositories/4.json") }, convert.ErrSource, "repositories/4.json is missing: it has the rows of a-gadgets"},
		{"workflow family", func(r *rows) { r.content[five]["task.bin"] = []byte{1, 0, 0, 0} }, convert.ErrSource, five + "/task.bin is a family that is made from the rows"},
		{"job family", func(r *rows) { r.content[five]["worker_job.bin"] = []byte{1, 0, 0, 0} }, convert.ErrSource, five + "/worker_job.bin is a family"},
		{"unknown family", func(r *rows) { r.content[five]["tag.bin"] = []byte{1, 0, 0, 0} }, convert.ErrSource, five + "/tag.bin is not declared"},
		{"other layout", func(r *rows) { r.content[five]["line.bin"][0] = 2 }, convert.ErrSource, five + "/line.bin begins with 02 00 00 00"},
		{"torn family", func(r *rows) { r.content[five]["line.bin"] = r.content[five]["line.bin"][:30] }, convert.ErrSource, five + "/line.bin has 26 bytes behind its header"},
		{"family without its payload", func(r *rows) { delete(r.content[five], "line_name_payload.bin") }, bindb.ErrCorrupt, "line_name_payload.bin"},
		{"payload without its family", func(r *rows) { delete(r.content[five], "plan.bin") }, convert.ErrSource, five + "/plan.bin is missing, but " + five + "/plan_payload.bin has 10 bytes"},
		{"malformed Snapshot", func(r *rows) { r.content[five]["snapshot.bin"][4] = 0x40 }, record.ErrMalformed, "snapshot.bin record 0"},
		{"malformed Blob", func(r *rows) { r.content[five]["blob.bin"][5] = 9 }, record.ErrMalformed, "blob.bin record 0"},
		{"Tree that holds itself", func(r *rows) {
			b := r.content[five]["tree_entry.bin"]
			b[4+16*4+12] = 1 // sub in the base Tree is the base Tree
		}, bindb.ErrCorrupt, "nested"},
		{"names out of order", func(r *rows) {
			b := r.content[five]["tree_name_payload.bin"]
			copy(b[4+7:], "z.txt") // a.txt of the base Tree
		}, bindb.ErrCorrupt, "not sorted"},
		{"no operational tables", func(r *rows) { delete(r.docs, "operational.json") }, nil, "operational.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRows(t)
			c.change(r)
			_, _, err := r.convert(nil)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v\nwant %v with %q", err, c.is, c.says)
			}
		})
	}
}

// TestRefusedChoices asks for what a kind of source does not have.
func TestRefusedChoices(t *testing.T) {
	t.Parallel()
	for _, o := range []convert.Options{
		{From: "u64"},
		{},
		{From: convert.FromU32Time, Gates: []convert.Gate{convert.GateCanceledTasks}},
		{From: convert.FromU32Time, Salvage: true},
		{From: convert.FromU32Time, Order: "/order.json"},
	} {
		o.Source, o.FS = "/", vfs.NewSim()
		if _, err := convert.Convert(t.Context(), o, authority.Options{Dir: "/data", FS: o.FS}); !errors.Is(err, convert.ErrChoice) {
			t.Errorf("%+v: error %v, want %v", o, err, convert.ErrChoice)
		}
	}
	if _, err := convert.ParseGate("all"); !errors.Is(err, convert.ErrChoice) {
		t.Errorf("error %v, want %v", err, convert.ErrChoice)
	}
	for _, g := range convert.Gates() {
		if got, err := convert.ParseGate(string(g)); got != g || err != nil {
			t.Errorf("gate %s: %s, %v", g, got, err)
		}
	}
}

// TestLimits goes to the last ordinal of a scope and beyond it.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		add  func(r *rows, i int)
		last int
		says string
	}{
		{"waivers of a task", func(r *rows, i int) {
			r.set(fmt.Sprintf("waivers[%d]", i+1), map[string]any{
				"patchset_id": "RT-0002/C-01/P-01", "rule_name": "lint", "reason": "No.", "created_at": "2026-02-01T00:00:00Z",
			})
		}, 64, "has more than 64 Waivers of one Task"},
		{"policy checks", func(r *rows, i int) {
			r.set("policy_decisions[1].checks", slices.Repeat([]any{map[string]any{"name": "lint", "status": "pass"}}, i*1024))
		}, 0, "checks[1].name is \"lint\", which an earlier check has too"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRows(t)
			for i := 1; i < c.last; i++ {
				c.add(r, i)
			}
			if _, _, err := r.convert(nil); err != nil {
				t.Fatal(err)
			}
			c.add(r, max(c.last, 1))
			if _, _, err := r.convert(nil); !errors.Is(err, convert.ErrSource) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}
