package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

func (a *app) token() *cobra.Command {
	c := group("token", "Make, list and revoke the static tokens of a server",
		a.tokenCreate(), a.tokenList(), a.tokenRevoke())
	c.Long = "A static token stands for one subject of one tenant, with scopes. Its secret is shown once, when\n" +
		"it is made; the data directory has its hash only. On the machine of the server its owner handles the\n" +
		"tokens of every tenant (--tenant); elsewhere --server and a token with jobs:admin are needed, which\n" +
		"handles those of its own tenant."
	a.connectionFlags(c)
	return c
}

func (a *app) tokenCreate() *cobra.Command {
	var in workitem.TokenInput
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and show its secret, this once",
		Long: "Create makes a token. Workers need jobs:read, jobs:work and jobs:tenant; submitters jobs:read and\n" +
			"jobs:write. docs/server.md says what each scope allows.",
		Example: "  writ token create builder --tenant acme --scope jobs:read,jobs:work,jobs:tenant",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in.Name = args[0]
			if in.Subject == "" {
				in.Subject = in.Name
			}
			if len(in.Scopes) == 0 {
				return &usageError{errors.New("a token without scopes may do nothing; say what it may do with --scope, for instance --scope jobs:read,jobs:write")}
			}
			return a.withNewJobs(c.Context(), func(jobs operation.Jobs) error {
				t, err := jobs.CreateToken(c.Context(), &in)
				if err != nil {
					return err
				}
				return a.answer("writ.token.v1", t, func() {
					fmt.Fprintln(a.out, t.Token)
					fmt.Fprintf(a.err, "token %s for %s of %s: %s\n", t.ID, line(t.Subject), line(t.Tenant), strings.Join(t.Scopes, ", "))
					fmt.Fprintln(a.err, "This is the only time that its secret is shown.")
				})
			})
		},
	}
	f := c.Flags()
	f.StringVar(&in.Subject, "subject", "", "who presents it (default: NAME)")
	f.StringVar(&in.Owner, "for-owner", "", "on whose behalf it submits (default: the subject)")
	f.StringSliceVar(&in.Scopes, "scope", nil, "what it may do (repeatable): jobs:read, jobs:write, jobs:work, jobs:tenant, jobs:on-behalf, jobs:admin")
	return c
}

func (a *app) tokenList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List tokens, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				list, err := jobs.Tokens(c.Context(), &workitem.NoInput{})
				if err != nil {
					return err
				}
				return a.answer("writ.tokens.v1", list, func() {
					rows := [][]string{{"ID", "NAME", "TENANT", "SUBJECT", "OWNER", "SCOPES", "CREATED", "REVOKED"}}
					for _, t := range list.Items {
						revoked := "-"
						if t.RevokedAt != nil {
							revoked = *t.RevokedAt
						}
						rows = append(rows, []string{t.ID, line(t.Name), line(t.Tenant), line(t.Subject), line(t.Owner),
							strings.Join(t.Scopes, ","), t.CreatedAt, revoked})
					}
					table(a.out, rows)
				})
			})
		},
	}
}

func (a *app) tokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token for good",
		Long:  "Revoke ends a token. A running server takes it for a few seconds more at most.",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				t, err := jobs.RevokeToken(c.Context(), &workitem.RevokeInput{ID: args[0]})
				if err != nil {
					return err
				}
				return a.answer("writ.token-entry.v1", t, func() {
					fmt.Fprintf(a.out, "%s  %s is revoked\n", a.style.bold(t.ID), line(t.Name))
				})
			})
		},
	}
}
