package record_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

func namespace(t testing.TB, s string) record.Namespace {
	t.Helper()
	ns, err := record.ParseNamespace(s)
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	none := record.TaskIdentity(record.Namespace{}, 0)
	short := record.Identity{}.Change(0)
	for _, c := range []struct {
		ns, text string
		want     record.Identity
	}{
		{"", "T-0001", none},
		{"", "T-9999", record.TaskIdentity(record.Namespace{}, 9998)},
		{"", "T-10000", record.TaskIdentity(record.Namespace{}, 9999)},
		{"", "T-4294967294", record.TaskIdentity(record.Namespace{}, 4294967293)},
		{"", "T-0001/C-01", none.Change(0)},
		{"", "T-0001/C-64", none.Change(63)},
		{"", "T-0001/C-01/P-02", none.Change(0).Patchset(1)},
		{"", "T-0001/C-01/P-02/K-01", none.Change(0).Patchset(1).PolicyDecision(0)},
		{"", "T-0001/C-01/P-02/R-03", none.Change(0).Patchset(1).Review(2)},
		{"", "T-0001/C-01/L-01", none.Change(0).Land(0)},
		{"", "T-0001/A-01", none.Attestation(0)},
		{"", "T-0001/W-09", none.Waiver(8)},
		{"SE", "SET-0001", record.TaskIdentity(namespace(t, "SE"), 0)},
		{"se", "SET-0001", record.TaskIdentity(namespace(t, "se"), 0)},
		{"R", "RT-0001", record.TaskIdentity(namespace(t, "R"), 0)},
		{"a_", "A_T-0001", record.TaskIdentity(namespace(t, "a_"), 0)},
		{"", "C-01", short},
		{"SE", "C-01/P-02", short.Patchset(1)},
		{"", "C-01/P-02/R-64", short.Patchset(1).Review(63)},
		{"", "C-01/L-01", short.Land(0)},
		{"", "PR-0", record.PlanIdentity(0)},
		{"PR", "PR-4294967293", record.PlanIdentity(4294967293)},
		{"", "plan-revision:3", record.PlanRevisionIdentity(3)},
		{"", "SNP-00000ABCDEF0", record.SnapshotIdentity(0xabcdef0)},
		{"4", "4/17", record.JobIdentity(4, 17)},
		{"", "0/0", record.JobIdentity(0, 0)},
		{"PR", "PRT-0001", record.TaskIdentity(namespace(t, "PR"), 0)},
		{"4", "4T-0001/C-02", record.TaskIdentity(namespace(t, "4"), 0).Change(1)},
	} {
		ns := namespace(t, c.ns)
		got, err := record.ParseIdentity(c.text, ns)
		if err != nil || got != c.want {
			t.Errorf("ParseIdentity(%q, %q) = %+v, %v, want %+v", c.text, c.ns, got, err, c.want)
		}
		if s := c.want.String(); s != c.text {
			t.Errorf("String of %+v = %q, want %q", c.want, s, c.text)
		}
		if c.want.HasTask {
			if got, err := record.ParseIdentity("R"+c.text, ns); err != nil || got != c.want {
				t.Errorf("ParseIdentity(%q, %q) = %+v, %v, want %+v", "R"+c.text, c.ns, got, err, c.want)
			}
		}
	}
	full, err := record.ParseIdentity("RSET-0001/C-01/P-02/K-01", namespace(t, "SE"))
	if err != nil || full.String() != "SET-0001/C-01/P-02/K-01" {
		t.Errorf("got %v, %v", full, err)
	}
}

func TestIdentityRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ ns, text, want string }{
		{"", "", "does not begin like T-0001"},
		{"", "t-0001", "does not begin like T-0001"},
		{"", "SET-0001", "does not begin like T-0001"},
		{"SE", "T-0001", "does not begin like SET-0001"},
		{"SE", "seT-0001", "does not begin like SET-0001"},
		{"R", "T-0001", "does not begin like RT-0001"},
		{"", "RRT-0001", "does not begin like T-0001"},
		{"", "T-001", "four digits or more"},
		{"", "T-00001", "four digits or more"},
		{"", "T-+001", "four digits or more"},
		{"", "T-0000", "in 1..4294967294"},
		{"", "T-4294967295", "in 1..4294967294"},
		{"", "T-99999999999", "four digits or more"},
		{"", "T-0001/", "no step"},
		{"", "T-0001/C-1", "exactly two digits"},
		{"", "T-0001/C-001", "exactly two digits"},
		{"", "T-0001/C-00", "not in 01..64"},
		{"", "T-0001/C-65", "not in 01..64"},
		{"", "T-0001/P-01", "cannot stand there"},
		{"", "T-0001/C-01/R-01", "cannot stand there"},
		{"", "T-0001/C-01/P-01/L-01", "cannot stand there"},
		{"", "T-0001/C-01/P-01/K-01/R-01", "cannot stand there"},
		{"", "T-0001/C-01/P-01/K-01/R-01/R-01", "no step"},
		{"", "T-0001/A-01/C-01", "cannot stand there"},
		{"", "A-01", "needs its Task before it, as in T-0001/A-01"},
		{"", "P-01", "cannot stand there"},
		{"", "C-01 ", "does not begin"},
		{"", "C-٣٤", "does not begin"},
		{"", "PR-", "no index"},
		{"", "PR-00", "no index"},
		{"", "PR-4294967294", "no index"},
		{"", "pr-0", "does not begin"},
		{"", "plan-revision:+3", "no index"},
		{"", "plan-revision:", "no index"},
		{"", "SNP-00000abcdef0", "twelve upper-case"},
		{"", "4/", "no index"},
		{"", "4/017", "no index"},
		{"", "04/17", "no index"},
		{"", "4/17/1", "no index"},
		{"", "/17", "does not begin"},
	} {
		id, err := record.ParseIdentity(c.text, namespace(t, c.ns))
		if !errors.Is(err, record.ErrSyntax) || !strings.Contains(err.Error(), c.want) || id != (record.Identity{}) {
			t.Errorf("ParseIdentity(%q, %q) = %+v, %v, want an error with %q", c.text, c.ns, id, err, c.want)
		}
	}
}

func TestIdentityRelatives(t *testing.T) {
	t.Parallel()
	k := record.TaskIdentity(namespace(t, "SE"), 6).Change(1).Patchset(2).PolicyDecision(3)
	if got := k.Task().String() + " " + k.Change(4).String() + " " + k.Patchset(5).Review(0).String() + " " + k.Land(0).String(); got !=
		"SET-0007 SET-0007/C-05 SET-0007/C-02/P-06/R-01 SET-0007/C-02/L-01" {
		t.Errorf("got %s", got)
	}
	short, err := record.ParseIdentity("C-02/P-03/K-04", record.Namespace{})
	if err != nil || short.WithTask(k) != k {
		t.Errorf("got %v, %v, want %v", short.WithTask(k), err, k)
	}
	if b, err := k.MarshalText(); err != nil || string(b) != "SET-0007/C-02/P-03/K-04" {
		t.Errorf("got %s, %v", b, err)
	}
}

func TestSnapshotName(t *testing.T) {
	t.Parallel()
	for hash, want := range map[uint64]string{0: "SNP-000000000000", 0xabcdef: "SNP-000000ABCDEF", 1<<48 - 1: "SNP-FFFFFFFFFFFF"} {
		if got := record.SnapshotName(hash); got != want {
			t.Errorf("SnapshotName(%#x) = %s, want %s", hash, got, want)
		}
		if got, err := record.ParseSnapshotName(want); got != hash || err != nil {
			t.Errorf("ParseSnapshotName(%q) = %#x, %v", want, got, err)
		}
	}
	for _, text := range []string{"", "SNP-", "SNP-00000000000", "SNP-0000000000000", "SNP-00000000000a", "snp-000000000000", "SNP-+00000000000"} {
		if _, err := record.ParseSnapshotName(text); !errors.Is(err, record.ErrSyntax) {
			t.Errorf("ParseSnapshotName(%q): got %v, want ErrSyntax", text, err)
		}
	}
	if got := record.JobLabel(4, 17); got != "4/17" {
		t.Errorf("JobLabel = %s", got)
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", "Z9", "_-"} {
		if ns, err := record.ParseNamespace(s); err != nil || ns.String() != s {
			t.Errorf("ParseNamespace(%q) = %v, %v", s, ns, err)
		}
	}
	for _, s := range []string{"abc", "a ", ".", "\x00", "a\x00", "é"} {
		if _, err := record.ParseNamespace(s); !errors.Is(err, record.ErrSyntax) {
			t.Errorf("ParseNamespace(%q): got %v, want ErrSyntax", s, err)
		}
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add("T-0001/C-01/P-02/K-01", "")
	f.Add("RSET-0001/A-01", "se")
	f.Add("C-01/L-64", "R")
	f.Add("RT-10000", "R")
	f.Add("PR-0", "PR")
	f.Add("plan-revision:12", "")
	f.Add("SNP-00000ABCDEF0", "")
	f.Add("4/17", "4")
	f.Fuzz(func(t *testing.T, text, prefix string) {
		ns, err := record.ParseNamespace(prefix)
		if err != nil {
			return
		}
		id, err := record.ParseIdentity(text, ns)
		if err != nil {
			if !errors.Is(err, record.ErrSyntax) {
				t.Fatalf("%v does not match ErrSyntax", err)
			}
			return
		}
		if s := id.String(); s != text && "R"+s != text {
			t.Fatalf("%q reads as %+v, which is written %q", text, id, s)
		}
		if again, err := record.ParseIdentity(id.String(), ns); err != nil || again != id {
			t.Fatalf("%q reads as %+v, its own form %q as %+v, %v", text, id, id, again, err)
		}
	})
}
