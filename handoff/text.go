package handoff

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"perdure/handoff/results"
)

// Escape shows control characters, what reorders text, and broken UTF-8 as
// escapes, so that a test's name can't drive a terminal. Line feeds too.
func Escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// maxListed bounds what is listed of one kind when not verbose, maxOnScreen on a terminal.
const (
	maxListed   = 20
	maxOnScreen = 8
)

// Text is the report as plain text, without a terminal.
func (r Report) Text(verbose bool) string { return r.Render(Style{Verbose: verbose}) }

// Render is the report as a person reads it: the verdict, the findings in
// columns, then what to do. Verbose adds every note and the checks' output.
func (r Report) Render(s Style) string {
	var b strings.Builder
	line := func(first, text string) { b.WriteString(s.Wrap(first, text) + "\n") }
	line("", s.Verdict(string(r.Verdict), s.Bold(string(r.Verdict)))+": "+r.headline())
	r.findings(s, line)
	if r.Behind > 0 {
		line("  behind        ", fmt.Sprintf("%d %s edited since the record (the session is live)", r.Behind, plural(r.Behind, "file", "files")))
	}
	for _, c := range r.Checks {
		line("  check         ", checkLine(c))
		if c.Tail != "" && (s.Verbose || c.Problem != "") {
			writeTail(s, line, c.Tail)
		}
	}
	r.hints(s, &b)
	return b.String()
}

func (r Report) headline() string {
	var parts []string
	if r.Record != "" {
		parts = append(parts, "record "+Escape(r.Record))
	} else {
		parts = append(parts, "no handoff was ever recorded")
	}
	n := 0
	for _, f := range r.Findings {
		if f.Kind != Note {
			n++
		}
	}
	if n > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", n, plural(n, "finding", "findings")))
	}
	how := r.Scope + " verification"
	switch {
	case r.Scope == ScopeQuick && len(r.Checks) > 0:
		how += " (only the quick checks were run)"
	case r.Scope == ScopeQuick:
		how += " (no check was run)"
	}
	parts = append(parts, how, (time.Duration(r.Ms) * time.Millisecond).String())
	return strings.Join(parts, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Columns of the findings: the kind, then the subject where it is no wider.
const (
	kindColumns    = 12
	subjectColumns = 48
)

func (r Report) findings(s Style, line func(first, text string)) {
	most, most1 := subjectColumns, maxListed
	if s.Width > 0 {
		most, most1 = min(most, (s.Width-kindColumns-6)*2/5), maxOnScreen
	}
	width := 0
	for _, f := range r.Findings {
		width = max(width, min(most, ansi.StringWidth(Escape(f.Subject))))
	}
	listed := map[string]int{}
	for _, f := range r.Findings {
		if listed[f.Kind]++; listed[f.Kind] > most1 && !s.Verbose {
			continue
		}
		first := "  " + s.Verdict(f.Kind, Pad(f.Kind, kindColumns)) + "  "
		subject, detail := Escape(f.Subject), f.detail()
		switch {
		case s.Width > 0 && ansi.StringWidth(subject) > width: // the detail comes below it
			line(first, s.Bold(subject))
			if detail != "" {
				line(strings.Repeat(" ", kindColumns+4), detail)
			}
		case detail == "":
			line(first, s.Bold(subject))
		default:
			line(first+s.Bold(Pad(subject, width))+"  ", detail)
		}
	}
	for _, kind := range []Verdict{Invalid, Contradicted, Drifted, Inconclusive, Uncovered, Note} {
		if more := listed[string(kind)] - most1; more > 0 && !s.Verbose {
			line("  "+s.Verdict(string(kind), Pad(string(kind), kindColumns))+"  ", fmt.Sprintf("and %d more (-v lists them)", more))
		}
	}
}

// detail is what was recorded and found, and the note.
func (f Finding) detail() string {
	var parts []string
	switch {
	case f.Recorded != "" && f.Found != "":
		parts = append(parts, fmt.Sprintf("recorded %s, found %s", Escape(f.Recorded), Escape(f.Found)))
	case f.Recorded != "":
		parts = append(parts, "recorded "+Escape(f.Recorded))
	case f.Found != "":
		parts = append(parts, Escape(f.Found))
	}
	if f.Note != "" {
		parts = append(parts, Escape(f.Note))
	}
	return strings.Join(parts, ": ")
}

// Line is a finding in one line.
func (f Finding) Line() string {
	return strings.TrimRight(Escape(f.Subject)+"  "+f.detail(), " ")
}

func checkLine(c CheckRun) string {
	line := fmt.Sprintf("%s: %s, exit %d, %s", Escape(c.Label), countText(c.Results), c.Exit, (time.Duration(c.Ms) * time.Millisecond).String())
	if c.Problem != "" {
		line += ", " + c.Problem
	}
	if c.Cmd != c.Label {
		line += "  (" + Escape(c.Cmd) + ")"
	}
	return line
}

func writeTail(s Style, line func(first, text string), tail string) {
	lines := strings.Split(tail, "\n")
	if !s.Verbose && len(lines) > 10 {
		lines = lines[len(lines)-10:]
	}
	for _, l := range lines {
		line("    | ", s.Dim(Escape(l)))
	}
}

// hints tell the way out of a halt.
func (r Report) hints(s Style, b *strings.Builder) {
	if !r.Verdict.Halts() {
		return
	}
	name := r.Workspace
	if name == "" {
		name = "NAME"
	}
	subject := ""
	for _, f := range r.Findings {
		if f.Kind != Note {
			subject = f.Subject
			break
		}
	}
	hint := func(format string, args ...any) { // never wrapped: a command is there to be copied
		b.WriteString(s.Dim("hint:") + " " + fmt.Sprintf(format, args...) + "\n")
	}
	hint("perdure handoff repair %s --explain %s (one --explain for each finding)", name, quote(Escape(subject)+": why"))
	if r.Verdict == Drifted {
		hint("perdure handoff repair %s --carry keeps the claims if no result changed; perdure diff %s record shows the edits", name, name)
	}
	if r.Verdict == Inconclusive {
		hint("perdure handoff verify %s tries again", name)
	}
}

// quote makes one word of s for a POSIX shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func sortedFailures(c CheckRun) []string {
	var ids []string
	for _, id := range sortedIDs(c.Results) {
		if c.Results[id] == results.Fail {
			ids = append(ids, id)
		}
	}
	return ids
}
