package record

import "slices"

// PolicyTuple is one of the ten projections that older servers wrote into the
// message of their rollout check. A converter accepts exactly these and takes
// catalog and roles from here, never from the text (Binary DB v0, section 19.3).
type PolicyTuple struct {
	Catalog       []string // every suite, in byte order; a subject ordinal counts from 1 in it
	Blocking      []string // suites that block, in byte order
	Informational []string // suites that inform, in byte order
	Message       string   // exact message of the ci_rollout_phase check
}

var policyTuples = [...]PolicyTuple{
	{
		Catalog:  []string{"rust_core"},
		Blocking: []string{"rust_core"},
		Message:  "CI rollout phase 0 blocks `rust_core` and keeps none visible as non-blocking surfaces.",
	},
	{
		Catalog:  []string{"full_repo_contract"},
		Blocking: []string{"full_repo_contract"},
		Message:  "CI rollout phase 0 blocks `full_repo_contract` and keeps none visible as non-blocking surfaces.",
	},
	{
		Catalog:  []string{"full_repo_contract"},
		Blocking: []string{"full_repo_contract"},
		Message:  "CI rollout phase 0 blocks `full_repo_contract` and keeps none visible as non-blocking surfaces. Future promotions are modeled as phase1: `full_repo`.",
	},
	{
		Catalog:       []string{"package_smoke", "preflight", "recent_regression", "stable_smoke"},
		Blocking:      []string{"package_smoke", "preflight", "stable_smoke"},
		Informational: []string{"recent_regression"},
		Message:       "CI rollout phase 0 blocks `package_smoke`, `preflight`, `stable_smoke` and keeps `recent_regression` visible as non-blocking surfaces.",
	},
	{
		Catalog:       []string{"package_smoke", "preflight", "recent_regression", "stable_smoke", "task_batch"},
		Blocking:      []string{"package_smoke", "preflight", "stable_smoke"},
		Informational: []string{"recent_regression", "task_batch"},
		Message:       "CI rollout phase 0 blocks `preflight`, `stable_smoke`, `package_smoke` and keeps `recent_regression`, `task_batch` visible as non-blocking surfaces. Future promotions are modeled as phase1: `recent_regression`, `task_batch`, phase2: `full_repo`.",
	},
	{
		Catalog:       []string{"package_smoke", "preflight", "recent_regression", "stable_smoke", "task_batch", "tg1_required"},
		Blocking:      []string{"package_smoke", "preflight", "stable_smoke", "tg1_required"},
		Informational: []string{"recent_regression", "task_batch"},
		Message:       "CI rollout phase 0 blocks `preflight`, `stable_smoke`, `package_smoke`, `tg1_required` and keeps `recent_regression`, `task_batch` visible as non-blocking surfaces. Future promotions are modeled as phase1: `recent_regression`, `task_batch`, phase2: `full_repo`.",
	},
	{
		Catalog:       []string{"package_smoke", "preflight", "recent_regression", "stable_smoke", "task_batch", "tg1_required"},
		Blocking:      []string{"package_smoke", "preflight", "stable_smoke"},
		Informational: []string{"recent_regression", "task_batch", "tg1_required"},
		Message:       "CI rollout phase 0 blocks `preflight`, `stable_smoke`, `package_smoke` and keeps `recent_regression`, `task_batch`, `tg1_required` visible as non-blocking surfaces. Future promotions are modeled as phase1: `recent_regression`, `task_batch`, phase2: `full_repo`.",
	},
	{
		Catalog:       []string{"package_smoke", "preflight", "recent_regression", "stable_smoke", "task_batch", "tg1_required"},
		Blocking:      []string{"package_smoke", "preflight", "stable_smoke"},
		Informational: []string{"recent_regression", "task_batch", "tg1_required"},
		Message:       "CI rollout phase 0 blocks `preflight`, `stable_smoke`, `package_smoke` and keeps `tg1_required`, `recent_regression`, `task_batch` visible as non-blocking surfaces. Future promotions are modeled as phase1: `recent_regression`, `task_batch`, phase2: `full_repo`.",
	},
	{
		Catalog:       []string{"package_smoke", "preflight", "recent_regression", "stable_smoke", "tg1_required"},
		Blocking:      []string{"package_smoke", "preflight", "stable_smoke"},
		Informational: []string{"recent_regression", "tg1_required"},
		Message:       "CI rollout phase 0 blocks `package_smoke`, `preflight`, `stable_smoke` and keeps `recent_regression`, `tg1_required` visible as non-blocking surfaces. Future promotions are modeled as phase1: `recent_regression`, `task_batch`, phase2: `full_repo`.",
	},
	{
		Catalog:       []string{"package_smoke", "preflight", "recent_regression", "stable_smoke", "tg1_required"},
		Blocking:      []string{"package_smoke", "preflight", "stable_smoke", "tg1_required"},
		Informational: []string{"recent_regression"},
		Message:       "CI rollout phase 0 blocks `package_smoke`, `preflight`, `stable_smoke`, `tg1_required` and keeps `recent_regression` visible as non-blocking surfaces. Future promotions are modeled as phase1: `recent_regression`, `task_batch`, phase2: `full_repo`.",
	},
}

// Tuples lists the ten tuples.
func Tuples() []PolicyTuple {
	list := slices.Clone(policyTuples[:])
	for i, t := range list {
		list[i].Catalog = slices.Clone(t.Catalog)
		list[i].Blocking = slices.Clone(t.Blocking)
		list[i].Informational = slices.Clone(t.Informational)
	}
	return list
}

// MatchTuple finds the tuple with exactly this message whose catalog is exactly
// the given suites, each once and in any order.
func MatchTuple(message string, suites []string) (PolicyTuple, bool) {
	sorted := slices.Sorted(slices.Values(suites))
	for _, t := range Tuples() {
		if t.Message == message && slices.Equal(sorted, t.Catalog) {
			return t, true
		}
	}
	return PolicyTuple{}, false
}

// Suite gives the subject ordinal and the role of a suite of the tuple, as a
// ci_patchset_suite check stores them. It reports false for another suite.
func (t PolicyTuple) Suite(id string) (subject uint16, detail CheckDetail, ok bool) {
	i, ok := slices.BinarySearch(t.Catalog, id)
	if !ok {
		return 0, 0, false
	}
	detail.SetBlocking(slices.Contains(t.Blocking, id))
	detail.SetInformational(slices.Contains(t.Informational, id))
	return uint16(i + 1), detail, true
}
