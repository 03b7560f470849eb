package handoff

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"perdure/handoff/results"
)

// compare turns runs into findings, and compares the claims with them.
func (v *verifier) compare(runs []measuredCheck) {
	v.compareRuns(runs)
	v.claims(runs)
}

func (v *verifier) compareRuns(runs []measuredCheck) {
	for _, m := range runs {
		v.inputs(m)
		v.otherSettings(m)
		if m.run.Note != "" && m.run.Problem == "" {
			v.find(Note, m.run.Label, "", "", m.run.Note)
		}
		switch {
		case m.run.Problem != "":
			v.unanswered(m)
		case m.recorded == nil:
			v.unrecordedCheck(m)
		case unanswered(m.recorded):
			v.unrecordedCheck(m)
		default:
			v.tests(m)
		}
	}
}

// unanswered tells a recorded run that had no answer to compare with.
func unanswered(c *CheckRun) bool {
	return c.Problem != "" && c.Problem != ProblemEdits
}

// unanswered is a check that said nothing now. It is never a failure.
func (v *verifier) unanswered(m measuredCheck) {
	note := m.run.Note
	if note == "" {
		note = "the check gave no answer"
	}
	v.find(Inconclusive, m.run.Label, recordedSum(m.recorded), m.run.Problem, lastLines(m.run.Tail, note))
}

func recordedSum(c *CheckRun) string {
	if c == nil {
		return ""
	}
	return countText(c.Results)
}

// tests compares a check test by test with its recorded run.
func (v *verifier) tests(m measuredCheck) {
	fresh, listed := 0, false
	for _, id := range union(m.recorded.Results, m.run.Results) {
		want, known := m.recorded.Results[id]
		got, ran := m.run.Results[id]
		subject := v.subject(id, m)
		switch {
		case known && ran && want == got:
		case v.flaky(id):
			listed = true
			v.find(Note, subject, orAbsent(want), orAbsent(got), "listed as flaky")
		case m.unstable[id]:
			v.find(Inconclusive, subject, orAbsent(want), "flaky", "two runs in a row differ")
		case known && !ran:
			v.absent(m, id, subject, want)
		case !known && got == results.Fail:
			v.find(Contradicted, subject, "absent", "fail", "the record doesn't name this failure")
		case !known && got == results.NotRun:
			v.find(Inconclusive, subject, "absent", string(got), "the run stopped before its end")
		case !known:
			fresh++
		default:
			v.find(Contradicted, subject, string(want), string(got), changeNote(want, got))
		}
	}
	v.status(m, listed)
	if fresh > 0 {
		v.find(Note, m.run.Label, "", fmt.Sprintf("%d more tests", fresh), "tests that the record doesn't have")
	}
}

// status compares how the command ended, where that says more than its tests.
func (v *verifier) status(m measuredCheck, listed bool) {
	subject := statusOf(m.run.Label)
	switch {
	case !m.statusDiffers() || listed || len(v.differing(m)) != 1 || v.differing(m)[0] != subject:
	case m.unstable[subject]:
		v.find(Inconclusive, subject, strconv.Itoa(m.recorded.Exit), "flaky", "two runs in a row differ")
	default:
		v.find(Contradicted, subject, strconv.Itoa(m.recorded.Exit), strconv.Itoa(m.run.Exit), "every test is as recorded, and the command ends otherwise")
	}
}

// subject puts the label before an ID that another recorded check has too,
// with another outcome.
func (v *verifier) subject(id string, m measuredCheck) string {
	for _, c := range v.Record.Measured.Checks {
		if o, ok := c.Results[id]; ok && c.Label != m.run.Label && o != m.recorded.Results[id] {
			return m.run.Label + ":" + id
		}
	}
	return id
}

func changeNote(want, got results.Outcome) string {
	switch {
	case want == results.Fail && got == results.Pass:
		return "the record is wrong in the better direction"
	case got == results.NotRun:
		return "the run stopped before it"
	}
	return ""
}

// absent is a recorded test that the run didn't name: removed, or not reached
// because its package didn't build or stopped.
func (v *verifier) absent(m measuredCheck, id, subject string, want results.Outcome) {
	switch {
	case id == m.run.Label && m.run.Exit == 0:
		v.find(Contradicted, subject, string(want), "pass", changeNote(want, results.Pass))
	case want == results.NotRun:
		v.find(Contradicted, subject, string(want), "absent", "")
	case brokenPackage(m.run.Results, id) == results.Fail:
		v.find(Contradicted, subject, string(want), string(results.NotRun), "its package doesn't build, or failed as a whole")
	case brokenPackage(m.run.Results, id) == results.NotRun:
		v.find(Contradicted, subject, string(want), string(results.NotRun), "its package stopped before it (a panic or an exit)")
	case stoppedParent(m.run.Results, id):
		v.find(Contradicted, subject, string(want), string(results.NotRun), "the test around it failed")
	case m.run.Results[m.run.Label] == results.NotRun:
		v.find(Contradicted, subject, string(want), string(results.NotRun), "the run ended before it ("+m.run.Note+")")
	default:
		v.find(Contradicted, subject, string(want), "absent", "the test is gone")
	}
}

// brokenPackage looks for the package, module, file or class of a test among
// the results: it is there only if it failed as a whole, or stopped.
func brokenPackage(set map[string]results.Outcome, id string) results.Outcome {
	for i := len(id) - 1; i > 0; i-- {
		if id[i] != '.' && id[i] != ':' {
			continue
		}
		if o := set[id[:i]]; o == results.Fail || o == results.NotRun {
			return o
		}
		// A module that can't be imported is named without the package it is in.
		if o := set[id[strings.LastIndexAny(id[:i], "./")+1:i]]; o == results.Fail {
			return o
		}
	}
	return ""
}

// stoppedParent tells whether a test around a subtest failed.
func stoppedParent(set map[string]results.Outcome, id string) bool {
	for i := strings.LastIndexByte(id, '/'); i > 0; i = strings.LastIndexByte(id[:i], '/') {
		if o := set[id[:i]]; o == results.Fail || o == results.NotRun {
			return true
		}
	}
	return false
}

// unrecordedCheck is a check of the workspace that the record doesn't have:
// the record was measured by a weaker one. It can't contradict what was never
// measured, but a record it disagrees with isn't confirmed.
func (v *verifier) unrecordedCheck(m measuredCheck) {
	recorded := IDs(v.Record.Measured.Checks)
	for _, id := range sortedIDs(m.run.Results) {
		got := m.run.Results[id]
		want, known := recorded[id]
		switch {
		case v.flaky(id):
			if got == results.Fail {
				v.find(Note, id, orAbsent(want), string(got), "listed as flaky")
			}
		case known && want != got:
			v.find(Inconclusive, id, string(want), string(got), "the workspace's own check "+m.run.Label+" disagrees with the record's")
		case !known && got == results.Fail:
			v.find(Inconclusive, id, "absent", string(got), "the workspace's own check "+m.run.Label+" wasn't in the record, and fails")
		}
	}
	note := "this check wasn't in the record"
	for _, c := range v.Record.Measured.Checks {
		if c.sameCommand(m.spec) && c.How != nil {
			note += fmt.Sprintf(": there its results were read as %q, here as %q", c.How.Results, m.spec.how().Results)
		}
	}
	v.find(Note, m.run.Label, "", countText(m.run.Results), note)
}

// claims compares what the agent said with the record's own measurement, and
// what it said wasn't tried with what passes now.
func (v *verifier) claims(runs []measuredCheck) {
	c := v.Record.Claim
	if c == nil {
		return
	}
	measured := IDs(v.Record.Measured.Checks)
	for _, id := range c.Passed {
		if got := measured[id]; got != results.Pass && !v.flaky(id) {
			v.find(Contradicted, id, "claimed pass", "measured "+orAbsent(got), "the claim isn't what was measured with it")
		}
	}
	for _, f := range c.Failed {
		if got := measured[f.ID]; got != results.Fail && !v.flaky(f.ID) {
			v.find(Contradicted, f.ID, "claimed fail", "measured "+orAbsent(got), "the claim isn't what was measured with it")
		}
	}
	var now []CheckRun
	for _, m := range runs {
		now = append(now, m.run)
	}
	current := IDs(now)
	for _, id := range c.NotAttempted {
		if current[id] == results.Pass && measured[id] != results.Pass {
			v.find(Contradicted, id, "not attempted", "pass", "said not to be attempted, and passes")
		}
	}
}

// attempts notes commits since the record that name what it says was never attempted.
func (v *verifier) attempts(ctx context.Context) {
	c, head := v.Record.Claim, v.Record.Measured.Head
	if c == nil || len(c.NotAttempted) == 0 || v.Commits == nil || head == "" || head == v.state.Head {
		return
	}
	for _, message := range v.Commits(ctx, head) {
		for _, item := range c.NotAttempted {
			if names(message, item) {
				subject, _, _ := strings.Cut(message, "\n")
				v.find(Note, item, "not attempted", "named by a commit", subject)
			}
		}
	}
}

// names tells whether a text has an item as words of its own, in any case.
func names(text, item string) bool {
	text, item = strings.ToLower(text), strings.ToLower(strings.TrimSpace(item))
	for item != "" {
		before, after, found := strings.Cut(text, item)
		if !found {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		first, _ := utf8.DecodeRuneInString(after)
		if !wordRune(last) && !wordRune(first) {
			return true
		}
		text = after
	}
	return false
}

func wordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func orAbsent(o results.Outcome) string {
	if o == "" {
		return "absent"
	}
	return string(o)
}

func sortedIDs(set map[string]results.Outcome) []string {
	ids := make([]string, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func union(a, b map[string]results.Outcome) []string {
	ids := append(sortedIDs(a), sortedIDs(b)...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// countText is "12 pass, 1 fail", in a fixed order.
func countText(set map[string]results.Outcome) string {
	n := map[results.Outcome]int{}
	for _, o := range set {
		n[o]++
	}
	var parts []string
	for _, o := range []results.Outcome{results.Pass, results.Fail, results.Skip, results.NotRun} {
		if n[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[o], o))
		}
	}
	if len(parts) == 0 {
		return "no tests"
	}
	return strings.Join(parts, ", ")
}
