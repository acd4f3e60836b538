package authority

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// RootName names a root of an installation for people: the registry, the parent
// of the Repositories, or a Repository.
type RootName struct {
	// Kind is "registry", "directories" or "repository".
	Kind string
	// Index is that of a repository.
	Index uint32
	// Name is the Repository's, or empty when the registry cannot be read.
	Name string
}

// String is, for example, "repository 4 (widgets)".
func (n RootName) String() string {
	switch {
	case n.Kind != "repository":
		return n.Kind
	case n.Name == "":
		return fmt.Sprintf("repository %d", n.Index)
	}
	return fmt.Sprintf("repository %d (%s)", n.Index, n.Name)
}

// Finding is a violation of the format in one root.
type Finding struct {
	Root RootName
	bindb.Finding
}

// Check validates the registry, the directories of the Repositories and every
// Repository (section 17), purged ones included, and returns all violations. The
// error is about reading, not about what was read.
func (a *Authority) Check(ctx context.Context) ([]Finding, error) {
	var all []Finding
	add := func(root RootName, findings []bindb.Finding) {
		for _, f := range findings {
			all = append(all, Finding{root, f})
		}
	}
	findings, err := a.registry.Check(ctx)
	if err != nil {
		return nil, err
	}
	add(RootName{Kind: "registry"}, findings)
	if len(findings) > 0 {
		return all, nil
	}
	d, err := a.directories(ctx)
	if err != nil {
		return nil, err
	}
	add(RootName{Kind: "directories"}, d.findings)
	list, err := a.Repositories(ctx)
	if err != nil {
		return nil, err
	}
	for _, info := range list {
		if _, there := slices.BinarySearch(d.present, info.Index); !there || info.Meta.Tombstoned() {
			continue
		}
		name := RootName{"repository", info.Index, info.Name}
		r, err := a.Repository(ctx, info.Index)
		if unsound(err) {
			add(name, []bindb.Finding{{Check: "OPEN", Message: err.Error()}})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if findings, err = r.Check(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		add(name, findings)
	}
	return all, nil
}

// unsound reports whether err says that stored bytes are wrong.
func unsound(err error) bool {
	return errors.Is(err, bindb.ErrCorrupt) || errors.Is(err, bindb.ErrLayout)
}

// RootReport is what Examine found in one root.
type RootReport struct {
	Root RootName
	bindb.Inspection
	// Err says why the root could not be looked at, for example because somebody
	// else holds its lock.
	Err error
}

// Examine opens each root of the installation in o.Dir by itself, recovers what
// was interrupted and validates everything, also where the installation cannot be
// opened because something in it is wrong. begin, which may be nil, is called
// before each root and visit after it; Examine ends with the error of visit. It
// has one of its own only when there is nothing to look at.
func Examine(ctx context.Context, o Options, begin func(RootName), visit func(RootReport) error) error {
	o = o.withDefaults()
	if err := suitable(o); err != nil {
		return err
	}
	act, err := readActive(o)
	if err != nil {
		return err
	}
	au, err := Open(ctx, o)
	if err != nil && !unsound(err) {
		return err
	}
	x := &examination{opt: o, active: act, au: au, begin: begin, visit: visit}
	if au != nil {
		x.active = au.active
		return errors.Join(x.run(ctx), au.Close())
	}
	return x.run(ctx)
}

type examination struct {
	opt    Options
	active active
	au     *Authority // nil when the installation cannot be opened
	begin  func(RootName)
	visit  func(RootReport) error
}

// root looks at one root.
func (x *examination) root(ctx context.Context, name RootName, look func() (bindb.Inspection, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if x.begin != nil {
		x.begin(name)
	}
	in, err := look()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return x.visit(RootReport{name, in, err})
}

func (x *examination) run(ctx context.Context) error {
	cfg := x.opt.config(x.active, record.RootRegistry, "registry")
	var list []RepositoryInfo // of a sound registry
	sound := false
	err := x.root(ctx, RootName{Kind: "registry"}, func() (bindb.Inspection, error) {
		in, err := bindb.Inspect(ctx, cfg)
		if x.au != nil {
			in.Recovered = append(x.au.registry.Recoveries(), in.Recovered...)
		}
		if err == nil && len(in.Findings) == 0 {
			list, err = x.repositories(ctx, cfg)
			sound = err == nil
		}
		return in, err
	})
	if err != nil {
		return err
	}
	var live []bool
	if sound {
		live = make([]bool, 0, len(list))
		for _, info := range list {
			live = append(live, !info.Meta.Tombstoned())
		}
	}
	var d directories
	err = x.root(ctx, RootName{Kind: "directories"}, func() (in bindb.Inspection, err error) {
		parent := filepath.Join(x.opt.generation(x.active.Generation), "repositories")
		d, err = readDirectories(x.opt.FS, parent, live)
		return bindb.Inspection{Findings: d.findings}, err
	})
	if err != nil {
		return err
	}
	for _, index := range d.present {
		name := RootName{Kind: "repository", Index: index}
		var info *RepositoryInfo
		if sound {
			if int(index) >= len(list) || !live[index] {
				continue // left of an interrupted registration, or reported already
			}
			info = &list[index]
			name.Name = info.Name
		}
		err := x.root(ctx, name, func() (bindb.Inspection, error) { return x.repository(ctx, index, info) })
		if err != nil {
			return err
		}
	}
	return nil
}

// repositories reads the records of a sound registry.
func (x *examination) repositories(ctx context.Context, cfg bindb.Config) (list []RepositoryInfo, err error) {
	root := (*bindb.Root)(nil)
	if x.au != nil {
		root = x.au.registry
	} else {
		if root, err = bindb.Open(ctx, cfg); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, root.Close()) }()
	}
	err = root.View(ctx, func(r bindb.Reader) (err error) {
		list, err = listRepositories(r)
		return err
	})
	return list, err
}

// repository looks at one Repository, whose record is nil where it is not known.
func (x *examination) repository(ctx context.Context, index uint32, info *RepositoryInfo) (bindb.Inspection, error) {
	cfg := x.opt.config(x.active, record.RootAuthority, strconv.FormatUint(uint64(index), 10))
	var done []bindb.Recovery
	if x.au != nil {
		left, err := bindb.PurgeLeft(cfg)
		if err != nil {
			return bindb.Inspection{}, err
		}
		if left {
			err := x.au.recoverPurge(ctx, index)
			if unsound(err) {
				return bindb.Inspection{Findings: []bindb.Finding{{Check: "OPEN", Message: err.Error()}}}, nil
			}
			if err != nil {
				return bindb.Inspection{}, err
			}
			done = append(done, bindb.Recovery{File: ".repository-purge.journal.json", What: "an interrupted purge has been ended as the registry asks for"})
		}
	}
	in, err := bindb.Inspect(ctx, cfg)
	in.Recovered = append(done, in.Recovered...)
	if err != nil || len(in.Findings) > 0 || info == nil || info.Lifecycle != record.LifecyclePurged {
		return in, err
	}
	root, err := bindb.Open(ctx, cfg)
	if err != nil {
		return in, err
	}
	err = root.View(ctx, func(r bindb.Reader) (err error) {
		in.Findings, err = bindb.CheckPurged(r, maxPurgeFindings)
		return err
	})
	return in, errors.Join(err, root.Close())
}
