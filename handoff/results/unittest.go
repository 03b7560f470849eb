package results

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	// unitName is how Python tells a test: "test_a (module.Class.test_a)", before 3.11 without the last part.
	unitName  = regexp.MustCompile(`^(\w+) \(([\w.<>]+)\)(?: (\(.*\)|\[.*\].*))?$`)
	unitPoint = regexp.MustCompile(`^(.*?) \.\.\. (.*)$`)
	unitEnd   = regexp.MustCompile(`(?:^|\s)(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$`)
	unitBlock = regexp.MustCompile(`^(FAIL|ERROR|UNEXPECTED SUCCESS): (.+)$`)
	unitRan   = regexp.MustCompile(`^Ran (\d+) tests? in [\d.]+s$`)
	unitSum   = regexp.MustCompile(`^(OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$`)
	unitCount = regexp.MustCompile(`(failures|errors|skipped|expected failures|unexpected successes)=(\d+)`)
)

// unitRun is the text of Python's unittest on its way. A test is module.Class.test; one of its subtests that fails,
// which alone are named, fails it. setUpClass and setUpModule are tests named after their class or module.
type unitRun struct {
	set     Set
	found   bool
	ran     bool   // "Ran N tests" was the last of its lines
	open    string // the test whose end is awaited
	before  string // the line before, for a test with a docstring
	verbose bool
	total   int
	counts  map[string]int
}

func parseUnittest(output []byte) (Set, bool) {
	u := &unitRun{set: newSet("unittest"), counts: map[string]int{}}
	for line := range strings.Lines(string(output)) {
		u.take(strings.TrimRight(line, "\r\n"))
	}
	if !u.found {
		return u.set, false
	}
	if u.open != "" {
		u.set.add(u.open, NotRun)
	}
	u.unnamed()
	return u.set, true
}

func (u *unitRun) take(line string) {
	m := unitRan.FindStringSubmatch(line)
	switch {
	case m != nil:
		n, _ := strconv.Atoi(m[1])
		u.total += n
		u.ran, u.open = true, ""
	case u.ran && line == "":
	case u.ran:
		u.ran = false
		if s := unitSum.FindStringSubmatch(line); s != nil {
			u.found = true
			for _, c := range unitCount.FindAllStringSubmatch(s[2], -1) {
				n, _ := strconv.Atoi(c[2])
				u.counts[c[1]] += n
			}
		}
	default:
		u.test(line)
	}
	u.before = line
}

func (u *unitRun) test(line string) {
	if b := unitBlock.FindStringSubmatch(line); b != nil {
		if id := unitID(b[2]); id != "" {
			u.set.add(id, Fail)
		}
		return
	}
	if m := unitPoint.FindStringSubmatch(line); m != nil {
		id := unitID(strings.TrimSpace(m[1]))
		if id == "" {
			id = unitID(u.before) // a docstring stands between
		}
		if id != "" {
			if u.open != "" {
				// Before its subtests' lines a test has none of its own end: they told it.
				u.set.add(u.open, Fail)
			}
			u.open, u.verbose = id, true
			u.ends(m[2])
			return
		}
	}
	if u.open != "" {
		u.ends(line)
	}
}

// ends looks for the end of the open test; what it prints may stand before.
func (u *unitRun) ends(text string) {
	m := unitEnd.FindStringSubmatch(text)
	if m == nil {
		return
	}
	outcome := Fail
	switch {
	case m[1] == "ok":
		outcome = Pass
	case m[1] == "expected failure", strings.HasPrefix(m[1], "skipped"):
		outcome = Skip
	}
	u.set.add(u.open, outcome)
	u.open = ""
}

// unitID is module.Class.test for how a test is told, "" if it isn't one.
func unitID(text string) string {
	m := unitName.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	name, place := m[1], m[2]
	switch {
	case strings.HasSuffix(place, "_FailedTest."+name), strings.HasSuffix(place, "_FailedTest"):
		return name // a module that couldn't be imported
	case name == "setUpClass", name == "tearDownClass", name == "setUpModule", name == "tearDownModule":
		return place
	case strings.HasSuffix(place, "."+name):
		return place
	}
	return place + "." + name
}

// unnamed counts the tests that a run without -v doesn't name.
func (u *unitRun) unnamed() {
	if u.verbose || u.total == 0 {
		return
	}
	skipped := u.counts["skipped"] + u.counts["expected failures"]
	// Failures of a class's or a module's set-up are none of the tests that ran.
	u.set.Complete = false
	u.set.count("", Pass, u.total-skipped-u.set.failures())
	u.set.count("", Skip, skipped)
}
