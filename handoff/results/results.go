// Package results reads test results out of what a check printed or wrote.
//
// A check is any command. What it says about single tests decides a
// verification, not its exit status alone: `go test ./... || true` exits 0
// over failures, and a suite that lost a test still says "ok". Parse knows
// go test (JSON, and text with or without -v), cargo test, pytest, TAP and JUnit
// files; everything else is one test, named by the check's label, that passed
// if the command exited 0.
//
// IDs are `import/path.Test/sub` for Go and `classname.name` for JUnit. A Go
// package that failed as a whole (its build, its TestMain) is a test named by
// the import path; one that stopped before its last test has the outcome
// NotRun under that name, so that absent tests can be told from removed ones.
package results

import (
	"fmt"
	"regexp"
	"strings"
)

// Outcome is how one test ended.
type Outcome string

// The outcomes of a test. NotRun is a test that exists but wasn't reached.
const (
	Pass   Outcome = "pass"
	Fail   Outcome = "fail"
	Skip   Outcome = "skip"
	NotRun Outcome = "notrun"
)

// Valid tells whether o is one of the four outcomes.
func (o Outcome) Valid() bool {
	return o == Pass || o == Fail || o == Skip || o == NotRun
}

// rank orders outcomes so that two reports of one ID keep the worse.
func (o Outcome) rank() int {
	switch o {
	case Fail:
		return 3
	case NotRun:
		return 2
	case Pass:
		return 1
	}
	return 0
}

// Set is what one run of a check said.
type Set struct {
	// Tool is what was recognised: "go", "cargo", "pytest", "tap", "junit" or "exit".
	Tool  string
	Tests map[string]Outcome
	// Complete says that every test of the run is in Tests: plain text of
	// go test and pytest names only the failures.
	Complete    bool
	Note        string
	BuildFailed bool
}

func newSet(tool string) Set {
	return Set{Tool: tool, Tests: map[string]Outcome{}, Complete: true}
}

// add records an outcome and keeps the worse of two.
func (s *Set) add(id string, o Outcome) {
	if old, ok := s.Tests[id]; ok && old.rank() >= o.rank() {
		return
	}
	s.Tests[id] = o
}

func (s *Set) failures() int {
	n := 0
	for _, o := range s.Tests {
		if o == Fail {
			n++
		}
	}
	return n
}

// Parse reads the results of one run. spec is "" or "auto" (recognise it),
// "go", "go-json", "tap", "junit:GLOB" (files holds the matching files written by
// this run) or "exit". output is what the command printed, exit its status.
//
// A run with a status other than 0 always has a failure: where none was
// parsed, a test named by label failed. A run that ran no test gives an empty
// Tests, which is not a success. The error says that the results can't be
// read at all; Set then still holds what could be.
func Parse(spec string, output []byte, files map[string][]byte, exit int, label string) (Set, error) {
	set, err := parse(spec, output, files, exit, label)
	if exit != 0 && set.failures() == 0 && !nothingRan(set, exit) {
		set.add(label, Fail)
	}
	return set, err
}

// nothingRan is pytest's own status 5, and a Go run that only said that there
// was nothing to run: neither is a failure of the label.
func nothingRan(s Set, exit int) bool {
	return len(s.Tests) == 0 && s.Tool == "pytest" && exit == 5
}

func parse(spec string, output []byte, files map[string][]byte, exit int, label string) (Set, error) {
	switch {
	case spec == "exit":
		return exitOnly(exit, label), nil
	case strings.HasPrefix(spec, "junit:"):
		return parseJUnit(files)
	case spec == "go-json":
		set, found := parseGoJSON(output)
		if !found {
			return set, fmt.Errorf("no go test -json output")
		}
		return set, nil
	case spec == "go":
		if set, found := parseGo(output); found {
			return set, nil
		}
		return newSet("go"), nil
	case spec == "tap":
		set, found := parseTAP(output)
		if !found {
			return set, fmt.Errorf("no TAP output")
		}
		return set, nil
	case spec == "" || spec == "auto":
		return recognise(output, exit, label), nil
	}
	return newSet("exit"), fmt.Errorf("unknown results spec %q (auto, go, go-json, tap, junit:GLOB, exit)", spec)
}

func exitOnly(exit int, label string) Set {
	set := newSet("exit")
	set.Tests[label] = Pass
	if exit != 0 {
		set.Tests[label] = Fail
	}
	return set
}

// parseGo reads JSON where there is any, and the text beside it: one check may
// run `go test -json` and a plain one.
func parseGo(output []byte) (Set, bool) {
	js, isJSON := parseGoJSON(output)
	if isJSON {
		return js, true
	}
	return parseGoText(output)
}

func recognise(output []byte, exit int, label string) Set {
	for _, p := range []func([]byte) (Set, bool){parseGo, parseCargo, parsePytest, recogniseTAP} {
		if set, ok := p(output); ok {
			return set
		}
	}
	return exitOnly(exit, label)
}

var (
	cargoLine  = regexp.MustCompile(`^test (\S+(?: - \S.*?)?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b`)
	cargoSum   = regexp.MustCompile(`^test result: (?:ok|FAILED)\.`)
	pytestLine = regexp.MustCompile(`^(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b`)
	pytestSum  = regexp.MustCompile(`^(FAILED|ERROR|PASSED|XPASS) (\S+?\.py(?:::\S.*?)?)(?: - .*)?$`)
	pytestOpen = regexp.MustCompile(`^=+ test session starts =+$`)
	pytestSome = regexp.MustCompile(`^=+ .*\b(\d+) passed\b.*=+$`)
)

// parseCargo reads the text of cargo test; a doc test's name holds spaces.
func parseCargo(output []byte) (Set, bool) {
	set, found := newSet("cargo"), false
	for line := range strings.Lines(string(output)) {
		line = strings.TrimRight(line, "\r\n")
		if cargoSum.MatchString(line) {
			found = true
			continue
		}
		m := cargoLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		set.add(m[1], map[string]Outcome{"ok": Pass, "FAILED": Fail, "ignored": Skip}[m[2]])
	}
	return set, found
}

var pytestOutcome = map[string]Outcome{
	"PASSED": Pass, "FAILED": Fail, "ERROR": Fail, "SKIPPED": Skip, "XFAIL": Skip, "XPASS": Pass,
}

// parsePytest reads pytest's text. Without -v it names failures only; the
// rest is then one test named "pytest", so that a green run isn't empty.
func parsePytest(output []byte) (Set, bool) {
	set, found, passed := newSet("pytest"), false, false
	for line := range strings.Lines(string(output)) {
		line = strings.TrimRight(line, "\r\n")
		if pytestOpen.MatchString(line) {
			found = true
		}
		if pytestSome.MatchString(line) {
			passed = true
		}
		if m := pytestLine.FindStringSubmatch(line); m != nil {
			set.add(m[1], pytestOutcome[m[2]])
		} else if m := pytestSum.FindStringSubmatch(line); m != nil {
			set.add(m[2], pytestOutcome[m[1]])
		}
	}
	if found && passed && len(set.Tests) == set.failures() {
		set.Complete = false
		set.add("pytest", Pass)
	}
	return set, found
}
