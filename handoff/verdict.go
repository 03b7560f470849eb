// Package handoff holds records of work, the checks that measure it, and the
// verifier that compares the two to one verdict.
//
// A Record has two parts. Measured is what perdure found by running the
// workspace's checks itself; Claim is what the agent says. A claim is accepted
// only where it agrees with the measurement (Accept), records form a chain by
// hash (CheckChain), and before a session is continued Verify runs the checks
// again and names every difference as a Finding. The verdict is the worst of
// them. FORMAT.md describes the bytes.
//
// Nothing here writes to the workspace's tree; a check that does is found out.
package handoff

// Verdict is the outcome of a verification.
type Verdict string

// The verdicts. Unrecorded stands alone: there was nothing to verify.
const (
	Holds        Verdict = "holds"
	Uncovered    Verdict = "uncovered"
	Unrecorded   Verdict = "unrecorded"
	Drifted      Verdict = "drifted"
	Contradicted Verdict = "contradicted"
	Inconclusive Verdict = "inconclusive"
	Invalid      Verdict = "invalid"
)

// Note is the kind of a finding that doesn't touch the verdict.
const Note = "note"

// severity orders verdicts from the best to the worst. Unrecorded is below
// all: it only stands where there is no finding of another kind.
var severity = map[Verdict]int{
	Unrecorded: 1, Holds: 2, Uncovered: 3, Inconclusive: 4, Drifted: 5, Contradicted: 6, Invalid: 7,
}

// ExitStatus is the status of `handoff verify` (0 and 10 to 15); 1 for a
// verdict that isn't one.
func (v Verdict) ExitStatus() int {
	switch v {
	case Holds:
		return 0
	case Uncovered:
		return 10
	case Drifted:
		return 11
	case Contradicted:
		return 12
	case Inconclusive:
		return 13
	case Invalid:
		return 14
	case Unrecorded:
		return 15
	}
	return 1
}

// Halts tells whether a session may not start on this verdict.
func (v Verdict) Halts() bool {
	switch v {
	case Holds, Uncovered, Unrecorded:
		return false
	}
	return true
}

// Worst is the worst of vs, in the order invalid, contradicted, drifted,
// inconclusive, uncovered, holds; Holds if there are none.
func Worst(vs ...Verdict) Verdict {
	worst := Verdict("")
	for _, v := range vs {
		if severity[v] > severity[worst] {
			worst = v
		}
	}
	if worst == "" {
		return Holds
	}
	return worst
}
