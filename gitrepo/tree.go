package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Manifest identifies the content of a tree without naming the tree object.
type Manifest struct {
	// Hash is SHA-256 over one line a file, `mode SP object-id TAB path LF`: the mode as six
	// octal digits, the path's raw bytes, sorted by path bytes. Submodules and symbolic links
	// are files here.
	Hash [32]byte

	Files      uint32 // entries, submodules included
	Bytes      uint64 // sum of the blobs' sizes; a submodule counts none
	Submodules int
}

// Manifest computes the manifest of a tree, or of a commit's tree. It streams: memory does not
// grow with the tree. A tree object whose entries are out of order is refused (ErrBadObject).
func (r *Repo) Manifest(ctx context.Context, treeish OID) (Manifest, error) {
	if err := r.checkOID(treeish); err != nil {
		return Manifest{}, err
	}
	m := Manifest{}
	h := sha256.New()
	sink := bufio.NewWriterSize(h, 32<<10)
	var previous []byte
	_, err := r.run(ctx, command{
		args: []string{"ls-tree", "-r", "-l", "-z", "--full-tree", string(treeish)},
		read: func(out *bufio.Reader) error {
			return eachListed(out, r.hexLen(), func(e listed) error {
				// Git orders a tree's entries as if directories ended in '/', which makes the
				// full paths of a recursive listing sorted by their bytes.
				if previous != nil && bytes.Compare(previous, e.path) >= 0 {
					return fmt.Errorf("%w: tree %s: %q does not come after %q; `git fsck` tells more", ErrBadObject, treeish, e.path, previous)
				}
				previous = append(previous[:0], e.path...)
				if m.Files == math.MaxUint32 {
					return fmt.Errorf("%w: tree %s has more than %d files", ErrTooLarge, treeish, uint32(math.MaxUint32))
				}
				m.Files++
				if e.submodule {
					m.Submodules++
				} else if m.Bytes+e.size < m.Bytes {
					return fmt.Errorf("%w: tree %s: sum of the file sizes", ErrTooLarge, treeish)
				}
				m.Bytes += e.size
				sink.Write(e.mode)
				sink.WriteByte(' ')
				sink.Write(e.id)
				sink.WriteByte('\t')
				sink.Write(e.path)
				sink.WriteByte('\n')
				return nil
			})
		},
	})
	if err != nil {
		return Manifest{}, missingObject(err)
	}
	sink.Flush()
	h.Sum(m.Hash[:0])
	return m, nil
}

// listed is one entry of `git ls-tree -r -l -z`; its slices live until the next entry.
type listed struct {
	mode, id, path []byte
	size           uint64
	submodule      bool
}

// pathLimit bounds one entry of a listing, in bytes.
const pathLimit = 1 << 20

// eachListed reads `git ls-tree -r -l -z`: "mode SP type SP id SP+ size TAB path NUL".
func eachListed(out *bufio.Reader, hexLen int, each func(listed) error) error {
	var long []byte
	for {
		record, err := out.ReadSlice(0)
		if err == io.EOF && len(record) == 0 {
			return nil
		}
		if err == bufio.ErrBufferFull {
			long = append(long[:0], record...)
			for err == bufio.ErrBufferFull && len(long) <= pathLimit {
				record, err = out.ReadSlice(0)
				long = append(long, record...)
			}
			record = long
		}
		if err != nil {
			return fmt.Errorf("%w: listing of a tree: %w", ErrBadObject, err)
		}
		e, ok := parseListed(record[:len(record)-1], hexLen)
		if !ok {
			return fmt.Errorf("%w: entry of a tree: %q", ErrBadObject, record)
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

func parseListed(record []byte, hexLen int) (e listed, ok bool) {
	head, path, ok := bytes.Cut(record, []byte{'\t'})
	if !ok || len(path) == 0 {
		return e, false
	}
	mode, head, ok := bytes.Cut(head, []byte{' '})
	if !ok || len(mode) != 6 {
		return e, false
	}
	kind, head, ok := bytes.Cut(head, []byte{' '})
	if !ok {
		return e, false
	}
	id, size, ok := bytes.Cut(head, []byte{' '})
	if !ok || len(id) != hexLen || !isHex(id) {
		return e, false
	}
	size = bytes.TrimLeft(size, " ")
	e = listed{mode: mode, id: id, path: path}
	switch string(kind) {
	case "blob":
		for _, c := range size {
			if c < '0' || c > '9' || e.size > math.MaxUint64/10-1 {
				return e, false // "BAD" stands where the blob is missing
			}
			e.size = e.size*10 + uint64(c-'0')
		}
		return e, len(size) > 0
	case "commit":
		e.submodule = true
		return e, string(size) == "-"
	}
	return e, false
}

// TreeEntry is one entry of a tree object.
type TreeEntry struct {
	Mode string // six octal digits: 040000 directory, 100644, 100755, 120000 link, 160000 submodule
	Name string // raw bytes
	ID   OID
}

// ListTop returns the entries at the top of a tree, or of a commit's tree, in Git's order.
func (r *Repo) ListTop(ctx context.Context, treeish OID) ([]TreeEntry, error) {
	if err := r.checkOID(treeish); err != nil {
		return nil, err
	}
	info, data, err := r.object(ctx, string(treeish)+"^{tree}", "tree", objectLimit)
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(data, r.hexLen()/2)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", info.id, err)
	}
	return entries, nil
}

// parseTree reads a tree object: "mode SP name NUL id", again and again, with the id in idLen
// raw bytes.
func parseTree(data []byte, idLen int) ([]TreeEntry, error) {
	var entries []TreeEntry
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		if !ok || len(rest) < idLen {
			return nil, fmt.Errorf("%w: entry %d is cut short", ErrBadObject, len(entries))
		}
		mode, name, ok := strings.Cut(string(head), " ")
		value, err := strconv.ParseUint(mode, 8, 32)
		if !ok || err != nil || value > 0o777777 || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%w: entry %d has the head %q", ErrBadObject, len(entries), head)
		}
		entries = append(entries, TreeEntry{
			Mode: fmt.Sprintf("%06o", value),
			Name: name,
			ID:   OID(hex.EncodeToString(rest[:idLen])),
		})
		data = rest[idLen:]
	}
	return entries, nil
}

// ReadFile returns the content of a regular file at path (raw bytes, slashes between names) in a
// tree or a commit's tree, and false when there is nothing at path. Symbolic links are not
// followed. Errors: ErrNotRegular, ErrTooLarge for more than maxBytes.
func (r *Repo) ReadFile(ctx context.Context, treeish OID, path string, maxBytes int64) ([]byte, bool, error) {
	id := treeish
	names := strings.Split(path, "/")
	for i, name := range names {
		entries, err := r.ListTop(ctx, id)
		if err != nil {
			return nil, false, err
		}
		var entry *TreeEntry
		for k := range entries {
			if entries[k].Name == name {
				entry = &entries[k]
				break
			}
		}
		if entry == nil {
			return nil, false, nil
		}
		id = entry.ID
		last := i == len(names)-1
		switch {
		case !last && entry.Mode == "040000":
		case !last:
			return nil, false, nil // something else lies where a directory would have to be
		case !strings.HasPrefix(entry.Mode, "100"):
			return nil, false, fmt.Errorf("%w: %q in %s has mode %s", ErrNotRegular, path, treeish, entry.Mode)
		}
	}
	_, data, err := r.object(ctx, string(id), "blob", maxBytes)
	if err != nil {
		return nil, false, fmt.Errorf("read %q in %s: %w", path, treeish, err)
	}
	return data, true, nil
}

// EmptyTree returns the id of the tree without entries. The object is written, so that a ref may
// name it.
func (r *Repo) EmptyTree(ctx context.Context) (OID, error) {
	r.emptyMu.Lock()
	defer r.emptyMu.Unlock()
	if r.emptyTree != "" {
		return r.emptyTree, nil
	}
	id, err := r.oidOutput(ctx, command{args: []string{"hash-object", "-t", "tree", "-w", "--stdin"}, stdin: strings.NewReader("")})
	if err != nil {
		return "", err
	}
	if err := r.syncLoose(id); err != nil {
		return "", err
	}
	r.emptyTree = id
	return id, nil
}
