package hemera

import (
	"encoding/binary"
	"hash"
	"io"

	"github.com/writ-authority/writ/internal/goldilocks"
)

// BlockSize is how many bytes one permutation takes in, seven an element.
const BlockSize = 56

const bytesPerElement = BlockSize / rate

// The elements of the capacity that have a meaning.
const (
	placeCounter = 8  // of a leaf
	placeFlags   = 9  // of a leaf or node
	placeLength  = 10 // of the message, set before its last permutation
	placeMode    = 11
	placeLow     = 12 // bounds of a namespace
	placeHigh    = 13
)

// mode says what a message is hashed for.
type mode uint64

const (
	modePlain mode = iota
	modeKeyed
	modeContext
	modeMaterial
)

func newState(m mode) state { return state{placeMode: uint64(m)} }

// addBlock adds the BlockSize bytes of b to the elements that take input.
func (s *state) addBlock(b []byte) {
	_ = b[BlockSize-1]
	const mask = 1<<(8*bytesPerElement) - 1
	for i := range rate - 1 {
		s[i] = goldilocks.Add(s[i], binary.LittleEndian.Uint64(b[bytesPerElement*i:])&mask)
	}
	s[rate-1] = goldilocks.Add(s[rate-1], binary.LittleEndian.Uint64(b[BlockSize-8:])>>8)
}

// addLast adds the bytes that are left of a message, fewer than BlockSize, with their
// padding, and the length of all of it.
func (s *state) addLast(b []byte, length uint64) {
	var block [BlockSize]byte
	n := copy(block[:BlockSize-1], b)
	block[n] = 1
	s.addBlock(block[:])
	s[placeLength] = length
}

// absorb has the whole of a message pass, after what s has absorbed.
func (s *state) absorb(message []byte) {
	rest := message
	for ; len(rest) >= BlockSize; rest = rest[BlockSize:] {
		s.addBlock(rest)
		s.permute()
	}
	s.addLast(rest, uint64(len(message)))
	s.permute()
}

// digest reads the first four elements.
func (s *state) digest() Digest {
	return digestOf([4]uint64{goldilocks.Canonical(s[0]), goldilocks.Canonical(s[1]), goldilocks.Canonical(s[2]), goldilocks.Canonical(s[3])})
}

// setDigest puts the limbs of d, which must be canonical, into s from element i on.
func (s *state) setDigest(i int, d *Digest) {
	limbs := d.Limbs()
	copy(s[i:i+len(limbs)], limbs[:])
}

// Permute applies the permutation of 16 elements to s. What is no element is refused
// with ErrNotCanonical, and s stays as it was; otherwise all of s are elements.
func Permute(s *[16]uint64) error {
	for _, x := range s {
		if err := checkElement(x); err != nil {
			return err
		}
	}
	p := (*state)(s)
	p.permute()
	for i, x := range p {
		p[i] = goldilocks.Canonical(x)
	}
	return nil
}

// Sum returns the hash of data. It is the one hash of byte strings, at every length.
func Sum(data []byte) Digest {
	s := newState(modePlain)
	s.absorb(data)
	return s.digest()
}

// SumReader returns the hash of all that r gives, and how many bytes those were.
func SumReader(r io.Reader) (Digest, int64, error) {
	h := New()
	n, err := io.Copy(h, r)
	if err != nil {
		return Digest{}, n, err
	}
	return h.Digest(), n, nil
}

// SumKeyed returns the hash of data under a key. It counts as a function of both that
// shares nothing with Sum; see the package comment on secrets.
func SumKeyed(key *[32]byte, data []byte) Digest {
	h := NewKeyed(key)
	_, _ = h.Write(data)
	return h.Digest()
}

// DeriveKey returns a key for the purpose that context names, made from material. A
// context should be a fixed text that no other purpose has.
func DeriveKey(context string, material []byte) Digest {
	s := stateOfContext(context)
	s.absorb(material)
	return s.digest()
}

func stateOfContext(context string) state {
	c := newState(modeContext)
	c.absorb([]byte(context))
	s := newState(modeMaterial)
	for i := range 4 {
		s[i] = goldilocks.Canonical(c[i])
	}
	s.permute()
	return s
}

// Hasher hashes a message that is written to it in pieces. It is not safe for use by
// several goroutines at once.
type Hasher struct {
	start  state // before the first byte
	prefix []byte
	now    state
	length uint64
	rest   [BlockSize]byte
	n      int // of rest
}

var _ hash.Hash = (*Hasher)(nil)

// New returns a hasher whose result is that of Sum.
func New() *Hasher { return newHasher(newState(modePlain), nil) }

// NewKeyed returns a hasher whose result is that of SumKeyed. It keeps a copy of the key.
func NewKeyed(key *[32]byte) *Hasher {
	prefix := *key
	return newHasher(newState(modeKeyed), prefix[:])
}

// NewDeriveKey returns a hasher of the material, whose result is that of DeriveKey.
func NewDeriveKey(context string) *Hasher { return newHasher(stateOfContext(context), nil) }

func newHasher(start state, prefix []byte) *Hasher {
	h := &Hasher{start: start, prefix: prefix}
	h.Reset()
	return h
}

// Reset makes h as it was when it was made, with its key or context.
func (h *Hasher) Reset() {
	h.now, h.length, h.n = h.start, 0, 0
	_, _ = h.Write(h.prefix)
}

// Size returns the length of the digest.
func (h *Hasher) Size() int { return Size }

// BlockSize returns how many bytes are taken in at once.
func (h *Hasher) BlockSize() int { return BlockSize }

// Write adds b to the message. It never fails.
func (h *Hasher) Write(b []byte) (int, error) {
	written := len(b)
	h.length += uint64(written)
	if h.n > 0 {
		n := copy(h.rest[h.n:], b)
		h.n, b = h.n+n, b[n:]
		if h.n < BlockSize {
			return written, nil
		}
		h.now.addBlock(h.rest[:])
		h.now.permute()
		h.n = 0
	}
	for ; len(b) >= BlockSize; b = b[BlockSize:] {
		h.now.addBlock(b)
		h.now.permute()
	}
	h.n = copy(h.rest[:], b)
	return written, nil
}

// final returns the state after the whole message. h may go on.
func (h *Hasher) final() state {
	s := h.now
	s.addLast(h.rest[:h.n], h.length)
	s.permute()
	return s
}

// Digest returns the hash of what has been written. More may follow.
func (h *Hasher) Digest() Digest {
	s := h.final()
	return s.digest()
}

// Sum appends the hash of what has been written to b. More may follow.
func (h *Hasher) Sum(b []byte) []byte {
	d := h.Digest()
	return append(b, d[:]...)
}

// XOF returns the unlimited output for what has been written so far. Its first 32
// bytes are the digest.
func (h *Hasher) XOF() *XOF {
	s := h.final()
	return &XOF{now: s, block: s.digest()}
}

// XOF is an unlimited output. It is not safe for use by several goroutines at once.
type XOF struct {
	now   state
	block Digest
	used  int // of block
}

var _ io.Reader = (*XOF)(nil)

// Read fills b, going on where the last Read ended. It never fails.
func (x *XOF) Read(b []byte) (int, error) {
	length := len(b)
	for len(b) > 0 {
		if x.used == Size {
			x.now.permute()
			x.block, x.used = x.now.digest(), 0
		}
		n := copy(b, x.block[x.used:])
		x.used, b = x.used+n, b[n:]
	}
	return length, nil
}
