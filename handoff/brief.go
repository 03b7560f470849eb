package handoff

import (
	"fmt"
	"strings"
	"time"
)

// BriefRequest is what a brief is made of. Record and Report may be nil.
type BriefRequest struct {
	Name, Dir, Goal string
	Owns, Questions []string
	Record          *Record
	Report          *Report
	Checks          []CheckSpec
	Deliveries      []string // a line each
	Overrides       []string // a line each, for ever
}

// Brief is what a fresh session is told, as Markdown: first what can't be
// relied on, then the goal and the next step, then how to check and record.
func Brief(r BriefRequest) string {
	b := &doc{}
	b.line("# %s", r.Name)
	r.standing(b)
	if r.Goal != "" {
		b.section("Goal")
		b.line("%s", r.Goal)
	}
	r.claims(b)
	b.list("Deliveries", r.Deliveries)
	b.list("Overridden: a person let the work go on although the record didn't hold", r.Overrides)
	r.facts(b)
	r.howTo(b)
	return b.String()
}

// doc writes Markdown; what others wrote is escaped, line by line, so that it
// can't pass for a heading of the brief.
type doc struct{ strings.Builder }

func (d *doc) line(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = Escape(s)
		}
	}
	fmt.Fprintf(d, format+"\n", args...)
}

func (d *doc) section(name string) {
	d.line("\n## %s\n", name)
}

func (d *doc) list(name string, items []string) {
	if len(items) == 0 {
		return
	}
	d.section(name)
	for _, item := range items {
		d.line("- %s", item)
	}
}

func code(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

func (r BriefRequest) standing(b *doc) {
	if r.Report == nil {
		b.line("\nThe record was not verified yet: check before you rely on it.")
		return
	}
	b.section("Verdict: " + string(r.Report.Verdict))
	switch v := r.Report.Verdict; {
	case v == Holds:
		b.line("Everything recorded was checked again just now (%s) and holds.", r.Report.Scope)
	case v == Uncovered:
		b.line("What was recorded holds, but the following is not covered. Look at it before you build on it.")
	case v == Unrecorded:
		b.line("No handoff was ever recorded here. What follows is only what was measured.")
	default:
		b.line("The record can't be relied on. Don't continue from it: settle each finding first, then record with")
		b.line("%s", code("perdure handoff repair "+r.Name+" --explain 'SUBJECT: why' …"))
	}
	notes := 0
	b.line("")
	for _, f := range r.Report.Findings {
		if f.Kind == Note {
			if notes++; notes > maxListed {
				continue
			}
		}
		b.line("- **%s** %s %s", f.Kind, code(f.Subject), f.detail())
	}
	if r.Report.Behind > 0 {
		b.line("- %s since the record", fmt.Sprintf("%d %s edited", r.Report.Behind, plural(r.Report.Behind, "file", "files")))
	}
}

func (r BriefRequest) claims(b *doc) {
	if r.Record == nil || r.Record.Claim == nil {
		b.list("Open questions", r.Questions)
		return
	}
	c := r.Record.Claim
	switch {
	case c.Next != nil:
		b.section("Next step")
		b.line("%s", c.Next.Do)
		if c.Next.DoneWhen != "" {
			b.line("\nIt is done when this exits 0: %s", code(c.Next.DoneWhen))
		}
	case c.Finished:
		b.section("Next step")
		b.line("None: the work was recorded as finished.")
	}
	var failed []string
	for _, f := range c.Failed {
		failed = append(failed, code(f.ID)+": "+f.Why)
	}
	b.list("Known to fail", failed)
	b.list("Not attempted", c.NotAttempted)
	questions := append([]string{}, r.Questions...)
	for _, q := range c.Questions {
		if !contains(questions, q) {
			questions = append(questions, q)
		}
	}
	b.list("Open questions", questions)
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (r BriefRequest) facts(b *doc) {
	b.section("Where things are")
	b.line("- directory: %s", code(r.Dir))
	for _, glob := range r.Owns {
		b.line("- yours to edit: %s", code(glob))
	}
	if r.Record == nil {
		return
	}
	m := r.Record.Measured
	b.line("- recorded %s by %s, on branch %s at %s, %s uncommitted", m.At.Format(time.RFC3339), r.Record.Author, code(orDetached(m.Branch)), code(short(m.Head)),
		fmt.Sprintf("%d %s", m.Uncommitted, plural(m.Uncommitted, "file", "files")))
	for _, c := range m.Checks {
		b.line("- measured then: %s", checkLine(c))
		for _, id := range sortedFailures(c) {
			b.line("  - fails: %s", code(id))
		}
	}
}

func (r BriefRequest) howTo(b *doc) {
	b.section("Checks")
	if len(r.Checks) == 0 {
		b.line("Nothing tests this workspace. Name a check: %s", code("perdure set "+r.Name+" --check 'CMD'"))
	}
	for _, c := range r.Checks {
		b.line("- %s: %s", c.Label, code(c.Cmd))
	}
	b.section("Before you stop")
	b.line("Record what you did. perdure runs the checks itself and refuses what they contradict:\n")
	b.line("    %s", "perdure handoff record "+r.Name+" --passed ID --failed 'ID: why' --not-attempted 'WHAT' --next 'WHAT' --done-when 'CMD'")
	b.line("\nName every test that fails. With nothing left to do, %s takes the place of %s.", code("--finished"), code("--next"))
}

// Markdown is a marked copy of a record for the tree; it starts with
// ExportMark, by which a verification knows it for perdure's own.
func Markdown(r Record) string {
	b := &doc{}
	b.line("%s", ExportMark)
	b.line("# Handoff of %s", r.Workspace)
	b.line("\nRecord %s, number %s, by %s.", r.ID, fmt.Sprint(r.Seq), r.Author)
	if r.Repairs != "" {
		b.line("It repairs %s.", r.Repairs)
	}
	b.list("Explained", r.Explain)
	req := BriefRequest{Name: r.Workspace, Dir: ".", Record: &r}
	if r.Claim != nil {
		var passed []string
		for _, id := range r.Claim.Passed {
			passed = append(passed, code(id))
		}
		b.list("Passes", passed)
	}
	req.claims(b)
	req.facts(b)
	return b.String()
}
