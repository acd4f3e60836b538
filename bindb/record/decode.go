package record

import (
	"fmt"
	"strings"
)

// The generated Decode methods call these. Each gives an error of check F06.

func reservedError(field string, value uint64) error {
	return &FieldError{Field: field, Value: value, Want: "zero, the field is reserved", Check: "F06"}
}

func reservedBitsError(field string, value, known uint64) error {
	return &FieldError{Field: field, Value: value, Want: fmt.Sprintf("no bits outside of %#02x", known), Check: "F06"}
}

func enumError(field string, value uint64, e *Enum) error {
	names := make([]string, len(e.Values))
	for i, v := range e.Values {
		names[i] = fmt.Sprintf("%d %s", v.Value, v.Name)
	}
	return &FieldError{Field: field, Value: value, Want: "one of " + strings.Join(names, ", "), Check: "F06"}
}

// parseEnum serves the generated Parse functions.
func parseEnum(e *Enum, what, text string) (uint64, error) {
	names := make([]string, len(e.Values))
	for i, v := range e.Values {
		if v.Name == text {
			return v.Value, nil
		}
		names[i] = v.Name
	}
	return 0, fmt.Errorf("%w: %s %.40q is not one of %s", ErrSyntax, what, text, strings.Join(names, ", "))
}
