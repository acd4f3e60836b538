package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

func (a *app) db() *cobra.Command {
	return group("db", "Look at the files of the authority",
		a.dbCheck(), a.dbRecover(), a.dbReindex(), a.dbLayout(), a.dbDump(),
		a.dbBackup(), a.dbVerify(), a.dbRestore(), a.dbCompact(), a.dbExport(), a.dbConvert(),
	)
}

func (a *app) dbLayout() *cobra.Command {
	return &cobra.Command{
		Use:   "layout",
		Short: "Print every record with its fields, from the declarations",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			doc := map[string]any{
				"schema": "writ.db-layout.v1", "layout_id": bindb.LayoutID, "header_size": bindb.HeaderSize,
				"records": record.Layouts(), "payload_files": record.PayloadFiles(),
			}
			return a.print(doc, func() {
				for _, l := range record.Layouts() {
					fmt.Fprintf(a.out, "%s  %s  %s %s  %d bytes\n", a.style.bold(l.Name), l.File, l.Root, l.Kind, l.Size)
					var rows [][]string
					for _, f := range l.Fields {
						rows = append(rows, []string{fmt.Sprintf("  %4d", f.Offset), fmt.Sprint(f.Width), f.Type, f.Name, f.Doc})
					}
					table(a.out, rows)
				}
			})
		},
	}
}

func (a *app) dbDump() *cobra.Command {
	from, limit := 0, 0
	c := &cobra.Command{
		Use:   "dump FILE",
		Short: "Print the records of one file",
		Long: "Dump prints the records of a .bin or .idx file. It reads the file as it is, and marks\n" +
			"what is malformed instead of stopping there.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.dump(args[0], from, limit) },
	}
	c.Flags().IntVar(&from, "from", 0, "first record")
	c.Flags().IntVarP(&limit, "limit", "n", 0, "how many records (default: all)")
	return c
}

// dump streams the records, so that a file of any size can be printed.
func (a *app) dump(path string, from, limit int) error {
	name := filepath.Base(path)
	layout, ok := record.ByFile(name)
	if !ok {
		return &usageError{fmt.Errorf("%s: expected the name of a record file such as patchset.bin; `writ db layout` lists them", name)}
	}
	if from < 0 || limit < 0 {
		return &usageError{fmt.Errorf("--from and --limit: expected numbers from 0")}
	}
	f, err := os.Open(path)
	if err != nil {
		if os.IsNotExist(err) {
			err = fmt.Errorf("%s: %w", path, bindb.ErrNotFound)
		}
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	body := info.Size() - bindb.HeaderSize
	var head [bindb.HeaderSize]byte
	if n, _ := f.ReadAt(head[:], 0); n < len(head) || head != [4]byte{bindb.LayoutID} {
		return fmt.Errorf("%s: %w: its header is % x", path, bindb.ErrLayout, head[:n])
	}
	count := body / int64(layout.Size)
	out := bufio.NewWriter(a.out)
	if a.json {
		fmt.Fprintf(out, "{\"schema\": \"writ.db-dump.v1\", \"file\": %q, \"record\": %q, \"count\": %d, \"trailing_bytes\": %d, \"records\": [",
			name, layout.Name, count, body%int64(layout.Size))
	}
	buf := make([]byte, layout.Size)
	for i := int64(from); i < count && (limit == 0 || i < int64(from)+int64(limit)); i++ {
		if _, err := f.ReadAt(buf, bindb.HeaderSize+i*int64(layout.Size)); err != nil {
			return err
		}
		d := record.Dump(layout, int(i), buf)
		if !a.json {
			fmt.Fprintln(out, d.Text())
			continue
		}
		b, err := json.Marshal(d)
		if err != nil {
			return err
		}
		if i > int64(from) {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n  %s", b)
	}
	if a.json {
		fmt.Fprintln(out, "\n]}")
	} else if rest := body % int64(layout.Size); rest != 0 {
		fmt.Fprintf(out, "%d bytes behind the last whole record\n", rest)
	}
	return out.Flush()
}
