package authority_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// TestRollback: an error after any verb leaves no trace of it, and each verb works
// when nothing follows.
func TestRollback(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, verb := range authoritytest.Verbs {
		t.Run(verb.Name, func(t *testing.T) {
			t.Parallel()
			b := authoritytest.Setup(t)
			call, err := verb.Prepare(ctx, b.Repo, b.Clock)
			if err != nil {
				t.Fatal(err)
			}
			root := b.Repo.Root().Dir
			state := func() string {
				if _, err := os.Stat(leaseFile(b)); err != nil {
					return tree(t, root)
				}
				return tree(t, root) + tree(t, filepath.Dir(leaseFile(b)))
			}
			before := state()
			for _, after := range []struct {
				what string
				fn   func(*authority.Tx) error
				want error
			}{
				{"an error", func(*authority.Tx) error { return errStop }, errStop},
				{"a verb's error", func(tx *authority.Tx) error { _, err := tx.Task(999); return err }, bindb.ErrNotFound},
				{"a failed preparation", func(tx *authority.Tx) error { tx.Prepare(func() error { return errStop }); return nil }, errStop},
			} {
				if strings.HasPrefix(after.what, "a failed") && (verb.Name == "Claim" || verb.Name == "Heartbeat") {
					continue // the lease entry may be there by then, and is live for nothing
				}
				err := b.Repo.Update(ctx, func(tx *authority.Tx) error {
					if err := call(tx); err != nil {
						t.Error(err)
					}
					return after.fn(tx)
				})
				if !errors.Is(err, after.want) {
					t.Errorf("and then %s: %v", after.what, err)
				}
				if state() != before {
					t.Fatalf("it left a trace although %s followed", after.what)
				}
			}
			if err := b.Repo.Update(ctx, call); err != nil {
				t.Fatal(err)
			}
			if state() == before {
				t.Error("it changed nothing")
			}
		})
	}
}

// TestVerbsInOneBatch: verbs about different things can share one batch, in any
// order, and the result is sound.
func TestVerbsInOneBatch(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, lands := range []string{"BeginLand", "FinishLand", "FailLand"} {
		b := authoritytest.Setup(t)
		var calls []authoritytest.Call
		for _, verb := range authoritytest.Verbs {
			if verb.Lands && verb.Name != lands || verb.Wait > time.Second {
				continue
			}
			call, err := verb.Prepare(ctx, b.Repo, b.Clock)
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, func(tx *authority.Tx) error {
				if err := call(tx); err != nil {
					return fmt.Errorf("%s: %w", verb.Name, err)
				}
				return nil
			})
		}
		shuffle := rand.New(rand.NewPCG(1, uint64(len(lands))))
		shuffle.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
		b.Update(func(tx *authority.Tx) error {
			for _, call := range calls {
				if err := call(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// TestVerbsAreAllThere: the table has every verb, that is every exported method of
// Tx that a View does not have, apart from those that change nothing by themselves.
func TestVerbsAreAllThere(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{"Now": true, "Prepare": true}
	for _, v := range authoritytest.Verbs {
		if listed[v.Name] {
			t.Errorf("%s is listed twice", v.Name)
		}
		listed[v.Name] = true
	}
	tx, view := reflect.TypeFor[*authority.Tx](), reflect.TypeFor[*authority.View]()
	for i := range tx.NumMethod() {
		name := tx.Method(i).Name
		if _, reads := view.MethodByName(name); !reads && !listed[name] {
			t.Errorf("authoritytest.Verbs does not have %s", name)
		}
	}
}

// TestHalfFailedVerb: fn can't commit what a verb had begun when it failed.
func TestHalfFailedVerb(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	for name, verb := range map[string]func(*authority.Tx) error{
		"waiver without a reason": func(tx *authority.Tx) error {
			_, err := tx.Waive(authority.WaiverSpec{Patchset: p.Patchset, Rule: record.RuleCodeLint})
			return err
		},
		"patchset without a summary": func(tx *authority.Tx) error {
			_, err := tx.Publish(authority.PatchsetSpec{Change: p.Change, Base: p.Revision, Revision: p.Base})
			return err
		},
		"change without a title": func(tx *authority.Tx) error { _, err := tx.OpenChange(p.Task, "", p.Main, 0); return err },
		"task without a title":   func(tx *authority.Tx) error { _, err := tx.OpenTask("", "i"); return err },
		"line without a name":    func(tx *authority.Tx) error { _, err := tx.EnsureLine(""); return err },
	} {
		var verbErr error
		err := b.Repo.Update(context.Background(), func(tx *authority.Tx) error {
			if verbErr = verb(tx); verbErr == nil {
				t.Errorf("%s: accepted", name)
			}
			return nil // fn makes nothing of it
		})
		if err == nil || !errors.Is(err, bindb.ErrInvalid) {
			t.Errorf("%s: the update says %v", name, err)
		}
	}
	// A refusal before the first write is no reason to give up.
	b.Update(func(tx *authority.Tx) error {
		if _, err := tx.Attest(authority.AttestSpec{Patchset: 999}); !errors.Is(err, bindb.ErrNotFound) {
			t.Errorf("attest: %v", err)
		}
		return nil
	})
}

func TestUnknownReferences(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	for name, verb := range map[string]func(*authority.Tx) error{
		"task of a change":     func(tx *authority.Tx) error { _, err := tx.OpenChange(9, "c", p.Main, 0); return err },
		"line of a change":     func(tx *authority.Tx) error { _, err := tx.OpenChange(p.Task, "c", 99, 0); return err },
		"fork of a change":     func(tx *authority.Tx) error { _, err := tx.OpenChange(p.Task, "c", p.Main, 99); return err },
		"line of a snapshot":   func(tx *authority.Tx) error { _, err := tx.AddSnapshot(authoritytest.Snapshot(1, 99)); return err },
		"head of a line":       func(tx *authority.Tx) error { return tx.SetLineHead(p.Main, 99) },
		"line of a head":       func(tx *authority.Tx) error { return tx.SetLineHead(99, p.Base) },
		"patchset of a job":    func(tx *authority.Tx) error { _, _, err := tx.EnqueueCI(99); return err },
		"job":                  func(tx *authority.Tx) error { _, err := tx.Claim(99, authority.RequestID{}); return err },
		"selection":            func(tx *authority.Tx) error { return tx.SelectPatchset(99) },
		"land":                 func(tx *authority.Tx) error { return tx.FinishLand(99, p.Base) },
		"patchset of a land":   func(tx *authority.Tx) error { _, err := tx.BeginLand(authority.LandSpec{Patchset: 99}); return err },
		"decision":             func(tx *authority.Tx) error { _, _, err := tx.Decide(99, authority.PolicyInput{}); return err },
		"base of a patchset":   func(tx *authority.Tx) error { return publish(tx, p.Change, 99, p.Revision) },
		"change of a patchset": func(tx *authority.Tx) error { return publish(tx, 99, p.Base, p.Revision) },
		"revision":             func(tx *authority.Tx) error { return publish(tx, p.Change, p.Base, 99) },
	} {
		if err := b.Repo.Update(context.Background(), verb); !errors.Is(err, bindb.ErrNotFound) {
			t.Errorf("unknown %s: %v", name, err)
		}
	}
}

func publish(tx *authority.Tx, change, base, revision uint32) error {
	_, err := tx.Publish(authority.PatchsetSpec{Change: change, Base: base, Revision: revision, Summary: "s"})
	return err
}

// publishNext publishes a Patchset of a Change with a revision of its own.
func publishNext(tx *authority.Tx, p authoritytest.Published) error {
	line, err := tx.EnsureLine("paint")
	if err != nil {
		return err
	}
	n, err := bindb.Snapshots.Count(tx)
	if err != nil {
		return err
	}
	revision, err := tx.AddSnapshot(authoritytest.Snapshot(uint64(n)+1<<32, line))
	if err != nil {
		return err
	}
	return publish(tx, p.Change, p.Base, revision)
}

// TestPublishAgain: the same content is the same Patchset of a Change, until that
// is withdrawn.
func TestPublishAgain(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	again := func(change, base, revision uint32) (index uint32) {
		b.Update(func(tx *authority.Tx) (err error) {
			index, err = tx.Publish(authority.PatchsetSpec{Change: change, Base: base, Revision: revision, Summary: "Otherwise"})
			return err
		})
		return index
	}
	before := change(b, p.Change)
	if i := again(p.Change, p.Base, p.Revision); i != p.Patchset {
		t.Errorf("patchset %d, want %d", i, p.Patchset)
	}
	if after := change(b, p.Change); after != before {
		t.Errorf("publishing again changed %+v to %+v", before, after)
	}
	if i := again(p.Change, p.Revision, p.Base); i == p.Patchset {
		t.Error("base and revision exchanged are the same patchset")
	}
	var other uint32
	b.Update(func(tx *authority.Tx) (err error) { other, err = tx.OpenChange(p.Task, "Other", p.Main, 0); return err })
	if i := again(other, p.Base, p.Revision); i == p.Patchset {
		t.Error("two changes share a patchset")
	}
	b.Next(p) // is selected
	b.Update(func(tx *authority.Tx) error { return tx.WithdrawPatchset(p.Patchset) })
	if i := again(p.Change, p.Base, p.Revision); i == p.Patchset {
		t.Error("a withdrawn patchset was published again")
	}
}

func TestPatchsetsOfAChange(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	b.Update(func(tx *authority.Tx) error {
		for range 63 {
			if err := publishNext(tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	wantErr(t, b.Repo, bindb.ErrCapacity, func(tx *authority.Tx) error { return publishNext(tx, p) })
	b.View(func(v *authority.View) error {
		if full, err := v.ChangeIsFull(p.Change); !full || err != nil {
			t.Errorf("full: %t, %v", full, err)
		}
		list, err := v.Patchsets(p.Change)
		if err != nil {
			return err
		}
		if len(list) != 64 || list[0].ID.String() != "T-0001/C-01/P-01" || list[63].ID.String() != "T-0001/C-01/P-64" {
			t.Errorf("%d patchsets", len(list))
		}
		if s, err := v.Summary(&list[0]); s != "Paint the widgets blue" || err != nil {
			t.Errorf("summary %q, %v", s, err)
		}
		found, ok, err := v.FindPatchset(p.Base, p.Revision)
		if !ok || found.Ordinal != 0 {
			t.Errorf("found %s, %t", found.ID, ok)
		}
		if _, ok, _ := v.FindPatchset(p.Revision, p.Base); ok {
			t.Error("found a patchset with base and revision exchanged")
		}
		line, ok, lineErr := v.FindLine("paint")
		latest, ok2, lineErr2 := v.LatestOnLine(line.Index)
		if !ok || !ok2 || latest.Ordinal != 63 {
			t.Errorf("latest on the line: %s", latest.ID)
		}
		return errors.Join(err, lineErr, lineErr2)
	})
	// The first one was selected, and stays so.
	if c := change(b, p.Change); c.SelectedPatchset != record.RefTo(p.Patchset) || c.ID.String() != "T-0001/C-01" || c.Title != "Paint" {
		t.Errorf("change %+v", c)
	}
	// Changes end at 64 as well.
	b.Update(func(tx *authority.Tx) error {
		for range 63 {
			if _, err := tx.OpenChange(p.Task, "Another", p.Main, 0); err != nil {
				return err
			}
		}
		full, err := tx.TaskIsFull(p.Task)
		if !full {
			t.Error("the task is not full")
		}
		list, err2 := tx.ChangesOf(p.Task)
		if len(list) != 64 || list[63].ID.String() != "T-0001/C-64" {
			t.Errorf("%d changes", len(list))
		}
		return errors.Join(err, err2)
	})
	wantErr(t, b.Repo, bindb.ErrCapacity, func(tx *authority.Tx) error {
		_, err := tx.OpenChange(p.Task, "Too many", p.Main, 0)
		return err
	})
}

// TestRemovedContent: records that another writer of the format has removed are
// passed over.
func TestRemovedContent(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	var line, snapshot, actor uint32
	b.Update(func(tx *authority.Tx) (err error) {
		if line, err = tx.EnsureLine("gone"); err != nil {
			return err
		}
		if actor, err = tx.EnsureActor("ann", ""); err != nil {
			return err
		}
		keep, err := tx.EnsureLine("kept")
		if err != nil {
			return err
		}
		snapshot, err = tx.AddSnapshot(authoritytest.Snapshot(1, keep))
		return err
	})
	hash := authoritytest.Snapshot(1, 0).Hash48
	err := b.Repo.Root().Update(context.Background(), func(tx *bindb.Tx) error {
		l, err := bindb.Lines.Get(tx, line)
		if err != nil {
			return err
		}
		l.Meta.SetTombstoned(true)
		s, err := bindb.Snapshots.Get(tx, snapshot)
		if err != nil {
			return err
		}
		s.Meta.SetTombstoned(true)
		a, err := bindb.Actors.Get(tx, actor)
		if err != nil {
			return err
		}
		a.Meta.SetTombstoned(true)
		return errors.Join(bindb.Lines.Put(tx, line, l), bindb.Snapshots.Put(tx, snapshot, s), bindb.Actors.Put(tx, actor, a))
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Update(func(tx *authority.Tx) error {
		if list, err := tx.SnapshotsByHash(hash, 10); err != nil || len(list) != 0 {
			t.Errorf("snapshots %v, %v", list, err)
		}
		again, err := tx.EnsureLine("gone")
		if again == line {
			t.Error("a removed line came back")
		}
		if other, err := tx.EnsureActor("ann", ""); err != nil || other == actor {
			t.Errorf("a removed actor came back: %v", err)
		}
		for name, read := range map[string]error{
			"line":     second(tx.Line(line)),
			"snapshot": second(tx.Snapshot(snapshot)),
			"actor":    second(tx.Actor(actor)),
		} {
			if !errors.Is(read, bindb.ErrNotFound) {
				t.Errorf("removed %s: %v", name, read)
			}
		}
		return err
	})
}

func second[T any](_ T, err error) error { return err }

func TestSession(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := landable(b)
	ctx := context.Background()
	err := b.Repo.Exclusive(ctx, func(s *authority.Session) error {
		var land uint32
		if err := s.Update(ctx, func(tx *authority.Tx) (err error) { land, err = begin(tx, p); return err }); err != nil {
			return err
		}
		if err := s.Update(ctx, func(*authority.Tx) error { return errStop }); !errors.Is(err, errStop) {
			t.Errorf("a failed update of a session: %v", err)
		}
		if err := s.View(func(v *authority.View) error {
			l, err := v.RunningLand()
			if l == nil {
				t.Error("a session does not see its own land")
			}
			return err
		}); err != nil {
			return err
		}
		// The queue works in sessions, too.
		if err := s.Update(ctx, func(tx *authority.Tx) error { return authoritytest.Run(tx, p.Patchset, authoritytest.Passed) }); err != nil {
			return err
		}
		return s.Update(ctx, func(tx *authority.Tx) error { return tx.FinishLand(land, p.Revision) })
	})
	if err != nil {
		t.Fatal(err)
	}
}

// version2 is a lease replica as earlier software wrote it.
func version2(entries ...record.LeaseReplicaEntry) []byte {
	h := record.LeaseReplicaHeader{Version: 2, RecordSize: record.LeaseReplicaEntrySize, EntryCount: uint32(len(entries))}
	copy(h.Magic[:], record.LeaseReplicaMagic)
	raw := make([]byte, record.LeaseReplicaHeaderSize)
	h.Encode(raw)
	for _, e := range entries {
		row := make([]byte, record.LeaseReplicaEntrySize)
		e.Encode(row)
		sum := sha256.Sum256(append([]byte("ait.runtime-lease-replica.entry.v2\x00"), row[:44]...))
		e.Digest = sum
		e.Encode(row)
		raw = append(raw, row...)
	}
	return raw
}

func TestReplicaOfVersion2(t *testing.T) {
	t.Parallel()
	entry := func(l authority.Lease) record.LeaseReplicaEntry {
		return record.LeaseReplicaEntry{
			Repository: 4, Job: l.Job, Attempt: l.Attempt, Token: l.Token, HeartbeatAt: l.Heartbeat, ExpiresAt: l.ExpiresAt,
		}
	}
	for name, c := range map[string]struct {
		file func(l authority.Lease) []byte
		held bool
	}{
		"whole":            {func(l authority.Lease) []byte { return version2(entry(l)) }, true},
		"before a restore": {func(l authority.Lease) []byte { return version2(entry(l)) }, false},
		"no file":          {func(authority.Lease) []byte { return nil }, false},
		"truncated":        {func(l authority.Lease) []byte { return version2(entry(l))[:90] }, false},
		"damaged entry": {func(l authority.Lease) []byte {
			raw := version2(entry(l))
			raw[40] ^= 1
			return raw
		}, false},
		"damaged magic": {func(l authority.Lease) []byte {
			raw := version2(entry(l))
			raw[0] ^= 1
			return raw
		}, false},
		"twice": {func(l authority.Lease) []byte { return version2(entry(l), entry(l)) }, false},
		"of another repository": {func(l authority.Lease) []byte {
			e := entry(l)
			e.Repository = 5
			return version2(e)
		}, false},
		"beside another": {func(l authority.Lease) []byte {
			e := entry(l)
			e.Repository = 3
			return version2(e, entry(l))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := authoritytest.Setup(t)
			l := claim(b, enqueue(b, b.Publish().Patchset))
			other := enqueue(b, b.Publish().Patchset)
			if err := os.Remove(leaseFile(b)); err != nil {
				t.Fatal(err)
			}
			if raw := c.file(l); raw != nil {
				if err := os.WriteFile(filepath.Join(b.Options.Dir, "runtime", "worker-leases.bin"), raw, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if name == "before a restore" {
				restore(b)
			} else {
				b.Reopen() // an owner reads the file once
			}
			// A new lease begins the new file, which must keep the old one.
			b.Update(func(tx *authority.Tx) error { _, err := tx.Claim(other, authority.RequestID{}); return err })
			err := b.Repo.Update(context.Background(), func(tx *authority.Tx) error {
				_, err := tx.CompleteCI(l, authoritytest.Passed)
				return err
			})
			if c.held && err != nil || !c.held && !errors.Is(err, authority.ErrLeaseLost) {
				t.Errorf("completion: %v", err)
			}
		})
	}
}
