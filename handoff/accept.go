package handoff

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"perdure/handoff/results"
)

// ErrAmbiguous is wrapped where a short test ID fits several measured tests.
var ErrAmbiguous = errors.New("ambiguous test id")

// Mismatch is a claim that the measurement doesn't bear out.
type Mismatch struct {
	ID       string `json:"id"`
	Claimed  string `json:"claimed"`
	Measured string `json:"measured"`
	Why      string `json:"why"`
}

// IDs gives every measured test by its ID. Where two checks have the same ID
// with different outcomes, each is under LABEL:ID.
func IDs(checks []CheckRun) map[string]results.Outcome {
	clash := map[string]bool{}
	seen := map[string]results.Outcome{}
	for _, c := range checks {
		for id, o := range c.Results {
			if old, ok := seen[id]; ok && old != o {
				clash[id] = true
			}
			seen[id] = o
		}
	}
	all := make(map[string]results.Outcome, len(seen))
	for _, c := range checks {
		for id, o := range c.Results {
			if clash[id] {
				id = c.Label + ":" + id
			}
			all[id] = o
		}
	}
	return all
}

// Resolve finds the full ID of a test from itself or a suffix that only one
// test has, cut at a '/', '.' or ':'. It is "" if none fits.
func Resolve(id string, all map[string]results.Outcome) (string, error) {
	if _, ok := all[id]; ok || id == "" {
		return id, nil
	}
	var fits []string
	for full := range all {
		head, ok := strings.CutSuffix(full, id)
		if ok && head != "" && strings.ContainsRune("/.:", rune(head[len(head)-1])) {
			fits = append(fits, full)
		}
	}
	slices.Sort(fits)
	switch len(fits) {
	case 0:
		return "", nil
	case 1:
		return fits[0], nil
	}
	return "", fmt.Errorf("%w: %q fits %s", ErrAmbiguous, id, strings.Join(fits, ", "))
}

// Accept compares a claim with what was measured. The claim comes back with
// full IDs; it may be stored only if there is no mismatch: a test claimed
// otherwise than measured or never measured, a measured failure that the
// claim doesn't name, and a check that edited files. The error wraps
// ErrAmbiguous, or says that the claim contradicts itself.
func Accept(c Claim, m Measured) (Claim, []Mismatch, error) {
	a := accepting{all: IDs(m.Checks), named: map[string]bool{}}
	out := c.filled()
	out.Passed, out.Failed = []string{}, []Failure{}
	for _, id := range c.Passed {
		full, err := a.claim(id, results.Pass)
		if err != nil {
			return c, nil, err
		}
		out.Passed = append(out.Passed, full)
	}
	for _, f := range c.Failed {
		full, err := a.claim(f.ID, results.Fail)
		if err != nil {
			return c, nil, err
		}
		out.Failed = append(out.Failed, Failure{ID: full, Why: f.Why})
	}
	if err := out.valid(); err != nil {
		return c, nil, err
	}
	a.unnamed()
	for _, run := range m.Checks {
		if run.Problem == ProblemEdits {
			a.wrong = append(a.wrong, Mismatch{ID: run.Label, Measured: run.Problem, Why: "the check edits files: " + run.Note})
		}
	}
	return out, a.wrong, nil
}

type accepting struct {
	all   map[string]results.Outcome
	named map[string]bool
	wrong []Mismatch
}

func (a *accepting) claim(id string, want results.Outcome) (string, error) {
	full, err := Resolve(id, a.all)
	if err != nil {
		return "", err
	}
	if full == "" {
		a.wrong = append(a.wrong, Mismatch{ID: id, Claimed: string(want), Measured: "absent", Why: "no check ran such a test"})
		return id, nil
	}
	a.named[full] = true
	if got := a.all[full]; got != want {
		a.wrong = append(a.wrong, Mismatch{ID: full, Claimed: string(want), Measured: string(got), Why: "claimed " + string(want) + ", measured " + string(got)})
	}
	return full, nil
}

// unnamed adds measured failures that the claim is silent about. A failing
// subtest named is enough for the tests around it, which fail because of it.
func (a *accepting) unnamed() {
	var missing []string
	for id, o := range a.all {
		if o == results.Fail && !a.named[id] && !a.inside(id) {
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	for _, id := range missing {
		a.wrong = append(a.wrong, Mismatch{ID: id, Measured: string(results.Fail), Why: "it fails and the claim doesn't name it"})
	}
}

func (a *accepting) inside(id string) bool {
	for named := range a.named {
		if strings.HasPrefix(named, id+"/") && a.all[named] == results.Fail {
			return true
		}
	}
	return false
}
