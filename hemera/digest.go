package hemera

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/writ-authority/writ/internal/goldilocks"
)

// Size is the length of a digest in bytes.
const Size = 32

// Digest is what a hash results in: four limbs of eight bytes, lowest byte first, each
// of them an element of the field. Where it names data it is called a particle.
type Digest [Size]byte

// String returns 64 lower-case hexadecimal digits, in the order of the bytes.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads what String returns, and nothing else. It refuses with ErrEncoding
// what are not 64 lower-case hexadecimal digits, and with ErrNotCanonical what no hash
// can have resulted in.
func ParseDigest(text string) (Digest, error) {
	if len(text) != 2*Size {
		return Digest{}, fmt.Errorf("%w: a digest has %d hexadecimal digits, not %d characters", ErrEncoding, 2*Size, len(text))
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return Digest{}, fmt.Errorf("%w: character %d of a digest is %q, expected a lower-case hexadecimal digit", ErrEncoding, i+1, c)
		}
	}
	var d Digest
	if _, err := hex.Decode(d[:], []byte(text)); err != nil {
		return Digest{}, fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	if err := d.check(); err != nil {
		return Digest{}, err
	}
	return d, nil
}

// MarshalText returns what String does.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDigest does.
func (d *Digest) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDigest(string(text))
	return err
}

// Limbs returns the four limbs. Those of a digest that was hashed or parsed here are
// elements of the field.
func (d Digest) Limbs() [4]uint64 {
	var limbs [4]uint64
	for i := range limbs {
		limbs[i] = binary.LittleEndian.Uint64(d[8*i:])
	}
	return limbs
}

// FromLimbs returns the digest with these limbs, and ErrNotCanonical if one is no
// element.
func FromLimbs(limbs [4]uint64) (Digest, error) {
	d := digestOf(limbs)
	if err := d.check(); err != nil {
		return Digest{}, err
	}
	return d, nil
}

func digestOf(limbs [4]uint64) (d Digest) {
	for i, x := range limbs {
		binary.LittleEndian.PutUint64(d[8*i:], x)
	}
	return d
}

// check returns ErrNotCanonical if a limb is no element.
func (d *Digest) check() error {
	for i, x := range d.Limbs() {
		if x >= goldilocks.Prime {
			return fmt.Errorf("%w: limb %d of digest %s is %d, the largest is %d", ErrNotCanonical, i, d, x, goldilocks.Prime-1)
		}
	}
	return nil
}
