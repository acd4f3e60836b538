package workitem

import "strings"

// CheckCheckpoint says whether s names a checkpoint: "checkpoint:" and 1 to 240 of
// a-z, 0-9, underscore, dot, colon and hyphen (section 10.5). The error is a refusal
// of checkpoint.
func CheckCheckpoint(s string) error {
	name, ok := strings.CutPrefix(s, "checkpoint:")
	ok = ok && len(name) >= 1 && len(name) <= 240
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == ':' || c == '-'
	}
	if !ok {
		return invalid("checkpoint", "must be checkpoint: and 1 to 240 of a-z, 0-9, underscore, dot, colon and hyphen")
	}
	return nil
}
