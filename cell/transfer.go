package cell

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/hemera"
)

// Adopter is a Store that can take a cell with its history.
type Adopter interface {
	Store

	// Put stores content that nothing refers to yet. It verifies each item, and returns
	// when they are durable.
	Put(ctx context.Context, items []record.Item) error

	// Adopt makes a cell with its whole history at once, all of it or nothing. The
	// error wraps ErrConflict for a cell that exists and for a request that is bound to
	// another event, and ErrMissing for a commit that is not stored.
	Adopt(ctx context.Context, a *Adoption) error
}

// Adoption is the history of a cell that a store is to take.
type Adoption struct {
	Cell    Particle
	Commits []Adopted // from the birth on
}

// Adopted is one commit of an Adoption.
type Adopted struct {
	Commit  Particle
	Request Particle
	Event   Particle // to which the request is bound; zero for the birth
}

// The form of an exported cell: the magic, then frames of a letter, the length of
// what follows as an unsigned varint, and that.
const (
	exportMagic = "writ cell export 1\n"

	frameCell   = 'C' // the particle of the cell
	frameCommit = 'H' // commit, request and event, from the birth on
	frameItem   = 'I' // particle, kind and bytes; members before their pairs
	frameEnd    = 'E' // how many commits and items there were, each 8 bytes, lowest first

	maxFrame  = record.MaxBlob + hemera.Size + 1
	putAtOnce = 4 << 20 // bytes of content
)

// Export writes a cell with its history and all that it refers to as one file (the
// commits are those of its head at the beginning). It returns how many commits and
// items that are.
func (e *Engine) Export(ctx context.Context, cell Particle, to io.Writer) (commits, items uint64, err error) {
	out := bufio.NewWriterSize(to, 1<<16)
	if _, err := out.WriteString(exportMagic); err != nil {
		return 0, 0, err
	}
	head, err := e.store.Head(ctx, cell)
	if err != nil {
		return 0, 0, err
	}
	if err := frame(out, frameCell, cell[:]); err != nil {
		return 0, 0, err
	}
	w := e.walk(ctx)
	w.follow = func(p Particle) bool { return p != w.parent }
	w.visit = func(it record.Item) error {
		items++
		return frame(out, frameItem, it.Particle[:], []byte{byte(it.Kind)}, it.Bytes)
	}
	problem := w.history(cell, head, func(a Adopted) error {
		commits++
		return frame(out, frameCommit, a.Commit[:], a.Request[:], a.Event[:])
	})
	if problem != nil {
		return 0, 0, problem
	}
	end := binary.LittleEndian.AppendUint64(nil, commits)
	if err := frame(out, frameEnd, binary.LittleEndian.AppendUint64(end, items)); err != nil {
		return 0, 0, err
	}
	return commits, items, out.Flush()
}

func frame(out *bufio.Writer, letter byte, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	_ = out.WriteByte(letter) // a Writer keeps its first error
	_, err := out.Write(binary.AppendUvarint(nil, uint64(n)))
	for _, p := range parts {
		if err != nil {
			break
		}
		_, err = out.Write(p)
	}
	return err
}

// ErrExport is returned for a file that is no export of a cell, or not a whole one.
var ErrExport = errors.New("not an exported cell")

// Import takes a cell out of what Export has written. Every hash and the whole chain of
// commits are checked before the cell exists; a cell that exists already is never
// touched (ErrConflict). What was stored of a refused import is collected later.
func (e *Engine) Import(ctx context.Context, from io.Reader) (Particle, Head, error) {
	store, ok := e.store.(Adopter)
	if !ok {
		return Particle{}, Head{}, fmt.Errorf("%w: the store can't take cells", ErrUnsupported)
	}
	a, err := readExport(ctx, from, store)
	if err != nil {
		return Particle{}, Head{}, err
	}
	head := Head{uint64(len(a.Commits) - 1), a.Commits[len(a.Commits)-1].Commit}
	w := e.walk(ctx)
	w.follow = func(p Particle) bool { return p != w.parent }
	w.heads = func(_ Particle, from uint64, limit int) ([]Head, error) {
		var heads []Head
		for i := from; i < uint64(len(a.Commits)) && len(heads) < limit; i++ {
			heads = append(heads, Head{i, a.Commits[i].Commit})
		}
		return heads, nil
	}
	w.requests = func(_ Particle, request Particle, at Head) error {
		if a.Commits[at.Index].Request != request {
			return fmt.Errorf("%w: the request of commit %d is another one", ErrInvalid, at.Index)
		}
		return nil
	}
	i := 0
	if err := w.history(a.Cell, head, func(commit Adopted) error {
		if commit != a.Commits[i] {
			return fmt.Errorf("%w: the event of commit %d is another one", ErrInvalid, i)
		}
		i++
		return nil
	}); err != nil {
		return Particle{}, Head{}, err
	}
	at := e.take(a.Cell)
	defer e.release(at)
	at.state = nil
	if err := store.Adopt(ctx, a); err != nil {
		return Particle{}, Head{}, err
	}
	at.state, err = e.load(ctx, a.Cell)
	return a.Cell, head, err
}

// readExport stores the content of an exported cell and returns its history.
func readExport(ctx context.Context, from io.Reader, store Adopter) (*Adoption, error) {
	in := bufio.NewReaderSize(from, 1<<16)
	magic := make([]byte, len(exportMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != exportMagic {
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrExport, exportMagic)
	}
	a := &Adoption{}
	var items []record.Item
	var waiting, count, commits uint64
	put := func() error {
		if err := store.Put(ctx, items); err != nil {
			return err
		}
		items, waiting = nil, 0
		return nil
	}
	for n := 0; ; n++ {
		letter, body, err := readFrame(in)
		if err != nil {
			return nil, fmt.Errorf("frame %d: %w", n, err)
		}
		if (letter == frameCell) != (n == 0) {
			return nil, fmt.Errorf("%w: frame %d is a %q, expected the cell once and first", ErrExport, n, letter)
		}
		want := -1
		switch letter {
		case frameCell:
			want = hemera.Size
		case frameCommit:
			want = 3 * hemera.Size
		case frameEnd:
			want = 16
		case frameItem:
			if len(body) <= hemera.Size {
				want = hemera.Size + 1 + hemera.AtomSize
			}
		default:
			return nil, fmt.Errorf("%w: frame %d is an unknown %q", ErrExport, n, letter)
		}
		if want >= 0 && len(body) != want {
			return nil, fmt.Errorf("%w: frame %d, a %q, has %d bytes, expected %d", ErrExport, n, letter, len(body), want)
		}
		switch letter {
		case frameCell:
			copy(a.Cell[:], body)
			if _, err := store.Head(ctx, a.Cell); err == nil {
				return nil, fmt.Errorf("%w: the cell %v exists here", ErrConflict, a.Cell)
			} else if !errors.Is(err, ErrMissing) {
				return nil, err
			}
		case frameCommit:
			var c Adopted
			copy(c.Commit[:], body)
			copy(c.Request[:], body[hemera.Size:])
			copy(c.Event[:], body[2*hemera.Size:])
			a.Commits = append(a.Commits, c)
			commits++
		case frameItem:
			it := record.Item{Kind: record.Kind(body[hemera.Size]), Bytes: body[hemera.Size+1:]}
			copy(it.Particle[:], body)
			items = append(items, it)
			count++
			if waiting += uint64(len(it.Bytes)); waiting > putAtOnce || len(items) >= record.MaxItems {
				if err := put(); err != nil {
					return nil, err
				}
			}
		case frameEnd:
			if c, i := binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:]); c != commits || i != count {
				return nil, fmt.Errorf("%w: it has %d commits and %d items, and says %d and %d", ErrExport, commits, count, c, i)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				return nil, fmt.Errorf("%w: something follows the end", ErrExport)
			}
			if commits == 0 || a.Commits[0].Commit != a.Cell {
				return nil, fmt.Errorf("%w: its history does not begin with the birth of the cell", ErrExport)
			}
			return a, put()
		}
	}
}

func readFrame(in *bufio.Reader) (letter byte, body []byte, err error) {
	if letter, err = in.ReadByte(); err != nil {
		return 0, nil, cutShort(err)
	}
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return 0, nil, cutShort(err)
	}
	if n > maxFrame {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes, at most %d are allowed", ErrExport, n, maxFrame)
	}
	// What is claimed is not believed before it has arrived.
	body, err = io.ReadAll(io.LimitReader(in, int64(n)))
	if err == nil && uint64(len(body)) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, nil, cutShort(err)
	}
	return letter, body, nil
}

func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrExport)
	}
	return err
}
