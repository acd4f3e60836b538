// Package docs holds the documentation and the tests that keep it true.
package docs

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/convert"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate"
	"github.com/writ-authority/writ/gitrepo/gitrepotest"
	"github.com/writ-authority/writ/internal/cli"
	"github.com/writ-authority/writ/workitem"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain makes the test binary the program writ when it is called so.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "writ" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	flag.Parse()
	gitrepotest.Isolate()
	os.Exit(m.Run())
}

// member is one row of a table in cli-json.md.
type member struct {
	typ      string // string, integer, number, boolean, any, or the name of another table
	array    bool
	optional bool
	nullable bool
}

// contract is what cli-json.md says: the members of each document and object.
type contract map[string]map[string]member

var (
	heading = regexp.MustCompile("^### `([a-z0-9.-]+)`$")
	row     = regexp.MustCompile("^\\| `([a-z0-9_*-]+)(\\?)?` \\| `?([a-z-]+)`?(\\[\\])?( or null)? \\| .*\\|$")
)

func readContract(t *testing.T) contract {
	t.Helper()
	text, err := os.ReadFile("cli-json.md")
	if err != nil {
		t.Fatal(err)
	}
	c := contract{}
	name := ""
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "#") {
			name = ""
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			name = m[1]
			c[name] = map[string]member{}
			continue
		}
		if name == "" || !strings.HasPrefix(line, "| `") {
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("cli-json.md, %s: the row %q is malformed", name, line)
		}
		c[name][m[1]] = member{typ: m[3], array: m[4] != "", optional: m[2] != "", nullable: m[5] != ""}
	}
	for _, table := range c {
		if all, ok := table["*"]; ok {
			delete(table, "*")
			maps.Copy(table, c[all.typ])
		}
	}
	return c
}

// TestJSONContractNamesEveryMember compares the tables with the Go types that the
// documents are made from, in both directions.
func TestJSONContractNamesEveryMember(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	delete(c["writ.gate.v1"], "history") // added by writ show
	for _, x := range []struct {
		table string
		value any
	}{
		{"writ.gate.v1", gate.Report{}},
		{"change-history", gate.History{}},
		{"open-change", gate.OpenChange{}},
		{"health", gate.Health{}},
		{"policy-document", authority.PolicyDocument{}},
		{"record-layout", record.Layout{}},
		{"payload-file", record.PayloadFiles()[0]},
		{"record", record.Dumped{}},
		{"writ.db-export.v1", authority.ExportHeader{}},
		{"writ.db-conversion.v1", convert.Report{}},
	} {
		c.compare(t, x.table, reflect.TypeOf(x.value))
	}
	for table, body := range map[string]any{
		"writ.diffstat.v1":         gate.Diffstat{},
		"writ.job-handle.v1":       workitem.Handle{},
		"writ.job-view.v1":         workitem.View{},
		"writ.job-page.v1":         workitem.Page{},
		"writ.job-result.v1":       workitem.Result{},
		"writ.job-explain.v1":      workitem.Diagnostics{},
		"writ.job-history.v1":      workitem.History{},
		"writ.job-graph.v1":        workitem.Graph{},
		"writ.job-cancelled.v1":    workitem.Cancelled{},
		"writ.job-retry.v1":        workitem.RetryHandle{},
		"writ.job-claim.v1":        workitem.ClaimAnswer{},
		"writ.job-renewal.v1":      workitem.Renewal{},
		"writ.job-checkpointed.v1": workitem.Checkpointed{},
		"writ.job-settled.v1":      workitem.Settled{},
		"writ.job-consent.v1":      workitem.ConsentState{},
		"writ.job-reconciled.v1":   workitem.Reconciled{},
		"writ.job-pruned.v1":       workitem.Pruned{},
		"writ.job-epoch.v1":        workitem.EpochRaised{},
		"writ.job-stats.v1":        workitem.Stats{},
		"writ.job-kinds.v1":        workitem.Kinds{},
		"job-rows":                 workitem.Sizes{},
		"writ.token.v1":            workitem.NewToken{},
		"writ.tokens.v1":           workitem.TokenList{},
		"writ.token-entry.v1":      workitem.TokenEntry{},
	} {
		delete(c[table], "schema") // added by the command
		c.compare(t, table, reflect.TypeOf(body))
	}
}

func (c contract) compare(t *testing.T, table string, typ reflect.Type) {
	t.Helper()
	said, ok := c[table]
	if !ok {
		t.Errorf("cli-json.md has no table %s", table)
		return
	}
	seen := map[string]bool{}
	for _, f := range reflect.VisibleFields(typ) {
		tag, ok := f.Tag.Lookup("json")
		if !ok || !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		seen[name] = true
		m, ok := said[name]
		if !ok {
			t.Errorf("cli-json.md, %s: the member %s is missing", table, name)
			continue
		}
		if want := strings.Contains(options, "omitempty"); m.optional != want {
			t.Errorf("cli-json.md, %s: %s is optional: %v, in the program: %v", table, name, m.optional, want)
		}
		if want := f.Type.Kind() == reflect.Pointer && !m.optional; m.nullable != want {
			t.Errorf("cli-json.md, %s: %s may be null: %v, in the program: %v", table, name, m.nullable, want)
		}
		ft := f.Type
		for ft.Kind() == reflect.Pointer || ft.Kind() == reflect.Slice {
			if (ft.Kind() == reflect.Slice) != m.array && ft.Kind() == reflect.Slice {
				t.Errorf("cli-json.md, %s: %s is an array", table, name)
			}
			ft = ft.Elem()
		}
		if ft.Kind() == reflect.Map {
			if _, ok := c[m.typ]; !ok {
				t.Errorf("cli-json.md has no table %s", m.typ)
			}
		} else if ft.Kind() == reflect.Struct {
			c.compare(t, m.typ, ft)
		} else if want := jsonType(ft); m.typ != want {
			t.Errorf("cli-json.md, %s: %s is %s, in the program %s", table, name, m.typ, want)
		}
	}
	for name := range said {
		if !seen[name] {
			t.Errorf("cli-json.md, %s: the program knows no member %s", table, name)
		}
	}
}

func jsonType(t reflect.Type) string {
	if _, ok := reflect.Zero(t).Interface().(interface{ MarshalText() ([]byte, error) }); ok {
		return "string"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	case reflect.Interface:
		return "any"
	}
	return "integer"
}

// TestJSONContractNamesEveryErrorCode compares the table of error codes with the
// one of the program.
func TestJSONContractNamesEveryErrorCode(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../internal/cli/exit.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("cli-json.md")
	if err != nil {
		t.Fatal(err)
	}
	exits := map[string]string{}
	for _, m := range regexp.MustCompile(`(exit[A-Z]\w+)\s+= (\d+)`).FindAllStringSubmatch(string(source), -1) {
		exits[m[1]] = m[2]
	}
	codes := regexp.MustCompile(`, (exit[A-Z]\w+), "([\w-]+)"\}`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 20 {
		t.Fatalf("found %d error codes in exit.go; the test no longer understands the file", len(codes))
	}
	for _, m := range codes {
		if m[2] == "blocked" {
			continue // a report says it
		}
		if want := fmt.Sprintf("| `%s` | %s |", m[2], exits[m[1]]); !bytes.Contains(text, []byte(want)) {
			t.Errorf("cli-json.md has no row %s", want)
		}
	}
}

// observer validates documents against the contract and remembers which members
// occurred.
type observer struct {
	c     contract
	paths map[string]bool
}

func (o *observer) look(t *testing.T, path, table string, value any) {
	t.Helper()
	said, ok := o.c[table]
	if !ok {
		t.Errorf("cli-json.md has no table %s, for %s", table, path)
		return
	}
	object, ok := value.(map[string]any)
	if !ok {
		t.Errorf("%s is %T, expected an object", path, value)
		return
	}
	for name, v := range object {
		m, ok := said[name]
		if !ok {
			t.Errorf("%s: the member %s is not documented", path, name)
			continue
		}
		at := path + "." + name
		list := []any{v}
		if m.array {
			at += "[]"
			if list, ok = v.([]any); !ok {
				t.Errorf("%s is %T, expected an array", at, v)
				continue
			}
		}
		for _, v := range list {
			if v != nil || !m.nullable {
				o.value(t, at, m.typ, v)
			}
		}
		o.paths[at+" "+m.typ] = true
	}
	for name, m := range said {
		if _, ok := object[name]; !ok && !m.optional {
			t.Errorf("%s: the member %s is missing", path, name)
		}
	}
}

func (o *observer) value(t *testing.T, path, typ string, v any) {
	t.Helper()
	ok := true
	switch typ {
	case "any":
	case "string":
		_, ok = v.(string)
	case "boolean":
		_, ok = v.(bool)
	case "number":
		_, ok = v.(json.Number)
	case "integer":
		var n json.Number
		if n, ok = v.(json.Number); ok {
			_, err := n.Int64()
			ok = err == nil
		}
	default:
		o.look(t, path, typ, v)
	}
	if !ok {
		t.Errorf("%s is %v, expected %s", path, v, typ)
	}
}

// TestJSONContract runs every command on a small repository. Each document must
// have the members that cli-json.md promises, no other ones, and each with its
// type; testdata/cli-json.golden lists those that occur here.
func TestJSONContract(t *testing.T) {
	t.Parallel()
	o := &observer{c: readContract(t), paths: map[string]bool{}}
	repo := gitrepotest.New(t)
	run := func(schema string, exit int, args ...string) map[string]any {
		t.Helper()
		var out, errw bytes.Buffer
		code := cli.Main(append([]string{"--repo", repo.Dir, "--json"}, args...), strings.NewReader(""), &out, &errw)
		if code != exit {
			t.Fatalf("writ %s: exit %d, expected %d\n%s%s", strings.Join(args, " "), code, exit, out.String(), errw.String())
		}
		d := json.NewDecoder(&out)
		d.UseNumber()
		var doc map[string]any
		if err := d.Decode(&doc); err != nil {
			t.Fatalf("writ %s: %v", strings.Join(args, " "), err)
		}
		if d.More() {
			t.Errorf("writ %s: more than one document", strings.Join(args, " "))
		}
		if doc["schema"] != schema {
			t.Errorf("writ %s: schema %v, expected %s", strings.Join(args, " "), doc["schema"], schema)
		}
		o.look(t, schema, schema, doc)
		return doc
	}
	outcome := func(want string, exit int, args ...string) {
		t.Helper()
		doc := run("writ.gate.v1", exit, append([]string{"gate", "--land"}, args...)...)
		if land, _ := doc["land"].(map[string]any); land["outcome"] != want {
			t.Errorf("writ gate --land: %v, expected %s", doc["land"], want)
		}
	}

	run("writ.error.v1", 3, "status")
	repo.Write("Makefile", "test:\n\ttest ! -e broken\n")
	run("writ.init.v1", 0, "init")
	run("writ.error.v1", 2, "init")
	repo.Git("add", "--all")
	repo.Git("commit", "--quiet", "--message", "Begin")
	repo.Git("branch", "--move", "main")
	repo.Git("switch", "--quiet", "--create", "work")
	repo.Commit(map[string]string{"broken": "", "a.txt": "one\n"}, "Break it")
	outcome("CI_BLOCKED", 1)
	run("writ.error.v1", 2, "gate", "--no-such-flag")
	repo.Git("rm", "--quiet", "broken")
	repo.Commit(map[string]string{"writ.yaml": "version: 1\npolicy:\n  require_lint: true\n"}, "Repair it")
	run("writ.gate.v1", 0, "gate", "--author-mode", "human_with_ai_assist")
	jobs(t, run)
	programs(repo.Dir, run)
	nouns(run)
	o.cells(t, repo.Dir, run)
	workers(t, o, repo.Dir, run)
	run("writ.job.v1", 0, "queue", "enqueue", "patchset.ci.aggregate", "--patchset", "T-0001/C-01/P-01", "--after", "1h")
	run("writ.job.v1", 0, "queue", "enqueue", "content.gc")
	claim := run("writ.claim.v1", 0, "queue", "claim", "--request", "0123456789abcdef0123456789abcdef")
	job := claim["job"].(map[string]any)
	name := fmt.Sprint(job["worker_job_index"])
	token := job["lease"].(map[string]any)["lease_token"].(string)
	run("writ.claim.v1", 0, "queue", "claim")
	run("writ.expired.v1", 0, "queue", "expire")
	run("writ.jobs.v1", 0, "queue", "list")
	run("writ.job.v1", 0, "queue", "heartbeat", name, "--token", token)
	run("writ.job.v1", 0, "queue", "complete", name, "--token", token)
	run("writ.error.v1", 4, "queue", "fail", name, "--token", token)
	run("writ.job.v1", 0, "queue", "show", "0")
	run("writ.gate.v1", 0, "attest", "--require-lint", "--require-review")
	run("writ.gate.v1", 0, "review", "request-changes", "-m", "Why?", "--actor", "Grace <grace@example.org>")
	outcome("REVIEW_BLOCKED", 1)
	run("writ.gate.v1", 0, "review", "approve", "--actor", "Grace <grace@example.org>")
	outcome("POLICY_BLOCKED", 1)
	run("writ.gate.v1", 0, "waiver", "add", "lint", "--reason", "There is no linter.", "--expires", "72h")
	run("writ.waivers.v1", 0, "waiver", "list")
	run("writ.gate.v1", 0, "waiver", "revoke", "T-0001/W-01")
	run("writ.gate.v1", 0, "waiver", "add", "lint", "--reason", "There is no linter.", "--expires", "72h")
	run("writ.gate.v1", 0, "review", "request", "painters", "-m", "Please look.")
	run("writ.gate.v1", 0, "review", "comment", "--defer", "--task-lane")
	run("writ.gate.v1", 0, "review", "approve", "--actor", "Grace <grace@example.org>")
	run("writ.reviews.v1", 0, "review", "list")
	run("writ.attestations.v1", 0, "attest", "list")
	run("writ.gate.v1", 0, "attest", "revoke", "T-0001/A-01")
	run("writ.gate.v1", 0, "attest", "--author-mode", "human_with_ai_assist")
	run("writ.gate.v1", 0, "policy", "evaluate")
	run("writ.policy.v1", 0, "policy", "show")
	workflow(t, repo, run)
	run("writ.diffstat.v1", 0, "patchset", "diffstat")
	run("writ.status.v1", 0, "status")
	sums := filepath.Join(t.TempDir(), "sums")
	line := strings.Repeat("0", 64) + "  cli-json.md\n"
	if err := os.WriteFile(sums, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	run("writ.hash.v1", 0, "hash", "cli-json.md")
	run("writ.hash-check.v1", 1, "hash", "--check", sums)

	lock := filepath.Join(repo.Dir, ".git", "refs", "heads", "main.lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	outcome("TARGET_UPDATE_FAILED", 1)
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	outcome("landed", 0)
	outcome("already_landed", 0, "--base", "HEAD~2")

	repo.Commit(map[string]string{"a.txt": "two\n"}, "Change a")
	repo.Git("switch", "--quiet", "main")
	repo.Commit(map[string]string{"b.txt": "moved\n"}, "Move")
	repo.Git("switch", "--quiet", "work")
	run("writ.gate.v1", 1, "gate")
	run("writ.gate.v1", 0, "waiver", "add", "lint", "--reason", "There is no linter.")
	outcome("BASE_STALE", 1)
	repo.Git("switch", "--quiet", "main")
	repo.Commit(map[string]string{"a.txt": "three\n"}, "Change a otherwise")
	repo.Git("switch", "--quiet", "work")
	outcome("CONFLICT", 1)
	repo.Git("branch", "--move", "main", "elsewhere")
	outcome("TARGET_UNUSABLE", 1, "--base", "elsewhere")
	repo.Git("branch", "--move", "elsewhere", "main")

	run("writ.gate.v1", 1, "land", "T-0001/C-01/P-01")
	run("writ.lands.v1", 0, "land", "list")
	run("writ.land.v1", 0, "land", "show", "T-0001/C-01/L-01")
	run("writ.land.v1", 0, "land", "show", "T-0001/C-01/L-02")
	run("writ.change.v1", 0, "change", "show", "T-0001/C-01")
	run("writ.gate.v1", 0, "show")
	run("writ.log.v1", 0, "log")
	run("writ.doctor.v1", 0, "doctor")
	run("writ.db-layout.v1", 0, "db", "layout")
	conversion(t, run)
	run("writ.db-check.v1", 0, "db", "check")
	run("writ.db-recover.v1", 0, "db", "recover")
	run("writ.db-reindex.v1", 0, "db", "reindex")
	authority := filepath.Join(repo.Dir, ".git", "writ", "generations", "1", "repositories", "4")
	run("writ.db-dump.v1", 0, "db", "dump", filepath.Join(authority, "patchset.bin"))
	damaged := filepath.Join(t.TempDir(), "patchset.bin")
	bad, err := os.ReadFile(filepath.Join(authority, "patchset.bin"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 4; i < 60; i++ {
		bad[i] = 0xff
	}
	if err := os.WriteFile(damaged, append(bad, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	run("writ.db-dump.v1", 0, "db", "dump", damaged)
	run("writ.repositories.v1", 0, "repo", "list")
	run("writ.repository.v1", 0, "repo", "show")
	run("writ.repository.v1", 0, "repo", "add", "other", "--namespace", "SE", "--policy", "docs_only_relaxed_checks=off")
	run("writ.error.v1", 4, "repo", "namespace", "4", "SE")
	run("writ.repository.v1", 0, "repo", "namespace", "5", "SF")
	run("writ.repository.v1", 0, "repo", "policy", "5", "lint=on")
	run("writ.repository.v1", 0, "repo", "retire", "5")
	run("writ.repository.v1", 0, "repo", "activate", "5")
	run("writ.error.v1", 1, "repo", "purge", "5", "--yes")
	run("writ.repository.v1", 0, "repo", "retire", "5")
	run("writ.error.v1", 2, "repo", "purge", "5")
	run("writ.repository.v1", 0, "repo", "purge", "5", "--yes")
	copied := filepath.Join(t.TempDir(), "backup")
	run("writ.backup-report.v1", 0, "db", "backup", copied)
	run("writ.backup-report.v1", 0, "db", "verify", copied)
	whole := filepath.Join(t.TempDir(), "whole")
	run("writ.data-backup-report.v1", 0, "backup", "create", whole)
	run("writ.data-backup-report.v1", 0, "backup", "verify", whole)
	run("writ.data-restore.v1", 0, "backup", "restore", whole, "--data", filepath.Join(t.TempDir(), "restored"))
	lines := filepath.Join(t.TempDir(), "lines")
	run("writ.db-export-report.v1", 0, "db", "export", lines)
	o.lines(t, lines)
	run("writ.compact.v1", 0, "db", "compact", "--keep-old")
	run("writ.restore.v1", 0, "db", "restore", "--force", copied)
	unsound(t, filepath.Join(repo.Dir, ".git", "writ"))
	run("writ.db-check.v1", 7, "db", "check", "--all")
	o.golden(t)
}

// unsound damages a Patchset of the generation that counts.
func unsound(t *testing.T, data string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "generations", "*", "repositories", "4", "patchset.bin"))
	if err != nil || len(files) != 1 {
		t.Fatalf("found %v, %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range mustLayout(t, "patchset.bin").Fields {
		if f.Name == "change_index" {
			b[4+f.Offset]++
		}
	}
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustLayout(t *testing.T, file string) *record.Layout {
	t.Helper()
	l, ok := record.ByFile(file)
	if !ok {
		t.Fatalf("no layout of %s", file)
	}
	return l
}

// lines looks at every line of an export.
func (o *observer) lines(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table := "writ.db-export.v1"
	for line := range bytes.Lines(text) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		o.look(t, table, table, v)
		table = "export-record"
	}
}

// workflow runs the commands on records for which no gate is needed.
func workflow(t *testing.T, repo *gitrepotest.Repo, run func(schema string, exit int, args ...string) map[string]any) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "PLAN.md")
	text := "# Faster uploads\n\nThey fail.\n\n## Client\n\n- [ ] Retry {#retry}\n- [x] Progress\n- Later {#later}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run("writ.plan.v1", 0, "plan", "create", file)
	run("writ.plan.v1", 0, "plan", "revise", "PR-0", file)
	run("writ.plans.v1", 0, "plan", "list")
	run("writ.plan.v1", 0, "plan", "show", "plan-revision:0")
	run("writ.task.v1", 0, "task", "open", "Retry uploads", "--intent", "People see errors.")
	run("writ.task.v1", 0, "task", "bind", "T-0002", "PR-0", "retry")
	run("writ.tasks.v1", 0, "task", "list")
	run("writ.change.v1", 0, "change", "open", "T-0002", "Client side")
	run("writ.changes.v1", 0, "change", "list")
	run("writ.task.v1", 0, "task", "link", "T-0001", "T-0001/C-01/P-02", "--change", "T-0001/C-01", "--model", "a model",
		"--session", "--checkpoint", "--line", "work", "--worktree", "here", "--author-mode", "ai_with_human_review")
	run("writ.change.v1", 0, "change", "archive", "T-0002/C-01", "--superseded")
	run("writ.task.v1", 0, "task", "close", "T-0002", "--canceled")
	run("writ.task.v1", 0, "task", "show", "T-0001")
	run("writ.tasks.v1", 0, "task", "list", "--all", "--limit", "1")
	run("writ.plan.v1", 0, "plan", "archive", "PR-0")
	run("writ.patchsets.v1", 0, "patchset", "list", "T-0001/C-01")
	run("writ.patchset.v1", 0, "patchset", "show", "T-0001/C-01/P-02")
	run("writ.patchset.v1", 0, "patchset", "withdraw", "T-0001/C-01/P-01")
	run("writ.lands.v1", 0, "land", "list")
	run("writ.error.v1", 2, "plan", "create", filepath.Join(repo.Dir, "writ.yaml"))
}

// jobs takes a job through its life, another one to another end.
func jobs(t *testing.T, run func(schema string, exit int, args ...string) map[string]any) {
	t.Helper()
	run("writ.error.v1", 3, "job", "list")
	build := run("writ.job-handle.v1", 0, "job", "submit", "--operation", "build", "--target", "farm", "--deadline", "2099-01-01T00:00:00Z",
		"--label", "linux", "--avoid", "x", "--lane", "l", "--candidate", "c", "--generation", "g", "--config-digest", strings.Repeat("a", 64))["job_id"].(string)
	release := run("writ.job-handle.v1", 0, "job", "submit", "--operation", "release", "--allow-push", "--risk", "known", "--depends-on", build)["job_id"].(string)
	run("writ.job-explain.v1", 0, "job", "explain", release)
	run("writ.job-claim.v1", 1, "job", "claim", release)
	claimed := func(args ...string) string {
		t.Helper()
		b, err := json.Marshal(run("writ.job-claim.v1", 0, append([]string{"job"}, args...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	claim := claimed("claim-next", "--kind", "repository.build")
	run("writ.job-claim.v1", 0, "job", "claim", build, "--held")
	run("writ.job-explain.v1", 0, "job", "explain", build)
	run("writ.job-renewal.v1", 0, "job", "heartbeat", "--claim", claim)
	run("writ.job-checkpointed.v1", 0, "job", "checkpoint", "checkpoint:half", "--claim", claim)
	run("writ.job-view.v1", 0, "job", "get", build)
	run("writ.error.v1", 2, "job", "checkpoint", "half", "--claim", claim)
	run("writ.job-settled.v1", 0, "job", "defer", "--claim", claim, "--delay", "0s")
	run("writ.error.v1", 4, "job", "heartbeat", "--claim", claim)
	run("writ.job-settled.v1", 0, "job", "commit", "failed", "--claim", claimed("claim", build), "--failure-class", "c", "--error", "log:1", "--final")
	run("writ.job-result.v1", 0, "job", "result", build)
	again := run("writ.job-retry.v1", 0, "job", "retry", build, "--adopt")["job_id"].(string)
	run("writ.error.v1", 4, "job", "submit", "--operation", "merge", "--key", "retry:"+build+":2")
	run("writ.job-settled.v1", 0, "job", "commit", "succeeded", "--claim", claimed("claim", again), "--result", "artifact:1")
	run("writ.job-view.v1", 0, "job", "watch", again)
	run("writ.job-graph.v1", 0, "job", "graph", release)
	run("writ.job-history.v1", 0, "job", "history", again)
	run("writ.job-consent.v1", 0, "job", "consent", "expire-at", release, "2099-01-01T00:00:00Z")
	run("writ.job-page.v1", 0, "job", "list", "--limit", "1")
	run("writ.job-stats.v1", 0, "job", "stats")
	run("writ.job-cancelled.v1", 0, "job", "cancel", release, "--reason", "not needed")
	run("writ.job-explain.v1", 0, "job", "explain", release)
	run("writ.job-reconciled.v1", 0, "job", "reconcile")
	run("writ.job-pruned.v1", 0, "job", "prune", "--older-than", "1h")
	run("writ.job-epoch.v1", 0, "job", "bump-epoch")
	run("writ.job-kinds.v1", 0, "job", "kinds")
	jobs, elsewhere := filepath.Join(t.TempDir(), "jobs"), filepath.Join(t.TempDir(), "elsewhere")
	run("writ.job-export.v1", 0, "job", "export", jobs)
	run("writ.error.v1", 4, "job", "export", jobs)
	run("writ.error.v1", 4, "job", "import", jobs)
	run("writ.job-import.v1", 0, "job", "import", jobs, "--data", elsewhere)

	token := run("writ.token.v1", 0, "token", "create", "ci", "--scope", "jobs:read")["id"].(string)
	run("writ.token-entry.v1", 0, "token", "revoke", token)
	run("writ.tokens.v1", 0, "token", "list")
	run("writ.error.v1", 2, "token", "create", "ci")
	run("writ.error.v1", 2, "serve", "--listen", "0.0.0.0:0")
}

// programs runs the commands of Rune on a program that asks its host.
func programs(dir string, run func(schema string, exit int, args ...string) map[string]any) {
	file := filepath.Join(dir, ".git", "ask.rune")
	if err := os.WriteFile(file, []byte("host( event )+~mem"), 0o600); err != nil {
		panic(err)
	}
	run("writ.rune-check.v1", 0, "rune", "check", file)
	run("writ.rune-lower.v1", 0, "rune", "lower", file, "--event", "7")
	run("writ.rune-run.v1", 0, "rune", "run", file)
	run("writ.rune-run.v1", 0, "rune", "run", file, "--reply", "1")
	run("writ.rune-run.v1", 0, "rune", "run", file, "--reply", "1", "--reply", "2")
	run("writ.error.v1", 1, "rune", "run", file, "--reply", "[1 2]")
	run("writ.error.v1", 2, "rune", "run", file, "--reply", "[1")
	run("writ.rune-fmt.v1", 1, "rune", "fmt", file, "--check")
	run("writ.rune-fmt.v1", 0, "rune", "fmt", file, "--write")
	run("writ.error.v1", 2, "rune", "repl")
}

// nouns runs the commands of nouns and of Nox.
func nouns(run func(schema string, exit int, args ...string) map[string]any) {
	run("writ.noun.v1", 0, "noun", "id", "[1 2 3]")
	run("writ.noun.v1", 0, "noun", "print", "[1 18446744073709551615]")
	run("writ.noun.v1", 0, "noun", "encode", "7")
	run("writ.noun.v1", 0, "noun", "decode", "000700000000000000")
	run("writ.error.v1", 2, "noun", "decode", "020700000000000000")
	run("writ.error.v1", 2, "noun", "id", "[1")
	run("writ.error.v1", 1, "noun", "id", "18446744073709551615")
	run("writ.nox-run.v1", 0, "nox", "run", "--formula", "[5 [[0 2] [0 3]]]", "--object", "[20 22]")
	run("writ.error.v1", 1, "nox", "run", "--formula", "[8 [0 1]]", "--object", "0")
	run("writ.error.v1", 1, "nox", "run", "--formula", "[0 1]", "--object", "0", "--steps", "0")
}

// cells takes a cell through its life, with every document of writ cell.
func (o *observer) cells(t *testing.T, dir string, run func(schema string, exit int, args ...string) map[string]any) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "cells")
	cell := func(schema string, exit int, args ...string) map[string]any {
		t.Helper()
		return run(schema, exit, append([]string{"--data", data, "cell"}, args...)...)
	}
	// many looks at documents that have no schema, one a line or in an array.
	many := func(table string, exit, least int, args ...string) {
		t.Helper()
		var out, errw bytes.Buffer
		code := cli.Main(append([]string{"--repo", dir, "--data", data, "--json", "cell"}, args...), strings.NewReader(""), &out, &errw)
		if code != exit {
			t.Fatalf("writ cell %s: exit %d, expected %d\n%s%s", strings.Join(args, " "), code, exit, out.String(), errw.String())
		}
		d := json.NewDecoder(&out)
		d.UseNumber()
		var docs []any
		for d.More() {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatalf("writ cell %s: %v", strings.Join(args, " "), err)
			}
			if list, ok := v.([]any); ok {
				docs = append(docs, list...)
			} else {
				docs = append(docs, v)
			}
		}
		if len(docs) < least {
			t.Errorf("writ cell %s: %d documents, expected %d", strings.Join(args, " "), len(docs), least)
		}
		for _, doc := range docs {
			o.look(t, table, table, doc)
		}
	}
	ask := filepath.Join(dir, ".git", "ask-cell.rune")
	counter := filepath.Join(dir, ".git", "counter.rune")
	for name, text := range map[string]string{ask: "host(event) + ~mem\n", counter: "~mem + event\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := func(doc map[string]any, member string) string { return fmt.Sprint(doc[member]) }

	cell("writ.error.v1", 3, "list")
	doc := cell("writ.cell-created.v1", 0, "create", "--source", ask, "--state", "1", "--allow", "host")
	name := text(doc, "cell")
	cell("writ.cell-head.v1", 0, "send", name, "[\"price\", 7]", "--context", name)
	cell("writ.error.v1", 1, "send", name, "1")
	cell("writ.cell.v1", 0, "show", name)
	cell("writ.cell-progress.v1", 0, "tick", name)
	cell("writ.cell.v1", 0, "show", name)
	many("cell-notice", 0, 1, "run", name)
	doc = cell("writ.cell-progress.v1", 0, "tick", name)
	doc = cell("writ.cell-attempt.v1", 0, "begin", name, text(doc, "operation"))
	operation, attempt := text(doc, "operation"), text(doc, "attempt")
	cell("writ.error.v1", 1, "begin", name, operation)
	cell("writ.error.v1", 1, "cancel", name)
	cell("writ.cell-progress.v1", 0, "tick", name)
	cell("writ.cell.v1", 0, "show", name)
	cell("writ.cell-list.v1", 0, "list", "--limit", "1")
	many("cell-notice", 1, 1, "run")
	cell("writ.cell-head.v1", 0, "settle", name, operation, attempt, "--value", "2")
	cell("writ.error.v1", 4, "settle", name, operation, attempt, "--value", "3")
	cell("writ.cell-progress.v1", 0, "tick", name)
	cell("writ.cell-progress.v1", 0, "tick", name)
	cell("writ.cell-head.v1", 0, "send", name, "7")
	many("cell-notice", 0, 4, "run") // a definite failure
	cell("writ.cell.v1", 0, "show", name)
	cell("writ.cell-head.v1", 0, "send", name, "[\"random\", 1]")
	many("cell-notice", 0, 4, "run") // a reply that is no number
	many("cell-commit", 0, 15, "log", name)
	doc = cell("writ.cell-diff.v1", 0, "diff", name, "1", "8")
	for _, particle := range []string{name, text(doc["to"].(map[string]any), "commit"), operation} {
		cell("writ.particle.v1", 0, "get", particle)
	}
	many("cell-schema", 0, 25, "schema")

	other := text(cell("writ.cell-created.v1", 0, "create", "--source", ask, "--state", "0"), "cell")
	cell("writ.cell-head.v1", 0, "send", other, "[\"clock\", 0]")
	many("cell-notice", 1, 2, "run", other) // denied
	cell("writ.cell-head.v1", 0, "cancel", other)
	cell("writ.cell-head.v1", 0, "pause", other)
	many("cell-notice", 1, 1, "run", other)
	many("cell-notice", 0, 0, "run")
	cell("writ.cell-head.v1", 0, "resume", other)
	cell("writ.cell-head.v1", 0, "retire", other)
	cell("writ.error.v1", 1, "resume", other)
	cell("writ.cell-created.v1", 0, "fork", name, "--source", counter)

	cell("writ.cell-verify.v1", 0, "verify")
	cell("writ.cell-replay.v1", 0, "replay")
	file := filepath.Join(t.TempDir(), "exported")
	cell("writ.cell-export.v1", 0, "export", name, file)
	cell("writ.error.v1", 4, "export", name, file)
	cell("writ.error.v1", 4, "import", file)
	cell("writ.error.v1", 2, "import", counter)
	data = filepath.Join(t.TempDir(), "elsewhere")
	cell("writ.cell-head.v1", 0, "import", file)
	cell("writ.cell-collect.v1", 0, "collect")
}

// workers has a worker say every kind of thing that it can be made to say here.
func workers(t *testing.T, o *observer, dir string, run func(schema string, exit int, args ...string) map[string]any) {
	t.Helper()
	run("writ.worker-event.v1", 0, "worker", "--kind", "repository.repair", "--once", "--wait", "0s", "--exec", "true")
	for _, script := range []string{
		"echo checkpoint half >&3; echo result artifact:1 >&3",
		"echo refuse invalid_git_ref >&3; echo error log:1 >&3",
		"echo juggle >&3",
		"echo defer 3600 busy >&3; sleep 0.01",
	} {
		run("writ.job-handle.v1", 0, "job", "submit", "--operation", "repair", "--key", script)
		var out, errw bytes.Buffer
		code := cli.Main([]string{"--repo", dir, "--json", "worker", "--kind", "repository.repair", "--once", "--exec", "sh", "--", "-c", script},
			strings.NewReader(""), &out, &errw)
		if code != 0 {
			t.Fatalf("writ worker: exit %d\n%s%s", code, out.String(), errw.String())
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) < 2 {
			t.Errorf("writ worker: only %q", lines)
		}
		for _, text := range lines {
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			var doc map[string]any
			if err := d.Decode(&doc); err != nil {
				t.Fatalf("writ worker: %v", err)
			}
			o.look(t, "writ.worker-event.v1", "writ.worker-event.v1", doc)
		}
	}
}

func (o *observer) golden(t *testing.T) {
	t.Helper()
	var lines []string
	for p := range o.paths {
		lines = append(lines, p)
	}
	sort.Strings(lines)
	got := strings.Join(lines, "\n") + "\n"
	path := filepath.Join("testdata", "cli-json.golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	old := strings.Split(strings.TrimSpace(string(want)), "\n")
	for _, l := range old {
		if !slices.Contains(lines, l) {
			t.Errorf("no longer there: %s", l)
		}
	}
	for _, l := range lines {
		if !slices.Contains(old, l) {
			t.Errorf("new: %s", l)
		}
	}
	t.Error("run go test ./docs -update if that is intended")
}
