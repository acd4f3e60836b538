package record

import (
	"errors"
	"fmt"
	"slices"

	"github.com/writ-authority/writ/hemera"
)

// Particle is the identity of content.
type Particle = hemera.Digest

// Kind says what the bytes of content are. Equal bytes of two kinds have two
// identities, so the kind is stored beside them.
type Kind uint8

// The kinds of content; their numbers are stored.
const (
	KindAtom Kind = 1 // 8 bytes, lowest first: an element of the field
	KindPair Kind = 2 // 64 bytes: the particles of two pieces of data
	KindBlob Kind = 3 // any bytes, at most MaxBlob
)

func (k Kind) String() string {
	switch k {
	case KindAtom:
		return "atom"
	case KindPair:
		return "pair"
	case KindBlob:
		return "blob"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// The bounds of content (section 3).
const (
	MaxBlob  = 8 << 20
	MaxText  = 4096    // bytes
	MaxItems = 131_072 // of one batch
)

// Item is a piece of content under its name.
type Item struct {
	Particle Particle
	Kind     Kind
	Bytes    []byte
}

// Check makes sure that the bytes are what the particle names. The error wraps
// ErrCorrupt, or ErrLimit for a blob that is too long.
func (it Item) Check() error {
	if err := it.Shape(); err != nil {
		return err
	}
	var err error
	if it.Kind == KindBlob {
		err = hemera.CheckBlob(it.Particle, it.Bytes)
	} else {
		err = hemera.CheckData(it.Particle, it.Bytes)
	}
	return it.corrupt(err)
}

// Shape makes sure that the length is that of the kind. The errors are those of
// Check.
func (it Item) Shape() error {
	want := -1
	switch it.Kind {
	case KindAtom:
		want = hemera.AtomSize
	case KindPair:
		want = hemera.PairSize
	case KindBlob:
		if len(it.Bytes) > MaxBlob {
			return fmt.Errorf("%w: blob %v has %d bytes, at most %d are allowed", ErrLimit, it.Particle, len(it.Bytes), MaxBlob)
		}
		return nil
	default:
		return fmt.Errorf("%w: %v is of unknown %v", ErrCorrupt, it.Particle, it.Kind)
	}
	if len(it.Bytes) != want {
		return fmt.Errorf("%w: %v %v has %d bytes instead of %d", ErrCorrupt, it.Kind, it.Particle, len(it.Bytes), want)
	}
	return nil
}

func (it Item) corrupt(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, hemera.ErrMismatch):
		return fmt.Errorf("%w: the bytes of the %v %v have another identity", ErrCorrupt, it.Kind, it.Particle)
	}
	return fmt.Errorf("%w: %v %v: %w", ErrCorrupt, it.Kind, it.Particle, err)
}

// Pair returns the members of a pair.
func (it Item) Pair() (left, right Particle) {
	copy(left[:], it.Bytes)
	copy(right[:], it.Bytes[hemera.Size:])
	return left, right
}

// CheckAll checks many items, which takes half the time for each, or less. The
// error is that of Check for the first one that fails.
func CheckAll(items []Item) error {
	// What is gathered of each kind: its names and what they must be the names of.
	var (
		names   [KindBlob + 1][]Particle
		values  []uint64
		members [][2]Particle
		blobs   [][]byte
	)
	for _, it := range items {
		if it.Shape() != nil {
			return firstWrong(items)
		}
		names[it.Kind] = append(names[it.Kind], it.Particle)
		switch it.Kind {
		case KindAtom:
			values = append(values, le64(it.Bytes))
		case KindPair:
			left, right := it.Pair()
			members = append(members, [2]Particle{left, right})
		case KindBlob:
			blobs = append(blobs, it.Bytes)
		}
	}
	ids := make([]Particle, max(len(values), len(members), len(blobs)))
	if hemera.AtomIDs(ids[:len(values)], values) != nil || !slices.Equal(ids[:len(values)], names[KindAtom]) {
		return firstWrong(items)
	}
	if hemera.PairIDs(ids[:len(members)], members) != nil || !slices.Equal(ids[:len(members)], names[KindPair]) {
		return firstWrong(items)
	}
	hemera.SumAll(ids[:len(blobs)], blobs)
	if !slices.Equal(ids[:len(blobs)], names[KindBlob]) {
		return firstWrong(items)
	}
	return nil
}

// firstWrong finds the item that is wrong among some of which one is.
func firstWrong(items []Item) error {
	for _, it := range items {
		if err := it.Check(); err != nil {
			return err
		}
	}
	return nil
}
