package suite

import (
	"bytes"
	"strings"
)

// makeTargets returns which of the wanted targets a makefile has a rule for. It
// knows explicit rules with plain names, several targets, double colons and
// continued lines; it doesn't expand variables and doesn't follow includes.
func makeTargets(data []byte, wanted ...string) map[string]bool {
	found := map[string]bool{}
	inDefine := false
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\\\n"), []byte(" "))
	for raw := range bytes.SplitSeq(data, []byte("\n")) {
		line := string(raw)
		if strings.HasPrefix(line, "\t") {
			continue // a recipe
		}
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		switch word, _, _ := strings.Cut(line, " "); {
		case inDefine:
			inDefine = word != "endef"
			continue
		case word == "define":
			inDefine = true
			continue
		}
		targets, rest, ok := strings.Cut(line, ":")
		// "a := b" and "a ::= b" assign, as does "a: b = c" to a variable of one
		// target only; a rule is neither.
		if !ok || strings.ContainsAny(targets, "=$") || strings.HasPrefix(strings.TrimLeft(rest, ":"), "=") || targetVariable(rest) {
			continue
		}
		for _, t := range strings.Fields(targets) {
			for _, w := range wanted {
				if t == w {
					found[w] = true
				}
			}
		}
	}
	return found
}

// targetVariable reports whether what follows a target's colon sets a variable.
func targetVariable(rest string) bool {
	before, _, _ := strings.Cut(strings.TrimPrefix(rest, ":"), ";")
	return strings.Contains(before, "=")
}
