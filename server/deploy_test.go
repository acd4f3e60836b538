package server

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// alertRules is what a rules file of Prometheus has.
type alertRules struct {
	Groups []struct {
		Name  string
		Rules []alertRule
	}
}

type alertRule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func readAlerts(t *testing.T) []alertRule {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "deploy", "prometheus-alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules alertRules
	if err := yaml.UnmarshalWithOptions(b, &rules, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if len(rules.Groups) != 1 || len(rules.Groups[0].Rules) == 0 {
		t.Fatal("the alert list has no rules")
	}
	return rules.Groups[0].Rules
}

// readQueries gives the queries of the dashboard.
func readQueries(t *testing.T) (queries []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "deploy", "grafana-dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Type  string
				Query any
			}
		}
	}
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %s has no query", p.Title)
		}
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		if q, ok := v.Query.(map[string]any); ok {
			queries = append(queries, q["query"].(string))
		}
	}
	return queries
}

// TestAlertsAndDashboardNameMetricsThatExist looks up every metric, and every value
// of a label that a query asks for.
func TestAlertsAndDashboardNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.totals = totals{Kinds: []kindTotals{{Kind: "repository.build", States: map[string]int{"ready": 1}}}}
	b.get(t.Context(), "/v1/jobs", "127.0.0.1:1", "Authorization", devToken)
	shown := b.get(t.Context(), "/metrics", "127.0.0.1:1").Body.String()
	known := map[string]bool{}
	for line := range strings.Lines(shown) {
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		known[name] = true
	}
	metric := regexp.MustCompile(`\b(?:writ|go|process)_[a-z0-9_]+`)
	label := regexp.MustCompile(`(writ_[a-z_]+)\{(?:instance=~"\$instance",)?(result|status|limit)="([a-z_]+)"`)
	used := map[string]bool{}
	check := func(where, query string) {
		names := metric.FindAllString(query, -1)
		for _, name := range names {
			used[name] = true
			if !known[name] {
				t.Errorf("%s: /metrics has no %s", where, name)
			}
		}
		if len(names) == 0 && !strings.HasPrefix(query, "up{") {
			t.Errorf("%s: no metric in %s", where, query)
		}
		if strings.Count(query, "(") != strings.Count(query, ")") || strings.Count(query, "{")-strings.Count(query, "[{]") != strings.Count(query, "}")-strings.Count(query, "[}]") {
			t.Errorf("%s: unbalanced: %s", where, query)
		}
		for _, m := range label.FindAllStringSubmatch(query, -1) {
			if !strings.Contains(shown, "\n"+m[1]+`{`+m[2]+`="`+m[3]+`"`) {
				t.Errorf("%s: /metrics has no %s with %s=%q", where, m[1], m[2], m[3])
			}
		}
	}
	for _, r := range readAlerts(t) {
		check(r.Alert, r.Expr)
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no severity, summary or description", r.Alert)
		}
	}
	for _, q := range readQueries(t) {
		check("dashboard", q)
	}
	for _, d := range counted {
		if !used[d.metric] {
			t.Errorf("nobody looks at %s", d.metric)
		}
	}
}

// TestDocumentedAlertsAndMetrics compares docs/server.md with the alert list and
// with what is shown.
func TestDocumentedAlertsAndMetrics(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "docs", "server.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, r := range readAlerts(t) {
		if !strings.Contains(text, "| `"+r.Alert+"` |") {
			t.Errorf("docs/server.md does not explain %s", r.Alert)
		}
	}
	s := setup(t, nil)
	s.totals = totals{Kinds: []kindTotals{{Kind: "repository.build", States: map[string]int{"ready": 1}}}}
	s.get(t.Context(), "/v1/jobs", "127.0.0.1:1", "Authorization", devToken)
	for line := range strings.Lines(s.get(t.Context(), "/metrics", "127.0.0.1:1").Body.String()) {
		name, ok := strings.CutPrefix(line, "# TYPE ")
		name, _, _ = strings.Cut(name, " ")
		if ok && strings.HasPrefix(name, "writ_") && !strings.Contains(text, "| `"+name) {
			t.Errorf("docs/server.md does not name the metric %s", name)
		}
	}
}
