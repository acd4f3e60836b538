package bindb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// sealed completes the head and the digest of a journal around any body, so that
// the fuzzer reaches what lies behind them.
func sealed(body []byte) []byte {
	b := append([]byte(journalMagic), make([]byte, journalHead-len(journalMagic))...)
	binary.LittleEndian.PutUint64(b[journalLengthAt:], uint64(len(body)))
	b = append(b, body...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func FuzzDecodeJournal(f *testing.F) {
	whole := (&journal{batch: 7, identity: [32]byte{1}, files: []journalFile{
		{f: mustFamily("task.bin"), old: 64, new: 124, images: []journalImage{{4, make([]byte, 60), bytes.Repeat([]byte{1}, 60)}}},
		{f: mustFamily("task_payload.bin"), old: 4, new: 9},
	}}).encode(nil)
	f.Add(whole, false)
	f.Add(whole[:len(whole)-1], false)
	f.Add(whole[journalHead:len(whole)-journalDigest], true)
	f.Add([]byte{1, 0, 0, 0}, true)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, true)
	f.Add(append([]byte{1, 0, 0, 0, 8}, "task.bin"...), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal {
			b = sealed(b)
		}
		j, err := decodeJournal(b)
		if err != nil && j != nil {
			t.Fatal("a journal came with an error")
		}
		if seal && j == nil && err == nil {
			t.Fatal("a journal with a right digest was taken for a torn one")
		}
		if j == nil {
			return
		}
		again := j.encode(nil)
		if !bytes.Equal(again[journalHead:], b[journalHead:journalHead+int(binary.LittleEndian.Uint64(b[journalLengthAt:]))+journalDigest]) && seal {
			t.Fatalf("encoded again the journal is another one:\n% x\n% x", again, b)
		}
		for _, jf := range j.files {
			for _, img := range jf.images {
				if img.off < HeaderSize || img.off > jf.old-int64(len(img.after)) || len(img.before) != len(img.after) {
					t.Fatalf("image at %d of %d bytes in %d", img.off, len(img.after), jf.old)
				}
			}
		}
	})
}

// The state is no part of what the digest covers; every other byte is.
func TestJournalDigest(t *testing.T) {
	t.Parallel()
	whole := (&journal{batch: 7, identity: [32]byte{1}, files: []journalFile{
		{f: mustFamily("task.bin"), old: 64, new: 124, images: []journalImage{{4, make([]byte, 60), bytes.Repeat([]byte{1}, 60)}}},
	}}).encode(nil)
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1
		j, err := decodeJournal(b)
		if got, want := j != nil, i == journalStateAt; got != want || err != nil {
			t.Errorf("with byte %d changed the journal is accepted: %t, %v", i, got, err)
		}
	}
	for n := range whole {
		if j, err := decodeJournal(whole[:n]); j != nil || err != nil {
			t.Errorf("%d bytes of %d are accepted: %v", n, len(whole), err)
		}
	}
}

func FuzzReadMark(f *testing.F) {
	m := &mark{Schema: markSchema, Identity: hex.EncodeToString(make([]byte, 32)), Lengths: map[string]int64{}, Indexes: map[string]indexMark{"line_name.idx": {3, 40, 1}}}
	for _, fam := range families {
		if fam.root == record.RootAuthority {
			m.Lengths[fam.file] = HeaderSize
		}
	}
	whole, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := bytes.Cut(whole, []byte{'\n'})
	f.Add(whole, false)
	f.Add(body, true)
	f.Add([]byte(`{"schema":"writ.bindb-mark.v1","lengths":{"task.bin":-1}}`), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal {
			sum := sha256.Sum256(b)
			b = append([]byte(hex.EncodeToString(sum[:])+"\n"), b...)
		}
		sim := vfs.NewSim()
		r := newRoot(Config{FS: sim, Dir: "/4", Kind: record.RootAuthority, Label: "4", Runtime: "/"})
		if err := vfs.MkdirAll(sim, filepath.Dir(r.markPath()), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFileAtomic(sim, r.markPath(), b, 0o600); err != nil {
			t.Fatal(err)
		}
		m := r.readMark()
		if m == nil {
			return
		}
		for _, fam := range families {
			if fam.root != r.Kind {
				continue
			}
			if _, err := fam.count(m.Lengths[fam.file]); err != nil {
				t.Errorf("a mark was accepted that gives %s the length %d", fam.file, m.Lengths[fam.file])
			}
		}
	})
}

func FuzzDecodeSums(f *testing.F) {
	r := newRoot(Config{Dir: "/4", Kind: record.RootAuthority, Label: "4", Runtime: "/", Identity: [32]byte{1}})
	s := r.emptySums()
	s.batch = 9
	s.files[mustFamily("task.bin").no] = fileSums{5000, []uint32{1, 2}}
	whole := s.encode(r)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add((&sums{batch: 1}).encode(r))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := decodeSums(r, b)
		if s == nil {
			return
		}
		for no, known := range s.files {
			if int64(len(known.pages)) != pagesOf(known.length) || known.length != 0 && families[no].root != r.Kind {
				t.Errorf("%s has %d sums for %d bytes", families[no].file, len(known.pages), known.length)
			}
		}
		if again := decodeSums(r, s.encode(r)); !reflect.DeepEqual(again, s) {
			t.Errorf("encoded again the sums are others:\n%v\n%v", again, s)
		}
	})
}

// A rollback journal of any content is carried out as a whole or refused as a
// whole, and never reaches outside of the files that the root declares.
func FuzzRollbackJournal(f *testing.F) {
	const first = rollbackHeader + "\n"
	f.Add([]byte(first + "file\t1\t44\tline.bin\nbefore\t4\t0102\tline.bin\n"))
	f.Add([]byte(first + "file\t0\t0\tworker_ready.idx\nfile\t1\t4\tline.bin\n"))
	f.Add([]byte(first + "file\t1\t4\t../line.bin\n"))
	f.Add([]byte(first + "file\t1\t9223372036854775807\tline_name_payload.bin\n"))
	f.Add([]byte(first + "file\t1\t4\tline"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sim := vfs.NewSim()
		cfg := Config{FS: sim, Dir: "/4", Kind: record.RootAuthority, Label: "4", Runtime: "/runtime"}
		if err := Create(cfg); err != nil {
			t.Fatal(err)
		}
		const name = "server-land.write.journal"
		for file, content := range map[string][]byte{
			"/4/line.bin": append(bytes.Clone(header[:]), make([]byte, 80)...), "/4/" + name: b, "/line.bin": {1, 2, 3},
		} {
			if err := vfs.WriteFileAtomic(sim, file, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := sim.OpCount()
		r := newRoot(cfg)
		found, err := r.recoverForms(context.Background(), []string{name})
		switch {
		case err != nil:
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("the journal is refused with %v", err)
			}
			for _, op := range sim.Ops()[before:] {
				if op.Kind == vfs.OpWrite || op.Kind == vfs.OpTruncate || op.Kind == vfs.OpRemove {
					t.Fatalf("the journal is refused, but %v", op)
				}
			}
		case !found:
			t.Fatal("the journal was not seen")
		default:
			for _, op := range sim.Ops()[before:] {
				if (op.Kind == vfs.OpWrite || op.Kind == vfs.OpTruncate) && filepath.Dir(op.Path) != "/4" {
					t.Fatalf("the recovery reaches out: %v", op)
				}
			}
			if there, err := vfs.Exists(sim, "/4/"+name); there || err != nil {
				t.Fatalf("the journal is still there: %v", err)
			}
			for _, fam := range families {
				info, err := sim.Lstat("/4/" + fam.file)
				if fam.root == r.Kind && (err != nil || info.Size < HeaderSize) {
					t.Fatalf("%s has gone or lost its header: %v", fam.file, err)
				}
			}
		}
		if err := r.closeFiles(); err != nil {
			t.Fatal(err)
		}
	})
}
