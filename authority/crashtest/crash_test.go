// Package crashtest proves that no power cut makes an authority lose, invent or
// tear anything. Verbs run on a simulated disk; the power is cut after each of its
// operations; every state in which the disk may be found is opened, and what is
// there is compared with what the callers had been told.
package crashtest

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

var (
	wantStates = flag.Int64("crash.states", 10_000, "random sequences run until so many distinct disk states were recovered")
	firstSeed  = flag.Uint64("crash.seed", 1, "seed of the first random sequence")
)

// policy is how the disk may be found. Random sequences have many operations that
// are unsynced for long, such as those on derived indexes; varying each of them
// again and again would say nothing new.
var policy = vfs.Policy{Random: 8, Seed: 1, Recent: 100}

// Numbers of wanted states from which on a run need not be quick, and need not
// end soon.
const (
	mediumRun = 100_000
	longRun   = 1_000_000
)

// tally counts what has been tried by all tests of the process.
var tally struct {
	cuts, states, recovered, again atomic.Int64
	shards                         [64]struct {
		sync.Mutex
		seen map[uint64]struct{}
	}
}

// distinct counts a disk state unless it was met before.
func distinct(fingerprint uint64, depth int) {
	s := &tally.shards[fingerprint%uint64(len(tally.shards))]
	s.Lock()
	defer s.Unlock()
	if s.seen == nil {
		s.seen = map[uint64]struct{}{}
	}
	if _, ok := s.seen[fingerprint]; !ok {
		s.seen[fingerprint] = struct{}{}
		tally.states.Add(1)
		if depth > 0 {
			tally.again.Add(1)
		}
	}
}

func TestMain(m *testing.M) {
	begin := time.Now()
	debug.SetGCPercent(400) // every state is garbage a moment later
	code := m.Run()
	fmt.Printf("crash: %d cut points, %d distinct disk states, %d of them after a second power cut, %d states after recovery, in %s\n",
		tally.cuts.Load(), tally.states.Load(), tally.again.Load(), tally.recovered.Load(), time.Since(begin).Round(time.Second))
	for _, name := range slices.Sorted(maps.Keys(met.by)) {
		fmt.Printf("fault: %s, %d times\n", name, met.by[name])
	}
	os.Exit(code)
}

// ack is what callers know once a verb has returned.
type ack struct {
	verb    string
	op      int // operations of the disk by then
	now     time.Time
	state   uint64
	live    map[uint32]held   // Jobs that somebody holds
	leases  []authority.Lease // those of them whose tokens are known
	backups int               // that were made
}

// held is what everybody may know of a lease.
type held struct {
	attempt uint16
	expires record.Seconds
}

// history is a recorded run and what came of its disk states.
type history struct {
	t    testing.TB
	name string
	w    *world
	acks []ack

	first     int // operations before the first cut
	window    func(cut int) (lo, hi int)
	outcomes  map[uint64]uint64 // state after recovery, by fingerprint before it
	recovered map[settled]bool
	depth     int  // power cuts before this run
	sample    int  // of so many disk states one gets a second power cut
	files     bool // it may have made hundreds of files
}

// settled is a disk after recovery, together with the ack that it is compared to.
type settled struct {
	fingerprint uint64
	ack         int
}

func newHistory(t testing.TB, name string, w *world) *history {
	h := &history{t: t, name: name, w: w, sample: 2000, outcomes: map[uint64]uint64{}, recovered: map[settled]bool{}}
	h.window = h.around
	return h
}

// begin starts a history: what the world says now is acknowledged.
func begin(t testing.TB, name string, w *world) *history {
	t.Helper()
	h := newHistory(t, name, w)
	h.begin()
	return h
}

// begin forgets the history so far; the power is cut from now on only.
func (h *history) begin() {
	h.t.Helper()
	h.w.sim.Capture()
	h.first = h.w.sim.OpCount()
	h.acks = nil
	h.ack("setup")
}

func (h *history) ack(verb string) {
	h.t.Helper()
	a := ack{verb: verb, op: h.w.sim.OpCount(), now: h.w.clock.Now(), state: stateOf(h.w.sim), backups: len(h.w.backups)}
	var err error
	if a.live, err = h.w.held(); err != nil {
		h.t.Fatalf("%s after %s: %v", h.name, verb, err)
	}
	for _, l := range h.w.leases {
		if a.live[l.Job].attempt == l.Attempt {
			a.leases = append(a.leases, l)
		}
	}
	h.acks = append(h.acks, a)
}

// held lists the Jobs that somebody holds now.
func (w *world) held() (map[uint32]held, error) {
	live := map[uint32]held{}
	err := w.r.View(context.Background(), func(v *authority.View) error {
		n, err := bindb.WorkerJobs.Count(v)
		if err != nil {
			return err
		}
		for i := range n {
			job, err := v.Job(i)
			if err != nil {
				return err
			}
			l, ok, err := v.LeaseOf(&job, record.Seconds(w.clock.Now().Unix()))
			if err != nil {
				return err
			}
			if ok {
				live[i] = held{l.Attempt, l.ExpiresAt}
			}
		}
		return nil
	})
	return live, err
}

// do runs one atomic step and notes what its caller is told.
func (h *history) do(name string, step func(w *world) error) error {
	h.t.Helper()
	err := step(h.w)
	if err != nil && !refused(err) {
		h.t.Fatalf("%s: %s: %v", h.name, name, err)
	}
	h.ack(name)
	return err
}

// stateSeed makes sums of states comparable inside the process.
var stateSeed = maphash.MakeSeed()

// stateOf returns a sum of everything that is authority: active.json, and the
// .bin files of the registry and of each Repository that it has. It is zero when
// there is no active.json.
func stateOf(sim *vfs.Sim) uint64 {
	raw, err := vfs.ReadFile(sim, path.Join(dataDir, "active.json"), 64<<10)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), `"generation":`)
	number, _, _ := strings.Cut(rest, ",")
	gen := path.Join(dataDir, "generations", strings.TrimSpace(number))
	sum := append([]byte(nil), raw...)
	bin := func(name string) bool { return strings.HasSuffix(name, ".bin") }
	add := func(dir string) { sum = binary.LittleEndian.AppendUint64(sum, sim.FingerprintOf(dir, bin)) }
	add(path.Join(gen, "registry"))
	if info, err := sim.Lstat(path.Join(gen, "registry", bindb.Repositories.File())); err == nil {
		for i := range (info.Size - bindb.HeaderSize) / record.RepositorySize {
			add(path.Join(gen, "repositories", strconv.FormatInt(i, 10)))
		}
	}
	return maphash.Bytes(stateSeed, sum)
}

// around is the range of acks whose state may be found after a cut: the last one
// that was given, and the one after it.
func (h *history) around(cut int) (lo, hi int) {
	for lo+1 < len(h.acks) && h.acks[lo+1].op <= cut {
		lo++
	}
	return lo, min(lo+1, len(h.acks)-1)
}

// match returns the oldest ack of the window that has the state, or -1.
func (h *history) match(state uint64, lo, hi int) int {
	for i := lo; i <= hi; i++ {
		if h.acks[i].state == state {
			return i
		}
	}
	return -1
}

// crashEverywhere cuts the power after every operation since the first ack.
func (h *history) crashEverywhere(p vfs.Policy) {
	h.t.Helper()
	step := 1
	switch {
	case *wantStates >= longRun:
	case h.files && *wantStates < mediumRun:
		step = 160
	case h.files:
		step = 16
	case h.depth > 0 && *wantStates < mediumRun:
		step = 16
	}
	if h.files {
		p.Recent = 4 // varying each one's creation at each operation says nothing new
	}
	for cut := h.first; cut <= h.w.sim.OpCount(); cut += step {
		lo, hi := h.window(cut)
		tally.cuts.Add(1)
		var fingerprint uint64
		p.Skip = func(sum uint64) bool {
			fingerprint = sum
			// The same disk may be right at one cut and wrong at another.
			state, met := h.outcomes[sum]
			return met && h.match(state, lo, hi) >= 0
		}
		for disk := range h.w.sim.CrashStates(cut, p) {
			distinct(fingerprint, h.depth)
			h.recover(disk, fingerprint, lo, hi)
		}
	}
}

// early is the number of the first disk state that gets a second power cut, small
// enough for short histories to have one.
const early = 20

// recover opens a disk and compares it with what was acknowledged.
func (h *history) recover(disk *vfs.Sim, fingerprint uint64, lo, hi int) {
	h.t.Helper()
	w := h.w.on(disk, h.acks[hi].now)
	origin := func() string {
		return fmt.Sprintf("%s, in %s (acknowledged: %s), %s", h.name, h.acks[hi].verb, h.acks[lo].verb, disk.Origin())
	}
	again := h.depth == 0 && len(h.outcomes)%h.sample == early
	if again {
		disk.Capture() // it is new, so that it has no operations yet
	}
	if stateOf(disk) == 0 && h.match(0, lo, hi) >= 0 {
		h.outcomes[fingerprint] = 0
		h.nothing(w, origin)
		return
	}
	if err := w.open(); err != nil {
		h.t.Fatalf("%s: %v", origin(), err)
	}
	opened := disk.OpCount()
	state := stateOf(disk)
	at := h.match(state, lo, hi)
	if at < 0 {
		h.t.Fatalf("%s: what is there is neither what was acknowledged nor what the verb would have made of it", origin())
	}
	h.outcomes[fingerprint] = state
	// Disks that are alike after recovery go on alike, so that one of them is enough.
	if key := (settled{disk.Fingerprint(), at}); again || !h.recovered[key] {
		h.recovered[key] = true
		tally.recovered.Add(1)
		if again || len(h.recovered)%h.thorough() == 1 {
			next := h.goOn(w, h.acks[at], origin)
			if again {
				h.crashAgain(w, origin, lo, hi, at, opened, next)
			}
			return
		}
		if err := w.marked(); err != nil {
			h.t.Fatalf("%s: %v", origin(), err)
		}
	}
	// Nothing is closed: whoever has looked dies with the disk.
}

// nothing expects no authority, in whose place one can be made.
func (h *history) nothing(w *world, origin func() string) {
	h.t.Helper()
	if err := w.open(); !errors.Is(err, authority.ErrNoAuthority) {
		h.t.Fatalf("%s: without active.json an open says: %v", origin(), err)
	}
	if tally.recovered.Add(1)%16 > 0 {
		return
	}
	if err := w.create(); err != nil {
		h.t.Fatalf("%s: %v", origin(), err)
	}
	if err := w.sound(true); err != nil {
		h.t.Fatalf("%s: %v", origin(), err)
	}
}

// marked validates what the open had a mark to rely on for; it has validated all
// of the rest.
func (w *world) marked() error {
	marks, err := w.sim.ReadDir(path.Join(dataDir, "runtime/mark"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(marks) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return w.sound(false)
}

// thorough is how many recovered disks share one that is worked with.
func (h *history) thorough() int {
	if h.depth > 0 {
		return 32
	}
	return 4
}

// on is the world of somebody who finds the disk later and has what the callers
// had been told.
func (w *world) on(disk *vfs.Sim, now time.Time) *world {
	c := &world{
		sim: disk, clock: authoritytest.NewClock(), leases: map[uint32]authority.Lease{},
		backups: w.backups, number: w.number + 1000,
	}
	c.clock.Advance(now.Sub(authoritytest.Start))
	c.opt = w.opt
	c.opt.FS, c.opt.Clock, c.opt.Random = disk, c.clock.Now, authoritytest.NewRandom(99)
	return c
}

// errProbe ends a transaction that was only tried.
var errProbe = errors.New("this was only a try")

// goOn validates a recovered authority as a whole, tries the leases that were
// acknowledged, and works with it. It leaves it closed.
func (h *history) goOn(w *world, want ack, origin func() string) (next ack) {
	h.t.Helper()
	w.clock.Advance(want.now.Sub(w.clock.Now()))
	must := func(err error) {
		h.t.Helper()
		if err != nil {
			h.t.Fatalf("%s: after %s: %v", origin(), want.verb, err)
		}
	}
	must(w.sound(true))
	must(w.leasesAre(want))
	must(w.backupsAre(want.backups))
	must(named("OpenTask").do(w))
	next = ack{verb: "OpenTask after recovery", op: w.sim.OpCount(), now: want.now, state: stateOf(w.sim), live: want.live, leases: want.leases, backups: want.backups}
	must(w.a.Close())
	w.opt.Own = !w.opt.Own // somebody else goes on
	must(w.open())
	must(w.sound(false))
	if stateOf(w.sim) != next.state {
		h.t.Fatalf("%s: after %s: it changed when it was opened again", origin(), want.verb)
	}
	must(w.a.Close())
	return next
}

// sound validates the registry and those Repositories that users have, or really
// all of them.
func (w *world) sound(all bool) error {
	ctx := context.Background()
	roots := []*bindb.Root{w.a.Registry()}
	list, err := w.a.Repositories(ctx)
	if err != nil {
		return err
	}
	for _, info := range list {
		if info.Meta.Tombstoned() || info.Index < authority.FirstRepository && !all {
			continue
		}
		r, err := w.a.Repository(ctx, info.Index)
		if err != nil {
			return err
		}
		roots = append(roots, r.Root())
	}
	for _, r := range roots {
		if findings, err := r.Check(ctx); err != nil || len(findings) > 0 {
			return fmt.Errorf("%s: %v %w", r.Dir, findings, err)
		}
	}
	return nil
}

// leasesAre compares the leases with those that were acknowledged, uses those whose
// tokens are known, and sees that each Job that is queued can be had. A heartbeat
// that was not acknowledged may have made a lease longer.
func (w *world) leasesAre(want ack) error {
	got, err := w.held()
	if err != nil {
		return err
	}
	for job, l := range want.live {
		if got[job].attempt != l.attempt || got[job].expires < l.expires {
			return fmt.Errorf("the lease of job %d is %+v, acknowledged: %+v", job, got[job], l)
		}
	}
	for job, l := range got {
		if _, ok := want.live[job]; !ok {
			return fmt.Errorf("job %d has the lease %+v, but nobody was given one", job, l)
		}
	}
	err = w.update(func(tx *authority.Tx) error {
		for _, l := range want.leases {
			if _, err := tx.Heartbeat(l); err != nil {
				return err
			}
		}
		n, err := bindb.WorkerJobs.Count(tx)
		if err != nil {
			return err
		}
		for i := range n {
			j, err := tx.Job(i)
			if err != nil {
				return err
			}
			if j.State == record.JobStateQueued && j.AvailableAt <= tx.Now() {
				if _, err := tx.Claim(i, authority.RequestID{}); err != nil {
					return err
				}
			}
		}
		return errProbe
	})
	if errors.Is(err, errProbe) {
		return nil
	}
	return err
}

// backupsAre verifies every backup that has a name, and misses none that was
// acknowledged.
func (w *world) backupsAre(acknowledged int) error {
	for i, name := range w.backups {
		there, err := vfs.Exists(w.sim, name)
		if err == nil && there {
			_, err = authority.Verify(context.Background(), w.opt, name, nil)
		}
		if err != nil {
			return err
		}
		if !there && i < acknowledged {
			return fmt.Errorf("the backup %s is gone", name)
		}
	}
	return nil
}

// crashAgain cuts the power at every operation of a recovery and of the work
// after it. Until the recovery had ended either state may be found; what it has
// once shown stays.
func (h *history) crashAgain(w *world, origin func() string, lo, hi, at, opened int, next ack) {
	h.t.Helper()
	second := newHistory(h.t, origin(), w)
	second.depth = h.depth + 1
	shown := h.acks[at]
	shown.op = opened
	second.acks = []ack{h.acks[lo], h.acks[hi], shown, next}
	second.window = func(cut int) (int, int) {
		switch {
		case cut < opened:
			return 0, 1
		case cut < next.op:
			return 2, 3
		}
		return 3, 3
	}
	p := policy
	p.Random, p.Tears, p.Recent = 2, 1, 10
	second.crashEverywhere(p)
}
