package record

import (
	"fmt"
	"strings"
)

// Names lists the flags that are set, by their names in the format.
func (m PolicyFlags) Names() []string {
	names := []string{}
	for _, b := range bitsPolicyFlags {
		if m>>b.Lo&1 != 0 {
			names = append(names, b.Name)
		}
	}
	return names
}

// ParsePolicyFlag gives the flag with the given name. The error matches ErrSyntax.
func ParsePolicyFlag(name string) (PolicyFlags, error) {
	known := make([]string, len(bitsPolicyFlags))
	for i, b := range bitsPolicyFlags {
		if b.Name == name {
			return 1 << b.Lo, nil
		}
		known[i] = b.Name
	}
	return 0, fmt.Errorf("%w: policy flag %.40q is not one of %s", ErrSyntax, name, strings.Join(known, ", "))
}
