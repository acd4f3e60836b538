package main

import (
	"fmt"
	"strings"
)

// page is the generated documentation page.
func (m *model) page() []byte {
	return []byte("")
}

var _ = fmt.Sprint
var _ = strings.Join
