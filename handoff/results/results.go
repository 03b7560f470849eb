// Package results reads test results out of what a check printed or wrote.
//
// A check is any command. What it says about single tests decides a
// verification, not its exit status alone: `go test ./... || true` exits 0
// over failures, and a suite that lost a test still says "ok". Parse knows
// go test (JSON, and text with or without -v), cargo test, pytest, Python's
// unittest, node --test, TAP and JUnit files; everything else is one test, named by the check's label, that passed
// if the command exited 0.
//
// IDs are `import/path.Test/sub` for Go, `classname.name` for JUnit,
// `file::Class::test[parameters]` for pytest, `module.Class.test` for unittest,
// `crate::path` for cargo (`bin/NAME::path` for a program) and `outer/inner` for
// TAP and node. Tests that share a name are told apart by their order: `name#2`.
// What a tool only counts is numbered: `passed 3`. A Go
// package that failed as a whole (its build, its TestMain) is a test named by
// the import path; one that stopped before its last test has the outcome
// NotRun under that name, so that absent tests can be told from removed ones.
package results

import (
	"fmt"
	"slices"
	"strconv"
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
	// Tool is what was recognised: "go", "cargo", "pytest", "unittest", "node"
	// (its spec reporter), "tap", "junit" or "exit"; several are joined by "+".
	Tool  string
	Tests map[string]Outcome
	// Complete says that every test of the run is in Tests: plain text of
	// go test and pytest names only the failures.
	Complete    bool
	Note        string
	BuildFailed bool
	// Stopped says why the run ended before its last test, "" if it didn't (or
	// only a Go package's, which is NotRun under its own name). Parse then
	// gives the check's label the outcome NotRun: what is absent wasn't reached.
	Stopped string

	again   map[string]int // the highest number given to a name
	counted int
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

// addNew records one of several tests that may share a name: the second is
// "name#2". Their order must be the same in each run.
func (s *Set) addNew(id string, o Outcome) {
	full := id
	for n := 2; ; n++ {
		if _, taken := s.Tests[full]; !taken {
			break
		}
		// Sisters of one name are many only in generated suites: start where the last left off.
		if s.again == nil {
			s.again = map[string]int{}
		}
		n = max(n, s.again[id]+1)
		s.again[id] = n
		full = id + "#" + strconv.Itoa(n)
	}
	s.Tests[full] = o
}

// maxCounted bounds tests that are only counted, whatever number is printed.
const maxCounted = 100_000

// count records n tests that are not named: "passed 1", "passed 2" and so on
// after prefix. One more is a new test, one less is an absent one.
func (s *Set) count(prefix string, o Outcome, n int) {
	word := map[Outcome]string{Pass: "passed ", Fail: "failed ", Skip: "skipped "}[o]
	for i := 1; i <= min(n, maxCounted-s.counted); i++ {
		s.add(prefix+word+strconv.Itoa(i), o)
	}
	s.counted += max(0, min(n, maxCounted-s.counted))
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
// "go", "go-json", "cargo", "pytest", "unittest", "node" (its spec reporter or
// TAP), "tap", "junit:GLOB" (files holds the matching files written by
// this run) or "exit". output is what the command printed, exit its status.
//
// A run with a status other than 0 always has a failure: where none was
// parsed, a test named by label failed. A run that ran no test gives an empty
// Tests, which is not a success. The error says that the results can't be
// read at all; Set then still holds what could be.
func Parse(spec string, output []byte, files map[string][]byte, exit int, label string) (Set, error) {
	set, err := parse(spec, output, files, exit, label)
	return finish(set, exit, label), err
}

// finish puts in what the status and a run cut short say.
func finish(set Set, exit int, label string) Set {
	if exit != 0 && set.failures() == 0 && !nothingRan(set, exit) {
		set.add(label, Fail)
	}
	if set.Stopped != "" {
		set.add(label, NotRun)
		set.say("stopped: " + set.Stopped)
	}
	return set
}

func (s *Set) say(note string) {
	if s.Note != "" {
		note = s.Note + "; " + note
	}
	s.Note = note
}

// nothingRan is status 5 of pytest and of unittest: no test was found, which
// is no failure of the label.
func nothingRan(s Set, exit int) bool {
	return len(s.Tests) == 0 && exit == 5 && slices.Contains([]string{"pytest", "unittest", "junit"}, s.Tool)
}

// Specs lists what Parse takes for spec; GLOB stands for a pattern of paths.
func Specs() []string {
	return []string{"auto", "go", "go-json", "cargo", "pytest", "unittest", "node", "tap", "junit:GLOB", "exit"}
}

// ValidSpec tells whether Parse knows a spec; "" is "auto".
func ValidSpec(spec string) bool {
	if glob, ok := strings.CutPrefix(spec, "junit:"); ok {
		return glob != "" && glob != "GLOB"
	}
	return spec == "" || slices.Contains(Specs(), spec)
}

func parseNode(output []byte) (Set, bool) {
	if set, ok := parseSpec(output); ok {
		return set, true
	}
	return parseTAP(output)
}

// stoppedBy tells from what is printed beside a result file that the run was cut short.
func stoppedBy(output []byte) string {
	for line := range strings.Lines(string(output)) {
		if m := pytestHalt.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil {
			return m[1] + m[2]
		}
	}
	return ""
}

func parse(spec string, output []byte, files map[string][]byte, exit int, label string) (Set, error) {
	switch {
	case spec == "exit":
		return exitOnly(exit, label), nil
	case strings.HasPrefix(spec, "junit:"):
		set, err := parseJUnit(files)
		set.Stopped = stoppedBy(output)
		return set, err
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
	decode, ok := map[string]func([]byte) (Set, bool){"cargo": parseCargo, "pytest": parsePytest, "unittest": parseUnittest, "node": parseNode}[spec]
	if !ok {
		return newSet("exit"), fmt.Errorf("unknown results spec %q (%s)", spec, strings.Join(Specs(), ", "))
	}
	set, found := decode(output)
	if !found {
		return set, fmt.Errorf("no output of %s that names or counts tests", spec)
	}
	return set, nil
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

// recognise takes every form it finds, but for those of the tools left out: a check may run the tests of two languages.
func recognise(output []byte, exit int, label string, leftOut ...string) Set {
	var all Set
	for _, p := range []func([]byte) (Set, bool){parseGo, parseCargo, parsePytest, parseUnittest, parseSpec, recogniseTAP} {
		set, ok := p(output)
		switch {
		case !ok, slices.Contains(leftOut, set.Tool):
		case all.Tests == nil:
			all = set
		default:
			all.merge(set)
		}
	}
	if all.Tests == nil {
		return exitOnly(exit, label)
	}
	return all
}

func (s *Set) merge(o Set) {
	s.Tool += "+" + o.Tool
	for id, outcome := range o.Tests {
		s.add(id, outcome)
	}
	s.Complete = s.Complete && o.Complete
	s.BuildFailed = s.BuildFailed || o.BuildFailed
	if s.Note == "" {
		s.Note = o.Note
	}
	if s.Stopped == "" {
		s.Stopped = o.Stopped
	}
}
