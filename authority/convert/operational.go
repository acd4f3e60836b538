package convert

import (
	"cmp"
	"slices"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

const (
	operationalPath = "operational.json"
	// orderSchema names the document that fixes the indexes of Repositories.
	orderSchema = "ait.server.postgres_to_binary_v0.repository_order.v1"
	// defaultLine is the only default Line that there is.
	defaultLine = "main"
	// docsOnly is the only content class with relaxed checks.
	docsOnly = "docs_only"
)

// registryRows turns the operational tables into the registry and hands out the
// Jobs (section 19.4).
type registryRows struct {
	doc operational

	im           *image
	repositories []registeredRow // by index
}

// registeredRow is a Repository with its record and its Jobs.
type registeredRow struct {
	row  *repositoryRow
	at   place
	rec  record.Repository
	jobs []ranked[jobRow]
}

// build orders the Repositories, as order says if it is there, and appends their
// records.
func (r *registryRows) build(order *repositoryOrder, orderPath string) error {
	r.im = newImage()
	byID := map[string]int{}
	for i := range r.doc.Repositories {
		row, p := &r.doc.Repositories[i], place{operationalPath, "repositories", i}
		if other, ok := byID[row.RepoID]; ok || row.RepoID == "" {
			if row.RepoID == "" {
				return p.bad("repo_id", "is empty")
			}
			return p.bad("repo_id", "is %.60q, which repositories[%d] has too", row.RepoID, other)
		}
		byID[row.RepoID] = i
		r.repositories = append(r.repositories, registeredRow{row: row, at: p})
	}
	if err := r.reserved(); err != nil {
		return err
	}
	if err := r.arrange(order, orderPath); err != nil {
		return err
	}
	live := map[record.Namespace]place{}
	for i := range r.repositories {
		if err := r.repositories[i].convert(live); err != nil {
			return err
		}
		if err := r.add(&r.repositories[i]); err != nil {
			return err
		}
		byID[r.repositories[i].row.RepoID] = i // by index from here on
	}
	return r.handOut(byID)
}

// reserved checks that each of the four fixed names is there exactly once.
func (r *registryRows) reserved() error {
	for _, name := range record.ReservedRepositories {
		first := -1
		for i, repo := range r.repositories {
			if repo.row.RepoName != name {
				continue
			}
			if first >= 0 {
				return repo.at.bad("repo_name", "is %s, which repositories[%d] has too; a reserved name is there exactly once", name, first)
			}
			first = i
		}
		if first < 0 {
			return sourcef(operationalPath, "has no Repository %s, one of the four reserved names", name)
		}
	}
	return nil
}

// reservedIndex is the fixed index of a name, or the number of them.
func reservedIndex(name string) int {
	if i := slices.Index(record.ReservedRepositories[:], name); i >= 0 {
		return i
	}
	return len(record.ReservedRepositories)
}

// arrange puts the reserved Repositories first and the others in the byte order
// of their ids, or takes the order of the document.
func (r *registryRows) arrange(order *repositoryOrder, path string) error {
	if order == nil {
		slices.SortFunc(r.repositories, func(a, b registeredRow) int {
			return cmp.Or(cmp.Compare(reservedIndex(a.row.RepoName), reservedIndex(b.row.RepoName)), cmp.Compare(a.row.RepoID, b.row.RepoID))
		})
		return nil
	}
	if order.Schema != orderSchema {
		return sourcef(path, "has the schema %.80q, want %s", order.Schema, orderSchema)
	}
	rank := map[string]int{}
	for i, id := range order.RepoIDs {
		p := place{path, "repo_ids", i}
		if other, ok := rank[id]; ok {
			return sourcef(path, "repo_ids[%d] is %.60q, which repo_ids[%d] is too", p.row, id, other)
		}
		if !slices.ContainsFunc(r.repositories, func(x registeredRow) bool { return x.row.RepoID == id }) {
			return sourcef(path, "repo_ids[%d] is %.60q, which no row of repositories has", p.row, id)
		}
		rank[id] = i
	}
	for _, x := range r.repositories {
		at, ok := rank[x.row.RepoID]
		if !ok {
			return x.at.bad("repo_id", "is %.60q, which %s does not order", x.row.RepoID, path)
		}
		if fixed := reservedIndex(x.row.RepoName); fixed < len(record.ReservedRepositories) && at != fixed {
			return sourcef(path, "repo_ids[%d] is %.60q, whose name %s has the fixed index %d", at, x.row.RepoID, x.row.RepoName, fixed)
		}
	}
	slices.SortFunc(r.repositories, func(a, b registeredRow) int { return cmp.Compare(rank[a.row.RepoID], rank[b.row.RepoID]) })
	return nil
}

// convert fills in the record. live holds the namespaces of Repositories that are
// not purged.
func (x *registeredRow) convert(live map[record.Namespace]place) (err error) {
	row, p := x.row, x.at
	if row.DefaultLine != defaultLine {
		return p.bad("default_line", "is %.60q, want %s", row.DefaultLine, defaultLine)
	}
	if row.Namespace != nil {
		if x.rec.Namespace, err = parsed(p, "namespace", *row.Namespace, record.ParseNamespace); err != nil {
			return err
		}
	}
	if x.rec.Lifecycle, err = parsed(p, "lifecycle", row.Lifecycle, record.ParseLifecycle); err != nil {
		return err
	}
	if x.rec.Lifecycle != record.LifecyclePurged && x.rec.Namespace != (record.Namespace{}) {
		if other, ok := live[x.rec.Namespace]; ok {
			return p.bad("namespace", "is %s, which repositories[%d] has too", x.rec.Namespace, other.row)
		}
		live[x.rec.Namespace] = p
	}
	if x.rec.PolicyFlags, err = policyFlags(p, &row.Policy); err != nil {
		return err
	}
	if x.rec.CreatedAt, err = p.required("created_at", row.CreatedAt); err != nil {
		return err
	}
	if x.rec.UpdatedAt, err = p.required("updated_at", row.UpdatedAt); err != nil {
		return err
	}
	if x.rec.UpdatedAt < x.rec.CreatedAt {
		return p.bad("updated_at", "is %s, before created_at", x.rec.UpdatedAt)
	}
	return nil
}

func (r *registryRows) add(x *registeredRow) error {
	off, n, err := r.im.text(bindb.RepositoryPayload, &record.RepositoryPayload{Name: x.row.RepoName})
	if err != nil {
		return x.at.bad("repo_name", "cannot be kept: %v", err)
	}
	x.rec.PayloadOffset, x.rec.PayloadLen = off, uint32(n)
	_, err = add(r.im, &x.rec)
	return x.at.refuse(err)
}

// policyFlags reads the policy of a Repository. Requirements that it does not
// state have their defaults, and so has the relaxation for documentation.
func policyFlags(p place, row *policyRow) (record.PolicyFlags, error) {
	if row.PolicyID != policyID {
		return 0, p.bad("policy.policy_id", "is %.60q, want %s", row.PolicyID, policyID)
	}
	if row.Version != nil && *row.Version != 1 {
		return 0, p.bad("policy.version", "is %d, want 1", *row.Version)
	}
	d := policyDefaultsRow{}
	if row.Defaults != nil {
		d = *row.Defaults
	}
	or := func(set *bool, standard bool) bool {
		if set != nil {
			return *set
		}
		return standard
	}
	var f record.PolicyFlags
	f.SetRequireAttestation(or(d.Attestation, true))
	f.SetRequireTests(or(d.Tests, true))
	f.SetRequireLint(or(d.Lint, false))
	f.SetRequireSecurityScan(or(d.SecurityScan, false))
	f.SetRequireLicenseScan(or(d.LicenseScan, false))
	f.SetRequireAIProvenance(or(d.AIProvenance, false))
	f.SetRequireCodeReviewSummary(or(d.ReviewSummary, false))
	switch {
	case row.Overrides == nil:
		f.SetDocsOnlyRelaxedChecks(true)
	case len(*row.Overrides) == 0:
	case len(*row.Overrides) > 1:
		return 0, p.bad("policy.class_overrides", "has %d elements, want none or the one for %s", len(*row.Overrides), docsOnly)
	default:
		o := (*row.Overrides)[0]
		if o.When.ContentClass != docsOnly {
			return 0, p.bad("policy.class_overrides[0].when.content_class", "is %.60q, want %s", o.When.ContentClass, docsOnly)
		}
		if o.Set != (overrideSetRow{}) {
			return 0, p.bad("policy.class_overrides[0].set", "has a requirement that is true, want all four false")
		}
		f.SetDocsOnlyRelaxedChecks(true)
	}
	return f, nil
}

// handOut gives the Jobs to their Repositories, which are found by id.
func (r *registryRows) handOut(index map[string]int) error {
	seen := map[uint64]int{}
	for i := range r.doc.Jobs {
		row, p := &r.doc.Jobs[i], place{operationalPath, "jobs", i}
		if other, ok := seen[row.JobID]; ok {
			return p.bad("job_id", "is %d, which jobs[%d] has too", row.JobID, other)
		}
		seen[row.JobID] = i
		at, ok := index[row.RepoID]
		if !ok {
			return p.bad("repo_id", "is %.60q, which no row of repositories has", row.RepoID)
		}
		x := &r.repositories[at]
		if x.rec.Lifecycle == record.LifecyclePurged {
			return p.bad("repo_id", "is %.60q, which is purged: it cannot have Jobs that are not tombstoned, and a conversion makes no tombstones", row.RepoID)
		}
		x.jobs = append(x.jobs, ranked[jobRow]{row: row, at: p})
	}
	return nil
}
