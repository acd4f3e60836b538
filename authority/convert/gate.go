package convert

import (
	"fmt"
	"slices"
	"strings"
)

// Gate is a rule of the conversion that the caller may set aside by name.
type Gate string

const (
	// GateCanceledTasks takes Tasks with the status canceled, as canceled.
	GateCanceledTasks Gate = "canceled-tasks"
	// GateZeroDiffStats takes four Patchsets whose statistics are all zero although
	// their Trees differ. zeroDiffStats lists them.
	GateZeroDiffStats Gate = "zero-diff-stats"
	// GateRenumberedTasks takes Tasks whose sequence numbers have gaps. The Tasks
	// behind a gap get another identity.
	GateRenumberedTasks Gate = "renumbered-tasks"
)

// Gates lists all gates.
func Gates() []Gate { return []Gate{GateCanceledTasks, GateZeroDiffStats, GateRenumberedTasks} }

// ParseGate reads the name of a gate.
func ParseGate(name string) (Gate, error) {
	if g := Gate(name); slices.Contains(Gates(), g) {
		return g, nil
	}
	names := make([]string, 0, len(Gates()))
	for _, g := range Gates() {
		names = append(names, string(g))
	}
	return "", fmt.Errorf("%w: gate %.40q, want one of %s", ErrChoice, name, strings.Join(names, ", "))
}

// zeroDiffStats are the identities that GateZeroDiffStats is for. No other
// Patchset may disagree with its Trees.
var zeroDiffStats = []string{"RT-1982/C-01/P-01", "RT-1982/C-01/P-02", "RT-1982/C-01/P-03", "RT-1981/C-01/P-03"}
