package authority

// SetPurgeStep makes a purge take as many batches as a large one.
func (a *Authority) SetPurgeStep(records uint32) { a.purgeStep = records }
