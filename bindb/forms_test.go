package bindb_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

const (
	updateJournalFile = ".worker_job.bin.update-journal"
	appendIntentFile  = ".worker_job.bin.append-intent"
	landJournalFile   = "server-land.write.journal"
)

// updateJournal is the journal of another implementation for one Job.
func updateJournal(index uint32, before, after []byte) []byte {
	j := record.WorkerJobUpdateJournal{
		Magic: [8]byte([]byte(record.WorkerJobUpdateJournalMagic)), Job: index,
		Before: [record.WorkerJobSize]byte(before), After: [record.WorkerJobSize]byte(after),
	}
	b := make([]byte, record.WorkerJobUpdateJournalSize)
	j.Encode(b)
	j.Digest = sha256.Sum256(b[:len(b)-sha256.Size])
	j.Encode(b)
	return b
}

func appendIntent(length uint64) []byte {
	intent := record.AppendIntent{Length: length, Digest: sha256.Sum256(le(length, 8))}
	b := make([]byte, record.AppendIntentSize)
	intent.Encode(b)
	return b
}

// rollback is a text journal with the given lines.
func rollback(lines ...string) []byte {
	return []byte("ait-binary-db-rollback-journal-v1\n" + strings.Join(lines, ""))
}

func fileLine(name string, length int64) string {
	return fmt.Sprintf("file\t1\t%d\t%s\n", length, name)
}

func beforeLine(name string, off int64, b []byte) string {
	return fmt.Sprintf("before\t%d\t%s\t%s\n", off, hex.EncodeToString(b), name)
}

// disk is a root at rest whose bytes are changed by hand.
type disk struct {
	t   testing.TB
	sim *vfs.Sim
	cfg bindb.Config
}

func (d disk) read(name string) []byte {
	d.t.Helper()
	b, err := vfs.ReadFile(d.sim, d.cfg.Dir+"/"+name, 1<<20)
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

// write replaces a file, durably.
func (d disk) write(name string, b []byte) {
	d.t.Helper()
	if err := writeFile(d.sim, d.cfg.Dir+"/"+name, b); err != nil {
		d.t.Fatal(err)
	}
	for _, dir := range []string{"/", d.cfg.Dir} {
		if err := d.sim.SyncDir(dir); err != nil {
			d.t.Fatal(err)
		}
	}
}

// rewrite changes a file in place, behind the back of whoever has it open.
func (d disk) rewrite(name string, b []byte) {
	d.t.Helper()
	f, err := d.sim.OpenFile(d.cfg.Dir+"/"+name, os.O_RDWR, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	_, err = f.WriteAt(b, 0)
	if err := errors.Join(err, f.Truncate(int64(len(b))), f.Close()); err != nil {
		d.t.Fatal(err)
	}
}

// job is record i of worker_job.bin and another version of it.
func (d disk) job(i uint32) (off int64, before, after []byte) {
	off = bindb.HeaderSize + int64(i)*record.WorkerJobSize
	before = d.read("worker_job.bin")[off:][:record.WorkerJobSize]
	var j record.WorkerJob
	if err := j.Decode(before); err != nil {
		d.t.Fatal(err)
	}
	j.UpdatedAt += 0x01010101
	after = make([]byte, record.WorkerJobSize)
	j.Encode(after)
	return off, before, after
}

// put writes bytes into a file of the root.
func (d disk) put(name string, off int64, b []byte) {
	d.t.Helper()
	content := d.read(name)
	content = append(content[:off:off], append(slices.Clone(b), content[min(int(off)+len(b), len(content)):]...)...)
	d.write(name, content)
}

func (d disk) size(name string) int64 { return int64(len(d.read(name))) }

// forms lists the recovery files in the root.
func (d disk) forms() []string {
	list, err := d.sim.ReadDir(d.cfg.Dir)
	if err != nil {
		d.t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		if slices.Contains(record.Temporaries(d.cfg.Kind), e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// anAppend is what a reference server does to a few files inside of one mutation:
// a Line with its name.
type anAppend struct {
	line, name       []byte // new bytes
	lineOld, nameOld int64
}

func (d disk) anAppend() anAppend {
	a := anAppend{name: []byte("hotfix"), lineOld: d.size("line.bin"), nameOld: d.size("line_name_payload.bin")}
	l := record.Line{NameOffset: uint64(a.nameOld), NameLen: 6, CreatedAt: 5, UpdatedAt: 5}
	a.line = make([]byte, record.LineSize)
	l.Encode(a.line)
	return a
}

// formCase is a sound root into which fn puts a recovery file and what it speaks
// of.
type formCase struct {
	fn   func(d disk)
	kept bool   // the root keeps what fn has written into worker_job.bin
	what string // a part of the report
	err  string // the root is refused
}

var formCases = malformedJournals(map[string]formCase{
	"update journal, record not begun": {fn: func(d disk) {
		_, before, after := d.job(1)
		d.write(updateJournalFile, updateJournal(1, before, after))
	}, what: "the replacement of worker_job.bin record 1 had not begun"},
	"update journal, record complete": {fn: func(d disk) {
		off, before, after := d.job(1)
		d.put("worker_job.bin", off, after)
		d.write(updateJournalFile, updateJournal(1, before, after))
	}, kept: true, what: "the replacement of worker_job.bin record 1 was complete and has been kept"},
	"update journal, record torn": {fn: func(d disk) {
		off, before, after := d.job(1)
		d.put("worker_job.bin", off, after[:20])
		d.put("worker_job.bin", off+40, []byte{0xff})
		d.write(updateJournalFile, updateJournal(1, before, after))
	}, what: "worker_job.bin record 1 was half replaced and has been put back"},
	"update journal, wrong digest": {fn: func(d disk) {
		off, before, after := d.job(1)
		d.put("worker_job.bin", off, after)
		j := updateJournal(1, before, after)
		j[20] ^= 1
		d.write(updateJournalFile, j)
	}, kept: true, what: "no record was touched"},
	"update journal, half written": {fn: func(d disk) {
		off, before, after := d.job(1)
		d.put("worker_job.bin", off, after)
		d.write(updateJournalFile, updateJournal(1, before, after)[:147])
	}, kept: true, what: "no record was touched"},
	"update journal, empty": {fn: func(d disk) { d.write(updateJournalFile, nil) }, what: "no record was touched"},
	"update journal, magic overwritten": {fn: func(d disk) {
		off, before, after := d.job(1)
		d.put("worker_job.bin", off, after)
		j := updateJournal(1, before, after)
		clear(j[:8])
		d.write(updateJournalFile, j)
	}, kept: true, what: "no record was touched"},
	"update journal of another version": {fn: func(d disk) {
		_, before, after := d.job(1)
		j := updateJournal(1, before, after)
		j[7] = '2'
		sum := sha256.Sum256(j[:116])
		copy(j[116:], sum[:])
		d.write(updateJournalFile, j)
	}, err: `.worker_job.bin.update-journal has the magic "AITWJUP2", want "AITWJUP1"`},
	"update journal, no such record": {fn: func(d disk) {
		_, before, after := d.job(1)
		d.write(updateJournalFile, updateJournal(2, before, after))
	}, err: "names record 2 of worker_job.bin, which has 2 records"},
	"update staging": {fn: func(d disk) { d.write(".worker_job.bin.update-staging", []byte("AITW")) }, what: "was not put in place"},
	"rewrite":        {fn: func(d disk) { d.write(".worker_job.bin.rewrite", []byte{1}) }, what: "was not put in place"},
	"rebuild":        {fn: func(d disk) { d.write(".worker_state.idx.rebuild", nil) }, what: "was not put in place"},

	"append intent, not begun": {fn: func(d disk) {
		d.write(appendIntentFile, appendIntent(uint64(d.size("worker_job.bin"))))
	}, what: "the append to worker_job.bin had not begun"},
	"append intent, one byte": {fn: func(d disk) {
		n := d.size("worker_job.bin")
		d.put("worker_job.bin", n, []byte{9})
		d.write(appendIntentFile, appendIntent(uint64(n)))
	}, what: "1 bytes of a record that was being appended to worker_job.bin have been cut"},
	"append intent, all but one byte": {fn: func(d disk) {
		_, before, _ := d.job(1)
		n := d.size("worker_job.bin")
		d.put("worker_job.bin", n, before[:51])
		d.write(appendIntentFile, appendIntent(uint64(n)))
	}, what: "51 bytes of a record that was being appended to worker_job.bin have been cut"},
	"append intent, whole record": {fn: func(d disk) {
		n := d.size("worker_job.bin")
		_, _, after := d.job(1)
		d.put("worker_job.bin", n, after)
		d.write(appendIntentFile, appendIntent(uint64(n)))
	}, kept: true, what: "the append to worker_job.bin was complete and has been kept"},
	"append intent, more than a record": {fn: func(d disk) {
		n := d.size("worker_job.bin")
		_, _, after := d.job(1)
		d.put("worker_job.bin", n, append(after, 1, 2, 3))
		d.write(appendIntentFile, appendIntent(uint64(n)))
	}, err: "not a multiple of the record size 52"},
	"append intent, wrong digest": {fn: func(d disk) {
		n := d.size("worker_job.bin")
		d.put("worker_job.bin", n, []byte{9})
		intent := appendIntent(uint64(n))
		intent[39] ^= 1
		d.write(appendIntentFile, intent)
	}, err: "not a multiple of the record size 52"},
	"no append intent": {fn: func(d disk) {
		d.put("worker_job.bin", d.size("worker_job.bin"), []byte{9})
	}, err: "not a multiple of the record size 52"},
	"append intent, file shorter": {fn: func(d disk) {
		d.write(appendIntentFile, appendIntent(uint64(d.size("worker_job.bin")+52)))
	}, err: ".worker_job.bin.append-intent says that 160 were committed"},
	"append intent, no whole number of records": {fn: func(d disk) {
		d.write(appendIntentFile, appendIntent(57))
	}, err: "no whole number of records"},
	"append intent, absurd length": {fn: func(d disk) {
		d.write(appendIntentFile, appendIntent(1<<64-1))
	}, err: "a length of 18446744073709551615 bytes"},
	"append intent and interior damage": {fn: func(d disk) {
		n := d.size("worker_job.bin")
		d.put("worker_job.bin", bindb.HeaderSize, []byte{1}) // bits of Job 0
		d.put("worker_job.bin", n, []byte{9})
		d.write(appendIntentFile, appendIntent(uint64(n)))
	}, err: "worker_job.bin record 0: job_meta"},
	"append intent and update journal": {fn: func(d disk) {
		_, before, after := d.job(1)
		n := d.size("worker_job.bin")
		d.put("worker_job.bin", n, []byte{9})
		d.put("worker_job.bin", n-52, after)
		d.write(appendIntentFile, appendIntent(uint64(n)))
		d.write(updateJournalFile, updateJournal(1, before, after))
	}, err: "both describe an interrupted change of worker_job.bin"},

	"rollback journal, nothing in it":  {fn: func(d disk) { d.write(landJournalFile, nil) }, what: "no file was changed"},
	"rollback journal, torn header":    {fn: func(d disk) { d.write(landJournalFile, rollback()[:20]) }, what: "no file was changed"},
	"rollback journal, only a header":  {fn: func(d disk) { d.write(landJournalFile, rollback()) }, what: "a mutation of 0 files"},
	"rollback journal of another form": {fn: func(d disk) { d.write(landJournalFile, []byte("binary-db-rollback-journal-v2\n")) }, err: "server-land.write.journal line 1"},
	"rollback journal, files not changed yet": {fn: func(d disk) {
		d.write(landJournalFile, rollback(fileLine("line.bin", d.size("line.bin"))))
	}, what: "a mutation of 1 files has been taken back"},
	"rollback journal, an append": {fn: func(d disk) {
		a := d.anAppend()
		d.put("line_name_payload.bin", a.nameOld, a.name)
		d.put("line.bin", a.lineOld, a.line)
		d.write(landJournalFile, rollback(fileLine("line_name_payload.bin", a.nameOld), fileLine("line.bin", a.lineOld)))
	}, what: "a mutation of 2 files has been taken back"},
	"rollback journal, a torn append and a torn tail of the journal": {fn: func(d disk) {
		a := d.anAppend()
		d.put("line.bin", a.lineOld, a.line[:13])
		d.write(landJournalFile, rollback(fileLine("line.bin", a.lineOld), "file\t1\t4"))
	}, what: "a mutation of 1 files has been taken back"},
	"rollback journal, two changes of the same bytes": {fn: func(d disk) {
		off, before, after := d.job(1)
		d.put("worker_job.bin", off, after[:7])
		d.write("server-queue.write.journal", rollback(
			fileLine("worker_job.bin", d.size("worker_job.bin")), beforeLine("worker_job.bin", off, before),
			beforeLine("worker_job.bin", off+8, []byte("later")),
		))
	}, what: "a mutation of 1 files has been taken back"},
	"rollback journal, bytes that are gone": {fn: func(d disk) {
		off, before, _ := d.job(1)
		n := d.size("worker_job.bin")
		d.write("worker_job.bin", d.read("worker_job.bin")[:off])
		d.write("global.write.journal", rollback(fileLine("worker_job.bin", n), beforeLine("worker_job.bin", off, before)))
	}, what: "a mutation of 1 files has been taken back"},
	"rollback journal, bytes that nobody has": {fn: func(d disk) {
		off, before, _ := d.job(1)
		n := d.size("worker_job.bin")
		d.write("worker_job.bin", d.read("worker_job.bin")[:off])
		d.write("global.write.journal", rollback(fileLine("worker_job.bin", n), beforeLine("worker_job.bin", off+1, before[1:])))
	}, err: "worker_job.bin has 56 bytes; global.write.journal says that it had 108, and does not hold the byte at 56"},
	"rollback journal, an index": {fn: func(d disk) {
		d.write("worker_ready.idx", []byte{1, 0, 0, 0, 9, 9})
		d.write(landJournalFile, rollback("file\t0\t0\tworker_ready.idx\n", fileLine("worker_state.idx", 900), beforeLine("worker_state.idx", 4, []byte{1})))
	}, what: "a mutation of 2 files has been taken back"},
	"two rollback journals": {fn: func(d disk) {
		a := d.anAppend()
		off, before, after := d.job(1)
		d.put("worker_job.bin", off, after)
		d.put("line.bin", a.lineOld, a.line)
		d.write(landJournalFile, rollback(fileLine("line.bin", a.lineOld)))
		d.write("server-queue.write.journal", rollback(fileLine("worker_job.bin", d.size("worker_job.bin")), beforeLine("worker_job.bin", off, before)))
	}, what: "server-queue.write.journal: a mutation of 1 files"},
	"two rollback journals of one file": {fn: func(d disk) {
		for _, name := range []string{landJournalFile, "server-queue.write.journal"} {
			d.write(name, rollback(fileLine("line.bin", d.size("line.bin"))))
		}
	}, err: "both describe an interrupted change of line.bin"},
})

// malformedJournals adds rollback journals with a line that cannot be trusted.
func malformedJournals(cases map[string]formCase) map[string]formCase {
	for name, line := range map[string]string{
		"too few parts":             "file\t1\t4\n",
		"an empty line":             "\n",
		"an unknown word":           "after\t1\t4\tline.bin\n",
		"another root":              "file\t1\t4\trepository.bin\n",
		"no file of the format":     "file\t1\t4\tnotes.bin\n",
		"a lock":                    "file\t1\t0\tworker-queue.lock\n",
		"itself":                    "file\t1\t0\tserver-land.write.journal\n",
		"a path upwards":            "file\t1\t4\t../5/line.bin\n",
		"a path with a dot":         "file\t1\t4\t./line.bin\n",
		"an absolute path":          "file\t1\t4\t/4/line.bin\n",
		"a negative length":         "file\t1\t-4\tline.bin\n",
		"a length with a sign":      "file\t1\t+4\tline.bin\n",
		"a length with a zero":      "file\t1\t04\tline.bin\n",
		"a length beyond 63 bits":   "file\t1\t9223372036854775808\tline.bin\n",
		"a part of a record":        "file\t1\t5\tline.bin\n",
		"no header":                 "file\t1\t0\tline.bin\n",
		"a required file not there": "file\t0\t0\tline.bin\n",
		"neither 0 nor 1":           "file\t2\t4\tline.bin\n",
		"a length of nothing":       "file\t0\t4\tworker_ready.idx\n",
		"the same file twice":       "file\t1\t4\tline.bin\nfile\t1\t4\tline.bin\n",
		"bytes of an unnamed file":  "before\t4\t00\tline.bin\n",
		"bytes that are no hex":     "file\t1\t44\tline.bin\nbefore\t4\t0g\tline.bin\n",
		"half a byte":               "file\t1\t44\tline.bin\nbefore\t4\t000\tline.bin\n",
		"no bytes":                  "file\t1\t44\tline.bin\nbefore\t4\t\tline.bin\n",
		"bytes behind the end":      "file\t1\t44\tline.bin\nbefore\t43\t0000\tline.bin\n",
		"bytes far behind the end":  "file\t1\t44\tline.bin\nbefore\t9223372036854775807\t00\tline.bin\n",
		"another header":            "file\t1\t44\tline.bin\nbefore\t0\t02000000ff\tline.bin\n",
		"a part of another header":  "file\t1\t44\tline.bin\nbefore\t3\t01\tline.bin\n",
		"a bad offset":              "file\t1\t44\tline.bin\nbefore\tx\t00\tline.bin\n",
	} {
		cases["rollback journal with "+name] = formCase{fn: func(d disk) {
			// The whole journal is understood before a byte changes.
			d.write(landJournalFile, rollback(fileLine("actor.bin", bindb.HeaderSize), line))
		}, err: "server-land.write.journal line "}
	}
	return cases
}

func TestForms(t *testing.T) {
	t.Parallel()
	for name, c := range formCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, cfg := soundRoot(t)
			d := disk{t, sim, cfg}
			want := dump(t, cfg)
			c.fn(d)
			if c.kept {
				want = dump(t, cfg)
			}
			before, left := dump(t, cfg), d.forms()
			r, err := bindb.Open(context.Background(), cfg)
			if c.err != "" {
				if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %s", err, c.err)
				}
				// A sole interrupted append is cut even where other bytes are wrong.
				if name != "append intent and interior damage" && dump(t, cfg) != before {
					t.Error("a refused root was changed")
				}
				if strings.HasPrefix(c.err, ".") || strings.HasPrefix(c.err, "server-") {
					if now := d.forms(); !slices.Equal(now, left) {
						t.Errorf("the root was refused, but %v became %v", left, now)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if dump(t, cfg) != want {
				t.Errorf("the root is now\n%s, want\n%s", dump(t, cfg), want)
			}
			if left := d.forms(); len(left) > 0 {
				t.Errorf("%v is left behind", left)
			}
			if report := fmt.Sprint(r.Recoveries()); !strings.Contains(report, c.what) {
				t.Errorf("the report is %s, want %s", report, c.what)
			}
			expect(t, r, "")
			if !r.SumsKnown() {
				t.Error("after the recovery the checksums are not known")
			}
			closeRoot(t, r)
			r = open(t, cfg)
			if got := r.Recoveries(); len(got) > 0 {
				t.Errorf("a second time: %v", got)
			}
			expect(t, r, "")
			closeRoot(t, r)
		})
	}
}

// Power cuts anywhere in the recovery, and again in the next one.
func TestCrashInRecoveryOfForms(t *testing.T) {
	t.Parallel()
	for name, c := range formCases {
		if c.err != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, cfg := soundRoot(t)
			settle(t, sim)
			want := dump(t, cfg)
			c.fn(disk{t, sim, cfg})
			if c.kept {
				want = dump(t, cfg)
			}
			sim.Capture()
			begin := sim.OpCount()
			closeRoot(t, open(t, cfg))
			seen := map[uint64]bool{}
			p := policy(t)
			for cut := begin; cut <= sim.OpCount(); cut++ {
				for state := range sim.CrashStates(cut, p) {
					if seen[state.Fingerprint()] {
						continue
					}
					seen[state.Fingerprint()] = true
					again := cfg
					again.FS = state
					r, err := bindb.Open(context.Background(), again)
					if err != nil {
						t.Fatalf("%s: %v", state.Origin(), err)
					}
					if dump(t, again) != want {
						t.Fatalf("%s: the root is\n%s, want\n%s", state.Origin(), dump(t, again), want)
					}
					if left := (disk{t, state, again}).forms(); len(left) > 0 {
						t.Fatalf("%s: %v is left behind", state.Origin(), left)
					}
					if findings, err := r.Check(context.Background()); err != nil || len(findings) > 0 {
						t.Fatalf("%s: %v %v", state.Origin(), findings, err)
					}
					closeRoot(t, r)
				}
			}
		})
	}
}

// The files of the registry have the same forms.
func TestFormsOfRegistry(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (disk, []byte, []byte) {
		sim := vfs.NewSim()
		cfg := bindb.Config{FS: sim, Dir: "/registry", Kind: record.RootRegistry, Label: "registry", Runtime: "/runtime", Identity: [32]byte{3}}
		err := bindb.CreateWith(context.Background(), cfg, write(func(w *writer) {
			for _, name := range record.ReservedRepositories {
				off, n := w.text(bindb.RepositoryPayload, &record.RepositoryPayload{Name: name})
				appendTo(w, bindb.Repositories, record.Repository{
					Lifecycle: record.LifecycleActive, PayloadLen: uint32(n), PayloadOffset: off, CreatedAt: 1, UpdatedAt: 1,
				})
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		d := disk{t, sim, cfg}
		before := d.read("repository.bin")[bindb.HeaderSize+2*record.RepositorySize:][:record.RepositorySize]
		var rec record.Repository
		if err := rec.Decode(before); err != nil {
			t.Fatal(err)
		}
		rec.Lifecycle = record.LifecycleRetiring
		rec.UpdatedAt++
		after := make([]byte, record.RepositorySize)
		rec.Encode(after)
		return d, before, after
	}
	journal := func(index uint32, before, after []byte) []byte {
		j := record.RepositoryUpdateJournal{
			Magic: [8]byte([]byte(record.RepositoryUpdateJournalMagic)), Repository: index,
			Before: [record.RepositorySize]byte(before), After: [record.RepositorySize]byte(after),
		}
		b := make([]byte, record.RepositoryUpdateJournalSize)
		j.Encode(b)
		j.Digest = sha256.Sum256(b[:len(b)-sha256.Size])
		j.Encode(b)
		return b
	}
	at := int64(bindb.HeaderSize + 2*record.RepositorySize)
	for name, c := range map[string]struct {
		fn   func(d disk, before, after []byte)
		kept bool
	}{
		"complete": {func(d disk, before, after []byte) {
			d.put("repository.bin", at, after)
			d.write(".repository.bin.update-journal", journal(2, before, after))
		}, true},
		"torn": {func(d disk, before, after []byte) {
			d.put("repository.bin", at, after[:3])
			d.write(".repository.bin.update-journal", journal(2, before, after))
		}, false},
		"append": {func(d disk, before, _ []byte) {
			n := d.size("repository.bin")
			d.put("repository.bin", n, before[:32])
			d.write(".repository.bin.append-intent", appendIntent(uint64(n)))
		}, false},
		"temporaries": {func(d disk, _, _ []byte) {
			d.write(".repository.bin.rewrite", []byte{1})
			d.write(".repository_namespace.idx.rebuild", []byte{1})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, before, after := setup(t)
			want := dump(t, d.cfg)
			c.fn(d, before, after)
			if c.kept {
				want = dump(t, d.cfg)
			}
			r := open(t, d.cfg)
			expect(t, r, "")
			closeRoot(t, r)
			if got := dump(t, d.cfg); got != want {
				t.Errorf("got\n%s, want\n%s", got, want)
			}
			if left := d.forms(); len(left) > 0 {
				t.Errorf("%v is left behind", left)
			}
		})
	}
}

// An unfinished purge concerns the registry: a root with one is refused as it is.
func TestPurgeIsLeftAlone(t *testing.T) {
	t.Parallel()
	sim, cfg := soundRoot(t)
	d := disk{t, sim, cfg}
	d.write(".repository-purge.journal.json", []byte("{}"))
	_, err := bindb.Open(context.Background(), cfg)
	if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "purge that was not finished") {
		t.Errorf("got %v", err)
	}
	if left := d.forms(); len(left) != 1 {
		t.Errorf("the files of the purge are now %v", left)
	}
}

// A journal of this writer and one of another implementation can't be told in order.
func TestFormsBesideOurJournal(t *testing.T) {
	t.Parallel()
	sim, cfg := soundRoot(t)
	proc := sim.Process()
	dying := cfg
	dying.FS = proc
	r := open(t, dying)
	sim.Fail(serially(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && op.Path == "/4/line.bin" {
			proc.Crash()
		}
		return nil
	}))
	if err := r.Update(context.Background(), write(func(w *writer) { w.line("half") })); err == nil {
		t.Fatal("a crashed process was answered")
	}
	sim.Fail(nil)
	d := disk{t, sim, cfg}
	d.write(landJournalFile, rollback(fileLine("actor.bin", d.size("actor.bin"))))
	before := dump(t, cfg)
	if _, err := bindb.Open(context.Background(), cfg); !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "which came first") {
		t.Errorf("got %v", err)
	}
	if dump(t, cfg) != before {
		t.Error("a refused root was changed")
	}
	if err := sim.Remove("/4/" + landJournalFile); err != nil {
		t.Fatal(err)
	}
	r = open(t, cfg)
	if got := fmt.Sprint(r.Recoveries()); !strings.Contains(got, "taken back") {
		t.Errorf("recovered: %v", got)
	}
	expect(t, r, "")
	closeRoot(t, r)
}

// Faults in the recovery leave a root that the next open recovers.
func TestFaultsInRecoveryOfForms(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		sim, cfg := soundRoot(t)
		d := disk{t, sim, cfg}
		off, before, after := d.job(1)
		want := dump(t, cfg)
		d.put("worker_job.bin", off, after[:30])
		d.write(updateJournalFile, updateJournal(1, before, after))
		a := d.anAppend()
		d.put("line.bin", a.lineOld, a.line[:30])
		d.write(landJournalFile, rollback(fileLine("line.bin", a.lineOld)))
		seen, failed := 0, ""
		sim.Fail(serially(func(op vfs.Op) error {
			if op.Kind == vfs.OpUnlock || op.Kind == vfs.OpClose || strings.HasPrefix(op.Path, "/runtime/mark") && op.Kind >= vfs.OpOpen {
				return nil
			}
			if seen++; seen != n+1 {
				return nil
			}
			failed = op.String()
			if op.Kind == vfs.OpOpen {
				return syscall.EMFILE
			}
			return syscall.EIO
		}))
		r, err := bindb.Open(context.Background(), cfg)
		sim.Fail(nil)
		if err == nil && failed != "" {
			// Only what does not matter may fail unnoticed.
			if !strings.Contains(failed, "/runtime/") {
				t.Fatalf("%s was not noticed", failed)
			}
		}
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrPermission) {
				t.Fatalf("%s became %v", failed, err)
			}
			r = open(t, cfg)
		}
		if dump(t, cfg) != want {
			t.Fatalf("after %s the root is\n%s", failed, dump(t, cfg))
		}
		expect(t, r, "")
		closeRoot(t, r)
		if failed == "" {
			if n < 30 {
				t.Fatalf("only %d operations could fail", n)
			}
			return
		}
	}
}

// What a killed process has written may not be durable, though everybody sees it:
// its recovery file must not go before that is.
func TestFormsAfterUnsyncedWrites(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]func(d disk){
		"update journal, put back": func(d disk) {
			off, before, after := d.job(1)
			sound := d.read("worker_job.bin")
			d.put("worker_job.bin", off, after[:20])
			d.put("worker_job.bin", off+40, []byte{0xff})
			d.write(updateJournalFile, updateJournal(1, before, after))
			d.rewrite("worker_job.bin", sound)
		},
		"update journal, complete": func(d disk) {
			off, before, after := d.job(1)
			d.write(updateJournalFile, updateJournal(1, before, after))
			d.rewrite("worker_job.bin", append(d.read("worker_job.bin")[:off], after...))
		},
		"append intent, whole record": func(d disk) {
			n := d.size("worker_job.bin")
			_, _, after := d.job(1)
			d.write(appendIntentFile, appendIntent(uint64(n)))
			d.rewrite("worker_job.bin", append(d.read("worker_job.bin"), after...))
		},
		"append intent, tail cut": func(d disk) {
			sound := d.read("worker_job.bin")
			d.put("worker_job.bin", int64(len(sound)), []byte{9, 9, 9})
			d.write(appendIntentFile, appendIntent(uint64(len(sound))))
			d.rewrite("worker_job.bin", sound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, cfg := soundRoot(t)
			settle(t, sim)
			sim.Capture()
			fn(disk{t, sim, cfg})
			want := dump(t, cfg)
			begin := sim.OpCount()
			r := open(t, cfg)
			end := sim.OpCount()
			closeRoot(t, r)
			p, judged := policy(t), 0
			for cut := begin; cut <= end; cut++ {
				for state := range sim.CrashStates(cut, p) {
					again := cfg
					again.FS = state
					if len(disk{t, state, again}.forms()) > 0 {
						continue // all is still to be done
					}
					if dump(t, again) != want {
						t.Fatalf("%s: the recovery file is gone, and so is what was seen", state.Origin())
					}
					r, err := bindb.Open(context.Background(), again)
					if err != nil {
						t.Fatalf("%s: %v", state.Origin(), err)
					}
					judged++
					expect(t, r, "")
					closeRoot(t, r)
				}
			}
			if judged == 0 {
				t.Fatal("no power cut came after the recovery")
			}
		})
	}
}

// A writer that dies while an open waits for its lock leaves a root that this open
// refuses, rather than taking what is half written for committed.
func TestFormsOfAWriterThatDiesMeanwhile(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("own ", own), func(t *testing.T) {
			t.Parallel()
			sim, cfg := soundRoot(t)
			cfg.Own = own
			ctx := context.Background()
			other := cfg
			proc := sim.Process()
			other.FS = proc
			if _, err := bindb.Hold(ctx, other); err != nil {
				t.Fatal(err)
			}
			waiting := make(chan struct{})
			once := sync.OnceFunc(func() { close(waiting) })
			sim.Fail(func(op vfs.Op) error {
				if op.Kind == vfs.OpLock {
					once()
				}
				return nil
			})
			opened := make(chan error)
			go func() {
				_, err := bindb.Open(ctx, cfg)
				opened <- err
			}()
			<-waiting
			sim.Fail(nil)
			d := disk{t, sim, cfg}
			want := dump(t, cfg)
			a := d.anAppend()
			d.write(landJournalFile, rollback(fileLine("line_name_payload.bin", a.nameOld), fileLine("line.bin", a.lineOld)))
			d.put("line_name_payload.bin", a.nameOld, a.name)
			d.put("line.bin", a.lineOld, a.line)
			proc.Crash()
			if err := <-opened; !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), landJournalFile) {
				t.Fatalf("the open gave %v", err)
			}
			r := open(t, cfg)
			if dump(t, cfg) != want {
				t.Error("what was half written has not been taken back")
			}
			expect(t, r, "")
			closeRoot(t, r)
		})
	}
}
