package convert

import (
	"context"
	"reflect"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// BuildU32Time builds the roots of a predecessor where config says, without
// publishing them.
func BuildU32Time(ctx context.Context, fsys vfs.FS, dir string, r roots) (*Report, error) {
	u := newU32Time(fsys, dir, r)
	err := u.run(ctx)
	return u.rep, err
}

// WidenU32Time does the same without validating the target.
func WidenU32Time(ctx context.Context, fsys vfs.FS, dir string, r roots) error {
	u := newU32Time(fsys, dir, r)
	listed, files, err := u.begin(ctx)
	if err != nil {
		return err
	}
	_, err = u.freeze(ctx, listed, files, func(context.Context) error { return nil })
	return err
}

func newU32Time(fsys vfs.FS, dir string, r roots) *u32Time {
	return &u32Time{
		source: source{fs: fsys, dir: dir}, target: &target{roots: r}, rep: newReport(FromU32Time, dir),
	}
}

// Narrow is the opposite of widening: it turns the records of a file into those
// of the predecessor. It reports false when a time does not fit.
func Narrow(l *record.Layout, b []byte) ([]byte, bool) {
	old := make([]byte, 0, len(b))
	for ; len(b) > 0; b = b[l.Size:] {
		for _, f := range l.Fields {
			v := b[f.Offset : f.Offset+f.Width]
			if f.Time {
				if [4]byte(v[4:]) != [4]byte{} {
					return nil, false
				}
				v = v[:4]
			}
			old = append(old, v...)
		}
	}
	return old, true
}

// Widths gives the record size in the predecessor and the old offsets of the
// fields that grow.
func Widths(l *record.Layout) (old int, offsets map[string]int) {
	w := widen(l)
	offsets = map[string]int{}
	i := 0
	for _, f := range l.Fields {
		if isTime(f) {
			offsets[f.Name] = w.pieces[i].from + w.pieces[i].length
			i++
		}
	}
	return w.old, offsets
}

// DecodeRows decodes the document of a Repository and gives the titles of its
// Tasks and the comments of its Reviews.
func DecodeRows(raw []byte) (texts []string, err error) {
	var d document
	if err := decodeDocument("rows.json", raw, &d); err != nil {
		return nil, err
	}
	for _, t := range d.Tasks {
		texts = append(texts, t.Title)
	}
	for _, r := range d.Reviews {
		if r.Comment != nil {
			texts = append(texts, *r.Comment)
		}
	}
	return texts, nil
}

// DecodeOperational decodes the operational tables.
func DecodeOperational(raw []byte) error {
	return decodeDocument(operationalPath, raw, &operational{})
}

// RowTypes gives the Go types of the tables of docs/conversion.md.
func RowTypes() map[string]reflect.Type {
	return map[string]reflect.Type{
		"document": reflect.TypeFor[document](), "tasks": reflect.TypeFor[taskRow](), "changes": reflect.TypeFor[changeRow](),
		"patchsets": reflect.TypeFor[patchsetRow](), "diff_stats": reflect.TypeFor[diffStatRow](), "ci": reflect.TypeFor[ciRow](),
		"attestations": reflect.TypeFor[attestationRow](), "reviews": reflect.TypeFor[reviewRow](),
		"policy_decisions": reflect.TypeFor[decisionRow](), "checks": reflect.TypeFor[checkRow](),
		"waivers": reflect.TypeFor[waiverRow](), "lands": reflect.TypeFor[landRow](),
		"operational": reflect.TypeFor[operational](), "repositories": reflect.TypeFor[repositoryRow](),
		"policy": reflect.TypeFor[policyRow](), "jobs": reflect.TypeFor[jobRow](),
	}
}

// Widen converts records of the predecessor.
func Widen(l *record.Layout, old []byte) []byte {
	w := widen(l)
	dst := make([]byte, len(old)/w.old*w.size)
	return dst[:w.records(dst, old)]
}
