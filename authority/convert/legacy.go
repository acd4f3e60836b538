package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// legacy turns the rows of one Repository into the workflow families of its root.
// Rows become records in the order of their owners and ordinals; what the rows
// cannot show to be right is an error with the place of the row.
type legacy struct {
	path    string // of the document, for errors
	doc     *document
	name    string // of the Repository
	ns      record.Namespace
	content *content
	gates   []Gate
	salvage bool

	im *image
	notes

	tasks     []ranked[taskRow] // by target index, and so below
	changes   []ranked[changeRow]
	patchsets []ranked[patchsetRow]

	taskAt     map[record.Identity]uint32 // target index by identity in the source
	changeAt   map[record.Identity]uint32
	patchsetAt map[record.Identity]uint32
	actorAt    map[actorKey]uint32
	lost       map[record.Identity]bool // Changes that a salvage leaves out

	landed map[uint32]*landing            // by Change, the succeeded Land with the greatest ordinal
	kinds  map[uint32]record.DecisionKind // by Patchset, of the latest decision
	seen   map[string]map[string]int      // by array, the rows with opaque identities
	// locators are the Jobs that stand behind the CI of Patchsets.
	locators map[uint32]record.Ref

	taskChanges, taskAttests, taskWaivers, taskSnapshots ordinals
	taskPatchsets, taskReviews, taskPolicies, taskLands  inventories
	changePatchsets, changeLands                         ordinals
	changeSnapshots                                      inventories
	patchsetReviews, patchsetPolicies                    ordinals
	patchsetAttests, patchsetWaivers                     inventories
}

// notes are what the report says about one Repository.
type notes struct {
	index    uint32
	used     []GateUse
	omitted  []Omission
	warnings []string
}

// ranked is a row with what orders it.
type ranked[T any] struct {
	row *T
	at  place
	id  record.Identity // in the source
	// owner is the target index of what it belongs to.
	owner uint32
	// ordinal counts from 0.
	ordinal uint8
}

// place is one row of a document.
type place struct {
	path, array string
	row         int
}

// bad refuses a field of the row.
func (p place) bad(field, format string, args ...any) error {
	return sourcef(fmt.Sprintf("%s: %s[%d].%s", p.path, p.array, p.row, field), format, args...)
}

// refuse gives the place to an error about the row as a whole. A failure to read
// or write refuses nothing.
func (p place) refuse(err error) error {
	if err == nil || errors.Is(err, ErrSource) {
		return err
	}
	err = fmt.Errorf("%s: %s[%d]: %w", p.path, p.array, p.row, err)
	for _, about := range []error{bindb.ErrCorrupt, bindb.ErrCapacity, bindb.ErrTooLarge, record.ErrMalformed} {
		if errors.Is(err, about) {
			return fmt.Errorf("%w: %w", ErrSource, err)
		}
	}
	return err
}

// name is an opaque identity of the row, or its place.
func (p place) name(identity *string) string {
	if identity != nil {
		return *identity
	}
	return fmt.Sprintf("%s[%d]", p.array, p.row)
}

func (l *legacy) at(array string, row int) place { return place{l.path, array, row} }

func newLegacy() *legacy {
	return &legacy{
		im:     newImage(),
		taskAt: map[record.Identity]uint32{}, changeAt: map[record.Identity]uint32{}, patchsetAt: map[record.Identity]uint32{},
		actorAt: map[actorKey]uint32{}, lost: map[record.Identity]bool{},
		landed: map[uint32]*landing{}, kinds: map[uint32]record.DecisionKind{}, seen: map[string]map[string]int{}, locators: map[uint32]record.Ref{},
		taskChanges: ordinals{file: "task_change_index.bin"}, taskAttests: ordinals{file: "task_attest_index.bin"},
		taskWaivers: ordinals{file: "task_waiver_index.bin"}, taskSnapshots: ordinals{file: "task_snapshot_index.bin"},
		taskPatchsets: inventories{file: "task_patchset_index.bin"}, taskReviews: inventories{file: "task_review_index.bin"},
		taskPolicies: inventories{file: "task_policy_index.bin"}, taskLands: inventories{file: "task_land_index.bin"},
		changePatchsets: ordinals{file: "change_patchset_index.bin"}, changeLands: ordinals{file: "change_land_index.bin"},
		changeSnapshots: inventories{file: "change_snapshot_index.bin"},
		patchsetReviews: ordinals{file: "patchset_review_index.bin"}, patchsetPolicies: ordinals{file: "patchset_policy_index.bin"},
		patchsetAttests: inventories{file: "patchset_attest_index.bin"}, patchsetWaivers: inventories{file: "patchset_waiver_index.bin"},
	}
}

// build converts all rows. jobs are the Jobs of the Repository; they give the
// Patchsets their locators.
func (l *legacy) build(jobs []ranked[jobRow]) error {
	for _, step := range []func() error{l.rankTasks, l.rankChanges, l.rankPatchsets} {
		if err := step(); err != nil {
			return err
		}
	}
	for range l.tasks {
		for _, o := range []*ordinals{&l.taskChanges, &l.taskAttests, &l.taskWaivers, &l.taskSnapshots} {
			o.owner()
		}
		for _, o := range []*inventories{&l.taskPatchsets, &l.taskReviews, &l.taskPolicies, &l.taskLands} {
			o.owner()
		}
	}
	for range l.changes {
		l.changePatchsets.owner()
		l.changeLands.owner()
		l.changeSnapshots.owner()
	}
	for range l.patchsets {
		l.patchsetReviews.owner()
		l.patchsetPolicies.owner()
		l.patchsetAttests.owner()
		l.patchsetWaivers.owner()
	}
	// What a record says about others comes after them.
	for _, step := range []func() error{
		l.lands, l.decisions, l.reviews, l.waivers, l.attestations, func() error { return l.jobs(jobs) },
		l.addPatchsets, l.addChanges, l.addTasks,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, o := range []*ordinals{
		&l.taskChanges, &l.taskAttests, &l.taskWaivers, &l.taskSnapshots,
		&l.changePatchsets, &l.changeLands, &l.patchsetReviews, &l.patchsetPolicies,
	} {
		if err := o.add(l.im); err != nil {
			return err
		}
	}
	for _, o := range []*inventories{
		&l.taskPatchsets, &l.taskReviews, &l.taskPolicies, &l.taskLands,
		&l.changeSnapshots, &l.patchsetAttests, &l.patchsetWaivers,
	} {
		if err := o.add(l.im); err != nil {
			return err
		}
	}
	return nil
}

// open asks for a gate and notes its use.
func (l *legacy) open(g Gate, id record.Identity) bool {
	if !slices.Contains(l.gates, g) {
		return false
	}
	l.used = append(l.used, GateUse{string(g), l.index, id.String()})
	return true
}

// omit notes a record that a salvage leaves out.
func (l *legacy) omit(identity, reason string) {
	l.omitted = append(l.omitted, Omission{l.index, identity, reason})
}

// sortRanked orders rows by owner and ordinal and refuses equal ones.
func sortRanked[T any](rows []ranked[T], field string) error {
	slices.SortStableFunc(rows, func(a, b ranked[T]) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.ordinal, b.ordinal))
	})
	for i := 1; i < len(rows); i++ {
		if a, b := rows[i-1], rows[i]; a.owner == b.owner && a.ordinal == b.ordinal {
			return b.at.bad(field, "has the number %d, which %s[%d] has too", b.ordinal+1, a.at.array, a.at.row)
		}
	}
	return nil
}

// same refuses an optional copy that differs from what it repeats.
func (p place) same(field string, copied *string, want string) error {
	if copied == nil || *copied == want {
		return nil
	}
	return p.bad(field, "is %.60q, want %q", *copied, want)
}

// repository checks the names of the Repository that a row may repeat.
func (l *legacy) repository(p place, name, id *string) error {
	if err := p.same("repo_name", name, l.name); err != nil {
		return err
	}
	return p.same("repo_id", id, l.doc.RepoID)
}

// identity reads a full identity of one kind of object.
func (l *legacy) identity(p place, field, text string, o record.Object) (record.Identity, error) {
	id, err := record.ParseIdentity(text, l.ns)
	if err != nil {
		return id, p.bad(field, "is no identity of a %s: %v", o, err)
	}
	if id.Object != o || !id.HasTask {
		return id, p.bad(field, "is %q, want the full identity of a %s such as %s", text, o, l.example(o))
	}
	return id, nil
}

func (l *legacy) example(o record.Object) record.Identity {
	id := record.TaskIdentity(l.ns, 0)
	switch o {
	case record.ObjectChange:
		return id.Change(0)
	case record.ObjectPatchset:
		return id.Change(0).Patchset(0)
	}
	return id
}

// copy checks an identity that a row may repeat.
func (l *legacy) copy(p place, field string, text *string, want record.Identity) error {
	if text == nil {
		return nil
	}
	id, err := record.ParseIdentity(*text, l.ns)
	if err != nil {
		return p.bad(field, "is no identity: %v", err)
	}
	if !id.HasTask && want.Object == record.ObjectChange {
		id = id.WithTask(want)
	}
	if id != want {
		return p.bad(field, "is %q, want %s", *text, want)
	}
	return nil
}

// owners checks the identities of Task and Change that a row may repeat.
func (l *legacy) owners(p place, task, change, changeRef *string, id record.Identity) error {
	if err := l.copy(p, "task_id", task, id.Task()); err != nil {
		return err
	}
	if err := l.copy(p, "change_id", change, changeOf(id)); err != nil {
		return err
	}
	return l.copy(p, "change_ref", changeRef, changeOf(id))
}

// patchset finds the Patchset that a row belongs to. omitted reports that a
// salvage left it out.
func (l *legacy) patchset(p place, text string) (index uint32, id record.Identity, omitted bool, err error) {
	if id, err = l.identity(p, "patchset_id", text, record.ObjectPatchset); err != nil {
		return 0, id, false, err
	}
	if l.lost[changeOf(id)] {
		return 0, id, true, nil
	}
	index, ok := l.patchsetAt[id]
	if !ok {
		return 0, id, false, p.bad("patchset_id", "is %s, which no row of patchsets has", id)
	}
	return index, id, false, nil
}

// once refuses an opaque identity that another row of the array has.
func (p place) once(l *legacy, field string, text *string) error {
	if text == nil {
		return nil
	}
	if l.seen[p.array] == nil {
		l.seen[p.array] = map[string]int{}
	}
	if other, ok := l.seen[p.array][*text]; ok {
		return p.bad(field, "is %.60q, which %s[%d] has too", *text, p.array, other)
	}
	l.seen[p.array][*text] = p.row
	return nil
}

// suffix reads the number at the end of an identity, such as R-05, whose letters
// are one of those given. What stands before must be one of the owners, if
// anything does: older servers numbered in the Change.
func (p place) suffix(field, text string, letters []string, owners ...record.Identity) (uint8, error) {
	prefix, last := "", text
	if at := strings.LastIndexByte(text, '/'); at >= 0 {
		prefix, last = text[:at], text[at+1:]
	}
	number := ""
	for _, s := range letters {
		if n, ok := strings.CutPrefix(last, s+"-"); ok {
			number = n
		}
	}
	n := 0
	for i := range len(number) {
		if number[i] < '0' || number[i] > '9' {
			n = -1
			break
		}
		n = n*10 + int(number[i]-'0')
	}
	if len(number) != 2 || n < 1 || n > record.MaxOrdinals {
		return 0, p.bad(field, "is %.80q, want an identity that ends with %s-01 to %s-%d", text, letters[0], letters[0], record.MaxOrdinals)
	}
	if prefix == "" {
		return uint8(n - 1), nil
	}
	for _, o := range owners {
		if prefix == o.String() || prefix == "R"+o.String() {
			return uint8(n - 1), nil
		}
	}
	return 0, p.bad(field, "is %.80q, which belongs to something else than %s", text, owners[0])
}

// snapshot finds a live Snapshot by its public identity.
func (l *legacy) snapshot(p place, field, text string) (uint32, error) {
	i, ok, err := l.findSnapshot(p, field, text)
	if err == nil && !ok {
		err = p.bad(field, "is %s, which the content of this Repository does not have", text)
	}
	return i, err
}

// findSnapshot is snapshot for one that may be missing.
func (l *legacy) findSnapshot(p place, field, text string) (uint32, bool, error) {
	hash, err := record.ParseSnapshotName(text)
	if err != nil {
		return 0, false, p.bad(field, "is no Snapshot: %v", err)
	}
	f, ok := l.content.snapshots[hash]
	switch {
	case !ok:
		return 0, false, nil
	case f.ambiguous:
		return 0, false, p.bad(field, "is %s, which several Snapshots of this Repository have", text)
	case f.dead:
		return 0, false, p.bad(field, "is %s, whose Snapshot is tombstoned", text)
	}
	return f.index, true, nil
}

// optionalSnapshot is snapshot for a reference that may be absent.
func (l *legacy) optionalSnapshot(p place, field string, text *string) (record.Ref, error) {
	if text == nil {
		return 0, nil
	}
	i, err := l.snapshot(p, field, *text)
	return record.RefTo(i), err
}

// line finds a live Line by name.
func (l *legacy) line(p place, field, name string) (record.Ref, error) {
	i, ok := l.content.lines[name]
	if !ok {
		return 0, p.bad(field, "is %.60q, want the name of exactly one Line of this Repository", name)
	}
	return record.RefTo(i), nil
}

// required refuses a time that must be known.
func (p place) required(field string, m moment) (record.Seconds, error) {
	if !m.set {
		return 0, p.bad(field, "is null, want a time")
	}
	return m.Seconds, nil
}

// parsed gives the place to the error of a record.Parse function.
func parsed[T any](p place, field, text string, parse func(string) (T, error)) (T, error) {
	v, err := parse(text)
	if err != nil {
		err = p.bad(field, "is refused: %v", err)
	}
	return v, err
}

// authorMode reads the author mode of a Patchset or an Attestation.
func authorMode(p place, text string) (record.AuthorMode, error) {
	return parsed(p, "author_mode", text, record.ParseAuthorMode)
}

// addRecord appends a record and gives its place to an error.
func addRecord[T any, P record.Codec[T]](l *legacy, p place, rec P) (uint32, error) {
	i, err := add(l.im, rec)
	return i, p.refuse(err)
}

// addText appends variable bytes and gives the field to an error.
func (l *legacy) addText(p place, field string, file bindb.Payload, text record.Payload) (uint64, int, error) {
	off, n, err := l.im.text(file, text)
	if err != nil {
		err = p.bad(field, "cannot be kept: %v", err)
	}
	return off, n, err
}

// put encodes a record in place of one that was added before.
func put[T any, P record.Codec[T]](im *image, i uint32, rec P) {
	l := rec.Layout()
	rec.Encode(im.files[l.File][int(i)*l.Size:])
}

// changeOf names the Change that an identity lies in.
func changeOf(id record.Identity) record.Identity { return id.Change(id.ChangeOrdinal) }
