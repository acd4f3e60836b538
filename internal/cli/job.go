package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/workitem"
)

func (a *app) job() *cobra.Command {
	c := group("job", "Submit jobs, follow them, and work on them as a worker does",
		a.jobSubmit(), a.jobGet(), a.jobList(), a.jobWatch(), a.jobResult(), a.jobExplain(), a.jobHistory(), a.jobGraph(),
		a.jobCancel(), a.jobRetry(), a.jobClaim(), a.jobClaimNext(), a.jobHeartbeat(), a.jobCheckpoint(), a.jobCommit(),
		a.jobDefer(), a.jobConsent(), a.jobReconcile(), a.jobPrune(), a.jobBumpEpoch(), a.jobStats(), a.jobKinds(),
		a.jobExport(), a.jobImport())
	c.Long = "The commands of this group work on the jobs of one tenant: with --server those of a server,\n" +
		"else those of the data directory, in the process or through the server that has it open.\n" +
		"docs/jobs.md explains jobs with a worked example."
	a.connectionFlags(c)
	return c
}

// answer prints the body of a REST answer with its schema before its members, or
// calls people.
func (a *app) answer(schema string, body any, people func()) error {
	return a.print(answerDoc{schema, body}, people)
}

// answerDoc is the JSON object body with one more member, schema, in front.
type answerDoc struct {
	schema string
	body   any
}

func (d answerDoc) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(d.body); err != nil {
		return nil, err
	}
	members, ok := bytes.CutPrefix(bytes.TrimSpace(b.Bytes()), []byte("{"))
	if !ok {
		return nil, fmt.Errorf("%s: %T is no JSON object", d.schema, d.body)
	}
	head := fmt.Sprintf(`{"schema":%q`, d.schema)
	if !bytes.HasPrefix(members, []byte("}")) {
		head += ","
	}
	return append([]byte(head), members...), nil
}

// publicID is the short form of a job's identifier: rmjob: and its UUID.
func publicID(id string) string {
	if parsed, err := workitem.ParseID(id); err == nil {
		return parsed.JobID()
	}
	return id
}

// stateCell is the state of a job in colour. Every state has one, so that a column
// of them stays straight.
func (s style) stateCell(state string) string {
	switch state {
	case "succeeded":
		return s.green(state)
	case "failed", "dead-letter":
		return s.red(state)
	case "leased", "running":
		return s.bold(state)
	case "submitted":
		return s.yellow(state)
	}
	return s.plain(state)
}

// showView prints one job.
func (a *app) showView(v *workitem.View) {
	now := time.Now()
	fmt.Fprintf(a.out, "%s  %s  %s\n", a.style.bold(v.JobID), v.Operation, a.style.stateCell(v.State))
	rows := [][]string{
		{"  repository", line(v.RepositoryID)},
		{"  base", fmt.Sprintf("%s %.12s", line(v.BaseRef), v.BaseSHA)},
		{"  request", line(v.RequestID)},
		{"  owner", line(v.OwnerID) + " of " + line(v.TenantID)},
		{"  priority", fmt.Sprintf("%d in group %s, class %s", v.Priority, line(v.FairnessGroup), line(v.ResourceClass))},
		{"  attempts", fmt.Sprintf("%d of %d", v.Attempt, v.MaxAttempts)},
	}
	optional := func(label string, text *string) {
		if text != nil {
			rows = append(rows, []string{"  " + label, line(*text)})
		}
	}
	for i, id := range v.Dependencies {
		label := ""
		if i == 0 {
			label = "  depends on"
		}
		rows = append(rows, []string{label, publicID(id)})
	}
	optional("lane", v.LaneID)
	optional("candidate", v.CandidateID)
	optional("generation", v.GenerationID)
	optional("retry", v.RetryClass)
	if v.QueueDeadline != nil {
		rows = append(rows, []string{"  deadline", when(*v.QueueDeadline, now)})
	}
	if l := v.Lease; l != nil {
		rows = append(rows, []string{"  lease", leaseText(l, now)})
	}
	optional("checkpoint", v.Checkpoint)
	optional("result", v.ResultRef)
	optional("error", v.ErrorRef)
	rows = append(rows, []string{"  created", when(v.CreatedAt, now)}, []string{"  updated", when(v.UpdatedAt, now)})
	if v.CompletedAt != nil {
		rows = append(rows, []string{"  completed", when(*v.CompletedAt, now)})
	}
	table(a.out, rows)
}

// leaseText says who holds a lease and how long.
func leaseText(l *workitem.Lease, now time.Time) string {
	text := line(l.Owner)
	if l.ExpiresAt == nil {
		return text
	}
	until := secondsTime(*l.ExpiresAt)
	if until.Before(now) {
		return fmt.Sprintf("%s, ran out %s", text, ago(until, now))
	}
	return fmt.Sprintf("%s, runs out %s unless it is renewed", text, ago(until, now))
}

// secondsTime is the instant that a number of seconds since the Unix epoch means.
func secondsTime(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)) }

// when shows an RFC 3339 instant as what it is from here, and exactly.
func when(instant string, now time.Time) string {
	t, err := time.Parse(time.RFC3339Nano, instant)
	if err != nil {
		return line(instant)
	}
	return fmt.Sprintf("%s (%s)", ago(t, now), t.UTC().Format(time.RFC3339))
}

// since is when without the exact instant.
func since(instant string, now time.Time) string {
	t, err := time.Parse(time.RFC3339Nano, instant)
	if err != nil {
		return line(instant)
	}
	return ago(t, now)
}

// ago says how far t lies before or after now.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	if d < 0 {
		return "in " + amount(-d)
	}
	return amount(d) + " ago"
}

// amount rounds a duration to one unit.
func amount(d time.Duration) string {
	if s := d.Round(time.Second); s < time.Minute {
		return fmt.Sprintf("%d s", s/time.Second)
	}
	if m := d.Round(time.Minute); m < time.Hour {
		return fmt.Sprintf("%d min", m/time.Minute)
	}
	if h := d.Round(time.Hour); h < 48*time.Hour {
		return fmt.Sprintf("%d h", h/time.Hour)
	}
	return fmt.Sprintf("%d days", d.Round(24*time.Hour)/(24*time.Hour))
}

// seconds is a duration as the verbs take it, or nil if the flag was not given.
func seconds(c *cobra.Command, flag string, d time.Duration) *float64 {
	if !c.Flags().Changed(flag) {
		return nil
	}
	s := d.Seconds()
	return &s
}

// set is the value of a flag, or nil if it was not given.
func set[T any](c *cobra.Command, flag string, value T) *T {
	if !c.Flags().Changed(flag) {
		return nil
	}
	return &value
}

// pastFlag reads a time: RFC 3339, or how long ago.
func pastFlag(flag, text string) (string, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(-d).UTC().Format(time.RFC3339Nano), nil
	}
	if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
		return "", &usageError{fmt.Errorf("--%s %q: expected a duration such as 90m, or a time such as 2026-12-02T15:04:05Z", flag, text)}
	}
	return text, nil
}

// completes lets a shell complete the value of a flag.
func completes(c *cobra.Command, flag string, values []string) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // there is no such flag, or it was done before
	}
}

// kindNames are all kinds, operationNames all operations.
func kindNames() (names []string) {
	for _, k := range workitem.Registry() {
		names = append(names, k.Kind)
	}
	return names
}

func operationNames() (names []string) {
	for _, k := range workitem.Registry() {
		names = append(names, k.Operation)
	}
	return names
}
