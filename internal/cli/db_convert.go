package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/convert"
)

func (a *app) dbConvert() *cobra.Command {
	var o convert.Options
	var gates []string
	c := &cobra.Command{
		Use:   "convert --from KIND SOURCE",
		Short: "Make an authority of what an earlier server kept",
		Long: "Convert reads the directory SOURCE, which nobody may be writing to, and makes a new authority\n" +
			"of it in the data directory, where there must be none. KIND is " + convert.FromU32Time + ", a generation of the\n" +
			"predecessor, or " + convert.FromLegacyRows + ", tables as JSON documents. All of it is converted or nothing.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.From == "" {
				return &usageError{fmt.Errorf("--from: expected the kind of the source, %s", strings.Join(convert.Kinds(), " or "))}
			}
			for _, name := range gates {
				g, err := convert.ParseGate(name)
				if err != nil {
					return err
				}
				o.Gates = append(o.Gates, g)
			}
			if o.Source, err = filepath.Abs(args[0]); err != nil {
				return err
			}
			return a.convert(c.Context(), o)
		},
	}
	names := make([]string, 0, len(convert.Gates()))
	for _, g := range convert.Gates() {
		names = append(names, string(g))
	}
	f := c.Flags()
	f.StringVar(&o.From, "from", "", "kind of the source: "+strings.Join(convert.Kinds(), " or "))
	f.StringSliceVar(&gates, "gate", nil, "set one rule aside: "+strings.Join(names, ", "))
	f.BoolVar(&o.Salvage, "salvage", false, "leave out changes of which a revision snapshot is lost, and report them")
	f.StringVar(&o.Order, "order", "", "document that fixes the indexes of repositories")
	f.BoolVar(&o.DryRun, "dry-run", false, "convert and validate, and keep nothing")
	return c
}

func (a *app) convert(ctx context.Context, o convert.Options) (err error) {
	dir, err := a.dataDir(ctx)
	if err != nil {
		return err
	}
	if o.DryRun {
		// On the same disk, and out of the way of whatever is there.
		if dir, err = os.MkdirTemp(existing(filepath.Dir(dir)), ".writ-dry-run-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	p := a.progress()
	defer p.clear()
	o.Progress = p.bytes("convert")
	rep, err := convert.Convert(ctx, o, authority.Options{Dir: dir})
	if err != nil {
		return err
	}
	p.clear()
	return a.print(rep, func() { a.showConversion(rep) })
}

// existing is the nearest directory on the way up that exists.
func existing(dir string) string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func (a *app) showConversion(rep *convert.Report) {
	verb := "converted"
	if rep.DryRun {
		verb = "can be converted (dry run, nothing was kept)"
	}
	fmt.Fprintf(a.out, "%s: %s\n", printable(rep.Source), verb)
	fmt.Fprintf(a.out, "source %s, %s in %d files, inventory %s\n", rep.From, size(rep.Inventory.Bytes), rep.Inventory.Files, rep.Inventory.SHA256)
	rows := [][]string{{"repository", "name", "lifecycle", "records", "bytes"}}
	for _, r := range rep.Repositories {
		records, bytes := uint64(0), int64(0)
		for _, f := range r.Families {
			records += uint64(f.Records)
			bytes += f.Bytes
		}
		rows = append(rows, []string{fmt.Sprint(r.Index), line(r.Name), r.Lifecycle, fmt.Sprint(records), size(bytes)})
	}
	table(a.out, rows)
	for _, g := range rep.Gates {
		fmt.Fprintf(a.out, "gate %s: repository %d, %s\n", g.Gate, g.Repository, line(g.Identity))
	}
	for _, o := range rep.Omitted {
		fmt.Fprintf(a.out, "left out: repository %d, %s: %s\n", o.Repository, line(o.Identity), o.Reason)
	}
	for _, w := range rep.Warnings {
		fmt.Fprintf(a.out, "note: %s\n", line(w))
	}
	if !rep.DryRun {
		fmt.Fprintf(a.out, "%s: installation %s, generation %d\n", printable(rep.Target), rep.Installation, rep.Generation)
	}
}
