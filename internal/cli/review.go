package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
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
	return group("review", "Approve a patchset, object to it, or comment on it",
		a.reviewAction("approve", "Approve a patchset", record.ReviewActionApprove),
		a.reviewAction("request-changes", "Object to a patchset until it is changed", record.ReviewActionRequestChanges),
		a.reviewAction("comment", "Comment on a patchset", record.ReviewActionComment),
		a.reviewAction("dismiss", "Take back what you said about a patchset", record.ReviewActionDismiss),
	)
}

func (a *app) reviewAction(use, short string, action record.ReviewAction) *cobra.Command {
	var message, actor string
	var blocking, summary bool
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
			if summary {
				action = record.ReviewActionCodeReviewSummary
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
	if action == record.ReviewActionComment {
		f.BoolVar(&blocking, "blocking", false, "object until you approve or dismiss")
		f.BoolVar(&summary, "summary", false, "the comment sums a code review up")
	}
	return c
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
	return c
}

func (a *app) waiver() *cobra.Command {
	return group("waiver", "Waive a requirement for one patchset, with a reason",
		a.waiverAdd(), a.waiverList(),
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
	Active    bool   `json:"active"`
}

func (a *app) waiverList() *cobra.Command {
	return &cobra.Command{
		Use:   "list [PATCHSET]",
		Short: "List the waivers of a patchset",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			rows := []waiverRow{}
			var epoch uint64
			err := a.about(c.Context(), args, false, func(w *gate.Workspace, p *authority.Patchset) error {
				epoch = w.Authority.Epoch()
				return w.Repo.View(c.Context(), func(v *authority.View) error {
					list, err := v.Waivers(p)
					for _, x := range list {
						r := waiverRow{
							ID: x.ID.String(), Patchset: p.ID.String(), Rule: x.Rule.String(), Reason: x.Reason,
							CreatedAt: x.CreatedAt.String(), Active: x.ActiveAt(record.Seconds(time.Now().Unix())),
						}
						if x.ExpiresAt != 0 {
							r.ExpiresAt = x.ExpiresAt.String()
						}
						rows = append(rows, r)
					}
					return err
				})
			})
			if err != nil {
				return err
			}
			return a.print(map[string]any{"schema": "writ.waivers.v1", "epoch": epoch, "waivers": rows}, func() {
				if len(rows) == 0 {
					fmt.Fprintln(a.out, "no waivers")
				}
				var out [][]string
				for _, r := range rows {
					state := "active"
					if !r.Active {
						state = "not active"
					}
					out = append(out, []string{r.ID, r.Rule, state, r.CreatedAt, line(r.Reason)})
				}
				table(a.out, out)
			})
		},
	}
}
