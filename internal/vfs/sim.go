package vfs

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Sim is a file system in memory that models what a disk may forget.
//
// A write or a change of length reaches the disk for sure by Sync of that file.
// Until then any subset of the writes may survive a power cut, each torn at any
// boundary of 512 bytes, and a new length may survive without the data, showing
// zeros or garbage. Creations, renames and removals reach the disk for sure by
// SyncDir of the directories they touch; until then they may be lost or survive.
// Each of them is atomic, and changes of the same name or of the names of the
// same file keep their order. After a Sync that failed, the data that was
// unsynced at that moment stays in doubt however many later ones succeed.
//
// Paths are slash-separated; relative ones start at the root directory, which
// exists. Permissions and the umask are not enforced. Methods may be called
// concurrently. A Sim is itself the FS of one process; Process makes more.
type Sim struct {
	view

	mu       sync.Mutex
	disk     *disk
	ops      []Op
	script   func(Op) error
	locks    map[*simNode]*simFlock
	released chan struct{} // closed and replaced when a waiter for a lock should try again
	record   *recording    // nil before Capture
	origin   func() string
}

// simDevice is the device number of every Sim.
const simDevice = 0x53696d

// NewSim returns an empty file system.
func NewSim() *Sim { return newSim(newDisk()) }

func newSim(d *disk) *Sim {
	s := &Sim{disk: d, locks: map[*simNode]*simFlock{}, released: make(chan struct{})}
	s.view = view{sim: s, proc: &simProcess{}}
	return s
}

// Process returns a view of the file system as another process has it: with
// locks and handles of its own, which Crash ends.
func (s *Sim) Process() *Process {
	return &Process{view{sim: s, proc: &simProcess{}}}
}

// Fail sets the fault script, which is called before every operation; nil
// removes it. If it returns an error the operation does nothing and returns that
// error, apart from ShortWrite and ShortRead, from a Sync, which leaves the unsynced data in
// doubt, and from a Close, which closes. The script runs without any lock of the
// Sim, possibly in several goroutines at once; it may block, and an operation
// then waits while others go on.
func (s *Sim) Fail(script func(op Op) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// Ops returns the counted operations so far, in order: s.Ops()[i].N is i+1.
func (s *Sim) Ops() []Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ops)
}

// OpCount returns the number of counted operations so far. A caller that was
// answered at this moment may rely on it in every crash state with a cut of at
// least this number.
func (s *Sim) OpCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ops)
}

// Origin says which power cut left this state and what survived it, for test
// failures; it is empty for a Sim from NewSim.
func (s *Sim) Origin() string {
	if s.origin == nil {
		return ""
	}
	return s.origin()
}

// Link makes a hard link. It is not part of FS: tests use it to set a trap.
func (s *Sim) Link(oldname, newname string) error {
	op := Op{Kind: OpCreate, Path: newname}
	return s.change(op, func() (delta, error) {
		old, err := s.disk.find(oldname, false)
		if err != nil {
			return delta{}, err
		}
		if old.mode.IsDir() {
			return delta{}, syscall.EPERM
		}
		at, err := s.disk.vacant(newname)
		if err != nil {
			return delta{}, err
		}
		return delta{edit: &edit{set: map[place]uint64{at: old.id}, nodes: []uint64{old.id}}}, nil
	})
}

// Symlink makes a symbolic link to target. It is not part of FS: tests use it to
// set a trap.
func (s *Sim) Symlink(target, newname string) error {
	return s.makeNode(Op{Kind: OpCreate, Path: newname}, fs.ModeSymlink|0o777, target)
}

// simProcess is what the views and handles of one process have in common. It is
// guarded by Sim.mu.
type simProcess struct {
	crashed bool
	locks   []*simLock
}

// view is the file system as one process sees it.
type view struct {
	sim  *Sim
	proc *simProcess
}

// Process is the FS of one simulated process.
type Process struct {
	view
}

// Crash ends the process as kill -9 does: its locks are released and everything
// it still tries returns ErrCrashed. What it has written stays, synced or not.
func (p *Process) Crash() {
	s := p.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	p.proc.crashed = true
	for _, l := range slices.Clone(p.proc.locks) {
		l.release()
	}
	s.wake() // a wait of this process for a lock ends too
}

// before runs the fault script. An error is logged for a counted operation;
// then what the operation does to the disk even so is do, or nothing.
func (v view) before(op Op, do delta) error {
	s := v.sim
	s.mu.Lock()
	if v.proc.crashed {
		s.mu.Unlock()
		return pathError(op.Kind.String(), op.Path, ErrCrashed)
	}
	script := s.script
	if op.Kind.counted() {
		op.N = len(s.ops) + 1
	}
	s.mu.Unlock()
	if script == nil {
		return nil
	}
	err := script(op)
	if err == nil {
		return nil
	}
	if op.Kind.counted() && op.Kind != OpWrite {
		s.mu.Lock()
		op.Err = err
		s.log(op, do)
		s.mu.Unlock()
	}
	return pathError(op.Kind.String(), op.Path, err)
}

// log counts an operation and applies what it does. s.mu is held.
func (s *Sim) log(op Op, do delta) {
	op.N = len(s.ops) + 1
	s.ops = append(s.ops, op)
	s.disk.apply(op.N, do)
	if s.record != nil {
		s.record.deltas = append(s.record.deltas, do)
	}
}

// enter locks the Sim for a process that is alive.
func (v view) enter(op Op) error {
	v.sim.mu.Lock()
	if v.proc.crashed {
		v.sim.mu.Unlock()
		return pathError(op.Kind.String(), op.Path, ErrCrashed)
	}
	return nil
}

// change carries out a counted operation on a path: plan checks it and returns
// what it does.
func (v view) change(op Op, plan func() (delta, error)) error {
	if err := v.before(op, delta{}); err != nil {
		return err
	}
	if err := v.enter(op); err != nil {
		return err
	}
	defer v.sim.mu.Unlock()
	do, err := plan()
	if err != nil {
		return pathError(op.Kind.String(), op.Path, err)
	}
	do.kind = op.Kind
	v.sim.log(op, do)
	return nil
}

// makeNode makes a new node under op.Path.
func (v view) makeNode(op Op, mode fs.FileMode, target string) error {
	return v.change(op, func() (delta, error) { return v.sim.disk.planNode(op.Path, mode, target) })
}

// planNode returns the delta that makes a new node.
func (d *disk) planNode(name string, mode fs.FileMode, target string) (delta, error) {
	at, err := d.vacant(name)
	if err != nil {
		return delta{}, err
	}
	id := d.next()
	e := &edit{set: map[place]uint64{at: id}, nodes: []uint64{id}}
	return delta{node: id, fresh: true, mode: mode, target: target, edit: e}, nil
}

// look carries out an operation on a path that changes nothing.
func (v view) look(op Op, do func() error) error {
	if err := v.before(op, delta{}); err != nil {
		return err
	}
	if err := v.enter(op); err != nil {
		return err
	}
	defer v.sim.mu.Unlock()
	return pathError(op.Kind.String(), op.Path, do())
}

func (v view) Mkdir(name string, perm fs.FileMode) error {
	return v.makeNode(Op{Kind: OpMkdir, Path: name}, fs.ModeDir|perm.Perm(), "")
}

func (v view) Rename(oldname, newname string) error {
	err := v.change(Op{Kind: OpRename, Path: oldname, To: newname}, func() (delta, error) {
		defer v.sim.wake() // a lock file may have been replaced
		return v.sim.disk.planRename(oldname, newname)
	})
	if perr, ok := err.(*fs.PathError); ok {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: perr.Err}
	}
	return err
}

func (d *disk) planRename(oldname, newname string) (delta, error) {
	from, n, err := d.entry(oldname)
	if err != nil {
		return delta{}, err
	}
	to, replaced, err := d.walkEntry(newname)
	if err != nil {
		return delta{}, err
	}
	switch {
	case replaced == n && (from == to || !n.mode.IsDir()):
		return delta{}, nil // two names of one file stay, says rename(2)
	case replaced != nil && replaced.mode.IsDir():
		return delta{}, syscall.EEXIST
	case replaced != nil && n.mode.IsDir():
		return delta{}, syscall.ENOTDIR
	case n.mode.IsDir() && d.contains(n, to.dir):
		return delta{}, syscall.EINVAL
	}
	e := &edit{set: map[place]uint64{to: n.id}, del: []place{from}, nodes: []uint64{n.id}}
	if replaced != nil {
		e.nodes = append(e.nodes, replaced.id)
	}
	return delta{edit: e}, nil
}

// contains reports whether the directory id is dir or lies below it.
func (d *disk) contains(dir *simNode, id uint64) bool {
	if dir.id == id {
		return true
	}
	for _, n := range dir.entries {
		if n.mode.IsDir() && d.contains(n, id) {
			return true
		}
	}
	return false
}

func (v view) Remove(name string) error {
	return v.change(Op{Kind: OpRemove, Path: name}, func() (delta, error) {
		at, n, err := v.sim.disk.entry(name)
		if err != nil {
			return delta{}, err
		}
		if len(n.entries) > 0 {
			return delta{}, syscall.ENOTEMPTY
		}
		v.sim.wake() // a lock file may be gone
		return delta{edit: &edit{del: []place{at}, nodes: []uint64{n.id}}}, nil
	})
}

func (v view) RemoveAll(name string) error {
	info, err := v.Lstat(name)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode.IsDir() {
		children, err := v.ReadDir(name)
		if err != nil && !missing(err) {
			return err
		}
		for _, c := range children {
			if err := v.RemoveAll(path.Join(name, c.Name)); err != nil {
				return err
			}
		}
	}
	if err := v.Remove(name); !missing(err) {
		return err
	}
	return nil
}

func (v view) ReadDir(name string) (infos []Info, err error) {
	err = v.look(Op{Kind: OpReadDir, Path: name}, func() error {
		dir, err := v.sim.disk.find(name, true)
		if err != nil {
			return err
		}
		if !dir.mode.IsDir() {
			return syscall.ENOTDIR
		}
		infos = make([]Info, 0, len(dir.entries))
		for name, n := range dir.entries {
			infos = append(infos, n.info(name))
		}
		slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
		return nil
	})
	return infos, err
}

func (v view) Lstat(name string) (info Info, err error) {
	err = v.look(Op{Kind: OpStat, Path: name}, func() error {
		n, err := v.sim.disk.find(name, false)
		if err == nil {
			info = n.info(path.Base(name))
		}
		return err
	})
	return info, err
}

func (v view) SyncDir(name string) error {
	op := Op{Kind: OpSyncDir, Path: name}
	sync := func() (delta, error) {
		dir, err := v.sim.disk.find(name, true)
		if err != nil {
			return delta{}, err
		}
		if !dir.mode.IsDir() {
			return delta{}, syscall.ENOTDIR
		}
		return delta{kind: OpSyncDir, node: dir.id}, nil
	}
	if err := v.enter(op); err != nil {
		return err
	}
	failing, err := sync()
	v.sim.mu.Unlock()
	if err != nil {
		return pathError("syncdir", name, err)
	}
	failing.failed = true
	if err := v.before(op, failing); err != nil {
		return err
	}
	if err := v.enter(op); err != nil {
		return err
	}
	defer v.sim.mu.Unlock()
	do, err := sync()
	if err != nil {
		return pathError("syncdir", name, err)
	}
	v.sim.log(op, do)
	return nil
}

func (v view) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if err := checkFlags(name, flag); err != nil {
		return nil, err
	}
	op := Op{Kind: OpOpen, Path: name}
	if flag&os.O_CREATE != 0 {
		if err := v.enter(op); err != nil {
			return nil, err
		}
		_, n, err := v.sim.disk.walk(name, false)
		v.sim.mu.Unlock()
		if err == nil && n == nil {
			op.Kind = OpCreate
		}
	}
	if err := v.before(op, delta{}); err != nil {
		return nil, err
	}
	if err := v.enter(op); err != nil {
		return nil, err
	}
	defer v.sim.mu.Unlock()
	_, n, err := v.sim.disk.walk(name, false)
	switch {
	case err != nil:
	case n == nil && flag&os.O_CREATE == 0:
		err = syscall.ENOENT
	case n == nil:
		var do delta
		if do, err = v.sim.disk.planNode(name, perm.Perm(), ""); err == nil {
			op.Kind, do.kind = OpCreate, OpCreate
			v.sim.log(op, do)
			n = v.sim.disk.nodes[do.node]
		}
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		err = syscall.EEXIST
	case n.mode&fs.ModeSymlink != 0:
		err = ErrSymlink
	case !n.mode.IsRegular():
		err = ErrNotRegular
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	n.opens++
	return &simFile{view: v, node: n, name: name, writable: flag&os.O_RDWR != 0}, nil
}

func (n *simNode) info(name string) Info {
	info := Info{Name: name, Mode: n.mode, Links: uint64(n.links), ID: FileID{Dev: simDevice, Ino: n.id}}
	switch {
	case n.data != nil:
		info.Size = n.data.size
	case n.mode&fs.ModeSymlink != 0:
		info.Size = int64(len(n.target))
	}
	return info
}

// simFile is a handle. Its fields below the first line are guarded by Sim.mu.
type simFile struct {
	view
	node     *simNode
	name     string
	writable bool

	closed bool
}

// enter locks the Sim for a handle that is open.
func (f *simFile) enter(op Op) error {
	if err := f.view.enter(op); err != nil {
		return err
	}
	if f.closed {
		f.sim.mu.Unlock()
		return pathError(op.Kind.String(), f.name, fs.ErrClosed)
	}
	return nil
}

// look carries out an operation that changes nothing.
func (f *simFile) look(op Op, do func() error) error {
	if err := f.before(op, delta{}); err != nil {
		return err
	}
	if err := f.enter(op); err != nil {
		return err
	}
	defer f.sim.mu.Unlock()
	return do()
}

func (f *simFile) ReadAt(p []byte, off int64) (n int, err error) {
	op := Op{Kind: OpRead, Path: f.name, Off: off, Len: int64(len(p))}
	fault := f.before(op, delta{})
	var short *ShortRead
	if errors.As(fault, &short) {
		p = p[:max(0, min(short.N, len(p)))]
		if fault = short.Err; fault != io.EOF {
			fault = pathError("read", f.name, fault)
		}
	} else if fault != nil {
		return 0, fault
	}
	if err := f.enter(op); err != nil {
		return 0, err
	}
	defer f.sim.mu.Unlock()
	if off < 0 {
		return 0, pathError("read", f.name, syscall.EINVAL)
	}
	if n = f.node.data.readAt(p, off); n < len(p) && fault == nil {
		fault = io.EOF
	}
	return n, fault
}

func (f *simFile) WriteAt(p []byte, off int64) (int, error) {
	op := Op{Kind: OpWrite, Path: f.name, Off: off, Len: int64(len(p))}
	n, fault := len(p), f.before(op, delta{})
	if fault != nil {
		n, op.Err = shortened(fault, n)
		fault = pathError("write", f.name, op.Err)
		op.Len = int64(n)
	}
	if err := f.enter(op); err != nil {
		return 0, err
	}
	defer f.sim.mu.Unlock()
	switch {
	case off < 0:
		return 0, pathError("write", f.name, syscall.EINVAL)
	case !f.writable:
		return 0, pathError("write", f.name, syscall.EBADF)
	case n == 0 && fault == nil:
		return 0, nil
	}
	do := delta{}
	if n > 0 {
		do = delta{kind: OpWrite, node: f.node.id, off: off, data: slices.Clone(p[:n])}
	}
	f.sim.log(op, do)
	return n, fault
}

func (f *simFile) Truncate(size int64) error {
	op := Op{Kind: OpTruncate, Path: f.name, Len: size}
	if err := f.before(op, delta{}); err != nil {
		return err
	}
	if err := f.enter(op); err != nil {
		return err
	}
	defer f.sim.mu.Unlock()
	if size < 0 || !f.writable {
		return pathError("truncate", f.name, syscall.EINVAL)
	}
	f.sim.log(op, delta{kind: OpTruncate, node: f.node.id, size: size})
	return nil
}

func (f *simFile) Sync() error {
	op := Op{Kind: OpSync, Path: f.name}
	do := delta{kind: OpSync, node: f.node.id}
	if err := f.enter(op); err != nil {
		return err
	}
	f.sim.mu.Unlock()
	failing := do
	failing.failed = true
	if err := f.before(op, failing); err != nil {
		return err
	}
	if err := f.enter(op); err != nil {
		return err
	}
	defer f.sim.mu.Unlock()
	f.sim.log(op, do)
	return nil
}

func (f *simFile) Size() (size int64, err error) {
	err = f.look(Op{Kind: OpStat, Path: f.name}, func() error {
		size = f.node.data.size
		return nil
	})
	return size, err
}

func (f *simFile) ID() (id FileID, err error) {
	err = f.look(Op{Kind: OpStat, Path: f.name}, func() error {
		id = FileID{Dev: simDevice, Ino: f.node.id}
		return nil
	})
	return id, err
}

func (f *simFile) Close() error {
	op := Op{Kind: OpClose, Path: f.name}
	fault := f.before(op, delta{})
	if err := f.enter(op); err != nil {
		return err
	}
	defer f.sim.mu.Unlock()
	f.closed = true
	f.node.opens--
	return fault
}

// maxSymlinks is the most links that one path may lead through.
const maxSymlinks = 40

// walk follows name from the root. It returns the place name means and the node
// there, or nil if only the directory exists. A symbolic link in the last
// element is followed only if follow is set or a slash comes after it.
func (d *disk) walk(name string, follow bool) (place, *simNode, error) {
	if name == "" {
		return place{}, nil, syscall.ENOENT
	}
	todo := elements(name)
	trail := []*simNode{d.root}
	at, n, links := place{}, d.root, 0
	for len(todo) > 0 {
		element := todo[0]
		todo = todo[1:]
		switch {
		case n == nil:
			return place{}, nil, syscall.ENOENT
		case !n.mode.IsDir():
			return place{}, nil, syscall.ENOTDIR
		case element == ".":
			at = place{}
			continue
		case element == "..":
			trail = trail[:max(1, len(trail)-1)]
			n, at = trail[len(trail)-1], place{}
			continue
		}
		dir := n
		at, n = place{dir: dir.id, name: element}, dir.entries[element]
		if n == nil {
			continue
		}
		if n.mode&fs.ModeSymlink != 0 && (follow || len(todo) > 0) {
			if links++; links > maxSymlinks {
				return place{}, nil, syscall.ELOOP
			}
			if path.IsAbs(n.target) {
				trail = trail[:1]
			}
			todo = append(elements(n.target), todo...)
			at, n = place{}, trail[len(trail)-1]
			continue
		}
		if n.mode.IsDir() {
			trail = append(trail, n)
		}
	}
	return at, n, nil
}

// elements splits a path; a slash at the end counts as a last element ".".
func elements(name string) []string {
	var list []string
	for e := range strings.SplitSeq(name, "/") {
		if e != "" {
			list = append(list, e)
		}
	}
	if strings.HasSuffix(name, "/") {
		list = append(list, ".")
	}
	return list
}

// find returns the node that name means.
func (d *disk) find(name string, follow bool) (*simNode, error) {
	_, n, err := d.walk(name, follow)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	return n, err
}

// walkEntry returns the place of an entry that is to be changed, and what is
// there now.
func (d *disk) walkEntry(name string) (place, *simNode, error) {
	at, n, err := d.walk(strings.TrimRight(name, "/"), false)
	if err == nil && at == (place{}) {
		err = syscall.EINVAL // the root or a dot has no entry to change
	}
	return at, n, err
}

// entry returns an existing entry that is to be changed.
func (d *disk) entry(name string) (place, *simNode, error) {
	at, n, err := d.walkEntry(name)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	return at, n, err
}

// vacant returns the place of an entry that is to be made.
func (d *disk) vacant(name string) (place, error) {
	if n, err := d.find(name, false); err == nil && n.mode.IsDir() {
		return place{}, syscall.EEXIST // also for the root
	}
	at, n, err := d.walkEntry(name)
	if err == nil && n != nil {
		err = syscall.EEXIST
	}
	return at, err
}

// missing reports whether err says that there is nothing.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist)
}
