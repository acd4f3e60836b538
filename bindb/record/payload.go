package record

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxPayload is the greatest length of a payload whose locator has a u16 length.
const maxPayload = 1<<16 - 1

// maxTreeName is the same for the names of Tree entries.
const maxTreeName = 1<<8 - 1

// Payload is satisfied by the pointer to every payload type (Binary DB v0,
// section 9). Texts are UTF-8 without terminator.
type Payload interface {
	// Encode gives the bytes of the payload. The error matches ErrTooLong when a
	// part does not fit its length field or the whole its locator, and
	// ErrMalformed when a required text is empty or a text is not UTF-8.
	Encode() ([]byte, error)
	// Decode reads all of b. The error matches ErrMalformed, and the payload is
	// then unspecified.
	Decode(b []byte) error
}

// NewPayload returns an empty payload of the kind that a payload file holds, and
// false for any other file.
func NewPayload(file string) (Payload, bool) {
	switch file {
	case "repository_payload.bin":
		return new(RepositoryPayload), true
	case "patchset_summary_payload.bin":
		return new(PatchsetSummary), true
	case "actor_payload.bin":
		return new(ActorPayload), true
	case "review_payload.bin":
		return new(ReviewPayload), true
	case "waiver_payload.bin":
		return new(WaiverPayload), true
	case "task_payload.bin":
		return new(TaskPayload), true
	case "change_payload.bin":
		return new(ChangePayload), true
	case "snapshot_link_payload.bin":
		return new(SnapshotLinkPayload), true
	case "snapshot_payload.bin":
		return new(SnapshotPayload), true
	case "line_name_payload.bin":
		return new(LineNamePayload), true
	case "tree_name_payload.bin":
		return new(TreeNamePayload), true
	case "plan_payload.bin":
		return new(PlanPayload), true
	case "plan_revision_payload.bin":
		return new(PlanRevisionPayload), true
	case "plan_item_payload.bin":
		return new(PlanItemPayload), true
	}
	return nil, false
}

// RepositoryPayload is the payload of a Repository.
type RepositoryPayload struct {
	Name string `json:"name"` // required
}

// PatchsetSummary is the payload of a Patchset.
type PatchsetSummary struct {
	Text string `json:"text"` // required
}

// ActorPayload is the payload of an Actor. All of its bytes are identity.
type ActorPayload struct {
	UserName string `json:"user_name"` // required, at most 255 bytes
	UserID   string `json:"user_id"`   // at most 255 bytes
	Email    string `json:"email"`     // at most 255 bytes
	Memo     string `json:"memo"`
}

// ReviewPayload is the payload of a Review.
type ReviewPayload struct {
	Text string `json:"text"` // may be empty
}

// WaiverPayload is the payload of a Waiver.
type WaiverPayload struct {
	Reason string `json:"reason"` // required
}

// TaskPayload is the payload of a Task.
type TaskPayload struct {
	Title  string `json:"title"`  // required
	Intent string `json:"intent"` // required
}

// ChangePayload is the payload of a Change.
type ChangePayload struct {
	Title string `json:"title"` // required
}

// SnapshotLinkPayload is the payload of a Snapshot link.
type SnapshotLinkPayload struct {
	WorktreeName string `json:"worktree_name"`
	LineName     string `json:"line_name"`
	TaskID       string `json:"task_id"`
	ChangeID     string `json:"change_id"`
	AuthorMode   string `json:"author_mode"`
	ModelName    string `json:"model_name"`
}

// SnapshotPayload is the payload of a Snapshot.
type SnapshotPayload struct {
	Message  string `json:"message"`
	LineName string `json:"line_name"`
}

// LineNamePayload is the payload of a Line.
type LineNamePayload struct {
	Name string `json:"name"` // required
}

// TreeNamePayload is the name of a Tree entry.
type TreeNamePayload struct {
	Name string `json:"name"` // required, at most 255 bytes, no path
}

// PlanPayload is the payload of a Plan.
type PlanPayload struct {
	Title string `json:"title"` // required
}

// PlanRevisionPayload is the payload of a Plan revision.
type PlanRevisionPayload struct {
	TitleSnapshot    string `json:"title_snapshot"`
	Summary          string `json:"summary"`
	ArtifactPath     string `json:"artifact_path"`
	ArtifactSelector string `json:"artifact_selector"`
	ArtifactHeading  string `json:"artifact_heading"`
	ArtifactBlobID   string `json:"artifact_blob_id"`
}

// PlanItemPayload is the payload of a Plan item.
type PlanItemPayload struct {
	Ref      string   `json:"ref"` // compared byte by byte to bind a Task
	Text     string   `json:"text"`
	Headings []string `json:"headings"` // headings above the item, outermost first
}

// part is one text of a payload.
type part struct {
	name     string
	text     *string
	width    int  // bytes of its length field; 0 when it is the rest
	required bool // not empty
}

func (p *RepositoryPayload) parts() []part { return []part{{"name", &p.Name, 2, true}} }
func (p *PatchsetSummary) parts() []part   { return []part{{"summary", &p.Text, 0, true}} }
func (p *ReviewPayload) parts() []part     { return []part{{"text", &p.Text, 0, false}} }
func (p *WaiverPayload) parts() []part     { return []part{{"reason", &p.Reason, 0, true}} }
func (p *ChangePayload) parts() []part     { return []part{{"title", &p.Title, 0, true}} }
func (p *LineNamePayload) parts() []part   { return []part{{"name", &p.Name, 0, true}} }
func (p *TreeNamePayload) parts() []part   { return []part{{"name", &p.Name, 0, true}} }
func (p *PlanPayload) parts() []part       { return []part{{"title", &p.Title, 0, true}} }

func (p *TaskPayload) parts() []part {
	return []part{{"title", &p.Title, 2, true}, {"intent", &p.Intent, 0, true}}
}

func (p *SnapshotPayload) parts() []part {
	return []part{{"message", &p.Message, 2, false}, {"Line name", &p.LineName, 0, false}}
}

func (p *ActorPayload) parts() []part {
	return []part{
		{"user name", &p.UserName, 1, true},
		{"user id", &p.UserID, 1, false},
		{"email", &p.Email, 1, false},
		{"memo", &p.Memo, 0, false},
	}
}

func (p *SnapshotLinkPayload) parts() []part {
	return []part{
		{"worktree name", &p.WorktreeName, 2, false},
		{"Line name", &p.LineName, 2, false},
		{"Task id", &p.TaskID, 2, false},
		{"Change id", &p.ChangeID, 2, false},
		{"author mode", &p.AuthorMode, 2, false},
		{"model name", &p.ModelName, 0, false},
	}
}

func (p *PlanRevisionPayload) parts() []part {
	return []part{
		{"title", &p.TitleSnapshot, 2, false},
		{"summary", &p.Summary, 2, false},
		{"artifact path", &p.ArtifactPath, 2, false},
		{"artifact selector", &p.ArtifactSelector, 2, false},
		{"artifact heading", &p.ArtifactHeading, 2, false},
		{"artifact blob id", &p.ArtifactBlobID, 0, false},
	}
}

// Encode implements Payload.
func (p *RepositoryPayload) Encode() ([]byte, error) {
	return encodeParts("Repository", p.parts(), 2+maxPayload)
}

// Decode implements Payload.
func (p *RepositoryPayload) Decode(b []byte) error {
	return decodeParts("Repository", p.parts(), b, 2+maxPayload)
}

// Encode implements Payload.
func (p *PatchsetSummary) Encode() ([]byte, error) {
	return encodeParts("Patchset", p.parts(), maxPayload)
}

// Decode implements Payload.
func (p *PatchsetSummary) Decode(b []byte) error {
	return decodeParts("Patchset", p.parts(), b, maxPayload)
}

// Encode implements Payload.
func (p *ActorPayload) Encode() ([]byte, error) { return encodeParts("Actor", p.parts(), maxPayload) }

// Decode implements Payload.
func (p *ActorPayload) Decode(b []byte) error { return decodeParts("Actor", p.parts(), b, maxPayload) }

// Encode implements Payload.
func (p *ReviewPayload) Encode() ([]byte, error) { return encodeParts("Review", p.parts(), maxPayload) }

// Decode implements Payload.
func (p *ReviewPayload) Decode(b []byte) error {
	return decodeParts("Review", p.parts(), b, maxPayload)
}

// Encode implements Payload.
func (p *WaiverPayload) Encode() ([]byte, error) { return encodeParts("Waiver", p.parts(), maxPayload) }

// Decode implements Payload.
func (p *WaiverPayload) Decode(b []byte) error {
	return decodeParts("Waiver", p.parts(), b, maxPayload)
}

// Encode implements Payload.
func (p *TaskPayload) Encode() ([]byte, error) { return encodeParts("Task", p.parts(), maxPayload) }

// Decode implements Payload.
func (p *TaskPayload) Decode(b []byte) error { return decodeParts("Task", p.parts(), b, maxPayload) }

// Encode implements Payload.
func (p *ChangePayload) Encode() ([]byte, error) { return encodeParts("Change", p.parts(), maxPayload) }

// Decode implements Payload.
func (p *ChangePayload) Decode(b []byte) error {
	return decodeParts("Change", p.parts(), b, maxPayload)
}

// Encode implements Payload.
func (p *SnapshotLinkPayload) Encode() ([]byte, error) {
	return encodeParts("Snapshot link", p.parts(), maxPayload)
}

// Decode implements Payload.
func (p *SnapshotLinkPayload) Decode(b []byte) error {
	return decodeParts("Snapshot link", p.parts(), b, maxPayload)
}

// Encode implements Payload.
func (p *SnapshotPayload) Encode() ([]byte, error) {
	return encodeParts("Snapshot", p.parts(), maxPayload)
}

// Decode implements Payload.
func (p *SnapshotPayload) Decode(b []byte) error {
	return decodeParts("Snapshot", p.parts(), b, maxPayload)
}

// Encode implements Payload.
func (p *LineNamePayload) Encode() ([]byte, error) {
	return encodeParts("Line", p.parts(), maxPayload)
}

// Decode implements Payload.
func (p *LineNamePayload) Decode(b []byte) error {
	return decodeParts("Line", p.parts(), b, maxPayload)
}

// Encode implements Payload. Names that are no single path element are refused
// with an error that matches ErrMalformed.
func (p *TreeNamePayload) Encode() ([]byte, error) {
	b, err := encodeParts("Tree entry", p.parts(), maxTreeName)
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Decode implements Payload.
func (p *TreeNamePayload) Decode(b []byte) error {
	if err := decodeParts("Tree entry", p.parts(), b, maxTreeName); err != nil {
		return err
	}
	return p.check()
}

func (p *TreeNamePayload) check() error {
	if p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/\\\x00") {
		return fmt.Errorf("%w: Tree entry name %.40q is no single path element (F07)", ErrMalformed, p.Name)
	}
	return nil
}

// Encode implements Payload.
func (p *PlanPayload) Encode() ([]byte, error) { return encodeParts("Plan", p.parts(), maxPayload) }

// Decode implements Payload.
func (p *PlanPayload) Decode(b []byte) error { return decodeParts("Plan", p.parts(), b, maxPayload) }

// Encode implements Payload.
func (p *PlanRevisionPayload) Encode() ([]byte, error) {
	return encodeParts("Plan revision", p.parts(), maxPayload)
}

// Decode implements Payload.
func (p *PlanRevisionPayload) Decode(b []byte) error {
	return decodeParts("Plan revision", p.parts(), b, maxPayload)
}

// Encode implements Payload.
func (p *PlanItemPayload) Encode() ([]byte, error) {
	total := 6 + len(p.Ref) + len(p.Text)
	for i := range p.Headings {
		total += 2 + len(p.Headings[i])
	}
	// Bounds every part and the number of headings as well.
	if total > maxPayload {
		return nil, tooLong("Plan item", "", total, maxPayload)
	}
	for i, s := range append([]string{p.Ref, p.Text}, p.Headings...) {
		if !utf8.ValidString(s) {
			return nil, notUTF8("Plan item", planItemPart(i))
		}
	}
	b := make([]byte, 0, total)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(p.Ref)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(p.Text)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(p.Headings)))
	b = append(append(b, p.Ref...), p.Text...)
	for _, h := range p.Headings {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(h)))
		b = append(b, h...)
	}
	return b, nil
}

// Decode implements Payload.
func (p *PlanItemPayload) Decode(b []byte) error {
	const what = "Plan item"
	if len(b) > maxPayload {
		return overlong(what, len(b), maxPayload)
	}
	if len(b) < 6 {
		return short(what, "lengths", 6, len(b))
	}
	n := int(binary.LittleEndian.Uint16(b))
	m := int(binary.LittleEndian.Uint16(b[2:]))
	count := int(binary.LittleEndian.Uint16(b[4:]))
	b = b[6:]
	var err error
	if p.Ref, b, err = take(what, planItemPart(0), b, n); err != nil {
		return err
	}
	if p.Text, b, err = take(what, planItemPart(1), b, m); err != nil {
		return err
	}
	// Each heading takes two bytes at least, so b bounds the allocation.
	if 2*count > len(b) {
		return short(what, "headings", 2*count, len(b))
	}
	p.Headings = nil
	if count > 0 {
		p.Headings = make([]string, count)
	}
	for i := range p.Headings {
		if len(b) < 2 {
			return short(what, planItemPart(2+i), 2, len(b))
		}
		n, b = int(binary.LittleEndian.Uint16(b)), b[2:]
		if p.Headings[i], b, err = take(what, planItemPart(2+i), b, n); err != nil {
			return err
		}
	}
	if len(b) != 0 {
		return fmt.Errorf("%w: %s payload has %d bytes behind its last heading (F07)", ErrMalformed, what, len(b))
	}
	return nil
}

func planItemPart(i int) string {
	switch i {
	case 0:
		return "reference"
	case 1:
		return "text"
	}
	return fmt.Sprintf("heading %d", i-1)
}

// SetMeta sets the bits of m that tell which parts the payload has.
func (p *ActorPayload) SetMeta(m *ActorMeta) {
	m.SetHasUserID(p.UserID != "")
	m.SetHasEmail(p.Email != "")
	m.SetHasMemo(p.Memo != "")
}

// CheckMeta verifies that m tells which parts the payload has (U01).
func (p *ActorPayload) CheckMeta(m ActorMeta) error {
	want := m
	p.SetMeta(&want)
	return agree("U01", "actor_meta", uint8(m), uint8(want))
}

// SetMeta sets the bits of m that tell which parts the payload has.
func (p *SnapshotPayload) SetMeta(m *SnapshotMeta) {
	m.SetHasMessage(p.Message != "")
	m.SetHasLineNamePayload(p.LineName != "")
}

// CheckMeta verifies that m tells which parts the payload has (S01).
func (p *SnapshotPayload) CheckMeta(m SnapshotMeta) error {
	want := m
	p.SetMeta(&want)
	return agree("S01", "snapshot_meta", uint8(m), uint8(want))
}

// SetMeta sets the bits of m that tell which parts the payload has.
func (p *SnapshotLinkPayload) SetMeta(m *LinkMeta) {
	m.SetHasWorktreeName(p.WorktreeName != "")
	m.SetHasLineName(p.LineName != "")
	m.SetHasAuthorOrModel(p.AuthorMode != "" || p.ModelName != "")
}

// CheckMeta verifies that m tells which parts the payload has (F07).
func (p *SnapshotLinkPayload) CheckMeta(m LinkMeta) error {
	want := m
	p.SetMeta(&want)
	return agree("F07", "link_meta", uint8(m), uint8(want))
}

func agree(check, field string, got, want uint8) error {
	if got == want {
		return nil
	}
	return fieldError(check, field, got, fmt.Sprintf("%d, as the payload has it", want))
}

// encodeParts writes the lengths of all parts but the rest, then the parts.
func encodeParts(what string, parts []part, limit int) ([]byte, error) {
	total := 0
	for _, p := range parts {
		n := len(*p.text)
		switch {
		case n == 0 && p.required:
			return nil, empty(what, p.name)
		case !utf8.ValidString(*p.text):
			return nil, notUTF8(what, p.name)
		case p.width == 1 && n > 1<<8-1:
			return nil, tooLong(what, p.name, n, 1<<8-1)
		case p.width == 2 && n > 1<<16-1:
			return nil, tooLong(what, p.name, n, 1<<16-1)
		}
		total += p.width + n
	}
	if total > limit {
		return nil, tooLong(what, "", total, limit)
	}
	b := make([]byte, 0, total)
	for _, p := range parts {
		switch p.width {
		case 1:
			b = append(b, uint8(len(*p.text)))
		case 2:
			b = binary.LittleEndian.AppendUint16(b, uint16(len(*p.text)))
		}
	}
	for _, p := range parts {
		b = append(b, *p.text...)
	}
	return b, nil
}

// decodeParts is the inverse of encodeParts.
func decodeParts(what string, parts []part, b []byte, limit int) error {
	if len(b) > limit {
		return overlong(what, len(b), limit)
	}
	var lengths [8]int
	for i, p := range parts {
		if len(b) < p.width {
			return short(what, "length of "+p.name, p.width, len(b))
		}
		switch p.width {
		case 1:
			lengths[i] = int(b[0])
		case 2:
			lengths[i] = int(binary.LittleEndian.Uint16(b))
		}
		b = b[p.width:]
	}
	var err error
	for i, p := range parts {
		n := lengths[i]
		if p.width == 0 {
			n = len(b)
		}
		if n == 0 && p.required {
			return empty(what, p.name)
		}
		if *p.text, b, err = take(what, p.name, b, n); err != nil {
			return err
		}
	}
	if len(b) != 0 {
		return fmt.Errorf("%w: %s payload has %d bytes behind its %s (F07)", ErrMalformed, what, len(b), parts[len(parts)-1].name)
	}
	return nil
}

func take(what, name string, b []byte, n int) (string, []byte, error) {
	switch {
	case n > len(b):
		return "", nil, short(what, name, n, len(b))
	case !utf8.Valid(b[:n]):
		return "", nil, notUTF8(what, name)
	}
	return string(b[:n]), b[n:], nil
}

func empty(what, name string) error {
	return fmt.Errorf("%w: %s %s is empty (F07)", ErrMalformed, what, name)
}

func notUTF8(what, name string) error {
	return fmt.Errorf("%w: %s %s is not UTF-8 (F07)", ErrMalformed, what, name)
}

func short(what, name string, want, have int) error {
	return fmt.Errorf("%w: %s payload ends early: its %s takes %d bytes, %d are left (F07)", ErrMalformed, what, name, want, have)
}

func overlong(what string, n, limit int) error {
	return fmt.Errorf("%w: %s payload has %d bytes, more than %d (F07)", ErrMalformed, what, n, limit)
}

func tooLong(what, name string, n, limit int) error {
	if name == "" {
		name = "payload"
	}
	return fmt.Errorf("%w: %s %s has %d bytes, the format has room for %d", ErrTooLong, what, name, n, limit)
}
