package handoff

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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

// maxListed bounds what is listed of one kind when not verbose.
const maxListed = 20

// Text is the report as a person reads it: the verdict, the findings in
// columns, then what to do. verbose adds every note and the checks' output.
func (r Report) Text(verbose bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Verdict, r.headline())
	r.findings(&b, verbose)
	if r.Behind > 0 {
		fmt.Fprintf(&b, "  behind        %d %s edited since the record (the session is live)\n", r.Behind, plural(r.Behind, "file", "files"))
	}
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "  check         %s\n", checkLine(c))
		if c.Tail != "" && (verbose || c.Problem != "") {
			writeTail(&b, c.Tail, verbose)
		}
	}
	r.hints(&b)
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

func (r Report) findings(b *strings.Builder, verbose bool) {
	width := 0
	for _, f := range r.Findings {
		width = max(width, min(48, utf8.RuneCountInString(Escape(f.Subject))))
	}
	listed := map[string]int{}
	for _, f := range r.Findings {
		if listed[f.Kind]++; listed[f.Kind] > maxListed && !verbose {
			continue
		}
		line := fmt.Sprintf("  %-12s  %-*s  %s", f.Kind, width, Escape(f.Subject), f.detail())
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	for _, kind := range []Verdict{Invalid, Contradicted, Drifted, Inconclusive, Uncovered, Note} {
		if more := listed[string(kind)] - maxListed; more > 0 && !verbose {
			fmt.Fprintf(b, "  %-12s  and %d more (-v lists them)\n", kind, more)
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

func writeTail(b *strings.Builder, tail string, verbose bool) {
	lines := strings.Split(tail, "\n")
	if !verbose && len(lines) > 10 {
		lines = lines[len(lines)-10:]
	}
	for _, line := range lines {
		b.WriteString("    | " + Escape(line) + "\n")
	}
}

// hints tell the way out of a halt.
func (r Report) hints(b *strings.Builder) {
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
	fmt.Fprintf(b, "hint: perdure handoff repair %s --explain %s (one --explain for each finding)\n", name, quote(Escape(subject)+": why"))
	if r.Verdict == Drifted {
		fmt.Fprintf(b, "hint: perdure handoff repair %s --carry keeps the claims if no result changed; perdure diff %s record shows the edits\n", name, name)
	}
	if r.Verdict == Inconclusive {
		fmt.Fprintf(b, "hint: perdure handoff verify %s tries again\n", name)
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
