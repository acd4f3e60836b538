package hemera

import (
	"fmt"

	"github.com/writ-authority/writ/internal/goldilocks"
)

// What placeFlags says of a leaf or node.
const (
	flagRoot  = 1
	flagNode  = 2
	flagChunk = 4
)

// ChunkSize is the length of what a leaf of Tree covers, in bytes.
const ChunkSize = 4096

func flags(kind uint64, root bool) uint64 {
	if root {
		kind |= flagRoot
	}
	return kind
}

func checkElement(x uint64) error {
	if x >= goldilocks.Prime {
		return fmt.Errorf("%w: %d, the largest is %d", ErrNotCanonical, x, goldilocks.Prime-1)
	}
	return nil
}

// Leaf returns the value of a leaf: the chunk with the number counter, and whether it
// is the whole tree. A counter that is no element is refused with ErrNotCanonical.
func Leaf(chunk []byte, counter uint64, root bool) (Digest, error) {
	if err := checkElement(counter); err != nil {
		return Digest{}, fmt.Errorf("counter of a leaf: %w", err)
	}
	d := Sum(chunk)
	s := leafState(&d, counter, root)
	s.permute()
	return s.digest(), nil
}

func leafState(chunk *Digest, counter uint64, root bool) state {
	s := state{placeCounter: counter, placeFlags: flags(flagChunk, root)}
	s.setDigest(0, chunk)
	return s
}

// Node returns the value of a node above two others. A limb of theirs that is no
// element is refused with ErrNotCanonical.
func Node(left, right Digest, root bool) (Digest, error) {
	return NodeInNamespace(left, right, root, 0, 0)
}

// NodeInNamespace returns the value of a node that covers the names from low to high,
// both of which must be elements. With two zeros it is Node.
func NodeInNamespace(left, right Digest, root bool, low, high uint64) (Digest, error) {
	if err := checkPair(&left, &right); err != nil {
		return Digest{}, err
	}
	for _, bound := range []uint64{low, high} {
		if err := checkElement(bound); err != nil {
			return Digest{}, fmt.Errorf("bound of a namespace: %w", err)
		}
	}
	s := nodeState(&left, &right, root)
	s[placeLow], s[placeHigh] = low, high
	s.permute()
	return s.digest(), nil
}

// checkPair refuses members of a node that no hash has resulted in.
func checkPair(left, right *Digest) error {
	if err := left.check(); err != nil {
		return fmt.Errorf("left member: %w", err)
	}
	if err := right.check(); err != nil {
		return fmt.Errorf("right member: %w", err)
	}
	return nil
}

func nodeState(left, right *Digest, root bool) state {
	s := state{placeFlags: flags(flagNode, root)}
	s.setDigest(0, left)
	s.setDigest(4, right)
	return s
}

// Tree returns the root of the tree over the chunks of data, of ChunkSize bytes each
// but for the last; no data is one empty chunk. It allows proofs of parts and is no
// identity: Sum is.
func Tree(data []byte) Digest {
	var chunks [][]byte
	for ; len(data) > ChunkSize; data = data[ChunkSize:] {
		chunks = append(chunks, data[:ChunkSize])
	}
	chunks = append(chunks, data)
	values := make([]Digest, len(chunks))
	sumAll(values, chunks)
	permuteEach(values, func(i int) state {
		return leafState(&values[i], uint64(i), len(values) == 1)
	})
	// The left part of a range has the largest power of two below its length, which is
	// what pairing neighbours gives when one without a neighbour moves up as it is.
	for len(values) > 1 {
		pairs := len(values) / 2
		permuteEach(values[:pairs], func(i int) state {
			return nodeState(&values[2*i], &values[2*i+1], len(values) == 2)
		})
		if len(values)%2 == 1 {
			values[pairs] = values[len(values)-1]
			pairs++
		}
		values = values[:pairs]
	}
	return values[0]
}

// permuteEach sets dst[i] to the digest after the permutation of from(i), many at
// once. from(i) is called in order, before any dst[j] with j of i's group of lanes or a
// later one is set.
func permuteEach(dst []Digest, from func(i int) state) {
	var states [lanes]state
	for begin := 0; begin < len(dst); begin += lanes {
		group := dst[begin:min(begin+lanes, len(dst))]
		for i := range group {
			states[i] = from(begin + i)
		}
		permuteAll(states[:len(group)])
		for i := range group {
			group[i] = states[i].digest()
		}
	}
}

// SumAll sets dst[i] to the Sum of messages[i], many at once. It panics if the lengths
// differ.
func SumAll(dst []Digest, messages [][]byte) {
	if len(dst) != len(messages) {
		panic("hemera: SumAll needs as many results as messages")
	}
	sumAll(dst, messages)
}

func sumAll(dst []Digest, messages [][]byte) {
	var states [lanes]state
	var of [lanes]int // the message of each lane, of which offset bytes are absorbed
	var offset [lanes]int
	busy, next := 0, 0
	for {
		for ; busy < lanes && next < len(messages); busy, next = busy+1, next+1 {
			states[busy], of[busy], offset[busy] = newState(modePlain), next, 0
		}
		if busy == 0 {
			return
		}
		for i := range busy {
			message := messages[of[i]]
			if rest := message[offset[i]:]; len(rest) >= BlockSize {
				states[i].addBlock(rest)
			} else {
				states[i].addLast(rest, uint64(len(message)))
			}
			offset[i] += BlockSize
		}
		permuteAll(states[:busy])
		// The last lane takes the place of one that has ended.
		for i := busy - 1; i >= 0; i-- {
			if offset[i] <= len(messages[of[i]]) {
				continue
			}
			dst[of[i]] = states[i].digest()
			busy--
			states[i], of[i], offset[i] = states[busy], of[busy], offset[busy]
		}
	}
}
