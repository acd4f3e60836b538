package authority_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// export returns the lines of an export.
func export(t *testing.T, b *authoritytest.Bundle, only *uint32) (text string, lines []authority.ExportRecord) {
	t.Helper()
	var out bytes.Buffer
	n, err := b.Authority.Export(context.Background(), &out, only)
	if err != nil {
		t.Fatal(err)
	}
	text = out.String()
	head, rest, _ := strings.Cut(text, "\n")
	var h authority.ExportHeader
	if err := json.Unmarshal([]byte(head), &h); err != nil {
		t.Fatal(err)
	}
	if h.Schema != "writ.db-export.v1" || h.LayoutID != 1 || h.Installation != b.Authority.Installation() || h.Generation != 1 || h.Epoch != 1 {
		t.Errorf("header %s", head)
	}
	for line := range strings.Lines(rest) {
		var r authority.ExportRecord
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, r)
	}
	if int64(len(lines)) != n {
		t.Errorf("%d lines, %d are said to be there", len(lines), n)
	}
	return text, lines
}

func TestExport(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	b.Update(func(tx *authority.Tx) error {
		if _, err := tx.OpenTask("<b> & \"ü\"", "Second\nline"); err != nil {
			return err
		}
		return authoritytest.Run(tx, p.Patchset, authoritytest.Passed)
	})
	text, lines := export(t, b, nil)
	if again, _ := export(t, b, nil); again != text {
		t.Error("two exports of the same records differ")
	}
	if !strings.Contains(text, `"payload":{"title":"<b> & \"ü\"","intent":"Second\nline"}`) {
		t.Error("the text of a task is missing or escaped")
	}
	// Every record of every file is there, in order.
	counts := map[string]uint32{}
	for _, l := range lines {
		at := l.Root + "/" + l.File
		if l.Index != counts[at] {
			t.Fatalf("record %d of %s, want %d", l.Index, at, counts[at])
		}
		counts[at]++
	}
	b.View(func(v *authority.View) error {
		for file, count := range map[string]func(bindb.Reader) (uint32, error){
			"task.bin": bindb.Tasks.Count, "change.bin": bindb.Changes.Count, "patchset.bin": bindb.Patchsets.Count,
			"snapshot.bin": bindb.Snapshots.Count, "line.bin": bindb.Lines.Count, "worker_job.bin": bindb.WorkerJobs.Count,
			"task_change_index.bin": bindb.TaskChanges.Count,
		} {
			n, err := count(v)
			if err != nil || n == 0 || counts["repositories/4/"+file] != n {
				t.Errorf("%s: %d records of %d (%v)", file, counts["repositories/4/"+file], n, err)
			}
		}
		return nil
	})
	if counts["registry/repository.bin"] != 5 {
		t.Errorf("%d repositories", counts["registry/repository.bin"])
	}
	// One record in full: its fields as stored, and what they stand for.
	for _, l := range lines {
		if l.File != "worker_job.bin" {
			continue
		}
		var fields map[string]any
		var decoded map[string]any
		if err := errors.Join(json.Unmarshal(l.Fields, &fields), json.Unmarshal(l.Decoded, &decoded)); err != nil {
			t.Fatal(err)
		}
		if fields["state_kind"] != 3.0 || decoded["state_kind"] != record.JobStateSucceeded.String() || fields["patchset_index_plus1"] != 1.0 ||
			decoded["patchset_index_plus1"] != "patchset.bin record 0" || decoded["created_at_s"] != "2023-11-14T22:13:20Z" || l.Payload != nil {
			t.Errorf("job %s %s %s", l.Fields, l.Decoded, l.Payload)
		}
		layout, _ := record.ByFile(l.File)
		if len(fields) != len(layout.Fields) || !strings.HasPrefix(string(l.Fields), `{"job_meta":0,"job_kind":7,`) {
			t.Errorf("fields %s", l.Fields)
		}
	}

	four, five := uint32(4), uint32(5)
	_, lines = export(t, b, &four)
	for _, l := range lines {
		if l.Root != "repositories/4" && (l.Root != "registry" || l.Index != 4) {
			t.Errorf("%s record %d of %s in the export of one repository", l.File, l.Index, l.Root)
		}
	}
	if _, err := b.Authority.Export(context.Background(), &bytes.Buffer{}, &five); !errors.Is(err, bindb.ErrNotFound) {
		t.Errorf("export of repository 5: %v", err)
	}
	if _, err := b.Authority.Export(context.Background(), failing{}, nil); !errors.Is(err, errStop) {
		t.Errorf("export to a full disk: %v", err)
	}
}

// failing is a writer that takes nothing.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errStop }
