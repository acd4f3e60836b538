package gate

import (
	"context"
	"strings"

	"github.com/writ-authority/writ/authority"
)

// Diffstat is the comparison of a Patchset's two trees. It is computed when it is
// asked for and stored nowhere.
type Diffstat struct {
	Epoch    uint64     `json:"epoch"`
	Patchset string     `json:"patchset"`
	Added    int        `json:"files_added"`
	Deleted  int        `json:"files_deleted"`
	Modified int        `json:"files_modified"`
	Changed  int        `json:"files_changed"`
	Files    []FileStat `json:"files"`
}

// FileStat is one path that differs.
type FileStat struct {
	Path    string `json:"path"`
	Status  string `json:"status"` // added, deleted, modified or type_changed
	OldMode string `json:"old_mode"`
	NewMode string `json:"new_mode"`
}

// Diffstat compares the base and revision of a Patchset.
func (w *Workspace) Diffstat(ctx context.Context, p *authority.Patchset) (*Diffstat, error) {
	s, err := w.subjectCommits(ctx, p)
	if err != nil {
		return nil, err
	}
	diff, err := w.Git.Diff(ctx, s.base.commit, s.head.commit)
	if err != nil {
		return nil, err
	}
	out := &Diffstat{Epoch: w.Authority.Epoch(), Patchset: p.ID.String(), Changed: len(diff), Files: []FileStat{}}
	for _, c := range diff {
		f := FileStat{Path: strings.ToValidUTF8(c.Path, "\uFFFD"), OldMode: c.OldMode, NewMode: c.NewMode, Status: "modified"}
		switch c.Status {
		case 'A':
			out.Added++
			f.Status = "added"
		case 'D':
			out.Deleted++
			f.Status = "deleted"
		case 'T':
			out.Modified++
			f.Status = "type_changed"
		default:
			out.Modified++
		}
		out.Files = append(out.Files, f)
	}
	return out, nil
}
