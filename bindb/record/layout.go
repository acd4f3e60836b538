package record

import "slices"

// HeaderSize is the length of the header of every .bin and .idx file, the
// little-endian u32 LayoutID (Binary DB v0, section 2.1).
const HeaderSize = 4

// LayoutID is the layout that this package declares.
const LayoutID = 1

// MaxTargets is the greatest number of records of one family, so that every
// index plus one fits a u32 (section 18.1).
const MaxTargets = 1<<32 - 2

// MaxOrdinals is the number of ordinals in one scope, rendered 01 to 64.
const MaxOrdinals = 64

// Root says which kind of directory a file belongs to (section 1.1).
type Root uint8

const (
	RootNone      Root = iota // outside every authority root
	RootRegistry              // the one registry of an installation
	RootAuthority             // the authority of one Repository
)

func (r Root) String() string {
	switch r {
	case RootRegistry:
		return "registry"
	case RootAuthority:
		return "authority"
	}
	return "none"
}

// MarshalText gives the name of the root.
func (r Root) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Kind says what role a layout plays.
type Kind uint8

const (
	KindRecord Kind = iota // authority, one record for each index
	KindChain              // authority that can be rebuilt: one row for each owner
	KindIndex              // disposable accelerator, rebuilt at will
	KindHelper             // journals and the lease replica, never authority
)

func (k Kind) String() string {
	switch k {
	case KindChain:
		return "chain"
	case KindIndex:
		return "index"
	case KindHelper:
		return "helper"
	}
	return "record"
}

// MarshalText gives the name of the kind.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Layout describes one fixed record: where it lies and what it is made of.
// Layouts are shared and must not be changed.
type Layout struct {
	Name         string  `json:"name"`
	File         string  `json:"file"`
	Root         Root    `json:"root"`
	Family       string  `json:"family"`
	Kind         Kind    `json:"kind"`
	Size         int     `json:"size"`
	SizeConstant string  `json:"size_constant,omitempty"`
	Doc          string  `json:"doc"`
	Fields       []Field `json:"fields"`

	// check decodes and checks one record.
	check func([]byte) error
}

// Field describes one field of a record.
type Field struct {
	Name     string `json:"name"`
	Type     string `json:"type"` // u8, u16, u32, u64 or u8[n]
	Offset   int    `json:"offset"`
	Width    int    `json:"width"`
	Doc      string `json:"doc,omitempty"`
	Reserved bool   `json:"reserved,omitempty"` // always zero
	Optional bool   `json:"optional,omitempty"` // an index plus one, 0 means none
	Time     bool   `json:"time,omitempty"`     // Unix seconds
	Text     bool   `json:"text,omitempty"`     // zero-padded ASCII
	Hex      bool   `json:"hex,omitempty"`      // a hash, shown in hexadecimal
	Secret   bool   `json:"secret,omitempty"`   // never shown
	Target   string `json:"target,omitempty"`   // file that an index or offset points into
	Enum     *Enum  `json:"enum,omitempty"`
	Bits     []Bit  `json:"bits,omitempty"`
}

// Bit names the bits Lo..Hi of a metadata field. Bits without a name are
// reserved.
type Bit struct {
	Name string `json:"name"`
	Lo   int    `json:"lo"`
	Hi   int    `json:"hi"`
	Enum *Enum  `json:"enum,omitempty"`
}

// Enum names the values of an enumeration.
type Enum struct {
	Name   string      `json:"name"`
	Open   bool        `json:"open,omitempty"` // values without a name are accepted
	Values []EnumValue `json:"values"`
}

// EnumValue is one value of an enumeration with its name on the wire.
type EnumValue struct {
	Value uint64 `json:"value"`
	Name  string `json:"name"`
	Doc   string `json:"doc,omitempty"`
}

func (e *Enum) lookup(v uint64) (string, bool) {
	for _, x := range e.Values {
		if x.Value == v {
			return x.Name, true
		}
	}
	return "", false
}

// Codec is satisfied by the pointer to every record type, for generic access to
// a family.
type Codec[T any] interface {
	*T
	// Encode writes exactly Layout().Size bytes to the front of dst, zeros for
	// reserved fields. It panics when dst is shorter.
	Encode(dst []byte)
	// Decode reads exactly Layout().Size bytes. The error is a *FieldError, and
	// the record is then unspecified.
	Decode(src []byte) error
	// Layout describes the record. For the shared chain rows it is a generic
	// description; ByFile gives the one of a file.
	Layout() *Layout
}

// Chain declares one chain file: row i belongs to record i of the owner and
// heads the list of its members (section 6).
type Chain struct {
	File    string `json:"file"`
	Owner   string `json:"owner"`
	Member  string `json:"member"`
	Ordinal bool   `json:"ordinal"` // rows are OrdinalChain, else InventoryChain
}

// Layouts lists every layout: the families of both roots in inventory order,
// then the helper layouts.
func Layouts() []*Layout { return slices.Clone(layouts) }

// ByFile finds the layout of a .bin or .idx family by file name. Helper layouts
// are found by name, since one file may hold two of them.
func ByFile(file string) (*Layout, bool) {
	for _, l := range layouts {
		if l.File == file && l.Kind != KindHelper {
			return l, true
		}
	}
	return nil, false
}

// ByName finds a layout by record name, helper layouts included.
func ByName(name string) (*Layout, bool) {
	for _, l := range layouts {
		if l.Name == name {
			return l, true
		}
	}
	return nil, false
}

// Chains lists the fifteen chain files.
func Chains() []Chain { return slices.Clone(chains) }
