package record

import "fmt"

// Namespace is the short prefix of a Repository: none, one or two of the
// characters A-Z a-z 0-9 _ -, zero-padded. It is compared byte by byte (Binary
// DB v0, section 4.1).
type Namespace [2]byte

// ParseNamespace accepts what a Repository may carry, including the empty
// string. The error matches ErrSyntax.
func ParseNamespace(s string) (Namespace, error) {
	var n Namespace
	if len(s) > len(n) {
		return Namespace{}, fmt.Errorf("%w: namespace %.40q is longer than 2 characters", ErrSyntax, s)
	}
	copy(n[:], s)
	for i := range len(s) {
		if !namespaceByte(s[i]) {
			return Namespace{}, fmt.Errorf("%w: namespace %q has characters other than A-Z a-z 0-9 _ -", ErrSyntax, s)
		}
	}
	return n, nil
}

// String is the namespace without its padding.
func (n Namespace) String() string {
	switch {
	case n[0] == 0 && n[1] == 0:
		return ""
	case n[1] == 0:
		return string(n[:1])
	}
	return string(n[:])
}

func (n Namespace) check(id string) error {
	ok := n == Namespace{} || namespaceByte(n[0]) && (n[1] == 0 || namespaceByte(n[1]))
	if ok {
		return nil
	}
	return &FieldError{Field: "namespace_ascii", Bytes: n[:], Want: "zero to two of A-Z a-z 0-9 _ - followed by zeros", Check: id}
}

func namespaceByte(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || digit(c) || c == '_' || c == '-'
}
