package handoff

import (
	"context"
	"slices"
)

// quickChecks runs the checks that are marked quick on the present tree. Where a live session has moved it on, what
// differs says nothing of the record: it is a note on the work.
func (v *verifier) quickChecks(ctx context.Context) {
	if v.Unready != "" {
		v.find(Inconclusive, "setup", "", "failed", v.Unready)
		return
	}
	specs := slices.DeleteFunc(slices.Clone(v.Checks), func(c CheckSpec) bool { return !c.Quick })
	if len(specs) == 0 || !v.ready(ctx) {
		return
	}
	before := v.state
	var runs []measuredCheck
	for _, spec := range specs {
		m := v.measure(ctx, spec)
		runs = append(runs, m)
		v.rep.Checks = append(v.rep.Checks, m.run)
	}
	known := len(v.rep.Findings)
	v.compareRuns(runs)
	if v.Live && v.QuickTree != v.Record.Measured.Tree {
		for i := range v.rep.Findings[known:] {
			f := &v.rep.Findings[known+i]
			if f.Kind == string(Contradicted) {
				f.Kind, f.Note = Note, noteOn("in the tree as it is now", f.Note)
			}
		}
	}
	v.editsByChecks(ctx, before)
}

func noteOn(where, note string) string {
	if note == "" {
		return where
	}
	return where + "; " + note
}
