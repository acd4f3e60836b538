package record

// checkOrdinal verifies that an ordinal can be rendered as 01 to 64 (C03).
func checkOrdinal(field string, ordinal uint8) error {
	if ordinal >= MaxOrdinals {
		return fieldError("C03", field, ordinal, "0..63")
	}
	return nil
}

// checkOrdinals verifies the own ordinal of a record below a Patchset and the
// two that it copies.
func checkOrdinals(field string, own, patch, change uint8) error {
	if err := checkOrdinal(field, own); err != nil {
		return err
	}
	if err := checkOrdinal("patch_ordinal", patch); err != nil {
		return err
	}
	return checkOrdinal("change_ordinal", change)
}

// requireRef verifies that an index row has a target.
func requireRef(field string, r Ref) error {
	if r == 0 {
		return fieldError("F06", field, r, "a target")
	}
	return nil
}
