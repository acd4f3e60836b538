package record

import (
	"errors"
	"fmt"

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
	var (
		atoms, pairs       []int
		values             []uint64
		members            [][2]Particle
		atomNames, pairIDs []Particle
	)
	for i, it := range items {
		if err := it.Shape(); err != nil {
			return err
		}
		switch it.Kind {
		case KindAtom:
			atoms, values = append(atoms, i), append(values, le64(it.Bytes))
		case KindPair:
			left, right := it.Pair()
			pairs, members = append(pairs, i), append(members, [2]Particle{left, right})
		}
	}
	atomNames, pairIDs = make([]Particle, len(atoms)), make([]Particle, len(pairs))
	if hemera.AtomIDs(atomNames, values) == nil && hemera.PairIDs(pairIDs, members) == nil {
		same := true
		for k, i := range atoms {
			same = same && atomNames[k] == items[i].Particle
		}
		for k, i := range pairs {
			same = same && pairIDs[k] == items[i].Particle
		}
		if same {
			for _, it := range items {
				if it.Kind == KindBlob {
					if err := it.Check(); err != nil {
						return err
					}
				}
			}
			return nil
		}
	}
	for _, it := range items { // one of them is wrong: which?
		if err := it.Check(); err != nil {
			return err
		}
	}
	return nil
}
