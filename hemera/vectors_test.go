package hemera

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/writ-authority/writ/internal/goldilocks"
)

// element is 16 hexadecimal digits.
type element uint64

func (e *element) UnmarshalText(text []byte) error {
	x, err := strconv.ParseUint(string(text), 16, 64)
	*e = element(x)
	return err
}

type elements []element

func (es elements) state() (s state) {
	for i, e := range es {
		s[i] = uint64(e)
	}
	return s
}

// octets are hexadecimal.
type octets []byte

func (o *octets) UnmarshalText(text []byte) (err error) {
	*o, err = hex.DecodeString(string(text))
	return err
}

// input is how a vector describes bytes.
type input struct {
	Mod251 *int
	Fill   []int
	UTF8   *string
	Hex    *octets
}

func (in input) bytes(t *testing.T) []byte {
	t.Helper()
	switch {
	case in.Mod251 != nil:
		b := make([]byte, *in.Mod251)
		for i := range b {
			b[i] = byte(i % 251)
		}
		return b
	case len(in.Fill) == 2:
		return bytes.Repeat([]byte{byte(in.Fill[0])}, in.Fill[1])
	case in.UTF8 != nil:
		return []byte(*in.UTF8)
	case in.Hex != nil:
		return *in.Hex
	}
	t.Fatal("a vector has no input")
	return nil
}

type vectors struct {
	RoundConstants struct {
		Hemera  Digest `json:"hemera_of_all_144_le"`
		SHA256  octets `json:"sha256_of_all_144_le"`
		Full    []elements
		Partial elements
	} `json:"round_constants"`
	Diagonal  elements `json:"internal_diagonal"`
	Bootstrap struct {
		Before elements `json:"state_before_first_permutation"`
		After  elements `json:"state_after_first_permutation"`
	}
	Field []struct {
		ID, Op    string
		A, B, Out element
	}
	Permutation []struct {
		ID      string
		In, Out elements
	}
	Iterated struct {
		Times int
		Out   elements
	} `json:"permutation_iterated"`
	Trace struct {
		In     elements
		States []elements
	} `json:"permutation_trace"`
	Hash []struct {
		ID    string
		Input input
		Out   Digest
	}
	HashIterated struct {
		Times int
		Out   Digest
	} `json:"hash_iterated"`
	Keyed []struct {
		ID    string
		Key   octets
		Input input
		Out   Digest
	}
	DeriveKey []struct {
		ID, Context string
		Material    input
		Out         Digest
	} `json:"derive_key"`
	XOF []struct {
		ID     string
		Input  input
		Length int
		Out    octets
	}
	Leaf []struct {
		ID      string
		Input   input
		Counter uint64 `json:",string"`
		Root    bool
		Out     Digest
	}
	Node []struct {
		ID          string
		Left, Right Digest
		Low         uint64 `json:"ns_min,string"`
		High        uint64 `json:"ns_max,string"`
		Root        bool
		Out         Digest
	}
	Tree []struct {
		ID    string
		Input input
		Out   Digest
	} `json:"fixed_tree"`
	Atom []struct {
		ID    string
		Value uint64 `json:",string"`
		Bytes octets
		Out   Digest
	}
	Data []struct {
		ID, Gen string
		N       int
		Expr    any
		Out     Digest
	}
	PairBytes []struct {
		ID    string
		Bytes octets
		Out   Digest
	} `json:"pair_bytes"`
	Reject []struct {
		ID, Reason string
		Bytes      octets
	}
}

var known = sync.OnceValues(func() (*vectors, error) {
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		return nil, err
	}
	v := &vectors{}
	return v, json.Unmarshal(text, v)
})

func readVectors(t *testing.T) *vectors {
	t.Helper()
	v, err := known()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVectorsAreComplete guards against a file that was read but not understood.
func TestVectorsAreComplete(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	listed := len(v.Field) + len(v.Permutation) + len(v.Hash) + len(v.Keyed) + len(v.DeriveKey) + len(v.XOF) +
		len(v.Leaf) + len(v.Node) + len(v.Tree) + len(v.Atom) + len(v.Data) + len(v.PairBytes) + len(v.Reject)
	if want := 340; listed != want {
		t.Errorf("%d vectors are listed, want %d", listed, want)
	}
}

func TestConstants(t *testing.T) {
	t.Parallel()
	v := readVectors(t).RoundConstants
	var all []byte
	for r, row := range fullConstants {
		if row != v.Full[r].state() {
			t.Errorf("full round %d: constants differ", r)
		}
		for _, c := range row {
			all = binary.LittleEndian.AppendUint64(all, c)
		}
	}
	if partialConstants != v.Partial.state() {
		t.Error("partial rounds: constants differ")
	}
	for _, c := range partialConstants {
		all = binary.LittleEndian.AppendUint64(all, c)
	}
	if diagonal != readVectors(t).Diagonal.state() {
		t.Error("the diagonal differs")
	}
	if sum := sha256.Sum256(all); !bytes.Equal(sum[:], v.SHA256) {
		t.Errorf("SHA-256 of the constants is %x, want %x", sum, v.SHA256)
	}
	if got := Sum(all); got != v.Hemera {
		t.Errorf("hash of the constants is %s, want %s", got, v.Hemera)
	}
}

// TestConstantsDerived makes the constants from the seed "cyber" and the permutation
// without constants.
func TestConstantsDerived(t *testing.T) {
	t.Parallel()
	v := readVectors(t).Bootstrap
	var s state
	s.addLast([]byte("cyber"), 5)
	if s != v.Before.state() {
		t.Fatalf("state before the first permutation is %x", s)
	}
	var derived []uint64
	for len(derived) < fullRounds*width+partialRounds {
		trace := referencePermute(s, [fullRounds][width]uint64{}, [partialRounds]uint64{})
		s = trace[len(trace)-1]
		if len(derived) == 0 && s != v.After.state() {
			t.Fatalf("state after the first permutation is %x", s)
		}
		derived = append(derived, s[:rate]...)
	}
	for r, row := range fullConstants {
		for i, c := range row {
			if want := derived[r*width+i]; c != want {
				t.Errorf("full round %d, element %d: %x, derived %x", r, i, c, want)
			}
		}
	}
	for r, c := range partialConstants {
		if want := derived[fullRounds*width+r]; c != want {
			t.Errorf("partial round %d: %x, derived %x", r, c, want)
		}
	}
}

func TestFieldVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Field {
		a, b := uint64(v.A), uint64(v.B)
		var got uint64
		switch v.Op {
		case "pow7":
			s := state{a}
			s.substitute()
			got = s[0]
		case "inv":
			got = goldilocks.Invert(a)
		case "mul":
			got = goldilocks.Mul(a, b)
		case "add":
			got = goldilocks.Add(a, b)
			if loose := goldilocks.Canonical(goldilocks.AddLoose(a, b)); loose != uint64(v.Out) {
				t.Errorf("%s: loosely it is %x, want %x", v.ID, loose, v.Out)
			}
		case "sub":
			got = goldilocks.Add(goldilocks.Mul(b, goldilocks.Prime-1), goldilocks.Canonical(a))
		default:
			t.Errorf("%s: unknown operation %q", v.ID, v.Op)
			continue
		}
		if goldilocks.Canonical(got) != uint64(v.Out) {
			t.Errorf("%s: %x, want %x", v.ID, goldilocks.Canonical(got), v.Out)
		}
	}
}

func TestPermutationVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	all := make([]state, len(v.Permutation))
	for i, p := range v.Permutation {
		s := [16]uint64(p.In.state())
		if err := Permute(&s); err != nil || s != p.Out.state() {
			t.Errorf("%s: %x, %v, want %x", p.ID, s, err, p.Out)
		}
		all[i] = p.In.state()
	}
	permuteAll(all)
	for i, p := range v.Permutation {
		if all[i].canonical() != p.Out.state() {
			t.Errorf("%s in a batch: %x, want %x", p.ID, all[i].canonical(), p.Out)
		}
	}
	trace := referencePermute(v.Trace.In.state(), fullConstants, partialConstants)
	for i, want := range v.Trace.States {
		if trace[i] != want.state() {
			t.Errorf("trace: state %d of the reference is %x, want %x", i, trace[i], want)
		}
	}
	var s state
	for range v.Iterated.Times {
		s.permute()
	}
	if s.canonical() != v.Iterated.Out.state() {
		t.Errorf("after %d permutations: %x, want %x", v.Iterated.Times, s.canonical(), v.Iterated.Out)
	}
}

func TestHashVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	var messages [][]byte
	for _, h := range v.Hash {
		message := h.Input.bytes(t)
		if len(message) > 1<<20 && testing.Short() {
			continue
		}
		if got := Sum(message); got != h.Out {
			t.Errorf("%s: %s, want %s", h.ID, got, h.Out)
		}
		if len(message) <= 1<<16 {
			messages = append(messages, message)
		}
	}
	sums := make([]Digest, len(messages))
	SumAll(sums, messages)
	for i, message := range messages {
		if want := Sum(message); sums[i] != want {
			t.Errorf("%d bytes among others: %s, want %s", len(message), sums[i], want)
		}
	}
	h := Sum(nil)
	for range v.HashIterated.Times {
		h = Sum(h[:])
	}
	if h != v.HashIterated.Out {
		t.Errorf("after %d hashes: %s, want %s", v.HashIterated.Times, h, v.HashIterated.Out)
	}
}

func TestKeyedVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Keyed {
		if got := SumKeyed((*[32]byte)(v.Key), v.Input.bytes(t)); got != v.Out {
			t.Errorf("%s: %s, want %s", v.ID, got, v.Out)
		}
	}
}

func TestDeriveKeyVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).DeriveKey {
		material := v.Material.bytes(t)
		if got := DeriveKey(v.Context, material); got != v.Out {
			t.Errorf("%s: %s, want %s", v.ID, got, v.Out)
		}
		h := NewDeriveKey(v.Context)
		for _, b := range material {
			_, _ = h.Write([]byte{b})
		}
		if got := h.Digest(); got != v.Out {
			t.Errorf("%s byte by byte: %s, want %s", v.ID, got, v.Out)
		}
	}
}

func TestXOFVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).XOF {
		for _, piece := range []int{1, 7, 32, 33, v.Length} {
			h := New()
			_, _ = h.Write(v.Input.bytes(t))
			x, got := h.XOF(), make([]byte, v.Length)
			for rest := got; len(rest) > 0; {
				n, err := io.ReadFull(x, rest[:min(piece, len(rest))])
				if err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if !bytes.Equal(got, v.Out) {
				t.Errorf("%s in pieces of %d: %x, want %x", v.ID, piece, got, v.Out)
			}
		}
	}
}

func TestTreeVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	for _, l := range v.Leaf {
		if got, err := Leaf(l.Input.bytes(t), l.Counter, l.Root); err != nil || got != l.Out {
			t.Errorf("%s: %s, %v, want %s", l.ID, got, err, l.Out)
		}
	}
	for _, n := range v.Node {
		if got, err := NodeInNamespace(n.Left, n.Right, n.Root, n.Low, n.High); err != nil || got != n.Out {
			t.Errorf("%s: %s, %v, want %s", n.ID, got, err, n.Out)
		}
		if n.High != 0 {
			continue
		}
		if got, err := Node(n.Left, n.Right, n.Root); err != nil || got != n.Out {
			t.Errorf("%s: %s, %v, want %s", n.ID, got, err, n.Out)
		}
	}
	for _, f := range v.Tree {
		if got := Tree(f.Input.bytes(t)); got != f.Out {
			t.Errorf("%s: %s, want %s", f.ID, got, f.Out)
		}
	}
}

func TestAtomVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	var values []uint64
	for _, a := range v.Atom {
		if got, err := AtomID(a.Value); err != nil || got != a.Out {
			t.Errorf("%s: %s, %v, want %s", a.ID, got, err, a.Out)
		}
		if err := CheckData(a.Out, a.Bytes); err != nil {
			t.Errorf("%s: %v", a.ID, err)
		}
		if got, err := Leaf(a.Bytes, 0, false); err != nil || got != a.Out {
			t.Errorf("%s as a leaf: %s, %v, want %s", a.ID, got, err, a.Out)
		}
		values = append(values, a.Value)
	}
	ids := make([]Digest, len(values))
	if err := AtomIDs(ids, values); err != nil {
		t.Fatal(err)
	}
	for i, a := range v.Atom {
		if ids[i] != a.Out {
			t.Errorf("%s among others: %s, want %s", a.ID, ids[i], a.Out)
		}
	}
}

func atom(t *testing.T, v uint64) Digest {
	t.Helper()
	id, err := AtomID(v)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func pair(t *testing.T, a, b Digest) Digest {
	t.Helper()
	id, err := PairID(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// expression is a number in decimal, or an array of two expressions.
func expression(t *testing.T, e any) Digest {
	t.Helper()
	switch e := e.(type) {
	case string:
		v, err := strconv.ParseUint(e, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return atom(t, v)
	case []any:
		return pair(t, expression(t, e[0]), expression(t, e[1]))
	}
	t.Fatalf("%v is no expression", e)
	return Digest{}
}

func splitmix(n int) []uint64 {
	s, values := uint64(1), make([]uint64, n)
	for i := range values {
		s += 0x9e3779b97f4a7c15
		z := s
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		values[i] = (z ^ z>>31) % goldilocks.Prime
	}
	return values
}

// generated is the data that a vector describes by a rule.
func generated(t *testing.T, rule string, n int) Digest {
	t.Helper()
	x := atom(t, 0)
	switch rule {
	case "right-chain":
		for i := range n {
			x = pair(t, atom(t, uint64(i+1)), x)
		}
	case "left-chain":
		for i := range n {
			x = pair(t, x, atom(t, uint64(i+1)))
		}
	case "self-pair":
		for range n {
			x = pair(t, x, x)
		}
	case "balanced":
		values := make([]uint64, 1<<n)
		for i := range values {
			values[i] = uint64(i)
		}
		ids := make([]Digest, len(values))
		if err := AtomIDs(ids, values); err != nil {
			t.Fatal(err)
		}
		for len(ids) > 1 {
			pairs := make([][2]Digest, len(ids)/2)
			for i := range pairs {
				pairs[i] = [2]Digest{ids[2*i], ids[2*i+1]}
			}
			ids = ids[:len(pairs)]
			if err := PairIDs(ids, pairs); err != nil {
				t.Fatal(err)
			}
		}
		x = ids[0]
	case "list":
		for i := n - 1; i >= 0; i-- {
			x = pair(t, atom(t, uint64(i)), x)
		}
	case "splitmix-list":
		values := splitmix(n)
		for i := n - 1; i >= 0; i-- {
			x = pair(t, atom(t, values[i]), x)
		}
	default:
		t.Fatalf("unknown rule %q", rule)
	}
	return x
}

func TestDataVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	for _, d := range v.Data {
		var got Digest
		if d.Gen != "" {
			got = generated(t, d.Gen, d.N)
		} else {
			got = expression(t, d.Expr)
		}
		if got != d.Out {
			t.Errorf("%s: %s, want %s", d.ID, got, d.Out)
		}
	}
	for _, p := range v.PairBytes {
		if got, err := DataID(p.Bytes); err != nil || got != p.Out {
			t.Errorf("%s: %s, %v, want %s", p.ID, got, err, p.Out)
		}
	}
}

func TestRejectVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Reject {
		want := ErrEncoding
		if len(v.Bytes) == AtomSize || len(v.Bytes) == PairSize {
			want = ErrNotCanonical
		}
		if got, err := DataID(v.Bytes); !errors.Is(err, want) || got != (Digest{}) {
			t.Errorf("%s: %s, %v, want %v", v.ID, got, err, want)
		}
		if len(v.Bytes) != PairSize {
			continue
		}
		ids := []Digest{{1}, {2}}
		pairs := [][2]Digest{{}, {Digest(v.Bytes[:Size]), Digest(v.Bytes[Size:])}}
		if err := PairIDs(ids, pairs); !errors.Is(err, want) || ids[0] != (Digest{1}) {
			t.Errorf("%s among others: %v, want %v and nothing set", v.ID, err, want)
		}
	}
}
