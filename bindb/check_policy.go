package bindb

import "github.com/writ-authority/writ/bindb/record"

// policy checks decisions with their check rows (K01 to K03) and what the
// evaluation state of a Patchset says about them (P07).
func (c *checker) policy(t *targets, all chains) {
	f := PolicyDecisions.f
	inTask, inPatchset := all["task_policy_index.bin"], all["patchset_policy_index.bin"]
	rows := c.counts[PolicyChecks.f.no]
	var latest []latestDecision
	if c.full {
		latest = make([]latestDecision, c.counts[Patchsets.f.no])
	}
	end := uint32(0) // behind the rows of the decisions so far
	scan(c, PolicyDecisions, func(i uint32, r *record.PolicyDecision) {
		if task, ok := c.ownerPatchset(t, f, i, "K01", r.Patchset, r.PatchOrdinal, r.ChangeOrdinal); ok {
			c.join(inTask, "previous_task_policy_index_plus1", i, task, 0, r.PreviousInTask)
			c.join(inPatchset, "previous_patchset_policy_index_plus1", i, r.Patchset, r.Ordinal, r.PreviousInPatchset)
			if c.full && !r.Meta.Tombstoned() {
				latest[r.Patchset].see(r)
			}
		}
		first, ok := r.FirstCheck.Index()
		if !ok {
			return
		}
		switch {
		case first >= rows || uint32(r.CheckCount) > rows-first:
			c.badField(f, i, "K02", "first_check_index_plus1", "gives the rows %d+%d, but %s has %d", first, r.CheckCount, PolicyChecks.f.file, rows)
			return
		case c.full && first != end:
			c.badField(f, i, "K02", "first_check_index_plus1", "begins at row %d, but the decisions before it end at row %d", first, end)
		}
		end = first + uint32(r.CheckCount)
		c.checkRows(i, first, r.CheckCount)
	})
	// Rows that no decision has are left of one that was not committed, or not yet.
	each(c, PolicyChecks.f, max(end, c.from[PolicyChecks.f.no]), func(i uint32, raw []byte) {
		var row record.PolicyCheck
		err := row.Decode(raw)
		if err == nil {
			err = row.Check()
		}
		if err != nil {
			c.badRecord(PolicyChecks.f, i, err)
		}
	})
	if !c.full {
		return
	}
	scanQuietly(c, Patchsets, func(i uint32, r *record.Patchset) {
		switch d := latest[i]; {
		case r.Meta.EvaluationPending():
		case !d.exists:
			c.badField(Patchsets.f, i, "P07", "patchset_meta.evaluation_pending", "is clear, but the Patchset has no live decision")
		case d.kind == record.DecisionKindPending:
			c.badField(Patchsets.f, i, "P07", "patchset_meta.evaluation_pending", "is clear, but the latest decision is pending")
		}
	})
}

// latestDecision is the live decision of a Patchset with the greatest ordinal.
type latestDecision struct {
	exists  bool
	ordinal uint8
	kind    record.DecisionKind
}

func (d *latestDecision) see(r *record.PolicyDecision) {
	if !d.exists || r.Ordinal >= d.ordinal {
		*d = latestDecision{true, r.Ordinal, r.Meta.Decision()}
	}
}

// checkRows checks the rows of one decision: each by itself, kinds 0 to 8 at
// most once, and suites that number the catalog completely, with the rollout
// phase they belong to (K03, section 8.6).
func (c *checker) checkRows(decision, first uint32, count uint16) {
	f := PolicyChecks.f
	raw := c.bytes(f, f.offset(first), int(count)*f.size)
	if c.stop != nil {
		return
	}
	var seen [256]bool
	var suites []uint32
	for j := range uint32(count) {
		var row record.PolicyCheck
		err := row.Decode(raw[int(j)*f.size : int(j+1)*f.size])
		if err == nil {
			err = row.Check()
		}
		if err != nil {
			c.badRecord(f, first+j, err)
			continue
		}
		if row.Kind == record.CheckKindCIPatchsetSuite {
			suites = append(suites, uint32(row.Subject))
			continue
		}
		if seen[row.Kind] {
			c.badField(f, first+j, "K03", "check_kind", "is %s, which decision %d has already", row.Kind, decision)
		}
		seen[row.Kind] = true
	}
	if len(suites) == 0 {
		return
	}
	if !seen[record.CheckKindCIRolloutPhase] {
		c.badField(PolicyDecisions.f, decision, "K03", "check_count", "covers suites without the row %s", record.CheckKindCIRolloutPhase)
	}
	numbered := newBitset(uint32(len(suites)) + 1)
	for _, s := range suites {
		if s > uint32(len(suites)) || numbered.has(s) {
			c.badField(PolicyDecisions.f, decision, "K03", "check_count", "covers %d suites, whose ordinals are not exactly 1 to %d", len(suites), len(suites))
			return
		}
		numbered.set(s)
	}
}

// scanQuietly goes through records that were checked before.
func scanQuietly[T any, P record.Codec[T]](c *checker, t Table[T, P], fn func(i uint32, rec *T)) {
	var rec T
	each(c, t.f, 0, func(i uint32, raw []byte) {
		if P(&rec).Decode(raw) == nil {
			fn(i, &rec)
		}
	})
}
