package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate"
	"github.com/writ-authority/writ/gitrepo"
)

func (a *app) repository() *cobra.Command {
	return group("repo", "List, add, change, retire and purge the repositories of the authority",
		a.repoList(), a.repoShow(), a.repoAdd(), a.repoNamespace(), a.repoPolicy(),
		a.repoRetire(), a.repoActivate(), a.repoPurge(),
	)
}

// registered is one entry of the registry as JSON.
type registered struct {
	Index         uint32   `json:"repository_index"`
	Name          string   `json:"repository_name"`
	LifecycleKind uint8    `json:"lifecycle_kind"`
	Lifecycle     string   `json:"lifecycle"`
	Namespace     string   `json:"namespace"`
	PolicyFlags   uint8    `json:"policy_flags"`
	Flags         []string `json:"policy_flag_names"`
	CreatedAtS    uint64   `json:"created_at_s"`
	UpdatedAtS    uint64   `json:"updated_at_s"`
	CreatedAt     string   `json:"created_at"`
	UpdatedAt     string   `json:"updated_at"`
	Tombstoned    bool     `json:"tombstoned"`
}

func registeredOf(i authority.RepositoryInfo) registered {
	return registered{
		Index: i.Index, Name: i.Name, LifecycleKind: uint8(i.Lifecycle), Lifecycle: i.Lifecycle.String(),
		Namespace: i.Namespace.String(), PolicyFlags: uint8(i.PolicyFlags), Flags: i.PolicyFlags.Names(),
		CreatedAtS: uint64(i.CreatedAt), UpdatedAtS: uint64(i.UpdatedAt),
		CreatedAt: i.CreatedAt.String(), UpdatedAt: i.UpdatedAt.String(), Tombstoned: i.Meta.Tombstoned(),
	}
}

// flags are the flags for people.
func (r *registered) flags() string {
	if len(r.Flags) == 0 {
		return "none"
	}
	return strings.Join(r.Flags, ", ")
}

// dash stands for an empty cell.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// repositoriesDoc is writ.repositories.v1.
type repositoriesDoc struct {
	Schema       string       `json:"schema"`
	Installation string       `json:"installation"`
	Epoch        uint64       `json:"epoch"`
	Repositories []registered `json:"repositories"`
}

func (a *app) repoList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the repositories",
		Long:  "List prints every repository of the authority. Those with the indexes 0 to 3 are reserved\nby the format.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withAuthority(c.Context(), func(au *authority.Authority) error {
				list, err := au.Repositories(c.Context())
				if err != nil {
					return err
				}
				doc := repositoriesDoc{"writ.repositories.v1", au.Installation(), au.Epoch(), []registered{}}
				rows := [][]string{{"INDEX", "NAME", "STATE", "NAMESPACE", "UPDATED", "POLICY"}}
				for _, i := range list {
					r := registeredOf(i)
					doc.Repositories = append(doc.Repositories, r)
					rows = append(rows, []string{
						strconv.FormatUint(uint64(r.Index), 10), line(r.Name), r.Lifecycle, dash(r.Namespace), r.UpdatedAt, r.flags(),
					})
				}
				return a.print(doc, func() { table(a.out, rows) })
			})
		},
	}
}

// repositoryDoc is writ.repository.v1.
type repositoryDoc struct {
	Schema       string                   `json:"schema"`
	Installation string                   `json:"installation"`
	Epoch        uint64                   `json:"epoch"`
	Created      *bool                    `json:"created,omitempty"`
	Repository   registered               `json:"repository"`
	Policy       authority.PolicyDocument `json:"policy"`
	Drain        *drainDoc                `json:"drain,omitempty"`
}

// drainDoc is what a retiring Repository still has to do.
type drainDoc struct {
	Queued  uint32 `json:"queued_worker_jobs"`
	Running uint32 `json:"running_worker_jobs"`
}

// entry makes the document of one Repository. Only one that is retiring has
// something to drain.
func entry(ctx context.Context, au *authority.Authority, i authority.RepositoryInfo) (*repositoryDoc, error) {
	d := &repositoryDoc{
		Schema: "writ.repository.v1", Installation: au.Installation(), Epoch: au.Epoch(),
		Repository: registeredOf(i), Policy: authority.PolicyDocumentOf(i.PolicyFlags),
	}
	if i.Lifecycle != record.LifecycleRetiring {
		return d, nil
	}
	r, err := au.Repository(ctx, i.Index)
	if err != nil {
		return nil, err
	}
	left, err := r.Drain(ctx)
	d.Drain = &drainDoc{left.Queued, left.Running}
	return d, err
}

// printEntry prints a Repository, for people below what has happened to it.
func (a *app) printEntry(d *repositoryDoc, happened string) error {
	return a.print(d, func() {
		r := &d.Repository
		if happened != "" {
			fmt.Fprintf(a.out, "repository %d: %s\n", r.Index, happened)
		}
		rows := [][]string{
			{"index", strconv.FormatUint(uint64(r.Index), 10)},
			{"name", line(r.Name)},
			{"state", r.Lifecycle},
			{"namespace", dash(r.Namespace)},
			{"tasks", "like " + record.TaskIdentity(namespaceOf(r.Namespace), 0).String()},
			{"policy", r.flags()},
			{"created", r.CreatedAt},
			{"updated", r.UpdatedAt},
		}
		if d.Drain != nil {
			rows = append(rows, []string{"left to do", fmt.Sprintf("%d queued and %d running jobs", d.Drain.Queued, d.Drain.Running)})
		}
		table(a.out, rows)
	})
}

// namespaceOf is the inverse of String for a namespace from the registry.
func namespaceOf(s string) (n record.Namespace) {
	copy(n[:], s)
	return n
}

// indexArgument reads the index of a repository.
func indexArgument(s string) (uint32, error) {
	i, ok := parseIndex(s)
	if !ok {
		return 0, &usageError{fmt.Errorf("%q: expected the index of a repository, such as 4; `writ repo list` shows them", s)}
	}
	return i, nil
}

func namespaceArgument(s string) (record.Namespace, error) {
	n, err := record.ParseNamespace(s)
	if err != nil {
		return n, &usageError{fmt.Errorf("%w; expected one or two of A-Z a-z 0-9 _ -", err)}
	}
	return n, nil
}

func (a *app) repoShow() *cobra.Command {
	namespace := ""
	c := &cobra.Command{
		Use:   "show [INDEX]",
		Short: "Show one repository and its policy",
		Long: "Show prints one entry of the registry. Without an index it is the one that stands for the\n" +
			"Git repository. The JSON also has the policy that follows from the flags.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if namespace != "" && len(args) > 0 {
				return &usageError{errors.New("an index and --namespace: leave one of them out")}
			}
			ctx := c.Context()
			show := func(au *authority.Authority, i authority.RepositoryInfo) error {
				d, err := entry(ctx, au, i)
				if err != nil {
					return err
				}
				return a.printEntry(d, "")
			}
			if namespace != "" {
				ns, err := namespaceArgument(namespace)
				if err != nil {
					return err
				}
				return a.withAuthority(ctx, func(au *authority.Authority) error {
					i, err := au.RepositoryByNamespace(ctx, ns)
					if err != nil {
						return err
					}
					return show(au, i)
				})
			}
			return a.withEntry(ctx, args, show)
		},
	}
	c.Flags().StringVar(&namespace, "namespace", "", "the active or retiring repository with this namespace")
	return c
}

// withEntry opens the authority and finds the Repository that the first argument
// names, or the one that stands for the Git repository.
func (a *app) withEntry(ctx context.Context, args []string, fn func(*authority.Authority, authority.RepositoryInfo) error) error {
	if len(args) == 0 {
		err := a.with(ctx, false, func(w *gate.Workspace) error { return fn(w.Authority, w.Repo.Info()) })
		if a.data == "" || !errors.Is(err, gitrepo.ErrNotRepository) {
			return err
		}
	}
	index := uint32(0)
	if len(args) > 0 {
		var err error
		if index, err = indexArgument(args[0]); err != nil {
			return err
		}
	}
	return a.withAuthority(ctx, func(au *authority.Authority) error {
		if len(args) == 0 {
			var err error
			if index, err = repositoryIndex(ctx, au, ""); err != nil {
				return err
			}
		}
		i, err := au.RepositoryInfo(ctx, index)
		if err != nil {
			return err
		}
		return fn(au, i)
	})
}

func (a *app) repoAdd() *cobra.Command {
	namespace := ""
	var policy []string
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Register another repository",
		Long: "Add registers one more repository in the authority. The name is for people, cannot be\n" +
			"changed and may be there already. With a namespace, adding the same again finds what is\n" +
			"there; without one, every call adds another repository. With --data, the first one makes\n" +
			"the authority.\n\n" +
			"`writ gate` registers the repository that it runs in by itself.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ns, err := namespaceArgument(namespace)
			if err != nil {
				return err
			}
			flags, err := setFlags(authority.DefaultFlags, policy)
			if err != nil {
				return err
			}
			ctx := c.Context()
			show := func(au *authority.Authority, index uint32, created bool) error {
				i, err := au.RepositoryInfo(ctx, index)
				if err != nil {
					return err
				}
				d, err := entry(ctx, au, i)
				if err != nil {
					return err
				}
				d.Created = &created
				happened := "added"
				if !created {
					happened = "it is there already"
				}
				return a.printEntry(d, happened)
			}
			err = a.withAuthority(ctx, func(au *authority.Authority) error {
				index, created, err := au.AddRepository(ctx, args[0], ns, flags)
				if err != nil {
					return err
				}
				return show(au, index, created)
			})
			if a.data == "" || !errors.Is(err, authority.ErrNoAuthority) {
				return err
			}
			dir, err := a.dataDir(ctx)
			if err != nil {
				return err
			}
			au, err := authority.CreateNamespaced(ctx, authority.Options{Dir: dir}, args[0], ns, flags)
			if err != nil {
				return err
			}
			return errors.Join(show(au, authority.FirstRepository, true), au.Close())
		},
	}
	c.Flags().StringVar(&namespace, "namespace", "", "one or two of A-Z a-z 0-9 _ -, which identities then begin with")
	c.Flags().StringSliceVar(&policy, "policy", nil, "flags that differ from those of a new repository, such as lint=on,tests=off")
	return c
}

// changeEntry changes the Repository that the first argument names and prints it.
func (a *app) changeEntry(ctx context.Context, index string, happened string,
	change func(*authority.Authority, authority.RepositoryInfo) (authority.RepositoryInfo, error)) error {
	return a.withEntry(ctx, []string{index}, func(au *authority.Authority, i authority.RepositoryInfo) error {
		i, err := change(au, i)
		if err != nil {
			return err
		}
		d, err := entry(ctx, au, i)
		if err != nil {
			return err
		}
		return a.printEntry(d, happened)
	})
}

func (a *app) repoNamespace() *cobra.Command {
	none := false
	c := &cobra.Command{
		Use:   "namespace INDEX [NAMESPACE]",
		Short: "Give a repository a namespace, or take it away",
		Long: "Namespace replaces the namespace of a repository: one or two of A-Z a-z 0-9 _ -. Identities\n" +
			"begin with it in upper case, SET-0001 instead of T-0001; those that were written down\n" +
			"elsewhere before no longer read. No two repositories that are active or retiring have\n" +
			"the same one.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if none == (len(args) == 2) {
				return &usageError{errors.New("expected a namespace, or --none to take it away")}
			}
			ns := record.Namespace{}
			if !none {
				var err error
				if ns, err = namespaceArgument(args[1]); err != nil {
					return err
				}
				if ns == (record.Namespace{}) {
					return &usageError{errors.New("the namespace is empty; --none takes it away")}
				}
			}
			return a.changeEntry(c.Context(), args[0], "the namespace was changed",
				func(au *authority.Authority, i authority.RepositoryInfo) (authority.RepositoryInfo, error) {
					return au.SetNamespace(c.Context(), i.Index, ns)
				})
		},
	}
	c.Flags().BoolVar(&none, "none", false, "take the namespace away")
	return c
}

func (a *app) repoPolicy() *cobra.Command {
	return &cobra.Command{
		Use:   "policy INDEX [FLAG=on|off]...",
		Short: "Change the policy flags of a repository",
		Long: "Policy changes the requirements that a repository has by default and leaves the others as\n" +
			"they are. Without a flag it shows them. The flags are attestation, tests, lint,\n" +
			"security_scan, license_scan, ai_provenance, code_review_summary and\n" +
			"docs_only_relaxed_checks; several may be joined with commas.\n\n" +
			"`writ gate` begins with these flags and then applies the `policy` of the writ.yaml in the\n" +
			"base tree, so that a flag that is set there counts as it is there. A change that is being\n" +
			"gated is judged by the new flags from its next decision on.",
		Example: "  writ repo policy 4 tests=on lint=off\n  writ repo policy 4 code_review_summary=on,attestation=on",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := setFlags(0, args[1:]); err != nil {
				return err
			}
			happened := "the policy was changed"
			if len(args) == 1 {
				happened = ""
			}
			return a.changeEntry(c.Context(), args[0], happened,
				func(au *authority.Authority, i authority.RepositoryInfo) (authority.RepositoryInfo, error) {
					if len(args) == 1 {
						return i, nil
					}
					return au.ChangePolicyFlags(c.Context(), i.Index, func(f record.PolicyFlags) (record.PolicyFlags, error) {
						return setFlags(f, args[1:])
					})
				})
		},
	}
}

// setFlags applies settings such as "tests=on,lint=off". A flag may be named with
// or without the "require_" that it has in the format.
func setFlags(f record.PolicyFlags, settings []string) (record.PolicyFlags, error) {
	for _, s := range settings {
		for part := range strings.SplitSeq(s, ",") {
			name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
			on, known := map[string]bool{"on": true, "true": true, "off": false, "false": false}[value]
			if !ok || !known {
				return f, &usageError{fmt.Errorf("%q: expected a flag and on or off, such as tests=on", part)}
			}
			bit, err := record.ParsePolicyFlag(name)
			if err != nil {
				if bit, _ = record.ParsePolicyFlag("require_" + name); bit == 0 {
					return f, &usageError{err}
				}
			}
			if f &^= bit; on {
				f |= bit
			}
		}
	}
	return f, nil
}

func (a *app) repoRetire() *cobra.Command {
	return &cobra.Command{
		Use:   "retire INDEX",
		Short: "Let a repository finish its jobs and take no new work",
		Long: "Retire refuses new tasks, changes, patchsets, reviews, lands and jobs from now on. Jobs that\n" +
			"are there can still be claimed and completed, and everything can be read. `writ repo\n" +
			"activate` takes it back; `writ repo purge` ends the repository once its jobs are done.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.changeEntry(c.Context(), args[0], "it takes no new work any more",
				func(au *authority.Authority, i authority.RepositoryInfo) (authority.RepositoryInfo, error) {
					return au.Retire(c.Context(), i.Index)
				})
		},
	}
}

func (a *app) repoActivate() *cobra.Command {
	return &cobra.Command{
		Use:   "activate INDEX",
		Short: "Let a retiring repository take new work again",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.changeEntry(c.Context(), args[0], "it takes new work again",
				func(au *authority.Authority, i authority.RepositoryInfo) (authority.RepositoryInfo, error) {
					return au.Reactivate(c.Context(), i.Index)
				})
		},
	}
}

func (a *app) repoPurge() *cobra.Command {
	yes := false
	c := &cobra.Command{
		Use:   "purge INDEX",
		Short: "End a retiring repository for good",
		Long: "Purge ends a repository that is retiring and has no queued or running jobs. Its jobs are\n" +
			"marked as removed and its namespace becomes free; its index stays taken, and everything\n" +
			"else it holds stays and can be read. This cannot be taken back.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			p := a.progress()
			defer p.clear()
			return a.changeEntry(ctx, args[0], "it is purged",
				func(au *authority.Authority, i authority.RepositoryInfo) (authority.RepositoryInfo, error) {
					if !yes && i.Lifecycle == record.LifecycleRetiring { // any other is refused anyway
						if err := a.confirmPurge(i); err != nil {
							return i, err
						}
					}
					i, err := au.Purge(ctx, i.Index, p.records("purge"))
					p.clear()
					return i, err
				})
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// confirmPurge asks a person to type the name of what is lost.
func (a *app) confirmPurge(i authority.RepositoryInfo) error {
	in, ok := a.in.(*os.File)
	if !ok || !isatty.IsTerminal(in.Fd()) {
		return &usageError{fmt.Errorf("purging repository %d cannot be taken back, and nobody can be asked here; --yes says that it is meant", i.Index)}
	}
	fmt.Fprintf(a.err, "This ends repository %d for good. Type its name, %s, to go on: ", i.Index, line(i.Name))
	typed, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(typed) != strings.TrimSpace(line(i.Name)) {
		return &usageError{fmt.Errorf("repository %d was not purged: what was typed is not its name", i.Index)}
	}
	return nil
}
