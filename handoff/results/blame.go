package results

import (
	"bytes"
	"regexp"
	"strings"
)

// Failures gives what each test that failed has to say of it, as far as tools keep that apart: go test, pytest (its
// exceptions alone), unittest, node --test and cargo. A test that failed only because one within it did is left out.
func Failures(output []byte) []string {
	all := goFailures(output)
	text := string(Text(output))
	if all == nil {
		all = goTextFailures(text)
	}
	for _, f := range []func(string) []string{pytestFailures, unitFailures, tapFailures, specFailures, cargoFailures} {
		all = append(all, f(text)...)
	}
	return all
}

func goFailures(output []byte) []string {
	said := map[string]*bytes.Buffer{}
	var failed []string
	for line := range bytes.Lines(output) {
		e, ok := parseEvent(line)
		if !ok || e.Test == "" {
			continue
		}
		id := e.Package + "." + e.Test
		switch e.Action {
		case "output":
			if said[id] == nil {
				said[id] = &bytes.Buffer{}
			}
			said[id].WriteString(e.Output)
		case "pass", "skip":
			delete(said, id)
		case "fail":
			failed = append(failed, id)
		}
	}
	var out []string
	for _, id := range Leaves(failed) {
		text := ""
		if said[id] != nil {
			text = said[id].String()
		}
		out = append(out, text)
	}
	return out
}

// Leaves leaves out the IDs that have another below them.
func Leaves(ids []string) []string {
	parents := map[string]bool{}
	for _, id := range ids {
		for i, c := range id {
			if c == '/' {
				parents[id[:i]] = true
			}
		}
	}
	var out []string
	for _, id := range ids {
		if !parents[id] {
			out = append(out, id)
		}
	}
	return out
}

var goFailLine = regexp.MustCompile(`^ *--- FAIL: (\S+) \(`)

// goTextFailures reads go test without -v: what a test says follows its line, further in.
func goTextFailures(text string) []string {
	said := map[string]string{}
	var failed []string
	open := ""
	for line := range strings.Lines(text) {
		if m := goFailLine.FindStringSubmatch(line); m != nil {
			open = m[1]
			failed = append(failed, open)
			continue
		}
		if open != "" && strings.HasPrefix(line, "    ") && !strings.HasPrefix(strings.TrimLeft(line, " "), "--- ") {
			said[open] += line
		} else {
			open = ""
		}
	}
	var out []string
	for _, id := range Leaves(failed) {
		out = append(out, said[id])
	}
	return out
}

// section is how a tool shows one failure after the other: from a line of begin to one of begin or end.
func sections(text string, begin, end *regexp.Regexp, keep func(line string) string) []string {
	var out []string
	open := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case begin.MatchString(line):
			out, open = append(out, ""), true
		case end.MatchString(line):
			open = false
		case open:
			out[len(out)-1] += keep(line)
		}
	}
	return out
}

var (
	pytestHead   = regexp.MustCompile(`^_{3,} .+ _{3,}$`)
	pytestRule   = regexp.MustCompile(`^=+ .* =+$`)
	unitRule     = regexp.MustCompile(`^={70}$|^Ran \d+ tests? in `)
	cargoHead    = regexp.MustCompile(`^---- .+ stdout ----$`)
	cargoListing = regexp.MustCompile(`^failures:$`)
	specHead     = regexp.MustCompile(`^test at \S+:\d+:\d+$`)
	tapEnd       = regexp.MustCompile(`^\s*(not )?ok \d+`)
)

func wholeLine(line string) string { return line + "\n" }

func pytestFailures(text string) []string {
	return sections(text, pytestHead, pytestRule, func(line string) string {
		if rest, ok := strings.CutPrefix(line, "E  "); ok {
			return strings.TrimLeft(rest, " ") + "\n"
		}
		return ""
	})
}

func unitFailures(text string) []string {
	return sections(text, unitBlock, unitRule, wholeLine)
}

func cargoFailures(text string) []string {
	return sections(text, cargoHead, cargoListing, wholeLine)
}

func specFailures(text string) []string {
	_, text, found := strings.Cut(text, "✖ failing tests:\n")
	if !found {
		return nil
	}
	return sections(text, specHead, tapVersion, wholeLine)
}

// tapFailures takes in what was printed before a point: a program that died says it there.
func tapFailures(text string) []string {
	var out []string
	said, failed := "", false
	shut := func() {
		if failed && !strings.Contains(said, "failureType: 'subtestsFailed'") {
			out = append(out, said)
		}
		said, failed = "", false
	}
	for line := range strings.Lines(text) {
		if tapEnd.MatchString(line) {
			if failed {
				shut()
			}
			failed = strings.HasPrefix(strings.TrimLeft(line, " "), "not ") && !strings.Contains(line, "# TODO") && !strings.Contains(line, "# SKIP")
			if !failed {
				said = ""
			}
			continue
		}
		said += line
		if failed && strings.TrimSpace(line) == "..." {
			shut()
		}
	}
	shut()
	return out
}
