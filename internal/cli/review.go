package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate"
)

// maxText bounds a review or a reason; the format allows 65,535 bytes.
const maxText = 65535

// about opens the workspace and finds the patchset that the arguments name.
func (a *app) about(ctx context.Context, args []string, write bool, fn func(*gate.Workspace, *authority.Patchset) error) error {
	return a.with(ctx, write, func(w *gate.Workspace) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		p, err := w.Find(ctx, name)
		if err != nil {
			return err
		}
		return fn(w, &p)
	})
}

// report runs a verb about a patchset and prints the decision that follows. What
// was recorded stands whether or not the patchset may land now, so that the exit
// code speaks of the verb alone.
func (a *app) report(ctx context.Context, args []string, verb func(*gate.Workspace, *authority.Patchset) (*gate.Report, error)) error {
	var r *gate.Report
	err := a.about(ctx, args, true, func(w *gate.Workspace, p *authority.Patchset) error {
		var err error
		r, err = verb(w, p)
		return err
	})
	if err != nil {
		return err
	}
	return a.print(r, func() { a.showReport(r) })
}

func (a *app) review() *cobra.Command {
	return group("review", "Approve a patchset, object to it, comment on it, or ask for it",
		a.reviewAction("approve", "Approve a patchset", record.ReviewActionApprove),
		a.reviewAction("request-changes", "Object to a patchset until it is changed", record.ReviewActionRequestChanges),
		a.reviewAction("comment", "Comment on a patchset", record.ReviewActionComment),
		a.reviewAction("dismiss", "Take back what you said about a patchset", record.ReviewActionDismiss),
		a.reviewRequest(), a.reviewList(),
	)
}

// lane says which flags refine an action, and to what.
type lane struct{ task, deferred, summary bool }

func (l lane) refine(action record.ReviewAction) (record.ReviewAction, error) {
	if err := either("--summary, and --defer or --task-lane,", l.summary, l.deferred || l.task); err != nil {
		return 0, err
	}
	switch {
	case l.summary:
		return record.ReviewActionCodeReviewSummary, nil
	case l.deferred && l.task:
		return record.ReviewActionTaskDefer, nil
	case l.deferred:
		return record.ReviewActionDefer, nil
	case !l.task:
		return action, nil
	}
	switch action {
	case record.ReviewActionApprove:
		return record.ReviewActionTaskApprove, nil
	case record.ReviewActionRequestChanges:
		return record.ReviewActionTaskRequestChanges, nil
	}
	return record.ReviewActionTaskComment, nil
}

func (a *app) reviewAction(use, short string, action record.ReviewAction) *cobra.Command {
	var message, actor string
	var blocking bool
	var l lane
	c := &cobra.Command{
		Use:   use + " [PATCHSET]",
		Short: short,
		Long:  short + ". Without a name it is the selected patchset of the present branch.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := a.text(message)
			if err != nil {
				return err
			}
			action, err := l.refine(action)
			if err != nil {
				return err
			}
			return a.report(c.Context(), args, func(w *gate.Workspace, p *authority.Patchset) (*gate.Report, error) {
				who, err := a.who(c.Context(), w, actor)
				if err != nil {
					return nil, err
				}
				return w.Review(c.Context(), p, who, action, blocking, text)
			})
		},
	}
	f := c.Flags()
	f.StringVarP(&message, "message", "m", "", "text of the review; - reads it from standard input")
	f.StringVar(&actor, "actor", "", "who reviews, as NAME or NAME <EMAIL> (default: Git's user)")
	if action != record.ReviewActionDismiss {
		f.BoolVar(&l.task, "task-lane", false, "it is about the task, not the code; both count by themselves")
	}
	if action == record.ReviewActionComment {
		f.BoolVar(&blocking, "blocking", false, "object until you approve or dismiss")
		f.BoolVar(&l.summary, "summary", false, "the comment sums a code review up")
		f.BoolVar(&l.deferred, "defer", false, "leave the decision to others; what you decided before no longer counts")
	}
	return c
}

func (a *app) reviewRequest() *cobra.Command {
	var message string
	c := &cobra.Command{
		Use:   "request TEAM [PATCHSET]",
		Short: "Ask a team for a review",
		Long: "Request asks exactly one team, which needs no setting up, for a review. The review of the\n" +
			"change is pending until somebody approves or dismisses. What can keep it from landing is\n" +
			"an objection or the policy, not the request.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := a.text(message)
			if err != nil {
				return err
			}
			return a.report(c.Context(), args[1:], func(w *gate.Workspace, p *authority.Patchset) (*gate.Report, error) {
				return w.RequestReview(c.Context(), p, args[0], text)
			})
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "note to the team; - reads it from standard input")
	return c
}

// reviewRow is one review as JSON.
type reviewRow struct {
	ID        string `json:"id"`
	Actor     string `json:"actor"`
	Email     string `json:"email,omitempty"`
	Team      bool   `json:"team"`
	Action    string `json:"action"`
	Blocking  bool   `json:"blocking"`
	Text      string `json:"text"`
	CreatedAt string `json:"created_at"`
}

func reviewRows(v *authority.View, p *authority.Patchset) ([]reviewRow, error) {
	rows := []reviewRow{}
	list, err := v.Reviews(p)
	for _, x := range list {
		rows = append(rows, reviewRow{
			ID: x.ID.String(), Actor: x.Actor.Name, Email: x.Actor.Email, Team: x.Actor.Meta.Kind() == record.ActorKindTeam,
			Action: x.Action().String(), Blocking: x.Meta.Blocking(), Text: x.Text, CreatedAt: instant(x.CreatedAt),
		})
	}
	return rows, err
}

// listing is a command that lists what belongs to a patchset: rows gives its
// document, whose list is called name, and people shows it.
func listing[T any](a *app, short, schema, name string, rows func(*authority.View, *authority.Patchset) ([]T, error), cells func(T) []string) *cobra.Command {
	return &cobra.Command{
		Use:   "list [PATCHSET]",
		Short: short,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var list []T
			var epoch uint64
			var id string
			err := a.about(c.Context(), args, false, func(w *gate.Workspace, p *authority.Patchset) error {
				epoch, id = w.Authority.Epoch(), p.ID.String()
				return w.Repo.View(c.Context(), func(v *authority.View) (err error) {
					list, err = rows(v, p)
					return err
				})
			})
			if err != nil {
				return err
			}
			return a.print(map[string]any{"schema": schema, "epoch": epoch, "patchset": id, name: list}, func() {
				if len(list) == 0 {
					fmt.Fprintf(a.out, "no %s\n", name)
				}
				var out [][]string
				for _, x := range list {
					out = append(out, cells(x))
				}
				table(a.out, out)
			})
		},
	}
}

func (a *app) reviewList() *cobra.Command {
	return listing(a, "List the reviews of a patchset, oldest first", "writ.reviews.v1", "reviews", reviewRows, func(x reviewRow) []string {
		action := x.Action
		if x.Blocking {
			action += ", blocking"
		}
		who := x.Actor
		if x.Team {
			who = "team " + who
		}
		return []string{x.ID, action, line(who), x.CreatedAt, line(x.Text)}
	})
}

// who is the actor of a command.
func (a *app) who(ctx context.Context, w *gate.Workspace, actor string) (gate.Who, error) {
	if actor == "" {
		name, email, err := w.Git.Identity(ctx)
		return gate.Who{Name: name, Email: email}, err
	}
	name, rest, ok := strings.Cut(actor, "<")
	email, closed := strings.CutSuffix(strings.TrimSpace(rest), ">")
	name = strings.TrimSpace(name)
	if name == "" || ok != closed || ok && email == "" {
		return gate.Who{}, &usageError{fmt.Errorf("--actor: expected NAME or NAME <EMAIL>, got %q", actor)}
	}
	return gate.Who{Name: name, Email: email}, nil
}

// text is the value of a message flag.
func (a *app) text(message string) (string, error) {
	if message != "-" {
		return message, nil
	}
	b, err := io.ReadAll(io.LimitReader(a.in, maxText+1))
	if err == nil && len(b) > maxText {
		err = &usageError{fmt.Errorf("the text on standard input is longer than %d bytes", maxText)}
	}
	return strings.TrimRight(string(b), "\n"), err
}

func (a *app) attest() *cobra.Command {
	var verification string
	s := authority.AttestSpec{}
	var noTests bool
	var mode authorMode
	c := &cobra.Command{
		Use:   "attest [PATCHSET]",
		Short: "Vouch for a patchset, and ask for more than the policy does",
		Long: "Attest records that you vouch for a patchset. It can add requirements to those of the\n" +
			"policy; it never removes one.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			v, err := record.ParseVerificationState(verification)
			if err != nil {
				return &usageError{fmt.Errorf("--verification: %w", err)}
			}
			s.Verification, s.RequireTests = v, !noTests
			if c.Flags().Changed("author-mode") {
				m := record.AuthorMode(mode)
				s.AuthorMode = &m
			}
			return a.report(c.Context(), args, func(w *gate.Workspace, p *authority.Patchset) (*gate.Report, error) {
				return w.Attest(c.Context(), p, s)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&verification, "verification", "pass", "what you found: unknown, pending, pass or fail")
	f.BoolVar(&s.RequireHumanReview, "require-review", false, "require one approval")
	f.BoolVar(&s.RequireLint, "require-lint", false, "require the lint suites to pass")
	f.BoolVar(&noTests, "no-require-tests", false, "do not ask for tests beyond what the policy asks")
	f.Var(&mode, "author-mode", "refuse unless the patchset was published with this author mode")
	c.AddCommand(
		listing(a, "List the attestations of a patchset, oldest first", "writ.attestations.v1", "attestations", attestationRows, func(x attestationRow) []string {
			state := x.Verification
			if x.Revoked {
				state += ", revoked"
			}
			return []string{x.ID, state, x.CreatedAt}
		}),
		a.revoke("ATTESTATION", "Take an attestation back", record.ObjectAttestation,
			func(v *authority.View, index uint32) (uint32, error) {
				rec, err := bindb.Attestations.Get(v, index)
				return rec.Patchset, err
			}, (*gate.Workspace).RevokeAttestation),
	)
	return c
}

// attestationRow is one attestation as JSON.
type attestationRow struct {
	ID            string `json:"id"`
	Verification  string `json:"verification"`
	Revoked       bool   `json:"revoked"`
	RequireTests  bool   `json:"require_tests"`
	RequireLint   bool   `json:"require_lint"`
	RequireReview bool   `json:"require_review"`
	CIBacked      bool   `json:"ci_backed"`
	CreatedAt     string `json:"created_at"`
}

func attestationRows(v *authority.View, p *authority.Patchset) ([]attestationRow, error) {
	rows := []attestationRow{}
	list, err := v.Attestations(p)
	for _, x := range list {
		rows = append(rows, attestationRow{
			ID: x.ID.String(), Verification: x.Meta.VerificationState().String(), Revoked: x.Meta.Revoked(),
			RequireTests: x.Meta.RequireTestsPass(), RequireLint: x.Meta.RequireLintPass(), RequireReview: x.Meta.RequireHumanReview(),
			CIBacked: x.Meta.CIBacked(), CreatedAt: instant(x.CreatedAt),
		})
	}
	return rows, err
}

// revoke is a command that takes something that was said about a patchset back.
func (a *app) revoke(what, short string, kind record.Object, patchset func(*authority.View, uint32) (uint32, error),
	verb func(*gate.Workspace, context.Context, *authority.Patchset, uint32) (*gate.Report, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke " + what,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var r *gate.Report
			err := a.with(c.Context(), true, func(w *gate.Workspace) error {
				var index uint32
				var p authority.Patchset
				err := w.Repo.View(c.Context(), func(v *authority.View) (err error) {
					if index, err = find(v, args[0], kind); err != nil {
						return err
					}
					of, err := patchset(v, index)
					if err != nil {
						return err
					}
					p, err = v.Patchset(of)
					return err
				})
				if err != nil {
					return err
				}
				r, err = verb(w, c.Context(), &p, index)
				return err
			})
			if err != nil {
				return err
			}
			return a.print(r, func() { a.showReport(r) })
		},
	}
}

func (a *app) waiver() *cobra.Command {
	return group("waiver", "Waive a requirement for one patchset, with a reason",
		a.waiverAdd(), a.waiverList(),
		a.revoke("WAIVER", "End a waiver", record.ObjectWaiver,
			func(v *authority.View, index uint32) (uint32, error) {
				rec, err := bindb.Waivers.Get(v, index)
				return rec.Patchset, err
			}, (*gate.Workspace).RevokeWaiver),
	)
}

func (a *app) waiverAdd() *cobra.Command {
	var reason string
	var expires time.Duration
	c := &cobra.Command{
		Use:   "add RULE [PATCHSET]",
		Short: "Waive a requirement",
		Long: "Add waives one requirement of one patchset: require_attestation, ai_provenance,\n" +
			"code_review_summary, lint, security_scan, license_scan or required_human_review.\n" +
			"Tests and suites cannot be waived.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			rule, err := record.ParseRuleCode(args[0])
			if err != nil || !rule.Waivable() {
				return &usageError{fmt.Errorf("%q cannot be waived; expected require_attestation, ai_provenance, "+
					"code_review_summary, lint, security_scan, license_scan or required_human_review", args[0])}
			}
			text, err := a.text(reason)
			if err != nil {
				return err
			}
			if strings.TrimSpace(text) == "" {
				return &usageError{fmt.Errorf("--reason is required: a waiver says why")}
			}
			s := authority.WaiverSpec{Rule: rule, Reason: text}
			if expires < 0 {
				return &usageError{fmt.Errorf("--expires: expected a positive duration such as 72h")}
			}
			if expires > 0 {
				s.ExpiresAt = record.Seconds(time.Now().Add(max(expires, 2*time.Second)).Unix())
			}
			return a.report(c.Context(), args[1:], func(w *gate.Workspace, p *authority.Patchset) (*gate.Report, error) {
				return w.Waive(c.Context(), p, s)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why (required); - reads it from standard input")
	c.Flags().DurationVar(&expires, "expires", 0, "how long it holds, such as 72h (default: for good)")
	return c
}

// waiverRow is one waiver as JSON.
type waiverRow struct {
	ID        string `json:"id"`
	Patchset  string `json:"patchset"`
	Rule      string `json:"rule"`
	Reason    string `json:"reason"`
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at,omitempty"`
	Revoked   bool   `json:"revoked"`
	Active    bool   `json:"active"`
}

func waiverRows(v *authority.View, p *authority.Patchset) ([]waiverRow, error) {
	rows := []waiverRow{}
	list, err := v.Waivers(p)
	for _, x := range list {
		rows = append(rows, waiverRow{
			ID: x.ID.String(), Patchset: p.ID.String(), Rule: x.Rule.String(), Reason: x.Reason, CreatedAt: x.CreatedAt.String(),
			ExpiresAt: instant(x.ExpiresAt), Revoked: x.Meta.Revoked(), Active: x.ActiveAt(record.Seconds(time.Now().Unix())),
		})
	}
	return rows, err
}

func (a *app) waiverList() *cobra.Command {
	return listing(a, "List the waivers of a patchset, oldest first", "writ.waivers.v1", "waivers", waiverRows, func(x waiverRow) []string {
		state := "active"
		switch {
		case x.Revoked:
			state = "revoked"
		case !x.Active:
			state = "not active"
		}
		return []string{x.ID, x.Rule, state, x.CreatedAt, line(x.Reason)}
	})
}
