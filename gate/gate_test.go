package gate

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/gitrepo/gitrepotest"
)

func TestMain(m *testing.M) {
	gitrepotest.Isolate()
	os.Exit(m.Run())
}

// bundle is a Git repository on branch feature, one commit ahead of main, whose
// only suite asks for a file ok.
type bundle struct {
	*gitrepotest.Repo
	t *testing.T
}

const okSuite = `version: 1
suites:
  - id: unit
    run: test -f ok
    kind: tests
`

func setup(t *testing.T, options ...gitrepotest.Option) *bundle {
	t.Helper()
	r := gitrepotest.New(t, options...)
	r.Commit(map[string]string{"writ.yaml": okSuite, "ok": "", "a": "1\n"}, "Begin")
	r.Git("switch", "-q", "-c", "feature")
	return &bundle{r, t}
}

func (b *bundle) open() *Workspace {
	b.t.Helper()
	return b.openAt(OpenOptions{Dir: b.Dir, Create: true})
}

func (b *bundle) openAt(o OpenOptions) *Workspace {
	b.t.Helper()
	w, err := Open(context.Background(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// close closes a workspace and validates the whole authority behind it.
func (b *bundle) close(w *Workspace) {
	b.t.Helper()
	if err := w.Close(); err != nil {
		b.t.Fatal(err)
	}
	w = b.openAt(OpenOptions{Dir: b.Dir})
	findings, err := w.Repo.Root().Check(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range findings {
		b.t.Errorf("the authority is not valid: %s", f)
	}
	if err := w.Close(); err != nil {
		b.t.Fatal(err)
	}
	if left := b.Git("worktree", "list", "--porcelain"); strings.Contains(left, "/writ-") {
		b.t.Errorf("a checkout was left: %s", left)
	}
}

// gate runs one gate from opening to closing.
func (b *bundle) gate(o Options) *Report {
	b.t.Helper()
	r, err := b.try(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bundle) try(o Options) (*Report, error) {
	b.t.Helper()
	w := b.open()
	defer b.close(w)
	return w.Run(context.Background(), o)
}

func standing(r *Report, name string) Standing {
	for _, q := range r.Requirements {
		if q.Name == name || q.Suite == name {
			return q.Standing
		}
	}
	return ""
}

func TestGateRecordsChecksAndDecides(t *testing.T) {
	t.Parallel()
	b := setup(t)
	head := b.Commit(map[string]string{"b": "2\n"}, "Add b\n\nBecause of a.")
	r := b.gate(Options{})
	if !r.Landable || r.Decision.Kind != "pass" || r.Patchset.ID != "T-0001/C-01/P-01" || !r.Patchset.New {
		t.Fatalf("got %+v", r)
	}
	if r.Patchset.Revision.Commit != head || r.Patchset.Revision.ID != "SNP-"+strings.ToUpper(head[:12]) {
		t.Errorf("the revision is %+v, the head %s", r.Patchset.Revision, head)
	}
	if r.Patchset.Summary != "Add b\n\nBecause of a." || r.Task.Title != "Add b" {
		t.Errorf("summary %q, task %q", r.Patchset.Summary, r.Task.Title)
	}
	if !r.Checks.Ran || r.Checks.Tests != "pass" || standing(r, "unit") != Satisfied {
		t.Errorf("checks %+v", r.Checks)
	}
}

func TestSameHeadIsOnePatchset(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Commit(map[string]string{"b": "2\n"}, "Add b")
	first := b.gate(Options{})
	again := b.gate(Options{})
	if again.Patchset.New || again.Patchset.ID != first.Patchset.ID || again.Checks.Ran {
		t.Errorf("the second run made %+v", again.Patchset)
	}
	if again.Decision.ID != first.Decision.ID {
		t.Errorf("an unchanged evaluation made the decision %s", again.Decision.ID)
	}
	rerun := b.gate(Options{Rerun: true})
	if rerun.Checks.Run != 2 || !rerun.Checks.Ran || rerun.Patchset.ID != first.Patchset.ID || rerun.Checks.Job == first.Checks.Job {
		t.Errorf("the rerun gave %+v", rerun.Checks)
	}
	b.Commit(map[string]string{"c": "3\n"}, "Add c")
	next := b.gate(Options{})
	if next.Patchset.ID != "T-0001/C-01/P-02" || next.Change.New || next.Task.New {
		t.Errorf("the next commit made %+v %+v", next.Patchset, next.Change)
	}
}

func TestFailingSuiteBlocks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Git("rm", "-q", "ok")
	b.Commit(nil, "Remove ok")
	r := b.gate(Options{Land: true})
	if r.Landable || r.Decision.Kind != "hard_fail" || standing(r, "tests") != Failed || r.Checks.Blocking != 1 {
		t.Errorf("got %+v", r)
	}
	if r.Land.Outcome != CIBlocked || r.Land.ID != "" {
		t.Errorf("land %+v", r.Land)
	}
}

// A head that weakens its own gate is judged by what its base says.
func TestHeadCannotWeakenItsGate(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"removes the suite": "version: 1\nsuites: []\n",
		"run is true":       strings.Replace(okSuite, "test -f ok", "\"true\"", 1),
		"not blocking":      okSuite + "    blocking: false\n",
		"other kind":        strings.Replace(okSuite, "kind: tests", "kind: other", 1),
		"lowers the flags":  okSuite + "policy:\n  require_tests: false\n",
		"deletes the file":  "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Git("rm", "-q", "ok")
			if file == "" {
				b.Git("rm", "-q", "writ.yaml")
				b.Commit(nil, "Weaken")
			} else {
				b.Commit(map[string]string{"writ.yaml": file}, "Weaken")
			}
			r := b.gate(Options{Land: true})
			if r.Landable || standing(r, "unit") != Failed || r.Land.Outcome != CIBlocked {
				t.Errorf("it got past its gate: %+v", r)
			}
			if len(r.Notes) == 0 {
				t.Error("nobody was told what the head tried")
			}
		})
	}
}

func TestLandFastForward(t *testing.T) {
	t.Parallel()
	b := setup(t)
	head := b.Commit(map[string]string{"b": "2\n"}, "Add b")
	r := b.gate(Options{Land: true})
	if r.Land.Outcome != Landed || r.Land.Mode != "direct" || b.Git("rev-parse", "main") != head || r.Change.Lifecycle != "landed" {
		t.Fatalf("land %+v, change %+v", r.Land, r.Change)
	}
	b.Commit(map[string]string{"c": "3\n"}, "Add c")
	next := b.gate(Options{})
	if next.Patchset.ID != "T-0001/C-02/P-01" || !next.Change.New || next.Task.New {
		t.Errorf("after the land: %+v", next.Patchset)
	}
	if _, err := b.try(Options{RangeOptions: RangeOptions{Head: "main"}}); !errors.Is(err, ErrUsage) {
		t.Errorf("an empty range gave %v", err)
	}
}

func TestLandMergesWhenTheTreeIsTheTestedOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	head := b.Commit(map[string]string{"b": "2\n"}, "Add b")
	b.gate(Options{})
	b.Git("switch", "-q", "main")
	moved := b.Commit(map[string]string{"b": "2\n"}, "The same")
	b.Git("switch", "-q", "feature")
	r := b.gate(Options{Land: true})
	if r.Land.Outcome != Landed || r.Land.Mode != "merge" {
		t.Fatalf("land %+v", r.Land)
	}
	if got := b.Git("log", "-1", "--format=%P", "main"); got != moved+" "+head {
		t.Errorf("the merge has the parents %s", got)
	}
}

func TestLandRefusesWhatWasNotTested(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		main map[string]string
		want LandOutcome
	}{
		"other file": {map[string]string{"z": "9\n"}, BaseStale},
		"same file":  {map[string]string{"b": "other\n"}, Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Commit(map[string]string{"b": "2\n"}, "Add b")
			b.Git("switch", "-q", "main")
			moved := b.Commit(c.main, "Move main")
			b.Git("switch", "-q", "feature")
			r := b.gate(Options{Land: true})
			if r.Land.Outcome != c.want || r.Land.ID != "" || r.Land.Advice == "" || b.Git("rev-parse", "main") != moved {
				t.Fatalf("land %+v", r.Land)
			}
			if c.want == Conflict {
				return
			}
			b.Git("rebase", "-q", "main")
			r = b.gate(Options{Land: true})
			if r.Land.Outcome != Landed || r.Patchset.ID != "T-0001/C-01/P-02" {
				t.Errorf("after the rebase: %+v %+v", r.Land, r.Patchset)
			}
		})
	}
}

func TestLandLeavesDirtyCheckoutsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	head := b.Commit(map[string]string{"b": "2\n"}, "Add b")
	other := filepath.Join(t.TempDir(), "other")
	b.Git("worktree", "add", "-q", other, "main")
	dirty := filepath.Join(other, "a")
	if err := os.WriteFile(dirty, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := b.gate(Options{Land: true})
	if r.Land.Outcome != TargetUnusable || b.Git("rev-parse", "main") == head {
		t.Fatalf("land %+v", r.Land)
	}
	if got, _ := os.ReadFile(dirty); string(got) != "mine" {
		t.Errorf("the file became %q", got)
	}
	gitrepotest.At(t, other).Git("checkout", "-q", "--", ".")
	// An untracked file in the way of the land must survive it too.
	in := filepath.Join(other, "b")
	if err := os.WriteFile(in, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r = b.gate(Options{Land: true}); r.Land.Outcome != UpdateFailed || b.Git("rev-parse", "main") == head {
		t.Fatalf("land over an untracked file %+v", r.Land)
	}
	if err := os.Remove(in); err != nil {
		t.Fatal(err)
	}
	if r = b.gate(Options{Land: true}); r.Land.Outcome != Landed || r.Land.ID != "T-0001/C-01/L-02" {
		t.Fatalf("land %+v", r.Land)
	}
	if got, _ := os.ReadFile(in); string(got) != "2\n" {
		t.Errorf("the clean checkout was not updated: %q", got)
	}
}

// crash runs a land up to the given point and forgets it, as a dying process does.
func (b *bundle) crash(after func(context.Context, *landing) error) {
	b.t.Helper()
	ctx := context.Background()
	w := b.open()
	s, err := w.subjectOf(ctx, b.selected(w))
	if err != nil {
		b.t.Fatal(err)
	}
	l := &landing{w: w, sub: s, out: &LandReport{}}
	err = w.Repo.Exclusive(ctx, func(se *authority.Session) error {
		l.s = se
		if ok, err := l.prepare(ctx); err != nil || !ok {
			return errors.Join(err, errors.New(l.out.Why))
		}
		if _, err := l.begin(ctx); err != nil {
			return err
		}
		return after(ctx, l)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) selected(w *Workspace) *authority.Patchset {
	b.t.Helper()
	p, err := w.Find(context.Background(), "")
	if err != nil {
		b.t.Fatal(err)
	}
	return &p
}

func TestLandInterruptedBeforeTheBranchMoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Commit(map[string]string{"b": "2\n"}, "Add b")
	b.gate(Options{})
	before := b.Git("rev-parse", "main")
	b.crash(func(context.Context, *landing) error { return nil })
	w := b.open()
	h, err := w.HistoryOf(context.Background(), b.selected(w))
	b.close(w)
	if err != nil || len(h.Lands) != 1 || h.Lands[0].Status != "failed" || h.Lands[0].Failure != "TARGET_UPDATE_FAILED" || h.Lifecycle != "active" {
		t.Fatalf("%v %+v", err, h)
	}
	if b.Git("rev-parse", "main") != before {
		t.Error("the branch moved")
	}
	if r := b.gate(Options{Land: true}); r.Land.Outcome != Landed || r.Land.ID != "T-0001/C-01/L-02" {
		t.Errorf("land %+v", r.Land)
	}
}

func TestLandInterruptedAfterTheBranchMoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	head := b.Commit(map[string]string{"b": "2\n"}, "Add b")
	b.gate(Options{})
	b.crash(func(ctx context.Context, l *landing) error { return l.move(ctx, nil) })
	w := b.open()
	h, err := w.HistoryOf(context.Background(), b.selected(w))
	notes := w.Notes
	b.close(w)
	if err != nil || len(h.Lands) != 1 || h.Lands[0].Status != "succeeded" || h.Lifecycle != "landed" || len(notes) != 1 {
		t.Fatalf("%v %+v %v", err, h, notes)
	}
	if b.Git("rev-parse", "main") != head {
		t.Error("the branch did not move")
	}
}

func TestReviewsAndAttestations(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := setup(t)
	b.Commit(map[string]string{"b": "2\n"}, "Add b")
	b.gate(Options{})
	w := b.open()
	p := b.selected(w)
	r, err := w.Attest(ctx, p, authority.AttestSpec{Verification: record.VerificationStatePass, RequireHumanReview: true})
	if err != nil || r.Landable || standing(r, "required_human_review") != Pending {
		t.Fatalf("%v %+v", err, r)
	}
	ann, bob := Who{"Ann", "ann@x"}, Who{"Bob", ""}
	if r, err = w.Review(ctx, p, ann, record.ReviewActionRequestChanges, false, "no"); err != nil || standing(r, "no_open_objection") != Failed {
		t.Fatalf("%v %+v", err, r)
	}
	if r, err = w.Review(ctx, p, bob, record.ReviewActionApprove, false, ""); err != nil || r.Landable {
		t.Fatalf("an open objection does not block: %v %+v", err, r)
	}
	if r, err = w.Review(ctx, p, ann, record.ReviewActionDismiss, false, ""); err != nil || !r.Landable {
		t.Fatalf("%v %+v", err, r)
	}
	b.close(w)
	if r := b.gate(Options{Land: true}); r.Land.Outcome != Landed {
		t.Errorf("land %+v", r.Land)
	}
}

func TestLostRefIsFoundAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Commit(map[string]string{"b": "2\n"}, "Add b")
	b.gate(Options{})
	for ref := range strings.FieldsSeq(b.Git("for-each-ref", "--format=%(refname)", "refs/writ")) {
		b.Git("update-ref", "-d", ref)
	}
	w := b.open()
	r, err := w.Explain(context.Background(), b.selected(w))
	if err != nil || !r.Landable || len(r.Notes) != 2 {
		t.Errorf("%v %+v", err, r)
	}
	b.close(w)
	if n := len(strings.Fields(b.Git("for-each-ref", "--format=%(refname)", "refs/writ"))); n != 2 {
		t.Errorf("%d refs are there", n)
	}
}

func TestInterruptEndsTheChecks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fifo := filepath.Join(t.TempDir(), "started")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Skipf("mkfifo: %v %s", err, out)
	}
	b.Git("switch", "-q", "main")
	b.Commit(map[string]string{"writ.yaml": "version: 1\nsuites:\n  - id: slow\n    run: echo started > " + fifo + " && sleep 600\n    kind: tests\n"}, "Slow")
	b.Git("switch", "-q", "-c", "two")
	b.Commit(map[string]string{"b": "2\n"}, "Add b")
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends when the suite has opened the pipe
		_, _ = os.ReadFile(fifo)
		cancel()
	}()
	w := b.open()
	_, err := w.Run(ctx, Options{})
	if !errors.Is(err, ErrInterrupted) {
		t.Fatalf("got %v", err)
	}
	err = w.Repo.View(context.Background(), func(v *authority.View) error {
		j, err := v.Job(0)
		if j.State != record.JobStateFailed || j.Error != record.JobErrorTerminal {
			t.Errorf("the job is %+v", j)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.close(w)
}

func TestTwoGatesShareOneRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Git("switch", "-q", "main")
	b.Commit(map[string]string{"writ.yaml": strings.Replace(okSuite, "test -f ok", "sleep 0.5", 1)}, "Slow")
	b.Git("switch", "-q", "-c", "two")
	b.Commit(map[string]string{"b": "2\n"}, "Add b")
	reports := make([]*Report, 2)
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() {
			w := b.open()
			r, err := w.Run(context.Background(), Options{})
			if err = errors.Join(err, w.Close()); err != nil {
				t.Error(err)
			}
			reports[i] = r
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if reports[0].Patchset.ID != reports[1].Patchset.ID || reports[0].Checks.Job != reports[1].Checks.Job {
		t.Errorf("they made %+v and %+v", reports[0].Checks, reports[1].Checks)
	}
	if reports[0].Checks.Ran == reports[1].Checks.Ran {
		t.Errorf("both or none ran the checks")
	}
	b.close(b.open())
}

func TestRangeRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.try(Options{}); !errors.Is(err, ErrUsage) || Advice(err) == "" {
		t.Errorf("an empty range gave %v", err)
	}
	b.Commit(map[string]string{"b": "2\n"}, "Add b")
	b.Write("b", "changed")
	if _, err := b.try(Options{}); !errors.Is(err, ErrUsage) {
		t.Errorf("uncommitted changes gave %v", err)
	}
	r := b.gate(Options{RangeOptions: RangeOptions{Worktree: true}})
	if b.Git("cat-file", "-p", r.Patchset.Revision.Commit+":b") != "changed" {
		t.Error("--worktree did not include the change")
	}
	b.Git("commit", "-q", "-a", "-m", "Change b")
	if _, err := b.try(Options{RangeOptions: RangeOptions{Base: "nothing"}}); !errors.Is(err, gitrepo.ErrUnknownRevision) {
		t.Errorf("an unknown base gave %v", err)
	}
	b.Git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "")
	if _, err := b.try(Options{}); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "empty message") {
		t.Errorf("an empty message gave %v", err)
	}
}

func TestRootCommitAndSHA256(t *testing.T) {
	t.Parallel()
	r := gitrepotest.New(t, gitrepotest.SHA256())
	b := &bundle{r, t}
	r.Commit(map[string]string{"writ.yaml": okSuite, "ok": "", "odd \n\"name\xff": "x"}, "Begin")
	rep := b.gate(Options{})
	if !rep.Landable || rep.Patchset.Base.Files != 0 || len(rep.Patchset.Revision.Commit) != 64 {
		t.Errorf("got %+v", rep)
	}
	if !slices.Contains(rep.Notes, "the base has no writ.yaml, so the head's own file counts") && rep.Policy.Source != "head" {
		t.Errorf("notes %q, flags from %s", rep.Notes, rep.Policy.Source)
	}
}

func TestSharedDataDirectory(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	var bundles []*bundle
	for range 2 {
		b := setup(t)
		b.Commit(map[string]string{"b": "2\n"}, "Add b")
		bundles = append(bundles, b)
	}
	for round := range 2 {
		for i, b := range bundles {
			w := b.openAt(OpenOptions{Dir: b.Dir, Data: data, Create: true})
			r, err := w.Run(context.Background(), Options{})
			if err = errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
			if r.Repository.Index != uint32(authority.FirstRepository+i) || r.Patchset.New != (round == 0) {
				t.Errorf("round %d: repository %d, %+v", round, r.Repository.Index, r.Patchset)
			}
		}
	}
}

func TestSummaryIsCutOnARune(t *testing.T) {
	t.Parallel()
	r := Range{Commits: []*gitrepo.Commit{{Subject: "S", Body: strings.Repeat("é", 40000)}}}
	s := r.Summary()
	if len(s) > maxSummary || len(s) < maxSummary-4 || !strings.HasSuffix(s, "é"+cutMark) {
		t.Errorf("%d bytes, ending in %q", len(s), s[len(s)-12:])
	}
}

// A repository of 10,000 files and 5,000 commits goes through all stages.
func TestLargeRepository(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	b := &bundle{gitrepotest.New(t), t}
	b.Generate(10_000, 5_000)
	b.Commit(map[string]string{"writ.yaml": okSuite, "ok": ""}, "Add the gate")
	b.Git("switch", "-q", "-c", "feature")
	b.Commit(map[string]string{"b": "2\n"}, "Add b")
	began := time.Now()
	r := b.gate(Options{Land: true})
	if r.Land.Outcome != Landed || r.Patchset.Revision.Files != 10_003 {
		t.Errorf("land %+v, revision %+v", r.Land, r.Patchset.Revision)
	}
	t.Logf("gate and land took %s, of which %d ms checkout", time.Since(began), r.Checks.Checkout)
}

// Ordinals end at 64: the 65th Patchset of a branch opens the next Change.
func TestNextChangeAfterSixtyFourPatchsets(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := setup(t)
	w := b.open()
	id := func(rec *recorded) string {
		var name string
		err := w.Repo.View(ctx, func(v *authority.View) error {
			p, err := v.Patchset(rec.patchset)
			name = p.ID.String()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	var last string
	for i := range record.MaxOrdinals + 1 {
		b.Commit(map[string]string{"b": strings.Repeat("x", i+1)}, "Change b")
		r, err := w.FindRange(ctx, RangeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rec, err := w.record(ctx, r, "", record.AuthorModeHumanOnly)
		if err != nil {
			t.Fatal(err)
		}
		if i == record.MaxOrdinals-1 && id(rec) != "T-0001/C-01/P-64" {
			t.Errorf("patchset 64 is %s", id(rec))
		}
		last = id(rec)
	}
	if last != "T-0001/C-02/P-01" {
		t.Errorf("patchset 65 is %s", last)
	}
	b.close(w)
}

// A killed command leaves its checkout; the next run of the Job removes it.
func TestCheckoutOfAKilledCommandIsRemoved(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := setup(t)
	b.Commit(map[string]string{"b": "2\n"}, "Add b")
	w := b.open()
	dir, err := w.checkoutDir(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Git.AddWorktree(ctx, filepath.Join(dir, w.name()), gitrepo.OID(b.Git("rev-parse", "HEAD"))); err != nil {
		t.Fatal(err)
	}
	r, err := w.Run(ctx, Options{})
	if err != nil || !r.Landable {
		t.Fatalf("%v %+v", err, r)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there", dir)
	}
	b.close(w)
}
