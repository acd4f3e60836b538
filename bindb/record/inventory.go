package record

import "slices"

// PayloadFile is a file of variable bytes, addressed by the locators of a record
// (Binary DB v0, section 3).
//
//bindb:order repository.bin repository_namespace.idx
//bindb:order task.bin change.bin patchset.bin attest.bin actor.bin review.bin policy.bin policy_check.bin waiver.bin land.bin snapshot_link.bin
//bindb:order task_change_index.bin task_patchset_index.bin task_attest_index.bin task_review_index.bin task_policy_index.bin task_waiver_index.bin task_land_index.bin task_snapshot_index.bin
//bindb:order change_patchset_index.bin change_land_index.bin change_snapshot_index.bin
//bindb:order patchset_attest_index.bin patchset_review_index.bin patchset_policy_index.bin patchset_waiver_index.bin
//bindb:order plan.bin plan_revision.bin plan_item.bin
//bindb:order line.bin snapshot.bin snapshot_parent_edge.bin blob.bin object_pack.bin object_pack_member.bin tree_pack.bin tree.bin tree_entry_range.bin tree_entry.bin
//bindb:order worker_job.bin worker_ready.idx worker_state.idx
//bindb:order actor_lookup.idx blob_id.idx line_name.idx manifest_hash.idx object_pack_id.idx snapshot_id.idx snapshot_parent_child.idx tree_id.idx tree_pack_id.idx
//bindb:order worker-leases.bin leases .worker_job.bin.update-journal .repository.bin.update-journal .worker_job.bin.append-intent
type PayloadFile struct {
	File    string `json:"file"`
	Family  string `json:"family"`
	Root    Root   `json:"root"`
	Doc     string `json:"doc"`
	Grammar string `json:"grammar"` // section 9; name[n] is n bytes of UTF-8, a name alone is the rest
}

var payloadFiles = []PayloadFile{
	{"repository_payload.bin", "registry", RootRegistry, "name of a Repository", "u16 n, name[n]"},
	{"task_payload.bin", "workflow", RootAuthority, "title and intent of a Task", "u16 n, title[n], intent"},
	{"change_payload.bin", "workflow", RootAuthority, "title of a Change", "title"},
	{"patchset_summary_payload.bin", "workflow", RootAuthority, "summary of a Patchset", "summary"},
	{"actor_payload.bin", "workflow", RootAuthority, "identity of an Actor", "u8 n, u8 i, u8 e, user_name[n], user_id[i], email[e], memo"},
	{"review_payload.bin", "workflow", RootAuthority, "text of a Review", "text, may be empty"},
	{"waiver_payload.bin", "workflow", RootAuthority, "reason of a Waiver", "reason"},
	{"snapshot_link_payload.bin", "workflow", RootAuthority, "names behind a Snapshot link", "u16 w, u16 l, u16 t, u16 c, u16 a, worktree_name[w], line_name[l], task_id[t], change_id[c], author_mode[a], model_name"},
	{"plan_payload.bin", "plan", RootAuthority, "title of a Plan", "title"},
	{"plan_revision_payload.bin", "plan", RootAuthority, "title, summary and artifact of a Plan revision", "u16 t, u16 s, u16 p, u16 q, u16 h, title_snapshot[t], summary[s], artifact_path[p], artifact_selector[q], artifact_heading[h], artifact_blob_id"},
	{"plan_item_payload.bin", "plan", RootAuthority, "reference, text and headings of a Plan item", "u16 r, u16 t, u16 count, plan_item_ref[r], text[t], then count times: u16 h, heading[h]"},
	{"line_name_payload.bin", "content", RootAuthority, "name of a Line", "name"},
	{"snapshot_payload.bin", "content", RootAuthority, "message and Line name of a Snapshot", "u16 n, message[n], line_name"},
	{"tree_name_payload.bin", "content", RootAuthority, "names in a Tree; entries may share ranges", "name"},
}

// PayloadFiles lists the payload files of both roots.
func PayloadFiles() []PayloadFile { return slices.Clone(payloadFiles) }

// Files lists the .bin files that a root must have, fixed families first
// (sections 3.1 and 3.2). An empty family is a header without records.
func Files(root Root) []string {
	var files []string
	for _, l := range layouts {
		if l.Root == root && (l.Kind == KindRecord || l.Kind == KindChain) {
			files = append(files, l.File)
		}
	}
	for _, p := range payloadFiles {
		if p.Root == root {
			files = append(files, p.File)
		}
	}
	return files
}

// IndexFiles lists the .idx files that a root may have (sections 3.1 and 3.3).
func IndexFiles(root Root) []string {
	var files []string
	for _, l := range layouts {
		if l.Root == root && l.Kind == KindIndex {
			files = append(files, l.File)
		}
	}
	return files
}

// Forbidden lists file names that the format singles out as never allowed in a
// root (section 3.4). Undeclared .bin and .idx files are refused anyway; these
// names deserve an error that says more. In an authority root every name that
// ends in ForbiddenSuffix is forbidden too.
func Forbidden(root Root) []string {
	switch root {
	case RootRegistry:
		return []string{
			"operational_public_sequence.bin", "operational_payload.bin",
			"worker_job.bin", "worker_ready.idx", "worker_state.idx",
		}
	case RootAuthority:
		return []string{
			"job.bin", "ci.bin",
			"worker_job_payload.bin", "worker_job_input_payload.bin", "worker_job_request_payload.bin",
			"worker_job_result_payload.bin", "worker_job_error_payload.bin", "worker_job_lease_owner_payload.bin",
			"patchset_payload.bin", "attest_payload.bin", "policy_payload.bin", "land_payload.bin",
			"change_lifecycle.bin", "land_target_line.bin", "task_close.bin",
		}
	}
	return nil
}

// ForbiddenSuffix ends the names of forbidden head files.
const ForbiddenSuffix = "_head.bin"

// Lock files. They have no header, and their content is diagnostic only
// (section 12.6).
const (
	RegistryLock = "01-registry.lock"     // in the registry root
	QueueLock    = "worker-queue.lock"    // in an authority root
	LockDir      = ".locks"               // in an authority root
	WriteLockDir = LockDir + "/binary-db" // holds the locks of WriteLocks
)

// WriteLocks lists the lock files below WriteLockDir in the order in which they
// are taken.
func WriteLocks() []string {
	return []string{
		"global.write.lock", "recovery-admission.lock", "server-content.write.lock", "server-plan.write.lock",
		"server-queue.write.lock", "server-repository-pack.write.lock", "server-workflow.write.lock",
	}
}

// Temporaries lists the names of recovery files that an interrupted mutation may
// leave in a root (sections 12.4, 12.5 and 17.6). They are not authority, and
// recovery removes them after it has used them.
func Temporaries(root Root) []string {
	switch root {
	case RootRegistry:
		return []string{
			".repository.bin.rewrite", ".repository.bin.update-journal", ".repository.bin.append-intent",
			".repository_namespace.idx.rebuild",
		}
	case RootAuthority:
		return append([]string{
			".worker_job.bin.rewrite", ".worker_job.bin.update-journal", ".worker_job.bin.update-staging", ".worker_job.bin.append-intent",
			".worker_ready.idx.rebuild", ".worker_state.idx.rebuild",
			".repository-purge.journal.json", ".repository-purge.patchset.before", ".repository-purge.worker-job.before",
		}, WriteJournals()...)
	}
	return nil
}

// WriteJournals lists the rollback journals that other implementations keep in
// an authority root, one for each write scope (section 12.5).
func WriteJournals() []string {
	return []string{
		"global.write.journal", "server-workflow.write.journal", "server-plan.write.journal", "server-queue.write.journal",
		"server-repository-pack.write.journal", "server-content.write.journal", "server-task-start.write.journal",
		"server-land.write.journal", "server-remote-sync-commit.write.journal",
	}
}
