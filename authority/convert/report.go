package convert

import "fmt"

// ReportSchema names the JSON form of a Report.
const ReportSchema = "writ.db-conversion.v1"

// Report is what a conversion did.
type Report struct {
	Schema string `json:"schema"`
	From   string `json:"from"`   // kind of the source
	Source string `json:"source"` // directory
	DryRun bool   `json:"dry_run"`
	// Target is the data directory of the new installation, with its id and the
	// generation that holds the result; empty and 0 in a dry run.
	Target       string `json:"target"`
	Installation string `json:"installation"`
	Generation   uint64 `json:"generation"`
	// Inventory is what was read; its digest tells one source from another.
	Inventory InventoryReport `json:"inventory"`
	// Registry has the families of the registry.
	Registry []FamilyCount `json:"registry"`
	// Repositories are in order of index.
	Repositories []RepositoryReport `json:"repositories"`
	// Gates lists where a rule was set aside.
	Gates []GateUse `json:"gates"`
	// Omitted lists what a salvage left out.
	Omitted []Omission `json:"omitted"`
	// Warnings says what else a person should know, one sentence each.
	Warnings []string `json:"warnings"`
}

// InventoryReport sums up the files of a source.
type InventoryReport struct {
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // of a line for each file: its sum, length and path
}

// FamilyCount is how many records a family has, or how many bytes behind the
// header for a payload file.
type FamilyCount struct {
	File    string `json:"file"`
	Records uint32 `json:"records"`
	Bytes   int64  `json:"bytes"` // length of the file
}

// RepositoryReport is one Repository of the target. Empty families are left out.
type RepositoryReport struct {
	Index     uint32        `json:"index"`
	Name      string        `json:"name"`
	Lifecycle string        `json:"lifecycle"`
	Families  []FamilyCount `json:"families"`
	// Synthesised are the files that the source did not have; they are empty.
	Synthesised []string `json:"synthesised"`
}

// GateUse is a rule that was set aside for one record.
type GateUse struct {
	Gate       string `json:"gate"`
	Repository uint32 `json:"repository"`
	Identity   string `json:"identity"`
}

// Omission is a record that was left out.
type Omission struct {
	Repository uint32 `json:"repository"`
	Identity   string `json:"identity"`
	Reason     string `json:"reason"`
}

func newReport(from, dir string) *Report {
	return &Report{
		Schema: ReportSchema, From: from, Source: dir,
		Registry: []FamilyCount{}, Repositories: []RepositoryReport{}, Gates: []GateUse{}, Omitted: []Omission{}, Warnings: []string{},
	}
}

func (r *Report) read(inv inventory) {
	r.Inventory = InventoryReport{len(inv), inv.bytes(), inv.digest()}
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}
